"""Expressions: what computes a value.

The classes, their fields and their names are those of TVM's TIR. Operators on expressions
(`a + b`, `a < b`, ...) fold constants and match types as TVM does; constructors such as
`Add(a, b)` build exactly the node they name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.node import Field, Kind, Node, Span, field

if TYPE_CHECKING:
    from tvmagic.ir.buffer import Buffer
    from tvmagic.ir.op import Op

BOOL = DataType("bool")
INT32 = DataType("int32")
INT64 = DataType("int64")
FLOAT32 = DataType("float32")
HANDLE = DataType("handle")


class ExprOp:
    """Python's operators, for expressions and for what stands for one (IterVar, Tensor slices)."""

    __slots__ = ()

    def __add__(self, other: Any) -> PrimExpr:
        return ops.add(self, other)

    def __radd__(self, other: Any) -> PrimExpr:
        return ops.add(other, self)

    def __sub__(self, other: Any) -> PrimExpr:
        return ops.subtract(self, other)

    def __rsub__(self, other: Any) -> PrimExpr:
        return ops.subtract(other, self)

    def __mul__(self, other: Any) -> PrimExpr:
        return ops.multiply(self, other)

    def __rmul__(self, other: Any) -> PrimExpr:
        return ops.multiply(other, self)

    def __truediv__(self, other: Any) -> PrimExpr:
        return ops.true_divide(self, other)

    def __rtruediv__(self, other: Any) -> PrimExpr:
        return ops.true_divide(other, self)

    def __floordiv__(self, other: Any) -> PrimExpr:
        return ops.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> PrimExpr:
        return ops.floordiv(other, self)

    def __mod__(self, other: Any) -> PrimExpr:
        return ops.floormod(self, other)

    def __rmod__(self, other: Any) -> PrimExpr:
        return ops.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        return ops.negative(self)

    def __lshift__(self, other: Any) -> PrimExpr:
        return ops.shift_left(self, other)

    def __rlshift__(self, other: Any) -> PrimExpr:
        return ops.shift_left(other, self)

    def __rshift__(self, other: Any) -> PrimExpr:
        return ops.shift_right(self, other)

    def __rrshift__(self, other: Any) -> PrimExpr:
        return ops.shift_right(other, self)

    def __and__(self, other: Any) -> PrimExpr:
        return ops.bitwise_and(self, other)

    def __rand__(self, other: Any) -> PrimExpr:
        return ops.bitwise_and(other, self)

    def __or__(self, other: Any) -> PrimExpr:
        return ops.bitwise_or(self, other)

    def __ror__(self, other: Any) -> PrimExpr:
        return ops.bitwise_or(other, self)

    def __xor__(self, other: Any) -> PrimExpr:
        return ops.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> PrimExpr:
        return ops.bitwise_xor(other, self)

    def __invert__(self) -> PrimExpr:
        return ops.bitwise_not(self)

    def __lt__(self, other: Any) -> PrimExpr:
        return ops.less(self, other)

    def __le__(self, other: Any) -> PrimExpr:
        return ops.less_equal(self, other)

    def __gt__(self, other: Any) -> PrimExpr:
        return ops.greater(self, other)

    def __ge__(self, other: Any) -> PrimExpr:
        return ops.greater_equal(self, other)

    def __eq__(self, other: object) -> Any:
        return EqualOp(self, other)

    def __ne__(self, other: object) -> Any:
        return NotEqualOp(self, other)

    def __hash__(self) -> int:
        return id(self) >> 4

    def __bool__(self) -> bool:
        raise ValueError(
            "an expression has no truth value while the program is built: use tir.all, tir.any, "
            "tir.Not or tir.if_then_else in place of and, or, not and if"
        )

    def equal(self, other: Any, span: Span | None = None) -> PrimExpr:
        """The expression `self == other`."""
        return ops.equal(self, other, span)

    def astype(self, dtype: Any, span: Span | None = None) -> PrimExpr:
        """`self` converted to `dtype`."""
        return ops.cast(dtype, self, span)


class _Comparison(ExprOp):
    """`a == b`: an expression where one is asked for, else whether both are one object."""

    __slots__ = ("a", "b", "span")
    __hash__ = ExprOp.__hash__

    def __init__(self, a: Any, b: Any, span: Span | None = None) -> None:
        self.a, self.b, self.span = a, b, span


class EqualOp(_Comparison):
    """The value of `a == b` on expressions."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is self.b

    def asobject(self) -> PrimExpr:
        return ops.equal(self.a, self.b, self.span)


class NotEqualOp(_Comparison):
    """The value of `a != b` on expressions."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is not self.b

    def asobject(self) -> PrimExpr:
        return ops.not_equal(self.a, self.b, self.span)


