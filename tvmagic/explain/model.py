"""How long a lowered program takes on a machine: cycles of each hot loop by a simple model of the core and the caches.

A loop's body takes as long as the busiest of: multiply-adders, load ports, the store port, what is decoded in a cycle, and
the chain of sums that wait for each other. A nest takes the longest of that and of what each level of memory moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tvmagic.codegen.memory import WIDEST_SHUFFLE
from tvmagic.codegen.target.machine import Machine
from tvmagic.explain.nests import Access, Loop, Nest, Statement, nests_of
from tvmagic.explain.traffic import Traffic, patterns
from tvmagic.ir import For, PrimFunc
from tvmagic.ir.query import variables_in

__all__ = ["LAUNCH", "NestModel", "ProgramModel", "model"]

BYTES_A_CYCLE = {"L2": 32.0, "L3": 14.0, "memory": 6.0}
LAUNCH = 3_000  # cycles to start threads on a parallel loop and to wait for them
PARTS = 4  # of a parallel loop, for each thread
TRANSFER = 100  # cycles for a cache line that another core has written
OVERLAP = 0.2  # share of the shorter of computing and moving that does not hide behind the longer
ENTRY, SHORT_ENTRY = 10, 4  # cycles to enter and leave a loop, with a branch that was not foreseen if it is not short
_SHORT, _WRITTEN_OUT = 32, 16  # iterations of a loop whose end is foreseen; of one that LLVM leaves out
WIDTH = 5  # operations begun in a cycle, of all kinds
CALL, DIVISION, INDEX_DIVISION = 20, 8, 6  # operations that a function, a division, a division of indices counts as
PAGE = 3  # cycles to look up a page that is not among those at hand
_FIELDS = 16  # elements between the fields that LLVM loads and stores together
_SCATTERS = 512  # bits of vectors from which on a machine stores lanes that are apart
_PAGE, _PAGES_AT_HAND = 4096, 64  # bytes of a page; pages whose places a core has at hand
_LIKE = 0.2  # of the operations of a program, which another schedule has at least
_UNROLLED = 300  # instructions below which LLVM unrolls a loop of constant extent


@dataclass
class NestModel:
    """What the model finds for a nest; cycles are for an iteration of `rolled`, of all threads together.

    `registers`: vector registers for sums and what stays the same; `spills`: sums that find no register; `chains`: sums
    that wait for none of the others; `vectorized`: whether the statements are vectors or LLVM makes them so; `reason`: why
    not; `ports`: cycles by what is busy.
    """

    nest: Nest
    rolled: Loop
    unrolled: tuple[Loop, ...]
    iterations: int = 0
    ports: dict[str, float] = field(default_factory=dict)
    conversions: float = 0.0
    work: float = 0.0  # operations of an iteration, in vectors
    cycles: float = 0.0  # of an iteration
    registers: int = 0
    sums: int = 0
    spills: int = 0
    chains: int = 0
    latency: float = 0.0
    vectorized: bool = True
    by_llvm: bool = False
    lanes: int = 1  # that LLVM's vectors have
    lanes_of: Loop | None = None  # the loop that LLVM makes vectors of
    reason: str = ""
    flops: int = 0
    bytes: dict[str, int] = field(default_factory=dict)
    width: float = 1.0
    launches: int = 0
    sharing: float = 0.0  # cycles of lines that go from core to core, as threads write parts of them
    core: float = 0.0  # cycles in the core, of the whole nest in one thread
    time: float = 0.0  # cycles of the whole nest

    @property
    def port(self) -> str:
        """What is busiest in an iteration."""
        return max(self.ports, key=lambda name: self.ports[name]) if self.ports else ""

    @property
    def moving(self) -> float:
        """Cycles that the memories need, in one thread."""
        return max(self.bytes[name] / rate for name, rate in BYTES_A_CYCLE.items())

    @property
    def in_core(self) -> bool:
        """Whether the core is what limits the nest, or close to it."""
        return self.core >= 0.7 * self.moving

    @property
    def limit(self) -> str:
        """What limits the nest: a port of the core or a level of memory."""
        times = {name: self.bytes[name] / rate for name, rate in BYTES_A_CYCLE.items()}
        worst = max(times, key=lambda name: times[name])
        return worst if times[worst] > self.core else self.port


@dataclass
class ProgramModel:
    """All nests of a program; `time` is the sum of their cycles."""

    nests: list[NestModel]
    machine: Machine
    whole: int  # bytes that the program touches

    @property
    def time(self) -> float:
        """Cycles of the whole program."""
        return sum(n.time for n in self.nests)

    def like(self, other: ProgramModel) -> bool:
        """Whether another program's time may be compared with this one's: statements that are in no loop any more, as all
        were written out, are not in a model."""
        flops, others = (sum(n.flops for n in m.nests) for m in (self, other))
        return bool(other.nests) and others >= _LIKE * flops

    @cached_property
    def _alike(self) -> dict[Any, list[NestModel]]:
        """The nests by what they are copies of: unrolled or partitioned loops leave several."""
        found: dict[Any, list[NestModel]] = {}
        for n in self.nests:
            found.setdefault(_origin(n), []).append(n)
        return found

    def share(self, nest: NestModel) -> float:
        """The share of a nest, with those that are copies of it, in the time."""
        return sum(n.time for n in self._alike[_origin(nest)]) / max(self.time, 1e-9)

    @property
    def hot(self) -> list[NestModel]:
        """The nests that take a tenth of the time or more, slowest first; of copies the slowest."""
        found = [max(group, key=lambda n: n.time) for group in self._alike.values()]
        return sorted((n for n in found if self.share(n) >= 0.1), key=lambda n: -self.share(n))


def _origin(nest: NestModel) -> tuple[Any, ...]:
    """What copies of a nest have in common."""
    span = nest.nest.statements[0].node.span
    return nest.nest.name, tuple([loop.name for loop in nest.nest.loops]), span.line if span is not None else 0


def model(
    func: PrimFunc, machine: Machine, sizes: int = 256, vectorized: Mapping[For, bool] | None = None
) -> ProgramModel:
    """The model of a lowered function; symbolic sizes become `sizes`.

    `vectorized`: loops of which LLVM said whether it made vectors of them; of the others it is guessed.
    """
    nests, top = nests_of(func, sizes)
    traffic = Traffic(nests, top, machine)
    found = [_of_nest(nest, machine, traffic, vectorized or {}) for nest in nests]
    return ProgramModel([n for n in found if n.iterations], machine, traffic.whole)


def _of_nest(nest: Nest, machine: Machine, traffic: Traffic, told: Mapping[For, bool]) -> NestModel:
    rolled, unrolled = _rolled(nest)
    made = NestModel(nest, rolled, unrolled)
    outer = nest.loops[: nest.loops.index(rolled) + 1]
    made.iterations = math.prod(loop.extent for loop in outer)
    _vectors(made, machine, told)
    _Body(made, machine).fill()
    entries = made.iterations / max(rolled.extent, 1)
    made.core = made.iterations * made.cycles + entries * entry(made)
    made.flops = sum(s.operations.flops() * s.lanes * (s.floating or 0) for s in nest.statements) * nest.iterations
    made.bytes = traffic.bytes(nest)
    made.time = max(made.core, made.moving) + OVERLAP * min(made.core, made.moving)
    _parallel(made, machine)
    return made


def entry(made: NestModel) -> int:
    """Cycles to enter and to leave the innermost loop that stays one; few vectors are written out without a loop."""
    extent = made.rolled.extent
    if made.by_llvm and made.lanes_of is made.rolled:
        extent //= max(1, made.lanes)
        if extent <= _WRITTEN_OUT:
            return 0
    return SHORT_ENTRY if extent <= _SHORT else ENTRY


def _rolled(nest: Nest) -> tuple[Loop, tuple[Loop, ...]]:
    """The innermost loop that stays a loop, and those inside it that LLVM unrolls."""
    size = sum(_instructions(s) for s in nest.statements)
    size *= max(1, *(s.lanes // 8 for s in nest.statements)) if nest.statements else 1
    number = len(nest.loops) - 1
    while number > 0 and not nest.loops[number].parallel and size * nest.loops[number].extent < _UNROLLED:
        size *= nest.loops[number].extent
        number -= 1
    return nest.loops[number], nest.loops[number + 1 :]


def _instructions(s: Statement) -> int:
    """Instructions of a statement as LLVM counts them before it unrolls a loop: an address takes two."""
    loads = {(a.data, a.address.signature, a.address.offset) for a in s.loads}
    o = s.operations
    count = 3 * (len(loads) - s.accumulates) + 2 * o.fused + max(o.simple, 0) + o.divisions + o.conversions
    return count + CALL * o.calls + (1 if s.accumulates else 3)


def _parallel(made: NestModel, machine: Machine) -> None:
    """Spread the time over threads by the outermost parallel loop, with what it takes to start them."""
    loops = made.nest.loops
    number = next((n for n, loop in enumerate(loops) if loop.parallel), None)
    if number is None:
        return
    extent = max(loops[number].extent, 1)
    made.width = extent / -(-extent // machine.cores)
    made.launches = math.prod(loop.extent for loop in loops[:number])
    if machine.cores > 1:
        made.sharing = sum(_transfers(s, loops, number, machine) for s in made.nest.statements) * TRANSFER / made.width
        made.time = made.time / made.width + made.launches * LAUNCH + made.sharing


def _transfers(s: Statement, loops: tuple[Loop, ...], number: int, machine: Machine) -> float:
    """How often a cache line that a statement writes goes from core to core, as several threads write parts of it.

    Threads take the iterations in parts, four for each of them; at the place at which the memory of one part ends and that of another
    begins is a line that both write, unless a part is whole lines (arrays begin with one).
    """
    address, size, loop = s.target.address, s.target.bytes, loops[number]
    step = abs(address.stride(loop.var) or 0) * size
    moves = [(abs(address.stride(x.var) or 0) * size, x.extent) for x in loops[number + 1 :]]
    own = size * s.lanes if s.target.kind in ("contiguous", "reversed") else size
    for stride, extent in sorted(m for m in moves if m[0]):
        own += stride * (extent - 1) if stride <= own else 0
    part = -(-loop.extent // (PARTS * machine.cores)) * step
    if not step or step - own >= machine.line or part % machine.line == 0:
        return 0.0
    written = size * s.lanes * math.prod(x.extent for x in loops if address.uses(x.var))
    return written / part


# ---------------------------------------------------------------------------- vectors


def _vectors(made: NestModel, machine: Machine, told: Mapping[For, bool]) -> None:
    """Whether the statements are vectors, or LLVM makes vectors of the innermost loop."""
    if all(s.lanes > 1 for s in made.nest.statements):
        return
    loops = [made.unrolled[-1], made.rolled] if made.unrolled else [made.rolled]
    obstacles = [_obstacle(made, loop, machine) for loop in loops]
    made.reason = "" if "" in obstacles else obstacles[0]
    if made.unrolled and not made.reason and obstacles[-1] in ("strided", "scattered") and _lanes_apart(made, machine):
        made.reason = "lanes apart"
    made.by_llvm = not made.reason
    if made.by_llvm:
        made.lanes_of = loops[obstacles.index("")]
    if (said := told.get(made.rolled.node)) is not None and not made.unrolled:
        made.by_llvm = said
        made.reason = "" if said else made.reason or "llvm"
    made.vectorized = made.by_llvm


def _lanes_apart(made: NestModel, machine: Machine) -> bool:
    """Whether LLVM makes vectors along the loop that is left, before it looks at what it unrolled, of lanes that are apart.

    It does on machines that store such lanes, unless they are as near as the fields of a structure.
    """
    steps = [s.target.address.stride(made.rolled.var) for s in made.nest.statements]
    return machine.vector_bits >= _SCATTERS and any(step is None or abs(step) > _FIELDS for step in steps)


def _obstacle(made: NestModel, loop: Loop, machine: Machine) -> str:
    """Why LLVM makes no vectors of a loop: a word, empty if nothing is in the way.

    An innermost loop whose short loops inside were all unrolled counts as an innermost one.
    """
    masks = loop is made.rolled and machine.vector_bits >= 256  # loads and stores of some lanes alone
    for s in made.nest.statements:
        if s.lanes > 1:
            return "mixed"
        if depending(s.guards, loop) and not masks:
            return "guard"
        step = s.target.address.stride(loop.var)
        if s.accumulates and not s.target.address.uses(loop.var):
            if s.floating:
                return "reduction"
        elif step is None:
            return "scattered"
        elif abs(step) != 1:
            return "strided" if step else "same place"
        for load in s.loads:
            stride = load.address.stride(loop.var)
            if stride is None or abs(stride) > 1:
                return "strided"
        if s.operations.calls and loop.extent < 4:
            return "call"
    return ""


def depending(guards: Sequence[object], loop: Loop) -> list[object]:
    """The conditions that change from one iteration of a loop to the next."""
    return [g for g in guards if any(v is loop.var for v in variables_in(g))]  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- the core


class _Body:
    """The cycles of an iteration of the innermost loop that stays one."""

    def __init__(self, made: NestModel, machine: Machine) -> None:
        self.made, self.machine = made, machine
        self.free = {loop.var: loop.extent for loop in made.unrolled}
        self.lanes = 1
        if made.by_llvm:
            bits = max(a.bits for a in made.nest.accesses)
            self.lanes = max(1, machine.vector_bits // max(bits, 8))
            inner = made.lanes_of or (made.unrolled[-1] if made.unrolled else made.rolled)
            self.lanes = made.lanes = min(self.lanes, max(inner.extent, 1))

    def copies(self, access: Access) -> int:
        """Different places of an access in one iteration, by the loops that are unrolled."""
        return math.prod(extent for var, extent in self.free.items() if access.address.uses(var))

    def vectors(self, lanes: int, bits: int) -> int:
        """Registers that so many lanes take: code has one or more for each power of two in their number."""
        parts = [1 << n for n in range(lanes.bit_length()) if lanes >> n & 1]
        return sum(max(1, part * bits // self.machine.vector_bits) for part in parts)

    def stays(self, access: Access) -> bool:
        """Whether an access is at the same place in each iteration, so that a register holds it: not one lane by lane."""
        return not access.address.uses(self.made.rolled.var) and access.kind not in ("strided", "gathered")

    def fill(self) -> None:
        made, machine = self.made, self.machine
        made.conversions = self._conversions()
        work = sum(self._work(s) for s in made.nest.statements) + made.conversions
        made.work = work
        loads = self._memory([a for s in made.nest.statements for a in s.loads], made)
        stores = self._memory([s.target for s in made.nest.statements], made)
        shuffles = loads[1] + stores[1]
        made.sums, made.latency, made.chains = self._sums()
        made.registers = made.sums + self._operands()
        made.spills = max(0, made.sums + 2 - machine.vector_registers)
        index = self._index()
        guards = sum(self._guards(s) for s in made.nest.statements)
        scale = 1 / self.lanes
        made.ports = {
            "multiply-adds": work * scale / machine.fma_per_cycle,
            "loads": (loads[0] * scale + made.spills) / machine.loads_per_cycle,
            "stores": stores[0] * scale + 2 * made.spills,
            "shuffles": shuffles * scale,
            "latency": made.latency,
            "addresses": index / 2,
            "pages": self._pages(),
            "decoding": (
                (work + loads[0] / 2 + stores[0]) * scale + 2 * made.spills + shuffles + guards + index + 1.5 * scale
            )
            / WIDTH,  # fmt: skip
        }
        made.cycles = max(made.ports.values()) + 0.5 * guards

    def _runs(self, s: Statement) -> int:
        """How often a statement runs in an iteration."""
        return math.prod(self.free.values()) if self.free else 1

    def _work(self, s: Statement) -> float:
        o = s.operations
        count = o.fused + max(o.simple, 0) + DIVISION * o.divisions + CALL * o.calls + o.conversions
        return count * self._runs(s) * self.vectors(s.lanes, s.target.bits)

    def _conversions(self) -> float:
        """Conversions of an iteration: each value that is loaded is converted once, however often it is used."""
        made = self.made
        loads = {(a.data, a.address.signature, a.address.offset, a.lanes): a for s in made.nest.statements for a in s.loads if a.converted}  # fmt: skip
        bits = max((s.target.bits for s in made.nest.statements), default=32)
        return sum(self.copies(a) * self.vectors(a.lanes, bits) for a in loads.values() if not self.stays(a))

    def _memory(self, accesses: Sequence[Access], made: NestModel) -> tuple[float, float]:
        """Loads or stores of an iteration, and the shuffles that go with them."""
        moves = shuffles = 0.0
        seen: set[object] = set()
        for access in accesses:
            key = (access.data, access.address.signature, access.address.offset, access.lanes)
            if key in seen or self.stays(access):
                continue
            seen.add(key)
            count = self.copies(access)
            if shuffled(access):
                moves += count * self.vectors(access.lanes, access.bits) * abs(access.address.lane or 1)
                shuffles += count * self.vectors(access.lanes, access.bits) * (abs(access.address.lane or 1) - 1)
            elif access.kind in ("strided", "gathered"):
                moves += count * access.lanes
                shuffles += count * access.lanes
            else:
                vectors = 1 if access.kind in ("scalar", "broadcast") else self.vectors(access.lanes, access.bits)
                moves += count * vectors
                shuffles += count * vectors * (access.kind == "reversed")
        return moves, shuffles

    def _sums(self) -> tuple[int, float, int]:
        """Registers for sums, cycles that one waits for itself in an iteration, and how many do not wait for each other."""
        registers, longest = 0, 0.0
        seen: dict[object, float] = {}
        for s in self.made.nest.statements:
            if not s.accumulates or not self.stays(s.target):
                continue
            copies = self.copies(s.target)
            key = (s.target.data, s.target.address.signature, s.target.address.offset)
            if key not in seen:
                registers += copies * self.vectors(s.target.lanes, s.target.bits)
            latency = self.machine.fma_latency if s.floating else 1
            if self.made.by_llvm and not self.made.unrolled:  # a lane of a vector takes its share of the iterations
                latency /= self.lanes
            seen[key] = seen.get(key, 0.0) + latency * self._runs(s) / copies
            longest = max(longest, seen[key])
        return registers, longest, registers

    def _operands(self) -> int:
        """Registers for what an iteration loads once and uses several times."""
        loads = [a for s in self.made.nest.statements for a in s.loads if a.kind == "contiguous" and not self.stays(a)]
        keys = {(a.data, a.address.signature, a.address.offset): a for a in loads}
        return max([self.vectors(a.lanes, a.bits) for a in keys.values()], default=0) + 1

    def _index(self) -> float:
        """Operations for divisions in addresses that change inside; those of the same variables are computed once."""
        slow = {d for a in self.made.nest.accesses for d in a.address.divisions if self.made.rolled.var in d or d & set(self.free)}  # fmt: skip
        return INDEX_DIVISION * sum(math.prod(e for v, e in self.free.items() if v in d) for d in slow)

    def _pages(self) -> float:
        """Cycles for pages that are new in an iteration, if they are more than the core has at hand."""
        rolled, total = self.made.rolled, 0.0
        for access, _ in patterns(self.made.nest.accesses):
            pages = abs(access.address.stride(rolled.var) or 0) * access.bytes / _PAGE
            if pages * rolled.extent > _PAGES_AT_HAND:
                apart = [e for v, e in self.free.items() if abs(access.address.stride(v) or 0) * access.bytes >= _PAGE]
                total += min(1.0, pages) * math.prod(apart) * PAGE
        return total if total >= 1 else 0.0

    def _guards(self, s: Statement) -> float:
        changing = depending(s.guards, self.made.rolled) or [g for loop in self.made.unrolled for g in depending(s.guards, loop)]  # fmt: skip
        return 2.0 * len(changing) * self._runs(s)


def shuffled(access: Access) -> bool:
    """Whether a vector with gaps is loaded with what is between its lanes, and put together by shuffles."""
    return access.kind == "strided" and not access.store and abs(access.address.lane or 0) <= WIDEST_SHUFFLE
