"""Which elements a program touches, in order, as its pictures show it."""

from __future__ import annotations

import pytest

from tvmagic.errors import TVMagicError
from tvmagic.ir import Stmt
from tvmagic.operators.access import trace_accesses, trace_all
from tvmagic.script import from_source


def body(text: str) -> Stmt:
    """The body of a function of `A` and `B`, 64 numbers each."""
    head = 'from tvmagic.script import tir as T\n@T.prim_func\ndef f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):\n'
    return from_source(head + "".join(f"    {line}\n" for line in text.splitlines())).body


def stored(text: str, **options: object) -> list[int]:
    """The elements of `B` that a program stores to, in order."""
    found = trace_accesses(body(text), "B", **options)  # type: ignore[arg-type]
    return [a.index[0] for a in found.events if a.write]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("i + 3", [3, 4, 5, 6]),
        ("7 - i", [7, 6, 5, 4]),
        ("i * 5", [0, 5, 10, 15]),
        ("(i - 3) // 2 + 2", [0, 1, 1, 2]),
        ("(i - 3) % 2", [1, 0, 1, 0]),
        ("T.truncdiv(i - 3, 2) + 1", [0, 0, 1, 1]),
        ("T.truncmod(i - 3, 2) + 1", [0, 1, 0, 1]),
        ("T.min(i, 2)", [0, 1, 2, 2]),
        ("T.max(i, 2)", [2, 2, 2, 3]),
        ("T.Select(i < 2, i, 9)", [0, 1, 9, 9]),
        ("T.if_then_else(i <= 2, 5, i)", [5, 5, 5, 3]),
        ("T.Select(i == 1 or i > 2, 7, 8)", [8, 7, 8, 7]),
        ("T.Select(i != 1 and i >= 1, 7, 8)", [8, 8, 7, 7]),
        ("T.Select(not i < 1, 7, 8)", [8, 7, 7, 7]),
        ("T.Cast('int64', i) + T.int64(1)", [1, 2, 3, 4]),
    ],
)
def test_an_index_is_what_its_operators_give(index: str, expected: list[int]) -> None:
    assert stored(f"for i in range(4):\n    B[{index}] = A[i]") == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("A[i] + i", [0, 1, 2]),
        ("5 + A[i] * i", [5, 5, 5]),
        ("T.popcount(i) + i", [0, 1, 2]),
        ("A[i:i + 2] + T.Ramp(i, 1, 2)", [0, 1, 1, 2, 2, 3]),
        ("T.Ramp(i, 1, 2) + A[i:i + 2]", [0, 1, 1, 2, 2, 3]),
    ],
)
def test_what_is_not_known_of_an_index_counts_as_0(index: str, expected: list[int]) -> None:
    """Values of arrays and of functions, whose arguments count as accesses."""
    value = "T.Broadcast(1, 2)" if "Ramp" in index else "1"
    assert stored(f"for i in range(3):\n    B[{index}] = {value}") == expected


A0, A1, A2, B0, B1 = ("A", 0, False), ("A", 1, False), ("A", 2, False), ("B", 0, True), ("B", 1, True)


@pytest.mark.parametrize(
    ("text", "touches"),
    [
        ("B[0] = A[A[0] + 1]", [A0, A1, B0]),
        ("B[A[0]] = 1", [A0, B0]),
        ("B[A[1]] = A[A[A[2]]]", [A2, A0, A0, A1, B0]),
        ("B[0:2] = T.Shuffle([A[0:2], A[2:4]], [1, 2])", [A0, A1, A2, ("A", 3, False), B0, B1]),
        ("B[0] = T.popcount(A[2])", [A2, B0]),
        ("B[T.Shuffle([T.Ramp(0, 1, 2), T.Broadcast(7, 2)], [1, 0])] = A[0:2]", [A0, A1, B1, B0]),
        ("B[T.Shuffle([T.Ramp(0, 1, 2)], [1])] = 2", [B1]),
        (
            "B.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(0, 1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(2, 4)), predicate=T.Ramp(0, 1, 4) < T.Broadcast(1, 4))",
            [A0, A1, B0],
        ),
        ("B.vstore([T.Ramp(0, 1, 2)], T.Broadcast(1, 2), predicate=T.Broadcast(A[1] > 0, 2))", [A1]),
        ("if T.Shuffle([T.Ramp(0, 1, 2)], [0]) > 0:\n    B[0] = A[0]", []),
    ],
)
def test_each_access_is_noted_once(text: str, touches: list[tuple[str, int, bool]]) -> None:
    """Those of the value, then those of indices and of the predicate, then the element, in the lanes that are on."""
    assert [(a.tensor, a.index[0], a.write) for a in trace_all(body(text), ["A", "B"]).events] == touches
    for name in "AB":
        alone = [touch for touch in touches if touch[0] == name]
        assert [(a.tensor, a.index[0], a.write) for a in trace_all(body(text), [name]).events] == alone


