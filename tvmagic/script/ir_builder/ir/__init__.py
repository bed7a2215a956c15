"""The names that build modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any as _Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import DummyGlobalInfo, GlobalVar, PrimFunc, Range, VDevice
from tvmagic.ir import attr_value as as_attr_value
from tvmagic.ir.global_info import global_infos_of
from tvmagic.script.ir_builder.base import IRBuilder, current_builder
from tvmagic.script.ir_builder.ir.frame import IRModuleFrame

_FUNCTIONS = """decl_function def_function dummy_global_info ir_module lookup_vdevice module_attrs module_get_attr
    module_global_infos module_set_attr vdevice""".split()
__all__ = ["IRModuleFrame", *_FUNCTIONS]  # pyright: ignore[reportUnsupportedDunderAll]


def ir_module() -> IRModuleFrame:
    """A module under construction."""
    return IRModuleFrame()


def _module(name: str) -> IRModuleFrame:
    frame = current_builder().find(IRModuleFrame)
    if frame is None:
        raise TVMagicError(
            f"`{name}` is inside a module",
            hint="write it in the class under `@I.ir_module`",
            code="script.module.misplaced",
        )
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
        raise TVMagicError(
            "`I.module_attrs` takes a mapping from names to values", code="script.module.attributes_not_a_mapping"
        )
    if frame.attrs and not allow_overwrite:
        raise TVMagicError(
            "the module has attributes already",
            hint="pass allow_overwrite=True",
            code="script.module.attributes_given_twice",
        )
    frame.attrs = {str(getattr(k, "value", k)): as_attr_value(v) for k, v in attrs.items()}


def module_get_attr(attr_key: str) -> _Any:
    """One fact about the module, or None."""
    return (_module("I.module_get_attr").attrs or {}).get(attr_key)


def module_set_attr(attr_key: str, attr_value: _Any, allow_overwrite: bool = False) -> None:
    """Set one fact about the module."""
    if not IRBuilder.is_in_scope():
        return
    attrs = _module("I.module_set_attr").attrs or {}
    if attr_key in attrs and not allow_overwrite:
        raise TVMagicError(
            f"the module has the attribute `{attr_key}` already",
            hint="pass allow_overwrite=True",
            code="script.module.attribute_given_twice",
        )
    _module("I.module_set_attr").attrs = {**attrs, str(attr_key): as_attr_value(attr_value)}


def module_global_infos(global_infos: Mapping[str, _Any]) -> None:
    """Lists of what all functions share, by name. Nothing happens where Python itself runs the class body."""
    if not IRBuilder.is_in_scope():
        return
    frame = _module("I.module_global_infos")
    if frame.global_infos is not None:
        raise TVMagicError(
            "the module has global infos already",
            hint="write one mapping with all of them",
            code="script.module.global_infos_given_twice",
        )
    if not isinstance(global_infos, Mapping):
        raise TVMagicError(
            "`I.module_global_infos` takes a mapping from names to lists of global infos",
            code="script.module.global_infos_not_a_mapping",
        )
    frame.global_infos = global_infos_of(global_infos)


def vdevice(target: _Any = None, vdevice_id: int = 0, memory_scope: str = "global") -> VDevice:
    """A virtual device: a target, which of its devices, and a memory of that device."""
    return VDevice(target, vdevice_id, memory_scope)


def dummy_global_info() -> DummyGlobalInfo:
    """A global info without contents."""
    return DummyGlobalInfo()


def lookup_vdevice(target_kind: str | None = None, device_index: int = -1) -> VDevice:
    """The virtual device of that kind and number (counted within its kind) among the module's global infos.

    With neither given, the first one.
    """
    devices = (_module("I.lookup_vdevice").global_infos or {}).get("vdevice", ())
    found = [d for d in devices if target_kind in (None, "vdevice", d.target.kind.name)]
    if not found or device_index >= len(found):
        raise TVMagicError(
            f"the module has no virtual device {max(device_index, 0)} of kind `{target_kind or 'any'}`",
            code="script.module.unknown_vdevice",
        )
    return found[max(device_index, 0)]


NAMES: dict[str, _Any] = {name: globals()[name] for name in _FUNCTIONS}
NAMES.update(GlobalVar=GlobalVar, Range=Range)
