"""Rule-based schedules, without measuring: `auto(func)` and, with the reasons, `decide(func)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvmagic.auto import (
    contraction,
    elementwise,
    full_reductions,
    fused_products,
    partial_demand,
    precomputed_operands,
    row_reductions,
    scans,
    small_dot_products,
    stencil,
    transposed_sums,
    tuple_reductions,
)
from tvmagic.auto.fallback import plain_loops
from tvmagic.auto.program import BlockInfo, Decisions, blocks_of, look
from tvmagic.auto.untiling import join_tiles
from tvmagic.errors import TVMagicError
from tvmagic.ir import ForKind, IRModule, PrimFunc
from tvmagic.operators import Operator
from tvmagic.runtime.threads import num_threads
from tvmagic.target import resolved
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule, ScheduleError

__all__ = ["Instant", "auto", "decide", "decide_for"]


@dataclass(frozen=True)
class Instant:
    """A schedule by the rules, and why: sentences, each with the number of calls in the trace before it.

    An operator with a scan, or with sums of which a part is needed, has a TE schedule, made by the calls in `te_cell`;
    `program` is then the operator.
    """

    program: Any
    schedule: Any
    decisions: list[tuple[int, str]]
    te_cell: str = ""

    @property
    def texts(self) -> list[str]:
        """The sentences."""
        return [text for _, text in self.decisions]

    @property
    def cell(self) -> str:
        """The calls as the text of a `%%schedule` cell, with a comment for each decision."""
        from tvmagic.auto.cell import cell_text

        if self.te_cell:
            return self.te_cell
        return cell_text(self.program, self.schedule.trace, self.decisions)


def auto(func: Any, target: Any = None) -> Any:
    """A schedule of a function, a module of one function or an operator for `target`, by rules and a model.

    It is a TensorIR schedule; that of an operator with a scan, which has no TensorIR function, is one of TE, and so is that of
    one which needs only a part of its sums.

    Nothing is measured. `target` is a Target or its text; by default what is compiled for. The loops are for as many cores as
    parallel loops have threads (`num_threads()`), or as the target names (`-num-cores=8`). See `decide` for the reasons.

    Raises TVMagicError if `func` is none of these or the target is not a CPU.
    """
    return decide(func, target).schedule


def decide(func: Any, target: Any = None) -> Instant:
    """`auto`'s schedule together with a sentence for each decision."""
    if isinstance(func, Operator) and scans.has_scan(func):
        schedule, cell, texts = scans.schedule_scans(func, _machine(target))
        return Instant(func, schedule, [(0, text) for text in texts], cell)
    if isinstance(func, Operator) and partial_demand.computes_parts(func):
        schedule, cell, texts = partial_demand.schedule_parts(func, _machine(target))
        return Instant(func, schedule, [(0, text) for text in texts], cell)
    program = func.to_prim_func() if hasattr(func, "to_prim_func") else func
    if not isinstance(program, (PrimFunc, IRModule)):
        raise TVMagicError(
            f"a schedule is made for a PrimFunc, an IRModule or an operator, not for `{type(func).__name__}`",
            code="auto.not_a_program",
        )
    return decide_for(program, _machine(target))


def _machine(target: Any) -> Machine:
    """The processor of a target, with as many cores as it names or as there are threads in this process."""
    chosen = resolved(target)
    return chosen.machine if chosen.attrs.get("num-cores") else replace(chosen.machine, cores=num_threads())


def decide_for(program: PrimFunc | IRModule, machine: Machine) -> Instant:
    """The schedule by the rules for a machine as it is described.

    A block that a rule turns out not to fit is left to the plain rule in a second try.
    """
    refused: set[str] = set()
    while True:
        attempt = _Attempt(program, machine, refused)
        try:
            return attempt.run()
        except ScheduleError:
            if attempt.at in refused:
                raise
            refused.add(attempt.at)


