"""Reductions inside branches: a stage of its own computes them for all indices, and reads if the branch is taken there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import PrimExpr, Range, Var, ops
from tvmagic.ir.constants import const

Branch = tuple[ast.expr, bool]
"""A condition, and whether it holds or fails if the branch is taken."""


def choice_of(node: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """The condition, and the values if it holds and if not, of `A if C else B` or `where(C, A, B)`; None of anything else."""
    match node:
        case ast.IfExp(test=test, body=then, orelse=other):
            return test, then, other
        case ast.Call(func=ast.Name(id="where" | "select"), args=[test, then, other]):
            return test, then, other
    return None


def parts_of(branches: Iterable[Branch]) -> list[Branch]:
    """The conditions that all hold, or fail, if the branches are taken: `a and b` is two of them."""
    found: list[Branch] = []
    for test, taken in branches:
        match test:
            case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) == taken:
                found += parts_of((value, taken) for value in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                found += parts_of([(operand, not taken)])
            case _:
                found.append((test, taken))
    return found


def is_inside(index: PrimExpr, size: Any, ranges: Mapping[Var, tuple[Any, Any]]) -> bool:
    """Whether an index is proved to be inside a dimension for all values of its variables."""
    analyzer = Analyzer()
    for var, (begin, extent) in ranges.items():
        analyzer.bind(var, Range.from_min_extent(begin, extent))
    return analyzer.can_prove(ops.greater_equal(index, 0)) and analyzer.can_prove(ops.less(index, size))


def only_if(conditions: list[PrimExpr], value: PrimExpr) -> PrimExpr:
    """`value` if all conditions hold, else 0, which nobody reads."""
    return ops.if_then_else(ops.all(*conditions), value, const(0, value.dtype)) if conditions else value
