"""Proofs of the steps of versions, and of programs with defects."""

from __future__ import annotations

import _thread
import json
import threading
from typing import Any

import pytest

from tvmagic.operators import Operator, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.prove.proof import Proof
from tvmagic.script import from_source

MATMUL = "A: float32[{n}, {n}]\nB: float32[{n}, {n}]\nC[i, j] += A[i, k] * B[k, j]"
TILED = "c = s[C]\nio, jo, ii, ji = c.tile(*c.axis, 8, 16)\nc.vectorize(ji)\nc.parallel(io)"


def proof_of(cell: str, program: str, **options: Any) -> tuple[Operator, Proof]:
    """The proof of a program, the body of a loop over `i`, for an operator from X to Y of 8 elements."""
    op = operator("op", cell)
    dtype = str(op.inputs[0].dtype)
    head = f'@T.prim_func\ndef op(X: T.Buffer((8,), "{dtype}"), Y: T.Buffer((8,), "{dtype}")):\n'
    return op, op.prove(program=from_source(head + program), **options)


def of_elements(definition: str, value: str, dtype: str = "float32") -> Proof:
    """The proof that `Y[i] = value` (of a TVMScript program) is `Y[i] = definition` (of a cell)."""
    return proof_of(f"X: {dtype}[8]\nY[i] = {definition}", f"    for i in range(8):\n        Y[i] = {value}")[1]


def test_matmul_is_proved_whole() -> None:
    op = operator("op", MATMUL.format(n=64))
    proof = op.prove(schedule(op, TILED))
    assert proof.proved and proof.kind == "exact" and not proof.step
    assert sum(bool(s.status) for s in proof.steps) > 40
    assert all(s.compared == 64 * 64 for s in proof.steps if s.status)
    assert proof.chance < 1e-18


def test_reordered_reductions_are_proved_up_to_reassociation() -> None:
    op = operator("op", MATMUL.format(n=12))
    proof = op.prove(schedule(op, "c = s[C]\nko, ki = c.split(c.reduce_axis[0], 5)\nc.reorder(ki, ko)\nc.unroll(ki)"))
    assert proof.proved and proof.kind == "reordered"


@pytest.mark.parametrize(
    ("definition", "value", "kind"),
    [
        ("X[i] * 5", "X[i] * T.float32(2) + X[i] * T.float32(3)", "real"),
        ("X[i] - X[i]", "T.float32(0)", "real"),
        ("X[i] / 3", "X[i] * T.float32(0.3333333432674408)", "rounded"),
        ("max(X[i], 0)", "T.if_then_else(T.float32(0) < X[i], X[i], T.float32(0))", "real"),
        ("max(X[i], 0)", "T.max(T.max(X[i], T.float32(0)), X[i])", "real"),
        ("exp(X[i] - 1)", "T.exp(X[i]) / T.exp(T.float32(1))", "real"),
        ("1 / sqrt(X[i])", "T.rsqrt(X[i])", "exact"),
        ("X[i] + 1", "T.float32(1) + X[i]", "exact"),
        ("where(X[i] < 1, 2, 3) + X[i]", "T.Select(X[i] < T.float32(1), X[i] + T.float32(2), X[i] + T.float32(3))", "real"),
    ],
)  # fmt: skip
def test_identities_are_proved_of_their_kind(definition: str, value: str, kind: str) -> None:
    proof = of_elements(definition, value)
    assert proof.proved, proof.text
    assert proof.kind in (kind, "real") if kind == "exact" else proof.kind == kind


def test_a_condition_of_statements_is_a_select() -> None:
    body = "    for i in range(8):\n        if X[i] < T.float32(1):\n            Y[i] = X[i] + T.float32(2)\n"
    body += "        else:\n            Y[i] = X[i] + T.float32(3)"
    _, proof = proof_of("X: float32[8]\nY[i] = where(X[i] < 1, X[i] + 2, X[i] + 3)", body)
    assert proof.proved, proof.text


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("X[i]", "X[i] * T.float32(1.0000001)"),
        ("X[i] * 5", "X[i] * T.float32(5.0000005)"),
        ("X[i] / 3", "X[i] * T.float32(0.333333)"),
        ("X[i]", "X[i] + T.float32(1e-9)"),
        ("where(X[i] < 1, 2, 3) + X[i]", "X[i] + T.Select(X[i] <= T.float32(1), T.float32(2), T.float32(3))"),
        ("exp(X[i] - 1)", "T.exp(X[i]) / T.exp(T.float32(2))"),
        ("erf(X[i])", "T.erf(X[i] * T.float32(1.5))"),
    ],
)
def test_defects_that_no_rounding_bound_sees_are_refuted_by_inputs(definition: str, value: str) -> None:
    proof = of_elements(definition, value)
    step = proof.steps[0]
    assert proof.refuted and step.witness is not None
    assert step.element == "Y[0]" and step.witness["got"] != step.witness["wanted"]
    json.dumps(proof.to_json())


