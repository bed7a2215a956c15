"""Loops of which a condition leaves out the last iterations: the same results, and vectors of all that is whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sampling import every

import tvmagic
from tvmagic.codegen.late.version_guarded_loops import tail_versions
from tvmagic.eval.integers import evaluate
from tvmagic.ir import GE, For, IfThenElse, LetStmt
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.script import from_source

TARGETS = ("llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64-v2")
PROGRAM = """
@T.prim_func
def main(X: T.Buffer((4, 64), "float32"), c: T.Buffer((4,), "float32"), n: T.int32, Y: T.Buffer((4, 64), "float32")):
    T.func_attr({{"tir.noalias": T.bool(True)}})
    for i in range(4):
        for j in range({extent}):
            if {condition}:
                Y[i, j] = X[i, j] * c[i]
"""
# conditions of i, j and n that hold up to some j; those of the second row are not cut
CUT = (
    "i * 7 + j < n",
    "i + j // 3 < n",
    "i + (j + 2) // 3 < n",
    "j * 3 - 5 < n",
    "j * 2 + i <= n",
    "(j - 1) // 2 * 3 <= n + i",
    "i < n and j < n - 2",
    "j < n and j + i * 2 < 9",
)
WHOLE = (
    "n < j",
    "j % 4 < n",
    "j * i < n",
    "j + j // 2 < n",
    "i < n",
    "c[j % 4] > 0.5 and j < n",
    "j != n",
    "0 - j < n",
)


def unsure(expr: object) -> bool:
    """Nothing is known of values, so that all is computed in 64 bits."""
    return False


def loop_of(text: str) -> For:
    return next(loop for loop in nodes_of(from_source(text).body, For) if loop.loop_var.name == "j")


@pytest.mark.parametrize(
    ("condition", "extent"), every(2, [*itertools.product(CUT, (17, 4)), *itertools.product(WHOLE, (17,))])
)
def test_results_are_those_of_the_condition(condition: str, extent: int) -> None:
    text = PROGRAM.format(condition=condition, extent=extent)
    assert (tail_versions(loop_of(text), True, unsure) is not None) == (condition in CUT)
    func = from_source(text)
    x, c = np.arange(1, 257, dtype="float32").reshape(4, 64), np.array([1, 2, 0, 4], "float32")
    for target in TARGETS:
        built = tvmagic.build(func, target=target)
        for n in (-(1 << 31) + 2, -20, -3, 0, 1, 2, 5, 8, 16, 17, 30, 60, (1 << 31) - 20):
            y, wanted = np.full((4, 64), -1, "float32"), np.full((4, 64), -1, "float32")
            built(x, c, n, y)
            for i, j in itertools.product(range(4), range(extent)):
                if eval(condition, {"i": i, "j": j, "n": n, "c": c}):
                    wanted[i, j] = x[i, j] * c[i]
            np.testing.assert_array_equal(y, wanted, err_msg=f"n = {n}")


def test_what_llvm_masks_stays_one_loop() -> None:
    """Where nothing is loaded that stays the same, a processor with masks computes the rest in one vector."""
    text = PROGRAM.replace("X[i, j] * c[i]", "X[i, j] * T.float32(2)").format(condition="i * 7 + j < n", extent=16)
    assert (
        tail_versions(loop_of(text), True, unsure) is None and tail_versions(loop_of(text), False, unsure) is not None
    )


@pytest.mark.parametrize(("target", "register"), [("llvm -mcpu=haswell", "ymm"), ("llvm -mcpu=x86-64-v2", "mulps")])
@pytest.mark.parametrize("factor", [24, 48])
def test_tiles_that_do_not_divide_are_vectors(target: str, register: str, factor: int) -> None:
    op = operator("op", "A: float32[300, 300]\nB: float32[300, 300]\nC[i, j] += A[i, k] * B[k, j]")
    calls = f"i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, {factor})\ns[C].reorder(i, k, jo, ji)\ns[C].vectorize(ji)"
    assert tvmagic.build(schedule(op, calls, "tiled").lower(), target=target).get_source("asm").count(register) > 4


@pytest.mark.parametrize(
    ("loop", "versions"),
    [
        ("range(3)", False),
        ("range(4)", True),
        ("range(5)", True),
        ("range(1, 9)", False),
        ("range(n, n + 8)", False),
        ("range(n)", False),
        ("T.unroll(8)", False),
    ],
)
def test_loops_that_have_two_versions(loop: str, versions: bool) -> None:
    """Those of four iterations or more, counted from 0."""
    text = PROGRAM.format(condition="i * 7 + j < n", extent=8).replace("for j in range(8)", f"for j in {loop}")
    assert (tail_versions(loop_of(text), True, unsure) is not None) is versions


# ---------------------------------------------------------------------------- which loops have two versions

SHORT = """
@T.prim_func
def main(X: T.Buffer((4, 64), "float32"), c: T.Buffer((4,), "float32"), n: T.int32, m: T.int64, Y: T.Buffer((4, 64), "float32")):
    for i in range(4):
        for j in {loop}:
            if {condition}:
                {body}
