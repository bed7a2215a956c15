"""Model of a CPU core: cycles per loop iteration, by the busiest port or the longest dependence chain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tvmagic.ir import Var, structural_hash
from tvmagic.ir.loop_annotations import INTERLEAVE, annotation, polls
from tvmagic.model.footprints import patterns
from tvmagic.model.nest_model import NestModel
from tvmagic.model.nests import Access, Loop, Statement
from tvmagic.model.traffic import PAGE
from tvmagic.model.unrolling import CALL, parts
from tvmagic.target.machine import Machine

WIDTH = 5  # operations begun in a cycle, of all kinds
DIVISION, INDEX_DIVISION = 8, 6  # operations that a division, a division of indices counts as
QUOTIENT = 6  # cycles of a division of two integers
FORWARD = 5  # cycles from a store to a load of the same place
AROUND = 2 * (FORWARD + 1)  # cycles of a sum that goes to the stack and back twice, as code copies all sums around
MASKED = 20  # cycles from a store of some lanes to a load of the same place, which waits until all is in the cache
WINDOW, WAITING = 300, 100  # operations, and operations on values, that a core looks ahead
LOOK_UP = 3  # cycles to look up a page that is not among those at hand
GUARD = 2  # operations for a condition: a comparison and a branch, or a mask
MASKED_STORE = 3  # stores that one of some lanes takes more
PROMOTED = 250  # loads and stores in a loop up to which LLVM keeps what is stored in registers
PLACES = 2  # cycles to take the place of a lane out of a vector of places
EXTREME = 3  # a maximum of floats waits so many times longer than a sum, as a NaN goes through
BEGUN = 4  # sums in registers from which code is taken to leave them in memory if they begin below a condition inside
SIDE_BY_SIDE = 4  # vectors of sums that LLVM makes of a sum in any order
_PAGES_AT_HAND = 64  # pages whose places a core has at hand


def shuffled(access: Access) -> bool:
    """Whether a vector with gaps is loaded with what is between its lanes, and put together by shuffles."""
    return access.kind == "strided" and not access.store and abs(access.address.lane or 0) <= Machine.widest_shuffle


def _around(made: NestModel, access: Access) -> list[Loop]:
    """The loops written out that do not move an access but are around one that does."""
    moving = [n for n, loop in enumerate(made.unrolled) if access.address.uses(loop.var)]
    return [loop for loop in made.unrolled[: max(moving, default=0)] if not access.address.uses(loop.var)]


class Core:
    """The cycles of an iteration of the loop that stays one around some nests, which are one piece of code."""

    def __init__(self, nests: Sequence[NestModel], machine: Machine) -> None:
        self.nests, self.machine = nests, machine
        self.rolled = nests[0].rolled
        self.free = {loop.var: loop.extent for made in nests for loop in made.unrolled}
        # Copies of a loop are the same loop, and what they access the same place.
        self.order = {loop.var: (n, loop.name) for made in nests for n, loop in enumerate(made.unrolled)}
        self.begun = {s.target.data for made, s in self.statements() if self._is_init_guarded(made, s)}
        moves = [self.copies(a) / self._shared(made, a) * self._outside(made, a) for made, s in self.statements() for a in (*s.loads, s.target)]  # fmt: skip
        self.masked = any(made.partly for made in nests)
        self.stored = {s.target.data for _, s in self.statements()}
        self.many = sum(moves) > PROMOTED
        # What a body stores elsewhere than in registers keeps LLVM from knowing what it loaded before.
        self.apart = any(not self.stays(s.target) for _, s in self.statements())

    # ------------------------------------------------------------------ parts of the code

    def statements(self) -> Iterator[tuple[NestModel, Statement]]:
        """The statements with their nests."""
        return ((made, s) for made in self.nests for s in made.nest.statements)

    def place(self, access: Access) -> object:
        """What accesses of the same place have in common."""
        keys = [(self.order.get(k[0], id(k[0])), k[1], k[2], stride) for k, stride in access.address.strides.items()]
        own = None if access.address.known else structural_hash(access.node)  # its place is not known
        return access.data, access.address.offset, access.lanes, frozenset(keys), access.address.loose, own

    def copies(self, access: Access) -> int:
        """Different places of an access in one iteration, by the loops that are unrolled."""
        return math.prod(extent for var, extent in self.free.items() if access.address.uses(var))

    def runs(self, s: Statement) -> int:
        """How often a statement runs in an iteration."""
        return math.prod(self.free.get(loop.var, 1) for loop in s.loops)

    def together(self, made: NestModel) -> float:
        """Iterations of the loop that are one, each in a lane of vectors."""
        return made.lanes if made.by_llvm and made.lanes_of is self.rolled else 1

    def stays(self, access: Access) -> bool:
        """Whether an access is at the same place in each iteration, so that a register holds it: none that is stored lane by lane, and
        none that is stored to with a mask, or if there are too many in a loop that was written out late; and no argument that is not
        accessed in each iteration."""
        if access.data in self.begun or not access.own and self._is_conditional(access):
            return False
        if access.data in self.stored and (self.masked or self.many and any(made.late for made in self.nests)):
            return False
        apart = access.kind in ("strided", "gathered")
        return not access.address.uses(self.rolled.var) and not (apart and (access.store or access.data in self.stored))

    def _is_conditional(self, access: Access) -> bool:
        """Whether an iteration may end before an access, as it polls for interrupts, or runs another version of the loop around it."""
        inside = access.loops[access.loops.index(self.rolled) + 1 :]
        return polls(self.rolled.node) or any(loop.is_version for loop in inside)

    def _is_init_guarded(self, made: NestModel, s: Statement) -> bool:
        """Whether code asks in each iteration whether a sum begins, so that it goes through memory. LLVM takes the condition out of
        loops that it makes vectors of, if it does not write them out, and that are not in the condition; often the first iteration, too,
        if sums are few or the condition is on one loop alone."""
        if not s.begun or not s.accumulates:
            return False
        if made.begun is not None:
            return made.begun
        if made.by_llvm:
            return made.lanes_of is not self.rolled
        places = sum(self.copies(x.target) for n, x in self.statements() if x.begun)
        return self.rolled.var in s.begun and len(s.begun) > 1 and places >= BEGUN

    # ------------------------------------------------------------------ what is busy

    def fill(self) -> None:
        """Fill in the models of the nests; each has its share of what the body takes."""
        machine = self.machine
        for made in self.nests:
            made.conversions = self._conversions(made)
            made.work = sum(self._work(s) for s in made.nest.statements) + made.conversions
        work = sum(made.work / made.lanes for made in self.nests) + sum(
            self._quotients(s) for _, s in self.statements()
        )
        loads, shuffles = self._memory([(made, a) for made, s in self.statements() for a in s.loads])
        stores, more = self._memory([(made, s.target) for made, s in self.statements()])
        shuffles += more + sum(self._between(s) for _, s in self.statements())
        sums, turns = self._sums(), self._turns()
        whole = machine.storing(machine.vector_bits // 8)
        loads, stores = loads + sums / turns, stores + whole * sums / turns + self._masked_stores()
        taken = sums + max(1, self._kept()) + 1
        spills = max(0, taken - machine.vector_registers)
        held = self._invariant_registers()
        if taken + held > machine.vector_registers:
            loads += held  # it comes from the stack
        index = self._index()
        guards = sum(GUARD * made.asked(s) / made.lanes for made, s in self.statements())
        guards += sum(GUARD * self.runs(s) / made.lanes for made, s in self.statements() if s.target.data in self.begun and made.by_llvm)  # fmt: skip
        own = 1.5 * sum(1 / self.together(made) for made in self.nests) / len(self.nests)  # to count and to go on
        begun = work + loads / 2 + stores + 2 * spills + shuffles + guards + index + own
        latency, chains = self._latency(begun, work)
        if sums <= machine.vector_registers < taken:  # they would fit alone
            latency = max(latency, machine.fma_latency + AROUND)
        ports = {
            "multiply-adds": work / machine.fma_per_cycle,
            "loads": (loads + spills) / machine.loads_per_cycle,
            "stores": stores + 2 * whole * spills,
            "shuffles": shuffles / machine.shuffles_per_cycle,
            "latency": latency,
            "addresses": index / 2,
            "pages": self._pages(),
            "decoding": begun / WIDTH,
        }
        cycles = max(ports.values()) + 0.5 * guards
        total = sum(made.work for made in self.nests)
        for made in self.nests:
            share = made.work / total if total else 1 / len(self.nests)
            made.ports = {name: value * share for name, value in ports.items()}
            made.cycles, made.latency = cycles * share, latency * share
            made.sums, made.spills, made.chains = sums, spills, chains
            made.registers = sums + self._operands(made)

    def _work(self, s: Statement) -> float:
        o, inside = s.operations, 1 - 1 / max(s.loops[-1].extent, 1)
        divisions, calls = o.divisions - inside * o.fixed_divisions, o.calls - inside * o.fixed_calls
        count = o.fused + max(o.simple, 0) + DIVISION * divisions + CALL * calls + o.conversions
        return count * self.runs(s) * parts(s.lanes, s.target.bits, self.machine)

    def _quotients(self, s: Statement) -> float:
        """Operations that divisions of integers take more in a statement, as the lanes of vectors are divided one after the other."""
        return s.operations.quotients * QUOTIENT * self.machine.fma_per_cycle * self.runs(s) * s.lanes

    def _between(self, s: Statement) -> float:
        """Shuffles that put vectors of a statement together from lanes of others."""
        return s.operations.shuffles * self.runs(s) * parts(s.lanes, s.target.bits, self.machine)

    def _conversions(self, made: NestModel) -> float:
        """Conversions of an iteration: each value that is loaded is converted once, however often it is used."""
        loads = {self.place(a): a for s in made.nest.statements for a in s.loads if a.converted}
        bits = max((s.target.bits for s in made.nest.statements), default=32)
        return sum(self.copies(a) * parts(a.lanes, bits, self.machine) for a in loads.values() if not self.stays(a))

    def _memory(self, accesses: Sequence[tuple[NestModel, Access]]) -> tuple[float, float]:
        """Loads or stores of an iteration, and the shuffles that go with them."""
        moves = shuffles = 0.0
        seen: set[object] = set()
        known: set[object] = set()
        insert = self.machine.shuffles_per_cycle / self.machine.inserts_per_cycle
        for made, access in accesses:
            key = self.place(access), made.nest if made.late and self.apart else None
            if key in seen or self.stays(access):
                continue
            seen.add(key)
            count = self.copies(access) / self._shared(made, access) * self._again(made, access)
            whole = parts(access.lanes, access.bits, self.machine)
            if access.store:
                lanes = max(
                    access.lanes // whole if access.kind in ("contiguous", "reversed") else 1,
                    self._shared(made, access),
                )
                count *= self.machine.storing(int(lanes * access.bytes))
            if shuffled(access):
                moves += count * whole * abs(access.address.lane or 1)
                shuffles += count * whole * (abs(access.address.lane or 1) - 1)
            elif made.apart(access) and (not access.store or self._with_gaps(made)):
                moves += count * made.lanes
                shuffles += count * made.lanes * (1 + self._taken_apart(made, access, known)) * insert
            elif access.kind in ("strided", "gathered"):
                moves += count * access.lanes
                shuffles += count * access.lanes * (1 + PLACES * (access.address.lane is None)) * insert
            else:
                shuffles += count * PLACES * self._lane_by_lane(made, access)
                if made.reason == "lanes apart" and access.address.uses(self.rolled.var):
                    shuffles += count * (1 if access.store else 1 + PLACES)
                moves, shuffles = (
                    moves + count * made.apart(access),
                    shuffles + count * made.apart(access),
                )
                vectors = 1 if access.kind in ("scalar", "broadcast") else whole
                moves += count * vectors
                shuffles += count * vectors * (access.kind == "reversed")
        return moves, shuffles

    def _lane_by_lane(self, made: NestModel, access: Access) -> bool:
        """Whether LLVM makes vectors of a loop although the lanes of an access are far apart, as it does on machines that have
        scatters: it computes the places as a vector and takes them apart."""
        loop = made.unrolled[-1] if made.unrolled else made.rolled
        step = access.address.stride(loop.var)
        far = step is not None and abs(step) > Machine.widest_shuffle
        return far and made.reason == "strided" and not made.alone and self.machine.scatters and loop.extent > 16

    def _with_gaps(self, made: NestModel) -> bool:
        """Whether LLVM's vectors store every second or third element and leave the others, lane by lane, as machines with scatters do."""
        loop = made.lanes_of
        if not made.by_llvm or loop is None or not self.machine.scatters:
            return False
        inside = made.unrolled[made.unrolled.index(loop) + 1 :] if loop in made.unrolled else made.unrolled
        stored: dict[Var, int] = {}
        for s in made.nest.statements:
            count = math.prod(x.extent for x in inside if s.target.address.uses(x.var))
            stored[s.target.data] = stored.get(s.target.data, 0) + count
        steps = [(s.target.data, abs(s.target.address.stride(loop.var) or 0)) for s in made.nest.statements]
        return any(stored[data] < step for data, step in steps)

    def _taken_apart(self, made: NestModel, access: Access, known: set[object]) -> int:
        """Operations to take the place of a lane out of a vector of places, if LLVM computes one, as it does where there are scatters.
        What it loads at constants from there is `known` to be so, and takes none; lanes that it stores take one for themselves."""
        if self._with_gaps(made):
            return PLACES
        key = access.data, access.address.signature
        again = not self.machine.scatters or key in known
        known.add(key)
        return 0 if again else 1

    def _shared(self, made: NestModel, access: Access) -> float:
        """How many iterations share an access, as they are the lanes of a vector."""
        if made.reason == "lanes apart":
            return 1 if access.address.uses(self.rolled.var) else made.lanes
        return 1 if made.lanes_of in made.unrolled and not access.address.uses(made.lanes_of.var) else made.lanes

    def _again(self, made: NestModel, access: Access) -> int:
        """How often a place is loaded or stored again in an iteration, as the loops outside those that move it were written out
        too late for LLVM to see that it is the same. Sums go on in registers, if there are enough, and are stored each time."""
        if not self.apart:
            return 1
        summed = not access.store and any(s.accumulates and s.target.data is access.data for s in made.nest.statements)
        vectors = self.copies(access) * parts(access.lanes, access.bits, self.machine) / self._shared(made, access)
        return 1 if summed and vectors < self.machine.vector_registers - 1 else self._outside(made, access)

    def _outside(self, made: NestModel, access: Access) -> int:
        """Copies of an access at one place, by the loops written out late that do not move it but are around one that does."""
        late = [
            x for x in _around(made, access) if x in made.late and x is not made.lanes_of
        ]  # vectors' is a loop then
        return math.prod(loop.extent for loop in late)

    def _operands(self, made: NestModel) -> int:
        """Registers for what an iteration loads once and uses several times."""
        loads = [a for s in made.nest.statements for a in s.loads if a.kind == "contiguous" and not self.stays(a)]
        keys = {self.place(a): a for a in loads}
        return max([parts(a.lanes, a.bits, self.machine) for a in keys.values()], default=0) + 1

    def _invariant_loads(self) -> Iterator[tuple[NestModel, Access]]:
        """What is loaded at the same place in each iteration, beside sums, with its nest."""
        seen = {self.place(s.target) for _, s in self.statements()}
        for made, s in self.statements():
            for access in s.loads:
                if self.stays(access) and (key := self.place(access)) not in seen:
                    seen.add(key)
                    yield made, access

    def _invariant_registers(self) -> int:
        """Registers for what is the same in each iteration, beside sums."""
        return math.ceil(sum(self._vectors(made, access) for made, access in self._invariant_loads()))

    def _vectors(self, made: NestModel, access: Access) -> float:
        """Registers that the copies of an access take."""
        return self.copies(access) / self._shared(made, access) * parts(access.lanes, access.bits, self.machine)

    def before(self) -> float:
        """Cycles to load what is the same in each iteration, before the loop; vectors of what is apart are put together."""
        cycles = 0.0
        for made, access in self._invariant_loads():
            step = access.address.stride(made.lanes_of.var) if made.lanes_of is not None else 0
            apart = made.by_llvm and made.lanes_of in made.unrolled and step not in (0, 1)
            cycles += self.copies(access) if apart else self._vectors(made, access) / self.machine.loads_per_cycle
        return cycles

    def _kept(self) -> int:
        """Registers for what is loaded in an iteration and used again after other loads."""
        found: dict[object, float] = {}
        seen: dict[object, NestModel] = {}
        for made, s in self.statements():
            for access in s.loads:
                if self.stays(access) or self.apart and made.late or made.lanes == 1 and access.lanes == 1:
                    continue
                key = self.place(access)
                again = any(loop.extent > 1 for loop in _around(made, access))
                if again or seen.setdefault(key, made) is not made:
                    found[key] = self._vectors(made, access)
        return math.ceil(max(found.values(), default=0))

    def _index(self) -> float:
        """Operations for divisions in addresses that change inside; those of the same variables are computed once."""
        slow = {d for made in self.nests for a in made.nest.accesses for d in a.address.divisions if self.rolled.var in d or d & set(self.free)}  # fmt: skip
        return INDEX_DIVISION * sum(math.prod(e for v, e in self.free.items() if v in d) for d in slow)

    def _pages(self) -> float:
        """Cycles for pages that are new in an iteration, if they are more than the core has at hand."""
        rolled, total = self.rolled, 0.0
        for access, *_ in patterns(a for made in self.nests for a in made.nest.accesses):
            pages = abs(access.address.stride(rolled.var) or 0) * access.bytes / PAGE
            if pages * rolled.extent > _PAGES_AT_HAND:
                apart = [e for v, e in self.free.items() if abs(access.address.stride(v) or 0) * access.bytes >= PAGE]
                total += min(1.0, pages) * math.prod(apart) * LOOK_UP
        return total if total >= 1 else 0.0

    def _masked_stores(self) -> float:
        """Stores that those of some lanes of a vector take more, on processors without registers for masks."""
        if self.machine.scatters:
            return 0.0
        return sum(MASKED_STORE * made.asked(s) / made.lanes for made, s in self.statements() if made.lanes > 1)

    # ------------------------------------------------------------------ what waits for itself

    def _sums(self) -> int:
        """Vector registers for sums."""
        held = {
            self.place(s.target): (made, s) for made, s in self.statements() if s.accumulates and self.stays(s.target)
        }
        each = [
            self.copies(s.target)
            * parts(s.target.lanes, s.target.bits, self.machine)
            * self._accumulator_count(made, s)
            / self._lanes_of_sum(made, s)
            for made, s in held.values()
        ]
        return math.ceil(sum(each))

    def _accumulator_count(self, made: NestModel, s: Statement) -> int:
        """How many vectors LLVM makes of one sum: several, if their order does not matter."""
        loop = made.lanes_of
        if loop is None or not self._in_lanes(made, s):
            return 1
        count = annotation(loop.node, INTERLEAVE)
        return count if isinstance(count, int) else SIDE_BY_SIDE

    def _lanes_of_sum(self, made: NestModel, s: Statement) -> float:
        """How many sums of a statement are one vector."""
        return 1 if self._in_lanes(made, s) else made.lanes

    def _in_lanes(self, made: NestModel, s: Statement) -> bool:
        """Whether one sum is in all lanes of vectors, each of which adds up a part."""
        loop = made.lanes_of if made.by_llvm else None
        return (s.any_order or not s.floating) and loop is not None and not s.target.address.uses(loop.var)

    def _turns(self) -> int:
        """Iterations in which sums stay in registers, between their load and their store."""
        return min(
            (self._length(s)[0] for _, s in self.statements() if s.accumulates and self.stays(s.target)), default=1
        )

    def _latency(self, begun: float, work: float) -> tuple[float, int]:
        """Cycles that the longest chain of sums waits for itself in an iteration, and how many sums do not wait for each other."""
        waits: dict[object, float] = {None: MASKED * self._stalls()}
        factors: dict[object, float] = {None: 1.0}
        begun_here = {self.place(s.target) for _, s in self.statements() if not s.accumulates}
        for made, s in self.statements():
            turns = s.turns_before(self.rolled)
            if not (s.accumulates or turns) or not self.runs(s):
                continue
            latency = float(self.machine.fma_latency if s.floating else 1) * (EXTREME if s.extreme else 1)
            key = self.place(s.target)
            if turns:  # a scan: what was stored is the next iteration's
                waits[key] = latency * self.runs(s) / turns
                factors[key] = self._ahead(begun * self.rolled.extent, work * self.rolled.extent)
                continue
            if self.stays(s.target) and key not in begun_here:
                latency /= self.together(made) * self._accumulator_count(made, s)
                waits[key] = waits.get(key, 0.0) + latency * self.runs(s) / self.copies(s.target)
                factors[key] = self._overlap(s, begun, work)
            elif not s.target.address.uses(self.rolled.var) and (
                s.target.data in self.begun or not s.target.own and self._is_conditional(s.target)
            ):
                waits[key] = (latency + FORWARD) * self.runs(s) / self.copies(s.target)
                factors[key] = 1.0
            elif (
                not self.stays(s.target)
                and not s.target.address.uses(s.loops[s.loops.index(self.rolled) - 1].var)
                and self.rolled.parent is not None
            ):
                waits[key] = max(waits.get(key, 0.0), (latency + FORWARD) / max(self.rolled.extent, 1))
                factors[key] = 1.0
            elif (row := self.runs(s) / self.copies(s.target)) > 1:  # sums of an iteration that wait for each other
                together = made.lanes if self._in_lanes(made, s) else self.together(made)
                waits[key] = waits.get(key, 0.0) + latency * row / together / self._accumulator_count(made, s)
                factors[key] = self._ahead(begun * together, work * together)
        return max((wait / factors[key] for key, wait in waits.items()), default=0.0), self._sums()

    def _stalls(self) -> float:
        """How often in an iteration a load waits for a store of some lanes, as vectors beside each other share the lanes that are not
        used: once for each place, but only those that are asked for if conditions are what tells lanes."""
        found = ((made, s, made.masked) for made, s in self.statements() if made.partly and s.accumulates)
        return sum((self.copies(s.target) if all_lanes else made.asked(s)) / made.lanes for made, s, all_lanes in found)

    def _overlap(self, s: Statement, begun: float, work: float) -> float:
        """How many sums are in flight at once, as a core begins the next ones before one is finished."""
        length, others = self._length(s)
        return min(self._ahead(begun * length, work * length), others)

    def _ahead(self, begun: float, work: float) -> float:
        """How many pieces of code of so many operations, and operations on values, a core works on at once."""
        return 1.0 + min(WINDOW / max(begun, 1e-9), WAITING / max(work, 1e-9))

    def _length(self, s: Statement) -> tuple[int, int]:
        """How many iterations update one place one after the other, and how many such places the loop around goes to."""
        length = 1
        for loop in reversed(s.loops[: s.loops.index(self.rolled) + 1]):
            if s.target.address.uses(loop.var):
                return length, max(loop.extent, 1)
            length *= max(loop.extent, 1)
        return length, 1