class PrimExpr(ExprOp, Node):
    """An expression with a value of type `dtype`."""

    __slots__ = ("dtype",)
    dtype: DataType
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        """Set `dtype` from the operands, after a mutator has put new ones in a fresh copy."""


def convert(value: Any) -> Any:
    """A Python value as the node that stands for it.

    Numbers become constants (int32, float32, bool), texts `StringImm`, sequences tuples.
    """
    if isinstance(value, Node):
        return value.var if isinstance(value, IterVar) else value
    converter = _CONVERTERS.get(type(value))
    if converter is not None:
        return converter(value)
    if hasattr(value, "asobject"):
        return value.asobject()
    if hasattr(value, "dtype") and hasattr(value, "item"):  # a NumPy scalar
        return ops.const(value.item(), str(value.dtype))
    if callable(value):
        return value
    raise TVMagicError(f"`{value!r}` cannot stand in a program", hint="use a number or an expression")


def expr(value: Any) -> PrimExpr:
    """`value` as an expression."""
    if isinstance(value, PrimExpr):
        return value
    result = convert(value)
    if isinstance(result, DataProducer) and not getattr(result, "shape", (0,)):
        return result.asobject()  # type: ignore[attr-defined]  # a tensor without dimensions
    if isinstance(result, PrimExpr):
        return result
    raise TVMagicError(f"`{value!r}` is not an expression")


def exprs(values: Any) -> tuple[PrimExpr, ...]:
    """A sequence (or one value) as a tuple of expressions."""
    if isinstance(values, (list, tuple)):
        return tuple([v if isinstance(v, PrimExpr) else expr(v) for v in values])
    return (expr(values),)


class Var(PrimExpr):
    """A variable. It is what it is by identity; `name` is a hint for the printers.

    `type_annotation` is a `PrimType` or, for a pointer, a `PointerType`.
    """

    __slots__ = ("name", "type_annotation")
    name: str
    type_annotation: Type
    FIELDS = (field("name", Kind.NAME), field("type_annotation", Kind.TYPE))
    __hash__ = ExprOp.__hash__

    def __init__(self, name: str, dtype: Any = "int32", span: Span | None = None) -> None:
        self.name = name
        if isinstance(dtype, Type):
            self.type_annotation = dtype
            self.dtype = dtype.dtype if isinstance(dtype, PrimType) else HANDLE
        else:
            self.dtype = dtype_of(dtype)
            self.type_annotation = PrimType(self.dtype)
        self.span = span

    @property
    def name_hint(self) -> str:
        return self.name

    def copy_with_suffix(self, suffix: str) -> Var:
        return type(self)(self.name + suffix, self.type_annotation, self.span)

    def copy_with_name(self, name: str) -> Var:
        return type(self)(name, self.type_annotation, self.span)

    def copy_with_dtype(self, dtype: Any) -> Var:
        return type(self)(self.name, dtype, self.span)


class SizeVar(Var):
    """A variable that is never negative: a tensor's size."""

    __slots__ = ()


# ---------------------------------------------------------------------------- types


class Type(Node):
    """The type of a variable or of a function's result."""

    __slots__ = ()


class PrimType(Type):
    """A scalar or vector of type `dtype`."""

    __slots__ = ("dtype",)
    dtype: DataType
    FIELDS = (field("dtype", Kind.VALUE),)

    def __init__(self, dtype: Any, span: Span | None = None) -> None:
        self.dtype = dtype_of(dtype)
        self.span = span


class PointerType(Type):
    """A pointer to elements of `element_type` in the memory named `storage_scope`."""

    __slots__ = ("element_type", "storage_scope")
    element_type: Type
    storage_scope: str
    FIELDS = (field("element_type", Kind.TYPE), field("storage_scope", Kind.VALUE))

    def __init__(self, element_type: Type, storage_scope: str = "", span: Span | None = None) -> None:
        self.element_type = element_type
        self.storage_scope = storage_scope
        self.span = span


class TupleType(Type):
    """Several types; the empty one is the type of a function that returns nothing."""

    __slots__ = ("fields",)
    fields: tuple[Type, ...]
    FIELDS = (field("fields", Kind.NODES),)

    def __init__(self, fields: Sequence[Type] = (), span: Span | None = None) -> None:
        self.fields = tuple(fields)
        self.span = span


# ---------------------------------------------------------------------------- constants


class ConstExpr(PrimExpr):
    """A constant."""

    __slots__ = ("value",)
    __hash__ = ExprOp.__hash__