"""
STORE = "Y[i, j] = X[i, j] * c[i]"


@pytest.mark.parametrize(
    ("loop", "condition", "body", "versions"),
    [
        ("range(8)", "j < n", STORE, True),
        ("range(8)", "n > j", STORE, False),
        ("range(8)", "j < n", f"{STORE}\n            else:\n                Y[i, j] = T.float32(0)", False),
        ("range(8)", "T.likely(j < n)", STORE, True),
        ("range(8)", "T.popcount(j) < n", STORE, False),
        ("range(8)", "j < T.popcount(n)", STORE, False),
        ("range(8)", "j < n and T.popcount(n) < 3", STORE, False),
        ("range(8)", "T.Cast('int64', j) < m", STORE, False),
        ("T.serial(T.int64(8))", "j < m", STORE, False),
        ("range(16)", "j < n", f"if c[i] < T.float32(1):\n                    {STORE}", False),
        ("range(17)", "j < n", f"if c[i] < T.float32(1):\n                    {STORE}", True),
        ("range(20)", "j < n", "for k in range(2):\n                    Y[i, k] = c[i]", False),
        ("range(20)", "j < n", "while c[i] < T.float32(1):\n                    Y[i, j] = c[i]", False),
        ("range(8)", "j < n", "with T.LetStmt(X[i, j]) as v:\n                    Y[i, j] = v * c[i]", True),
    ],
)
def test_what_is_in_loops_that_have_two_versions(loop: str, condition: str, body: str, versions: bool) -> None:
    made = tail_versions(loop_of(SHORT.format(loop=loop, condition=condition, body=body)), True, unsure)
    assert (made is not None) is versions


@pytest.mark.parametrize(
    ("body", "same"),
    [
        (STORE, True),
        ("Y[i, j] = X[i, j]", False),
        ("Y[i, j] = X[0, j]", False),
        ("Y[i, j] = X[i, 0]", True),
        ("Y[i, j] = c[j // 4]", False),
        ("with T.LetStmt(j // 4) as k:\n                    Y[i, j] = c[k]", False),
        ("with T.LetStmt(i // 4) as k:\n                    Y[i, j] = c[k]", True),
        (
            "with T.LetStmt(j // 4) as k:\n                    with T.LetStmt(k + 1) as l:\n                        Y[i, j] = c[l]",
            False,
        ),
        ("Y[i, j] = X[i, j] + X[T.Cast('int32', c[0]), j]", True),
    ],
)
def test_with_masks_two_versions_are_for_what_is_loaded_that_stays_the_same(body: str, same: bool) -> None:
    loop = loop_of(SHORT.format(loop="range(8)", condition="j < n", body=body))
    assert (tail_versions(loop, True, unsure) is not None) is same and tail_versions(loop, False, unsure) is not None


@pytest.mark.parametrize(
    ("condition", "wraps", "dtype"),
    [
        ("j < n", "", "int32"),
        ("j <= n", "n + 1", "int64"),
        ("j * 4 < n", "n + 3", "int64"),
        ("j * 4 + i < n", "n - i", "int64"),
        ("j < n and j < n - i", "n - i", "int64"),
        ("j < n and j < n - i", "", "int32"),
    ],
)
def test_bounds_have_64_bits_where_they_might_wrap(condition: str, wraps: str, dtype: str) -> None:
    """One that might decides for all."""
    loop = loop_of(SHORT.format(loop="range(8)", condition=condition, body=STORE))
    made = tail_versions(loop, True, lambda expr: str(expr) != wraps)
    assert isinstance(made, LetStmt) and made.var.dtype == dtype
    (choice,) = (node for node in nodes_of(made, IfThenElse) if node.else_case is not None)
    whole, some = choice.then_case, choice.else_case
    assert isinstance(whole, For) and isinstance(some, For) and evaluate(whole.extent, {}) == 8
    enough = choice.condition
    assert isinstance(enough, GE)
    for count in range(-3, 12):
        at = {made.var: count}
        assert (evaluate(enough.a, at) >= evaluate(enough.b, at)) == (count >= 8)
        assert evaluate(some.extent, at) == min(max(count, 0), 8)
