"""What each operator of `Call` becomes: one table from names to rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.codegen.emit.divisions import low_bits, unseen
from tvmagic.codegen.math.math_library import libm_call
from tvmagic.codegen.text.llvm_names import names
from tvmagic.codegen.text.rules import LIBRARY, OWN, RULES, fixed_point_shifts, large_uint, rule
from tvmagic.codegen.text.types import constant, lanes_name, llvm_type, place_type, suffix
from tvmagic.errors import BuildError
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.query import contains, is_call
from tvmagic.target import cpu_and_features
from tvmagic.target.check import why_refused
from tvmagic.target.families import ELSEWHERE, families
from tvmagic.tir.transform.expressions.next_after import next_small

FLOAT32, FLOAT64, INT64 = ir.DataType("float32"), ir.DataType("float64"), ir.DataType("int64")


def _args(emitter: Any, call: ir.Call) -> list[str]:
    return [emitter.visit(arg) for arg in call.args]


# ---------------------------------------------------------------------------- floats

# LLVM's intrinsics that every machine here has as instructions.
_MACHINE = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "fabs": "fabs", "round": "rint",
    "nearbyint": "rint", "copysign": "copysign", "fma": "fma",
}  # fmt: skip
# Every function of floats that gives a float of their type.
MATH_NAMES = sorted({*_MACHINE, *LIBRARY, "sigmoid", "rsqrt"})


def _in_float32(emitter: Any, call: ir.Call, args: list[str], compute: Callable[[ir.DataType, list[str]], str]) -> str:
    """16-bit floats are computed in float32 and rounded once."""
    dtype = call.dtype
    if not (dtype.is_float and dtype.bits == 16):
        return compute(dtype, args)
    wide = FLOAT32.with_lanes(dtype.lanes)
    widened = [emitter.convert(a, arg.dtype, wide) if arg.dtype.is_float else a for a, arg in zip(args, call.args)]
    return emitter.convert(compute(wide, widened), wide, dtype)


def _math(emitter: Any, call: ir.Call) -> str:
    name = call.op.name.removeprefix("tir.")  # type: ignore[union-attr]
    if not call.dtype.is_float:
        raise BuildError(
            f"`{name}` takes floats, not `{call.dtype}`",
            node=call,
            hint="convert with astype",
            code="codegen.not_a_float",
        )
    if name == "nextafter" and call.dtype.bits == 16:  # not the neighbour among the numbers of float32
        return emitter.visit(next_small(call, *call.args))

    def compute(dtype: ir.DataType, args: list[str]) -> str:
        if (name, dtype.bits) in OWN:
            kind = llvm_type(dtype)
            values = ", ".join(f"{kind} {a}" for a in args)
            return emitter.out.op(f"call {kind} {emitter.context.vector_math(name, dtype)}({values})")
        if name == "sigmoid":
            raise BuildError(
                f"`sigmoid` has no code for values of type `{dtype}`", node=call, code="codegen.unsupported_sigmoid"
            )
        return libm_call(emitter, name, dtype, args)

    return _in_float32(emitter, call, _args(emitter, call), compute)


for _name in [*LIBRARY, "sigmoid"]:
    RULES[f"tir.{_name}"] = _math


@rule(*_MACHINE)
def _machine(emitter: Any, call: ir.Call) -> str:
    name = call.op.name.removeprefix("tir.")  # type: ignore[union-attr]
    args = _args(emitter, call)
    if not call.dtype.is_float:
        return _integer_machine(emitter, call, name, args)
    intrinsic = _MACHINE[name]
    if name == "fma" and call.dtype.bits == 16:
        return _small_fma(emitter, call, args)
    if name == "fma" and not emitter.context.family.calls_process:  # which rounds once without an instruction for it
        intrinsic = "fmuladd"
    if name in ("fabs", "copysign") and call.dtype.code != "bfloat":
        return emitter.intrinsic(intrinsic, call.dtype, *args)
    return _in_float32(emitter, call, args, lambda dtype, values: emitter.intrinsic(intrinsic, dtype, *values))


def _small_fma(emitter: Any, call: ir.Call, args: list[str]) -> str:
    """x y + z of 16-bit floats, rounded once.

    In float64 the product is exact. The sum is rounded to odd (its last bit is set if something is lost), so that the
    second rounding decides as it would for the exact sum.
    """
    wide, bits = FLOAT64.with_lane_code(call.dtype.lane_code), INT64.with_lane_code(call.dtype.lane_code)
    x, y, z = (emitter.convert(a, arg.dtype, wide) for a, arg in zip(args, call.args))
    kind, whole, op = llvm_type(wide), llvm_type(bits), emitter.out.op
    # 1. The sum, and what it leaves out.
    product = op(f"fmul {kind} {x}, {y}")
    total = op(f"fadd {kind} {product}, {z}")
    part = op(f"fsub {kind} {total}, {product}")
    rest = op(f"fsub {kind} {total}, {part}")
    lost = op(f"fadd {kind} {op(f'fsub {kind} {product}, {rest}')}, {op(f'fsub {kind} {z}, {part}')}")
    # 2. If something is left out and the last bit is 0: the next number on that side, whose last bit is 1.
    zero, one, none = constant(wide, 0.0), constant(bits, 1), constant(bits, 0)
    number = op(f"bitcast {kind} {total} to {whole}")
    even = op(f"icmp eq {whole} {op(f'and {whole} {number}, {one}')}, {none}")
    flags = llvm_type(ir.DataType("bool").with_lane_code(call.dtype.lane_code))
    wrong = op(f"and {flags} {even}, {op(f'fcmp one {kind} {lost}, {zero}')}")
    apart = op(f"xor {flags} {op(f'fcmp ogt {kind} {lost}, {zero}')}, {op(f'fcmp ogt {kind} {total}, {zero}')}")
    step = op(f"select {flags} {apart}, {whole} {constant(bits, -1)}, {whole} {one}")
    odd = op(f"select {flags} {wrong}, {whole} {op(f'add {whole} {number}, {step}')}, {whole} {number}")
    return emitter.convert(op(f"bitcast {whole} {odd} to {kind}"), wide, call.dtype)


def _integer_machine(emitter: Any, call: ir.Call, name: str, args: list[str]) -> str:
    dtype = call.dtype
    if name == "fabs":
        return emitter.intrinsic("abs", dtype, *args, extra="i1 false") if dtype.is_int else args[0]
    if name == "fma":
        product = emitter.out.op(f"mul {llvm_type(dtype)} {args[0]}, {args[1]}")
        return emitter.out.op(f"add {llvm_type(dtype)} {product}, {args[2]}")
    if name in ("floor", "ceil", "trunc", "round", "nearbyint"):
        return args[0]
    raise BuildError(f"`{name}` takes floats, not `{dtype}`", node=call, code="codegen.not_a_float")


@rule("rsqrt")
def _rsqrt(emitter: Any, call: ir.Call) -> str:
    def compute(dtype: ir.DataType, args: list[str]) -> str:
        root = emitter.intrinsic("sqrt", dtype, args[0])
        return emitter.out.op(f"fdiv {llvm_type(dtype)} {constant(dtype, 1.0)}, {root}")

    return _in_float32(emitter, call, _args(emitter, call), compute)


@rule("isnan")
def _isnan(emitter: Any, call: ir.Call) -> str:
    value = emitter.visit(call.args[0])
    return emitter.float_comparison("uno", call.args[0].dtype, value, value)


@rule("isinf", "isfinite")
def _isinf(emitter: Any, call: ir.Call) -> str:
    dtype, value = call.args[0].dtype, emitter.visit(call.args[0])
    if dtype.code == "bfloat" or dtype.bits == 16 and emitter.context.family.widens_half:
        value, dtype = emitter.convert(value, dtype, FLOAT32.with_lanes(dtype.lanes)), FLOAT32.with_lanes(dtype.lanes)
    size = emitter.intrinsic("fabs", dtype, value)
    word = "oeq" if call.op.name == "tir.isinf" else "one"  # type: ignore[union-attr]
    return emitter.out.op(f"fcmp {word} {llvm_type(dtype)} {size}, {constant(dtype, float('inf'))}")


# ---------------------------------------------------------------------------- integers


@rule("popcount")
def _popcount(emitter: Any, call: ir.Call) -> str:
    dtype = call.args[0].dtype
    count = emitter.intrinsic("ctpop", dtype, emitter.visit(call.args[0]))
    return emitter.convert(count, dtype, call.dtype)


@rule("clz")
def _clz(emitter: Any, call: ir.Call) -> str:
    dtype = call.args[0].dtype
    count = emitter.intrinsic("ctlz", dtype, emitter.visit(call.args[0]), extra="i1 false")
    return emitter.convert(count, dtype, call.dtype)


_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}


@rule(*_BITS)
def _bitwise(emitter: Any, call: ir.Call) -> str:
    a, b = _args(emitter, call)
    name = call.op.name[4:]  # type: ignore[union-attr]
    low, high = emitter.intervals.of(call.args[1])
    if name == "bitwise_and" and low == high > 0 and low & (low + 1) == 0:
        return low_bits(emitter, call.dtype, a, low)
    return emitter.out.op(f"{_BITS[name]} {llvm_type(call.dtype)} {a}, {b}")


@rule("bitwise_not")
def _bitwise_not(emitter: Any, call: ir.Call) -> str:
    value = emitter.visit(call.args[0])
    return emitter.out.op(f"xor {llvm_type(call.dtype)} {value}, {constant(call.dtype, -1)}")


@rule("shift_left", "shift_right")
def _shift(emitter: Any, call: ir.Call) -> str:
    a, b = _args(emitter, call)
    dtype, kind = call.dtype, llvm_type(call.dtype)
    left = call.op.name == "tir.shift_left"  # type: ignore[union-attr]
    word = "shl" if left else "ashr" if dtype.is_int else "lshr"
    low, high = emitter.intervals.of(call.args[1])
    if 0 <= low and high < dtype.bits:
        if left and low == high and not contains(call.args[0], ir.BufferLoad):
            (least, most), limits = emitter.intervals.of(call.args[0]), integer_limits(dtype.element_of)
            if least << low < limits[0] or most << low > limits[1]:
                b = unseen(emitter, dtype, a, b)
        return emitter.out.op(f"{word} {kind} {a}, {b}")
    # the machine would use the low bits of the amount only; NumPy shifts everything out
    inside = emitter.out.op(f"icmp ult {kind} {b}, {constant(dtype, dtype.bits)}")
    flags = emitter.condition_type(dtype)
    if word == "ashr":
        most = constant(dtype, dtype.bits - 1)
        amount = emitter.out.op(f"select {flags} {inside}, {kind} {b}, {kind} {most}")
        return emitter.out.op(f"{word} {kind} {a}, {amount}")
    zero = constant(dtype, 0)
    if dtype.bits == 64 and emitter.context.family.launches:
        # of a shift that is selected LLVM makes PTX's, which takes 32 bits of the amount and forgets the others
        amount = emitter.out.op(f"and {kind} {b}, {constant(dtype, dtype.bits - 1)}")
    else:
        amount = emitter.out.op(f"select {flags} {inside}, {kind} {b}, {kind} {zero}")
    shifted = emitter.out.op(f"{word} {kind} {a}, {amount}")
    return emitter.out.op(f"select {flags} {inside}, {kind} {shifted}, {kind} {zero}")


@rule("large_uint_imm")
def _large(emitter: Any, call: ir.Call) -> str:
    return constant(call.dtype, large_uint(call))


@rule("q_multiply_shift")
def _q_multiply_shift(emitter: Any, call: ir.Call) -> str:
    """round(x * y * 2^-q * 2^s) with y a fixed-point number of q fractional bits."""
    x, y = call.args[:2]
    left, right = fixed_point_shifts(call)
    wide, out = INT64.with_lanes(call.dtype.lanes), emitter.out
    kind = llvm_type(wide)
    a, b = (emitter.convert(emitter.visit(v), v.dtype, wide) for v in (x, y))
    if left:
        a = out.op(f"shl {kind} {a}, {constant(wide, left)}")
    product = out.op(f"mul {kind} {a}, {b}")
    rounded = out.op(f"add {kind} {product}, {constant(wide, 1 << (right - 1))}")
    return emitter.convert(out.op(f"ashr {kind} {rounded}, {constant(wide, right)}"), wide, call.dtype)


# ---------------------------------------------------------------------------- control and values


@rule("if_then_else")
def _if_then_else(emitter: Any, call: ir.Call) -> str:
    condition, then, other = call.args
    return emitter.conditional(condition, then, other)


@rule("checked_index")
def _checked_index(emitter: Any, call: ir.Call) -> str:
    """An index that stops the function if it is outside its dimension."""
    return emitter.context.check_index(emitter, call)


@rule("likely", "tvm_thread_invariant")
def _first_argument(emitter: Any, call: ir.Call) -> str:
    return emitter.visit(call.args[0])


@rule("assume")
def _assume(emitter: Any, call: ir.Call) -> str:
    if not emitter.context.check_bounds and call.args[0].dtype.lanes == 1:
        name = emitter.context.text.declare("llvm.assume", "void", "i1")
        emitter.out.do(f"call void {name}(i1 {emitter.visit(call.args[0])})")
    return "0"


@rule("undef")
def _undef(emitter: Any, call: ir.Call) -> str:
    return "undef"


@rule(
    "ignore_loop_partition", "end_of_function", "tvm_storage_sync", "start_profile_intrinsic", "end_profile_intrinsic"
)
def _nothing(emitter: Any, call: ir.Call) -> str:
    if emitter.context.family.launches and call.op.name == "tir.tvm_storage_sync":  # type: ignore[union-attr]
        name = emitter.context.text.declare("llvm.nvvm.barrier0", "void", "", "convergent nounwind")
        emitter.out.do(f"call void {name}()")
    return "0"


@rule("reinterpret")
def _reinterpret(emitter: Any, call: ir.Call) -> str:
    source, target = call.args[0].dtype, call.dtype
    value = emitter.visit(call.args[0])
    if source.bits * source.lanes != target.bits * target.lanes:
        raise BuildError(
            f"`{source}` and `{target}` differ in size and cannot be reinterpreted",
            node=call,
            code="codegen.reinterpret_size",
        )
    if source.is_handle or target.is_handle:
        return emitter.convert(value, source, target)
    return emitter.out.op(f"bitcast {llvm_type(source)} {value} to {llvm_type(target)}")


@rule("vectorlow", "vectorhigh")
def _half(emitter: Any, call: ir.Call) -> str:
    dtype, lanes = call.args[0].dtype, call.dtype.lanes
    first = 0 if call.op.name == "tir.vectorlow" else dtype.lanes - lanes  # type: ignore[union-attr]
    places = ", ".join(f"i32 {first + i}" for i in range(lanes))
    kind = llvm_type(dtype)
    return emitter.out.op(
        f"shufflevector {kind} {emitter.visit(call.args[0])}, {kind} poison, <{lanes} x i32> <{places}>"
    )


@rule("vectorcombine")
def _combine(emitter: Any, call: ir.Call) -> str:
    kind, lanes = llvm_type(call.args[0].dtype), call.dtype.lanes
    a, b = _args(emitter, call)
    places = ", ".join(f"i32 {i}" for i in range(lanes))
    return emitter.out.op(f"shufflevector {kind} {a}, {kind} {b}, <{lanes} x i32> <{places}>")


@rule("get_active_lane_mask")
def _active_lanes(emitter: Any, call: ir.Call) -> str:
    base, limit = (emitter.convert(emitter.visit(a), a.dtype, INT64) for a in call.args)
    flags, name = llvm_type(call.dtype), f"llvm.get.active.lane.mask.{lanes_name(call.dtype.lane_code)}i1.i64"
    name = emitter.context.text.declare(name, flags, "i64, i64")
    return emitter.out.op(f"call {flags} {name}(i64 {base}, i64 {limit})")


@rule("vscale")
def _vscale(emitter: Any, call: ir.Call) -> str:
    return emitter.out.op(f"call i32 {emitter.context.text.declare('llvm.vscale.i32', 'i32', '')}()")


# ---------------------------------------------------------------------------- pointers


def _element_address(emitter: Any, load: ir.BufferLoad) -> str:
    index = emitter.flat_index(load.buffer, load.indices)
    return emitter.address(load.buffer, emitter.wide_index(getattr(index, "base", index)))


@rule("address_of")
def _address_of(emitter: Any, call: ir.Call) -> str:
    if not isinstance(call.args[0], ir.BufferLoad):
        raise BuildError("`address_of` takes an element of a buffer", node=call, code="codegen.wrong_address_of")
    return _element_address(emitter, call.args[0])


@rule("tvm_access_ptr")
def _access_ptr(emitter: Any, call: ir.Call) -> str:
    emitter.context.check_pointer(emitter, call)
    kind, pointer, offset = call.args[0].dtype, emitter.visit(call.args[1]), call.args[2]
    index = emitter.wide_index(offset)
    return emitter.out.op(f"getelementptr inbounds {place_type(kind)}, ptr {pointer}, i64 {index}")


@rule("isnullptr")
def _isnullptr(emitter: Any, call: ir.Call) -> str:
    return emitter.out.op(f"icmp eq ptr {emitter.visit(call.args[0])}, null")


@rule("prefetch")
def _prefetch(emitter: Any, call: ir.Call) -> str:
    load = call.args[0]
    place = _element_address(emitter, load) if isinstance(load, ir.BufferLoad) else emitter.visit(load)
    hints = [str(int(a)) for a in call.args[1:]]
    write, locality, data = (hints + ["0", "3", "1"][len(hints) :])[:3]
    name = emitter.context.text.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    emitter.out.do(f"call void {name}(ptr {place}, i32 {write}, i32 {locality}, i32 {data})")
    return "0"


@rule("atomic_add")
def _atomic_add(emitter: Any, call: ir.Call) -> str:
    dtype, kind = call.dtype, llvm_type(call.dtype)
    if not dtype.is_scalar or dtype.is_bool or dtype.code == "bfloat" or dtype.is_handle:
        raise BuildError(
            f"there is no atomic addition of values of type `{dtype}`", node=call, code="codegen.unsupported_atomic_add"
        )
    pointer, value = emitter.visit(call.args[0]), emitter.visit(call.args[1])
    word = "fadd" if dtype.is_float else "add"
    return emitter.out.op(f"atomicrmw {word} ptr {pointer}, {kind} {value} seq_cst, align {dtype.bytes}")


# ---------------------------------------------------------------------------- calls of other code


@rule("call_extern", "call_pure_extern")
def _extern(emitter: Any, call: ir.Call) -> str:
    name = call.args[0]
    if not isinstance(name, ir.StringImm):
        raise BuildError(
            "the first argument of `call_extern` is the function's name", node=call, code="codegen.wrong_extern_name"
        )
    if not name.value or not all(c.isalnum() or c in "_.$@:" for c in name.value):
        raise BuildError(f"`{name.value}` is not the name of a function", node=call, code="codegen.wrong_extern_name")
    if any(name.value == abi.symbol for abi in emitter.context.abis.values()):
        raise BuildError(
            f"`{name.value}` is a function of this module, not of another",
            node=call,
            hint="call it by its global variable",
            code="codegen.extern_name_taken",
        )
    if not emitter.context.family.calls_process and name.value in _BLOCKS and len(call.args) == 4:
        return _block_call(emitter, call, name.value)
    return _foreign(emitter, call, name.value, call.args[1:])


# C's functions on blocks of memory as LLVM's intrinsics, which are instructions if there is no process to call them in.
_BLOCKS = {"memcpy": "llvm.memcpy.p0.p0", "memmove": "llvm.memmove.p0.p0", "memset": "llvm.memset.p0"}


def _block_call(emitter: Any, call: ir.Call, name: str) -> str:
    types, values = _foreign_operands(emitter, call.args[1:])
    if name == "memset" and types[1] != "i8":
        value = emitter.out.op(f"trunc {values[1]} to i8")
        types[1], values[1] = "i8", f"i8 {value}"
    function = emitter.context.text.declare(f"{_BLOCKS[name]}.{types[2]}", "void", ", ".join([*types, "i1"]))
    emitter.out.do(f"call void {function}({', '.join([*values, 'i1 false'])})")
    return values[0].removeprefix("ptr ") if call.dtype.is_handle else "0"


def _foreign(emitter: Any, call: ir.Call, name: str, args: tuple[Any, ...]) -> str:
    """A call of a function that is not of this module."""
    types, values = _foreign_operands(emitter, args)
    return _foreign_call(emitter, call, name, types, values)


def _foreign_operands(emitter: Any, args: tuple[Any, ...]) -> tuple[list[str], list[str]]:
    """The types of arguments in functions of others, and the operands with their types."""
    types, values = [], []
    for arg in args:
        value, kind = emitter.visit(arg), "ptr" if isinstance(arg, ir.StringImm) else _foreign_type(arg.dtype)
        if arg.dtype.code == "bfloat":
            value = emitter.out.op(f"bitcast {llvm_type(arg.dtype)} {value} to {kind}")
        types.append(kind)
        values.append(f"{kind} {value}")
    return types, values


def _foreign_call(emitter: Any, call: ir.Call, name: str, types: list[str], values: list[str]) -> str:
    result = _foreign_type(call.dtype)
    function = emitter.context.text.declare(name, result, ", ".join(types))
    text = f"call {result} {function}({', '.join(values)})"
    if result == "void":
        emitter.out.do(text)
        return "0"
    given = emitter.out.op(text)
    return emitter.out.op(f"bitcast {result} {given} to {llvm_type(call.dtype)}") if "bfloat" in result else given


def _foreign_type(dtype: ir.DataType) -> str:
    """The type of a value in functions of others: bfloat16 as LLVM and C pass it."""
    return llvm_type(dtype).replace("i16", "bfloat") if dtype.code == "bfloat" else llvm_type(dtype)


# LLVM's intrinsics that every machine has for scalars alone.
_SCALAR = frozenset(("lround", "llround"))


@rule("call_llvm_intrin", "call_llvm_pure_intrin")
def _llvm_intrinsic(emitter: Any, call: ir.Call) -> str:
    name = call.args[0]
    if not isinstance(name, ir.StringImm):
        raise BuildError(
            "the first argument of `call_llvm_intrin` is the intrinsic's name",
            node=call,
            code="codegen.wrong_intrinsic_name",
        )
    prefix = name.value.removeprefix("llvm.").partition(".")[0]
    target = emitter.context.target
    of_machine = prefix in ELSEWHERE or any(prefix in f.intrinsics for f in families())
    # LLVM ends the process on an intrinsic of another architecture than the target's
    if of_machine and prefix not in target.family.intrinsics:
        triple = emitter.context.target_triple
        raise BuildError(
            f"the target `{triple}` has no instruction for the intrinsic `{name.value}`",
            node=call,
            code="codegen.intrinsic_not_on_target",
        )
    if call.dtype.is_vector and prefix in _SCALAR:
        raise BuildError(
            f"Intrinsic does not support vectors: `{name.value}` takes scalars",
            node=call,
            code="codegen.intrinsic_without_vectors",
        )
    # TVM counts the arguments that choose the overload in front of them
    args = [a for a in call.args[1:] if not (isinstance(a, ir.IntImm) and a.dtype == "uint32" and a is call.args[1])]
    kind = suffix(call.dtype)
    symbol = names().with_type(name.value, kind.replace("i16", "bf16") if call.dtype.code == "bfloat" else kind)
    types, values = _foreign_operands(emitter, tuple(args))
    why = why_refused(cpu_and_features(target), symbol, _foreign_type(call.dtype), types, values)
    if why is not None and of_machine:
        raise BuildError(
            f"the processor of `{target}` has no instruction for the intrinsic `{symbol}`",
            node=call,
            code="codegen.intrinsic_not_on_processor",
        )
    if why is not None:
        raise BuildError(
            f"LLVM refuses this call of its intrinsic `{symbol}`: {why}", node=call, code="codegen.intrinsic_refused"
        )
    return _foreign_call(emitter, call, symbol, types, values)


@rule("tvm_call_packed", "tvm_call_cpacked", "tvm_call_trace_packed")
def _packed(emitter: Any, call: ir.Call) -> str:
    """A function that Python registered: arguments go as 8-byte slots with a code each, which are TVM's
    (0 integer, 2 float, 3 pointer, 7 array, 11 text). A trace has a negative count of them, for its last argument is
    its value if the function gives none."""
    out, args = emitter.out, call.args[1:]
    values = out.at_entry(f"alloca [{max(len(args), 1)} x i64], align 8")
    codes = out.at_entry(f"alloca [{max(len(args), 1)} x i32], align 4")
    for i, arg in enumerate(args):
        code, kind, value = _packed_value(emitter, arg)
        place = out.op(f"getelementptr inbounds i64, ptr {values}, i64 {i}")
        out.do(f"store {kind} {value}, ptr {place}, align 8")
        place = out.op(f"getelementptr inbounds i32, ptr {codes}, i64 {i}")
        out.do(f"store i32 {code}, ptr {place}, align 4")
    return _packed_call(
        emitter, call, values, codes, -len(args) if is_call(call, "tir.tvm_call_trace_packed") else len(args)
    )


@rule("tvm_call_packed_lowered", "tvm_call_cpacked_lowered", "tvm_call_trace_packed_lowered")
def _packed_on_stack(emitter: Any, call: ir.Call) -> str:
    """Emit a packed call whose arguments are on stacks, from `begin` up to `end`."""
    begin, end = call.args[3:5]
    if not isinstance(begin, ir.IntImm) or not isinstance(end, ir.IntImm):
        raise BuildError(
            "the place of a packed call's arguments is a constant", node=call, code="codegen.packed_place_not_constant"
        )
    values, codes = (
        emitter.out.op(f"getelementptr inbounds {kind}, ptr {emitter.visit(stack)}, i64 {begin.value}")
        for kind, stack in zip(("i64", "i32"), call.args[1:3])
    )
    count = end.value - begin.value
    return _packed_call(
        emitter, call, values, codes, -count if is_call(call, "tir.tvm_call_trace_packed_lowered") else count
    )


def _packed_call(emitter: Any, call: ir.Call, values: str, codes: str, count: int) -> str:
    name, out = call.args[0], emitter.out
    if not isinstance(name, ir.StringImm):
        raise BuildError(
            "the first argument of `call_packed` is the function's name", node=call, code="codegen.wrong_packed_name"
        )
    helper = emitter.context.helper("packed")
    status = out.op(f"call i32 {helper}(ptr {emitter.visit(name)}, ptr {values}, ptr {codes}, i32 {count})")
    emitter.leave_if(status)
    if call.dtype.code in ("void", "handle"):
        return "0"
    result = out.op(f"load i64, ptr {values}, align 8")
    if call.dtype.is_float:
        double = out.op(f"bitcast i64 {result} to double")
        return emitter.convert(double, ir.DataType("float64"), call.dtype)
    return emitter.convert(result, INT64, call.dtype)


def _packed_value(emitter: Any, arg: Any) -> tuple[int, str, str]:
    if is_call(arg, "tir.tvm_stack_make_array"):
        return 7, "ptr", emitter.visit(arg)
    if isinstance(arg, ir.StringImm):
        return 11, "ptr", emitter.visit(arg)
    value = emitter.visit(arg)
    if arg.dtype.is_handle or isinstance(arg, ir.Var) and arg.dtype.is_handle:
        return 3, "ptr", value
    if arg.dtype.is_float:
        return 2, "double", emitter.convert(value, arg.dtype, ir.DataType("float64"))
    return 0, "i64", emitter.convert(value, arg.dtype, INT64)


# What declares further rules.
