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

__all__ = ["BYTES_A_CYCLE", "LEVELS", "PAGE", "Traffic", "footprint"]

LEVELS = ("L1", "L2", "L3", "memory")
BYTES_A_CYCLE = {"L2": 48.0, "L3": 25.0, "memory": 6.0}
UNFORESEEN = (1.0, 3.0, 3.0)  # how many times longer a line takes that was not fetched before it was needed
CONFLICT = 3.0  # the same for one that another has pushed out
PAGE = 4096  # bytes of a page
QUEUE = 96  # stores that wait for their cache lines at once
LINE_BACK = 27  # cycles until a line that was pushed out is there again for a store that waits for it
STREAMS = 16  # pages that a core follows at once, to fetch their next lines before they are needed
_BELOW = ((1, "L2"), (2, "L3"), (3, "memory"))

_LARGEST_WAY = 64 << 10

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


class _Piece:
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


def _pieces(pattern: _Pattern, loops: Sequence[Loop], line: int) -> list[_Piece]:
    """What a pattern touches while `loops` run."""
    access, offsets = pattern
    extents: dict[int, int] = {1: 1}  # by steps, in elements
    for key, stride in access.address.strides.items():
        if (extent := _extent(key, access.lanes, loops)) > 1:
            extents[abs(stride)] = extents.get(abs(stride), 1) + extent - 1
    steps = sorted(extents.items(), reverse=True)
    near = extents[1] + line // access.bytes
    found: list[_Piece] = []
    for offset in offsets:
        if not any(piece.takes(offset, near) for piece in found[-2:]):
            found.append(_Piece(offset, steps))
    return found


