"""Structural equality: whether two programs differ in nothing but names and places in the text.

The rules are TVM's. Variables are equal where they are defined at the same place (each stands for
just one of the other program), or are the same object; with `map_free_vars`, free ones are mapped
too. A buffer defines its pointer and the variables of its shape where it first occurs. Hints for
names are not compared. The comparing functions are generated from the declared fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.ir.buffer import Buffer
from tvmagic.ir.constants import const
from tvmagic.ir.deep_equal import as_node
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.derive import comparison
from tvmagic.ir.expr import FloatImm, GlobalVar, PointerType, PrimType, Var
from tvmagic.ir.function import IRModule, PrimFunc
from tvmagic.ir.global_info import GlobalInfo
from tvmagic.ir.iteration import Range
from tvmagic.ir.methods import method_of
from tvmagic.ir.node import Node, slots_of
from tvmagic.ir.path import ObjectPath
from tvmagic.ir.prim_expr import SEQUENCES, Type
from tvmagic.ir.unknown import Any as Any_


class ObjectPathPair(NamedTuple):
    """The places of the first difference in two programs."""

    lhs_path: ObjectPath
    rhs_path: ObjectPath


class StructuralMismatch(TVMagicError, ValueError):
    """Two programs that should be equal are not."""


class Comparison:
    """What is known while two programs are compared.

    `where`: the steps to the first difference, innermost first; `same`: the pairs of expressions found equal, whose
    shared parts are not walked twice (what variables stand for is never taken back). The same object on both sides is
    compared too: its variables may stand for others.
    """

    __slots__ = ("backward", "buffers", "forward", "map_free", "same", "where")

    def __init__(self, map_free: bool) -> None:
        self.map_free = map_free
        self.forward: dict[int, int] = {}
        self.backward: dict[int, int] = {}
        self.buffers: set[tuple[int, int]] = set()
        self.same: set[tuple[int, int]] = set()
        self.where: list[tuple[str, Any, Any]] = []

    def equal(self, a: object, b: object) -> bool:
        cls = type(a)
        if cls is not type(b):  # sequences of all kinds are the same kind of thing, and numbers are constants
            if isinstance(a, SEQUENCES) and isinstance(b, SEQUENCES):
                return _same_items(self, a, b)
            return _is_number(a) != _is_number(b) and self.equal(_as_constant(a), _as_constant(b))
        return COMPARE[cls](self, a, b)

    def bind(self, a: Any, b: Any) -> bool:
        self.forward[id(a)] = id(b)
        self.backward[id(b)] = id(a)
        return True

    def define(self, a: Any, b: Any) -> bool:
        """Let a variable of one program stand for one of the other from here on."""
        known = self.forward.get(id(a))
        if known is not None:
            return known == id(b)
        if id(b) in self.backward or type(a) is not type(b):
            return False
        if a.dtype is not b.dtype:
            return self.differs("attr", "dtype")
        first, second = a.type_annotation, b.type_annotation
        if first is not second and type(first) is not PrimType and not self.equal(first, second):
            return self.differs("attr", "type_annotation")
        return self.bind(a, b)

    def differs(self, kind: str, key: Any, other_key: Any = None) -> bool:
        """Note a step to the difference; False, for the comparing functions to return.

        `other_key`: the key on the other side, if it is not the same.
        """
        self.where.append((kind, key, key if other_key is None else other_key))
        return False


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _as_constant(value: Any) -> Any:
    """A Python number as the constant that it is converted to."""
    return const(value) if _is_number(value) else value


Compare = Callable[[Comparison, Any, Any], bool]


def _same_var(state: Comparison, a: Var, b: Var) -> bool:
    known = state.forward.get(id(a))
    if known is not None:
        return known == id(b)
    if id(b) in state.backward:
        return False
    return state.bind(a, b) if a is b else state.map_free and state.define(a, b)


def _same_global_var(state: Comparison, a: GlobalVar, b: GlobalVar) -> bool:
    if a.name_hint != b.name_hint:
        return False
    known = state.forward.get(id(a))
    if known is not None:
        return known == id(b)
    return a is b or (state.map_free and state.bind(a, b))


def _same_buffer(state: Comparison, a: Buffer, b: Buffer) -> bool:
    pair = (id(a), id(b))
    if pair in state.buffers:
        return True
    outer, state.map_free = state.map_free, True
    same = _same_buffer_fields(state, a, b)
    state.map_free = outer
    if same:
        state.buffers.add(pair)
    return same


def _same_items(state: Comparison, a: Any, b: Any) -> bool:
    for i, (x, y) in enumerate(zip(a, b)):
        if not (COMPARE[type(x)](state, x, y) if type(x) is type(y) else state.equal(x, y)):
            return state.differs("index", i)
    return len(a) == len(b) or state.differs("missing index", min(len(a), len(b)))


def _same_mapping(state: Comparison, a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    for key, value in a.items():
        if key not in b:
            return state.differs("missing key", key)
        if not state.equal(value, b[key]):
            return state.differs("key", key)
    for key in b:
        if key not in a:
            return state.differs("missing key", key)
    return True


def _same_object(state: Comparison, a: Any, b: Any) -> bool:
    return a is b


def _same_plain(state: Comparison, a: Any, b: Any) -> bool:
    same = True if a is b else a == b
    return same if isinstance(same, bool) else bool(getattr(same, "all", lambda: False)())


def _same_array(state: Comparison, a: Any, b: Any) -> bool:
    """Whether two NumPy arrays, or two NDArrays, have the same type, shape and bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _same_float(state: Comparison, a: FloatImm, b: FloatImm) -> bool:
    if a.dtype is not b.dtype:
        return state.differs("attr", "dtype")
    both_nan = math.isnan(a.value) and math.isnan(b.value)
    return both_nan or a.value == b.value or state.differs("attr", "value")