class _Attempt:
    """One pass of the rules over a program, but for blocks that they are known not to fit; `at` is the present one."""

    def __init__(self, program: PrimFunc | IRModule, machine: Machine, refused: set[str]) -> None:
        self.program = program
        self.sch = Schedule(program, error_render_level="none")
        self.machine, self.refused = machine, refused
        self.notes = Decisions(self.sch)
        self.at = ""
        self.names = {self.sch.get(block).name_hint for block in blocks_of(self.sch)}
        self.handled: set[str] = set()  # by some rule
        self.finished: set[str] = set()  # of these, what no other rule may take, although its loops look as written

    def run(self) -> Instant:
        for block in blocks_of(self.sch):
            join_tiles(self.sch, block, self.notes)
        self._each(self._inline)
        self._each(self._few)
        self._each(self._schedule_small_dot_product)
        self._each(self._factors)
        self._join()
        self._each(self._contract)
        self._each(self._turn)
        self._pairs()
        self._chains()
        self._each(self._spread)
        for block in blocks_of(self.sch):
            name = self.sch.get(block).name_hint
            if name in self.names - self.handled and self._untouched(block) and self.sch.get_loops(block):
                plain_loops(self.sch, block, self.machine, self.notes)
        return self._tidied()

    def _tidied(self) -> Instant:
        """The schedule without the calls that only looked."""
        sch = self.sch
        before, trace = sch.trace.insts, sch.trace.simplified(remove_postproc=False)
        kept = {id(inst): n for n, inst in enumerate(trace.insts)}
        places = [kept.get(id(inst)) for inst in before]
        decisions = [
            (next((n for n in places[place:] if n is not None), len(trace.insts)), text)
            for place, text in self.notes.items
        ]
        sch.trace, sch.error_render_level = trace, "detail"
        return Instant(self.program, sch, decisions)

    def _each(self, rule: Callable[[BlockInfo], object]) -> None:
        """Apply a rule to each block that is still as it was written."""
        for block in blocks_of(self.sch):
            info = look(self.sch, block)
            if info is not None and info.name not in self.refused and self._untouched(block):
                self.at = info.name
                rule(info)

    def _untouched(self, block: Any) -> bool:
        loops = [self.sch.get(loop) for loop in self.sch.get_loops(block)]
        if self.sch.get(block).name_hint in self.finished:
            return False
        return all(loop.kind == ForKind.SERIAL and not loop.annotations for loop in loops)

    def _inline(self, info: BlockInfo) -> None:
        elementwise.inline_cheap(self.sch, info, self.notes)

    def _few(self, info: BlockInfo) -> None:
        if full_reductions.is_few(info, self.machine):
            self.handled.add(info.name)
            self.finished.add(info.name)
            full_reductions.apply(self.sch, info, self.machine, self.notes)

    def _schedule_small_dot_product(self, info: BlockInfo) -> None:
        if info.name not in self.handled and small_dot_products.is_short(info, self.machine):
            self.handled.add(info.name)
            self.finished.add(info.name)
            small_dot_products.apply(self.sch, info, self.machine, self.notes)

    def _factors(self, info: BlockInfo) -> None:
        precomputed_operands.compute_factors(self.sch, info, self.notes)

    def _join(self) -> None:
        """Products together with the rows before them, from the last block back."""
        infos = [i for b in blocks_of(self.sch) if (i := look(self.sch, b)) is not None and self._untouched(b)]
        for number, out in reversed(list(enumerate(infos))):
            names = {out.name}
            if out.name in self.handled | self.refused:
                continue
            found = fused_products.joined_before(
                self.sch, out, [i for i in infos[:number] if i.name not in self.handled], self.machine
            )
            if found is not None:
                self.at = out.name
                names |= {i.name for i in found.chain.members}
                self.handled |= names
                self.finished |= names
                fused_products.apply(self.sch, found, self.machine, self.notes)

    def _contract(self, info: BlockInfo) -> None:
        plan = contraction.plan_contraction(info, self.machine)
        if plan is not None:
            self.handled.add(info.name)
            contraction.apply(self.sch, plan, self.machine, self.notes)

    def _turn(self, info: BlockInfo) -> None:
        name = (
            transposed_sums.turn_sums(self.sch, info, self.machine, self.notes)
            if info.name not in self.handled
            else None
        )
        if name is not None:
            self.handled.add(name)
            self.finished.add(name)

    def _pairs(self) -> None:
        for block in blocks_of(self.sch):
            found = tuple_reductions.pairs_of(self.sch, block, self.machine)
            if found is not None and found.name not in self.refused and self._untouched(block):
                self.at = found.name
                self.handled.add(found.name)
                self.finished.add(found.name)
                tuple_reductions.apply(self.sch, found, self.machine, self.notes)

    def _chains(self) -> None:
        """Chains that share rows, from the last block of the program back."""
        done: set[str] = set()
        while True:
            infos = [i for b in blocks_of(self.sch) if (i := look(self.sch, b)) is not None and self._untouched(b)]
            infos = [i for i in infos if i.name not in done and i.name not in self.refused]
            if not infos:
                return
            out = infos[-1]
            done.add(out.name)
            chain = row_reductions.chain_before(self.sch, out, infos[:-1])
            if chain is not None:
                self.at = out.name
                done |= {i.name for i in chain.blocks}
                self.handled |= {i.name for i in chain.blocks}
                row_reductions.apply(self.sch, chain, self.machine, self.notes)
                continue
            pipeline = stencil.pipeline_before(self.sch, out, infos[:-1])
            if pipeline is not None:
                self.at = out.name
                done |= {i.name for i in pipeline.members}
                self.handled |= {out.name, *[i.name for i in pipeline.members]}
                stencil.apply(self.sch, pipeline, self.machine, self.notes)

    def _spread(self, info: BlockInfo) -> None:
        if not info.reduced and info.name not in self.handled:
            self.handled.add(info.name)
            elementwise.spread(self.sch, info, self.machine, self.notes)
