"""Build a TE schedule and the text of its `%%schedule` cell from decisions and their calls."""

from __future__ import annotations

from collections.abc import Iterable

from tvmagic import te
from tvmagic.notation.source import Source
from tvmagic.operators import Operator
from tvmagic.operators.scheduling import schedule_from_cell
from tvmagic.te.tensor import Tensor


def named(op: Operator, *tensors: Tensor) -> bool:
    """Whether a `%%schedule` cell has these tensors by their names."""
    return all(op.tensors.get(t.op.name) is t and t.op.name.isidentifier() for t in tensors)


def schedule_by_calls(
    op: Operator, decisions: Iterable[tuple[str, list[str]]]
) -> tuple[te.schedule.Schedule, str, list[str]]:
    """The schedule that sentences and their calls make of an operator, the text of its cell, and the sentences."""
    texts: list[str] = []
    lines: list[str] = []
    for text, calls in decisions:
        texts.append(text)
        lines += [f"# {text}", *calls]
    cell = "\n".join(lines)
    made = schedule_from_cell(op, Source(f"auto {op.name}", f"%%schedule {op.name}\n{cell}"), "auto", {})
    return made.schedule, cell, texts
