"""Expressions that compute: arithmetic, comparisons, choices, calls, vectors, loads.

The classes, their fields and their names are those of TVM's TIR; a constructor such as `Add(a, b)`
builds exactly the node it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError
from tvmagic.ir.derive import node
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.node import Node, Operands, Span
from tvmagic.ir.values import BOOL, IntImm, PrimExpr, Var, convert

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
        return BOOL if operand.lanes == 1 else BOOL.with_lanes(operand.lanes)


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


@node
class LogicalOp(BinaryOp):
    """`a` and `b` are bools."""

    def check(self) -> None:
        if not self.a.dtype.is_bool:
            raise TVMagicError(f"`{type(self).__name__}` takes bools, not `{self.a.dtype}`")


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
            raise TVMagicError(f"`Not` takes a bool, not `{self.dtype}`")


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
            raise TVMagicError(f"the condition of `Select` is a bool, not `{self.condition.dtype}`")


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


@node
class Ramp(PrimExpr):
    """The vector `base, base + stride, ...` of `lanes` values."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int

    def retype(self) -> None:
        if self.base.dtype is not self.stride.dtype and isinstance(self.stride, IntImm):
            self.stride = IntImm(self.base.dtype, self.stride.value)
        self.dtype = _same_type(self, self.base, self.stride).with_lanes(self.lanes)

    def check(self) -> None:
        if self.base.dtype.lanes != 1 or self.lanes < 2:
            raise TVMagicError("`Ramp` takes a scalar base and two lanes or more")


@node
class Broadcast(PrimExpr):
    """The vector of `lanes` times the same `value`."""

    value: PrimExpr
    lanes: int

    def retype(self) -> None:
        self.dtype = self.value.dtype.with_lanes(self.lanes)

    def check(self) -> None:
        if self.value.dtype.lanes != 1 or self.lanes < 2:
            raise TVMagicError("`Broadcast` takes a scalar and two lanes or more")


@node
class Shuffle(PrimExpr):
    """Lanes picked by constant `indices` from the concatenated `vectors`."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def retype(self) -> None:
        self.dtype = self.vectors[0].dtype.with_lanes(len(self.indices))


@node
class BufferLoad(PrimExpr):
    """The element (or, where the last index is a vector, the vector) of a buffer."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None

    def retype(self) -> None:
        self.dtype = access_dtype(self.buffer, self.indices)


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


@node
class ProducerLoad(PrimExpr):
    """An element of a tensor, before tensors become buffers."""

    producer: Any
    indices: tuple[PrimExpr, ...]

    def retype(self) -> None:
        self.dtype = self.producer.dtype
