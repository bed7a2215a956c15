"""VersionGuardedLoops: loops guarded by a condition have an unguarded version, with the same results."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from late_passes import SKYLAKE, X86_64_V2, assert_same_values, late, parsed
from sampling import every

import tvmagic
from tvmagic.codegen.late.version_guarded_loops import version_guarded_loops
from tvmagic.eval.integers import evaluate
from tvmagic.ir import GE, For, IfThenElse, LetStmt, PrimFunc
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

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


def versions(text: str, target: str = SKYLAKE) -> PrimFunc | None:
    """The function of a text with two versions of loops; by default for a processor with masks."""
    return late(version_guarded_loops, parsed(text), target)


@pytest.mark.parametrize(
    ("condition", "extent"), every(2, [*itertools.product(CUT, (17, 4)), *itertools.product(WHOLE, (17,))])
)
def test_results_are_those_of_the_condition(condition: str, extent: int) -> None:
    text = PROGRAM.format(condition=condition, extent=extent)
    func, made = parsed(text), versions(text)
    assert (made is not None) == (condition in CUT)
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
            if made is not None and target == "llvm":
                assert_same_values(func, made, [x, c, np.array(n, "int32"), np.full((4, 64), -1, "float32")])


def test_what_llvm_masks_stays_one_loop() -> None:
    """Where nothing is loaded that stays the same, a processor with masks computes the rest in one vector."""
    text = PROGRAM.replace("X[i, j] * c[i]", "X[i, j] * T.float32(2)").format(condition="i * 7 + j < n", extent=16)
    assert versions(text) is None and versions(text, X86_64_V2) is not None


@pytest.mark.parametrize(("target", "register"), [("llvm -mcpu=haswell", "ymm"), ("llvm -mcpu=x86-64-v2", "mulps")])
@pytest.mark.parametrize("factor", [24, 48])
def test_tiles_that_do_not_divide_are_vectors(target: str, register: str, factor: int) -> None:
    op = operator("op", "A: float32[300, 300]\nB: float32[300, 300]\nC[i, j] += A[i, k] * B[k, j]")
    calls = f"i, j = C.op.axis\nk, = s[C].op.reduce_axis\njo, ji = s[C].split(j, {factor})\ns[C].reorder(i, k, jo, ji)\ns[C].vectorize(ji)"
    assert tvmagic.build(schedule(op, calls, "tiled").lower(), target=target).get_source("asm").count(register) > 4


@pytest.mark.parametrize(
    ("loop", "has_versions"),
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
def test_loops_that_have_two_versions(loop: str, has_versions: bool) -> None:
    """Those of four iterations or more, counted from 0."""
    text = PROGRAM.format(condition="i * 7 + j < n", extent=8).replace("for j in range(8)", f"for j in {loop}")
    assert (versions(text) is not None) is has_versions


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
    ("loop", "condition", "body", "has_versions"),
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
def test_what_is_in_loops_that_have_two_versions(loop: str, condition: str, body: str, has_versions: bool) -> None:
    made = versions(SHORT.format(loop=loop, condition=condition, body=body))
    assert (made is not None) is has_versions


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
    text = SHORT.format(loop="range(8)", condition="j < n", body=body)
    assert (versions(text) is not None) is same and versions(text, X86_64_V2) is not None


@pytest.mark.parametrize(
    ("condition", "dtype", "dtype_if_small"),
    [
        ("j < n", "int32", "int32"),
        ("j <= n", "int64", "int32"),
        ("j * 4 < n", "int64", "int32"),
        ("j * 4 + i < n", "int64", "int32"),
        ("j < n and j < n - i", "int64", "int32"),
    ],
)
def test_bounds_have_64_bits_if_they_might_wrap(condition: str, dtype: str, dtype_if_small: str) -> None:
    """One that might decides for all. An argument may be any integer, a loop variable may not."""
    text = SHORT.format(loop="range(8)", condition=condition, body=STORE)
    small = text.replace("for i in range(4)", "for i, n in T.grid(4, 20)").replace("n: T.int32, ", "")
    for source, expected in ((text, dtype), (small, dtype_if_small)):
        made = versions(source)
        assert made is not None
        (bound,) = nodes_of(made.body, LetStmt)
        assert bound.var.dtype == expected
        (conditional,) = (node for node in nodes_of(bound, IfThenElse) if node.else_case is not None)
        whole, some, enough = conditional.then_case, conditional.else_case, conditional.condition
        assert isinstance(whole, For) and isinstance(some, For) and isinstance(enough, GE)
        assert evaluate(whole.extent, {}) == 8
        for count in range(-3, 12):
            at = {bound.var: count}
            assert (evaluate(enough.a, at) >= evaluate(enough.b, at)) == (count >= 8)
            assert evaluate(some.extent, at) == min(max(count, 0), 8)
