"""Expressions that compute: arithmetic, comparisons, choices, calls, vectors, loads.

The classes, their fields and their names are those of TVM's TIR; a constructor such as `Add(a, b)`
builds exactly the node it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tvmagic.errors import TVMagicError
from tvmagic.ir.derive import node
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.node import Node, Operands, Span
from tvmagic.ir.prim_expr import BOOL, INT32, IntImm, PrimExpr, Var, convert

if TYPE_CHECKING:
    from tvmagic.ir.buffer import Buffer
    from tvmagic.ir.iteration import GlobalVar
    from tvmagic.ir.op import Op


def _same_type(node: PrimExpr, a: PrimExpr, b: PrimExpr) -> DataType:
    if a.dtype is not b.dtype:
        raise TVMagicError(
            f"`{type(node).__name__}` takes two operands of one type, not `{a.dtype}` and `{b.dtype}`",
            hint="convert one of them with astype, or write the Python operator, which converts",
            code="expression.dtypes_differ",
        )
    return a.dtype


@node
class BinaryOp(PrimExpr):
    """`a op b`, both of one type."""

    a: PrimExpr
    b: PrimExpr

    def retype(self) -> None:
        self.dtype = self.result_dtype(_same_type(self, self.a, self.b))

    @staticmethod
    def result_dtype(operand: DataType) -> DataType:
        """The type of the result for operands of type `operand`."""
        return operand


@node
class Add(BinaryOp):
    """`a + b`"""


@node
class Sub(BinaryOp):
    """`a - b`"""


@node
class Mul(BinaryOp):
    """`a * b`"""


@node
class Div(BinaryOp):
    """`a / b`; rounds towards zero on integers."""


@node
class Mod(BinaryOp):
    """The remainder of `Div`, with the sign of `a`."""


@node
class FloorDiv(BinaryOp):
    """`a // b`; rounds down."""


@node
class FloorMod(BinaryOp):
    """The remainder of `FloorDiv`, with the sign of `b`."""


@node
class Min(BinaryOp):
    """The smaller of `a` and `b`."""


@node
class Max(BinaryOp):
    """The larger of `a` and `b`."""


@node
class CmpOp(BinaryOp):
    """A comparison; a bool for each lane."""

    @staticmethod
    def result_dtype(operand: DataType) -> DataType:
        """The type of the result for operands of type `operand`: bool, in as many lanes."""
        return BOOL.with_lanes_of(operand)


@node
class EQ(CmpOp):
    """`a == b`"""


@node
class NE(CmpOp):
    """`a != b`"""


@node
class LT(CmpOp):
    """`a < b`"""


@node
class LE(CmpOp):
    """`a <= b`"""


@node
class GT(CmpOp):
    """`a > b`"""


@node
class GE(CmpOp):
    """`a >= b`"""


# The signs of comparisons, which scripts, the other notations and C have in common.
COMPARISON_SIGNS: dict[type[CmpOp], str] = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}


@node
class LogicalOp(BinaryOp):
    """`a` and `b` are bools."""

    def check(self) -> None:
        if not self.a.dtype.is_bool:
            raise TVMagicError(
                f"`{type(self).__name__}` takes bools, not `{self.a.dtype}`", code="expression.not_a_bool"
            )


@node
class And(LogicalOp):
    """`a and b`"""


@node
class Or(LogicalOp):
    """`a or b`"""


@node
class Not(PrimExpr):
    """`not a`"""

    a: PrimExpr

    def retype(self) -> None:
        self.dtype = self.a.dtype

    def check(self) -> None:
        if not self.dtype.is_bool:
            raise TVMagicError(f"`Not` takes a bool, not `{self.dtype}`", code="expression.not_a_bool")


@node
class Cast(PrimExpr):
    """`value` converted to `dtype`."""

    dtype: DataType
    value: PrimExpr


@node
class Select(PrimExpr):
    """`true_value` where `condition` holds, else `false_value`; both may be computed."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def retype(self) -> None:
        self.dtype = _same_type(self, self.true_value, self.false_value)

    def check(self) -> None:
        if not self.condition.dtype.is_bool:
            raise TVMagicError(
                f"the condition of `Select` is a bool, not `{self.condition.dtype}`", code="expression.not_a_bool"
            )


@node(walk="value var body")
class Let(PrimExpr):
    """`body` with `var` standing for `value`."""

    var: Var
    value: PrimExpr
    body: PrimExpr

    def retype(self) -> None:
        self.dtype = self.body.dtype

    def check(self) -> None:
        if self.var.dtype is not self.value.dtype:
            raise TVMagicError(
                f"`{self.var.name}` of type `{self.var.dtype}` cannot be a value of type `{self.value.dtype}`",
                hint="convert the value with astype",
                code="expression.let_dtype_differs",
            )


@node
class Call(PrimExpr):
    """A call of the operator `op`, or of a function of the module (`GlobalVar`)."""

    dtype: DataType
    op: Op | GlobalVar
    args: Operands

    def __init__(self, dtype: Any, op: Any, args: Sequence[Any], span: Span | None = None) -> None:
        if isinstance(op, str):
            from tvmagic.ir.op import Op

            op = Op.get(op)
        self.dtype = dtype_of(dtype) if dtype else DataType("void")
        self.op = op
        self.args = tuple([a if isinstance(a, Node) else convert(a) for a in args])
        self.span = span


def lanes_of(dtype: DataType) -> PrimExpr:
    """The number of lanes of a type as an expression: a constant, or `vscale() * k`."""
    return IntImm(INT32, dtype.lane_code) if dtype.lane_code > 0 else _vscale_times(dtype.vscale_factor)


def _vscale_times(factor: int) -> PrimExpr:
    return Mul(Call(INT32, "tir.vscale", ()), IntImm(INT32, factor))


