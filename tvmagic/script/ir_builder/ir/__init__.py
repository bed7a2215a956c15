"""The names that build modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any as _Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import GlobalVar, PrimFunc, Range, attr_value
from tvmagic.script.ir_builder.base import IRBuilder, current_builder
from tvmagic.script.ir_builder.ir.frame import IRModuleFrame

__all__ = ["IRModuleFrame", "decl_function", "def_function", "ir_module", "module_attrs", "module_get_attr"]


def ir_module() -> IRModuleFrame:
    """A module under construction."""
    return IRModuleFrame()


def _module(name: str) -> IRModuleFrame:
    frame = current_builder().find(IRModuleFrame)
    if frame is None:
        raise TVMagicError(f"`{name}` is inside a module", hint="write it in the class under `@I.ir_module`")
    return frame


def decl_function(func_name: str, func_signature: _Any = None) -> GlobalVar:
    """The name of a function that the module defines later."""
    return _module("I.decl_function").declare(func_name)


def def_function(func_name: str, func: PrimFunc) -> None:
    """The function of a name."""
    _module("I.def_function").define(func_name, func)


def module_attrs(attrs: Mapping[str, _Any], allow_overwrite: bool = False) -> None:
    """Facts about the module. Nothing happens where Python itself runs the class body."""
    if not IRBuilder.is_in_scope():
        return
    frame = _module("I.module_attrs")
    if not isinstance(attrs, Mapping):
        raise TVMagicError("`I.module_attrs` takes a mapping from names to values")
    if frame.attrs and not allow_overwrite:
        raise TVMagicError("the module has attributes already", hint="pass allow_overwrite=True")
    frame.attrs = {str(getattr(k, "value", k)): attr_value(v) for k, v in attrs.items()}


def module_get_attr(attr_key: str) -> _Any:
    """One fact about the module, or None."""
    return (_module("I.module_get_attr").attrs or {}).get(attr_key)


NAMES: dict[str, _Any] = {
    name: globals()[name] for name in ("ir_module", "decl_function", "def_function", "module_attrs", "module_get_attr")
}
NAMES.update(GlobalVar=GlobalVar, Range=Range)
