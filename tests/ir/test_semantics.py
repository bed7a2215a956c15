"""Types of mixed operands, and constants that fold to what the operators mean."""

from __future__ import annotations

import math
from typing import Any

import pytest
from refusals import refuses

from tvmagic import ir, te, tir
from tvmagic.ir.semantics import Neutral, compute, convert_number, plain


def number(e: Any) -> Any:
    """The value of a constant."""
    return e.value


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ("uint32", "int32", "uint32"),
        ("int8", "uint8", "uint8"),
        ("uint32", "int8", "uint32"),
        ("uint8", "int32", "int32"),
        ("int64", "uint32", "int64"),
        ("uint64", "int64", "uint64"),
        ("int32", "float16", "float16"),
    ],
)
def test_the_common_type(a: str, b: str, common: str) -> None:
    """Of one width the unsigned one, else the wider one."""
    for x, y in ((te.var("x", a), te.var("y", b)), (te.var("y", b), te.var("x", a))):
        assert (x + y).dtype == common
        assert (x < y).a.dtype == common  # type: ignore[attr-defined]
        assert tir.min(x, y).dtype == tir.if_then_else(te.var("c", "bool"), x, y).dtype == common


@pytest.mark.parametrize("dtype", ["uint32", "uint8", "int16", "int8x2"])
def test_a_number_beside_bits_takes_their_type(dtype: str) -> None:
    x = tir.Var("x", dtype)
    for e in (x >> 3, x << 2, x & 1, x | 1, x ^ 1, 1 << x, 7 & x):
        assert e.dtype == dtype
        assert {a.dtype for a in e.args} == {x.dtype}  # type: ignore[attr-defined]


def test_bits_of_floats_are_refused() -> None:
    with refuses("expression.not_an_integer"):
        ir.ops.bitwise_and(tir.Var("f", "float32"), 1)


def test_folding_of_floats() -> None:
    x, zero = tir.Var("x", "float32"), tir.const(0.0, "float32")
    for e in (x * zero, zero * x, x + zero, zero / x, x - tir.const(-0.0, "float32")):
        assert isinstance(e, ir.BinaryOp)
    minus = tir.const(-0.0, "float32")
    assert x - zero is x and x + minus is x and minus + x is x and x * 1.0 is x and x / 1.0 is x
    nan = tir.const(math.nan, "float32")
    for e in (ir.ops.maximum(nan, zero), ir.ops.maximum(zero, nan), ir.ops.minimum(zero, nan)):
        assert isinstance(e, ir.FloatImm) and math.isnan(e.value)


def test_folding_of_casts() -> None:
    cases = [
        (math.nan, "int32", 0),
        (math.inf, "int8", 127),
        (-math.inf, "uint8", 0),
        (300.7, "uint8", 255),
        (-1.5, "int16", -1),
        (1e30, "int64", (1 << 63) - 1),
    ]
    for value, dtype, wanted in cases:
        folded = tir.const(value, "float64").astype(dtype)
        assert isinstance(folded, ir.IntImm) and folded.value == wanted


def test_rounding_is_half_to_even() -> None:
    for value, wanted in ((0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-2.5, -2.0), (2.51, 3.0)):
        for function in (tir.round, tir.nearbyint):
            assert number(function(tir.const(value))) == wanted
    assert math.copysign(1, number(tir.round(tir.const(-0.5)))) < 0


def test_integers_wrap_around_and_divide_by_zero() -> None:
    int32, uint8 = ir.DataType("int32"), ir.DataType("uint8")
    least = -(1 << 31)
    assert compute(ir.FloorDiv, least, -1, int32) == least and compute(ir.FloorMod, least, -1, int32) == 0
    for op in (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod):
        assert compute(op, 7, 0, int32) == 0
    assert compute(ir.Mul, 200, 2, uint8) == 144 and compute(ir.Sub, 0, 1, uint8) == 255
    assert compute(ir.Add, True, True, ir.DataType("bool")) is True


def test_the_neutral_element_of_a_maximum() -> None:
    """It is written as TVM writes it, and means -inf, after a conversion too."""
    element = te.max(te.placeholder((2,), name="A")[te.reduce_axis((0, 2), "k")], axis=te.reduce_axis((0, 2), "r"))
    identity = element.combiner.identity_element[0]
    assert identity.value == number(tir.min_value("float32")) and plain(identity.value) == -math.inf
    wide = identity.astype("float64")
    assert type(number(wide)) is Neutral and number(wide) == number(tir.min_value("float64"))
    assert convert_number(identity.value, ir.DataType("int8")) == -128
    assert plain(number(tir.min_value("float32"))) == number(tir.min_value("float32"))
