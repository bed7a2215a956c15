"""Ranges whose bounds are data: how many of their steps ran for some inputs.

Random numbers are seldom the bounds of ranges. Without this a check of a sparse product would compare empty loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic import ir, te
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import Machine
from tvmagic.ir.query import contains, has_node, is_call, variables_in
from tvmagic.operators.arrays import evaluate_size, size_values
from tvmagic.te.reference import evaluate_all
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

_SECONDS = 5.0  # time limit for counting
_MOST = 1 << 26  # steps of a reduction that are counted


def steps_run(op: Operator, inputs: Sequence[np.ndarray]) -> list[str]:
    """For each range whose bounds are inputs without an assertion, say how many of its steps ran."""
    try:
        return list(_of_function(op, inputs) if op.prim_func is not None else _of_tensors(op, inputs))
    except TVMagicError:  # too many steps to count
        return []


def _sentence(op: Operator, name: str, ran: str) -> str:
    return (
        f"the bounds of the range of `{name}` are data, and {ran} on random inputs: assert what holds of them, or set "
        f"`{op.name}.example_inputs`"
    )


# ---------------------------------------------------------------------------- tensor expressions


def _of_tensors(op: Operator, inputs: Sequence[np.ndarray]) -> Iterator[str]:
    roots = [t.op for t in op.outputs]
    asserted = {tensor for assertion in op.assertions for tensor in assertion.tensors}
    values, sizes = dict(zip(op.inputs, inputs)), size_values(op.inputs, inputs)
    for operation in post_dfs_order(roots, create_read_graph(roots)):
        for condition, axis in _masks(operation):
            read, used = _tensors_in(condition), variables_in(condition)
            if not read <= set(values) or read & asserted:
                continue
            axes = [iv for iv in (*operation.axis, *operation.reduce_axis) if iv.var in used]
            domains = {iv.var: iv.dom for iv in axes if iv.dom is not None}
            total = math.prod(evaluate_size(domain.extent, sizes) for domain in domains.values())
            if total <= _MOST:
                yield _sentence(op, axis.var.name, f"{_count(condition, domains, values)} of {total} steps ran")


def _masks(operation: Any) -> Iterator[tuple[ir.PrimExpr, ir.IterVar]]:
    """The conditions `a <= k and k < b` of reductions whose bounds are read, with the axis of `k`."""
    if not isinstance(operation, te.ComputeOp) or not isinstance(operation.body[0], ir.Reduce):
        return
    for source in operation.body[0].source:
        condition = source.args[0] if is_call(source, "tir.if_then_else") else None
        if isinstance(condition, ir.And) and isinstance(condition.a, (ir.LE, ir.LT)) and isinstance(condition.b, ir.LT):
            first, last = condition.a.b, condition.b.a
            axis = next((iv for iv in operation.reduce_axis if iv.var is first and iv.var is last), None)
            if axis is not None and contains(condition, ir.ProducerLoad):
                yield condition, axis


def _tensors_in(condition: ir.PrimExpr) -> set[Any]:
    found: set[Any] = set()
    ir.post_order_visit(condition, lambda n: found.add(n.producer) if isinstance(n, ir.ProducerLoad) else None)
    return found


def _count(condition: ir.PrimExpr, domains: dict[ir.Var, ir.Range], values: dict[Any, np.ndarray]) -> int:
    """For how many values of its variables a condition holds."""
    axes = {v: te.reduce_axis((d.min, d.min + d.extent), name=v.name) for v, d in domains.items()}
    inside = ir.substitute(condition, {v: axis.var for v, axis in axes.items()})
    counted = te.compute((1,), lambda _: te.sum(inside.astype("int64"), axis=list(axes.values())), name="steps")
    return int(evaluate_all([counted], values)[0][0])


# ---------------------------------------------------------------------------- TensorIR functions


def _of_function(op: Operator, inputs: Sequence[np.ndarray]) -> Iterator[str]:
    func = op.prim_func
    if func is None or not has_moving_loops(op):
        return
    counter = _Counter(_SECONDS)
    for param, array in zip(func.params, op.arguments(inputs, op.fresh_outputs(inputs)), strict=True):
        counter.bind_buffer(func.buffer_map[param], array)
    with np.errstate(all="ignore"):
        counter.visit(func.body)
    for var, steps in counter.steps.items():
        yield _sentence(op, var.name, f"{steps} steps ran")


def has_moving_loops(op: Operator) -> bool:
    """Whether an operator is a function with a loop whose bounds are read."""
    func = op.prim_func
    return func is not None and has_node(func.body, lambda node: isinstance(node, ir.For) and _moves(node))


def _moves(loop: ir.For) -> bool:
    return contains(loop.min, ir.BufferLoad) or contains(loop.extent, ir.BufferLoad)


class _Counter(Machine):
    """Runs a function, and counts the iterations of loops whose bounds are read."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__(seconds)
        self.steps: dict[ir.Var, int] = {}

    def _as_lanes(self, node: ir.For) -> bool:
        return False  # lanes that conflict run again

    @ir.handles(ir.For)
    def _for(self, node: ir.For) -> None:
        if _moves(node):
            self.steps[node.loop_var] = self.steps.get(node.loop_var, 0) + max(int(self.visit(node.extent)), 0)
        super()._for(node)
