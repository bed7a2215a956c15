"""Functions specialized to values and buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import ir, tir
from tvmagic.script import from_source

SOURCE = """from tvm.script import tir as T
@T.prim_func
def main(a: T.handle, b: T.handle, n: T.int32, k: T.int32):
    m = T.int32()
    A = T.match_buffer(a, (m, n), offset_factor=1)
    B = T.match_buffer(b, (m, n * 2))
    for i, j in T.grid(m, n):
        B[i, j * 2] = A[i, j] + T.Cast("float32", n * 2 + k)
"""


@pytest.fixture
def func() -> ir.PrimFunc:
    return from_source(SOURCE)


def lines(func: ir.PrimFunc) -> list[str]:
    return func.script().split("\n")[3:]


def test_a_value_is_folded_in_and_its_parameter_goes(func: ir.PrimFunc) -> None:
    special = func.specialize({func.params[2]: 8})
    assert lines(special) == [
        "def main(a: T.handle, b: T.handle, k: T.int32):",
        "    m = T.int32()",
        "    A = T.match_buffer(a, (m, 8), offset_factor=1)",
        "    B = T.match_buffer(b, (m, 16))",
        "    for i, j in T.grid(m, 8):",
        '        B[i, j * 2] = A[i, j] + T.Cast("float32", 16 + k)',
    ]
    assert func.script() == from_source(SOURCE).script()


def test_a_buffer_fixes_the_variables_of_its_shape(func: ir.PrimFunc) -> None:
    given = ir.decl_buffer((4, 8), name="X", elem_offset=0, offset_factor=1)
    special = func.specialize({func.params[0]: given})
    assert lines(special)[:2] == [
        'def main(X: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 16), "float32"), k: T.int32):',
        "    for i, j in T.grid(4, 8):",
    ]


def test_an_expression_may_be_a_value(func: ir.PrimFunc) -> None:
    n, k = func.params[2:]
    assert "k * 2 + k" in func.specialize({n: k}).script()


def test_contradictions_and_strangers_are_refused(func: ir.PrimFunc) -> None:
    a, b, n, _ = func.params
    cases: list[tuple[str, dict[Any, Any]]] = [
        ("unknown_parameter", {ir.Var("x"): 1}),
        ("parameter_with_buffer", {a: 1}),
        ("parameter_without_buffer", {n: ir.decl_buffer((4,))}),
        ("buffers_differ", {a: ir.decl_buffer((4,), offset_factor=1)}),
        ("buffers_differ", {a: ir.decl_buffer((4, 4), "int8", offset_factor=1)}),
        ("contradictory_values", {a: ir.decl_buffer((4, 8), offset_factor=1), n: 9}),
        ("memories_differ", {a: ir.decl_buffer((4, 8), scope="shared", offset_factor=1)}),
        ("value_is_fixed", {b: ir.decl_buffer((4, 8))}),
    ]
    for code, mapping in cases:
        kind = TypeError if code == "value_is_fixed" else ValueError  # as in TVM
        with refuses(f"specialize.{code}", error=kind):
            func.specialize(mapping)


def test_a_pointer_is_bound_where_its_buffer_is_declared() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), q: T.handle("float32")):
    A[1] = T.float32(7)
    Q = T.decl_buffer(4, data=q)
    A[0] = Q[1]
"""
    function = from_source(text)
    argument = function.buffer_map[function.params[0]]
    fixed = function.specialize({function.params[1]: tir.address_of(argument[4])})
    assert len(fixed.params) == 1 and 'Q: T.handle("float32", "global") = T.address_of(A[4])' in fixed.script()
    assert isinstance(fixed.body, tir.SeqStmt)  # what comes before is not inside
    array = np.arange(8, dtype="float32")
    tvmagic.build(fixed)(array)
    assert array[0] == 5


def test_a_pointer_that_several_buffers_use_is_bound_in_front() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), q: T.handle("float32")):
    Q = T.Buffer((4,), data=q)
    Q[0] = T.float32(3)
    R = T.decl_buffer((2, 2), data=q)
    R[1, 1] = Q[0]
"""
    function = from_source(text)
    argument = function.buffer_map[function.params[0]]
    fixed = function.specialize({function.params[1]: tir.address_of(argument[4])})
    assert isinstance(fixed.body, tir.LetStmt) and len(fixed.params) == 1
    array = np.zeros(8, "float32")
    tvmagic.build(fixed)(array)
    assert array.tolist() == [0, 0, 0, 0, 3, 0, 0, 3]


@pytest.mark.parametrize(("shape", "text"), [("k, n", "k + 8"), ("n, k", "8 + k")])
def test_either_operand_may_be_the_one_that_is_fixed(shape: str, text: str) -> None:
    a, b = shape.split(", ")
    head = "from tvm.script import tir as T\n@T.prim_func\ndef main(n: T.int32, k: T.int32):\n"
    func = from_source(f"{head}    T.evaluate({a} + {b})\n")
    assert text in func.specialize({func.params[0]: 8}).script()
    assert func.specialize({func.params[0]: func.params[0]}).body is func.body
