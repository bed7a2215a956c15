"""Functions that build expressions: they match types and fold constants as TVM does.

Names and behaviour are those of `tvm.tir` and `tvm.te`; integer division comes as `floordiv`
(down) and `truncdiv` (towards zero).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvmagic.errors import TVMagicError, WrongTypeError
from tvmagic.ir.arithmetic import add as add
from tvmagic.ir.arithmetic import all as all
from tvmagic.ir.arithmetic import any as any
from tvmagic.ir.arithmetic import binary as binary
from tvmagic.ir.arithmetic import bitwise_and as bitwise_and
from tvmagic.ir.arithmetic import bitwise_not as bitwise_not
from tvmagic.ir.arithmetic import bitwise_or as bitwise_or
from tvmagic.ir.arithmetic import bitwise_xor as bitwise_xor
from tvmagic.ir.arithmetic import ceildiv as ceildiv
from tvmagic.ir.arithmetic import div as div
from tvmagic.ir.arithmetic import equal as equal
from tvmagic.ir.arithmetic import floordiv as floordiv
from tvmagic.ir.arithmetic import floormod as floormod
from tvmagic.ir.arithmetic import greater as greater
from tvmagic.ir.arithmetic import greater_equal as greater_equal
from tvmagic.ir.arithmetic import indexdiv as indexdiv
from tvmagic.ir.arithmetic import indexmod as indexmod
from tvmagic.ir.arithmetic import integer
from tvmagic.ir.arithmetic import less as less
from tvmagic.ir.arithmetic import less_equal as less_equal
from tvmagic.ir.arithmetic import logical_and as logical_and
from tvmagic.ir.arithmetic import logical_not as logical_not
from tvmagic.ir.arithmetic import logical_or as logical_or
from tvmagic.ir.arithmetic import match_lanes as match_lanes
from tvmagic.ir.arithmetic import match_types as match_types
from tvmagic.ir.arithmetic import maximum as maximum
from tvmagic.ir.arithmetic import minimum as minimum
from tvmagic.ir.arithmetic import multiply as multiply
from tvmagic.ir.arithmetic import negative as negative
from tvmagic.ir.arithmetic import not_equal as not_equal
from tvmagic.ir.arithmetic import shift_left as shift_left
from tvmagic.ir.arithmetic import shift_right as shift_right
from tvmagic.ir.arithmetic import subtract as subtract
from tvmagic.ir.arithmetic import true_divide as true_divide
from tvmagic.ir.arithmetic import truncdiv as truncdiv
from tvmagic.ir.arithmetic import truncmod as truncmod
from tvmagic.ir.buffer import Buffer
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
    FLOAT32,
    INT32,
    Broadcast,
    Call,
    FloatImm,
    IntImm,
    Let,
    PrimExpr,
    Select,
    StringImm,
    expr,
)
from tvmagic.ir.hooks import provided
from tvmagic.ir.node import Span
from tvmagic.ir.op import Op
from tvmagic.ir.semantics import ROUNDINGS, wrap_int

if TYPE_CHECKING:
    from tvmagic.ir.iteration import GlobalVar

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
    x = integer("clz", x)
    return Call(INT32.with_lanes(x.dtype.lanes), "tir.clz", (x,), span)


def popcount(x: Any, span: Span | None = None) -> PrimExpr:
    """How many bits of `x`, an integer, are set; of its type."""
    x = integer("popcount", x)
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
copysign, ldexp, fmod = _float_pair("copysign"), _float_pair("ldexp"), _float_pair("fmod")


def power(x: Any, y: Any, span: Span | None = None) -> PrimExpr:
    """`x` to the power `y`, of their common float type."""
    x, y = match_types(expr(x), expr(y))
    if not x.dtype.is_float:
        raise TVMagicError(
            f"`power` takes floats, not `{x.dtype}`", hint="convert with astype", code="expression.not_a_float"
        )
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
        raise TVMagicError(
            f"the condition of `if_then_else` is a bool, not `{cond.dtype}`", code="expression.not_a_bool"
        )
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
        raise WrongTypeError("`trace` takes a list of values", code="expression.trace_not_a_list")
    values = [_descriptor(expr(a)) for a in args]
    return Call(values[-1].dtype, "tir.tvm_call_trace_packed", [StringImm(trace_action), *values])


def call_packed(*args: Any, span: Span | None = None) -> Call:
    """A call of the registered function named by the first argument; buffers go as descriptors."""
    return Call("int32", "tir.tvm_call_packed", [_descriptor(a) for a in args], span)


def _descriptor(arg: Any) -> Any:
    """A buffer as the call that describes it to a registered function; anything else as it is."""
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
