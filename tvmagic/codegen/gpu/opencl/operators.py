"""What each operator of `Call` is in OpenCL C: one table from names to rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.codegen.gpu.opencl.types import Lanes, constant, register_type
from tvmagic.codegen.text.rules import fixed_point_shifts, large_uint, rules_of
from tvmagic.errors import BuildError
from tvmagic.ir import Call, DataType

Rule = Callable[[Any, Call], Lanes]
RULES: dict[str, Rule] = {}
INT64 = DataType("int64")


rule = rules_of(RULES)


def _name(call: Call) -> str:
    return call.op.name.removeprefix("tir.")  # type: ignore[union-attr]


def _by_lane(writer: Any, call: Call) -> list[tuple[str, ...]]:
    """The arguments of each lane; what is the same for all lanes is repeated."""
    lanes = [writer.visit(arg) for arg in call.args]
    count = max(map(len, lanes))
    return list(zip(*[texts * (count // len(texts)) for texts in lanes]))


# ---------------------------------------------------------------------------- floats

# C's name, if it is not ours.
_FLOATS = {"round": "rint", "nearbyint": "rint"} | dict.fromkeys(
    """acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf exp exp10 exp2 fabs floor fma fmod hypot ldexp log
    log10 log1p log2 nextafter pow sin sinh sqrt tan tanh trunc""".split()
)
_WHOLE = ("floor", "ceil", "trunc", "round", "nearbyint")


@rule(*_FLOATS)
def _function(writer: Any, call: Call) -> Lanes:
    name, dtype = _name(call), call.dtype
    if not dtype.is_float:
        return [_of_integers(writer, call, name, args) for args in _by_lane(writer, call)]
    function = _FLOATS[name] or name
    return [writer.rounded(dtype, f"{function}({', '.join(args)})") for args in _by_lane(writer, call)]


def _of_integers(writer: Any, call: Call, name: str, args: tuple[str, ...]) -> str:
    dtype = call.dtype
    if name in _WHOLE or name == "fabs" and dtype.is_uint:
        return args[0]
    if name == "fabs":
        return f"({args[0]} < 0 ? {writer.helper('sub', dtype, constant(dtype, 0), args[0])} : {args[0]})"
    if name == "fma":
        return writer.helper("add", dtype, writer.helper("mul", dtype, *args[:2]), args[2])
    raise BuildError(
        f"`{name}` takes floats, not `{dtype}`",
        node=call,
        hint="convert with astype",
        code="codegen.opencl.not_a_float",
    )


@rule("sigmoid")
def _sigmoid(writer: Any, call: Call) -> Lanes:
    return [writer.rounded(call.dtype, writer.helper("sigmoid", call.dtype, x)) for x in writer.visit(call.args[0])]


@rule("rsqrt")
def _rsqrt(writer: Any, call: Call) -> Lanes:
    one = constant(DataType("float64" if call.dtype.bits == 64 else "float32"), 1.0)
    return [writer.rounded(call.dtype, f"({one} / sqrt({x}))") for x in writer.visit(call.args[0])]


@rule("isnan", "isinf", "isfinite")
def _kind_of_float(writer: Any, call: Call) -> Lanes:
    return [f"(bool){_name(call)}({x})" for x in writer.visit(call.args[0])]


# ---------------------------------------------------------------------------- integers

_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


@rule(*_BITS)
def _bitwise(writer: Any, call: Call) -> Lanes:
    sign, kind = _BITS[_name(call)], register_type(call.dtype)
    return [f"({kind})({a} {sign} {b})" for a, b in _by_lane(writer, call)]


@rule("bitwise_not")
def _not(writer: Any, call: Call) -> Lanes:
    if call.dtype.is_bool:
        return [f"(!{a})" for a in writer.visit(call.args[0])]
    return [f"({register_type(call.dtype)})(~{a})" for a in writer.visit(call.args[0])]


@rule("shift_left", "shift_right")
def _shift(writer: Any, call: Call) -> Lanes:
    return [writer.helper(_name(call), call.dtype, a, b) for a, b in _by_lane(writer, call)]


@rule("popcount", "clz")
def _count(writer: Any, call: Call) -> Lanes:
    source = call.args[0].dtype
    unsigned = register_type(DataType(f"uint{source.bits}"))
    return [
        writer.convert(f"{_name(call)}(({unsigned}){a})", DataType(f"uint{source.bits}"), call.dtype)
        for a in writer.visit(call.args[0])
    ]


@rule("large_uint_imm")
def _large(writer: Any, call: Call) -> Lanes:
    return [constant(call.dtype, large_uint(call))]


@rule("q_multiply_shift")
def _q_multiply_shift(writer: Any, call: Call) -> Lanes:
    """round(x * y * 2^-q * 2^s) with y a fixed-point number of q fractional bits."""
    x, y = call.args[:2]
    left, right = fixed_point_shifts(call)
    moved = f" << {left}" if left else ""
    result: Lanes = []
    for a, b in zip(writer.visit(x), writer.visit(y)):
        product = f"(((ulong)(long){a}{moved}) * (ulong)(long){b} + {1 << (right - 1)}UL)"
        result.append(writer.convert(f"((long){product} >> {right})", INT64, call.dtype))
    return result


# ---------------------------------------------------------------------------- control and values


@rule("if_then_else")
def _if_then_else(writer: Any, call: Call) -> Lanes:
    return writer.conditional(*call.args)


@rule("likely", "tvm_thread_invariant", "checked_index")
def _first_argument(writer: Any, call: Call) -> Lanes:
    return writer.visit(call.args[0])


@rule(
    "assume", "ignore_loop_partition", "end_of_function", "prefetch", "start_profile_intrinsic", "end_profile_intrinsic"
)
def _nothing(writer: Any, call: Call) -> Lanes:
    return ["0"]


@rule("undef")
def _undef(writer: Any, call: Call) -> Lanes:
    return [constant(call.dtype, 0)] * call.dtype.lanes


@rule("tvm_storage_sync")
def _barrier(writer: Any, call: Call) -> Lanes:
    writer.lines.append("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")
    return ["0"]


@rule("reinterpret")
def _reinterpret(writer: Any, call: Call) -> Lanes:
    source, target = call.args[0].dtype, call.dtype
    if source.bits != target.bits or source.lanes != target.lanes:
        raise BuildError(
            f"`{source}` and `{target}` are not of the same size, lane by lane",
            node=call,
            code="codegen.opencl.reinterpret_size",
        )
    lanes: Lanes = []
    for text in writer.visit(call.args[0]):
        bits = writer.to_memory(source, text) if source.bits == 16 else text
        from_float = target.is_float and target.bits == 16
        kind = "ushort" if from_float else register_type(target)
        value = f"as_{kind}({bits})"
        lanes.append(writer.from_memory(target, value) if from_float else value)
    return lanes


@rule("vectorlow", "vectorhigh")
def _half(writer: Any, call: Call) -> Lanes:
    lanes = writer.visit(call.args[0])
    return lanes[: call.dtype.lanes] if _name(call) == "vectorlow" else lanes[-call.dtype.lanes :]


@rule("vectorcombine")
def _combine(writer: Any, call: Call) -> Lanes:
    return writer.visit(call.args[0]) + writer.visit(call.args[1])