def _same_pointer(state: Comparison, a: PointerType, b: PointerType) -> bool:
    if not state.equal(a.element_type, b.element_type):
        return state.differs("attr", "element_type")
    # memory without a name is global memory
    return (a.storage_scope or "global") == (b.storage_scope or "global") or state.differs("attr", "storage_scope")


def _same_function(state: Comparison, a: PrimFunc, b: PrimFunc) -> bool:
    if len(a.params) != len(b.params):
        return state.differs("missing index", min(len(a.params), len(b.params))) or state.differs("attr", "params")
    for i, (x, y) in enumerate(zip(a.params, b.params)):
        if not state.define(x, y):
            return state.differs("index", i) or state.differs("attr", "params")
    for x, y in zip(a.params, b.params):
        first, second = a.buffer_map.get(x), b.buffer_map.get(y)
        if not state.equal(first, second):
            kind = "missing key" if first is None or second is None else "key"
            return state.differs(kind, x, y) or state.differs("attr", "buffer_map")
    for name in ("ret_type", "body", "attrs"):
        if not state.equal(getattr(a, name), getattr(b, name)):
            return state.differs("attr", name)
    return True


def _same_module(state: Comparison, a: IRModule, b: IRModule) -> bool:
    first = {var.name_hint: var for var in a.functions}
    second = {var.name_hint: var for var in b.functions}
    for name in sorted(first.keys() ^ second.keys()):
        return state.differs("missing key", first.get(name) or second[name]) or state.differs("attr", "functions")
    for name, var in first.items():
        state.bind(var, second[name])
    for name in sorted(first):
        if not state.equal(a.functions[first[name]], b.functions[second[name]]):
            return state.differs("key", first[name], second[name]) or state.differs("attr", "functions")
    if not state.equal(a.attrs, b.attrs):
        return state.differs("attr", "attrs")
    return state.equal(a.global_infos, b.global_infos) or state.differs("attr", "global_infos")


# ---------------------------------------------------------------------------- from the fields


