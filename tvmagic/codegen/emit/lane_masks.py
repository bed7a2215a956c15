"""The lanes in which memory may be read while an expression is emitted.

A side of a vector `Select` reads in the lanes that take it. What is inside the side has the same lanes, one for one,
as long as it is computed lane by lane; a scalar, or a vector of another number of lanes, is read if some lane takes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvmagic.codegen.text.types import lanes_name, vector_type
from tvmagic.ir import DataType, IntImm, Shuffle

BOOL = DataType("bool")


class LaneMasks:
    """The mask of an emitter of expressions: `mask` is the name of a value of `mask_lanes` lanes, None if all are on."""

    context: Any
    out: Any
    lane: Any
    join: Any
    splat: Any

    def __init__(self) -> None:
        self.mask: str | None = None
        self.mask_lanes = 1

    @contextmanager
    def masked(self, mask: str | None, lanes: int) -> Iterator[None]:
        """Inside, memory is read in those lanes alone, of a number that the lane code `lanes` says, that `mask` holds for."""
        outer = self.mask, self.mask_lanes
        self.mask, self.mask_lanes = mask, lanes
        yield
        self.mask, self.mask_lanes = outer

    def also_masked(self, mask: str, lanes: int) -> str:
        """The lanes of `mask` that are on in the mask around them, too."""
        if self.mask is None:
            return mask
        return self.out.op(f"and {vector_type('i1', lanes)} {self.mask_of(lanes)}, {mask}")

    def mask_of(self, lanes: int) -> str:
        """The mask for a number of lanes; if it has another one, all are on if some lane of it is."""
        assert self.mask is not None
        if lanes == self.mask_lanes:
            return self.mask
        return self.splat(self.some_lane(self.mask, self.mask_lanes), BOOL, lanes)

    def some_lane(self, mask: str, lanes: int) -> str:
        """Whether some lane of a mask is on."""
        if lanes == 1:
            return mask
        kind = vector_type("i1", lanes)
        if lanes < 0:
            name = self.context.text.declare(f"llvm.vector.reduce.or.{lanes_name(lanes)}i1", "i1", kind)
            return self.out.op(f"call i1 {name}({kind} {mask})")
        bits = self.out.op(f"bitcast {kind} {mask} to i{lanes}")
        return self.out.op(f"icmp ne i{lanes} {bits}, 0")

    def mask_of_picked(self, shuffle: Shuffle, first: int, lanes: int) -> str | None:
        """The mask of the `lanes` lanes from `first` of a shuffle's vectors: those that are picked for a lane that is on."""
        if self.mask is None:
            return None
        if self.mask_lanes != len(shuffle.indices) or lanes < 1:
            return self.mask_of(lanes)
        users: list[list[int]] = [[] for _ in range(lanes)]
        for user, index in enumerate(shuffle.indices):
            if isinstance(index, IntImm) and first <= index.value < first + lanes:
                users[index.value - first].append(user)
        return self._mask_of_users(users)

    def mask_of_elements(self, lanes: int, each: int) -> str:
        """The mask of `lanes` elements of `each` lanes: those of which some lane is on."""
        if each == 1 or lanes < 1 or self.mask_lanes != lanes * each:
            return self.mask_of(lanes)
        return self._mask_of_users([list(range(i * each, (i + 1) * each)) for i in range(lanes)])

    def _mask_of_users(self, users: list[list[int]]) -> str:
        """A mask whose lanes are on if one of their users, lanes of this mask, is."""
        bits = []
        for lanes in users:
            bit = "false"
            for lane in lanes:
                one = self.lane(self.mask, BOOL.with_lane_code(self.mask_lanes), lane)
                bit = one if bit == "false" else self.out.op(f"or i1 {bit}, {one}")
            bits.append(bit)
        return self.join(bits, BOOL)
