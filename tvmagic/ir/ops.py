"""Functions that build expressions: they match types and fold constants as TVM does.

Names and behaviour are those of `tvm.tir` and `tvm.te`; integer division comes as `floordiv`
(down) and `truncdiv` (towards zero).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError, WrongTypeError, WrongValueError
from tvmagic.ir.constants import cast as cast
from tvmagic.ir.constants import const as const
from tvmagic.ir.constants import infinity as infinity
from tvmagic.ir.constants import make_const as make_const
from tvmagic.ir.constants import make_zero as make_zero
from tvmagic.ir.constants import max_value as max_value
from tvmagic.ir.constants import min_value as min_value
from tvmagic.ir.constants import reinterpret as reinterpret
from tvmagic.ir.dtype import DataType, dtype_of
from tvmagic.ir.expr import (
    BOOL,
    EQ,
    FLOAT32,
    GE,
    GT,
    INT32,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Select,
    StringImm,
    Sub,
    expr,
)
from tvmagic.ir.fold import FOLDERS
from tvmagic.ir.hooks import provided
from tvmagic.ir.meaning import ROUNDINGS, wrap_int
from tvmagic.ir.node import Span
from tvmagic.ir.op import Op
from tvmagic.ir.operators import lanes_of

if TYPE_CHECKING:
    from tvmagic.ir.iteration import GlobalVar

# ---------------------------------------------------------------------------- arithmetic


def match_types(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Both operands with one type: lanes broadcast, integers to floats, fewer bits to more, signed to unsigned."""
    left, right = a.dtype, b.dtype
    if left is right:
        return a, b
    if left.lane_code != right.lane_code:
        a, b = match_lanes(a, b)
        left, right = a.dtype, b.dtype
    if left is right:
        return a, b
    if left.is_handle or right.is_handle:
        raise TVMagicError(f"`{left}` and `{right}` do not go together")
    if left.is_float != right.is_float:
        return (a, cast(left, b)) if left.is_float else (cast(right, a), b)
    if left.is_float:
        if left.bits == right.bits:  # float16 and bfloat16
            return (cast(right, a), b) if left.code == "bfloat" else (a, cast(left, b))
        return (cast(right, a), b) if left.bits < right.bits else (a, cast(left, b))
    if left.bits == right.bits and left.is_int:  # signed beside unsigned of one width
        return cast(right, a), b
    return (cast(right, a), b) if left.bits < right.bits else (a, cast(left, b))