class IntImm(ConstExpr):
    """An integer (or bool) constant of type `dtype`."""

    __slots__ = ()
    value: int
    FIELDS = (field("dtype", Kind.VALUE), field("value", Kind.VALUE))

    def __init__(self, dtype: Any, value: Any, span: Span | None = None) -> None:
        self.dtype = dtype_of(dtype)
        value = int(value)
        bits = self.dtype.bits
        if not self.dtype.is_scalar:
            raise TVMagicError(f"a constant of type `{self.dtype}` is a Broadcast, not an IntImm")
        low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if self.dtype.is_int else (0, 1 << bits)
        if not low <= value < high and bits < 64:
            raise TVMagicError(f"the literal {value} does not fit into `{self.dtype}`")
        self.value = value
        self.span = span

    def __hash__(self) -> int:
        return hash(self.value)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __eq__(self, other: object) -> Any:
        if type(other) is int:
            return self.value == other
        if isinstance(other, IntImm):
            return self.value == other.value
        if isinstance(other, ExprOp):
            return ops.equal(self, other)
        return False if isinstance(other, (str, type(None))) else self.value == other

    def __ne__(self, other: object) -> Any:
        if isinstance(other, ExprOp) and not isinstance(other, IntImm):
            return ops.not_equal(self, other)
        return not self == other


class FloatImm(ConstExpr):
    """A floating point constant of type `dtype`."""

    __slots__ = ()
    value: float
    FIELDS = (field("dtype", Kind.VALUE), field("value", Kind.VALUE))
    __hash__ = ExprOp.__hash__

    def __init__(self, dtype: Any, value: Any, span: Span | None = None) -> None:
        self.dtype = dtype_of(dtype)
        self.value = float(value)
        self.span = span

    def __float__(self) -> float:
        return self.value


class StringImm(ConstExpr):
    """A text as an argument of a call."""

    __slots__ = ()
    value: str
    FIELDS = (field("value", Kind.VALUE),)

    def __init__(self, value: str, span: Span | None = None) -> None:
        self.dtype = HANDLE
        self.value = str(value)
        self.span = span

    def __eq__(self, other: object) -> Any:
        return self.value == (other.value if isinstance(other, ConstExpr) else other)

    def __ne__(self, other: object) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)


# ---------------------------------------------------------------------------- operators


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


class DataProducer(Node):
    """What produces values that a TE program loads: a tensor."""

    __slots__ = ()


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


# ---------------------------------------------------------------------------- ranges and iteration


class Range(Node):
    """The integers from `min` to `min + extent`, the end left out.

    `Range(end)`, `Range(begin, end)`; `Range.from_min_extent(min, extent)`.
    """

    __slots__ = ("min", "extent")
    min: PrimExpr
    extent: PrimExpr
    FIELDS = (field("min", Kind.EXPR), field("extent", Kind.EXPR))

    def __init__(self, begin: Any, end: Any = None, span: Span | None = None) -> None:
        if end is None:
            self.extent = expr(begin)
            self.min = IntImm(self.extent.dtype, 0)
        else:
            self.min = expr(begin)
            end = expr(end)
            if isinstance(self.min, IntImm) and self.min.value == 0:
                self.min = IntImm(end.dtype, 0)
                self.extent = end
            else:
                self.extent = ops.subtract(end, self.min)
        self.span = span

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any, span: Span | None = None) -> Range:
        """The range of `extent` integers from `min_value` on."""
        new = Range.__new__(Range)
        new.min, new.extent, new.span = expr(min_value), expr(extent), span
        return new

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Range):
            return False
        from tvmagic.ir.equal import structural_equal

        return structural_equal(self, other)

    __hash__ = Node.__hash__


class IterVar(ExprOp, Node):
    """An iteration variable: `var` over `dom`, of a kind `iter_type`.

    `iter_type` is one of the numbers named on the class; `dom` is None where it follows from
    others. It stands for `var` in expressions.
    """

    DataPar: ClassVar[int] = 0
    ThreadIndex: ClassVar[int] = 1
    CommReduce: ClassVar[int] = 2
    Ordered: ClassVar[int] = 3
    DimInfo: ClassVar[int] = 4
    Opaque: ClassVar[int] = 4
    Unrolled: ClassVar[int] = 5
    Vectorized: ClassVar[int] = 6
    Parallelized: ClassVar[int] = 7
    Tensorized: ClassVar[int] = 8

    __slots__ = ("dom", "var", "iter_type", "thread_tag")
    dom: Range | None
    var: Var
    iter_type: int
    thread_tag: str
    FIELDS = (
        field("dom", Kind.NODE),
        field("var", Kind.VAR_DEF),
        field("iter_type", Kind.VALUE),
        field("thread_tag", Kind.VALUE),
    )
    __hash__ = ExprOp.__hash__

    def __init__(
        self,
        dom: Any,
        var: Any,
        iter_type: int = 0,
        thread_tag: str = "",
        span: Span | None = None,
    ) -> None:
        if dom is not None and not isinstance(dom, Range):
            if not isinstance(dom, (list, tuple)) or len(dom) != 2:
                raise TVMagicError("the domain of an iteration variable is a Range or a pair of ends")
            dom = Range(dom[0], dom[1])
        if not isinstance(var, Var):
            var = Var(str(var), dom.extent.dtype if dom is not None else "int32")
        self.dom, self.var = dom, var
        self.iter_type, self.thread_tag = int(iter_type), thread_tag
        self.span = span

    @property
    def dtype(self) -> DataType:
        return self.var.dtype


