"""What expressions are made of: the operators that Python code writes, conversion of Python values,
types, variables and constants.

The functions behind the operators (`ir.ops`) build classes that derive from those here. `operator_methods` attaches
them to the classes as methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tvmagic.errors import LiteralRangeError, TVMagicError, WrongTypeError, WrongValueError
from tvmagic.ir.container import JoinedTuple
from tvmagic.ir.derive import CONVERTERS, PLAIN_CONVERTERS, node
from tvmagic.ir.dtype import DataType, dtype_of, integer_limits
from tvmagic.ir.node import Kind, Name, Node, Span

BOOL = DataType("bool")
INT32 = DataType("int32")
INT64 = DataType("int64")
FLOAT32 = DataType("float32")
HANDLE = DataType("handle")
# What `isinstance` asks of a value of any type. By these names the value keeps its type for the type
# checker; the classes themselves would make it a list, say, of what is not known.
SEQUENCES: tuple[type, ...] = (list, tuple)
TUPLES: tuple[type, ...] = (tuple,)
MAPPINGS: tuple[type, ...] = (Mapping,)
SLICES: tuple[type, ...] = (slice,)
class_of: Callable[[Any], type[Any]] = type  # likewise


class ExprOp:
    """Python's operators, for expressions and for what stands for one (IterVar, Tensor slices)."""

    __slots__ = ()

    if TYPE_CHECKING:  # `operator_methods` attaches these

        def __add__(self, other: Any) -> PrimExpr: ...
        def __radd__(self, other: Any) -> PrimExpr: ...
        def __sub__(self, other: Any) -> PrimExpr: ...
        def __rsub__(self, other: Any) -> PrimExpr: ...
        def __mul__(self, other: Any) -> PrimExpr: ...
        def __rmul__(self, other: Any) -> PrimExpr: ...
        def __truediv__(self, other: Any) -> PrimExpr: ...
        def __rtruediv__(self, other: Any) -> PrimExpr: ...
        def __floordiv__(self, other: Any) -> PrimExpr: ...
        def __rfloordiv__(self, other: Any) -> PrimExpr: ...
        def __mod__(self, other: Any) -> PrimExpr: ...
        def __rmod__(self, other: Any) -> PrimExpr: ...
        def __neg__(self) -> PrimExpr: ...
        def __lshift__(self, other: Any) -> PrimExpr: ...
        def __rlshift__(self, other: Any) -> PrimExpr: ...
        def __rshift__(self, other: Any) -> PrimExpr: ...
        def __rrshift__(self, other: Any) -> PrimExpr: ...
        def __and__(self, other: Any) -> PrimExpr: ...
        def __rand__(self, other: Any) -> PrimExpr: ...
        def __or__(self, other: Any) -> PrimExpr: ...
        def __ror__(self, other: Any) -> PrimExpr: ...
        def __xor__(self, other: Any) -> PrimExpr: ...
        def __rxor__(self, other: Any) -> PrimExpr: ...
        def __invert__(self) -> PrimExpr: ...
        def __lt__(self, other: Any) -> PrimExpr: ...
        def __le__(self, other: Any) -> PrimExpr: ...
        def __gt__(self, other: Any) -> PrimExpr: ...
        def __ge__(self, other: Any) -> PrimExpr: ...
        def equal(self, other: Any, span: Span | None = None) -> PrimExpr: ...
        def astype(self, dtype: Any, span: Span | None = None) -> PrimExpr: ...

    def __eq__(self, other: object) -> Any:
        return EqualOp(self, other) if other is not None else _compared_with_none(self)

    def __ne__(self, other: object) -> Any:
        return NotEqualOp(self, other) if other is not None else not _compared_with_none(self)

    def __hash__(self) -> int:
        return id(self) >> 4

    def __bool__(self) -> bool:
        raise ValueError(
            "an expression has no truth value while the program is built: use tir.all, tir.any, "
            "tir.Not or tir.if_then_else in place of and, or, not and if"
        )


def _compared_with_none(value: ExprOp) -> bool:
    if isinstance(value, PrimExpr):
        raise WrongValueError(
            "an expression is not compared with None",
            hint="write `is None` or `is not None`",
            code="expression.compared_with_none",
        )
    return False


class _Comparison(ExprOp):
    """`a == b`: an expression if one is asked for, else whether both are one object."""

    __slots__ = ("a", "b", "span")

    def __init__(self, a: Any, b: Any, span: Span | None = None) -> None:
        self.a, self.b, self.span = a, b, span

    if TYPE_CHECKING:  # `operator_methods` attaches it

        def asobject(self) -> PrimExpr: ...


class EqualOp(_Comparison):
    """The value of `a == b` on expressions."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is self.b


class NotEqualOp(_Comparison):
    """The value of `a != b` on expressions."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self.a is not self.b


class StandsFor(ExprOp, Node):
    """A node that stands for an expression if one is asked for."""

    __slots__ = ()

    def asobject(self) -> PrimExpr:
        """The expression it stands for."""
        raise NotImplementedError


