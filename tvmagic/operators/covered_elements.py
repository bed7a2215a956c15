"""Whether the indices of an operator's tensors reach all their elements.

The position of an element in memory is computed in the type of the shape. Where that has 32 bits, a tensor of 2**31
elements or more would be read and written at wrong places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm
from tvmagic.ir.buffer import is_reached
from tvmagic.ir.values import INT32

__all__ = ["check_tensors_reached"]


def check_tensors_reached(name: str, inputs: Iterable[Any], outputs: Iterable[Any], schedule: Any) -> None:
    """Raise TVMagicError if a tensor that the operator `name` holds as a whole has too many elements.

    `schedule` is a TE schedule, None for the plain loops, or a TensorIR schedule, whose own buffers are not looked at; () looks at inputs and outputs alone.
    """
    for tensor in (*inputs, *outputs, *_held(outputs, schedule)):
        if not all(isinstance(s, IntImm) and s.dtype.bits <= 32 for s in tensor.shape):
            continue
        count = math.prod(s.value for s in tensor.shape)
        if not is_reached(count, INT32):
            raise TVMagicError(
                f"`{tensor.name}` of `{name}` has {count} elements, more than indices of 32 bits reach",
                span=getattr(tensor.op, "span", None) if isinstance(tensor, te.Tensor) else None,
                hint="make it smaller, or compute it inside a loop of what reads it (`compute_at`)",
            )


def _held(outputs: Iterable[Any], schedule: Any) -> Iterator[Any]:
    """The tensors between inputs and outputs that are computed as a whole."""
    if isinstance(schedule, te.schedule.Schedule):
        for stage in schedule.stages:
            if stage.attach_stage is None and stage.attach_type.name != "INLINE":
                yield from (stage.op.output(n) for n in range(stage.op.num_outputs))
    if schedule is not None:
        return
    pending, seen = [t for t in outputs if isinstance(t, te.Tensor)], set()
    while pending:
        tensor = pending.pop()
        if id(tensor.op) not in seen:
            seen.add(id(tensor.op))
            yield tensor
            pending += tensor.op.input_tensors