class CommReducer(Node):
    """A commutative, associative way to combine values, with its neutral elements.

    `lhs`, `rhs`: the variables of the two sides; `result`: the combined values;
    `identity_element`: what changes nothing.
    """

    __slots__ = ("lhs", "rhs", "result", "identity_element")
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]
    FIELDS = (
        field("lhs", Kind.VAR_DEFS),
        field("rhs", Kind.VAR_DEFS),
        field("result", Kind.EXPRS),
        field("identity_element", Kind.EXPRS),
    )

    def __init__(self, lhs: Any, rhs: Any, result: Any, identity_element: Any, span: Span | None = None) -> None:
        self.lhs, self.rhs = tuple(lhs), tuple(rhs)
        self.result = exprs(result)
        self.identity_element = exprs(identity_element)
        self.span = span


class Reduce(PrimExpr):
    """The reduction of `source` over `axis`; element `value_index` of a tuple reduction."""

    __slots__ = ("combiner", "source", "init", "axis", "condition", "value_index")
    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    init: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...]
    condition: PrimExpr
    value_index: int
    FIELDS = (
        field("combiner", Kind.NODE),
        field("axis", Kind.NODES),
        field("source", Kind.EXPRS),
        field("init", Kind.EXPRS),
        field("condition", Kind.EXPR),
        field("value_index", Kind.VALUE),
    )
    __hash__ = ExprOp.__hash__

    def retype(self) -> None:
        self.dtype = self.source[self.value_index].dtype

    def __init__(
        self,
        combiner: CommReducer,
        source: Any,
        axis: Any,
        condition: Any,
        value_index: int,
        init: Any = (),
        span: Span | None = None,
    ) -> None:
        self.combiner = combiner
        self.source = exprs(source)
        self.axis = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        self.condition = expr(condition)
        self.value_index = int(value_index)
        self.init = exprs(init) if init else ()
        self.dtype = self.source[self.value_index].dtype
        self.span = span


class GlobalVar(Node):
    """The name of a function in a module; it is what it is by identity.

    Calling it builds the call of that function.
    """

    __slots__ = ("name_hint",)
    name_hint: str
    FIELDS: ClassVar[tuple[Field, ...]] = (field("name_hint", Kind.VALUE),)

    def __init__(self, name_hint: str, span: Span | None = None) -> None:
        self.name_hint = name_hint
        self.span = span

    def __call__(self, *args: Any) -> Call:
        return Call("void", self, args)


def attr_value(value: Any) -> Any:
    """A Python value as an attribute or annotation holds it.

    Numbers become constants, sequences tuples, mappings dicts; texts and nodes stay.
    """
    if isinstance(value, (str, Node)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return tuple([attr_value(v) for v in value])
    if isinstance(value, Mapping):
        return {str(k): attr_value(v) for k, v in value.items()}
    if isinstance(value, (bool, int, float)):
        return convert(value)
    if hasattr(value, "asobject") or hasattr(value, "item"):
        return convert(value)
    return value


def attr_dict(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes with their values as `attr_value` gives them."""
    return {str(k): attr_value(v) for k, v in values.items()} if values else {}


def _int_constant(value: int) -> IntImm:
    if not -(1 << 63) <= value < 1 << 63:
        raise TVMagicError(f"the number {value} does not fit into 64 bits")
    return IntImm(INT32 if -(1 << 31) <= value < 1 << 31 else INT64, value)


_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    int: _int_constant,
    bool: lambda value: IntImm(BOOL, value),
    float: lambda value: FloatImm(FLOAT32, value),
    str: StringImm,
    list: lambda value: tuple([convert(v) for v in value]),
    tuple: lambda value: tuple([convert(v) for v in value]),
    dict: lambda value: {k: convert(v) for k, v in value.items()},
    type(None): lambda value: None,
}

# The operators' functions build the classes above, and the classes' operators call them.
from tvmagic.ir import ops  # noqa: E402
