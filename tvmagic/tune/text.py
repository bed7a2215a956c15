"""A trace as the calls that a person would write: names of loops from the program, arguments that are defaults left out."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from typing import Any

from tvmagic.ir import IRModule, PrimFunc
from tvmagic.tir.schedule import BlockRV, LoopRV, Schedule, Trace
from tvmagic.tir.schedule.instruction import Instruction, argument_text

__all__ = ["schedule_lines"]


def schedule_lines(func: PrimFunc | IRModule, trace: Trace, notes: Sequence[tuple[int, str]] = ()) -> list[str]:
    """The lines of a `%%schedule` cell that make the schedule of a trace, on the schedule `sch` of `func`.

    `notes` are comments, each with the number of instructions before it. Samples stand as calls with their decisions.
    """
    kept = trace.simplified(remove_postproc=False)
    names = _names(func, kept)
    position = {id(inst): n for n, inst in enumerate(trace.insts)}
    left, lines = sorted(notes), list[str]()
    for inst in kept.insts:
        while left and left[0][0] <= position[id(inst)]:
            lines.append(f"# {left.pop(0)[1]}")
        lines.append(_line(inst, names, kept.get_decision(inst)))
    return lines


def _line(inst: Instruction, names: dict[Any, str], decision: Any) -> str:
    name_of = lambda rv: names.get(rv, "_")  # noqa: E731
    arguments = inst.kind.gather(inst.inputs, inst.attrs)
    parts: list[str] = []
    named = False  # after an argument by name the others need theirs
    for p in inst.kind.parameters:
        value = arguments[p.name]
        if p.variadic:
            parts += [argument_text(v, name_of) for v in value]
        elif p.name == "func_name" or _is_default(p, value) or (p.role == "BlocksIn" and not value):
            named = True
        else:
            text = argument_text(value, name_of)
            parts.append(f"{p.name}={text}" if named else text)
    if decision is not None:
        parts.append(f"decision={argument_text(decision, name_of)}")
    call = f"sch.{inst.kind.method}({', '.join(parts)})"
    if not any(rv in names for rv in inst.outputs):
        return call
    targets = ", ".join(name_of(rv) for rv in inst.outputs)
    return f"{targets}{',' * (inst.kind.outputs in ('Loops', 'Blocks', 'Sizes') and len(inst.outputs) == 1)} = {call}"


def _is_default(parameter: Any, value: Any) -> bool:
    default = parameter.default
    return value is None and default is None or type(value) is type(default) and value == default


def _names(func: PrimFunc | IRModule, trace: Trace) -> dict[Any, str]:
    """A name for each block, loop and size that a call takes: that of the program when it is first taken."""
    sch = Schedule(func, seed=1)
    found: dict[Any, str] = {}
    taken = {"sch", "s", "T"}

    def look(inst: Instruction, inputs: list[Any], attrs: list[Any], decision: Any) -> Any:
        for old, new in zip(inst.inputs, inputs):
            for rv, now in zip(_flat(old), _flat(new)):
                if isinstance(rv, (BlockRV, LoopRV)) and rv not in found:
                    found[rv] = _free(_own_name(sch, now), taken)
                elif rv not in found and hasattr(rv, "name") and not isinstance(rv, str):  # a sampled size
                    found[rv] = _free("size", taken)
        return decision

    trace.apply_to_schedule(sch, decision_provider=look)
    return found


def _flat(value: Any) -> list[Any]:
    return [v for item in value for v in _flat(item)] if isinstance(value, (list, tuple)) else [value]


def _own_name(sch: Schedule, rv: Any) -> str:
    node = sch.get(rv)
    return f"{node.name_hint}_block" if isinstance(rv, BlockRV) else node.loop_var.name


def _free(wanted: str, taken: set[str]) -> str:
    base = re.sub(r"\W", "_", wanted)
    base = f"_{base}" if base[:1].isdigit() or keyword.iskeyword(base) else base
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name
