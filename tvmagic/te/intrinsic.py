"""Tensor intrinsics: instructions that compute a whole small tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.te.tensor import Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["TensorIntrin", "TensorIntrinCall", "decl_tensor_intrin"]


class TensorIntrinCall:
    """What calling a `TensorIntrin` inside `te.compute` gives."""

    __slots__ = ("intrin", "reduce_axis", "regions", "scalar_inputs", "tensors")

    def __init__(
        self,
        intrin: TensorIntrin,
        tensors: Sequence[Tensor],
        regions: Sequence[Sequence[ir.Range]],
        reduce_axis: Sequence[ir.IterVar],
        scalar_inputs: Sequence[ir.PrimExpr],
    ) -> None:
        self.intrin = intrin
        self.tensors, self.regions = tuple(tensors), tuple([tuple(r) for r in regions])
        self.reduce_axis, self.scalar_inputs = tuple(reduce_axis), tuple(scalar_inputs)


class TensorIntrin:
    """An instruction.

    Attributes
    ----------
    op: the operation that says what it computes; its inputs are placeholders.
    buffers: of the inputs, then of the outputs.
    body: the whole computation; `reduce_init` and `reduce_update` its two parts where the
        reduction goes over more than one call. Each may be None.
    """

    __slots__ = ("body", "buffers", "inputs", "name", "op", "reduce_init", "reduce_update", "scalar_params")

    def __init__(
        self,
        name: str,
        op: Operation,
        inputs: Sequence[Tensor],
        buffers: Sequence[ir.Buffer],
        scalar_params: Sequence[ir.Var],
        body: ir.Stmt | None,
        reduce_init: ir.Stmt | None,
        reduce_update: ir.Stmt | None,
    ) -> None:
        self.name, self.op, self.inputs, self.buffers = name, op, tuple(inputs), tuple(buffers)
        self.scalar_params = tuple(scalar_params)
        self.body, self.reduce_init, self.reduce_update = body, reduce_init, reduce_update

    def __call__(self, *args: Any, reduce_axis: Any = ()) -> TensorIntrinCall:
        """The instruction on slices such as `A[i, 0:16]`, and on scalars, inside `te.compute`."""
        slices = [a for a in args if isinstance(a, TensorSlice)]
        scalars = [ir.expr(a) for a in args if not isinstance(a, TensorSlice)]
        if len(slices) != len(self.inputs):
            raise TVMagicError(
                f"intrinsic `{self.name}` takes {len(self.inputs)} slices, {len(slices)} are given",
                code="te.intrinsic.wrong_slice_count",
            )
        axes = reduce_axis if isinstance(reduce_axis, (list, tuple)) else [reduce_axis]
        return TensorIntrinCall(self, [s.tensor for s in slices], [_region(s) for s in slices], axes, scalars)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


def _region(part: Any) -> list[ir.Range]:
    region: list[ir.Range] = []
    for index in part.indices:
        if isinstance(index, slice):
            if index.step is not None:
                raise TVMagicError(
                    f"a slice of `{part.tensor.name}` for an intrinsic has no step", code="te.intrinsic.slice_with_step"
                )
            region.append(ir.Range(index.start, index.stop))
        else:
            region.append(ir.Range.from_min_extent(ir.expr(index), 1))
    return region


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, ir.Buffer] | None = None,
    scalar_params: Sequence[ir.Var] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """Declare an instruction.

    Parameters
    ----------
    op: what it computes, on placeholders.
    fcompute: takes the buffers of the inputs and of the outputs (and the scalar parameters),
        gives the statement that calls the instruction, or a tuple of body, initialization of a
        reduction, and its update.
    binds: buffers to use for some tensors; `default_buffer_params`: options of the others.
    """
    if not isinstance(op, Operation):
        raise TVMagicError(
            f"an intrinsic is declared of an operation, not of `{op!r}`",
            hint="give C.op",
            code="te.intrinsic.not_an_operation",
        )
    inputs = op.input_tensors
    for tensor in inputs:
        if not isinstance(tensor.op, PlaceholderOp):
            raise TVMagicError(
                f"input `{tensor.name}` of intrinsic `{name}` is not a placeholder",
                code="te.intrinsic.input_not_placeholder",
            )
    options = dict(default_buffer_params or {})
    given = dict(binds or {})
    tensors = [*inputs, *op.outputs]
    buffers = [given.get(t) or ir.decl_buffer(t.shape, t.dtype, t.op.name, **options) for t in tensors]
    parts: Any = (buffers[: len(inputs)], buffers[len(inputs) :])
    body = fcompute(*parts, scalar_params) if scalar_params else fcompute(*parts)
    statements = [body] if isinstance(body, (ir.PrimExpr, ir.Stmt)) else list(body)
    statements = [ir.Evaluate(s) if isinstance(s, ir.PrimExpr) else s for s in statements]
    statements += [None] * (3 - len(statements))
    return TensorIntrin(name, op, inputs, buffers, scalar_params or (), *statements)
