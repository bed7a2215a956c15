"""ReduceBranchingThroughOvercompute: branches that go, and those that must stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic as tvm
from tvmagic import tir
from tvmagic.ir import structural_equal
from tvmagic.script import from_source

HEAD = "from tvm.script import tir as T\n@T.prim_func\n"


def function(params: str, body: str) -> tir.PrimFunc:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return from_source(f"{HEAD}def f({params}):\n{lines}")


def reduced(func: tir.PrimFunc, dataflow: bool) -> tir.PrimFunc:
    config = {"tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": dataflow}}
    with tvm.transform.PassContext(config=config):
        return tir.transform.ReduceBranchingThroughOvercompute()(tvm.IRModule.from_expr(func))["f"]


A16, B16, B1 = 'A: T.Buffer((16,), "int32")', 'B: T.Buffer((16,), "int32")', 'B: T.Buffer((1,), "int32")'
ZEROS = "for i in range(16):\n    T.evaluate(T.assume(i < 12 or A[i] == 0))\n"

# parameters, before, after, whether it needs to know what buffers hold
GONE: dict[str, tuple[str, str, str, bool]] = {
    "the same but for something without effect": (
        A16,
        "for i in range(16):\n    if i < 5:\n        A[i] = 3\n        T.evaluate(0)\n    else:\n        A[i] = 3",
        "for i in range(16):\n    A[i] = 3\n    T.evaluate(0)",
        False,
    ),
    "what is added is 0 there": (
        'A: T.Buffer((1,), "int32")',
        "for i in range(16):\n    if i > 0:\n        A[0] = A[0] + i * 7",
        "for i in range(16):\n    A[0] = A[0] + i * 7",
        False,
    ),
    "what is added is known to be 0": (
        f"{A16}, {B1}",
        ZEROS + "B[0] = 0\nfor i in range(16):\n    if i < 12:\n        B[0] = B[0] + A[i]",
        ZEROS + "B[0] = 0\nfor i in range(16):\n    B[0] = B[0] + A[i]",
        True,
    ),
    "what is stored is overwritten": (
        A16,
        "for i in range(16):\n    if i < 9:\n        A[i] = 1\nfor i in range(16):\n    if 9 <= i:\n        A[i] = 2",
        "for i in range(16):\n    A[i] = 1\nfor i in range(16):\n    if 9 <= i:\n        A[i] = 2",
        True,
    ),
    "the conditions are written in different ways": (
        A16,
        "for i in range(16):\n    if i < 8:\n        A[i] = 1\nfor i in range(16):\n    if i // 4 >= 2:\n        A[i] = 2",
        "for i in range(16):\n    A[i] = 1\nfor i in range(16):\n    if i // 4 >= 2:\n        A[i] = 2",
        True,
    ),
    "more is overwritten than was needed": (
        A16,
        "for i in range(16):\n    if i < 9:\n        A[i] = 1\nfor i in range(16):\n    if 5 <= i:\n        A[i] = 2",
        "for i in range(16):\n    A[i] = 1\nfor i in range(16):\n    if 5 <= i:\n        A[i] = 2",
        True,
    ),
}
STAYS: dict[str, tuple[str, str]] = {
    "what is stored is needed": (A16, "for i in range(16):\n    if i < 9:\n        A[i] = 1"),
    "it is read before it is overwritten": (
        f"{A16}, {B16}",
        "for i in range(16):\n    if i < 9:\n        A[i] = 1\nfor i in range(16):\n    B[i] = A[i]\n"
        "for i in range(16):\n    if 9 <= i:\n        A[i] = 2",
    ),
    "too little is overwritten": (
        A16,
        "for i in range(16):\n    if i < 9:\n        A[i] = 1\nfor i in range(16):\n    if 10 <= i:\n        A[i] = 2",
    ),
    "it would read outside of a buffer": (
        f'{A16}, B: T.Buffer((9,), "int32")',
        "for i in range(16):\n    if i < 9:\n        A[i] = B[i]\nfor i in range(16):\n    if 9 <= i:\n        A[i] = 2",
    ),
    "it would divide by zero": (
        A16,
        "for i in range(16):\n    if 0 < i:\n        A[i] = 100 // i\nA[0] = 1",
    ),
    "a call that would run more often": (
        A16,
        'for i in range(16):\n    if i < 9:\n        A[i] = T.call_extern("int32", "tick")\n'
        "for i in range(16):\n    if 9 <= i:\n        A[i] = 2",
    ),
    "it may not end": (
        f"{A16}, {B1}",
        "for i in range(16):\n    if i < 9:\n        while B[0] < 3:\n            B[0] = B[0] + 1\n        T.evaluate(0)\n"
        "    else:\n        while B[0] < 3:\n            B[0] = B[0] + 1",
    ),
    "what is added is not known": (
        f"{A16}, {B1}",
        "B[0] = 0\nfor i in range(16):\n    if i < 12:\n        B[0] = B[0] + A[i]",
    ),
}


@pytest.mark.parametrize("case", GONE)
def test_branches_that_go(case: str) -> None:
    params, before, after, dataflow = GONE[case]
    func = function(params, before)
    assert structural_equal(reduced(func, True), function(params, after)), reduced(func, True).script()
    if not dataflow:
        assert structural_equal(reduced(func, False), function(params, after))
    else:
        assert reduced(func, False) is func


@pytest.mark.parametrize("case", STAYS)
def test_branches_that_stay(case: str) -> None:
    func = function(*STAYS[case])
    assert reduced(func, True) is func


@pytest.mark.parametrize("programs", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_results_are_the_same(programs: int) -> None:
    """Random pairs of conditions: whatever is removed, what is computed stays."""
    rng, gone = np.random.default_rng(5), 0
    conditions = ["i < 9", "9 <= i", "i % 2 == 0", "i // 4 >= 2", "i < 3 or 12 <= i", "5 <= i and i < 12", "i == 7"]
    stores = ["A[i] = 1", "A[i] = A[i] + 0 * i", "A[i] = B[i]", "B[i] = A[i]", "A[15 - i] = 4", "B[i] = B[i] + A[i]"]
    for _ in range(programs):
        parts: list[Any] = []
        for _ in range(2):
            condition, then, other = rng.choice(conditions), rng.choice(stores), rng.choice([*stores, ""])
            part = f"for i in range(16):\n    if {condition}:\n        {then}\n"
            parts.append(part + (f"    else:\n        {other}\n" if other else ""))
        func = function(f"{A16}, {B16}", "".join(parts))
        new = reduced(func, True)
        gone += new is not func
        results = []
        for f in (func, new):
            a, b = np.arange(16, dtype="int32"), np.arange(100, 116, dtype="int32")
            tvm.build(f)(a, b)
            results.append([a.tolist(), b.tolist()])
        assert results[0] == results[1], func.script() + new.script()
    assert gone


PADDING = "for i in range(16):\n    T.evaluate(T.assume(i < 12 or A[i] == {}))\n"
CHOICE = "for i in range(16):\n    B[i] = T.if_then_else({}, {}, {})"
# what is stored, the padding of A, and the value that is computed everywhere (None: it stays guarded)
ASSUMED: dict[str, tuple[str, int, str | None]] = {
    "zeros stay zeros": (CHOICE.format("12 <= i", "0", "A[i] * 7"), 0, "A[i] * 7"),
    "the condition is the other way round": (CHOICE.format("i < 12", "A[i] + A[i]", "4"), 2, "A[i] + A[i]"),
    "written in another way": (CHOICE.format("i // 4 == 3", "5", "T.max(A[i], 5)"), 1, "T.max(A[i], 5)"),
    "statements": ("for i in range(16):\n    if i < 12:\n        B[i] = A[i]\n    else:\n        B[i] = 3", 3, "A[i]"),
    "a store to another place": (
        "for i in range(16):\n    if i < 12:\n        B[i] = A[i]\n    else:\n        B[15 - i] = 3",
        3,
        None,
    ),
    "a store in a loop": (
        "for i in range(16):\n    if i < 12:\n        B[i] = A[i]\n    else:\n        for j in range(2): B[i] = 3",
        3,
        None,
    ),
    "two stores": (
        "for i in range(16):\n    if i < 12:\n        B[i] = 3\n        B[i] = A[i]\n    else:\n        B[i] = 3",
        3,
        None,
    ),
    "no other store": ("for i in range(16):\n    if i < 12:\n        B[i] = A[i]", 3, None),
    "another value": (CHOICE.format("12 <= i", "1", "A[i] * 7"), 0, None),
    "less is assumed": (CHOICE.format("11 <= i", "0", "A[i] * 7"), 0, None),
    "it would read outside": (CHOICE.format("12 <= i", "0", "A[i] * A[i + 4]"), 0, None),
    "it would divide by zero": (CHOICE.format("12 <= i", "0", "A[i] * (5 // (12 - i))"), 0, None),
}


@pytest.mark.parametrize("case", ASSUMED)
def test_values_that_assumptions_make_the_same(case: str) -> None:
    text, padding, value = ASSUMED[case]
    func = function(f"{A16}, {B16}", PADDING.format(padding) + text)
    use = tir.transform.UseAssumeToReduceBranches()
    assert use(tvm.IRModule.from_expr(func))["f"] is func  # not said to be elementwise
    func = func.with_attr("op_pattern", 1)
    after = use(tvm.IRModule.from_expr(func))["f"]
    if value is None:
        assert after is func
    else:
        expected = function(f"{A16}, {B16}", PADDING.format(padding) + f"for i in range(16):\n    B[i] = {value}")
        tvm.ir.assert_structural_equal(after, expected.with_attr("op_pattern", 1))
