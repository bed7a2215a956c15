"""Deep equality of expressions, as the rules and the constraints of the analyzer ask for it.

Variables and buffers are equal only to themselves, so that the walk needs no map of variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import Buffer, Node, Var
from tvmagic.ir.derive import deep_comparison

__all__ = ["deep_equal"]

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


def _all_equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(map(deep_equal, a, b))


def _never(a: Any, b: Any) -> bool:
    return False


def _make_comparer(kind: type) -> _Compare:
    """The generated comparison of two nodes of one class, which are not one object."""
    if not issubclass(kind, Node) or issubclass(kind, (Var, Buffer)):
        return _never
    return deep_comparison(kind, {"deep_equal": deep_equal, "all_equal": _all_equal})
