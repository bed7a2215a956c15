"""Schedule operators that read only part of a stage, such as the last row of a product.

A TensorIR function computes all of a stage; a TE schedule computes what is read, as bounds inference finds it. Where that
is much less, the schedule is one of TE: stages that are cheap where they are read, and loops in parallel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tvmagic import te
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.auto.fallback import ENOUGH
from tvmagic.auto.te_cell import named, schedule_by_calls
from tvmagic.errors import TVMagicError
from tvmagic.ir import Call, IntImm, IterVar, ProducerLoad
from tvmagic.ir.query import contains, nodes_of
from tvmagic.operators import Operator
from tvmagic.target.machine import Machine
from tvmagic.te.tensor import ComputeOp

_CHUNK = 256  # sums side by side, which stay in the first cache
_MUCH = 2.0  # how many times more than is needed a TensorIR function computes, from where on it is left alone


class _Needed:
    """What of each stage is needed: its axes with the number of their iterations."""

    def __init__(self, op: Operator) -> None:
        schedule = op.te_schedule().normalize()
        ranges = te.schedule.InferBound(schedule)
        self.stages = [s.op for s in schedule.stages if isinstance(s.op, ComputeOp)]
        self.extents = {iv: ranges[iv].extent for s in self.stages for iv in (*s.axis, *s.reduce_axis)}
        self.readers = {s: [r for r in self.stages if any(t.op is s for t in r.input_tensors)] for s in self.stages}

    def count(self, axis: IterVar) -> int | None:
        extent = self.extents[axis]
        return extent.value if isinstance(extent, IntImm) else None

    def work(self, stage: ComputeOp, whole: bool) -> int | None:
        """How often the stage's expression is computed; None if that is not a number."""
        sizes = [a.dom.extent if whole and a.dom is not None else self.extents[a] for a in stage.axis]
        sizes += [self.extents[a] for a in stage.reduce_axis]
        numbers = [s.value for s in sizes if isinstance(s, IntImm)]
        return math.prod(numbers) if len(numbers) == len(sizes) else None


def computes_parts(op: Operator) -> bool:
    """Whether the sums of the operator are needed in part only, and much of the time of computing all would be lost."""
    if op.prim_func is not None or len({t.op for t in op.outputs}) == len(op.tensors) - len(op.inputs):
        return False
    try:
        needed = _Needed(op)
    except TVMagicError:
        return False
    sums = [s for s in needed.stages if s.reduce_axis]
    all_, some = [[needed.work(s, whole) for s in sums] for whole in (True, False)]
    if None in all_ or None in some:
        return False
    return sum(w for w in all_ if w) > max(_MUCH * sum(w for w in some if w), ENOUGH)


def schedule_parts(op: Operator, machine: Machine) -> tuple[te.schedule.Schedule, str, list[str]]:
    """The TE schedule of such an operator, the text of its cell, and a sentence for each decision."""
    return schedule_by_calls(op, _decisions(op, _Needed(op), machine))


def _decisions(op: Operator, needed: _Needed, machine: Machine) -> Iterator[tuple[str, list[str]]]:
    """A sentence for each decision, and its calls."""
    for stage in needed.stages:
        name = stage.name
        if not named(op, stage.output(0)):
            continue
        if _is_inlined(op, stage, needed):
            yield f"{name} is computed where it is read", [f"s[{name}].compute_inline()"]
            continue
        all_, some = needed.work(stage, True), needed.work(stage, False)
        part = (
            f": {some / all_:.1%} of it is needed, and nothing else is computed"
            if some and all_ and some < all_
            else ""
        )
        if part and all_ and all_ >= ENOUGH:
            yield f"{name}{part}", []
        yield from _loops(stage, needed, machine if (some or 0) >= ENOUGH else None)


def _loops(stage: ComputeOp, needed: _Needed, machine: Machine | None) -> Iterator[tuple[str, list[str]]]:
    """The calls on the loops of a stage; `machine` is None if there is too little for several cores."""
    name, last = stage.name, len(stage.axis) - 1
    axes = [f"{name}.op.axis[{n}]" for n in range(last + 1)]
    rows = needed.count(stage.axis[-1]) if stage.axis else None
    if stage.reduce_axis and rows is not None and rows > 1 and _runs_along(stage):
        alone = all(needed.count(a) == 1 for a in stage.axis[:-1])
        chunk = min(_CHUNK, -(-rows // machine.cores) if machine is not None and alone else rows)
        reduced = [f"{name}.op.reduce_axis[{n}]" for n in range(len(stage.reduce_axis))]
        axes[last:] = [f"{name}_0"]
        yield (
            f"{name}: {chunk} sums side by side along {stage.axis[-1].var.name}, which LLVM makes vectors of",
            [
                f"{name}_0, {name}_1 = s[{name}].split({name}.op.axis[{last}], factor={chunk})",
                f"s[{name}].reorder({', '.join([*axes, *reduced])}, {name}_1)",
            ],
        )
    first = next((n for n, a in enumerate(stage.axis) if needed.count(a) != 1), None)
    count = needed.count(stage.axis[first]) if first is not None else None
    if first is not None and count is not None and machine is not None and count >= machine.cores > 1:
        what = stage.axis[first].var.name
        yield f"{name}: {what} in parallel on {machine.cores} cores", [f"s[{name}].parallel({axes[first]})"]


def _runs_along(stage: ComputeOp) -> bool:
    """Whether what a sum reads lies side by side along the stage's last axis, and not along the reduced one."""
    inner = [load.indices[-1] for value in stage.body for load in nodes_of(value, ProducerLoad) if load.indices]
    along = [i for i in inner if uses_var(i, (stage.axis[-1].var,))]
    return bool(along) and not any(uses_var(i, tuple(a.var for a in stage.reduce_axis)) for i in along)


def _is_inlined(op: Operator, stage: ComputeOp, needed: _Needed) -> bool:
    """Whether a stage is not a sum and one other stage reads it, for which it is as cheap to compute as to read."""
    readers = needed.readers[stage]
    if stage.reduce_axis or len(readers) != 1 or any(t.op is stage for t in op.outputs):
        return False
    return not any(contains(value, Call) for value in stage.body) or not readers[0].reduce_axis
