"""How long a lowered program takes on a machine: cycles of each hot loop by a simple model of the core and the caches.

A loop's body takes as long as the busiest of: multiply-adders, load ports, the store port, what is decoded in a cycle, and
the chain of sums that wait for each other. A nest takes the longest of that and of what each level of memory moves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvmagic.ir import For, IntImm, PrimFunc, Var
from tvmagic.ir.loop_annotations import is_kept_scalar
from tvmagic.lazy import cached_property
from tvmagic.model.core_model import Core
from tvmagic.model.guards import depending
from tvmagic.model.nest_model import NestModel, in_one_core
from tvmagic.model.nests import Access, Loop, Nest, Statement, nests_of
from tvmagic.model.traffic import Traffic
from tvmagic.model.unrolling import UNROLLED, Body, bodies_of, instructions, stays, vector_of
from tvmagic.target.machine import Machine

LAUNCH = 3_000  # cycles to start threads on a parallel loop and to wait for them
PARTS = 4  # of a parallel loop, for each thread
TRANSFER = 100  # cycles for a cache line that another core has written
ENTRY, SHORT_ENTRY = 10, 4  # cycles to enter and leave a loop, with a branch that was not foreseen if it is not short
_SHORT = 32  # iterations of a loop whose end is foreseen
_FIELDS = 16  # elements between the fields that LLVM loads and stores together
_BESIDE = 4  # values beside each other of which LLVM makes vectors
_FEW_BYTES = 256  # of memory that LLVM keeps in registers, at most
_FEWEST = 8  # iterations of which it makes vectors of lanes that are apart
_FEW = 64  # elements more that another schedule may store outside loops


@dataclass
class ProgramModel:
    """All nests of a program; `time` is the sum of their cycles."""

    nests: list[NestModel]
    machine: Machine
    whole: int  # bytes that the program touches
    bare: int = 0  # elements that it stores outside loops

    @property
    def time(self) -> float:
        """Cycles of the whole program."""
        return sum(n.time for n in self.nests)

    def like(self, other: ProgramModel) -> bool:
        """Whether another program's time may be compared with this one's: statements that are in no loop any more, as all
        were written out, are not in a model."""
        return bool(other.nests) and other.bare <= self.bare + _FEW

    @cached_property
    def _equivalent_nests(self) -> dict[Any, list[NestModel]]:
        """The nests by what they are copies of: unrolled or partitioned loops leave several."""
        found: dict[Any, list[NestModel]] = {}
        for n in self.nests:
            found.setdefault(_origin(n), []).append(n)
        return found

    def share(self, nest: NestModel) -> float:
        """The share of a nest, with those that are copies of it, in the time."""
        return sum(n.time for n in self._equivalent_nests[_origin(nest)]) / max(self.time, 1e-9)

    @property
    def hot(self) -> list[NestModel]:
        """The nests that take a tenth of the time or more, slowest first; of copies the slowest."""
        found = [max(group, key=lambda n: n.time) for group in self._equivalent_nests.values()]
        return sorted((n for n in found if self.share(n) >= 0.1), key=lambda n: -self.share(n))


def _origin(nest: NestModel) -> tuple[Any, ...]:
    """What copies of a nest have in common."""
    span = nest.nest.statements[0].node.span
    return nest.nest.name, tuple([loop.name for loop in nest.nest.loops]), span.line if span else 0


def model(
    func: PrimFunc,
    machine: Machine,
    sizes: int = 256,
    vectorized: Mapping[For, bool] | None = None,
    begun: Mapping[For, bool] | None = None,
) -> ProgramModel:
    """The model of a function of the last program for a target (`codegen.last_program`); symbolic sizes become `sizes`.

    `vectorized`: loops of which LLVM said whether it made vectors of them; of the others it is guessed. `begun`: for innermost loops with
    sums that begin there, whether code shows that they go through memory.
    """
    nests, top, bare = nests_of(func, sizes)
    traffic = Traffic(nests, top, machine)
    found: dict[Nest, NestModel] = {}
    together = Counter([_parallel_loop(nest) for nest in nests if nest.iterations])
    bodies = bodies_of(nests, machine, vectorized or {})
    groups = [_with_vectors(body, machine, vectorized or {}) for body in bodies]
    for made in (made for group in groups for made in group):
        made.begun = (begun or {}).get(made.nest.inner.node)
    for group in _written_out(groups, bodies[0].copied if bodies else set(), machine):
        found |= {made.nest: made for made in _with_cycles(group, machine, traffic, together)}
    return ProgramModel([found[n] for n in nests if found[n].iterations], machine, traffic.whole, bare)


def _with_vectors(body: Body, machine: Machine, told: Mapping[For, bool]) -> list[NestModel]:
    """The models of the nests of a body, with the vectors that LLVM makes."""
    found = [NestModel(nest, body.rolled, unrolled) for nest, unrolled in zip(body.nests, body.unrolled)]
    _vectors_of(found, machine, told)
    return found


def _written_out(groups: list[list[NestModel]], copied: set[Loop], machine: Machine) -> list[list[NestModel]]:
    """The bodies after LLVM wrote out loops once more: a loop of few vectors is gone, so that the one around it
    stays, with its sums in registers."""
    bodies = {group[0].rolled: group for group in groups}
    depth: dict[Loop, int] = {loop: n for group in groups for made in group for n, loop in enumerate(made.nest.loops)}
    for level in range(max(depth.values(), default=0), 0, -1):
        for loop in [x for x in bodies if depth[x] == level and not x.parallel]:
            if sum(_size(made, machine) for made in bodies[loop]) >= UNROLLED or any(x.parent is loop for x in bodies):
                continue
            one = isinstance(loop.node.extent, IntImm) and all(made.lanes >= loop.extent for made in bodies[loop])
            if stays(loop) and not one:  # of one vector no loop is left in any case
                continue
            group, outer = bodies.pop(loop), [loop]
            while (around := outer[0].parent) in copied and around is not None:
                outer.insert(0, around)
            assert around is not None
            for made in group:
                made.rolled, made.unrolled, made.late = around, (*outer, *made.unrolled), (*outer, *made.late)
            bodies[around] = [*bodies.get(around, []), *group]
    return list(bodies.values())


def _size(made: NestModel, machine: Machine) -> float:
    """Instructions of all iterations of a nest's loop, in the vectors that LLVM makes."""
    times = math.prod(loop.extent for loop in (made.rolled, *made.unrolled))
    apart = [a for s in made.nest.statements for a in s.loads if made.apart(a)]
    whole = instructions(made.nest.statements, machine).total * times / made.lanes
    return whole + 2 * len(apart) * times  # each lane is loaded and put into the vector