def test_a_condition_stops_at_the_operand_that_decides() -> None:
    found = trace_all(body("for i in range(3):\n    if i > 0 and A[i] == 0:\n        B[i] = 1"), ["A", "B"])
    assert [(a.tensor, a.index[0]) for a in found.events] == [("A", 1), ("B", 1), ("A", 2), ("B", 2)]
    found = trace_all(body("for i in range(2):\n    if i > 0 or A[i] == 0:\n        B[i] = 1"), ["A"])
    assert [a.index[0] for a in found.events] == [0]


def test_what_else_holds_runs_under_else() -> None:
    assert stored("for i in range(3):\n    if i == 1:\n        B[i] = 1\n    else:\n        B[i + 10] = 2") == [
        10,
        1,
        12,
    ]
    assert stored("for i in range(3):\n    if i == 1:\n        B[i] = 1") == [1]


def test_each_lane_of_a_vector_is_a_touch() -> None:
    assert stored("for i in range(2):\n    B[i * 8:i * 8 + 4] = A[i * 4:i * 4 + 4]") == [0, 1, 2, 3, 8, 9, 10, 11]
    assert stored("B[T.Ramp(6, -2, 4)] = A[0:4]") == [6, 4, 2, 0]
    assert stored("B[T.Ramp(0, 1, 4) * T.Broadcast(3, 4)] = A[0:4]") == [0, 3, 6, 9]
    assert stored("B[T.Ramp(0, 1, 4) // T.Broadcast(2, 4) + 5] = A[0:4]") == [5, 5, 6, 6]


def test_threads_run_one_after_the_other_and_are_bound_once() -> None:
    threads = 'for i in T.thread_binding(3, thread="threadIdx.x"):\n    B[i * 2] = A[i]'
    assert stored(threads) == [0, 2, 4]
    launch = 'with T.launch_thread("threadIdx.x", 3) as t:\n    B[t] = A[t]\nwith T.launch_thread("threadIdx.x", 2) as u:\n    B[u + 8] = A[u]'
    assert stored(launch) == [0, 1, 2, 8, 9]


def test_lets_and_loops_from_elsewhere_than_zero() -> None:
    assert stored("for i in range(2, 5):\n    with T.LetStmt(i * 2) as v:\n        B[v] = A[i]") == [4, 6, 8]


def test_blocks_keep_their_conditions_and_start_their_sums() -> None:
    text = """for i, k in T.grid(2, 3):
    with T.block("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        T.where(i * 3 + k < 5)
        with T.init():
            B[vi] = 0
        B[vi] = B[vi] + A[vi * 3 + vk]"""
    assert stored(text) == [0, 0, 0, 0, 1, 1, 1]
    assert trace_accesses(body(text), "A").elements(False) == {(0,), (1,), (2,), (3,), (4,)}


def test_reads_name_what_is_computed_of_them() -> None:
    found = trace_all(body("for i in range(2):\n    B[i] = A[i + 1]"), ["A", "B"])
    assert [(a.write, a.index, a.consumer, a.tensor, a.statement, a.loops) for a in found.events] == [
        (False, (1,), "B", "A", 0, (0,)),
        (True, (0,), "", "B", 0, (0,)),
        (False, (2,), "B", "A", 0, (1,)),
        (True, (1,), "", "B", 0, (1,)),
    ]
    assert found.statements == [("B[i] = A[i + 1]", ("i",))] and found.complete
    assert found.shapes == {"A": [64], "B": [64]} and found.axes == {"A": ["i + 1"], "B": ["i"]}


def test_what_a_condition_reads_is_of_no_statement() -> None:
    found = trace_all(
        body("for i in range(2):\n    if A[i] == 0:\n        B[i] = 1\n    if A[i] == 0:\n        B[i] = 2"), ["A", "B"]
    )
    assert [(a.tensor, a.statement, a.loops) for a in found.events[:4]] == [
        ("A", -1, ()),
        ("B", 0, (0,)),
        ("A", -1, ()),
        ("B", 1, (0,)),
    ]


def test_the_limit_cuts_the_touches_off() -> None:
    loop = body("for i in range(8):\n    B[i] = A[i]")
    cut = trace_accesses(loop, "B", limit=7)
    assert len(cut.events) == 7 and not cut.complete
    whole = trace_accesses(loop, "B", limit=8)
    assert len(whole.events) == 8 and whole.complete


def test_loops_that_no_index_depends_on_run_once() -> None:
    text = "for t in range(5):\n    for i in range(2):\n        B[i] = A[i]"
    assert stored(text, once=True) == [0, 1]
    assert stored(text) == [0, 1] * 5


def test_nothing_that_touches_is_told() -> None:
    with pytest.raises(TVMagicError, match="`C`"):
        trace_accesses(body("B[0] = A[0]"), "C")