def vscale_factor(lanes: PrimExpr) -> int | None:
    """The `k` of `vscale() * k` and `k * vscale()`; None for any other expression."""
    if not isinstance(lanes, Mul):
        return None
    for call, factor in ((lanes.a, lanes.b), (lanes.b, lanes.a)):
        if isinstance(call, Call) and getattr(call.op, "name", "") == "tir.vscale" and isinstance(factor, IntImm):
            return factor.value
    return None


def _lanes(lanes: PrimExpr) -> tuple[PrimExpr, int]:
    """The lanes of a vector in their one form, and the lane code of its type."""
    if isinstance(lanes, IntImm):
        return (lanes if lanes.dtype is INT32 else IntImm(INT32, lanes.value, lanes.span)), lanes.value
    factor = vscale_factor(lanes)
    if factor is None or factor < 1:
        raise TVMagicError(
            f"Invalid expression for scalable lanes {lanes}",
            hint="a vector has a constant number of lanes, or `T.vscale()` times a constant",
            code="expression.wrong_scalable_lanes",
        )
    return (lanes if isinstance(lanes.a, Call) else _vscale_times(factor)), -factor  # type: ignore[attr-defined]


@node
class Ramp(PrimExpr):
    """The vector `base, base + stride, ...` of `lanes` values.

    `lanes` is an int32 constant, or `vscale() * k` for a vector as long as the machine's allow.
    """

    base: PrimExpr
    stride: PrimExpr
    lanes: PrimExpr

    def retype(self) -> None:
        if self.base.dtype is not self.stride.dtype and isinstance(self.stride, IntImm):
            self.stride = IntImm(self.base.dtype, self.stride.value)
        self.lanes, code = _lanes(self.lanes)
        self.dtype = _same_type(self, self.base, self.stride).with_lane_code(code)

    def check(self) -> None:
        if not self.base.dtype.is_scalar or self.dtype.lane_code in (0, 1):
            raise TVMagicError("`Ramp` takes a scalar base and two lanes or more", code="expression.wrong_ramp")


@node
class Broadcast(PrimExpr):
    """The vector of `lanes` times the same `value`; `lanes` as those of a `Ramp`."""

    value: PrimExpr
    lanes: PrimExpr

    def retype(self) -> None:
        self.lanes, code = _lanes(self.lanes)
        self.dtype = self.value.dtype.with_lane_code(code)

    def check(self) -> None:
        if not self.value.dtype.is_scalar or self.dtype.lane_code in (0, 1):
            raise TVMagicError("`Broadcast` takes a scalar and two lanes or more", code="expression.wrong_broadcast")


@node
class Shuffle(PrimExpr):
    """Lanes picked by constant `indices` from the concatenated `vectors`."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def retype(self) -> None:
        self.dtype = self.vectors[0].dtype.with_lanes(len(self.indices))


@node
class BufferLoad(PrimExpr):
    """The element (or, if the last index is a vector, the vector) of a buffer."""

    HAS_ORIGIN: ClassVar[bool] = True
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def retype(self) -> None:
        self.dtype = access_dtype(self.buffer, self.indices)

    def check(self) -> None:
        if self.predicate is not None:
            check_predicate(self.predicate, self.buffer, self.indices, self.dtype)


def access_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> DataType:
    """The type of an access: that of the buffer, times the lanes of the last index."""
    if len(indices) != len(buffer.shape):
        raise TVMagicError(
            f"buffer `{buffer.name}` has {len(buffer.shape)} dimensions, the access has {len(indices)} indices",
            code="buffer.wrong_index_count",
        )
    dtype = buffer.dtype
    if not indices:
        return dtype
    for index in indices[:-1]:
        if index.dtype.lane_code != 1:
            raise TVMagicError(
                f"only the last index into buffer `{buffer.name}` may be a vector", code="buffer.vector_index_not_last"
            )
    lanes = indices[-1].dtype.lane_code
    if lanes == 1:
        return dtype
    if lanes < 0 and dtype.lane_code < 0:
        raise TVMagicError(
            f"Index dtype and buffer dtype can't both be scalable: buffer `{buffer.name}`",
            code="buffer.scalable_index_and_element",
        )
    return dtype.with_lane_code(dtype.lane_code * lanes)


def check_predicate(predicate: PrimExpr, buffer: Buffer, indices: tuple[PrimExpr, ...], accessed: DataType) -> None:
    """Refuse a mask that does not have one bool for each lane of a load."""
    mask, index = predicate.dtype, indices[-1].dtype.lane_code if indices else 1
    if mask.is_scalable != accessed.is_scalable:
        raise TVMagicError(
            "Predicate mask dtype and load indices must both be scalable.", code="buffer.mask_not_scalable"
        )
    if abs(mask.lane_code) not in (abs(index), abs(accessed.lane_code)):
        raise TVMagicError(
            f"Got a predicate mask with {abs(mask.lane_code)} lanes, but trying to load a vector with {abs(index)} "
            "lanes. The number of lanes must match.",
            code="buffer.mask_lanes_differ",
        )
    check_mask_element(mask)


def check_mask_element(mask: DataType) -> None:
    """Refuse a mask of anything but bools."""
    if not mask.is_bool:
        raise TVMagicError(
            f"Predicate mask elements must be boolean values, but got {mask.element_of}.", code="buffer.mask_not_bool"
        )


@node
class ProducerLoad(PrimExpr):
    """An element of a tensor, before tensors become buffers."""

    HAS_ORIGIN: ClassVar[bool] = True
    producer: Any
    indices: tuple[PrimExpr, ...]

    def retype(self) -> None:
        self.dtype = self.producer.dtype