def _with_cycles(
    found: list[NestModel], machine: Machine, traffic: Traffic, together: Counter[Loop | None]
) -> list[NestModel]:
    """The models of the nests of a body, each with its share of the body's cycles."""
    for made in found:
        outer = made.nest.loops[: made.nest.loops.index(made.rolled) + 1]
        made.iterations = math.prod(loop.extent for loop in outer)
    core = Core(found, machine)
    core.fill()
    before = core.before()
    for made in found:
        nest = made.nest
        entries = made.iterations / max(made.rolled.extent, 1)
        made.core = made.iterations * made.cycles + entries * (entry(made) + before) / len(found)
        made.flops = sum(s.operations.flops() * s.lanes * (s.floating or 0) for s in nest.statements) * nest.iterations
        made.bytes = traffic.bytes(nest)
        made.transfers, made.waits = traffic.cycles(nest)
        made.time = in_one_core(made.core, made.transfers, made.waits)
        _parallel(made, machine, together)
    return found


def entry(made: NestModel) -> int:
    """Cycles to enter and to leave the innermost loop that stays one."""
    extent = made.rolled.extent
    if made.by_llvm and made.lanes_of is made.rolled:
        extent = int(extent / made.lanes)
    return SHORT_ENTRY if extent <= _SHORT else ENTRY


def _parallel_loop(nest: Nest) -> Loop | None:
    """The outermost parallel loop around a nest; None if there is none."""
    return next((loop for loop in nest.loops if loop.parallel), None)


