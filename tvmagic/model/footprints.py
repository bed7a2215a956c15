"""Footprints: the bytes that accesses touch while loops run, in whole cache lines.

Accesses of a buffer that differ by constants alone are one `Pattern`, those of copies of a loop among them. What a pattern touches is
some pieces without large gaps; what several patterns of one buffer touch is taken to overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tvmagic.ir import Var
from tvmagic.model.nests import LANE, Access, Key, Loop


class Pattern(NamedTuple):
    """Accesses of a buffer that differ by constants alone: the first of them, the constants, whether one of them is a store."""

    access: Access
    offsets: tuple[int, ...]
    stored: bool


def patterns(accesses: Iterable[Access], outside: int = 0) -> list[Pattern]:
    """Accesses by pattern. Loops at the same depth below the `outside` outermost ones, with the same extents, are taken for copies
    of one loop."""
    groups: dict[object, list[Access]] = {}
    for access in accesses:
        inside = {loop.var: (n, loop.extent) for n, loop in enumerate(access.loops[outside:])}
        keys = [(inside.get(k[0], id(k[0])), *k[1:], stride) for k, stride in access.address.strides.items()]
        key = access.data, frozenset(keys), access.address.known, access.lanes
        groups.setdefault(key, []).append(access)
    return [
        Pattern(group[0], tuple(sorted({a.address.offset for a in group})), any(a.store for a in group))
        for group in groups.values()
    ]


def touched(pattern: Pattern, outside: int, line: int) -> int:
    """Bytes of whole cache lines that a pattern touches while its loops run, all but so many of the outermost."""
    access, loops = pattern.access, pattern.access.loops[outside:]
    if not access.address.known:  # anywhere in the buffer
        count = math.prod(loop.extent for loop in loops if access.address.uses(loop.var)) * access.lanes
        return min(count * line, access.size or count * line)
    total = sum(_lines(piece, access.bytes, line) for piece in pieces(pattern, outside, line)) * line
    return min(total, -(-access.size // line) * line) if access.size else total


def footprint(accesses: Iterable[Access], outside: int, line: int) -> int:
    """Bytes of whole cache lines that accesses touch while their loops run, all but so many of the outermost."""
    by_buffer: dict[Var, int] = {}
    for pattern in patterns(accesses, outside):
        data = pattern.access.data
        by_buffer[data] = max(by_buffer.get(data, 0), touched(pattern, outside, line))
    return sum(by_buffer.values())


def _extent(key: Key, lanes: int, loops: Sequence[Loop]) -> int:
    """How many values a key takes while `loops` run."""
    var, kind, by = key
    if var is LANE:
        return lanes
    extent = next((loop.extent for loop in loops if loop.var is var), 1)
    return min(extent, by) if kind == "mod" else -(-extent // by) if kind == "div" else extent


class Piece:
    """A part of what a pattern touches: where it begins, and its steps with how many of each, the longest step first.

    Constants that are a few steps apart, as those of a stencil, are one piece that takes more steps.
    """

    def __init__(self, begin: int, steps: Sequence[tuple[int, int]]) -> None:
        self.begin, self.steps = begin, steps
        self.low, self.high = [0] * len(steps), [0] * len(steps)

    def takes(self, offset: int, near: int) -> bool:
        """Add another place to begin at, if it is beside this piece, `near` elements at most, and that makes it no larger than two."""
        left, moved = offset - self.begin, list[int]()
        for n, (stride, extent) in enumerate(self.steps):
            count = round(left / stride)
            slack = near if stride == 1 else extent
            if not self.low[n] - slack <= count <= self.high[n] + slack:
                return False
            left -= count * stride
            moved.append(count)
        low, high = [min(a, b) for a, b in zip(self.low, moved)], [max(a, b) for a, b in zip(self.high, moved)]
        none = [0] * len(moved)
        if self._volume(low, high, near) > self._volume(self.low, self.high, near) + self._volume(none, none, near):
            return False
        self.low, self.high = low, high
        return True

    def _volume(self, low: Sequence[int], high: Sequence[int], near: int) -> float:
        """The number of places of a piece that begins so many steps lower and higher, with those near each other as one."""
        counts = [(s, e + b - a) for (s, e), a, b in zip(self.steps, low, high)]
        return math.prod(max(1.0, e / near) if s == 1 else e for s, e in counts)

    @property
    def moves(self) -> list[tuple[int, int]]:
        """Its steps with how many of each, the shortest step first; a step to where shorter ones lead is some more of those."""
        found: list[tuple[int, int]] = []
        for (step, count), low, high in reversed(list(zip(self.steps, self.low, self.high))):
            count += high - low
            shorter, others = found[-1] if found else (step + 1, 0)
            if step % shorter == 0 and step <= shorter * others:
                found[-1] = shorter, others + (count - 1) * (step // shorter)
            else:
                found.append((step, count))
        return found


def pieces(pattern: Pattern, outside: int, line: int) -> list[Piece]:
    """What a pattern touches while its loops run, all but so many of the outermost."""
    access = pattern.access
    extents: dict[int, int] = {1: 1}  # by steps, in elements
    for key, stride in access.address.strides.items():
        if (extent := _extent(key, access.lanes, access.loops[outside:])) > 1:
            extents[abs(stride)] = extents.get(abs(stride), 1) + extent - 1
    steps = sorted(extents.items(), reverse=True)
    near = extents[1] + line // access.bytes
    found: list[Piece] = []
    for offset in pattern.offsets:
        if not any(piece.takes(offset, near) for piece in found[-2:]):
            found.append(Piece(offset, steps))
    return found


def _lines(piece: Piece, size: int, line: int) -> int:
    """The cache lines of a piece, with elements of so many bytes: those of a run without gaps of a line, and how many runs."""
    span, runs = 1, 1
    for stride, extent in piece.moves:
        if stride * size <= span * size + line:
            span += stride * (extent - 1)
        else:
            runs *= extent
    return runs * -(-span * size // line)
