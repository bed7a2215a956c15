"""SplitVectors: stores of vectors whose lanes are not a power of two become stores of powers of two."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from late_passes import SKYLAKE, assert_same_values, late, with_body

from tvmagic import ir
from tvmagic.codegen import llvm_ir
from tvmagic.codegen.late.split_vectors import split_vectors
from tvmagic.driver import build
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.script import from_source

EXPRESSIONS = {
    "a product": "A[v] * T.Broadcast(T.float32(3), LANES) + B[v]",
    "a choice": "T.if_then_else(A[v] > B[v], big, B[v])",
    "every other": "A[T.Ramp(i * LANES, 2, LANES)] - B[v]",
    "what is stored": "C[v] + A[v]",
    "what is next to it": "C[T.Ramp(i * LANES + 1, 1, LANES)] + A[v]",
    "a type of few bits": "T.Cast(f'float32x{LANES}', T.Ramp(T.Cast('uint8', i), T.uint8(3), LANES)) + B[v]",
    "types": "T.Cast(f'float32x{LANES}', T.Cast(f'int8x{LANES}', A[v] * T.Broadcast(T.float32(9), LANES)))",
}


def function_of(expression: str, lanes: int) -> Any:
    text = f"""
@T.prim_func
def f(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32"), C: T.Buffer((1000,), "float32")):
    for i in range(5):
        C[i * {lanes}:i * {lanes} + {lanes}] = {expression}
"""
    text = text.replace("big,", "T.fabs(A[v]),").replace("[v]", f"[i * {lanes}:i * {lanes} + {lanes}]")
    text = re.sub(r"f'(\w+)\{LANES\}'", rf'"\g<1>{lanes}"', text)
    return from_source(text.replace("LANES", str(lanes)))


def parts_of(func: ir.PrimFunc) -> list[tuple[str, str, int]] | None:
    """The indices, the value and the lanes of each store that became of one, or None if the function is unchanged."""
    made = late(split_vectors, func)
    if made is None:
        return None
    values = {node.var: node.value for node in nodes_of(made.body, ir.LetStmt)}
    stores = nodes_of(made.body, ir.BufferStore)
    return [(str([*store.indices]), str(values[store.value]), store.value.dtype.lanes) for store in stores]


@pytest.mark.parametrize("lanes", [3, 7, 12, 24, 37, 48])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_parts_give_what_the_whole_gives(name: str, lanes: int) -> None:
    func = function_of(EXPRESSIONS[name], lanes)
    sizes = [count for *_, count in parts_of(func) or ()]
    assert sum(sizes) == lanes and sizes == sorted(sizes, reverse=True) and all(n & (n - 1) == 0 for n in sizes)
    rng = np.random.default_rng(lanes)
    a, b, c = [rng.uniform(-9, 9, 1000).astype("float32") for _ in range(3)]
    expected = c.copy()
    for i in range(5):
        v = np.arange(i * lanes, (i + 1) * lanes)
        x, y, z = a[v], b[v], expected[v]
        expected[v] = {
            "a product": lambda: x * np.float32(3) + y,
            "a choice": lambda: np.where(x > y, np.abs(x), y),
            "every other": lambda: a[i * lanes + 2 * np.arange(lanes)] - y,
            "what is stored": lambda: z + x,
            "what is next to it": lambda: expected[v + 1] + x,
            "a type of few bits": lambda: (i + 3 * np.arange(lanes)).astype("uint8").astype("float32") + y,
            "types": lambda: (x * np.float32(9)).astype("int8").astype("float32"),
        }[name]()
    made = late(split_vectors, func)
    assert made is not None
    assert_same_values(func, made, [a, b, c])
    build(func)(a, b, c)
    np.testing.assert_allclose(c, expected, rtol=1e-6, atol=1e-5)


A, B, WIDE = (
    ir.decl_buffer((64,), "float32", "A"),
    ir.decl_buffer((64,), "float32", "B"),
    ir.decl_buffer((4,), "float32x3", "W"),
)


def lanes_from(start: int, lanes: int) -> ir.PrimExpr:
    return ir.Ramp(ir.IntImm("int32", start), ir.IntImm("int32", 1), lanes)


X, FIRST, ON = ir.BufferLoad(A, [lanes_from(0, 6)]), [lanes_from(0, 6)], ir.Broadcast(ir.IntImm("bool", 1), 6)
WHOLE = {
    "a scalar": ir.BufferStore(B, A[0], [0]),
    **{
        f"{n} lanes": ir.BufferStore(B, ir.BufferLoad(A, [lanes_from(0, n)]), [lanes_from(0, n)])
        for n in (2, 4, 8, 16, 64)
    },
    "a long function": ir.BufferStore(B, ir.Call("float32x6", "tir.exp", [X]), FIRST),
    "a masked store": ir.BufferStore(B, X, FIRST, predicate=ON),
    "a masked load": ir.BufferStore(B, ir.BufferLoad(A, FIRST, predicate=ON), FIRST),
    "elements that are vectors": ir.BufferStore(WIDE, ir.BufferLoad(WIDE, [1]), [0]),
    "loads of elements that are vectors": ir.BufferStore(B, ir.BufferLoad(WIDE, [lanes_from(0, 2)]), FIRST),
}


@pytest.mark.parametrize("name", WHOLE)
def test_other_stores_are_unchanged(name: str) -> None:
    assert parts_of(with_body(WHOLE[name], A, B, WIDE)) is None


def test_a_vector_in_a_variable_is_unchanged() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((12,), "float32")):
    with T.LetStmt(A[0:12]) as x:
        A[0:12] = x
"""
    assert parts_of(from_source(text)) is None


def test_scalars_are_the_same_in_all_parts() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4, 7), "float32"), i: T.int32):
    B[i, 0:7] = T.Select(i < 2, A[i, 0:7], T.Broadcast(A[i, i], 7))