def match_lanes(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """Both operands with as many lanes: a scalar beside a vector is broadcast."""
    left, right = a.dtype, b.dtype
    if left.lane_code == right.lane_code:
        return a, b
    if left.is_scalar:
        return Broadcast(a, lanes_of(right)), b
    if right.is_scalar:
        return a, Broadcast(b, lanes_of(left))
    if left.is_scalable != right.is_scalable:
        raise TVMagicError(f"Can't match scalable and fixed length vectors: `{left}` and `{right}`")
    raise TVMagicError(f"Cannot match type {left} vs {right}: they have different numbers of lanes")


def binary(op: type[BinaryOp], a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`op(a, b)` with types matched and constants folded."""
    a = a if isinstance(a, PrimExpr) else expr(a)
    b = b if isinstance(b, PrimExpr) else expr(b)
    if a.dtype is not b.dtype:
        a, b = match_types(a, b)
    folded = FOLDERS[op](a, b)
    return folded if folded is not None else op(a, b, span)


def add(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs + rhs`"""
    return binary(Add, lhs, rhs, span)


def subtract(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs - rhs`"""
    result = binary(Sub, lhs, rhs, span)
    if result.dtype.is_uint and isinstance(result, IntImm) and isinstance(lhs, IntImm) and isinstance(rhs, IntImm):
        if lhs.value < rhs.value:
            raise TVMagicError(f"{lhs} - {rhs} is below zero, which `{result.dtype}` does not hold")
    return result


def multiply(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs * rhs`"""
    return binary(Mul, lhs, rhs, span)


def div(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a / b` as C divides: integers towards zero."""
    return binary(Div, a, _divisor(b), span)


def _divisor(b: Any) -> PrimExpr:
    b = expr(b)
    if isinstance(b, FloatImm) and b.value == 0:
        raise TVMagicError("division by the constant zero", node=b)
    return b


def true_divide(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a / b` on floats; on two integers the rounding must be named."""
    a, b = expr(a), _divisor(b)
    if not a.dtype.is_float and not b.dtype.is_float:
        raise TVMagicError(
            "`/` on two integers does not say how it rounds",
            hint="write `//` (down), truncdiv (towards zero), or convert one side with astype",
        )
    return binary(Div, a, b, span)


def _integers(name: str, a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    hint = "cast with astype, or use `/`"
    return _integer(name, a, hint), _integer(name, b, hint)


def _integer(name: str, x: Any, hint: str = "cast with astype") -> PrimExpr:
    x = expr(x)
    if x.dtype.is_float or x.dtype.is_handle:
        raise TVMagicError(f"`{name}` takes integers, not `{x.dtype}`", hint=hint)
    return x


def floordiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a // b`, rounded down. Integers."""
    a, b = _integers("floordiv", a, b)
    return binary(FloorDiv, a, b, span)


def floormod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a % b`, with the sign of `b`. Integers."""
    a, b = _integers("floormod", a, b)
    return binary(FloorMod, a, b, span)


def truncdiv(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a / b`, rounded towards zero. Integers."""
    a, b = _integers("truncdiv", a, b)
    return binary(Div, a, b, span)


def truncmod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """The remainder of `truncdiv`, with the sign of `a`. Integers."""
    a, b = _integers("truncmod", a, b)
    return binary(Mod, a, b, span)


def ceildiv(lhs: Any, rhs: Any, span: Span | None = None) -> PrimExpr:
    """`lhs / rhs`, rounded up. Integers."""
    lhs, rhs = _integers("ceildiv", lhs, rhs)
    return floordiv(lhs + rhs - 1, rhs, span)


indexdiv, indexmod = floordiv, floormod


def negative(a: Any, span: Span | None = None) -> PrimExpr:
    """`-a`, as a product with -1 (TVM's form)."""
    a = expr(a)
    return multiply(a, make_const(a.dtype, -1), span)


def minimum(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """The smaller of two values."""
    return binary(Min, a, b, span)


def maximum(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """The larger of two values."""
    return binary(Max, a, b, span)


def equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a == b`"""
    return binary(EQ, a, b, span)


def not_equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a != b`"""
    return binary(NE, a, b, span)


def less(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a < b`"""
    return binary(LT, a, b, span)


def less_equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a <= b`"""
    return binary(LE, a, b, span)


def greater(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a > b`"""
    return binary(GT, a, b, span)


def greater_equal(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a >= b`"""
    return binary(GE, a, b, span)


def logical_and(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a and b`"""
    return binary(And, a, b, span)


def logical_or(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """`a or b`"""
    return binary(Or, a, b, span)


def logical_not(a: Any, span: Span | None = None) -> PrimExpr:
    """`not a`"""
    a = expr(a)
    return IntImm(BOOL, not a.value) if isinstance(a, IntImm) else Not(a, span)


def _chain(name: str, combine: Callable[..., PrimExpr], args: tuple[Any, ...], span: Span | None) -> PrimExpr:
    if not args:
        raise WrongValueError(f"`{name}` takes one condition or more")
    for arg in args:
        if not expr(arg).dtype.is_bool:
            raise TVMagicError(f"`{name}` takes bools, not `{expr(arg).dtype}`", hint="write a comparison")
    result = expr(args[0])
    for arg in args[1:]:
        result = combine(result, arg, span)
    return result


def all(*args: Any, span: Span | None = None) -> PrimExpr:
    """The conjunction of the conditions."""
    return _chain("all", logical_and, args, span)


def any(*args: Any, span: Span | None = None) -> PrimExpr:
    """The disjunction of the conditions."""
    return _chain("any", logical_or, args, span)


# ---------------------------------------------------------------------------- bits


def _bit_operands(name: str, a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    # a Python number takes the type of the other side
    if isinstance(b, int) and isinstance(a, PrimExpr) and not isinstance(b, bool):
        a, b = _integers(name, a, 0)[0], make_const(a.dtype, b)
    elif isinstance(a, int) and isinstance(b, PrimExpr) and not isinstance(a, bool):
        a, b = make_const(b.dtype, a), _integers(name, b, 0)[0]
    a, b = match_types(*_integers(name, a, b))
    return a, b


def _bitwise(name: str, compute: Callable[[int, int], int], a: Any, b: Any, span: Span | None) -> PrimExpr:
    a, b = _bit_operands(name, a, b)
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.dtype.is_index:
        return IntImm(a.dtype, wrap_int(compute(a.value, b.value), a.dtype))
    return Call(a.dtype, f"tir.{name}", (a, b), span)


def bitwise_and(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x & y`"""
    return _bitwise("bitwise_and", lambda p, q: p & q, x, y, span)


def bitwise_or(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x | y`"""
    return _bitwise("bitwise_or", lambda p, q: p | q, x, y, span)


def bitwise_xor(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x ^ y`"""
    return _bitwise("bitwise_xor", lambda p, q: p ^ q, x, y, span)


def bitwise_not(x: Any, span: Span | None = None) -> PrimExpr:
    """`~x`"""
    x = expr(x)
    if x.dtype.is_float:
        raise TVMagicError("Cannot use ~ operator on float type Expr.")
    return Call(x.dtype, "tir.bitwise_not", (_integers("bitwise_not", x, 0)[0],), span)


def _check_shift(y: PrimExpr, bits: int) -> None:
    if isinstance(y, IntImm) and not 0 <= y.value < bits:
        raise TVMagicError(f"a shift by {y.value} is outside 0 to {bits - 1}")


def shift_left(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x << y`"""
    x, y = _bit_operands("shift_left", x, y)
    _check_shift(y, x.dtype.bits)
    if isinstance(y, IntImm) and y.value == 0 and x.dtype.is_index:
        return x
    return _bitwise("shift_left", lambda p, q: p << q, x, y, span)


def shift_right(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x >> y`; keeps the sign of signed integers."""
    x, y = _bit_operands("shift_right", x, y)
    _check_shift(y, x.dtype.bits)
    if isinstance(y, IntImm) and y.value == 0 and x.dtype.is_index:
        return x
    return _bitwise("shift_right", lambda p, q: p >> q, x, y, span)


# ---------------------------------------------------------------------------- math


def _float_call(name: str) -> Callable[..., PrimExpr]:
    op = Op.get(f"tir.{name}")

    def build(x: Any, span: Span | None = None) -> PrimExpr:
        x = expr(x)
        return Call(x.dtype, op, (x,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"`{name}(x)`, elementwise, of the type of `x`."
    return build


exp, exp2, exp10 = _float_call("exp"), _float_call("exp2"), _float_call("exp10")
erf, tanh, sigmoid = _float_call("erf"), _float_call("tanh"), _float_call("sigmoid")
log, log2, log10, log1p = _float_call("log"), _float_call("log2"), _float_call("log10"), _float_call("log1p")
sin, cos, tan = _float_call("sin"), _float_call("cos"), _float_call("tan")
sinh, cosh = _float_call("sinh"), _float_call("cosh")
asin, acos, atan = _float_call("asin"), _float_call("acos"), _float_call("atan")
asinh, acosh, atanh = _float_call("asinh"), _float_call("acosh"), _float_call("atanh")
sqrt, rsqrt = _float_call("sqrt"), _float_call("rsqrt")


def clz(x: Any, span: Span | None = None) -> PrimExpr:
    """How many of the leading bits of `x`, an integer, are zero; an int32."""
    x = _integer("clz", x)
    return Call(INT32.with_lanes(x.dtype.lanes), "tir.clz", (x,), span)


def popcount(x: Any, span: Span | None = None) -> PrimExpr:
    """How many bits of `x`, an integer, are set; of its type."""
    x = _integer("popcount", x)
    return Call(x.dtype, "tir.popcount", (x,), span)


def _rounding(name: str) -> Callable[..., PrimExpr]:
    op, compute = Op.get(f"tir.{name}"), ROUNDINGS[name]

    def build(x: Any, span: Span | None = None) -> PrimExpr:
        x = expr(x)
        if x.dtype.is_int or x.dtype.is_uint:
            return x
        if isinstance(x, FloatImm) and math.isfinite(x.value):
            return FloatImm(x.dtype, compute(x.value))
        return Call(x.dtype, op, (x,), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"`{name}(x)`, elementwise; integers stay as they are."
    return build


floor, ceil, trunc = _rounding("floor"), _rounding("ceil"), _rounding("trunc")
round, nearbyint = _rounding("round"), _rounding("nearbyint")  # both half to even


def _float_pair(name: str) -> Callable[..., PrimExpr]:
    op = Op.get(f"tir.{name}")

    def build(x1: Any, x2: Any, span: Span | None = None) -> PrimExpr:
        x1, x2 = expr(x1), expr(x2)
        return Call(x1.dtype, op, (x1, x2), span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"`{name}(x1, x2)`, elementwise, of the type of `x1`."
    return build


atan2, nextafter, hypot = _float_pair("atan2"), _float_pair("nextafter"), _float_pair("hypot")
copysign, ldexp = _float_pair("copysign"), _float_pair("ldexp")


def power(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x` to the power `y`, of their common float type."""
    x, y = match_types(expr(x), expr(y))
    if not x.dtype.is_float:
        raise TVMagicError(f"`power` takes floats, not `{x.dtype}`", hint="convert with astype")
    return Call(x.dtype, "tir.pow", (x, y), span)


pow = power


def fma(x: Any, y: Any, z: Any, span: Span | None = None) -> PrimExpr:
    """`x * y + z`, rounded once."""
    x = expr(x)
    return Call(x.dtype, "tir.fma", (x, y, z), span)


def abs(x: Any, span: Span | None = None) -> PrimExpr:
    """The absolute value."""
    x = expr(x)
    if x.dtype.is_int:
        if isinstance(x, IntImm):
            return IntImm(x.dtype, wrap_int(x.value if x.value >= 0 else -x.value, x.dtype))
        zero = make_zero(x.dtype)
        return Select(greater_equal(x, zero), x, subtract(zero, x), span)
    if x.dtype.is_float:
        if isinstance(x, FloatImm):
            return FloatImm(x.dtype, math.fabs(x.value))
        return Call(x.dtype, "tir.fabs", (x,), span)
    return x


fabs = abs


def _bool_type(x: PrimExpr) -> DataType:
    return BOOL.with_lanes_of(x.dtype)


def isnan(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether `x` is not a number."""
    x = expr(x)
    if x.dtype.is_int or x.dtype.is_uint:
        return make_const(_bool_type(x), 0)
    if isinstance(x, FloatImm):
        return IntImm(BOOL, math.isnan(x.value))
    if x.dtype.bits == 16:
        x = cast(FLOAT32.with_lanes(x.dtype.lanes), x)
    return Call(_bool_type(x), "tir.isnan", (x,), span)


def isinf(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether `x` is an infinity."""
    x = expr(x)
    if x.dtype.is_int or x.dtype.is_uint:
        return make_const(_bool_type(x), 0)
    return logical_and(equal(abs(x), infinity(x.dtype)), logical_not(isnan(x)), span)


def isfinite(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether `x` is neither an infinity nor not a number."""
    x = expr(x)
    if x.dtype.is_int or x.dtype.is_uint:
        return make_const(_bool_type(x), 1)
    return logical_and(logical_not(isinf(x)), logical_not(isnan(x)), span)


# ---------------------------------------------------------------------------- control


def if_then_else(cond: Any, t: Any, f: Any, span: Span | None = None) -> PrimExpr:
    """`t` where `cond` holds, else `f`; only the value that is taken is computed."""
    cond, t, f = expr(cond), expr(t), expr(f)
    if not cond.dtype.is_bool:
        raise TVMagicError(f"the condition of `if_then_else` is a bool, not `{cond.dtype}`")
    t, f = match_types(t, f)
    if isinstance(cond, IntImm):
        return t if cond.value else f
    return Call(t.dtype, "tir.if_then_else", (cond, t, f), span)


def likely(cond: Any, span: Span | None = None) -> PrimExpr:
    """`cond`, marked as nearly always true."""
    cond = expr(cond)
    return cond if isinstance(cond, IntImm) else Call(cond.dtype, "tir.likely", (cond,), span)


def ret(value: Any, span: Span | None = None) -> PrimExpr:
    """Return `value` from the function."""
    value = expr(value)
    return Call(value.dtype, "tir.ret", (value,), span)


def assume(cond: Any, span: Span | None = None) -> PrimExpr:
    """The fact `cond`, for the compiler to use."""
    return Call("bool", "tir.assume", (expr(cond),), span)


def undef() -> PrimExpr:
    """A value that is not initialized."""
    return Call("int32", "tir.undef", ())


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: Span | None = None) -> Call:
    """A call of the operator `func_name`."""
    return Call(dtype, func_name, args, span)


def call_extern(dtype: Any, func_name: str, *args: Any, span: Span | None = None) -> Call:
    """A call of the C function `func_name`."""
    return Call(dtype, "tir.call_extern", (StringImm(func_name), *args), span)


def call_pure_extern(dtype: Any, func_name: str, *args: Any, span: Span | None = None) -> Call:
    """A call of the C function `func_name`, which has no effect besides its result."""
    return Call(dtype, "tir.call_pure_extern", (StringImm(func_name), *args), span)


def trace(args: list[Any], trace_action: str = "tvm.default_trace_action") -> Call:
    """The last of `args`, after a call of the registered function `trace_action` with all of them. What the function
    returns, if it is not None, is the value instead."""
    if not isinstance(args, (list, tuple)) or not args:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WrongTypeError("`trace` takes a list of values")
    values = [_descriptor(expr(a)) for a in args]
    return Call(values[-1].dtype, "tir.tvm_call_trace_packed", [StringImm(trace_action), *values])


def call_packed(*args: Any, span: Span | None = None) -> Call:
    """A call of the registered function named by the first argument; buffers go as descriptors."""
    return Call("int32", "tir.tvm_call_packed", [_descriptor(a) for a in args], span)


def _descriptor(arg: Any) -> Any:
    """A buffer as the call that describes it to a registered function; anything else as it is."""
    from tvmagic.ir.buffer import Buffer

    if not isinstance(arg, Buffer):
        return arg
    shape = Call("handle", "tir.tvm_stack_make_shape", arg.shape)
    strides = Call("handle", "tir.tvm_stack_make_shape", arg.strides) if arg.strides else 0
    fields = (arg.data, shape, strides, len(arg.shape), make_const(arg.dtype, 0), arg.elem_offset)
    return Call("handle", "tir.tvm_stack_make_array", fields)


def call_llvm_intrin(dtype: Any, name: Any, *args: Any, span: Span | None = None) -> Call:
    """A call of the LLVM intrinsic `name` (or of its number, see `llvm_lookup_intrinsic_id`).

    The first argument, an uint32, says how many of the others determine which of the overloaded functions is meant. A
    `dtype` of `""` is void. Raises a ValueError if there is no such intrinsic.
    """
    return Call(dtype, "tir.call_llvm_intrin", (_intrinsic_name(name), *args), span)


def call_llvm_pure_intrin(dtype: Any, name: Any, *args: Any, span: Span | None = None) -> Call:
    """A call of the LLVM intrinsic `name`, which has no effect besides its result."""
    return Call(dtype, "tir.call_llvm_pure_intrin", (_intrinsic_name(name), *args), span)


def _intrinsic_name(name: Any) -> StringImm:
    names = provided("llvm intrinsics")()
    name = name.value if isinstance(name, (StringImm, IntImm)) else name
    return StringImm(names.checked(name) if isinstance(name, str) else names.name_of(int(name)))


def type_annotation(dtype: Any) -> Call:
    """A dtype as an argument of a call."""
    return Call(dtype, "tir.type_annotation", ())


def atomic_add(pointer: Any, value: Any, span: Span | None = None) -> Call:
    """Add `value` to what `pointer` (`address_of(A[i])`) points to, at once for all threads; gives the old value."""
    value = expr(value)
    return Call(value.dtype, "tir.atomic_add", (pointer, value), span)


def address_of(buffer_load: Any, span: Span | None = None) -> Call:
    """The address of an element of a buffer."""
    load = buffer_load if isinstance(buffer_load, PrimExpr) else buffer_load[[0] * len(buffer_load.shape)]
    return Call("handle", "tir.address_of", (load,), span)


def isnullptr(x: Any, span: Span | None = None) -> Call:
    """Whether the pointer `x` is null."""
    return Call("bool", "tir.isnullptr", (x,), span)


def vscale() -> Call:
    """The number of lanes of a scalable vector over its least number."""
    return Call("int32", "tir.vscale", ())


def get_vscale_expr(dtype: Any, min_size: int = 128) -> PrimExpr:
    """The lanes of a scalable vector of `dtype` whose least size is `min_size` bits: `4 * vscale()` for float32."""
    return expr(min_size // dtype_of(dtype).bits) * vscale()


def broadcast(value: Any, lanes: Any, span: Span | None = None) -> Broadcast:
    """`value` in each of `lanes` lanes."""
    return Broadcast(expr(value), lanes, span)


def let(var: Any, value: Any, body: Any, span: Span | None = None) -> Let:
    """`body` with `var` standing for `value`."""
    return Let(var, value, body, span)


def call_tir(global_var: GlobalVar, *args: Any) -> Call:
    """A call of a function of the module by its name, of the type that it returns."""
    return global_var(*args)


def llvm_lookup_intrinsic_id(name: str) -> PrimExpr:
    """The number by which the LLVM at hand knows the intrinsic `name`, such as `llvm.ctpop.i8`; an uint32.

    Raises a ValueError if there is no such intrinsic.
    """
    return IntImm("uint32", provided("llvm intrinsics")().number_of(name))