def _same_value(state: Comparison, a: Any, b: Any) -> bool:
    """Whether two plain values (or operators, or functions called) are equal."""
    return state.equal(a, b)


class _Compares(dict[type, Compare]):
    """What compares two nodes of a class; generated when a class is first met."""

    def __missing__(self, cls: type[Any]) -> Compare:
        if issubclass(cls, Var):
            found: Compare = _same_var
        elif issubclass(cls, Node):
            # a class with data but without declared fields (a tensor) is what it is by identity
            declared = cls.FIELDS or not set(slots_of(cls)) - {"span", "dtype"}
            found = comparison(cls, _NAMES) if declared else _same_object
        elif issubclass(cls, (tuple, list)):
            found = _same_items
        elif hasattr(cls, "__array__"):
            found = _same_array
        else:
            found = _same_plain
        self[cls] = found
        return found


COMPARE = _Compares()
_NAMES: dict[str, Any] = {"compare": COMPARE, "items": _same_items, "plain": _same_value}
_same_buffer_fields = comparison(Buffer, _NAMES)
COMPARE.update(
    {
        Buffer: _same_buffer,
        GlobalVar: _same_global_var,
        FloatImm: _same_float,
        PointerType: _same_pointer,
        PrimFunc: _same_function,
        IRModule: _same_module,
        dict: _same_mapping,
        Any_: _same_object,
    }
)


# ---------------------------------------------------------------------------- what users call


@deep
def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two programs (or any parts of programs) are equal but for names."""
    lhs, rhs = as_node(lhs), as_node(rhs)
    return lhs is rhs or Comparison(map_free_vars).equal(lhs, rhs)


@method_of(Type, Range, GlobalInfo, name="__eq__")
def _is_equal(self: Type | Range | GlobalInfo, other: object) -> bool:
    return self is other or (isinstance(other, Node) and structural_equal(self, other))


@deep
def get_first_structural_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> ObjectPathPair | None:
    """Where two programs differ first; None if they are equal."""
    lhs, rhs = as_node(lhs), as_node(rhs)
    state = Comparison(map_free_vars)
    if state.equal(lhs, rhs):
        return None
    sides = ObjectPath.root(), ObjectPath.root()
    parts = [lhs, rhs]
    for kind, *keys in reversed(state.where):
        sides = tuple([_extend(path, part, kind, key) for path, part, key in zip(sides, parts, keys)])
        parts = [_step(part, kind, key) for part, key in zip(parts, keys)]
    return ObjectPathPair(*sides)


def _extend(path: ObjectPath, part: Any, kind: str, key: Any) -> ObjectPath:
    """The path one step on; a part that only the other side has is missing."""
    if kind == "attr":
        return path.attr(key)
    if kind.endswith("index"):
        return path.array_index(key) if key < len(part) else path.missing_array_element(key)
    return path.map_value(key) if part is not None and _item(part, key) is not None else path.missing_map_entry()


def _item(part: Any, key: Any) -> Any:
    return part.get(key)


def _step(part: Any, kind: str, key: Any) -> Any:
    if kind == "attr":
        return getattr(part, key, None)
    if kind.endswith("index"):
        return part[key] if part is not None and key < len(part) else None
    return None if part is None else _item(part, key)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise a `StructuralMismatch` that shows both places where two programs differ first."""
    mismatch = get_first_structural_mismatch(lhs, rhs, map_free_vars)
    if mismatch is None:
        return
    raise StructuralMismatch(
        f"ValueError: StructuralEqual check failed, caused by lhs at {mismatch.lhs_path}:\n{_shown(lhs, mismatch.lhs_path)}\n"
        f"and rhs at {mismatch.rhs_path}:\n{_shown(rhs, mismatch.rhs_path)}",
        code="structural_equal.differs",
    )


def _shown(node: Any, path: ObjectPath) -> str:
    if isinstance(node, Node):
        return node.script(path_to_underline=[path], syntax_sugar=False)
    return str(node)
