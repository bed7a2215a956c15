"""A vector `Select` reads only what the taken side reads, unless what it reads is there in any case."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from guard_pages import between_guard_pages
from sampling import every

import tvmagic
from tvmagic import codegen, te, tir
from tvmagic.codegen.late.speculate_loads import speculate_loads
from tvmagic.script import from_source

N = 64


def vectorized(value: Callable[[Any, Any, Any], Any], dtype: str = "float32") -> tuple[Any, list[Any]]:
    index = te.placeholder((N,), "int32", name="index")
    A = te.placeholder((N,), dtype, name="A")
    B = te.compute((N,), lambda i: value(i, index, A), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    return s, [index, A, B]


def inside(i: Any, index: Any) -> Any:
    return tir.all(index[i] >= 0, index[i] < N)


def other(dtype: str) -> Any:
    return tir.const(7, dtype)


@pytest.mark.parametrize("check_bounds", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "float64"])
def test_a_gather_reads_only_what_is_taken(dtype: str, check_bounds: bool) -> None:
    index = np.arange(N, dtype="int32")[::-1].copy()
    index[::3] = 2**30  # far outside
    index[1::7] = -(2**30)
    a = np.arange(N).astype(dtype)
    wanted = np.where((index >= 0) & (index < N), a[index.clip(0, N - 1)], np.array(7, dtype))
    taken = lambda i, j, x: tir.Select(inside(i, j), x[j[i]], other(dtype))  # noqa: E731
    left = lambda i, j, x: tir.Select(tir.Not(inside(i, j)), other(dtype), x[j[i]])  # noqa: E731
    nested = lambda i, j, x: tir.Select(j[i] >= 0, tir.Select(j[i] < N, x[j[i]], other(dtype)), other(dtype))  # noqa: E731
    for value in (taken, left, nested):
        s, args = vectorized(value, dtype)
        out = np.zeros(N, dtype)
        tvmagic.build(s, args, check_bounds=check_bounds)(index, a, out)
        assert (out == wanted).all()


def test_contiguous_lanes_beside_the_array_are_not_read() -> None:
    s, args = vectorized(lambda i, j, x: tir.Select(i >= 3, x[i - 3], other("float32")))
    a, out = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    tvmagic.build(s, args, check_bounds=True)(np.zeros(N, "int32"), a, out)
    assert (out == np.concatenate([[7, 7, 7], a[:-3]])).all()
    assert "llvm.masked.load" in tvmagic.build(s, args).get_source("ll")


@pytest.mark.parametrize(
    "value",
    [
        lambda i, j, x: tir.Select(j[i] > 0, x[i], other("float32")),
        lambda i, j, x: tir.Select(x[i] > 0, x[i], other("float32")),
        lambda i, j, x: tir.Select(x[j[i]] > 0, x[j[i]], other("float32")),
    ],
    ids=["inside the array", "read by the condition", "gathered by the condition"],
)
def test_what_is_there_in_any_case_is_read_without_a_mask(value: Any) -> None:
    s, args = vectorized(value)
    text = tvmagic.build(s, args).get_source("ll")
    assert "masked.load" not in text and "xor <8 x i1>" not in text


def test_what_another_part_of_the_condition_guards_is_not_there_in_any_case() -> None:
    """Only the first five lanes are in the array; the rest of the vector is in memory that may not be read."""
    A = te.placeholder((5,), name="A")
    few = lambda i: tir.all(i < 5, A[i] > 0.0)  # noqa: E731
    chosen = lambda i: tir.if_then_else(i < 5, A[i] > 0.0, tir.const(False, "bool"))  # noqa: E731
    for condition in (few, lambda i: tir.Not(tir.any(i >= 5, A[i] <= 0.0)), chosen):
        B = te.compute((N,), lambda i: tir.Select(condition(i), A[i] * 2.0, other("float32")), name="B")
        s = te.create_schedule(B.op)
        s[B].vectorize(B.op.axis[0])
        f = tvmagic.build(s, [A, B])
        assert "load <64 x float>" not in f.get_source("raw")
        out = np.zeros(N, "float32")
        f(np.array([1, -2, 3, 0, 5], "float32"), out)
        np.testing.assert_array_equal(out, [2, 7, 6, 7, 10] + [7] * (N - 5))


def _llvm(value: Callable[[Any, Any, Any], Any], *dtypes: str) -> str:
    A, B = (te.placeholder((N, N), dtype, name=name) for name, dtype in zip("AB", dtypes))
    C = te.compute((N, N), lambda i, j: value(A, B, (i, j)), name="C")
    return tvmagic.build(te.create_schedule(C.op), [A, B, C], target="llvm -mcpu=haswell").get_source("ll")


def test_what_is_inside_its_buffer_is_read_whatever_the_condition_is() -> None:
    """A branch would keep LLVM from making vectors of the loop."""
    both = _llvm(lambda a, b, at: tir.all(a[at], b[at]), "bool", "bool")
    assert "and <" in both and "masked.load" not in both
    chosen = _llvm(lambda a, b, at: tir.if_then_else(a[at], b[at], 0.0), "bool", "float32")
    assert "select <" in chosen and "masked.load" not in chosen


def test_what_may_be_outside_its_buffer_stays_behind_its_condition() -> None:
    padded = _llvm(lambda a, b, at: tir.if_then_else(at[1] > 0, a[at[0], at[1] - 1], b[at]), "float32", "float32")
    assert "masked.load" in padded or "br i1" in padded
    A = te.placeholder((N,), name="A")
    C = te.compute((N,), lambda i: tir.if_then_else(tir.all(i > 0, A[i - 1] > 0.0), A[i - 1], -1.0), name="C")
    a = np.random.default_rng(0).standard_normal(N, dtype="float32")
    out = np.zeros(N, "float32")
    tvmagic.build(te.create_schedule(C.op), [A, C], check_bounds=True)(a, out)
    before = np.concatenate([[-1.0], a[:-1]]).astype("float32")
    np.testing.assert_array_equal(out, np.where(before > 0, before, np.float32(-1)))


def test_a_search_for_the_largest_branches() -> None:
    """Its next value would wait for a select, where a branch is foreseen."""
    A = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, N), name="k")
    pair = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda i, v: (tir.const(-1, i), tir.min_value(v)),
    )
    B, C = te.compute((1,), lambda z: pair((k, A[k]), axis=k), name="B")
    text = tvmagic.build(te.create_schedule(B.op), [A, B, C]).get_source("ll")
    assert "br i1" in text


# What is read for lane `l` of vector `i`, the condition under which that is in the array, and the place that it has in it.
READS = {
    "next to each other": ("A[T.Ramp(i * 4 - 2, 1, 4)]", "T.Ramp(i * 4 - 2, 1, 4)", lambda i, l: 4 * i - 2 + l),
    "backwards": ("A[T.Ramp(i * 4 + 1, -1, 4)]", "T.Ramp(i * 4 + 1, -1, 4)", lambda i, l: 4 * i + 1 - l),
    "every second": ("A[T.Ramp(i * 4 - 4, 2, 4)]", "T.Ramp(i * 4 - 4, 2, 4)", lambda i, l: 4 * i - 4 + 2 * l),
    "far apart": ("A[T.Ramp(i * 4 - 7, 5, 4)]", "T.Ramp(i * 4 - 7, 5, 4)", lambda i, l: 4 * i - 7 + 5 * l),
    "one for all": ("T.Broadcast(A[i * 4 - 4], 4)", "T.Broadcast(i * 4 - 4, 4)", lambda i, l: 4 * i - 4 + 0 * l),
    "reversed": (
        "T.Shuffle([A[T.Ramp(i * 4 - 2, 1, 4)]], [3, 2, 1, 0])",
        "T.Ramp(i * 4 + 1, -1, 4)",
        lambda i, l: 4 * i + 1 - l,
    ),
    "two halves": (
        "T.Shuffle([A[T.Ramp(i * 4, 1, 2)], A[T.Ramp(i * 4 - 2, 1, 2)]], [2, 3, 0, 1])",
        "T.Ramp(i * 4 - 2, 1, 4)",
        lambda i, l: 4 * i - 2 + l,
    ),
    "one by one": (
        "T.Shuffle([A[i * 4 + 1], A[i * 4], A[i * 4 - 1], A[i * 4 - 2]], [3, 2, 1, 0])",
        "T.Ramp(i * 4 - 2, 1, 4)",
        lambda i, l: 4 * i - 2 + l,
    ),
    "pairs": ("P[T.Ramp(i * 2 - 1, 1, 2)]", "T.Ramp(i * 4 - 2, 1, 4)", lambda i, l: 4 * i - 2 + l),
    "pairs backwards": (
        "P[T.Ramp(i * 2, -1, 2)]",
        "T.Ramp(i * 4 + 1, -1, 4)",
        lambda i, l: 4 * i - 2 * (l // 2) + l % 2,
    ),
    "a whole element": ("Q[i - 1]", "T.Broadcast(i * 4 - 4, 4)", lambda i, l: 4 * i - 4 + l),
}
SIDES = {
    "select": "T.Select({taken}, {read}, {other})",
    "the other side": "T.Select(T.Not({taken}), {other}, {read})",
    "if_then_else": "T.if_then_else({taken}, {read}, {other})",
    "nested": "T.Select({places} >= T.Broadcast(0, 4), T.Select({places} < T.Broadcast({n}, 4), {read}, {other}), {other})",
    "below a sum": "T.Select({taken}, T.Broadcast(T.float32(0), 4) + T.Select({taken}, {read}, {other}), {other})",
}


@pytest.mark.parametrize(("reads", "check_bounds"), every(4, itertools.product(READS, [False, True])))
def test_nothing_outside_an_array_is_read_for_a_lane_that_is_off(reads: str, check_bounds: bool) -> None:
    memory = between_guard_pages(1).view("float32")  # whoever reads beside it dies
    memory[:] = np.arange(memory.size)
    n, (read, places, at) = memory.size, READS[reads]
    taken = f"T.And({places} >= T.Broadcast(0, 4), {places} < T.Broadcast({n}, 4))"
    words = {"read": read, "places": places, "taken": taken, "n": n, "other": "T.Broadcast(T.float32(-1), 4)"}
    place = at(np.arange(n // 4 + 1)[:, None], np.arange(4))
    wanted = np.where((place >= 0) & (place < n), place, -1).astype("float32")
    for side in SIDES.values():
        f = from_source(f"""@T.prim_func