class PrimExpr(ExprOp, Node):
    """An expression with a value of type `dtype`."""

    __slots__ = ("dtype",)
    dtype: DataType

    def retype(self) -> None:
        """Set `dtype` from the operands, after a mutator has put new ones in a fresh copy."""


class DataProducer(Node):
    """What produces values that a TE program loads: a tensor."""

    __slots__ = ()


def convert(value: Any) -> Any:
    """A Python value as the node that stands for it.

    Numbers become constants (int32, float32, bool), texts `StringImm`, sequences tuples.
    """
    if isinstance(value, Node):
        return value.asobject() if isinstance(value, StandsFor) else value
    converter = _CONVERTERS.get(class_of(value))
    if converter is not None:
        return converter(value)
    if hasattr(value, "asobject"):
        return value.asobject()
    if hasattr(value, "dtype") and hasattr(value, "item") and getattr(value, "size", 1) == 1:  # a NumPy scalar
        return ConstExpr.of_scalar(value)
    if callable(value) or (hasattr(value, "__array__") and not hasattr(value, "item")):
        return value
    raise TVMagicError(
        f"`{value!r}` cannot be converted to an IR expression",
        hint="use a number or an expression",
        code="expression.not_convertible",
    )


def runtime_value(value: Any) -> Any:
    """A Python value as `tvm.runtime.convert` gives it: like `convert`, but texts stay texts, also those inside."""
    if isinstance(value, str):
        return value
    if isinstance(value, SEQUENCES):
        return tuple([runtime_value(item) for item in value])
    if isinstance(value, MAPPINGS):
        return {key: runtime_value(item) for key, item in value.items()}
    return None if value is None else convert(value)


def expr(value: Any) -> PrimExpr:
    """`value` as an expression."""
    if isinstance(value, PrimExpr):
        return value
    result = convert(value)
    if isinstance(result, DataProducer) and not getattr(result, "shape", (0,)):
        return result.asobject()  # type: ignore[attr-defined]  # a tensor without dimensions
    if isinstance(result, PrimExpr):
        return result
    raise TVMagicError(f"`{value!r}` is not an expression", code="expression.not_an_expression")


def exprs(values: Any) -> tuple[PrimExpr, ...]:
    """A sequence (or one value) as a tuple of expressions."""
    if isinstance(values, SEQUENCES):
        return tuple([v if isinstance(v, PrimExpr) else expr(v) for v in values])
    return (expr(values),)


def _nodes(values: Any) -> tuple[Any, ...]:
    """Several nodes, one, or None for none, as a tuple."""
    if isinstance(values, Node):
        return (values,)
    return () if values is None else tuple(values)


def attr_value(value: Any) -> Any:
    """A Python value as an attribute or annotation holds it.

    Numbers become constants, sequences tuples, mappings dicts; texts and nodes stay.
    """
    if isinstance(value, (str, Node)) or value is None:
        return value
    if isinstance(value, SEQUENCES):
        return tuple([attr_value(v) for v in value])
    if isinstance(value, MAPPINGS):
        return {str(k): attr_value(v) for k, v in value.items()}
    if isinstance(value, (bool, int, float)):
        return convert(value)
    if hasattr(value, "asobject") or hasattr(value, "item"):
        return convert(value)
    return value


