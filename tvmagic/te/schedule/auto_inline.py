"""Inline every stage of a simple kind that nothing is scheduled of yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvmagic.ir import IntImm, PrimExpr, ProducerLoad, Var, post_order_visit
from tvmagic.te.tensor import ComputeOp, Operation

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


def _all_loads(op: ComputeOp, test: Callable[[tuple[PrimExpr, ...]], bool]) -> bool:
    """Whether `test` holds for the indices of every load in the body of `op`."""
    holds = True

    def look(node: Any) -> None:
        nonlocal holds
        if isinstance(node, ProducerLoad):
            holds = holds and test(node.indices)

    for value in op.body:
        post_order_visit(value, look)
    return holds


def is_injective(op: Operation) -> bool:
    """Whether `op` has no reduction, so that inlining it computes nothing twice in one element."""
    return isinstance(op, ComputeOp) and not op.reduce_axis and len(op.body) == 1


def is_broadcast(op: Operation) -> bool:
    """Whether each load takes some of the axes, in their order, and zeros for dimensions of size 1."""
    if not is_injective(op):
        return False
    assert isinstance(op, ComputeOp)
    place = {iv.var: k for k, iv in enumerate(op.axis)}

    def in_order(indices: tuple[PrimExpr, ...]) -> bool:
        last = -1
        for index in indices:
            if isinstance(index, IntImm) and index.value == 0:
                continue
            if not isinstance(index, Var) or place.get(index, -1) <= last:
                return False
            last = place[index]
        return True

    return _all_loads(op, in_order)


def is_elem_wise(op: Operation) -> bool:
    """Whether element `(i, j, ...)` is computed from elements `(i, j, ...)` only."""
    if not is_injective(op):
        return False
    assert isinstance(op, ComputeOp)
    axes = [iv.var for iv in op.axis]
    return _all_loads(op, lambda i: len(i) == len(axes) and all(a is b for a, b in zip(i, axes)))


def _auto_inline(sch: Schedule, test: Callable[[Operation], bool]) -> None:
    for stage in sch.stages:
        if not stage.is_scheduled and not stage.is_output and test(stage.op):
            stage.compute_inline()


def auto_inline_elem_wise(sch: Schedule) -> None:
    """Inline the stages that are computed element by element."""
    _auto_inline(sch, is_elem_wise)


def auto_inline_broadcast(sch: Schedule) -> None:
    """Inline the stages that are computed element by element, or broadcast."""
    _auto_inline(sch, is_broadcast)


def auto_inline_injective(sch: Schedule) -> None:
    """Inline all stages without a reduction."""
    _auto_inline(sch, is_injective)