def _parallel(made: NestModel, machine: Machine, together: Counter[Loop | None]) -> None:
    """Spread the time over threads by the outermost parallel loop, with its share of what it takes to start them: `together` counts the
    nests of each loop."""
    loops, loop = made.nest.loops, _parallel_loop(made.nest)
    if loop is None:
        return
    number, extent = loops.index(loop), max(loop.extent, 1)
    made.width = extent / -(-extent // machine.cores)
    made.launches = math.prod(loop.extent for loop in loops[:number])
    made.starts = made.launches / max(1, together[loop])
    if machine.cores > 1:
        made.sharing = sum(_transfers(s, loops, number, machine) for s in made.nest.statements) * TRANSFER / made.width
        made.time = made.time / made.width + made.starts * LAUNCH + made.sharing


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


def _vectors_of(found: list[NestModel], machine: Machine, told: Mapping[For, bool]) -> None:
    """Whether the nests of a body are vectors, or LLVM makes vectors of them."""
    apart, beside, held = _lanes_apart(found, machine), _adjacent_count(found, machine), _live_memory(found)
    for made in found:
        if all(s.lanes > 1 for s in made.nest.statements):
            continue
        loops = [made.unrolled[-1], made.rolled] if made.unrolled else [made.rolled]
        obstacles = [_obstacle(made, loop, machine, held) for loop in loops]
        made.reason = "" if "" in obstacles else obstacles[0]
        if made.unrolled and not made.reason and obstacles[-1] in ("strided", "scattered") and apart:
            made.reason, made.lanes = "lanes apart", min(_lanes(made, machine), made.rolled.extent)
        if (said := told.get(made.rolled.node)) is not None and not made.unrolled:
            far = any(_far(a, made.rolled) for a in made.nest.accesses)  # vectors of it go lane by lane
            made.reason = (made.reason if far else "") if said else made.reason or "llvm"
            made.alone = not said
        if not made.reason:
            made.lanes_of = loops[obstacles.index("")] if "" in obstacles else made.rolled
            loop = made.lanes_of is made.rolled
            made.lanes, made.masked = vector_of(made.lanes_of.extent, _lanes(made, machine), loop, machine)
            made.guarded = loop and any(made.asked(s) for s in made.nest.statements)
        elif beside > 1 and not any(made.asked(s) for s in made.nest.statements):
            made.reason, made.lanes = "", beside
        made.vectorized = made.by_llvm = not made.reason


def _live_memory(found: list[NestModel]) -> set[Var]:
    """The memory of the function of which each iteration of a body stores and loads the same few places: LLVM keeps them in
    registers."""
    accesses = [(made, a) for made in found for a in made.nest.accesses]
    loose = {
        a.data
        for made, a in accesses
        if not a.own
        or not a.address.known
        or any(k[0] not in {x.var for x in made.unrolled} for k in a.address.strides)
    }
    return {a.data for _, a in accesses if a.size <= _FEW_BYTES} - loose


def _lanes(made: NestModel, machine: Machine) -> int:
    """Values of the nest's widest type in a vector."""
    return max(1, machine.vector_bits // max(8, *(a.bits for a in made.nest.accesses)))


def _adjacent_count(found: list[NestModel], machine: Machine) -> int:
    """How many statements of a body compute values beside each other, so that LLVM makes one vector of them; 1 if too few."""
    groups: dict[object, list[Statement]] = {}
    for made in found:
        order = {loop.var: n for n, loop in enumerate(made.unrolled)}
        for s in made.nest.statements:
            keys = [(order.get(k[0], id(k[0])), *k[1:], stride) for k, stride in s.target.address.strides.items()]
            groups.setdefault((s.target.data, frozenset(keys), len(s.loads)), []).append(s)
    if any(s.lanes > 1 for group in groups.values() for s in group):
        return 1
    found_lanes = [_run(group, found[0].rolled) for group in groups.values()]
    least = min(found_lanes, default=1)
    return min(1 << least.bit_length() - 1, min(_lanes(made, machine) for made in found)) if least >= _BESIDE else 1


def _run(statements: list[Statement], rolled: Loop) -> int:
    """The length of the shortest run of places beside each other, if what is loaded for them is so, too, or is the same, or stays the
    same in all iterations, so that it is put together before."""
    first = min(statements, key=lambda s: s.target.address.offset)
    shifts = {s.target.address.offset - first.target.address.offset: s for s in statements}
    run = next(n for n in range(len(shifts) + 1) if n not in shifts)
    steps = [
        b.address.offset - a.address.offset
        for n in range(1, run)
        for a, b in zip(shifts[n - 1].loads, shifts[n].loads)
        if a.address.uses(rolled.var)
    ]
    if len(statements) % run or any(step not in (0, 1) for step in steps):
        return 1
    return run


def _lanes_apart(found: list[NestModel], machine: Machine) -> bool:
    """Whether LLVM makes vectors along the loop that is left, before it looks at what it unrolled, of lanes that are apart.

    It does on machines that store such lanes, if they are not as near as the fields of a structure and functions are called, and
    the loop is not kept scalar.
    """
    rolled = found[0].rolled
    statements = [s for made in found for s in made.nest.statements]
    if not machine.scatters or rolled.extent < _FEWEST or is_kept_scalar(rolled.node):
        return False
    return any(s.operations.calls for s in statements) and any(_far(s.target, rolled) for s in statements)


def _far(access: Access, loop: Loop) -> bool:
    """Whether the lanes of vectors along a loop would be far apart."""
    step = access.address.stride(loop.var)
    return step is None or abs(step) > _FIELDS


def _obstacle(made: NestModel, loop: Loop, machine: Machine, held: set[Var]) -> str:
    """Why LLVM makes no vectors of a loop: a word, empty if nothing is in the way.

    An innermost loop whose short loops inside were all unrolled counts as an innermost one; `held` is memory that is in registers.
    """
    if is_kept_scalar(loop.node):
        return "kept scalar"
    masks = loop is made.rolled and machine.masks
    for s in made.nest.statements:
        if s.lanes > 1:
            return "mixed"
        outside = not depending(
            s.guards, made.rolled
        )  # asked for what was unrolled: LLVM does not take it out of the loop
        if (depending(s.guards, loop) or outside) and not masks or outside and loop is made.rolled:
            if (loop is made.rolled and not outside) or made.asked(s):
                return "guard"
        if loop is not made.rolled and depending(s.choices, loop):
            return "choice"  # the comparisons of unrolled copies are not alike
        step = s.target.address.stride(loop.var)
        if s.accumulates and not s.target.address.uses(loop.var):
            if s.floating and not s.any_order:
                return "reduction"
        elif 0 < s.turns_before(loop) < _lanes(made, machine):
            return "recurrence"
        elif step is None:
            return "scattered"
        elif abs(step) != 1 and not (s.target.data in held and loop is made.rolled):
            return "strided" if step else "same place"
        for load in s.loads:
            stride = load.address.stride(loop.var)
            if (stride is None or abs(stride) > 1) and (loop is made.rolled or load.address.uses(made.rolled.var)):
                return "strided"  # else it is put together before the loop that stays one
        if s.operations.calls and loop.extent < 4:
            return "call"
    return ""
