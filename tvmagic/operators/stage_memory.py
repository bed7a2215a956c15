"""The memory of the tensors that an operator computes as a whole between its inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm
from tvmagic.operators.arrays import array_dtype, require_memory
from tvmagic.te.tensor import PlaceholderOp


def check_memory_of_stages(name: str, outputs: Iterable[Any], schedule: Any) -> None:
    """Raise TVMagicError if the operator `name` holds a tensor of constant sizes that is larger than the free memory.

    `schedule` is a TE schedule, None for the plain loops, or a TensorIR schedule, whose own buffers are not checked.
    """
    for tensor in _stored_tensors(outputs, schedule):
        sizes = [s.value for s in tensor.shape if isinstance(s, IntImm)]
        if len(sizes) < len(tensor.shape):
            continue
        try:
            require_memory(math.prod(sizes) * array_dtype(tensor).itemsize, f"`{tensor.name}` of `{name}`")
        except TVMagicError as error:
            raise TVMagicError(
                error.message,
                span=tensor.op.span,
                hint="make it smaller, or compute it inside a loop of what reads it (`compute_at`)",
                code=error.code,
            ) from None


def _stored_tensors(outputs: Iterable[Any], schedule: Any) -> Iterator[Any]:
    """The tensors between inputs and outputs that are computed as a whole."""
    if isinstance(schedule, te.schedule.Schedule):
        for stage in schedule.stages:
            if stage.is_output or isinstance(stage.op, PlaceholderOp):
                continue
            if stage.attach_stage is None and stage.attach_type.name != "INLINE":
                yield from (stage.op.output(n) for n in range(stage.op.num_outputs))
    if schedule is not None:
        return
    tensors = [t for t in outputs if isinstance(t, te.Tensor)]
    pending, seen = [t for tensor in tensors for t in tensor.op.input_tensors], {id(t.op) for t in tensors}
    while pending:
        tensor = pending.pop()
        if id(tensor.op) not in seen and not isinstance(tensor.op, PlaceholderOp):
            seen.add(id(tensor.op))
            yield tensor
            pending += tensor.op.input_tensors
