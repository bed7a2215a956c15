"""Loops that write a few neighbours in each iteration: their vectors, and which loops are left as they are."""

import re

import numpy as np
import pytest

import tvmagic
from tvmagic import codegen
from tvmagic.operators import operator
from tvmagic.operators.operator import Version
from tvmagic.script import from_source
from tvmagic.tune.instant import decide

HASWELL = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell"
CELLS = {
    "colours the other way round": "X: uint8[100, 3]\nY[i, c] = X[i, 2 - c]",
    "a value for each colour": "X: float32[50, 3]\nb: float32[3]\ng: float32[3]\nY[i, c] = (X[i, c] - b[c]) * g[c] + 1",
    "planes to pixels": "X: uint8[3, 76]\nY[i, c] = X[c, i]",
    "complex products": "A: float32[33, 2]\nB: float32[33, 2]\nC: float32[33, 2]\n"
    "C[i, p] = A[i, 0] * B[i, 0] - A[i, 1] * B[i, 1] if p == 0 else A[i, 0] * B[i, 1] + A[i, 1] * B[i, 0]",
    "in turns": "A: int16[40]\nB: int16[40]\nY: int16[80]\nY[i] = A[i // 2] if i % 2 == 0 else B[i // 2]",
    "each four times": "X: float64[21]\nY: float64[84]\nY[i] = X[i // 4] * 2",
    "an outer product": "X: float32[40]\nW: float32[4]\nY[i, c] = X[i] * W[c]",
    "extrema": "X: int32[64, 2]\nY[i, c] = max(X[i, c], X[i, 0]) - min(X[i, 1], 3)",
    "bools": "X: bool[64, 3]\nb: bool[3]\nY[i, c] = X[i, c] ^ b[c]",
    "points turned by a matrix": "A: float32[3, 3]\nX: float32[40, 3]\nY[b, i] += A[i, k] * X[b, k]",
    "the largest of three": "A: int16[2, 3]\nX: int16[40, 3]\nY[b, i] = max(A[i, k] + X[b, k], over=k)",
    "two results": "X: float32[32, 3]\nY[i, c] = X[i, c]\nZ[i, c] = X[i, 2 - c] + 1",
    "functions": "X: float32[32, 2]\nY[i, c] = exp(X[i, 1 - c])",
}
# Far loads, five neighbours, too few iterations for a vector, a gap between rows, what LLVM makes vectors of.
OTHERS = {
    "loads that are far apart": "X: float32[3, 40, 9]\nY[i, c] = X[c, i, 0]",
    "five neighbours": "X: float32[50, 5]\nY[i, c] = X[i, 4 - c]",
    "three iterations": "X: float32[3, 3]\nY[i, c] = X[i, 2 - c]",
    "a branch by data": "X: int32[64, 2]\nY[i, c] = X[i, c] if X[i, c] > X[i, 0] else X[i, 1]",
    "one element": "X: float32[50]\nY[i] = X[i] + 1",
    "an index from data": "X: float32[50]\nI: int32[50, 2]\nY[i, c] = X[I[i, c]]",
}


def raw(text: str, target: str = HASWELL) -> str:
    op = operator("rows", text)
    return str(codegen.llvm_ir(Version(op, None).lower(), target, optimize=False))


def stored(text: str) -> list[int]:
    """The lanes of the stores in LLVM's text."""
    return [int(lanes or 1) for lanes in re.findall(r"^  store (?:<(\d+) x )?\w+", text, re.M)]


@pytest.mark.parametrize("name", CELLS)
def test_rows_of_a_few_neighbours_are_vectors(name):
    lanes = stored(raw(CELLS[name]))
    assert max(lanes) >= 4 and lanes.count(max(lanes)) in (2, 3, 4, 6)
    op = operator("rows", CELLS[name])
    assert Version(op, None).build() and op.check().ok


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_are_left_to_llvm(name):
    assert set(stored(raw(OTHERS[name]))) == {1}


def test_what_is_side_by_side_in_memory_is_not_shuffled():
    """The colours of 8 pixels are three vectors as they are."""
    assert raw(CELLS["a value for each colour"]).count("load <8 x float>") == 3


def test_what_two_parts_are_loaded_from_is_loaded_once():
    """Real and imaginary parts are every second element of the same two vectors."""
    lowered = Version(operator("rows", CELLS["complex products"]), None).lower()
    text = str(codegen.llvm_ir(lowered, HASWELL))
    assert text.count("load <8 x float>") == 2 * text.count("store <8 x float>")


def test_a_rest_of_known_length_is_vectors_of_fewer_lanes():
    """76 of 100 bytes for a vector of 32: two of these, one of 8, one of 4."""
    assert sorted(set(stored(raw(CELLS["planes to pixels"])))) == [4, 8, 32]