"""
    assert parts_of(from_source(text)) == [
        ("[i, T.Ramp(0, 1, 4)]", "T.Select(i < 2, A[i, 0:4], T.Broadcast(A[i, i], 4))", 4),
        ("[i, T.Ramp(4, 1, 2)]", "T.Select(i < 2, A[i, 4:6], T.Broadcast(A[i, i], 2))", 2),
        ("[i, 6]", "T.Select(i < 2, A[i, 6], A[i, i])", 1),
    ]


def test_a_tile_of_three_vectors_is_summed_in_registers() -> None:
    """No vector of 48 lanes lives through the loop, which LLVM would keep as 48 numbers."""
    op = operator("odd", "A: float32[12, 20]\nB: float32[20, 96]\nC[i, j] += A[i, k] * B[k, j]")
    cell = "io, jo, ii, ji = s[C].tile(*C.op.axis, 6, 48)\nk, = s[C].op.reduce_axis\ns[C].reorder(io, jo, k, ii, ji)\ns[C].vectorize(ji)\ns[C].unroll(ii)"
    version = schedule(op, cell, "tile")
    text = llvm_ir(version.lower(), SKYLAKE, optimize=False)
    assert "<48 x float>" not in text and "<32 x float>" in text and "<16 x float>" in text
    inputs = op.random_inputs()
    np.testing.assert_allclose(version(*inputs), inputs[0] @ inputs[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lanes", [257, 300])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_lanes_of_few_bits_wrap_around(dtype: str, lanes: int) -> None:
    func = from_source(f"""
@T.prim_func
def f(C: T.Buffer(({lanes},), "int32")):
    C[0:{lanes}] = T.Cast("int32x{lanes}", T.Ramp(T.{dtype}(5), T.{dtype}(3), {lanes}))
""")
    c = np.zeros(lanes, "int32")
    build(func)(c)
    np.testing.assert_array_equal(c, (5 + 3 * np.arange(lanes)).astype(dtype))
