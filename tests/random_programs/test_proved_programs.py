"""Proofs of legal schedules, and of programs with injected faults; `make soak` injects 200."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from injected_faults import OPERATORS, changes_results, inject

from tvmagic.eval.machine import run_function
from tvmagic.operators import Operator, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.prove.proof import Proof

UNDECIDED = {"saturating_add", "argmax"}  # late passes use ranges of values, and the order of a loop


@pytest.mark.parametrize("name", OPERATORS)
def test_legal_schedules_are_never_refuted(name: str) -> None:
    cell, calls = OPERATORS[name]
    op = operator(name, cell)
    proof = op.prove(schedule(op, calls), seconds=20)
    assert not proof.refuted, proof.text
    assert proof.proved or name in UNDECIDED, proof.text


def _differs(op: Operator, program: Any, proof: Proof) -> bool:
    """Whether the element that a proof names differs at its witness, run by the interpreter on numbers."""
    step = proof.steps[0]
    if step.witness is None or any(
        text.split("[")[0] not in {t.name for t in op.inputs} for text in step.witness["inputs"]
    ):
        return True  # memory that nothing wrote
    func = next(iter(program.functions.values()))
    arrays = []
    for tensor in op.inputs:
        array = np.zeros([int(s) for s in tensor.shape], str(tensor.dtype))
        for text, value in step.witness["inputs"].items():
            name, _, index = text.partition("[")
            if name == tensor.name:
                place = tuple(int(i) for i in index.rstrip("]").split(",") if i)
                array[place] = value == "True" if array.dtype.kind == "b" else float(Fraction(value))
        arrays.append(array)
    outputs = op.fresh_outputs(arrays)
    run_function(func, op.arguments([a.copy() for a in arrays], outputs), 20)
    wanted = op.reference(*arrays)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    name, _, index = step.element.partition("[")
    place = tuple(int(i) for i in index.rstrip("]").split(",") if i)
    number = [t.name for t in op.outputs].index(name)
    return bool(outputs[number][place] != wanted[number][place])


def check_faults(count: int, seed: int) -> tuple[int, int, list[str]]:
    """Prove programs with faults that change results: their number, those refuted, and those called proved."""
    rng, total, found, wrong = random.Random(seed), 0, 0, []
    while total < count:
        fault = inject(rng)
        if fault is None or not changes_results(fault, runs=3):
            continue
        total += 1
        op, program = fault.version.operator, fault.version.schedule.module
        proof = op.prove(program=program, seconds=10)
        found += proof.refuted
        if proof.proved or (proof.refuted and not _differs(op, program, proof)):
            wrong.append(f"{fault.kind} in {fault.name} after {fault.step}: {fault.text}: {proof.text}")
    return total, found, wrong


def test_injected_faults_are_refuted_by_inputs_that_differ() -> None:
    total, found, wrong = check_faults(12, seed=5)
    assert wrong == []
    assert found >= total - 2


@pytest.mark.soak
def test_many_injected_faults_are_refuted() -> None:
    total, found, wrong = check_faults(200, seed=20)
    print(f"seed 20: {found} of {total} refuted")
    assert wrong == [], "\n".join(wrong)
    assert found >= 0.9 * total
