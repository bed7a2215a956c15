"""Structural hash: programs that are structurally equal have the same one.

It does not change from run to run: variables that the program defines count by the order in which they occur, texts
by a checksum. A free variable is equal to itself only and counts by its identity, or with `map_free_vars` by the order
too.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tvmagic.ir.buffer import Buffer
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.derive import hasher
from tvmagic.ir.expr import FloatImm, GlobalVar, IntImm, PointerType, PrimType, Var
from tvmagic.ir.function import IRModule, PrimFunc
from tvmagic.ir.global_info import GlobalInfo
from tvmagic.ir.methods import method_of
from tvmagic.ir.node import Node
from tvmagic.ir.op import Op
from tvmagic.ir.prim_expr import Type


class Numbers(dict[int, int]):
    """The hashes of the variables met so far, and of the buffers.

    A variable counts by its place in the order in which they occur; `map_free`: free ones too. A buffer counts by its fields:
    two buffers with the same fields are equal.
    """

    __slots__ = ("buffers", "map_free", "shared")

    def __init__(self, map_free: bool) -> None:
        super().__init__()
        self.map_free = map_free
        self.buffers: dict[int, int] = {}
        self.shared: dict[int, int] = {}  # of expressions: parts that are shared are hashed once


Hasher = Callable[[Numbers, Any], int]


@lru_cache(maxsize=65536)
def _text_hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _hash_var(numbers: Numbers, var: Var) -> int:
    known = numbers.get(id(var))
    if known is not None:
        return known
    if numbers.map_free:
        return _hash_definition(numbers, var)
    known = numbers[id(var)] = hash((id(var), -1))
    return known


def _hash_definition(numbers: Numbers, var: Var) -> int:
    known = numbers.get(id(var))
    if known is None:
        kind = var.type_annotation
        of_type = _text_hash(var.dtype) if type(kind) is PrimType else HASH[type(kind)](numbers, kind)
        known = numbers[id(var)] = hash((len(numbers), of_type))
    return known


def _hash_buffer(numbers: Numbers, buffer: Buffer) -> int:
    known = numbers.buffers.get(id(buffer))
    if known is None:
        outer, numbers.map_free = numbers.map_free, True  # a buffer defines its pointer and the variables of its shape
        known = numbers.buffers[id(buffer)] = _buffer_fields(numbers, buffer)
        numbers.map_free = outer
    return known


def _hash_definitions(numbers: Numbers, variables: Any) -> int:
    return hash(tuple([_hash_definition(numbers, var) for var in variables]))


def _hash_items(numbers: Numbers, items: Any) -> int:
    return hash(tuple([HASH[type(item)](numbers, item) for item in items]))


def _hash_mapping(numbers: Numbers, items: dict[Any, Any]) -> int:
    keys = sorted(items, key=str)
    return hash(tuple([(_text_hash(str(k)), HASH[type(items[k])](numbers, items[k])) for k in keys]))


def _hash_float(numbers: Numbers, node: FloatImm) -> int:
    value = 0 if math.isnan(node.value) else hash(node.value)
    return hash((value, _text_hash(node.dtype)))


def _hash_int(numbers: Numbers, node: IntImm) -> int:
    return hash((node.value, _text_hash(node.dtype)))


def _hash_pointer(numbers: Numbers, kind: PointerType) -> int:
    element = HASH[type(kind.element_type)](numbers, kind.element_type)
    return hash((element, _text_hash(kind.storage_scope or "global")))


def _hash_plain_float(numbers: Numbers, value: float) -> int:
    return 0 if math.isnan(value) else hash(value)


def _hash_function(numbers: Numbers, function: PrimFunc) -> int:
    parts = [_hash_definition(numbers, p) for p in function.params]
    for param in function.params:
        buffer = function.buffer_map.get(param)
        parts.append(0 if buffer is None else _hash_buffer(numbers, buffer))
    parts += [HASH[type(part)](numbers, part) for part in (function.ret_type, function.body, function.attrs)]
    return hash(tuple(parts))


def _hash_module(numbers: Numbers, module: IRModule) -> int:
    parts = [
        (_text_hash(var.name_hint), _hash_function(numbers, function)) for var, function in module.functions_items()
    ]
    shared = _hash_mapping(numbers, module.attrs), _hash_mapping(numbers, module.global_infos)
    return hash((tuple(parts), shared))


def _generate(cls: type[Node]) -> Hasher:
    names = {
        "table": HASH,
        "items": _hash_items,
        "definition": _hash_definition,
        "definitions": _hash_definitions,
    }
    return hasher(cls, _text_hash(cls.__name__), names)


class _Hashers(dict[type, Hasher]):
    """What hashes a node of a class; generated when a class is first met."""

    def __missing__(self, cls: type) -> Hasher:
        found = self[cls] = self.find(cls)
        return found

    @staticmethod
    def find(kind: type[Any]) -> Hasher:
        if issubclass(kind, Var):
            return _hash_var
        if issubclass(kind, Node):
            return _generate(kind)
        if issubclass(kind, str):
            return lambda numbers, text: _text_hash(text)
        if issubclass(kind, int):
            return lambda numbers, value: int(value)
        if issubclass(kind, (tuple, list)):
            return _hash_items
        if hasattr(kind, "__array__"):
            return lambda numbers, array: zlib.crc32(array.tobytes())
        return lambda numbers, value: _text_hash(kind.__name__)


HASH = _Hashers()
HASH.update(
    {
        type(None): lambda numbers, value: 0,
        float: _hash_plain_float,
        dict: _hash_mapping,
        Buffer: _hash_buffer,
        FloatImm: _hash_float,
        IntImm: _hash_int,
        PointerType: _hash_pointer,
        GlobalVar: lambda numbers, var: _text_hash(var.name_hint),
        Op: lambda numbers, op: _text_hash(op.name),
        PrimFunc: _hash_function,
        IRModule: _hash_module,
    }
)
_buffer_fields = _generate(Buffer)


@deep
def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A hash that structurally equal programs share; `map_free_vars` as for `structural_equal`."""
    node = node.asobject() if hasattr(node, "asobject") and not isinstance(node, Node) else node
    return HASH[type(node)](Numbers(map_free_vars), node)


@method_of(Type, GlobalInfo, name="__hash__")
def _hash(self: Type | GlobalInfo) -> int:
    return structural_hash(self)
