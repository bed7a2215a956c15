"""NarrowIntegers: conversions to 8 or 16 bits are computed in 16 bits if all intermediate values fit."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from late_passes import HASWELL, late, with_body

import tvmagic
from tvmagic import ir, te, tir
from tvmagic.codegen import llvm_ir
from tvmagic.codegen.late.narrow_integers import narrow_integers
from tvmagic.ir.query import nodes_of

X, Y, S = ir.decl_buffer((64,), "uint8", "X"), ir.decl_buffer((64,), "int8", "Y"), ir.decl_buffer((64,), "uint16", "S")
W = ir.decl_buffer((64,), "int32", "W")
I, ROW = ir.Var("i"), ir.Var("row")


def wide(buffer: Any, dtype: str = "int32") -> ir.PrimExpr:
    return ir.Cast(dtype, ir.BufferLoad(buffer, [I]))


x, y, s, w = wide(X), wide(Y), wide(S), ir.BufferLoad(W, [I])


def narrowed(value: ir.PrimExpr, dtype: str = "uint8") -> str | None:
    """The text of a value converted to a narrow type in a loop over `row`, or None if it is unchanged."""
    return stored(ir.Cast(dtype, value))


def stored(value: ir.PrimExpr) -> str | None:
    result = ir.decl_buffer((64,), str(value.dtype.element_of), "Z")
    index = I if value.dtype.is_scalar else ir.Ramp(I, 1, value.dtype.lanes)
    loop = ir.For(ROW, 0, 301, ir.ForKind.SERIAL, ir.BufferStore(result, value, [index]))
    made = late(narrow_integers, with_body(loop, X, Y, S, W, result, I))
    return None if made is None else str(nodes_of(made.body, ir.BufferStore)[0].value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (tir.min(x + y, 255), 'T.min(T.Cast("int16", X[i]) + T.Cast("int16", Y[i]), T.int16(255))'),
        (tir.min(ir.Mul(x, x), 255), 'T.min(T.Cast("uint16", X[i]) * T.Cast("uint16", X[i]), T.uint16(255))'),
        (tir.min(s, 255), "T.min(S[i], T.uint16(255))"),
        (
            tir.max(tir.floordiv(x - 200, 3), 0),
            'T.max((T.Cast("int16", X[i]) - T.int16(200)) // T.int16(3), T.int16(0))',
        ),
        (tir.max(tir.floormod(y, 7), 3), 'T.max(T.Cast("int16", Y[i]) % T.int16(7), T.int16(3))'),
        (tir.max(x - 9 >> 2, 3), 'T.max(T.shift_right(T.Cast("int16", X[i]) - T.int16(9), T.int16(2)), T.int16(3))'),
        (
            tir.Select(x < y, x, 0),
            'T.Select(T.Cast("int16", X[i]) < T.Cast("int16", Y[i]), T.Cast("int16", X[i]), T.int16(0))',
        ),
        (
            tir.Select(tir.all(x < y, tir.Not(w == 3)), x, y),
            'T.Select(T.Cast("int16", X[i]) < T.Cast("int16", Y[i]) and not W[i] == 3, T.Cast("int16", X[i]), T.Cast("int16", Y[i]))',
        ),
        (tir.min(x + ROW, 255), 'T.min(T.Cast("int16", X[i]) + T.Cast("int16", row), T.int16(255))'),
        (tir.min(tir.bitwise_and(w, 15), 9), 'T.min(T.Cast("int16", T.bitwise_and(W[i], 15)), T.int16(9))'),
        (
            tir.if_then_else(x < 9, x - 9, 9 - x),
            'T.if_then_else(T.Cast("int16", X[i]) < T.int16(9), T.Cast("int16", X[i]) - T.int16(9), T.int16(9) - T.Cast("int16", X[i]))',
        ),
        (
            tir.max(ir.Cast("int32", x > 3), x),
            'T.max(T.Cast("int16", T.Cast("int32", X[i]) > 3), T.Cast("int16", X[i]))',
        ),
        (
            tir.min(wide(X, "int64") * 100, ir.IntImm("int64", 255)),
            'T.min(T.Cast("int16", X[i]) * T.int16(100), T.int16(255))',
        ),
    ],
)
def test_what_fits_into_16_bits_is_computed_there(value: ir.PrimExpr, text: str) -> None:
    assert narrowed(value) == f'T.Cast("uint8", {text})'


def test_what_ends_in_16_bits_ends_there() -> None:
    assert (
        narrowed(tir.min(x - y, 300), "int16") == 'T.min(T.Cast("int16", X[i]) - T.Cast("int16", Y[i]), T.int16(300))'
    )


def test_vectors_keep_their_lanes() -> None:
    lanes = ir.Cast("int32x4", ir.BufferLoad(X, [ir.Ramp(I, ir.IntImm("int32", 1), 4)]))
    text = narrowed(
        tir.min(lanes + ir.Broadcast(ir.IntImm("int32", 100), 4), ir.Broadcast(ir.IntImm("int32", 255), 4)), "uint8x4"
    )
    assert text == (
        'T.Cast("uint8x4", T.min(T.Cast("int16x4", X[i:i + 4]) + T.Broadcast(T.int16(100), 4), T.Broadcast(T.int16(255), 4)))'
    )


STAYS = {
    "a sum, which LLVM narrows": x + y,
    "a number of 32 bits": tir.min(w, 255),
    "an index": tir.min(x + I, 255),
    "a step that leaves 16 bits": tir.min(ir.Mul(ir.Mul(x, x), ir.IntImm("int32", 2)), 255),
    "a sign and more than 15 bits": tir.min(ir.Mul(x, x) - 1, 255),
    "a large constant": tir.min(x, 65536),
    "a divisor that may be 0": tir.min(tir.floordiv(x, ir.Cast("int32", ir.BufferLoad(X, [I]))), 9),
    "a divisor that is negative": tir.min(tir.floordiv(x, ir.IntImm("int32", -2)), 9),
    "a distance that may be as long as the number": tir.min(
        ir.Call("int32", "tir.shift_right", [x, ir.IntImm("int32", 16)]), 9
    ),
    "a distance that may be negative": tir.min(ir.Call("int32", "tir.shift_right", [x, y]), 9),
    "a distance that is perhaps -1": tir.min(ir.Call("int32", "tir.shift_right", [x, tir.floormod(y, 5) - 1]), 9),
    "a call": tir.min(ir.Call("int32", "tir.popcount", [x]), 9),
    "a value from a float": tir.min(ir.Cast("int32", ir.Cast("float32", ir.BufferLoad(X, [I]))), 255),
}


@pytest.mark.parametrize("name", STAYS)
def test_other_values_are_unchanged(name: str) -> None:
    assert narrowed(STAYS[name]) is None


def test_conversions_of_other_types_are_unchanged() -> None:
    for node in (
        ir.Cast("float32", tir.min(x, 255)),
        ir.Cast("int32", tir.min(wide(X, "int64"), ir.IntImm("int64", 255))),
        ir.Cast("uint8", tir.min(ir.Cast("float32", ir.BufferLoad(X, [I])), tir.const(255.0))),
        ir.Cast("bool", tir.min(x, 255)),
        ir.Cast("uint8", tir.min(ir.BufferLoad(S, [I]), tir.const(255, "uint16"))),
    ):
        assert stored(node) is None


def test_values_at_the_ends_of_16_bits() -> None:
    """The largest number of each type is held, one more is not."""
    for value, short in ((128 * 257, "uint16"), (129 * 254, "int16"), (255 * 257, "uint16")):
        found = narrowed(tir.min(ir.Mul(ir.Cast("int32", ir.Cast("bool", x)), ir.IntImm("int32", value)), 9))
        assert found is not None and f'T.Cast("{short}"' in found
    assert narrowed(tir.min(ir.Mul(ir.Cast("int32", ir.Cast("bool", x)), ir.IntImm("int32", 65536)), 9)) is None
    least = ir.Sub(ir.IntImm("int32", -32767), ir.Cast("int32", ir.Cast("bool", x)))
    assert narrowed(tir.min(least, 9)) is not None
    assert narrowed(tir.min(ir.Add(least, ir.IntImm("int32", -1)), 9)) is None


def test_a_kernel_and_a_loop_of_vectors_have_shorter_lanes() -> None:
    A = te.placeholder((4096,), "uint8", name="A")
    Z = te.compute((4096,), lambda i: tir.max(A[i].astype("int32") * 3 - 400, 0).astype("uint8"), name="Z")
    mod = tvmagic.lower(te.create_schedule(Z.op), [A, Z])
    text = llvm_ir(mod, HASWELL)
    assert "x i16>" in text and "x i32>" not in text


class _Pixels:
    """A random expression of two pixels, for TVM and for NumPy."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.text = f"{self.rng.choice(['min', 'max'])}({self.term(3)}, {self.rng.randrange(-300, 300)})"

    def term(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.1:
            return self.rng.choice(["a", "b", "a", "b", str(self.rng.randrange(-300, 300))])
        a, b, n = self.term(depth - 1), self.term(depth - 1), self.rng.randrange(1, 9)
        kinds = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {n})",
            f"({a} // {n})",
            f"({a} % {n})",
            f"({a} >> {n})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"where({a} < {b}, {b}, {self.term(depth - 1)})",
            f"abs({a})",
            f"where({a} == {n}, {a}, {b})",
        ]
        return self.rng.choice(kinds)


