"""Expressions that compute: arithmetic, comparisons, choices, calls, vectors, loads.

The classes, their fields and their names are those of TVM's TIR; a constructor such as `Add(a, b)`
builds exactly the node it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.node import Kind, Node, Span, field
from tvmagic.ir.values import BOOL, ExprOp, IntImm, PrimExpr, Var, convert, expr, exprs

if TYPE_CHECKING:
    from tvmagic.ir.buffer import Buffer
    from tvmagic.ir.iteration import GlobalVar
    from tvmagic.ir.op import Op


def _same_type(node: PrimExpr, a: PrimExpr, b: PrimExpr) -> DataType:
    if a.dtype is not b.dtype:
        raise TVMagicError(
            f"`{type(node).__name__}` takes two operands of one type, not `{a.dtype}` and `{b.dtype}`",
            hint="convert one of them with astype, or write the Python operator, which converts",
        )
    return a.dtype


class BinaryOp(PrimExpr):
    """`a op b`, both of one type."""

    __slots__ = ("a", "b")
    a: PrimExpr
    b: PrimExpr
    FIELDS = (field("a", Kind.EXPR), field("b", Kind.EXPR))
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = self.result_dtype(_same_type(self, self.a, self.b))

    def __init__(self, a: Any, b: Any, span: Span | None = None) -> None:
        self.a = a = a if isinstance(a, PrimExpr) else expr(a)
        self.b = b = b if isinstance(b, PrimExpr) else expr(b)
        self.dtype = self.result_dtype(_same_type(self, a, b))
        self.span = span

    @staticmethod
    def result_dtype(operand: DataType) -> DataType:
        """The type of the result for operands of type `operand`."""
        return operand


class Add(BinaryOp):
    """`a + b`"""

    __slots__ = ()


class Sub(BinaryOp):
    """`a - b`"""

    __slots__ = ()


class Mul(BinaryOp):
    """`a * b`"""

    __slots__ = ()


class Div(BinaryOp):
    """`a / b`; rounds towards zero on integers."""

    __slots__ = ()


class Mod(BinaryOp):
    """The remainder of `Div`, with the sign of `a`."""

    __slots__ = ()


class FloorDiv(BinaryOp):
    """`a // b`; rounds down."""

    __slots__ = ()


class FloorMod(BinaryOp):
    """The remainder of `FloorDiv`, with the sign of `b`."""

    __slots__ = ()


class Min(BinaryOp):
    """The smaller of `a` and `b`."""

    __slots__ = ()


class Max(BinaryOp):
    """The larger of `a` and `b`."""

    __slots__ = ()


class CmpOp(BinaryOp):
    """A comparison; a bool for each lane."""

    __slots__ = ()

    @staticmethod
    def result_dtype(operand: DataType) -> DataType:
        """The type of the result for operands of type `operand`: bool, in as many lanes."""
        return BOOL if operand.lanes == 1 else BOOL.with_lanes(operand.lanes)


class EQ(CmpOp):
    """`a == b`"""

    __slots__ = ()


class NE(CmpOp):
    """`a != b`"""

    __slots__ = ()


class LT(CmpOp):
    """`a < b`"""

    __slots__ = ()


class LE(CmpOp):
    """`a <= b`"""

    __slots__ = ()


class GT(CmpOp):
    """`a > b`"""

    __slots__ = ()


class GE(CmpOp):
    """`a >= b`"""

    __slots__ = ()


class LogicalOp(BinaryOp):
    """`a` and `b` are bools."""

    __slots__ = ()

    def __init__(self, a: Any, b: Any, span: Span | None = None) -> None:
        super().__init__(a, b, span)
        if not self.a.dtype.is_bool:
            raise TVMagicError(f"`{type(self).__name__}` takes bools, not `{self.a.dtype}`")


class And(LogicalOp):
    """`a and b`"""

    __slots__ = ()


class Or(LogicalOp):
    """`a or b`"""

    __slots__ = ()


class Not(PrimExpr):
    """`not a`"""

    __slots__ = ("a",)
    a: PrimExpr
    FIELDS = (field("a", Kind.EXPR),)
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = self.a.dtype

    def __init__(self, a: Any, span: Span | None = None) -> None:
        self.a = expr(a)
        self.dtype = self.a.dtype
        self.span = span
        if not self.dtype.is_bool:
            raise TVMagicError(f"`Not` takes a bool, not `{self.dtype}`")


class Cast(PrimExpr):
    """`value` converted to `dtype`."""

    __slots__ = ("value",)
    value: PrimExpr
    FIELDS = (field("dtype", Kind.VALUE), field("value", Kind.EXPR))
    __hash__ = ExprOp.__hash__

    def __init__(self, dtype: Any, value: Any, span: Span | None = None) -> None:
        self.dtype = dtype_of(dtype)
        self.value = expr(value)
        self.span = span


class Select(PrimExpr):
    """`true_value` where `condition` holds, else `false_value`; both may be computed."""

    __slots__ = ("condition", "true_value", "false_value")
    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    FIELDS = (
        field("condition", Kind.EXPR),
        field("true_value", Kind.EXPR),
        field("false_value", Kind.EXPR),
    )
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = _same_type(self, self.true_value, self.false_value)

    def __init__(self, condition: Any, true_value: Any, false_value: Any, span: Span | None = None) -> None:
        self.condition = expr(condition)
        self.true_value = expr(true_value)
        self.false_value = expr(false_value)
        self.dtype = _same_type(self, self.true_value, self.false_value)
        self.span = span
        if not self.condition.dtype.is_bool:
            raise TVMagicError(f"the condition of `Select` is a bool, not `{self.condition.dtype}`")


class Let(PrimExpr):
    """`body` with `var` standing for `value`."""

    __slots__ = ("var", "value", "body")
    var: Var
    value: PrimExpr
    body: PrimExpr
    FIELDS = (field("value", Kind.EXPR), field("var", Kind.VAR_DEF), field("body", Kind.EXPR))
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = self.body.dtype

    def __init__(self, var: Var, value: Any, body: Any, span: Span | None = None) -> None:
        self.var = var
        self.value = expr(value)
        self.body = expr(body)
        self.dtype = self.body.dtype
        self.span = span


class Call(PrimExpr):
    """A call of the operator `op`, or of a function of the module (`GlobalVar`)."""

    __slots__ = ("op", "args")
    op: Op | GlobalVar
    args: tuple[Any, ...]
    FIELDS = (field("dtype", Kind.VALUE), field("op", Kind.VALUE), field("args", Kind.EXPRS))
    __hash__ = ExprOp.__hash__

    def __init__(self, dtype: Any, op: Any, args: Sequence[Any], span: Span | None = None) -> None:
        if isinstance(op, str):
            from tvmagic.ir.op import Op

            op = Op.get(op)
        self.dtype = dtype_of(dtype) if dtype else DataType("void")
        self.op = op
        self.args = tuple([a if isinstance(a, Node) else convert(a) for a in args])
        self.span = span


class Ramp(PrimExpr):
    """The vector `base, base + stride, ...` of `lanes` values."""

    __slots__ = ("base", "stride", "lanes")
    base: PrimExpr
    stride: PrimExpr
    lanes: int
    FIELDS = (field("base", Kind.EXPR), field("stride", Kind.EXPR), field("lanes", Kind.VALUE))
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = _same_type(self, self.base, self.stride).with_lanes(self.lanes)

    def __init__(self, base: Any, stride: Any, lanes: Any, span: Span | None = None) -> None:
        self.base = expr(base)
        self.stride = expr(stride)
        self.lanes = int(lanes)
        if self.base.dtype is not self.stride.dtype:
            if isinstance(self.stride, IntImm):
                self.stride = IntImm(self.base.dtype, self.stride.value)
            else:
                raise TVMagicError(
                    f"`Ramp` takes a base and a stride of one type, not `{self.base.dtype}` and `{self.stride.dtype}`"
                )
        if self.base.dtype.lanes != 1 or self.lanes < 2:
            raise TVMagicError("`Ramp` takes a scalar base and two lanes or more")
        self.dtype = self.base.dtype.with_lanes(self.lanes)
        self.span = span


class Broadcast(PrimExpr):
    """The vector of `lanes` times the same `value`."""

    __slots__ = ("value", "lanes")
    value: PrimExpr
    lanes: int
    FIELDS = (field("value", Kind.EXPR), field("lanes", Kind.VALUE))
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = self.value.dtype.with_lanes(self.lanes)

    def __init__(self, value: Any, lanes: Any, span: Span | None = None) -> None:
        self.value = expr(value)
        self.lanes = int(lanes)
        if self.value.dtype.lanes != 1 or self.lanes < 2:
            raise TVMagicError("`Broadcast` takes a scalar and two lanes or more")
        self.dtype = self.value.dtype.with_lanes(self.lanes)
        self.span = span


class Shuffle(PrimExpr):
    """Lanes picked by constant `indices` from the concatenated `vectors`."""

    __slots__ = ("vectors", "indices")
    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]
    FIELDS = (field("vectors", Kind.EXPRS), field("indices", Kind.EXPRS))
    __hash__ = ExprOp.__hash__

    def __init__(self, vectors: Any, indices: Any, span: Span | None = None) -> None:
        self.vectors = exprs(vectors)
        self.indices = exprs(indices)
        self.dtype = self.vectors[0].dtype.with_lanes(len(self.indices))
        self.span = span


class BufferLoad(PrimExpr):
    """The element (or, where the last index is a vector, the vector) of a buffer."""

    __slots__ = ("buffer", "indices", "predicate")
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None
    FIELDS = (
        field("buffer", Kind.BUFFER_USE),
        field("indices", Kind.EXPRS),
        field("predicate", Kind.EXPR),
    )
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = access_dtype(self.buffer, self.indices)

    def __init__(self, buffer: Buffer, indices: Any, predicate: Any = None, span: Span | None = None) -> None:
        self.buffer = buffer
        self.indices = exprs(indices)
        self.predicate = None if predicate is None else expr(predicate)
        self.dtype = access_dtype(buffer, self.indices)
        self.span = span


def access_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> DataType:
    """The type of an access: that of the buffer, times the lanes of the last index."""
    if len(indices) != len(buffer.shape):
        raise TVMagicError(
            f"buffer `{buffer.name}` has {len(buffer.shape)} dimensions, the access has {len(indices)} indices"
        )
    dtype = buffer.dtype
    if not indices:
        return dtype
    for index in indices[:-1]:
        if index.dtype.lanes != 1:
            raise TVMagicError(f"only the last index into buffer `{buffer.name}` may be a vector")
    lanes = indices[-1].dtype.lanes
    return dtype if lanes == 1 else dtype.with_lanes(dtype.lanes * lanes)


class ProducerLoad(PrimExpr):
    """An element of a tensor, before tensors become buffers."""

    __slots__ = ("producer", "indices")
    producer: Any
    indices: tuple[PrimExpr, ...]
    FIELDS = (field("producer", Kind.VALUE), field("indices", Kind.EXPRS))
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = self.producer.dtype

    def __init__(self, producer: Any, indices: Any, span: Span | None = None) -> None:
        self.producer = producer
        self.indices = exprs(indices)
        self.dtype = producer.dtype
        self.span = span
