"""Deep equality of expressions: the same operators on the very same variables and buffers.

The walk needs no map of variables, as `structural_equal` does: rules and constraints ask this of small expressions often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir.buffer import Buffer
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.derive import deep_comparison
from tvmagic.ir.node import Kind, Node
from tvmagic.ir.operators import BinaryOp
from tvmagic.ir.prim_expr import FloatImm, IntImm, Var

_Compare = Callable[[Any, Any], bool]
_comparers: dict[type, _Compare] = {}


def deep_equal(a: object, b: object) -> bool:
    """Whether two expressions are the same tree over the same variables."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    compare = _comparers.get(kind)
    if compare is None:
        compare = _comparers[kind] = _make_comparer(kind)
    return compare(a, b)


@deep
def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """Whether two expressions, however deep, are the same tree over the same variables and buffers."""
    return deep_equal(as_node(lhs), as_node(rhs))


def as_node(value: Any) -> Any:
    """What stands for an expression (a slice of a tensor) as the expression."""
    return value.asobject() if hasattr(value, "asobject") and not isinstance(value, Node) else value


def _all_equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(map(deep_equal, a, b))


def _never(a: Any, b: Any) -> bool:
    return False


def _make_comparer(kind: type) -> _Compare:
    """The generated comparison of two nodes of one class, which are not one object."""
    if not issubclass(kind, Node) or issubclass(kind, (Var, Buffer)):
        return _never
    compare: _Compare = deep_comparison(kind, {"deep_equal": deep_equal, "all_equal": _all_equal})
    if issubclass(kind, BinaryOp):
        return _memoized(compare, _may_be_equal)
    several = sum(f.kind is Kind.EXPR for f in kind.FIELDS) > 1 or any(f.kind is Kind.EXPRS for f in kind.FIELDS)
    return _memoized(compare) if several else compare


def _may_be_equal(a: Any, b: Any) -> bool:
    """Whether two binary operations are equal at a glance: mostly the classes or the constants of operands differ."""
    x, y = a.b, b.b
    if type(x) is not type(y) or type(a.a) is not type(b.a):
        return False
    if type(x) is IntImm:
        return x.value == y.value
    return type(x) is not FloatImm or x.value == y.value or x.value != x.value  # a NaN is left to the comparison


_LARGEST = 1024
_known_equal: dict[tuple[int, int], tuple[Any, Any]] = {}


def _memoized(compare: _Compare, glance: _Compare | None = None) -> _Compare:
    """`compare`, which asks once for two nodes that are found equal.

    Parts of an expression may be shared; a walk over each of their occurrences takes exponential time.
    """

    def same(a: Any, b: Any) -> bool:
        if glance is not None and not glance(a, b):
            return False
        pair = (id(a), id(b))
        if pair in _known_equal:
            return True
        if not compare(a, b):
            return False
        if len(_known_equal) >= _LARGEST:
            _known_equal.clear()
        _known_equal[pair] = (a, b)  # the nodes too, so that their identities stay theirs
        return True

    return same
