"""BF16ComputeLegalize: bfloat16 values are computed with as float32 and stored as bfloat16."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import (
    BinaryOp,
    Broadcast,
    BufferStore,
    Call,
    Cast,
    DataType,
    FloatImm,
    Op,
    PrimExpr,
    PrimFunc,
    Select,
    Shuffle,
    Stmt,
    Var,
    Visitor,
    handles,
)
from tvmagic.ir.ops import cast
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.retyper import Retyper

FLOAT32 = DataType("float32")
_KEPT = frozenset({"tir.address_of", "tir.reinterpret", "tir.tvm_access_ptr", "tir.type_annotation"})


def _is_bf16(dtype: DataType) -> bool:
    return dtype.code == "bfloat"


class _Bf16Finder(Visitor):
    def __init__(self) -> None:
        self.found = False

    def visit(self, node: Any) -> Any:
        if self.found:
            return
        if isinstance(node, PrimExpr) and _is_bf16(node.dtype):
            self.found = True
            return
        super().visit(node)


class _Bf16Legalizer(Retyper):
    def wide(self, node: PrimExpr) -> PrimExpr:
        """`node` visited, as float32 where it is bfloat16."""
        new = self.visit(node)
        return cast(FLOAT32.with_lanes_of(new.dtype), new) if _is_bf16(new.dtype) else new

    def bound_value(self, value: PrimExpr) -> PrimExpr:
        return self.wide(value)

    @handles(Var)
    def var(self, var: Var) -> Var:
        return self.vars.get(var, var)

    @handles(FloatImm)
    def constant(self, node: FloatImm) -> PrimExpr:
        return FloatImm(FLOAT32, node.value, node.span) if _is_bf16(node.dtype) else node

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> PrimExpr:
        a, b = self.wide(node.a), self.wide(node.b)
        return node.with_(a=a, b=b)

    @handles(Cast)
    def cast(self, node: Cast) -> PrimExpr:
        value = self.wide(node.value)
        dtype = FLOAT32.with_lanes_of(node.dtype) if _is_bf16(node.dtype) else node.dtype
        return node if value is node.value and dtype is node.dtype else cast(dtype, value, node.span)

    @handles(Select)
    def select(self, node: Select) -> PrimExpr:
        condition, then, other = self.visit(node.condition), self.wide(node.true_value), self.wide(node.false_value)
        return node.with_(condition=condition, true_value=then, false_value=other)

    @handles(Broadcast)
    def broadcast(self, node: Broadcast) -> PrimExpr:
        return node.with_(value=self.wide(node.value))

    @handles(Shuffle)
    def shuffle(self, node: Shuffle) -> PrimExpr:
        vectors = [self.wide(v) for v in node.vectors]
        if all(a is b for a, b in zip(vectors, node.vectors)):
            return node
        return Shuffle(vectors, node.indices, node.span)

    @handles(Call)
    def call(self, node: Call) -> PrimExpr:
        if isinstance(node.op, Op) and node.op.name in _KEPT:
            return self.visit_children(node)
        args = tuple([self.wide(a) if isinstance(a, PrimExpr) else a for a in node.args])
        dtype = FLOAT32.with_lanes_of(node.dtype) if _is_bf16(node.dtype) else node.dtype
        if dtype is node.dtype and all(a is b for a, b in zip(args, node.args)):
            return node
        return Call(dtype, node.op, args, node.span)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Stmt:
        new = self.visit(node.value)
        if new.dtype is not node.value.dtype:
            new = cast(node.value.dtype, new)
        indices = tuple([self.visit(i) for i in node.indices])
        if new is node.value and all(a is b for a, b in zip(indices, node.indices)):
            return node
        return node.replace(value=new, indices=indices)


@tir_pass("tir.BF16ComputeLegalize")
def BF16ComputeLegalize(func: PrimFunc) -> PrimFunc:
    """Compute in float32 what is written in bfloat16; memory stays bfloat16."""
    finder = _Bf16Finder()
    finder.visit(func.body)
    return func.with_body(_Bf16Legalizer().visit(func.body)) if finder.found else func