def touched(pattern: _Pattern, loops: Sequence[Loop], line: int) -> int:
    """Bytes of whole cache lines that a pattern touches while `loops` run."""
    access, _ = pattern
    if not access.address.known:  # anywhere in the buffer
        count = math.prod(loop.extent for loop in loops if access.address.uses(loop.var)) * access.lanes
        return min(count * line, access.size or count * line)
    total = sum(_lines(piece, access.bytes, line) for piece in _pieces(pattern, loops, line)) * line
    return min(total, -(-access.size // line) * line) if access.size else total


def _lines(piece: _Piece, size: int, line: int) -> int:
    """The cache lines of a piece, with elements of so many bytes: those of a run without gaps of a line, and how many runs."""
    span, runs = 1, 1
    for stride, extent in piece.moves:
        if stride * size <= span * size + line:
            span += stride * (extent - 1)
        else:
            runs *= extent
    return runs * -(-span * size // line)


def footprint(accesses: Iterable[Access], outside: int, line: int) -> int:
    """Bytes that accesses touch while their loops run, all but so many of the outermost; patterns of one buffer are taken to
    overlap, those of copies of a loop, which differ by constants, are one pattern."""
    by_buffer: dict[Var, int] = {}
    groups: dict[object, tuple[Access, set[int]]] = {}
    for access in accesses:
        inside = {loop.var: (loop.name, loop.extent) for loop in access.loops[outside:]}
        keys = [(inside.get(k[0], id(k[0])), *k[1:], stride) for k, stride in access.address.strides.items()]
        key = (access.data, frozenset(keys), access.address.known, access.lanes)
        groups.setdefault(key, (access, set()))[1].add(access.address.offset)
    for access, offsets in groups.values():
        size = touched((access, tuple(sorted(offsets))), access.loops[outside:], line)
        by_buffer[access.data] = max(by_buffer.get(access.data, 0), size)
    return sum(by_buffer.values())


class Traffic:
    """The bytes that each nest of a program moves into each cache, per pattern of access."""

    def __init__(self, nests: Sequence[Nest], top: Sequence[Loop], machine: Machine) -> None:
        self.nests, self.top, self.machine = nests, top, machine
        self.sizes = [machine.cache(level) for level in (1, 2, 3)]
        # Bytes after which addresses fall onto the same places of a cache again; those of the last level are scattered.
        self.ways = [_way(machine.cache(1)), _way(machine.cache(2)), 0]
        self._inside: dict[Loop, int] = {}
        self._made = {s.target.data for n in nests for s in n.statements}
        self._again = self._repeated()
        every = [a for loop in top for a in loop.subtree]
        self.whole = footprint(every, 0, machine.line)

    def of_loop(self, loop: Loop) -> int:
        """Bytes that one execution of a loop touches."""
        if loop not in self._inside:
            outside = loop.subtree[0].loops.index(loop) if loop.subtree else 0
            self._inside[loop] = footprint(loop.subtree, outside, self.machine.line)
        return self._inside[loop]

    def crowded(self, pattern: _Pattern, loops: Sequence[Loop], level: int) -> float:
        """The share of a pattern's lines that push each other out of a cache, as more of them fall onto a place than it has ways."""
        way, line, access = self.ways[level - 1], self.machine.line, pattern[0]
        if not way or not access.address.known:
            return 0.0
        pieces = _pieces(pattern, loops, line)
        moves = [(s * access.bytes, e) for s, e in max((piece.moves for piece in pieces), key=len)]
        apart = math.prod(min(e, way // math.gcd(s, way)) for s, e in moves if s >= line) * len(pieces)
        near = sum(s * (e - 1) for s, e in moves if s < line)
        places = min(way // line, apart * (1 + near // line))
        return max(0.0, 1 - self.sizes[level - 1] // way * places / max(1, touched(pattern, loops, line) // line))

    def pushed(self, nest: Nest, pattern: _Pattern, level: int) -> float:
        """The share of what a pattern moves into a cache that would stay there if lines did not fall onto the same place."""
        parts = self._moved(nest, pattern, level)
        return parts[1] / max(1, sum(parts))

    def _fits(self, nest: Nest, level: int) -> int:
        """The number of the outermost loop of a nest whose data fits into a cache; that of its loops if none does."""
        size = self.sizes[level - 1]
        return next((n for n, loop in enumerate(nest.loops) if self.of_loop(loop) <= size), len(nest.loops))

    def moved(self, nest: Nest, pattern: _Pattern, level: int) -> int:
        """Bytes that a pattern moves into the cache of a level (1 to 3) from what is beyond it."""
        return sum(self._moved(nest, pattern, level))

    def _moved(self, nest: Nest, pattern: _Pattern, level: int) -> tuple[int, int]:
        """The same in two parts: by the sizes of caches alone, and what is pushed out by lines that fall onto the same place."""
        size = self.sizes[level - 1]
        if self.whole <= size and level > 2:
            return 0, 0  # all of it stays from call to call
        access = pattern[0]
        if access.size and 2 * access.size <= size and (access.data in self._made or access.scope == "local"):
            return 0, 0  # a buffer of the function that stays since it was written
        loops, fits = nest.loops, self._fits(nest, level)
        share = self.crowded(pattern, loops[fits:], level)
        if not share and fits == 0 and self.whole <= size:
            return 0, 0
        total, pushed = self._around(pattern, loops, max(fits - 1, 0)), 0.0
        if share:
            deeper = next(
                (n for n in range(fits + 1, len(loops) + 1) if not self.crowded(pattern, loops[n:], level)),
                len(loops) + 1,
            )
            pushed = share * max(0, self._around(pattern, loops, deeper - 1) - total)
        # What was written goes back: between caches beside what comes, to memory in its place.
        times = self._fresh(nest, pattern, level) * (2 if access.store and level == 3 else 1)
        return int(total * times), int(pushed * times)

    def _around(self, pattern: _Pattern, loops: Sequence[Loop], number: int) -> float:
        """Bytes that a pattern touches if only what is in a loop of this number is still there when it comes again.

        While inner loops do not move it, it is in a register.
        """
        moving = [n for n, loop in enumerate(loops) if pattern[0].address.uses(loop.var)]
        number = min(number, max(moving, default=-1) + 1)
        return touched(pattern, loops[number:], self.machine.line) * math.prod(loop.extent for loop in loops[:number])

    def _fresh(self, nest: Nest, pattern: _Pattern, level: int) -> float:
        """The share of a pattern that no loop before, beside this one or beside one around it, left in the cache."""
        access, offsets = pattern
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
                places = [(a, self._place(a, nest.loops[number + 1 :])) for a in nest.accesses if a.address.known]
                for access, (key, counts) in places:
                    if (most := known.get(key)) and all(n <= m for n, m in zip(counts, most)):
                        place = self._line(access, access.address.offset), access.address.signature
                        repeated.setdefault(access.data, set()).add(place)
                for _, (key, counts) in places:
                    known[key] = max(counts, known.get(key, counts))
                found.setdefault(nest, []).append((repeated, beside[parent]))
        return found

    def _place(self, access: Access, loops: Sequence[Loop]) -> tuple[object, tuple[int, ...]]:
        """Where an access goes while `loops` run: what it has in common with others that begin there and take the same steps, and how
        many of each step it takes."""
        inside = {loop.var for loop in loops}
        around = [
            (k, stride) for k, stride in access.address.strides.items() if k[0] not in inside and k[0] is not LANE
        ]
        (piece,) = _pieces((access, (access.address.offset,)), loops, self.machine.line)
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
        return {name: sum(self.moved(nest, p, level) for p in patterns(nest.accesses)) for level, name in _BELOW}

    def cycles(self, nest: Nest) -> dict[str, float]:
        """Cycles in which one core gets them. Lines that are pages apart cannot be foreseen, so that each is waited for."""
        found = dict.fromkeys(BYTES_A_CYCLE, 0.0)
        for pattern in patterns(nest.accesses):
            unforeseen = self._unforeseen(pattern, nest)
            for level, name in _BELOW:
                moved, pushed = self._moved(nest, pattern, level)
                times = UNFORESEEN[level - 1] if unforeseen else 1.0
                found[name] += (moved * times + pushed * CONFLICT) / BYTES_A_CYCLE[name]
            found["L2"] += self.waiting(pattern, nest)
        return found

    def waiting(self, pattern: _Pattern, nest: Nest) -> float:
        """Cycles in which stores wait for lines of the first cache that were fetched for them and pushed out again, as
        more of the stores in the queue have their lines at one place of it than it has ways."""
        access, line, way = pattern[0], self.machine.line, self.ways[0]
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

    def _unforeseen(self, pattern: _Pattern, nest: Nest) -> bool:
        """Whether the inner loops take a pattern to more pages, for less than a line each, than are followed at once."""
        access, pages = pattern[0], 1
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
