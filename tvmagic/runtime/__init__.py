"""Running compiled code: modules and their functions, arrays, devices, threads, timing."""

from __future__ import annotations

import typing as _typing

from tvmagic.ir import DataType, DataTypeCode, ObjectPath, ObjectPathPair
from tvmagic.ir import Identified as Object
from tvmagic.ir import Node as Scriptable
from tvmagic.ir.constants import const
from tvmagic.ir.prim_expr import runtime_value as convert
from tvmagic.ir.registry import PackedFunc, get_global_func, register_func
from tvmagic.runtime import device as _device_names
from tvmagic.runtime.device import *

if _typing.TYPE_CHECKING:
    from tvmagic.runtime.kernel import Kernel
    from tvmagic.runtime.loader import load_module
    from tvmagic.runtime.module import Module
    from tvmagic.runtime.ndarray import NDArray
    from tvmagic.runtime.threads import num_threads, set_num_threads

String = str


class ShapeTuple(tuple[int, ...]):
    """Sizes of dimensions: whole numbers."""

    __slots__ = ()

    def __new__(cls, shape: _typing.Iterable[_typing.Any] = ()) -> ShapeTuple:
        return super().__new__(cls, [int(size) for size in shape])

    def __repr__(self) -> str:
        return f"ShapeTuple({list(self)})"


class ADT(tuple[_typing.Any, ...]):
    """Several values together with a number, the tag, that says which kind of thing they are."""

    tag: int

    def __new__(cls, tag: int, fields: _typing.Iterable[_typing.Any] = ()) -> ADT:
        made = super().__new__(cls, fields)
        made.tag = int(tag)
        return made

    def __getnewargs__(self) -> tuple[int, tuple[_typing.Any, ...]]:  # for copies and pickles
        return self.tag, tuple(self)

    def __repr__(self) -> str:
        return f"ADT({self.tag}, {list(self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ADT) and self.tag == other.tag and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.tag, tuple(self)))


def tuple_object(fields: _typing.Iterable[_typing.Any] = ()) -> ADT:
    """Several values together: an `ADT` with the tag 0."""
    return ADT(0, fields)


__all__ = [
    "ADT",
    "DataType",
    "DataTypeCode",
    "Kernel",
    "Module",
    "NDArray",
    "PackedFunc",
    "Object",
    "ObjectPath",
    "ObjectPathPair",
    "Scriptable",
    "ShapeTuple",
    "String",
    "const",
    "convert",
    "get_global_func",
    "load_module",
    "num_threads",
    "register_func",
    "set_num_threads",
    "tuple_object",
]
__all__ += _device_names.__all__

_LATER = {
    "Kernel": "kernel",
    "Module": "module",
    "NDArray": "ndarray",
    "load_module": "loader",
    "num_threads": "threads",
    "set_num_threads": "threads",
}


def __getattr__(name: str) -> _typing.Any:
    # NumPy and LLVM are loaded with what needs them
    import importlib
    import importlib.util

    if name == "ndarray":
        return importlib.import_module("tvmagic.runtime.ndarray")
    if name not in _LATER:
        if importlib.util.find_spec(f"tvmagic.runtime.{name}") is not None:  # a module that was not imported so far
            return importlib.import_module(f"tvmagic.runtime.{name}")
        from tvmagic import advice

        raise AttributeError(f"module `tvmagic.runtime` has no name `{name}`{advice('tvmagic.runtime', name)}")
    return getattr(importlib.import_module(f"tvmagic.runtime.{_LATER[name]}"), name)
