"""Numbers for expressions, the same for the same structure."""

from __future__ import annotations

from typing import Any, cast

from tvmagic.ir import BinaryOp, IntImm, Not, PrimExpr, Select, Var


class Structure:
    """Numbers expressions by their structure, so that what is known of one is found for its equals too.

    Bounds that are inferred repeat the sizes that they rest on, each time in objects of their own. Two expressions have
    the same number if they consist of the same operators over the same variables and integers, at the same places of
    the user's text; of any other kind of expression each object has its own. The numbers are negative, so that they are
    never the identity of an object.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[PrimExpr, int]] = {}  # with the expression, whose identity stays taken so
        self._numbers: dict[Any, int] = {}

    def __call__(self, e: Any) -> int:
        known = self._known.get(id(e))
        if known is not None:
            return known[1]
        numbers = self._numbers
        key = self._key(e)
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = -1 - len(numbers)
        self._known[id(e)] = e, number
        return number

    def _key(self, e: Any) -> Any:
        kind = cast("type[PrimExpr]", type(e))
        if kind is Var:
            return id(e)
        if kind is IntImm:
            return e.dtype, e.value, id(e.span)
        if isinstance(e, BinaryOp):
            return kind, self(e.a), self(e.b), id(e.span)
        if kind is Select:
            return kind, self(e.condition), self(e.true_value), self(e.false_value), id(e.span)
        return (kind, self(e.a), id(e.span)) if kind is Not else id(e)
