"""VectorizeLoop: vectors where they can be, lanes where not, and why."""

import numpy as np
import pytest
from pass_checks import check, module, script

import tvmagic
from tvmagic.ir import For, ForKind, post_order_visit
from tvmagic.passes import recording
from tvmagic.tir.transform import Simplify, VectorizeLoop
from tvmagic.tir.transform.loops.vectorize_loop import at_once


@pytest.mark.parametrize(
    ("body", "vector"),
    [
        ("A[i] = A[i] + 1", "A[0:4] = A[0:4] + T.Broadcast(1, 4)"),
        ("A[i * 2] = 3", "A[0:8:2] = T.Broadcast(3, 4)"),
        ("if n < 3:\n            A[i] = 1", "A[0:4]"),
        ("if A[i] < 3:\n            A[i] = 1", None),
        ("for j in range(A[i]):\n            A[j] = 1", None),
    ],
)
def test_iterations_at_once(body: str, vector: str | None) -> None:
    mod = module(f'def main(A: T.Buffer((16,), "int32"), n: T.int32):\n    for i in T.vectorized(4):\n        {body}')
    made = at_once(mod["main"].body)
    assert made is None if vector is None else vector in str(made)


@pytest.mark.parametrize(
    ("index", "places"),
    [
        ("T.Ramp(i * 4, 1, 4)", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("T.Ramp(i, 2, 4)", [0, 2, 4, 6, 1, 3, 5, 7]),
        ("T.Ramp(I[i], 1, 4)", [7, 8, 9, 10, 2, 3, 4, 5]),
        ("T.Ramp(i * 9, i + 1, 4)", [0, 1, 2, 3, 9, 11, 13, 15]),
        ("T.Ramp(I[i], i + 1, 4)", [7, 8, 9, 10, 2, 4, 6, 8]),
        ("T.Ramp(3, i + 1, 4)", [3, 4, 5, 6, 3, 5, 7, 9]),
    ],
)
def test_lanes_of_ramps_in_a_vectorized_loop(index: str, places: list[int]) -> None:
    mod = module(f"""
        def main(A: T.Buffer((16,), "int32"), I: T.Buffer((2,), "int32"), B: T.Buffer((8,), "int32")):
            for i in T.vectorized(2):
                B[i * 4:i * 4 + 4] = A[{index}]
    """)
    new = VectorizeLoop()(mod)
    assert "for i" not in script(new)
    out = np.zeros(8, "int32")
    tvmagic.build(new)(np.arange(16, dtype="int32"), np.array([7, 2], "int32"), out)
    assert out.tolist() == places


@pytest.mark.parametrize(
    ("value", "vector"),
    [
        ("j * 2 + 1", "T.Ramp(1, 2, 4)"),
        ("3 - j", "T.Ramp(3, -1, 4)"),
        ("j // 2", "T.Ramp(0, 1, 4) // T.Broadcast(2, 4)"),
        ("T.max(j, n)", "T.max(T.Ramp(0, 1, 4), T.Broadcast(n, 4))"),
        ("T.Select(j < n, j, 0)", "T.Select(T.Ramp(0, 1, 4) < T.Broadcast(n, 4), T.Ramp(0, 1, 4), T.Broadcast(0, 4))"),
        ("T.if_then_else(n < 3, j, 0)", "T.if_then_else(n < 3, T.Ramp(0, 1, 4), T.Broadcast(0, 4))"),
        ("n", "T.Broadcast(n, 4)"),
        ("B[n]", "T.Broadcast(B[n], 4)"),
        ("B[j * 2]", "B[0:8:2]"),
        ("T.shift_left(j, 1)", "T.shift_left(T.Ramp(0, 1, 4), T.Broadcast(1, 4))"),
        ('T.Cast("int32", T.Cast("int8", j))', 'T.Cast("int32x4", T.Cast("int8x4", T.Ramp(0, 1, 4)))'),
    ],
)
def test_expressions(value: str, vector: str) -> None:
    head = 'def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):'
    check(
        VectorizeLoop(),
        f"{head}\n    for j in T.vectorized(4):\n        A[j] = {value}",
        f"{head}\n    A[0:4] = {vector}",
    )


_USED_AS_POINTER = """s = T.allocate([2], "int32", "global")
        t = T.Buffer((2,), "int32", data=s)
        t[0] = A[j]
        t[1] = A[j + 4]
        T.evaluate(T.call_extern("int32", "f", {}))"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if j < n:\n            A[j] = 1", "`if`"),
        ("A[j] = T.if_then_else(j < n, 1, 2)", "`if_then_else`"),
        ('A[j] = T.call_extern("int32", "f", j)', "`call_extern`"),
        ("for k in range(j):\n            A[k] = 1", "range of loop `k`"),
        ("B[j, 0] = 1", "other than the last"),
        (_USED_AS_POINTER.format("s"), "`t` is used by its pointer"),
        (_USED_AS_POINTER.format("T.address_of(t[0])"), "`t` is used by its pointer"),
    ],
)
def test_what_is_no_vector_runs_lane_by_lane_with_a_reason(body: str, reason: str) -> None:
    mod = module(
        'def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8, 8), "int32"), n: T.int32):\n'
        f"    for j in T.vectorized(4):\n        {body}"
    )
    with recording() as record:
        result = VectorizeLoop()(mod)
    (note,) = record.notes("vectorize.scalar")
    assert reason in note.text and note.facts["loop"] == "j" and note.facts["lanes"] == 4
    loops = []
    post_order_visit(result["main"].body, lambda n: loops.append(n) if isinstance(n, For) else None)
    assert any(loop.loop_var.name == "j.s" and loop.kind is ForKind.SERIAL for loop in loops)


def notes_of(body: str) -> list[tuple[str, str, list[str]]]:
    mod = module(
        'def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):\n'
        f"    for j in T.vectorized(4):\n        {body}"
    )
    with recording() as record:
        VectorizeLoop()(mod)
    return [
        (n.topic, n.text, list(map(str, n.facts.values()))) for n in record.notes() if n.topic.startswith("vectorize")
    ]


def test_what_became_of_each_access_is_said_with_the_rule() -> None:
    assert notes_of("A[j + 8] = B[j * 2] + C[n] + C[C[j]]") == [
        ("vectorize.loop", "loop `j` of 4 iterations becomes vectors: its variable is `T.Ramp(0, 1, 4)`", []),
        ("vectorize.access", "`A[j + 8]` is written", ["`T.Ramp(8, 1, 4)`", "4 neighbours: one dense vector"]),
        ("vectorize.access", "`B[j * 2]` is read", ["`T.Ramp(0, 2, 4)`", "elements 2 apart: strided"]),
        ("vectorize.access", "`C[n]` is read", ["`n`", "the same element in all lanes: one load and a broadcast"]),
        ("vectorize.access", "`C[j]` is read", ["`T.Ramp(0, 1, 4)`", "4 neighbours: one dense vector"]),
        ("vectorize.access", "`C[C[j]]` is read", ["`C[0:4]`", "an index for each lane: a gather"]),
        ("vectorize.rule", "`j + 8`", ["`T.Ramp(8, 1, 4)`", "a scalar moves the ramp"]),
        ("vectorize.rule", "`j * 2`", ["`T.Ramp(0, 2, 4)`", "a positive factor scales base and stride"]),
    ]


@pytest.mark.parametrize(
    ("body", "place", "kind"),
    [
        ("A[C[j]] = B[j]", "`A[C[j]]` is written", "an index for each lane: a scatter"),
        ("A[j] = B[C[j]]", "`B[C[j]]` is read", "an index for each lane: a gather"),
        ("A[j] = B[n]", "`B[n]` is read", "the same element in all lanes: one load and a broadcast"),
        ("A[j * n] = B[j]", "`A[j * n]` is written", "an index for each lane: a scatter"),
        ("A[63 - j] = B[j]", "`A[63 - j]` is written", "elements -1 apart: strided"),
    ],
)
def test_what_is_said_of_an_access(body: str, place: str, kind: str) -> None:
    assert [facts[1] for topic, text, facts in notes_of(body) if text == place] == [kind]


def test_what_was_not_proved_is_said() -> None:
    (said,) = [text for topic, text, _ in notes_of("A[j] = B[j * n]") if topic == "vectorize.unproved"]
    assert said == "not proved: `n > 0`, so `j * n` is a product lane by lane, not a ramp"


def test_nothing_is_said_of_vectors_that_a_statement_did_not_become() -> None:
    assert [topic for topic, _, _ in notes_of("A[j + 8] = T.if_then_else(j < n, B[j], 2)")] == ["vectorize.scalar"]


def test_a_vectorized_loop_inside_another_runs_serially() -> None:
    mod = module(
        """
        def main(A: T.Buffer((32,), "float32")):
            for i in T.vectorized(4):
                for j in T.vectorized(8):
                    A[i * 8 + j] = T.float32(0)
        """
    )
    with recording() as record:
        text = script(VectorizeLoop()(mod))
    assert "T.vectorized" not in text and record.notes("vectorize.nested")


def test_no_vectorized_loop_is_left() -> None:
    mod = module(
        """
        def main(A: T.Buffer((32,), "float32"), n: T.int32):
            for i in range(n):
                for j in T.vectorized(8):
                    if i < 3:
                        A[i * 8 + j] = T.exp(A[j])
            for j in T.vectorized(8):
                A[j % 3] = A[j]
        """
    )
    for pass_ in (VectorizeLoop(), VectorizeLoop(False)):
        kinds = []
        post_order_visit(pass_(mod)["main"].body, lambda n: kinds.append(n.kind) if isinstance(n, For) else None)
        assert ForKind.VECTORIZED not in kinds


def test_spans_stay() -> None:
    mod = module('def main(A: T.Buffer((8,), "float32")):\n    for j in T.vectorized(8):\n        A[j] = T.float32(1)')
    loop = mod["main"].body
    result = Simplify()(VectorizeLoop()(mod))["main"].body
    assert result.span is loop.body.span
