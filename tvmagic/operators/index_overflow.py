"""Arithmetic of indices that does not fit its dtype.

Schedules and the simplifier take index arithmetic as that of the integers, as TVM does: `max(i * i, 0)` is `i * i`. Where
it wraps around, what is computed may differ from NumPy, which wraps in each step; sums and products with large numbers are
seen to wrap (`arith.wrapping`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.const_int_bound import NEG_INF, POS_INF
from tvmagic.arith.interval_arithmetic import ENDS_OF
from tvmagic.ir.query import variables_in
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator


def wrapping_indices(op: Operator, sizes: Mapping[ir.Var, int]) -> tuple[str, ...]:
    """What to say of each part of an operator's index arithmetic that may leave the range of its dtype."""
    found: dict[str, str] = {}
    for node in _arithmetic(op, sizes):
        text, dtype = str(node), node.dtype
        wider = f"; write it in {wider}" if (wider := {8: "int32", 16: "int32", 32: "int64"}.get(dtype.bits)) else ""
        found[text] = (
            f"the index arithmetic `{text}` wraps around in {dtype}, and schedules assume that none does{wider}"
        )
    return tuple(found.values())


def _arithmetic(op: Operator, sizes: Mapping[ir.Var, int]) -> Iterator[ir.PrimExpr]:
    """The innermost sums and products of loop variables that may not fit their dtype."""
    analyzer = Analyzer()
    for var, domain in _domains(op):
        if not analyzer.const_int_bound_is_bound(var):
            analyzer.bind(
                var, ir.Range.from_min_extent(ir.substitute(domain.min, sizes), ir.substitute(domain.extent, sizes))
            )
    candidates: list[Any] = []
    for body in _bodies(op):
        ir.post_order_visit(body, lambda n: candidates.append(n) if isinstance(n, (ir.Add, ir.Sub, ir.Mul)) else None)
    wrapping: set[int] = set()
    for node in candidates:  # operands come before what is computed from them
        if node.dtype.is_int and node.dtype.lanes == 1 and variables_in(node) and not _reads(node):
            limit = 1 << (node.dtype.bits - 1)
            operands = [analyzer.const_int_bound(ir.substitute(operand, sizes)) for operand in (node.a, node.b)]
            low, high = ENDS_OF[type(node)](*[(b.min_value, b.max_value) for b in operands])
            known = all(b.min_value > NEG_INF and b.max_value < POS_INF for b in operands)
            if known and (high >= limit or low < -limit):
                if id(node.a) not in wrapping and id(node.b) not in wrapping:
                    yield node
                wrapping.add(id(node))


def _reads(node: ir.PrimExpr) -> bool:
    """Whether an expression holds what is not an index: a value of an array, or of a call."""
    found: list[Any] = []
    ir.post_order_visit(
        node, lambda n: found.append(n) if isinstance(n, (ir.ProducerLoad, ir.BufferLoad, ir.Call)) else None
    )  # fmt: skip
    return bool(found)


def _stages(op: Operator) -> Sequence[Any]:
    roots = [t.op for t in op.outputs]
    return post_dfs_order(roots, create_read_graph(roots))


def _bodies(op: Operator) -> list[Any]:
    if op.prim_func is not None:
        return [op.prim_func.body]
    return [value for stage in _stages(op) for value in getattr(stage, "body", ()) if isinstance(value, ir.PrimExpr)]


def _domains(op: Operator) -> list[tuple[ir.Var, ir.Range]]:
    """The ranges of all loop variables."""
    found: list[tuple[ir.Var, ir.Range]] = []

    def of(iterations: Sequence[ir.IterVar]) -> None:
        found.extend((iv.var, iv.dom) for iv in iterations if iv.dom is not None)

    def statement(node: Any) -> None:
        if isinstance(node, ir.For):
            found.append((node.loop_var, ir.Range.from_min_extent(node.min, node.extent)))
        elif isinstance(node, ir.Block):
            of(node.iter_vars)

    if op.prim_func is not None:
        ir.post_order_visit(op.prim_func.body, statement)
    else:
        for stage in _stages(op):
            of(stage.root_iter_vars())
    return found