@pytest.mark.parametrize(
    ("definition", "value", "refuted"),
    [
        ("X[i] * 4 + X[i]", "X[i] * T.int8(5)", False),
        ("X[i] * 64 * 2 * 2", "T.int8(0)", False),
        ("X[i] * 2 // 2", "X[i]", True),
        ("X[i] + 1 - 1", "X[i]", False),
    ],
)
def test_integers_wrap_around(definition: str, value: str, refuted: bool) -> None:
    proof = of_elements(definition, value, "int8")
    assert proof.refuted == refuted and proof.proved != refuted, proof.text


def test_identities_without_a_law_are_neither_proved_nor_refuted() -> None:
    proof = of_elements("erf(X[i]) - erf(-X[i])", "T.erf(X[i]) * T.float32(2)")
    assert proof.unknown and "`erf`" in proof.steps[0].reason


@pytest.mark.parametrize(
    ("body", "element", "reason"),
    [
        ("    for i in range(7):\n        Y[i] = X[i]", "Y[7]", "nothing writes"),
        ("    for i in range(9):\n        Y[i] = X[T.min(i, 7)]", "Y[8]", "outside"),
        (
            '    p = T.alloc_buffer((8,), "float32")\n    for i in range(8):\n        Y[i] = X[i] + p[i]',
            "Y[0]",
            "reads p[0]",
        ),
    ],
)
def test_wrong_memory_is_refuted(body: str, element: str, reason: str) -> None:
    _, proof = proof_of("X: float32[8]\nY[i] = X[i]", body)
    assert proof.refuted and proof.element == element and reason in proof.steps[0].reason


def test_unwritten_memory_that_cancels_is_not_proved() -> None:
    body = '    p = T.alloc_buffer((8,), "float32")\n    for i in range(8):\n        Y[i] = X[i] + (p[i] - p[i])'
    _, proof = proof_of("X: float32[8]\nY[i] = X[i]", body)
    assert proof.unknown and "p[0]" in proof.steps[0].reason


def test_softmax_equals_online_softmax_by_the_law_of_exp() -> None:
    op = operator("softmax", "X: float32[2, 5]\nP[i, k] = softmax(X[i, k], over=k)")
    online = """@T.prim_func
def softmax(X: T.Buffer((2, 5), "float32"), P: T.Buffer((2, 5), "float32")):
    m = T.alloc_buffer((2, 6), "float32")
    d = T.alloc_buffer((2, 6), "float32")
    for i in range(2):
        m[i, 0] = X[i, 0]
        d[i, 0] = T.float32(0)
        for k in range(5):
            m[i, k + 1] = T.max(m[i, k], X[i, k])
            d[i, k + 1] = d[i, k] * T.exp(m[i, k] - m[i, k + 1]) + T.exp(X[i, k] - m[i, k + 1])
        for k in range(5):
            P[i, k] = T.exp(X[i, k] - m[i, 5]) / d[i, 5]"""
    proof = op.prove(program=from_source(online))
    assert proof.proved and proof.kind == "real" and "law of exp" in proof.steps[0].reason
    wrong = op.prove(program=from_source(online.replace("d[i, k] * T.exp(m[i, k] - m[i, k + 1])", "d[i, k]")))
    assert wrong.refuted, wrong.text


def test_inputs_that_decide_addresses_are_named() -> None:
    op = operator("gather", "X: float32[12]\nI: int32[5]\nY[i] = X[I[i]] * 2")
    proof = op.prove(schedule(op, "s[Y].vectorize(s[Y].axis[0])"))
    assert proof.proved and proof.concrete_inputs == ("I",) and "given values of I" in proof.text


def test_symbolic_sizes_are_instances_that_the_claim_names() -> None:
    op = operator("scale", "X: float32[n]\nY[i] = X[i] * 2")
    proof = op.prove(schedule(op, "s[Y].split(s[Y].axis[0], 8)"))
    assert proof.proved and {s["n"] for s in proof.sizes} >= {1, 7, 8, 9, 17}
    assert "nothing is said of other sizes" in proof.text
    assert op.prove(sizes={"n": 3}).sizes == ({"n": 3},)


def test_large_operators_are_sampled_and_say_so() -> None:
    op = operator("dense", "X: float32[1536, 64]\nW: float32[64, 128]\nY[i, j] += X[i, k] * W[k, j]")
    proof = op.prove(program=op.to_prim_func(), seconds=10)
    assert proof.unknown and proof.kind == "sampled"
    assert "of 1536 iterations of `i`" in proof.steps[0].reason and 0 < proof.steps[0].compared < 1536 * 128


def test_a_repeated_proof_is_the_same() -> None:
    op = operator("op", MATMUL.format(n=5))
    first, second = (op.prove(seed=4).to_json() for _ in range(2))
    for data in (first, second):
        del data["seconds"]
        for step in data["steps"]:
            del step["seconds"]
    assert first == second and first["version"] == 1


def test_ctrl_c_ends_a_proof_with_what_is_known() -> None:
    op = operator("op", MATMUL.format(n=96))
    program = op.to_prim_func()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    try:
        proof = op.prove(program=program)
    finally:
        timer.cancel()
    assert proof.unknown and "stopped" in proof.text
