"""Proofs of the steps of an operator, as a table and as marks of the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tvmagic.notebook.commands import version_of
from tvmagic.notebook.escaping import sentence
from tvmagic.notebook.html import TONES
from tvmagic.notebook.results import Table
from tvmagic.operators import Operator, Version
from tvmagic.passes import Record
from tvmagic.prove.proof import Proof, StepProof


class ProofTable(Table):
    """A proof: its verdict, neighbouring steps with the same verdict as one row, and what refutes a step."""

    def __init__(self, proof: Proof, name: str, element: str | None = None) -> None:
        judged = [step for step in proof.steps if step.status]
        told = [_verdict(step) if element is None else step.term or "-" for step in judged]
        same = groupby(zip(judged, told), lambda pair: (pair[0].mark, pair[1]))
        rows = [_row([step for step, _ in pairs], text) for (_, text), pairs in same]
        columns = ["", "steps", "verdict" if element is None else f"term of {element}"]
        super().__init__(columns, rows, f"{name}: {proof.text}", _refutation(judged))
        self.proof = proof

    def heading(self) -> str:
        """The verdict in the colour of its state."""
        state = "bad" if self.proof.refuted else "equal" if self.proof.proved else "open"
        return f'<div class="tm-title {TONES[state]}">{sentence(self.title)}</div>'


def _row(steps: Sequence[StepProof], text: str) -> list[str]:
    first, last = steps[0], steps[-1]
    names = first.name if first is last else f"{len(steps)}: {first.name} to {last.name}"
    return [first.mark, names, text]


def _verdict(step: StepProof) -> str:
    """The verdict on a step; the witness of a refuted one is in the proof's."""
    return f"refuted at {step.element}" if step.status == "refuted" else step.text


def _refutation(steps: Sequence[StepProof]) -> list[str]:
    """The terms of the first step that is refuted."""
    step = next((step for step in steps if step.status == "refuted"), None)
    if step is None or not (step.term and step.wanted):
        return []
    return [f"{step.element} after `{step.name}`: {step.term}", f"by the definition: {step.wanted}"]


def prove(
    value: Operator | Version,
    version: str | None = None,
    *,
    seconds: float = 60.0,
    size: int | None = None,
    element: str | None = None,
) -> ProofTable:
    """Prove every step of a version equal to the operator's definition; docs/prove.md says what is claimed.

    Parameters
    ----------
    version: which of its schedules; the last one by default.
    seconds: time for all steps; if it cannot suffice, iterations of the outermost loops are sampled.
    size: the value of symbolic sizes; by default several small ones.
    element: an element such as `C[3, 5]`, of which the term after each step is shown.
    """
    from tvmagic.operators.proving import prove as prove_steps

    chosen = version_of(value, version)
    proof = prove_steps(chosen.operator, chosen, sizes=size, seconds=seconds, element=element)
    return ProofTable(proof, f"{chosen.operator.name} ({chosen.name})", element)


def proof_marks(record: Record, proof: Proof, others: Sequence[str] = ()) -> list[str]:
    """The marks of a proof for the steps of a record; those that it says nothing of, as LLVM's, have the marks of `others`."""
    steps: list[Any] = list(record)
    marks = list(others) or [""] * len(steps)
    at = 0
    for step, mark in zip(proof.steps, proof.marks):
        place = next((n for n in range(at, len(steps)) if steps[n].name == step.name), None)
        if place is not None:
            marks[place], at = mark or marks[place], place + 1
    return marks
