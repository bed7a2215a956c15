"""Comparisons of values that are loaded or computed elsewhere, against enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from arith_evaluate import BINARY, evaluate

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.analyzer import Analyzer as CompilingAnalyzer
from tvmagic.ir.dtype import integer_limits

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


def wide(value: int) -> Any:
    return ir.IntImm("int64", value)


@pytest.mark.parametrize("first", [(-1, 1), (0, 2), (1, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("second", [(-1, 1), (0, 2), (1, 2), (2, 4), (3, 3)])
def test_comparison_of_loads_is_decided_by_bounds(first: tuple[int, int], second: tuple[int, int]) -> None:
    """Of what is loaded from arrays an order is known if it holds for all values between the ends, and nothing else."""
    dtype = "int64"
    elements = [ir.BufferLoad(ir.decl_buffer((4,), dtype, name), [0]) for name in "AB"]
    spans = [first, second]
    a, b = (ir.Max(ir.Min(e, wide(high)), wide(low)) for e, (low, high) in zip(elements, spans))
    pairs = list(itertools.product(*[range(low, high + 1) for low, high in spans]))
    for kind in (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE):
        held = {BINARY[kind](x, y) for x, y in pairs}
        found = CompilingAnalyzer().simplify(kind(a, b))
        assert (found.value if isinstance(found, ir.IntImm) else None) == (held.pop() if len(held) == 1 else None), kind


def test_comparison_with_int64_limits_holds_for_all_values() -> None:
    low, high = integer_limits(ir.DataType("int64"))
    element = ir.BufferLoad(ir.decl_buffer((4,), "int64", "A"), [0])
    for end in (low, low + 1, high - 1, high):
        for kind in (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE):
            values = {BINARY[kind](value, end) for value in (low, low + 1, 0, high - 1, high)}
            found = CompilingAnalyzer().simplify(kind(element, wide(end)))
            assert not isinstance(found, ir.IntImm) or values == {bool(found.value)}, f"{kind} {end}"
        assert {
            e
            for e in (low, 0, high)
            if evaluate(CompilingAnalyzer().simplify(ir.Min(element, wide(end))), {element.buffer.data: [e]})
            != min(e, end)
        } == set()


@pytest.mark.parametrize(
    "value",
    [
        ir.Call("int32", "tir.call_pure_extern", [ir.StringImm("f"), X]),
        ir.Call("int32", "tir.call_extern", [ir.StringImm("f"), X]),
        ir.Call("int32", "tir.call_llvm_pure_intrin", [3, X]),
        ir.Call("int32", "tir.call_spirv_pure_glsl450", [X]),
        ir.Call("int32", "tir.reinterpret", [ir.Var("f", "float32")]),
        ir.Call("int32", "tir.undef", []),
        ir.Call("int32", ir.GlobalVar("f"), [X]),
    ],
    ids=lambda call: getattr(call.op, "name", "function"),
)
def test_external_call_may_wrap_around(value: Any) -> None:
    assert not isinstance(Analyzer().simplify(ir.LT(value, value + 1)), ir.IntImm)
    assert Analyzer().can_prove(ir.LT(ir.Call("int32", "tir.popcount", [X]), ir.Call("int32", "tir.popcount", [X]) + 1))
