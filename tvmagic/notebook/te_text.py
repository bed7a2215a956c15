"""The text of a TE schedule: the loops that it stands for, or its stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Span
from tvmagic.notebook.text import LineOrigins, Program, node_program
from tvmagic.operators.schedule_program import program_of_schedule

_MARKS = {1: " bound to a thread", 5: " unrolled", 6: " vectorized", 7: " parallel", 8: " tensorized"}


def is_te_schedule(value: Any) -> bool:
    """Whether `value` is a TE schedule."""
    return hasattr(value, "stages") and hasattr(value, "stage_map")


def schedule_program(sch: Any, notation: str | None = None) -> Program:
    """The loops of a schedule; if it is not complete, its stages with the reason."""
    try:
        return node_program(program_of_schedule(sch), notation)
    except TVMagicError as error:
        program = stages_program(sch)
        program.lines.append(f"# no loops yet: {error.message}")
        program.origins.append(())
        program.numbers.append(())
        return program


def stages_program(sch: Any, ranges: Mapping[Any, Any] | None = None) -> Program:
    """The stages of a schedule with their loops, as lines; with the ranges of loops where given."""
    lines: list[str] = []
    origins: list[LineOrigins] = []
    numbers: list[tuple[int, ...]] = []
    for stage in sch.stages:
        place = _place(stage)
        span = stage.op.span
        origin: LineOrigins = ((span.source, span.line),) if span is not None else ()
        lines.append(f"stage {stage.op.name}: {place}")
        origins.append(origin)
        numbers.append(stage.origins())
        loops = [iv.span.origin if iv.span is not None else 0 for iv in stage.leaf_iter_vars]
        numbers += [(n, *Span.parts_of(n, 1)) if n else () for n in loops]
        for line in _loop_lines(stage, ranges):
            lines.append(line)
            origins.append(origin)
    return Program(lines, "classic", origins, numbers)


def stage_lines(stage: Any, ranges: Mapping[Any, Any] | None = None) -> list[str]:
    """A stage as lines: where it is computed, and its loops."""
    name = stage.op.name if stage.op is not None else "group"
    return [f"stage {name}: {_place(stage)}", *_loop_lines(stage, ranges)]


def _loop_lines(stage: Any, ranges: Mapping[Any, Any] | None) -> Iterator[str]:
    for iv in stage.leaf_iter_vars:
        attr = stage.iter_var_attrs.get(iv)
        kind = attr.iter_type if attr is not None and attr.iter_type else iv.iter_type
        word = "reduce" if iv.iter_type == iv.CommReduce else "for"
        found = ranges.get(iv) if ranges is not None else None
        extent = f" from {found.min}, {found.extent} times" if found is not None else ""
        yield f"    {word} {iv.var.name}{extent}{_MARKS.get(kind, '')}"


def _place(stage: Any) -> str:
    if stage.attach_stage is not None and stage.attach_ivar is not None:
        return f"at {stage.attach_stage.op.name}, loop {stage.attach_ivar.var.name}"
    return {"INLINE": "to be inlined", "INLINED_ALREADY": "inlined"}.get(stage.attach_type.name, "at the root")
