"""Puzzles whose answer are numbers or words under names, such as ranges that one predicts before InferBound finds them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.notation.source import Source
from tvmagic.operators.cell import parse
from tvmagic.puzzles.puzzle import REFUSED, Goal, Puzzle, Row, Verdict, number_text

OPEN = "unanswered"  # the fault of a name whose value is still `...`


@dataclass(frozen=True, kw_only=True)
class _Asked(Puzzle):
    """A puzzle that asks for values.

    Attributes
    ----------
    asks: the names to give values to, each with what it is.
    program: what is asked about, as text.
    """

    asks: Mapping[str, str]
    program: str = ""

    def shown(self) -> str:
        """What is asked about."""
        return self.program.strip("\n")

    @property
    def cell(self) -> str:
        """The cell that one starts with if the puzzle names none: every name with `...`."""
        return "\n".join(f"{name} = ...  # {what}" for name, what in self.asks.items())

    def __post_init__(self) -> None:
        if not self.start:
            object.__setattr__(self, "start", self.cell)

    def values(self, answer: str) -> dict[str, Any]:
        """The values that an answer gives, by name; names that it does not give, or gives as `...` or None, are left out.

        Raises `TVMagicError` for what is not `NAME = VALUE` with one of the names, and a value that is written out or calculated from numbers.
        """
        source = Source(f"puzzle {self.address}", f"%%puzzle {self.address}\n{answer}").remember()
        found: dict[str, Any] = {}
        for statement in parse(source).body:
            name, value = self._assigned(statement, source)
            if value is not ... and value is not None:
                found[name] = value
        return found

    def _assigned(self, statement: ast.stmt, source: Source) -> tuple[str, Any]:
        span = source.span(statement)
        if not isinstance(statement, ast.Assign) or [type(t) for t in statement.targets] != [ast.Name]:
            raise TVMagicError(
                "an answer of this puzzle is `NAME = VALUE`",
                span=span,
                hint=f"write {self._form}",
                code="puzzle.not_an_assignment",
            )
        (target,) = statement.targets
        assert isinstance(target, ast.Name)
        name = target.id
        if name not in self.asks:
            hint = did_you_mean(name, self.asks) or f"it asks for {', '.join(f'`{n}`' for n in self.asks)}"
            raise TVMagicError(
                f"this puzzle does not ask for `{name}`", span=span, hint=hint, code="puzzle.unknown_answer"
            )
        try:
            return name, _value(statement.value)
        except (ValueError, TypeError, ArithmeticError, SyntaxError, RecursionError, MemoryError):
            raise TVMagicError(
                f"the value of `{name}` is a number in this puzzle, a calculation such as `16 + 2`, or a text",
                span=span,
                hint=f"write {self._form}",
                code="puzzle.wrong_value",
            ) from None

    @property
    def _form(self) -> str:
        return ", ".join(f"`{name} = ...`" for name in self.asks) + " with a value for each `...`"

    def general_hint(self, fault: str) -> str:
        """That a value is missing."""
        return "Write a value for each `...`." if fault == OPEN else ""

    def unanswered(self, values: Mapping[str, Any]) -> list[Row]:
        """A row for each name without a value."""
        return [Row(what, "an answer", "...", False) for name, what in self.asks.items() if name not in values]


_CALCULATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Div: lambda a, b: a // b if a % b == 0 else a / b,  # 960 / 24 is a whole number
}  # fmt: skip


def _value(node: ast.expr) -> Any:
    """A value that is written out, or calculated from numbers. Raises ValueError for anything else."""
    if isinstance(node, ast.BinOp) and type(node.op) in _CALCULATIONS:
        a, b = _value(node.left), _value(node.right)
        if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
            raise ValueError("this is calculated from numbers alone")
        return _CALCULATIONS[type(node.op)](a, b)
    return ast.literal_eval(node)


def _is_equal(given: Any, truth: Any) -> bool:
    """Whether two answers are equal: 8.0 is 8, but `True` is not 1."""
    if type(given) is not type(truth) and {type(given), type(truth)} != {int, float}:
        return False
    return given == truth


def _refused(error: TVMagicError) -> Verdict:
    return Verdict([Row("the answer can be read", "yes", error.message, False)], REFUSED, error=error)


@dataclass(frozen=True, kw_only=True)
class PredictionPuzzle(_Asked):
    """The answer is what the compiler finds itself: `truth()` computes it, by the names in `asks`. Values may be given one by one."""

    truth: Callable[[], Mapping[str, Any]]

    @property
    def faults(self) -> list[str]:
        """The faults that an answer can have."""
        return [REFUSED, OPEN, *self.asks]

    def wanted(self) -> list[tuple[str, str]]:
        """What is asked; how much is not told."""
        return [(what, "your prediction") for what in self.asks.values()]

    def grade(self, answer: str, namespace: Mapping[str, Any]) -> Verdict:
        """Compare each value with the truth; a wrong row does not tell what is right."""
        try:
            values = self.values(answer)
        except TVMagicError as error:
            return _refused(error)
        if not values:
            return Verdict(self.unanswered(values), OPEN)
        verdict, truth = Verdict(), self.truth()
        for name, what in self.asks.items():
            if name not in values:
                continue
            right = _is_equal(values[name], truth[name])
            verdict.rows.append(Row(what, "what the compiler finds", number_text(values[name]), right))
            if not right and verdict.fault is None:
                verdict.fault = name
        if missing := self.unanswered(values):
            verdict.rows += missing
            verdict.fault = verdict.fault or OPEN
        return verdict


@dataclass(frozen=True, kw_only=True)
class AnswersPuzzle(_Asked):
    """Any values do that reach the goals.

    Attributes
    ----------
    facts: what is counted, each with its description.
    count: the facts of the values in an answer; raises `TVMagicError` if they are not legal.
    goals: bounds on the facts, such as `bytes <= 65536`.
    """

    facts: Mapping[str, str]
    count: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    goals: Sequence[str]

    @property
    def faults(self) -> list[str]:
        """The faults that an answer can have."""
        return [REFUSED, OPEN, *self.goals]

    @property
    def bounds(self) -> list[Goal]:
        """The goals, read."""
        return [Goal.parse(text, self.facts) for text in self.goals]

    def wanted(self) -> list[tuple[str, str]]:
        """The goals in words."""
        return [(self.facts[goal.fact], goal.wanted) for goal in self.bounds]

    def grade(self, answer: str, namespace: Mapping[str, Any]) -> Verdict:
        """Count what the values make, and compare it with the goals."""
        try:
            values = self.values(answer)
            if missing := self.unanswered(values):
                return Verdict(missing, OPEN)
            counted = self.count(values)
        except TVMagicError as error:
            return _refused(error)
        verdict = Verdict()
        for goal in self.bounds:
            right = goal.holds(counted[goal.fact])
            verdict.rows.append(Row(self.facts[goal.fact], goal.wanted, number_text(counted[goal.fact]), right))
            if not right and verdict.fault is None:
                verdict.fault = goal.text
        return verdict