def attr_dict(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes with their values as `attr_value` gives them."""
    return {str(k): attr_value(v) for k, v in values.items()} if values else {}


CONVERTERS.update(
    {
        Kind.EXPR: expr,
        Kind.EXPRS: exprs,
        **dict.fromkeys((Kind.STMTS, Kind.NODES, Kind.VAR_DEFS, Kind.BUFFER_DEFS), _nodes),
        Kind.ATTRS: attr_dict,
        Kind.OBJECT: attr_value,
    }
)
PLAIN_CONVERTERS.update({"DataType": dtype_of, "int": int})


class Type(Node):
    """The type of a variable or of a function's result. Types compare by structure."""

    __slots__ = ()


@node
class Var(PrimExpr):
    """A variable. It is what it is by identity; `name` is a hint for the printers.

    `type_annotation` is a `PrimType` or, for a pointer, a `PointerType`.
    """

    name: Name
    type_annotation: Type

    def __init__(self, name: str, dtype: Any = "int32", span: Span | None = None) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # what a user gives
            raise WrongTypeError(f"the name of a variable is a text, not `{name!r}`", code="variable.name_not_a_text")
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
        """Its name, which is only for reading: variables of one name are still different."""
        return self.name

    def copy_with_suffix(self, suffix: str) -> Var:
        """A new variable of the same type, its name with `suffix` behind."""
        return type(self)(self.name + suffix, self.type_annotation, self.span)

    def copy_with_name(self, name: str) -> Var:
        """A new variable of the same type called `name`."""
        return type(self)(name, self.type_annotation, self.span)

    def copy_with_dtype(self, dtype: Any) -> Var:
        """A new variable of the same name and of type `dtype`."""
        return type(self)(self.name, dtype, self.span)


@node
class SizeVar(Var):
    """A variable that is never negative: a tensor's size."""


# ---------------------------------------------------------------------------- types


@node
class PrimType(Type):
    """A scalar or vector of type `dtype`."""

    dtype: DataType


@node
class PointerType(Type):
    """A pointer to elements of `element_type` in the memory named `storage_scope`."""

    element_type: Type
    storage_scope: str = ""


def scope_of(pointer: Any) -> str:
    """The memory that a pointer points into (`shared`, `local`, ...); `global` if its type does not say."""
    kind = pointer.type_annotation
    return (kind.storage_scope if isinstance(kind, PointerType) else "") or "global"


@node
class TupleType(Type):
    """Several types; the empty one is the type of a function that returns nothing."""

    fields: tuple[Type, ...] = ()


@node
class FuncType(Type):
    """The type of a function: those of its arguments and of its result, the variables of types in them, and what these
    types have to fulfil."""

    arg_types: tuple[Type, ...]
    ret_type: Type | None
    type_params: tuple[Type, ...] = ()
    type_constraints: tuple[Type, ...] = ()


# ---------------------------------------------------------------------------- constants


def number_text(value: int) -> str:
    """A whole number as a message shows it; one of thousands of digits is shown by its size."""
    return str(value) if value.bit_length() <= 256 else f"of {value.bit_length()} bits"


def check_64_bits(value: int) -> None:
    """Refuse a whole number that no program can hold."""
    if not -(1 << 63) <= value < 1 << 63:
        raise TVMagicError(
            f"the number {number_text(value)} does not fit into 64 bits",
            hint="the largest is 2**63 - 1",
            code="constant.beyond_64_bits",
        )


@node
class ConstExpr(PrimExpr):
    """A constant."""

    value: Any

    if TYPE_CHECKING:  # `constants` attaches it

        @staticmethod
        def of_scalar(value: Any) -> PrimExpr: ...


@node
class IntImm(ConstExpr):
    """An integer (or bool) constant of type `dtype`."""

    dtype: DataType
    value: int

    def __init__(self, dtype: Any, value: Any, span: Span | None = None) -> None:
        self.dtype = dtype_of(dtype)
        value = int(value)
        if not self.dtype.is_scalar:
            raise TVMagicError(
                f"a constant of type `{self.dtype}` is a Broadcast, not an IntImm", code="constant.vector_type"
            )
        low, high = integer_limits(self.dtype)
        if not low <= value <= high:
            raise LiteralRangeError(
                f"the literal {number_text(value)} does not fit into `{self.dtype}`",
                hint=f"its values are {low} to {high}; what it is joined with can be converted first, as in `int32(x)`"
                if self.dtype.bits < 32
                else f"its values are {low} to {high}",
                code="constant.does_not_fit",
            )
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
            return self.equal(other)
        if other is None:
            return _compared_with_none(self)
        return False if isinstance(other, str) else self.value == other

    def __ne__(self, other: object) -> Any:
        if isinstance(other, ExprOp) and not isinstance(other, IntImm):
            return NotEqualOp(self, other).asobject()
        return not self == other


@node
class FloatImm(ConstExpr):
    """A floating point constant of type `dtype`."""

    dtype: DataType
    value: float

    def __init__(self, dtype: Any, value: Any, span: Span | None = None) -> None:
        self.dtype = dtype_of(dtype)
        if not self.dtype.is_float or not self.dtype.is_scalar:
            raise TVMagicError(
                f"`FloatImm` takes a floating-point type, not `{self.dtype}`", code="constant.not_a_float_type"
            )
        try:
            self.value = value if isinstance(value, float) else float(value)  # `Neutral` stays what it is
        except OverflowError:
            raise TVMagicError(f"the number is too large for `{self.dtype}`", code="constant.does_not_fit") from None
        if self.dtype.bits < 64 and self.dtype.largest < abs(self.value) < math.inf:
            raise TVMagicError(
                f"the literal {self.value} does not fit into `{self.dtype}`, whose largest value is {self.dtype.largest}",
                code="constant.does_not_fit",
            )
        self.span = span

    def __float__(self) -> float:
        return self.value


@node
class StringImm(ConstExpr):
    """A text as an argument of a call."""

    value: str

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


def _int_constant(value: int) -> IntImm:
    check_64_bits(value)
    return IntImm(INT32 if -(1 << 31) <= value < 1 << 31 else INT64, value)


_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    int: _int_constant,
    bool: lambda value: IntImm(BOOL, value),
    float: lambda value: FloatImm(FLOAT32, value),
    str: StringImm,
    list: lambda value: tuple([convert(v) for v in value]),
    tuple: lambda value: tuple([convert(v) for v in value]),
    JoinedTuple: lambda value: tuple([convert(v) for v in value]),
    dict: lambda value: {k: convert(v) for k, v in value.items()},
    type(None): lambda value: None,
}
