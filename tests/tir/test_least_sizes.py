"""The sizes that a program needs are those for which it runs: each condition against runs for all small sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import parse

from tvmagic.arith import Analyzer
from tvmagic.eval.lanes import OutOfRange
from tvmagic.eval.machine import run_function
from tvmagic.ir import IntImm, IRModule, PrimFunc, Var, substitute
from tvmagic.ir.query import nodes_of
from tvmagic.ir.stmt import AssertStmt
from tvmagic.tir.analysis.least_sizes import least_sizes, with_least_sizes

HEAD = """def main(a: T.handle, B: T.Buffer((8,), "int32"), k: T.int32):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "int32")
"""
PROGRAMS = {
    "one element": ("A[2, 0] = 1", {"n > 2", "m > 0"}),
    "both ends": ("for i in range(3):\n    A[i, 1 - i // 2] = 1", {"n > 2", "m > 1"}),
    "a loop that begins later": ("for i in range(2, 4):\n    A[i, 0] = 1", {"n > 3", "m > 0"}),
    "a symbolic loop": ("for i in range(n):\n    A[i, 3] = 1", {"n < 1 or m > 3"}),
    "a loop of n + 1": ("for i in range(n - 1):\n    A[0, i * 0 + 2] = 1", {"n < 2 or m > 2"}),
    "an empty loop": ("for i in range(0):\n    A[5, 5] = 1", set()),
    "a condition": (
        "if k < 2:\n    A[k * 0 + 1, 0] = 1\nelse:\n    A[3, 0] = 1",
        {"k > 1 or n > 1", "k > 1 or m > 0", "k < 2 or n > 3", "k < 2 or m > 0"},
    ),
    "a condition that is enough": ("if n > 4:\n    A[4, 0] = 1", {"n < 5 or m > 0"}),
    "two conditions": ("if k < 2 and n > 1:\n    A[1, 2] = 1", {"k > 1 or n < 2 or m > 2"}),
    "likely": ("for i in range(n):\n    if T.likely(i < 1):\n        A[i, 1] = 1", {"n < 1 or m > 1"}),
    "a name": ("x: T.int32 = k * 0 + 2\nfor i in range(x):\n    A[i + x, 0] = 1", {"n > 3", "m > 0"}),
    "data": ("if B[0] < 3:\n    A[3, 3] = 1\nA[B[1], 0] = 1", {"m > 0"}),
    "what is chosen": (
        "B[0] = T.if_then_else(k < 1, A[5, 5], A[1, 1]) + T.Select(A[0, 0] < 3, A[6, 6], 2)",
        {"n > 0", "m > 0"},
    ),
    "a guarded part": (
        "B[0] = T.Cast('int32', A[1, 0] < 1 and A[6, 6] < 1) + T.Cast('int32', A[2, 0] < 1 or A[6, 6] < 1)",
        {"n > 2", "m > 0"},
    ),
    "an argument of a call": ("B[0] = T.max(A[1, 0], T.abs(A[2, 0]))", {"n > 2", "m > 0"}),
    "a repetition": ("while k < 0:\n    A[2, 0] = 1", {"k > -1 or n > 2", "k > -1 or m > 0"}),
    "a block": (
        "for i in range(3):\n    with T.block('b'):\n        vi = T.axis.spatial(3, i)\n        T.where(i < 2)\n        A[vi + 1, 0] = 1",
        {"n > 1", "m > 0"},
    ),
    "threads": ("for t in T.thread_binding(3, thread='threadIdx.x'):\n    A[t, 0] = 1", {"n > 2", "m > 0"}),
    "launched threads": ("with T.launch_thread('threadIdx.x', 3) as t:\n    A[t, 0] = 1", {"n > 2", "m > 0"}),
    "threads launched twice": (
        "with T.launch_thread('blockIdx.x', n) as b:\n    with T.launch_thread('threadIdx.x', 2) as t:\n        A[b, t] = 1",
        {"n < 1 or m > 1"},
    ),
    "other buffers": ("B[7] = A[0, 0]", {"n > 0", "m > 0"}),
}


# what a run does not show: it reads data, or stops at nothing
GUARDED = ("data", "what is chosen", "a guarded part", "a repetition", "a block")


def function(name: str) -> PrimFunc:
    return parse(HEAD + "\n".join("    " + line for line in PROGRAMS[name][0].split("\n")))


def value(node: Any, names: dict[str, int]) -> bool:
    """What a condition is for values of its variables."""
    values = {v: IntImm(v.dtype, names[v.name]) for v in nodes_of(node, Var)}
    found = Analyzer().simplify(substitute(node, values))
    assert isinstance(found, IntImm)
    return bool(found.value)


def runs(func: PrimFunc, n: int, m: int, k: int) -> bool:
    try:
        run_function(func, [np.zeros((n, m), "int32"), np.full(8, 9, "int32"), np.asarray(k)])
    except OutOfRange:
        return False
    return True


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_if_and_only_if_its_sizes_are_enough(name: str) -> None:
    func, wanted = function(name), PROGRAMS[name][1]
    found = least_sizes(func)
    grid = [{"n": n, "m": m, "k": k} for n in range(7) for m in range(5) for k in (-1, 1, 2)]
    assert not any(isinstance(condition, IntImm) for condition, _ in found)
    for names in grid:
        enough = all(value(condition, names) for condition, _ in found)
        assert enough == all(eval(text, {}, names) for text in wanted), (names, found)
        assert enough is False or name in GUARDED or runs(func, **names), names


def test_messages_name_the_axis_and_the_size() -> None:
    (_, first), (_, second) = least_sizes(function("one element"))
    assert first == "`A` is accessed at 2 of axis 0: its size there has to be more than 2"
    assert second == "`A` is accessed at 0 of axis 1: its size there has to be more than 0"


def test_what_is_needed_is_asserted_once_and_in_order() -> None:
    program = IRModule.from_expr(
        parse(HEAD + "    A[2, 0] = 1\n    A[2, 0] = 2\n    A[k, k] = 3").with_attr("global_symbol", "main")
    )
    new = with_least_sizes(program, program)["main"].body
    messages: list[str] = []
    while isinstance(new, AssertStmt):
        messages.append(str(new.message).strip('"').split(":")[0])
        new = new.body
    assert messages == ["`A` is accessed at 2 of axis 0", "`A` is accessed at 0 of axis 1"]


def test_constant_sizes_need_nothing() -> None:
    func = parse('def main(A: T.Buffer((4,), "int32")):\n    A[9] = 1')
    program = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    assert least_sizes(func) == [] and with_least_sizes(program, program) is program
