"""The extent between two ends, without the provers: ends that differ by a constant."""

from __future__ import annotations

from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir import IntImm, PrimExpr, Var, expr
from tvmagic.ir.node import Kind, Node
from tvmagic.ir.ops import const, make_const, subtract
from tvmagic.ir.query import linear_terms

_VALUES = (Kind.VALUE, Kind.OBJECT)


def _key(node: Any) -> Any:
    """A hashable value that two expressions of one shape share; variables and buffers by identity."""
    if isinstance(node, Var) or not isinstance(node, PrimExpr):
        return id(node)
    parts: list[Any] = [type(node)]
    for field in node.FIELDS:
        value = getattr(node, field.name)
        if field.kind is Kind.EXPR:
            parts.append(value if value is None else _key(value))
        elif field.kind is Kind.EXPRS:
            parts.append(tuple([_key(v) for v in value]))
        else:
            parts.append(id(value) if isinstance(value, Node) or field.kind not in _VALUES else value)
    return tuple(parts)


def constant_difference(stop: Any, start: Any) -> int | None:
    """`stop - start` where it is seen to be a constant, else None."""
    if stop is start:
        return 0
    stop, start = expr(stop), expr(start)
    if isinstance(stop, IntImm) and isinstance(start, IntImm):
        return stop.value - start.value
    last, end = linear_terms(stop)
    first, begin = linear_terms(start)
    terms: dict[Any, int] = {}
    for part, factor in (*last, *[(part, -factor) for part, factor in first]):
        key = _key(part)
        terms[key] = terms.get(key, 0) + factor
    return None if any(terms.values()) else end - begin


def difference(stop: Any, start: Any) -> PrimExpr:
    """`stop - start`, simplified."""
    stop, start = expr(stop), expr(start)
    if isinstance(start, IntImm) and start.value == 0:
        return stop
    constant = constant_difference(stop, start)
    if constant is not None:
        wider = stop.dtype if stop.dtype.bits >= start.dtype.bits else start.dtype
        return make_const(wider, constant) if wider.is_int or wider.is_uint else const(constant)
    return Analyzer().simplify(subtract(stop, start))
