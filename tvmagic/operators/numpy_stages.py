"""Stages of several parts that one NumPy function computes: running sums, and the place of the best value."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tvmagic import ir
from tvmagic.ir.query import callee, is_call
from tvmagic.operators.numpy_syntax import call_of, dotted_name, dtype_code
from tvmagic.te.numpy_eval import ArrayEvaluator
from tvmagic.te.schedule.graph import scan_get_body
from tvmagic.te.tensor import ComputeOp, ScanOp, Tensor

_RUNNING: dict[type, str] = {
    ir.Add: "np.cumsum", ir.Mul: "np.cumprod", ir.Max: "np.maximum.accumulate", ir.Min: "np.minimum.accumulate",
}  # fmt: skip

# ---------------------------------------------------------------------------- running sums


def scan_parts(scan: ScanOp) -> list[Any]:
    """The operations that are computed with a scan and not before it."""
    return [*scan_get_body(scan), *([scan.init[0].op] if _taken_in(scan) is not None else [])]


def running_values(op: ScanOp, names: Mapping[Tensor, str]) -> ast.expr | None:
    """`np.cumsum` and the like of the values that a scan takes in one by one; None for another scan."""
    taken = _taken_in(op)
    if taken is None:
        return None
    values, step = taken
    keeps = {"dtype": dtype_code(step.dtype)} if isinstance(step, (ir.Add, ir.Mul)) else {}
    return call_of(_RUNNING[type(step)], dotted_name(names[values]), axis=ast.Constant(0), **keeps)


def _taken_in(op: ScanOp) -> tuple[Tensor, ir.PrimExpr] | None:
    """The tensor whose rows a scan combines one by one, all of them, and how; None if it does something else."""
    first, update = op.init[0].op, op.update[0].op
    if len(op.outputs) != 1 or not isinstance(first, ComputeOp) or not isinstance(update, ComputeOp):
        return None
    step, begin = update.body[0], first.body[0]
    begins = first.axis[0].dom
    if (
        not isinstance(step, (ir.Add, ir.Mul, ir.Max, ir.Min))
        or not isinstance(begin, ir.ProducerLoad)
        or begins is None
    ):
        return None
    values = begin.producer
    time, *rest = [iv.var for iv in update.axis]
    takes_all = (
        _reads(begin, values, [iv.var for iv in first.axis])
        and _reads(step.a, op.state_placeholder[0], [time - 1, *rest])
        and _reads(step.b, values, [time, *rest])
        and ir.structural_equal(begins.extent, ir.IntImm("int32", 1))
        and ir.structural_equal(values.shape[0], op.outputs[0].shape[0])
    )
    return (values, step) if takes_all else None


def _reads(node: ir.PrimExpr, tensor: Tensor, indices: Sequence[ir.PrimExpr]) -> bool:
    """Whether an expression is the element of a tensor at `indices`."""
    return (
        isinstance(node, ir.ProducerLoad)
        and node.producer is tensor
        and len(node.indices) == len(indices)
        and all(ir.structural_equal(a, b) for a, b in zip(node.indices, indices))
    )


# ---------------------------------------------------------------------------- the place of the best value


class Chosen(NamedTuple):
    """A reduction to the best value and its place: the functions of both, and which of its results is which."""

    place: int
    value: int
    place_function: str
    value_function: str


_BEST = (("np.argmax", "np.max", 1), ("np.argmin", "np.min", -1))


def chosen(node: ir.Reduce) -> Chosen | None:
    """How NumPy's `argmax` or `argmin` gives the pairs of a reduction over one axis; None if it does not.

    A combiner that does nothing but compare its arguments and take one of them is known by what it gives for every order
    of two places and of two values; of equal values the first place has to win. Values that are not numbers are left out.
    """
    if len(node.source) != 2 or len(node.axis) != 1 or not _only_compares(node.combiner):
        return None
    first, low = np.repeat([0, 1], 3), np.tile([3, 3, 4], 2)  # places, values
    second, high = first[::-1], low[::-1]
    for place, value in ((0, 1), (1, 0)):
        if node.source[place].dtype.is_float:
            continue
        got = _combined(node.combiner, place, (first, low), (second, high))
        for place_function, value_function, sign in _BEST:
            takes = (sign * high > sign * low) | ((high == low) & (second < first))
            if np.array_equal(got, [np.where(takes, second, first), np.where(takes, high, low)]):
                return Chosen(place, value, place_function, value_function)
    return None


def _only_compares(combiner: ir.CommReducer) -> bool:
    """Whether a combiner takes one of its arguments by comparisons of them, and does nothing else with them."""
    others: list[ir.PrimExpr] = []

    def look(node: Any) -> None:
        if (
            not isinstance(node, ir.PrimExpr)
            or isinstance(node, (ir.Var, ir.Select))
            or is_call(node, "tir.if_then_else")
        ):
            return
        if not node.dtype.is_bool or (isinstance(node, ir.Call) and callee(node) != "tir.isnan"):
            others.append(node)

    for result in combiner.result:
        ir.post_order_visit(result, look)
    return not others and not any(v.dtype.is_bool for v in combiner.lhs)


def _combined(combiner: ir.CommReducer, place: int, left: Sequence[Any], right: Sequence[Any]) -> list[np.ndarray]:
    """Place and value that a combiner makes of two pairs."""
    order = (place, 1 - place)
    env = {
        side[k]: array
        for side, arrays in ((combiner.lhs, left), (combiner.rhs, right))
        for k, array in zip(order, arrays)
    }
    evaluator = ArrayEvaluator(env)
    shape = np.broadcast_shapes(*map(np.shape, left))
    return [np.broadcast_to(evaluator.visit(combiner.result[k]), shape) for k in order]