@pytest.mark.parametrize("seed", range(24))
def test_all_pairs_of_pixels_have_numpys_values(seed: int) -> None:
    text = _Pixels(seed).text
    first, second = ("uint8", "uint8") if seed % 3 else ("int8", "uint8")
    A, B = te.placeholder((65536,), first, name="A"), te.placeholder((65536,), second, name="B")
    names = {
        "abs": tir.abs,
        "min": tir.min,
        "max": tir.max,
        "where": lambda c, a, b: tir.Select(c, tir.convert(a), tir.convert(b)),
    }

    def value(i: Any) -> Any:
        found = eval(text, names | {"a": A[i].astype("int32"), "b": B[i].astype("int32")})
        return found.astype("uint8")

    Z = te.compute((65536,), value, name="Z")
    a, b = [v.ravel() for v in np.meshgrid(np.arange(256), np.arange(256))]
    one, two = a.astype(first), b.astype(second)
    got = np.zeros(65536, "uint8")
    tvmagic.build(te.create_schedule(Z.op), [A, B, Z])(one, two, got)
    numpys = {"min": np.minimum, "max": np.maximum, "where": np.where}
    wanted = eval(text, numpys | {"a": one.astype("int64"), "b": two.astype("int64")})
    np.testing.assert_array_equal(got, np.broadcast_to(wanted, 65536).astype("uint8"), text)
