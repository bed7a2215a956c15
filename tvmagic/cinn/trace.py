"""What a CINN schedule has done: its steps in order, to be read and to be replayed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmagic.ir.views import viewed
from tvmagic.tir.schedule.instruction import BlockRV, Instruction, LoopRV
from tvmagic.tir.schedule.trace import Trace

if TYPE_CHECKING:
    from tvmagic.cinn.ir_schedule import IRSchedule


@dataclass(frozen=True)
class Step:
    """One step: its type, the handles that it took by name, its attributes, the handles that it gave."""

    type: str
    inputs: dict[str, list[str]]
    attrs: dict[str, Any]
    outputs: list[str]

    def __str__(self) -> str:
        given = [f"{name}={', '.join(values)}" for name, values in self.inputs.items()]
        given += [f"{name}={value}" for name, value in self.attrs.items()]
        result = f"{', '.join(self.outputs)} = " if self.outputs else ""
        return f"{result}{self.type}({'; '.join(given)})"


@viewed("cinn steps")
class ScheduleDesc:
    """The steps of a schedule so far.

    `replay(schedule)` does them again on another schedule of a like program. Handles are called `b0`, `l1`, `e2`.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace.copy()

    @property
    def steps(self) -> list[Step]:
        """The steps in order."""
        names: dict[Any, str] = {}
        return [self._step(inst, names) for inst in self.trace.insts]

    def _step(self, inst: Instruction, names: dict[Any, str]) -> Step:
        arguments = inst.kind.gather(inst.inputs, inst.attrs)
        inputs: dict[str, list[str]] = {}
        for p in inst.kind.inputs:
            values = arguments[p.name] if p.many else [arguments[p.name]]
            inputs[p.name] = [names.get(v, str(v)) for v in values]
        attrs = {p.name: arguments[p.name] for p in inst.kind.attrs}
        decision = self.trace.get_decision(inst)
        if decision is not None:
            attrs["decision"] = decision
        for rv in inst.outputs:
            letter = "b" if isinstance(rv, BlockRV) else "l" if isinstance(rv, LoopRV) else "e"
            names[rv] = f"{letter}{len(names)}"
        return Step(inst.kind.name, inputs, attrs, [names[rv] for rv in inst.outputs])

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.trace.insts)

    def __str__(self) -> str:
        return "\n".join(str(s) for s in self.steps)

    def replay(self, schedule: IRSchedule, without_post_schedule: bool = False) -> None:
        """Do the steps again on another schedule; without those after TagPostSchedule if asked."""
        insts = self.trace.insts
        if without_post_schedule:
            end = next((n for n, inst in enumerate(insts) if inst.kind.name == "TagPostSchedule"), len(insts))
            insts = insts[:end]
        decisions = {inst: d for inst, d in self.trace.decisions.items() if inst in insts}
        Trace(list(insts), decisions).apply_to_schedule(schedule.schedule)
