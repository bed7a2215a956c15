"""InferFragment: what WMMA's intrinsics say of a fragment's shape and layout is noted where it is allocated."""

from __future__ import annotations

from typing import NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.ir import Allocate, AttrStmt, Call, IntImm, PrimFunc, Stmt, StmtMutator, StringImm, Var, Visitor, handles
from tvmagic.ir.query import callee
from tvmagic.ir.values import scope_of
from tvmagic.tir.transform.declaration import tir_pass

_MATRICES = ("wmma.matrix_a", "wmma.matrix_b")


class _Fragment(NamedTuple):
    """The three sizes of the multiplication that it is part of, its layout (of an input) and its memory."""

    shape: tuple[int, ...]
    layout: str
    scope: str


class _Finder(Visitor):
    """What loads, stores and fills say of each fragment; they must agree."""

    def __init__(self) -> None:
        self.fragments: dict[Var, _Fragment] = {}

    @handles(Call)
    def call(self, node: Call) -> None:
        self.visit_children(node)
        name = callee(node)
        if name in ("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync"):
            self._found(node, 8, 7)
        elif name == "tir.tvm_fill_fragment":
            self._found(node, 6, None)

    def _found(self, call: Call, count: int, layout_at: int | None) -> None:
        pointer, sizes = call.args[0], call.args[1:4]
        if len(call.args) != count or not isinstance(pointer, Var) or not all(isinstance(s, IntImm) for s in sizes):
            raise TVMagicError("the fragment of a WMMA intrinsic is a variable with three constant sizes", node=call)
        scope, layout = scope_of(pointer), ""
        if layout_at is not None and scope in _MATRICES:
            layout = str(getattr(call.args[layout_at], "value", ""))
        found = _Fragment(tuple(s.value for s in sizes if isinstance(s, IntImm)), layout, scope)
        known = self.fragments.setdefault(pointer, found)
        if known != found:
            raise TVMagicError(
                f"the fragment `{pointer.name}` is {_told(known)} in one place and {_told(found)} in another", node=call
            )


def _told(fragment: _Fragment) -> str:
    return " x ".join(map(str, fragment.shape)) + (f", {fragment.layout}" if fragment.layout else "")


class _Checker(Visitor):
    """The four fragments of a multiplication have one shape."""

    def __init__(self, fragments: dict[Var, _Fragment]) -> None:
        self.fragments = fragments

    @handles(Call)
    def call(self, node: Call) -> None:
        self.visit_children(node)
        if callee(node) not in ("tir.tvm_mma_sync", "tir.tvm_bmma_sync"):
            return
        shapes = {str(arg): self._shape(arg) for arg in node.args[0:8:2]}
        if len(set(shapes.values())) != 1 or None in shapes.values():
            told = ", ".join(f"`{name}`" for name in shapes)
            raise TVMagicError(f"the fragments {told} of a multiplication have different or unknown shapes", node=node)

    def _shape(self, pointer: object) -> tuple[int, ...] | None:
        fragment = self.fragments.get(pointer) if isinstance(pointer, Var) else None
        return fragment.shape if fragment is not None else None


class _Marker(StmtMutator):
    def __init__(self, fragments: dict[Var, _Fragment]) -> None:
        self.fragments = fragments

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        new: Stmt = self.visit_children(node)
        fragment = self.fragments.get(node.buffer_var)
        if fragment is None:
            return new
        new = AttrStmt(node.buffer_var, "fragment_shape", StringImm(", ".join(map(str, fragment.shape))), new)
        return AttrStmt(node.buffer_var, "fragment_layout", StringImm(fragment.layout), new) if fragment.layout else new


@tir_pass("tir.InferFragment")
def InferFragment(func: PrimFunc) -> PrimFunc:
    """Note at each allocation of a WMMA fragment its shape (`fragment_shape`) and layout (`fragment_layout`).

    They are what the intrinsics that load, store and fill it say. Raises `TVMagicError` if two of them disagree, or
    if the fragments that are multiplied differ in shape.
    """
    finder = _Finder()
    finder.visit(func.body)
    _Checker(finder.fragments).visit(func.body)
    return func.with_body(_Marker(finder.fragments).visit(func.body))
