"""How many bytes each level of memory moves: footprints of loops against the sizes of caches.

What an iteration of a loop touches is still in a cache at the next one if all of it, with what other loops inside touch, fits there.
Each execution of the outermost such loop then loads a buffer into the cache once: successive iterations share what is still there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvmagic.ir import Var
from tvmagic.model.footprints import Pattern, footprint, patterns, pieces, touched
from tvmagic.model.nests import LANE, Access, Loop, Nest
from tvmagic.target.machine import Machine

LEVELS = ("L1", "L2", "L3", "memory")
BYTES_A_CYCLE = {"L2": 48.0, "L3": 25.0, "memory": 6.0}  # what caches of level 1, 2, 3 get from below
UNFORESEEN = (1.0, 3.0, 3.0)  # how many times longer a line takes that was not fetched before it was needed
CONFLICT = 3.0  # the same for one that another has pushed out
PAGE = 4096  # bytes of a page
QUEUE = 96  # stores that wait for their cache lines at once
LINE_BACK = 27  # cycles until a line that was pushed out is there again for a store that waits for it
STREAMS = 16  # pages that a core follows at once, to fetch their next lines before they are needed
_LARGEST_WAY = 64 << 10


def _lost(size: int, cache: int) -> float:
    """The share of so many bytes, touched from call to call, that a cache does not keep.

    It replaces any line: one is still there after `lost * size` bytes came with the probability `exp(-lost * size / cache)`.
    """
    lost = float(size > cache)
    for _ in range(40 if lost else 0):
        lost = 1 - math.exp(-lost * size / cache)
    return lost


class Traffic:
    """The bytes that each nest of a program moves into each cache, per pattern of access."""

    def __init__(self, nests: Sequence[Nest], top: Sequence[Loop], machine: Machine) -> None:
        self.nests, self.top, self.machine = nests, top, machine
        self.sizes = [machine.cache(level) for level in (1, 2, 3)]
        # Bytes after which addresses fall onto the same places of a cache again; those of the last level are scattered.
        self.ways = [_way(machine.cache(1)), _way(machine.cache(2)), 0]
        self._inside: dict[tuple[Loop, bool], int] = {}
        self._made = {s.target.data for n in nests for s in n.statements}
        self._again = self._repeated()
        every = [a for loop in top for a in loop.subtree]
        self.whole = footprint(every, 0, machine.line)

    def of_loop(self, loop: Loop, once: bool = False) -> int:
        """Bytes that one execution of a loop touches, or one iteration of it (`once`)."""
        if (loop, once) not in self._inside:
            outside = loop.subtree[0].loops.index(loop) + once if loop.subtree else 0
            self._inside[loop, once] = footprint(loop.subtree, outside, self.machine.line)
        return self._inside[loop, once]

    def crowded(self, pattern: Pattern, outside: int, level: int) -> float:
        """The share of the lines of a pattern, below so many loops, that push each other out of a cache, as more of them fall onto a
        place than it has ways."""
        way, line, access = self.ways[level - 1], self.machine.line, pattern.access
        if not way or not access.address.known:
            return 0.0
        parts = pieces(pattern, outside, line)
        moves = [(s * access.bytes, e) for s, e in max((piece.moves for piece in parts), key=len)]
        apart = math.prod(min(e, way // math.gcd(s, way)) for s, e in moves if s >= line) * len(parts)
        near = sum(s * (e - 1) for s, e in moves if s < line)
        places = min(way // line, apart * (1 + near // line))
        return max(0.0, 1 - self.sizes[level - 1] // way * places / max(1, touched(pattern, outside, line) // line))

    def pushed(self, nest: Nest, pattern: Pattern, level: int) -> float:
        """The share of what a pattern moves into a cache that would stay there if lines did not fall onto the same place."""
        parts = self._moved(nest, pattern, level)
        return parts[1] / max(1, sum(parts))

    def moved(self, nest: Nest, pattern: Pattern, level: int) -> int:
        """Bytes that a pattern moves into the cache of a level (1 to 3) from what is beyond it."""
        return sum(self._moved(nest, pattern, level))

    def _moved(self, nest: Nest, pattern: Pattern, level: int) -> tuple[int, int]:
        """The same in two parts: by the sizes of caches alone, and what is pushed out by lines that fall onto the same place."""
        size = self.sizes[level - 1]
        if self.whole <= size and level > 2:
            return 0, 0  # all of it stays from call to call
        access = pattern.access
        if access.size and 2 * access.size <= size and (access.data in self._made or access.scope == "local"):
            return 0, 0  # a buffer of the function that stays since it was written
        loops = nest.loops
        # The outermost loop from which an iteration leaves to the next what it touches.
        shared = next((n for n, loop in enumerate(loops) if self.of_loop(loop, once=True) <= size), len(loops) - 1)
        kept = shared == 0 and self.of_loop(loops[0]) <= size  # the whole nest stays
        inside = shared if kept else shared + 1
        share = self.crowded(pattern, inside, level)
        if not share and kept and self.whole <= size:
            return 0, 0
        total, pushed = self._around(pattern, shared), 0.0
        if share:
            deeper = next((n for n in range(inside, len(loops)) if not self.crowded(pattern, n + 1, level)), len(loops))
            pushed = share * max(0, self._around(pattern, deeper) - total)
        if shared == 0 and level > 1:
            total *= _lost(self.whole, size)  # the rest is there since the last call
        # What was written goes back: between caches beside what comes, to memory in its place.
        times = self._uncached_share(nest, pattern, level) * (2 if pattern.stored and level == 3 else 1)
        return int(total * times), int(pushed * times)

    def _around(self, pattern: Pattern, number: int) -> float:
        """Bytes that a pattern touches if only what is in a loop of this number is still there when it comes again.

        While inner loops do not move it, it is in a register.
        """
        loops = pattern.access.loops
        moving = [n for n, loop in enumerate(loops) if pattern.access.address.uses(loop.var)]
        number = min(number, max(moving, default=-1) + 1)
        return touched(pattern, number, self.machine.line) * math.prod(loop.extent for loop in loops[:number])

    def _uncached_share(self, nest: Nest, pattern: Pattern, level: int) -> float:
        """The share of a pattern that no loop before, beside this one or beside one around it, left in the cache."""
        access, offsets, _ = pattern
        fresh = 1.0
        for again, around in self._again.get(nest, []):
            before = again.get(access.data, set())
            if before and sum(self.of_loop(loop) for loop in around) <= self.sizes[level - 1]:
                known = sum((self._line(access, offset), access.address.signature) in before for offset in offsets)
                fresh = min(fresh, 1.0 - known / len(offsets))
        return fresh

    def _line(self, access: Access, offset: int) -> int:
        """The cache line that an offset of an access is in, if its buffer begins with one."""
        return offset * access.bytes // self.machine.line

    def _repeated(self) -> dict[Nest, list[tuple[dict[Var, set[object]], list[Loop]]]]:
        """For nests, and each loop of theirs with several loops inside, the accesses that one of these made before in the same lines,
        such as another copy of an unrolled loop, or another stage; with the loops beside each other."""
        beside: dict[Loop, list[Loop]] = {}
        for loop in dict.fromkeys(loop for n in self.nests for loop in n.loops):
            if loop.parent is not None:
                beside.setdefault(loop.parent, []).append(loop)
        seen: dict[Loop, dict[object, tuple[int, ...]]] = {}
        found: dict[Nest, list[tuple[dict[Var, set[object]], list[Loop]]]] = {}
        for nest in self.nests:
            for number, parent in enumerate(nest.loops):
                if len(beside.get(parent, ())) < 2:
                    continue
                known, repeated = seen.setdefault(parent, {}), dict[Var, set[object]]()
                places = [(a, self._access_key(a, number + 1)) for a in nest.accesses if a.address.known]
                for access, (key, counts) in places:
                    if (most := known.get(key)) and all(n <= m for n, m in zip(counts, most)):
                        place = self._line(access, access.address.offset), access.address.signature
                        repeated.setdefault(access.data, set()).add(place)
                for _, (key, counts) in places:
                    known[key] = max(counts, known.get(key, counts))
                found.setdefault(nest, []).append((repeated, beside[parent]))
        return found

    def _access_key(self, access: Access, outside: int) -> tuple[object, tuple[int, ...]]:
        """Where an access goes while its loops run, all but so many of the outermost: what it has in common with others that begin there
        and take the same steps, and how many of each step it takes."""
        inside = {loop.var for loop in access.loops[outside:]}
        around = [
            (k, stride) for k, stride in access.address.strides.items() if k[0] not in inside and k[0] is not LANE
        ]
        (piece,) = pieces(Pattern(access, (access.address.offset,), access.store), outside, self.machine.line)
        moves = [(step, count) for step, count in piece.moves if count > 1]
        key = (
            access.data,
            self._line(access, access.address.offset),
            frozenset(around),
            tuple(step for step, _ in moves),
        )
        return key, tuple(count for _, count in moves)

    def bytes(self, nest: Nest) -> dict[str, int]:
        """Bytes that a nest moves from L2, from L3 and from memory."""
        return {
            name: sum(self.moved(nest, p, level) for p in patterns(nest.accesses))
            for level, name in enumerate(BYTES_A_CYCLE, 1)
        }

    def cycles(self, nest: Nest, conflicts: bool = True) -> tuple[dict[str, float], float]:
        """Cycles in which one core gets them, and how many of these it waits: for lines that are pages apart, which cannot be foreseen,
        and for those that were pushed out; as if none were without `conflicts`."""
        found, by_width = dict.fromkeys(BYTES_A_CYCLE, 0.0), 0.0
        for pattern in patterns(nest.accesses):
            unforeseen = self._unforeseen(pattern, nest)
            for level, (name, width) in enumerate(BYTES_A_CYCLE.items(), 1):
                moved, pushed = self._moved(nest, pattern, level)
                pushed *= conflicts
                times = UNFORESEEN[level - 1] if unforeseen else 1.0
                found[name] += (moved * times + pushed * CONFLICT) / width
                by_width += (moved + pushed) / width
            found["L2"] += self.waiting(pattern, nest) * conflicts
        return found, max(0.0, sum(found.values()) - by_width)

    def waiting(self, pattern: Pattern, nest: Nest) -> float:
        """Cycles in which stores wait for lines of the first cache that were fetched for them and pushed out again, as
        more of the stores in the queue have their lines at one place of it than it has ways."""
        access, line, way = pattern.access, self.machine.line, self.ways[0]
        if not access.store or not access.address.known:
            return 0.0
        stores, count = _queued(access, nest.loops, self.machine)
        places: dict[int, set[int]] = {}
        for place in stores:
            places.setdefault(place // line % (way // line), set()).add(place // line)
        out = sum(max(0, len(lines) - self.sizes[0] // way) for lines in places.values())
        if not out:
            return 0.0
        return count * out / len(stores) / math.sqrt(len(places)) * LINE_BACK  # waits for several places overlap

    def _unforeseen(self, pattern: Pattern, nest: Nest) -> bool:
        """Whether the inner loops take a pattern to more pages, for less than a line each, than are followed at once."""
        access, pages = pattern.access, 1
        for loop in reversed(nest.loops):
            if access.address.uses(loop.var):
                step = access.address.stride(loop.var)
                if step is not None and abs(step) * access.bytes < PAGE:
                    break
                pages *= loop.extent
        return pages > STREAMS and access.lanes * access.bytes < self.machine.line


def _queued(access: Access, loops: Sequence[Loop], machine: Machine) -> tuple[list[int], int]:
    """Where the first stores of a nest go, in bytes, as many as wait in the queue at once; and how many stores there are.

    Elements beside each other are stored as vectors. What inner loops store at one place is stored once.
    """
    vector, places, count, run = machine.vector_bits // 8, [0], 1, access.bytes
    steps = [((access.address.stride(x.var) or 0) * access.bytes, x.extent) for x in reversed(loops)]
    moving = next((n for n, (step, extent) in enumerate(steps) if step and extent > 1), len(steps))
    for step, extent in [((access.address.lane or 1) * access.bytes, access.lanes), *steps[moving:]]:
        several = max(1, vector // abs(step)) if 0 < abs(step) <= run else 1  # that one store covers
        run = run + abs(step) * (extent - 1) if 0 < abs(step) <= run else 0
        count *= -(-extent // several)
        starts = range(0, min(extent, several * -(-QUEUE // len(places))), several)
        places = [number * step + place for number in starts for place in places]
    return places[:QUEUE], count


def _way(size: int) -> int:
    """Bytes of one of the eight or more ways of a cache, a power of two; the ways of large caches are more, not larger."""
    return min(1 << max(size // 8, 1).bit_length() - 1, _LARGEST_WAY)
