"""Expressions as OpenCL C: the text of each operator for each kind of type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from refusals import refuses

from tvmagic import ir
from tvmagic.codegen.gpu.opencl.expressions import ExpressionWriter
from tvmagic.codegen.gpu.opencl.types import Plain, constant, register_type, unsigned
from tvmagic.errors import BuildError

DTYPES = {
    "x": "int32",
    "y": "int32",
    "i": "int32",
    "j": "int32",
    "u": "uint32",
    "l": "int64",
    "s": "int8",
    "c": "uint8",
    "f": "float32",
    "g": "float32",
    "d": "float64",
    "h": "float16",
    "k": "bfloat16",
    "b": "bool",
    "e": "bool",
}
V = {name: ir.Var(name, dtype) for name, dtype in DTYPES.items()}


def writer() -> ExpressionWriter:
    """`i` and `j` are loop variables from 0 to 9; the others are any values."""
    made = ExpressionWriter({}, {})
    made.values = {var: [Plain(name) if name in "ij" else name] for name, var in V.items()}
    made.intervals.known = {V["i"]: (0, 9), V["j"]: (0, 9)}
    return made


def op(dtype: str, name: str, *args: Any) -> ir.PrimExpr:
    return ir.Call(dtype, f"tir.{name}", list(args))


EXPRESSIONS: list[tuple[Callable[..., Any], str]] = [
    (lambda v: v.i + v.j, "(i + j)"),
    (lambda v: v.x + v.y, "add_int(x, y)"),
    (lambda v: v.x - v.i, "sub_int(x, i)"),
    (lambda v: v.u * v.u, "(u * u)"),
    (lambda v: v.f + v.g, "(f + g)"),
    (lambda v: v.h + v.h, "from_half(to_half((h + h)))"),
    (lambda v: v.s * v.s, "mul_char(s, s)"),
    (lambda v: v.b + v.e, "(b | e)"),
    (lambda v: v.b * v.e, "(b & e)"),
    (lambda v: v.b - v.e, "(b ^ e)"),
    (lambda v: v.i * 3 + 1, "((i * 3) + 1)"),
    (lambda v: v.c + v.c, "add_uchar(c, c)"),
    (lambda v: ir.Min(v.x, v.y), "min_int(x, y)"),
    (lambda v: ir.Max(v.f, v.g), "max_float(f, g)"),
    (lambda v: ir.Min(v.b, v.e), "(b & e)"),
    (lambda v: ir.Max(v.b, v.e), "(b | e)"),
    (lambda v: ir.FloorDiv(v.i, v.j + 1), "(i / (j + 1))"),
    (lambda v: ir.FloorMod(v.i, ir.IntImm("int32", 4)), "(i % 4)"),
    (lambda v: ir.FloorDiv(v.x, v.y), "floordiv_int(x, y)"),
    (lambda v: ir.FloorMod(v.x, ir.IntImm("int32", 4)), "floormod_int(x, 4)"),
    (lambda v: ir.FloorDiv(v.i, v.j), "floordiv_int(i, j)"),
    (lambda v: ir.FloorDiv(v.i, v.j - 1), "floordiv_int(i, (j - 1))"),
    (lambda v: ir.Div(v.i, v.j + 1), "(i / (j + 1))"),
    (lambda v: ir.Mod(v.i, v.j + 1), "(i % (j + 1))"),
    (lambda v: ir.Div(v.x, v.y), "truncdiv_int(x, y)"),
    (lambda v: ir.Mod(v.x, v.y), "truncmod_int(x, y)"),
    (lambda v: ir.Div(v.f, v.g), "(f / g)"),
    (lambda v: ir.FloorDiv(v.f, v.g), "floordiv_float(f, g)"),
    (lambda v: ir.FloorMod(v.f, v.g), "floormod_float(f, g)"),
    (lambda v: ir.Div(v.h, v.h), "from_half(to_half((h / h)))"),
    (lambda v: ir.FloorDiv(v.b, v.e), "(b & e)"),
    (lambda v: ir.FloorMod(v.b, v.e), "false"),
    (lambda v: ir.FloorDiv(v.c, ir.IntImm("uint8", 3)), "(uchar)(c / ((uchar)3))"),
    (lambda v: ir.FloorMod(v.c, ir.IntImm("uint8", 3)), "(uchar)(c % ((uchar)3))"),
    (lambda v: v.x < v.y, "(x < y)"),
    (lambda v: v.f >= v.g, "(f >= g)"),
    (lambda v: ir.And(v.b, v.e), "(b && e)"),
    (lambda v: ir.Or(v.b, v.e), "(b || e)"),
    (lambda v: ir.Not(v.b), "(!b)"),
    (lambda v: ir.Select(v.b, v.x, v.y), "(b ? x : y)"),
    (lambda v: ir.Cast("int32", v.x), "x"),
    (lambda v: ir.Cast("int64", v.x), "((long)x)"),
    (lambda v: ir.Cast("int8", v.x), "((char)x)"),
    (lambda v: ir.Cast("bool", v.x), "(x != 0)"),
    (lambda v: ir.Cast("float32", v.x), "((float)x)"),
    (lambda v: ir.Cast("int32", v.f), "(f != f ? (int)0 : convert_int_sat_rtz(f))"),
    (lambda v: ir.Cast("uint8", v.d), "(d != d ? (uchar)0 : convert_uchar_sat_rtz(d))"),
    (lambda v: ir.Cast("float64", v.f), "((double)f)"),
    (lambda v: ir.Cast("float16", v.f), "from_half(to_half(((float)f)))"),
    (lambda v: ir.Cast("float16", v.s), "from_half(to_half(((float)s)))"),
    (lambda v: ir.Cast("float16", v.d), "from_half(to_half(((float)to_odd(((double)d)))))"),
    (lambda v: ir.Cast("float16", v.x), "from_half(to_half(((float)to_odd(((double)x)))))"),
    (lambda v: ir.Cast("bool", v.f), "(f != 0)"),
    (lambda v: ir.Cast("float32", v.h), "((float)h)"),
    (lambda v: ir.Cast("float32", v.b), "((float)b)"),
    (lambda v: op("float32", "sqrt", v.f), "sqrt(f)"),
    (lambda v: op("float32", "round", v.f), "rint(f)"),
    (lambda v: op("float32", "nearbyint", v.f), "rint(f)"),
    (lambda v: op("float16", "exp", v.h), "from_half(to_half(exp(h)))"),
    (lambda v: op("float32", "pow", v.f, v.g), "pow(f, g)"),
    (lambda v: op("float32", "fma", v.f, v.g, v.f), "fma(f, g, f)"),
    (lambda v: op("int32", "floor", v.x), "x"),
    (lambda v: op("int32", "fabs", v.x), "(x < 0 ? sub_int(0, x) : x)"),
    (lambda v: op("uint32", "fabs", v.u), "u"),
    (lambda v: op("int32", "fma", v.x, v.y, v.x), "add_int(mul_int(x, y), x)"),
    (lambda v: op("float32", "sigmoid", v.f), "sigmoid_float(f)"),
    (lambda v: op("float64", "sigmoid", v.d), "sigmoid_double(d)"),
    (lambda v: op("float32", "rsqrt", v.f), "(1.0f / sqrt(f))"),
    (lambda v: op("float64", "rsqrt", v.d), "(1.0 / sqrt(d))"),
    (lambda v: op("bool", "isnan", v.f), "(bool)isnan(f)"),
    (lambda v: op("bool", "isfinite", v.f), "(bool)isfinite(f)"),
    (lambda v: op("int32", "bitwise_and", v.x, v.y), "(int)(x & y)"),
    (lambda v: op("int8", "bitwise_xor", v.s, v.s), "(char)(s ^ s)"),
    (lambda v: op("int32", "bitwise_or", v.x, v.y), "(int)(x | y)"),
    (lambda v: op("int32", "bitwise_not", v.x), "(int)(~x)"),
    (lambda v: op("bool", "bitwise_not", v.b), "(!b)"),
    (lambda v: op("int32", "shift_left", v.x, v.y), "shift_left_int(x, y)"),
    (lambda v: op("uint8", "shift_right", v.c, v.c), "shift_right_uchar(c, c)"),
    (lambda v: op("int32", "popcount", v.x), "((int)popcount((uint)x))"),
    (lambda v: op("int32", "clz", v.s), "((int)clz((uchar)s))"),
    (lambda v: op("int64", "popcount", v.x), "((long)popcount((uint)x))"),
    (lambda v: op("uint64", "large_uint_imm", ir.IntImm("int64", 5), ir.IntImm("int64", 1)), "4294967301uL"),
    (lambda v: op("int32", "likely", v.x), "x"),
    (lambda v: op("int32", "if_then_else", v.b, v.x, v.y), "(b ? x : y)"),
    (
        lambda v: op("int32", "q_multiply_shift", v.x, v.y, ir.IntImm("int32", 31), ir.IntImm("int32", 0)),
        "((int)((long)(((ulong)(long)x) * (ulong)(long)y + 1073741824UL) >> 31))",
    ),
    (
        lambda v: op("int32", "q_multiply_shift", v.x, v.y, ir.IntImm("int32", 31), ir.IntImm("int32", 2)),
        "((int)((long)(((ulong)(long)x << 2) * (ulong)(long)y + 1073741824UL) >> 31))",
    ),
    (
        lambda v: op("int32", "q_multiply_shift", v.x, v.y, ir.IntImm("int32", 31), ir.IntImm("int32", -1)),
        "((int)((long)(((ulong)(long)x) * (ulong)(long)y + 2147483648UL) >> 32))",
    ),
    (lambda v: op("float32", "reinterpret", v.x), "as_float(x)"),
    (lambda v: op("int32", "reinterpret", v.f), "as_int(f)"),
    (lambda v: op("uint16", "reinterpret", v.h), "as_ushort(to_half(h))"),
    (lambda v: op("float16", "reinterpret", v.h), "from_half(as_ushort(to_half(h)))"),
    (lambda v: op("int32", "undef"), "0"),
    (lambda v: op("int32", "assume", v.b), "0"),
]


class Names:
    def __getattr__(self, name: str) -> ir.Var:
        return V[name]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_expressions(number: int) -> None:
    """The names of helpers are without `tvm_` here."""
    make, text = EXPRESSIONS[number]
    made = writer()
    (found,) = made.visit(make(Names()))
    assert found.replace("tvm_", "") == text and not made.lines


def test_types_that_there_are_not() -> None:
    for dtype in ("int4", "float8", "handle", "uint128", "e4m3_float8", "float128"):
        with refuses("codegen.opencl.unsupported_dtype", error=Exception):
            register_type(ir.dtype_of(dtype))
    assert [unsigned(ir.dtype_of(t)) for t in ("int8", "uint16", "int32", "int64")] == ["uint", "uint", "uint", "ulong"]


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        ("int32", 5, "5"),
        ("int32", -5, "(-5)"),
        ("int32", -(1 << 31), "(-2147483647 - 1)"),
        ("int64", -(1 << 63), "(-9223372036854775807L - 1)"),
        ("int64", 7, "7L"),
        ("uint64", 7, "7uL"),
        ("uint32", 7, "7u"),
        ("int8", -128, "((char)-128)"),
        ("uint8", 255, "((uchar)255)"),
        ("int32", 1 << 31, "(-2147483647 - 1)"),
        ("int32", (1 << 32) + 3, "3"),
        ("bool", 1, "true"),
        ("bool", 0, "false"),
        ("float32", 1.5, "0x1.8000000000000p+0f"),
        ("float32", 2.0, "2.0f"),
        ("float64", 2.0, "2.0"),
        ("float32", -2.0, "(-2.0f)"),
        ("float32", 1e6, "1000000.0f"),
        ("float64", 1000001.0, "0x1.e848200000000p+19"),
        ("float32", 0.0, "0.0f"),
        ("float32", -0.0, "(-0x0.0p+0f)"),
        ("float32", math.inf, "(INFINITY)"),
        ("float64", -math.inf, "(-(double)INFINITY)"),
        ("float32", math.nan, "as_float(0x7fc00000u)"),
        ("float64", math.nan, "as_double(0x7ff8000000000000UL)"),
        ("float16", 0.1, "0x1.9980000000000p-4f"),
        ("float16", 1e9, "(INFINITY)"),
    ],
)
def test_constants(dtype: str, value: float, text: str) -> None:
    assert constant(ir.dtype_of(dtype), value) == text


def test_what_kernels_cannot_do() -> None:
    v = Names()
    for node, said in (
        (op("int32", "sin", v.x), "codegen.opencl.not_a_float"),
        (ir.Shuffle([ir.Ramp(v.i, 1, 2)], [2]), "codegen.opencl.shuffle_not_constant"),
        (ir.Shuffle([ir.Ramp(v.i, 1, 2)], [-1]), "codegen.opencl.shuffle_not_constant"),
        (op("int64", "reinterpret", v.x), "codegen.opencl.reinterpret_size"),
        (ir.Var("z", "int32"), "codegen.opencl.undefined_variable"),
        (op("int32", "q_multiply_shift", v.x, v.y, v.x, ir.IntImm("int32", 0)), "codegen.shift_not_constant"),
    ):
        with refuses(said, error=BuildError):
            writer().visit(node)
