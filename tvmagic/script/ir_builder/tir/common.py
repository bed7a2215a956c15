"""What the functions of `T` share: the frames they are in, and their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.script.ir_builder.base import current_builder
from tvmagic.script.ir_builder.tir import frame as frames
from tvmagic.script.ir_builder.tir.values import as_value

BOOL = ir.DataType("bool")


def _frame(kind: type[Any], name: str, place: str) -> Any:
    found = current_builder().find(kind)
    if found is None:
        raise TVMagicError(f"`{name}` is inside {place}", code="script.misplaced")
    return found


def the_function(name: str) -> frames.PrimFuncFrame:
    return _frame(frames.PrimFuncFrame, name, "a function")


def the_block(name: str) -> frames.BlockFrame:
    found = current_builder().last(frames.BlockFrame)
    if found is None:
        raise TVMagicError(
            f"`{name}` stands directly inside a block",
            hint='write it under `with T.block("name"):`',
            code="script.not_in_block",
        )
    return found


def as_condition(value: Any, name: str, or_integer: bool = False) -> ir.PrimExpr:
    """A condition; with `or_integer` a number too, which holds if it is not 0."""
    if isinstance(value, (bool, int)):
        return ir.IntImm(BOOL, bool(value))
    value = ir.expr(as_value(value))
    if not value.dtype.is_bool and not (or_integer and (value.dtype.is_int or value.dtype.is_uint)):
        raise TVMagicError(
            f"the condition of `{name}` is a bool, not `{value.dtype}`", code="script.condition_not_bool"
        )
    return value


def as_mapping(values: Any, name: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise TVMagicError(
            f"`{name}` takes a mapping from names to values",
            hint=f'write `{name}({{"key": value}})`',
            code="script.not_a_mapping",
        )
    for key in values:
        if not isinstance(key, (str, ir.StringImm)):
            raise TVMagicError(f"the names in `{name}` are texts", code="script.name_not_a_text")
    return {str(getattr(k, "value", k)): ir.attr_value(as_value(v)) for k, v in values.items()}