def main(A: T.Buffer(({n},), "float32"), out: T.Buffer(({n + 4},), "float32")):
    P = T.Buffer(({n // 2},), "float32x2", data=A.data)
    Q = T.Buffer(({n // 4},), "float32x4", data=A.data)
    for i in range({n // 4 + 1}):
        out[T.Ramp(i * 4, 1, 4)] = {side.format(**words)}
""")
        out = np.zeros(n + 4, "float32")
        tvmagic.build(f, check_bounds=check_bounds)(memory, out)
        np.testing.assert_array_equal(out.reshape(-1, 4), wanted)


def speculated(line: str) -> str:
    """The body after the pass: X and Y have 64 elements, Z as many as a call says."""
    func = from_source(
        f"""@T.prim_func
def main(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32"), Z: T.Buffer((n,), "float32"), n: T.int32):
    for i in range(8):
        {line}
""".replace("(n,)", "(64,)")
    )
    return str(speculate_loads(codegen.host_target())(func)["main"].body)


@pytest.mark.parametrize("count", [1, 7, 8, 9])
def test_vector_select_with_many_unknown_loads_is_masked(count: int) -> None:
    """Up to seven are searched for in the condition, which loads them in any case."""
    total = " + ".join(f"X[T.Ramp(n + {k}, 1, 4)]" for k in range(count))
    zero = "T.Broadcast(T.float32(0), 4)"
    for condition, masked in ((f"{total} > {zero}", count >= 8), (f"Y[0:4] > {zero}", True)):
        made = speculated(f"Y[0:4] = T.Select({condition}, {total}, {zero})")
        assert ("T.if_then_else" in made) is masked, made


@pytest.mark.parametrize(
    ("more", "speculates"),
    [("", True), ("++", True), ("++a", True), ("++aa", False), ("+++", False), ("a" * 5, True), ("a" * 6, False)],
)
@pytest.mark.parametrize("index", ["i", "i * 2 + 1 + i"])
def test_scalar_of_up_to_six_operations_is_speculated(index: str, more: str, speculates: bool) -> None:
    """Operations of the index do not count."""
    value = f"X[{index}]"
    for word in more:
        value = f"({value} + T.float32(1))" if word == "+" else f"T.fabs({value})"

    def is_speculated(value: str, target: str = "Y") -> bool:
        return "T.Select" in speculated(f"{target}[i] = T.if_then_else(Z[0] > T.float32(0), {value}, T.float32(2))")

    assert is_speculated(value) is speculates
    assert not is_speculated(value, "X"), "the next load would wait for the store"
    assert not is_speculated(f"T.exp({value})")
    assert not is_speculated("X[n]")
