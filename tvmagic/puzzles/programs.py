"""Puzzles whose answer becomes a program: a schedule of a given operator, or a program that computes the same as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.lazy import cached_property
from tvmagic.notation.source import Source
from tvmagic.operators import Operator, Version, operator, operator_from_cell
from tvmagic.operators.comparison import CheckResult, as_list, compare, expected_values
from tvmagic.operators.measure import check
from tvmagic.operators.races import refuse_races
from tvmagic.operators.scheduling import blame, schedule_from_cell
from tvmagic.passes import Record
from tvmagic.puzzles.metrics import FACTS, Facts
from tvmagic.puzzles.puzzle import REFUSED, VALUES, Goal, Puzzle, Row, Verdict, number_text


@dataclass(frozen=True, kw_only=True)
class _Counted(Puzzle):
    """A puzzle with bounds on what the program of an answer does.

    Attributes
    ----------
    program: the operator that the task is about, as the text of a `%%tensor` cell.
    goals: bounds, such as `loaded <= 65536`; `FACTS` lists what is counted.
    names: names that the program and the answer may use.
    """

    program: str
    goals: Sequence[str]
    names: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def bounds(self) -> list[Goal]:
        """The goals, read."""
        return [Goal.parse(text, FACTS) for text in self.goals]

    @property
    def faults(self) -> list[str]:
        """The faults that an answer can have, in the order in which they are looked for."""
        return [*super().faults, *self.goals]

    @property
    def operator_name(self) -> str:
        """What the operator of the puzzle, and of answers to it, is called."""
        return f"puzzle{self.number or ''}"

    def operator(self) -> Operator:
        """The operator that the task is about."""
        return operator(self.operator_name, self.program, self.names)

    def shown(self) -> str:
        """The text of the operator."""
        return self.program.strip("\n")

    def wanted(self) -> list[tuple[str, str]]:
        """Legal and equal to NumPy always; then the goals."""
        first = [(_LEGAL, "yes"), (_EQUAL, "yes")]
        return [*first, *((FACTS[goal.fact], goal.wanted) for goal in self.bounds)]

    def source(self, answer: str) -> Source:
        """The answer as a cell."""
        return Source(f"puzzle {self.address}", f"%%puzzle {self.address}\n{answer}")

    def counted(self, verdict: Verdict, version: Version) -> None:
        """Add what is counted of a version, and the first goal that it misses."""
        facts = Facts(version)
        verdict.version, verdict.program = version, facts.func.script()
        for goal in self.bounds:
            value = getattr(facts, goal.fact)
            right = goal.holds(value)
            verdict.rows.append(Row(FACTS[goal.fact], goal.wanted, number_text(value), right))
            if not right and verdict.fault is None:
                verdict.fault = goal.text


_LEGAL, _EQUAL = "every call is legal", "equal to NumPy"


def _refused(error: TVMagicError, version: Version | None = None) -> Verdict:
    return Verdict([Row(_LEGAL, "yes", error.message, False)], REFUSED, error=error, version=version)


class SchedulePuzzle(_Counted):
    """An answer is a `%%schedule` cell of the operator."""

    def grade(self, answer: str, namespace: Mapping[str, Any]) -> Verdict:
        """Run the answer as a schedule, check it, count what the program does."""
        record, op = Record(), self.operator()
        try:
            version = schedule_from_cell(op, self.source(answer), "answer", {**namespace, **self.names}, record)
            refuse_races(version)
            result = check(version)
        except TVMagicError as error:
            blame(record, error)
            return _refused(error, op.attempt)
        version.record = record
        op.add_version(version)
        verdict = Verdict([Row(_LEGAL, "yes", "yes", True), Row(_EQUAL, "yes", result.word, result.ok is True)])
        verdict.fault = None if result.ok else VALUES
        self.counted(verdict, version)
        return verdict


class ProgramPuzzle(_Counted):
    """An answer is a program, as the text of a `%%tensor` cell, with the inputs of the operator and the same results."""

    def grade(self, answer: str, namespace: Mapping[str, Any]) -> Verdict:
        """Compile the answer, compare it with the operator, count what it does."""
        op = self.operator()
        try:
            written = operator_from_cell(self.source(answer), self.operator_name, {**namespace, **self.names})
            version = written.version("plain")
            refuse_races(version)
            result = self._compared(op, written)
        except TVMagicError as error:
            return _refused(error)
        verdict = Verdict([Row(_LEGAL, "yes", "yes", True), Row(_EQUAL, "yes", result.word, result.ok is True)])
        verdict.fault = None if result.ok else VALUES
        self.counted(verdict, version)
        return verdict

    def _compared(self, op: Operator, written: Operator) -> CheckResult:
        inputs = op.random_inputs()
        got = written(**{tensor.name: array for tensor, array in zip(op.inputs, inputs)})
        return compare(as_list(got), expected_values(op, inputs), [t.name for t in op.outputs])
