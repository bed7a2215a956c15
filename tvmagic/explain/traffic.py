"""How many bytes each level of memory moves: footprints of loops against the sizes of caches.

The data of a loop stays in a cache if all that the loop touches fits there. A buffer is then loaded into the cache once
for each iteration of the loops outside the one around that loop: successive iterations of that one share what is
still there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tvmagic.codegen.target.machine import Machine
from tvmagic.explain.nests import LANE, Access, Key, Loop, Nest
from tvmagic.ir import Var

__all__ = ["LEVELS", "Traffic", "footprint"]

LEVELS = ("L1", "L2", "L3", "memory")

# An access pattern: all accesses of a buffer that differ by constants alone.
_Pattern = tuple[Access, tuple[int, ...]]


def patterns(accesses: Iterable[Access]) -> list[_Pattern]:
    """Accesses by pattern, with the constants in which they differ."""
    groups: dict[object, tuple[Access, set[int]]] = {}
    for access in accesses:
        key = (access.data, access.address.signature, access.address.known)
        groups.setdefault(key, (access, set()))[1].add(access.address.offset)
    return [(access, tuple(sorted(offsets))) for access, offsets in groups.values()]


def _extent(key: Key, lanes: int, loops: Sequence[Loop]) -> int:
    """How many values a key takes while `loops` run."""
    var, kind, by = key
    if var is LANE:
        return lanes
    extent = next((loop.extent for loop in loops if loop.var is var), 1)
    return min(extent, by) if kind == "mod" else -(-extent // by) if kind == "div" else extent


def touched(pattern: _Pattern, loops: Sequence[Loop], line: int) -> int:
    """Bytes of whole cache lines that a pattern touches while `loops` run."""
    access, offsets = pattern
    if not access.address.known:  # anywhere in the buffer
        count = math.prod(loop.extent for loop in loops if access.address.uses(loop.var)) * access.lanes
        return min(count * line, access.size or count * line)
    moves = [(abs(s), _extent(k, access.lanes, loops)) for k, s in access.address.strides.items()]
    moves = sorted((s, e) for s, e in moves if e > 1)
    if len(offsets) > 1:  # the constants as one more loop
        gaps = sorted(b - a for a, b in zip(offsets, offsets[1:]))
        moves = sorted([*moves, (gaps[0], (offsets[-1] - offsets[0]) // gaps[0] + 1 if gaps[0] == gaps[-1] else len(offsets))])  # fmt: skip
    span, runs = 1, 1  # elements of a run without gaps of a line, and how many runs
    for stride, extent in moves:
        if stride * access.bytes <= span * access.bytes + line:
            span += stride * (extent - 1)
        else:
            runs *= extent
    lines = -(-span * access.bytes // line)
    total = runs * lines * line
    return min(total, -(-access.size // line) * line) if access.size else total


def footprint(accesses: Iterable[Access], loops: Sequence[Loop], line: int) -> int:
    """Bytes that accesses touch while `loops` run; patterns of one buffer are taken to overlap."""
    by_buffer: dict[Var, int] = {}
    for pattern in patterns(accesses):
        data = pattern[0].data
        by_buffer[data] = max(by_buffer.get(data, 0), touched(pattern, loops, line))
    return sum(by_buffer.values())


class Traffic:
    """The bytes that each nest of a program moves into each cache, per pattern of access."""

    def __init__(self, nests: Sequence[Nest], top: Sequence[Loop], machine: Machine) -> None:
        self.nests, self.top, self.machine = nests, top, machine
        self.sizes = [machine.cache(level) for level in (1, 2, 3)]
        self._inside: dict[Loop, int] = {}
        every = [a for loop in top for a in loop.subtree]
        self.whole = footprint(every, [loop for n in nests for loop in n.loops], machine.line)

    def of_loop(self, loop: Loop) -> int:
        """Bytes that one execution of a loop touches."""
        if loop not in self._inside:
            self._inside[loop] = self._footprint(loop)
        return self._inside[loop]

    def _footprint(self, loop: Loop) -> int:
        by_buffer: dict[Var, int] = {}
        groups: dict[tuple[Loop, ...], list[Access]] = {}
        for access in loop.subtree:
            groups.setdefault(access.loops, []).append(access)
        for loops, accesses in groups.items():
            inside = loops[loops.index(loop) :]
            for pattern in patterns(accesses):
                data = pattern[0].data
                by_buffer[data] = max(by_buffer.get(data, 0), touched(pattern, inside, self.machine.line))
        return sum(by_buffer.values())

    def moved(self, nest: Nest, pattern: _Pattern, level: int) -> int:
        """Bytes that a pattern moves into the cache of a level (1 to 3) from what is beyond it."""
        size = self.sizes[level - 1]
        if self.whole <= size:
            return 0  # all of it stays from call to call
        access = pattern[0]
        if access.size and 2 * access.size <= size and self._made_here(access.data):
            return 0  # a buffer of the function that stays since it was written
        if access.scope == "local" and 2 * access.size <= size:
            return 0
        loops = nest.loops
        fits = next((n for n, loop in enumerate(loops) if self.of_loop(loop) <= size), len(loops))
        around = max(fits - 1, 0)
        total = touched(pattern, loops[around:], self.machine.line) * math.prod(loop.extent for loop in loops[:around])
        return total * (2 if access.store and level == 3 else 1)

    def _made_here(self, data: Var) -> bool:
        return any(s.target.data is data for n in self.nests for s in n.statements)

    def bytes(self, nest: Nest) -> dict[str, int]:
        """Bytes that a nest moves from L2, from L3 and from memory."""
        parts = patterns(nest.accesses)
        return {name: sum(self.moved(nest, p, level) for p in parts) for level, name in ((1, "L2"), (2, "L3"), (3, "memory"))}  # fmt: skip
