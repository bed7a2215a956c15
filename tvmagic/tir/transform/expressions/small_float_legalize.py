"""BF16ComputeLegalize and FP8ComputeLegalize: small floats are computed with in a wider type and stored as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import TVMagicError
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
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.next_after import next_small
from tvmagic.tir.transform.expressions.retyper import Retyper

_KEPT = frozenset({"tir.address_of", "tir.tvm_access_ptr", "tir.type_annotation"})


def is_bfloat16(dtype: DataType) -> bool:
    """Whether values of the type are bfloat16, one or many."""
    return dtype.code == "bfloat"


def is_float8(dtype: DataType) -> bool:
    """Whether values of the type are floats of 8 bits, one or many."""
    return dtype.is_float8


class _SmallFloatFinder(Visitor):
    """Whether a program has values of the small types at all."""

    def __init__(self, small: Callable[[DataType], bool]) -> None:
        self.small, self.found = small, False

    def visit(self, node: Any) -> Any:
        if self.found:
            return
        if isinstance(node, PrimExpr) and self.small(node.dtype):
            self.found = True
            return
        super().visit(node)


class _Legalizer(Retyper):
    def __init__(self, small: Callable[[DataType], bool], promoted: DataType) -> None:
        super().__init__()
        self.small, self.promoted = small, promoted

    def _wider(self, dtype: DataType) -> DataType:
        return self.promoted.with_lanes_of(dtype) if self.small(dtype) else dtype

    def wide(self, node: PrimExpr) -> PrimExpr:
        """`node` visited, in the wider type if it is small."""
        new = self.visit(node)
        return cast(self._wider(new.dtype), new) if self.small(new.dtype) else new

    def bound_value(self, value: PrimExpr) -> PrimExpr:
        return self.wide(value)

    @handles(Var)
    def var(self, var: Var) -> Var:
        return self.vars.get(var, var)

    @handles(FloatImm)
    def constant(self, node: FloatImm) -> PrimExpr:
        return FloatImm(self.promoted, node.value, node.span) if self.small(node.dtype) else node

    @handles(BinaryOp)
    def binary(self, node: BinaryOp) -> PrimExpr:
        a, b = self.wide(node.a), self.wide(node.b)
        return node.with_(a=a, b=b)

    @handles(Cast)
    def cast(self, node: Cast) -> PrimExpr:
        value = self.wide(node.value)
        dtype = self._wider(node.dtype)
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
        if is_call(node, "tir.reinterpret"):  # of the bits that the small type has
            value = self.visit(node.args[0])
            return node.with_(args=(cast(node.args[0].dtype, value),))
        if isinstance(node.op, Op) and node.op.name in _KEPT:
            return self.visit_children(node)
        if is_bfloat16(node.dtype) and self.small(node.dtype) and is_call(node, "tir.fma"):
            # one rounding of the exact result: that of float32 would be a second one
            return node.with_(args=tuple([cast(node.dtype, self.visit(a)) for a in node.args]))
        args = tuple([self.wide(a) if isinstance(a, PrimExpr) else a for a in node.args])
        if self.small(node.dtype) and is_call(node, "tir.nextafter"):  # the neighbour in the small type
            return next_small(node, *args)
        dtype = self._wider(node.dtype)
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


def _legalized(func: PrimFunc, small: Callable[[DataType], bool], promoted: DataType) -> PrimFunc:
    finder = _SmallFloatFinder(small)
    finder.visit(func.body)
    return func.with_body(_Legalizer(small, promoted).visit(func.body)) if finder.found else func


@tir_pass("tir.BF16ComputeLegalize")
def BF16ComputeLegalize(func: PrimFunc) -> PrimFunc:
    """Compute in float32 what is written in bfloat16; memory stays bfloat16."""
    return _legalized(func, is_bfloat16, DataType("float32"))


@tir_pass("tir.FP8ComputeLegalize")
def FP8ComputeLegalize(func: PrimFunc, promote_dtype: str = "float32") -> PrimFunc:
    """Compute in `promote_dtype` (float16 or wider) what is written in floats of 8 bits; memory stays as it is."""
    promoted = DataType(promote_dtype)
    if not promoted.is_float or promoted.bits < 16 or promoted.is_vector:
        raise TVMagicError(
            f"float8 cannot be computed in `{promote_dtype}`",
            hint='give "float16" or "float32"',
            code="tir.fp8_compute_legalize.wrong_dtype",
        )
    return _legalized(func, is_float8, promoted)
