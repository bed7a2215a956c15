"""What parts of passes decide on small values, each as a table."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.arith.integer_logic import TRUE, IntegerLogic
from tvmagic.ir import BufferLoad, FloatImm, IntImm, PrimExpr, Var, decl_buffer
from tvmagic.tir.analysis.contents.state import Knowledge
from tvmagic.tir.analysis.contents.touches import Axes
from tvmagic.tir.transform.memory.flat_index import FlatIndex

X, Y, N, M, P = Var("x"), Var("y"), Var("n"), Var("m"), Var("p", "int64")
DATA = BufferLoad(decl_buffer((4,), "int32", "D"), [0])


@pytest.mark.parametrize(
    ("shape", "indices", "options", "flat"),
    [
        ((8, N * M), (X // (N * M), X % (N * M)), {}, ["x"]),
        ((8, N), (Y + X // N, X % N), {}, ["x + y * n"]),
        ((8, N), (X // N, (X + N) % N), {}, ["x // n * n + (x + n) % n"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"elem_offset": M}, ["x + m"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"elem_offset": IntImm("int32", 1)}, ["x + 1"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"elem_offset": IntImm("int64", 0)}, ["x"]),
        ((4, 8), (X // 4, X % 4), {"axis_separators": [1], "elem_offset": M}, ["x // 4", "x % 4"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"axis_separators": [1]}, ["x // (n * m)", "x % (n * m)"]),
        ((4, 8, N * M), (Y, X // (N * M), X % (N * M)), {"axis_separators": [1]}, ["y", "x"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"strides": [N * M, 1]}, ["x"]),
        ((8, 4), (X // 4, X % 4), {"strides": [5, 1]}, ["x // 4 * 5 + x % 4"]),
        ((64,), (X % 64,), {"elem_offset": M}, ["m + x % 64"]),
        ((64,), (X // 4 * 4 + X % 4,), {"strides": [2]}, ["x * 2"]),
        ((), (), {}, ["0"]),
    ],
)
def test_flat_indices(shape: Any, indices: Any, options: dict[str, Any], flat: list[str]) -> None:
    found = FlatIndex()(decl_buffer(shape, "float32", "A", **options), indices)
    assert [str(i) for i in found] == flat and {i.dtype for i in found} == {X.dtype}


@pytest.mark.parametrize(
    ("a", "b", "always", "if_equal"),
    [
        (X, X, True, True),
        (X, Y, False, True),
        (X + 1, IntImm("int32", 1) + X, True, True),
        (X, IntImm("int32", 3), False, True),
        (P, Var("q", "int64"), False, True),
        (X, P, False, False),  # other types
        (Var("a", "int8"), Var("b", "int8"), False, False),
        (DATA, DATA, True, True),
        (DATA + 1, X, False, False),  # it may wrap around
        (X, DATA + 1, False, False),
        (FloatImm("float32", 1.0), FloatImm("float32", 1.0), True, True),
        (FloatImm("float32", 0.0), FloatImm("float32", -0.0), False, False),
    ],
)
def test_values_that_are_equal_under_a_condition(a: PrimExpr, b: PrimExpr, always: bool, if_equal: bool) -> None:
    logic = IntegerLogic()
    known = Knowledge(logic, Axes())
    assert known.agree(TRUE, a, b) == always
    assert known.agree(logic.equal(logic.linear(a), logic.linear(b)), a, b) == if_equal