def test_memory_that_may_be_the_same_is_not_computed_in_vectors():
    def text(noalias: bool) -> str:
        source = f"""
@T.prim_func
def main(X: T.Buffer((96,), "float32"), Y: T.Buffer((96,), "float32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for i in range(32):
        for c in range(3):
            Y[i * 3 + c] = X[i * 3 + 2 - c]
"""
        return str(codegen.llvm_ir(from_source(source), HASWELL, optimize=False))

    assert max(stored(text(True))) == 8 and set(stored(text(False))) == {1}


def test_what_is_read_again_is_not_computed_in_vectors():
    source = """
@T.prim_func
def main(Y: T.Buffer((97,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in range(32):
        for c in range(2):
            Y[i * 2 + c + 2] = Y[i * 2 + 1 - c] + T.float32(1)
"""
    func = from_source(source)
    y = np.arange(97, dtype="float32")
    expected = y.copy()
    for i in range(32):
        for c in range(2):
            expected[i * 2 + c + 2] = expected[i * 2 + 1 - c] + 1
    tvmagic.build(func)(y)
    np.testing.assert_array_equal(y, expected)


def test_a_parallel_loop_of_short_rows_is_vectors_in_each_chunk():
    source = """
@T.prim_func
def main(X: T.Buffer((3000,), "float32"), Y: T.Buffer((3000,), "float32")):
    T.func_attr({"tir.noalias": True})
    for i in T.parallel(1000):
        for c in range(3):
            Y[i * 3 + c] = X[i * 3 + 2 - c]
"""
    func = from_source(source)
    assert max(stored(str(codegen.llvm_ir(func, HASWELL, optimize=False)))) == 8
    x, y = np.random.default_rng(0).random(3000, "float32"), np.zeros(3000, "float32")
    tvmagic.build(func)(x, y)
    np.testing.assert_array_equal(y.reshape(-1, 3), x.reshape(-1, 3)[:, ::-1])


@pytest.mark.parametrize(("first", "count", "lanes"), [(0, 1000, 8), (400, 600, 8), (0, 1001, 1), (1, 1000, 1)])
def test_a_parallel_loop_whose_indices_are_divided_goes_by_whole_periods(first, count, lanes):
    """A chunk may begin at any iteration of the loop over periods."""
    source = f"""
@T.prim_func
def main(X: T.Buffer((600,), "float32"), Y: T.Buffer((1200,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for i in T.parallel({first}, {first + count}):
        Y[i] = T.if_then_else(i % 2 == 0, X[i // 2], T.float32(0))
"""
    func = from_source(source)
    assert max(stored(str(codegen.llvm_ir(func, HASWELL, optimize=False))), default=1) == lanes
    x, y = np.random.default_rng(0).random(600, "float32"), np.full(1200, 7, "float32")
    tvmagic.build(func)(x, y)
    expected = np.full(1200, 7, "float32")
    places = np.arange(first, first + count)
    expected[places] = np.where(places % 2 == 0, x[places // 2], 0)
    np.testing.assert_array_equal(y, expected)


def test_sums_of_few_terms_are_computed_in_registers():
    """Of twelve stores for a point, the last three alone are made; the terms are added in the order in which they are written."""
    text = raw(CELLS["points turned by a matrix"])
    assert stored(text).count(8) == 3 and text.count("fadd contract <8 x float>") == 9


def test_the_instant_schedule_leaves_sums_of_few_terms_to_it():
    op = operator("turned", "A: float32[3, 3]\nX: float32[4000, 3]\nY[b, i] += A[i, k] * X[b, k]")
    made = decide(op, HASWELL)
    assert any("become vectors along b" in text for text in made.texts)
    assert max(stored(str(codegen.llvm_ir(Version(op, made.schedule).lower(), HASWELL, optimize=False)))) == 8


CHAIN = """
@T.prim_func
def f(X: T.Buffer((64,), "float32"), Y: T.Buffer((128,), "float32")):
    for i in range(64):
        Y[i * 2] = X[i]
        Y[i * 2 + 1] = X[i] - T.float32(0.5)
{}
"""
LINKS = {
    "what was stored": "        Y[i * 2] = Y[i * 2] * Y[i * 2 + 1]\n" * 50,
    "variables": "        v0: T.float32 = X[i]\n"
    + "".join([f"        v{n + 1}: T.float32 = v{n} * v{n}\n" for n in range(50)])
    + "        Y[i * 2] = v50\n        Y[i * 2 + 1] = v50",
}


@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
def test_what_would_be_too_long_when_written_out_is_left_alone(links: str) -> None:
    """Each of 50 links uses the one before twice: written out, that would be 2^50 operations."""
    x, y = np.linspace(0.5, 1, 64, dtype="float32"), np.zeros(128, "float32")
    tvmagic.build(from_source(CHAIN.format(links)))(x, y)
    assert y[126] == (0.5**50 if "Y[i * 2] * " in links else 1)
