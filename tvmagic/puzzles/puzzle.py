"""What all puzzles have: a task, a solution, wrong answers with their faults, and the verdict on an answer."""

from __future__ import annotations

import operator as compare
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.operators import Operator

# Faults that are not goals: a call was refused (or the answer cannot be read), or a value differs from NumPy's.
REFUSED, VALUES = "refused", "values"

_RELATIONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "<=": ("at most", compare.le),
    ">=": ("at least", compare.ge),
    "==": ("exactly", compare.eq),
}
_GOAL = re.compile(r"\s*(\w+)\s*(<=|>=|==)\s*([\d_.]+)\s*")


def number_text(value: Any) -> str:
    """A number as people read it: `65,536`; other values as Python writes them."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return repr(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


@dataclass(frozen=True)
class Goal:
    """A bound on a number that is counted of an answer, by its text: `loaded <= 65536`."""

    text: str
    fact: str
    relation: str
    bound: float

    @staticmethod
    def parse(text: str, known: Iterable[str]) -> Goal:
        """The goal that `text` describes; its fact is one of `known`.

        Raises `TVMagicError` if the text is not `FACT <= NUMBER` (or `>=`, `==`), or nobody counts the fact.
        """
        match, names = _GOAL.fullmatch(text), list(known)
        if match is None:
            raise TVMagicError(
                f"the goal `{text}` of a puzzle cannot be read",
                hint="write it as `loaded <= 65536`",
                code="puzzle.goal_not_readable",
            )
        fact, relation, bound = match.groups()
        if fact not in names:
            hint = did_you_mean(fact, names) or f"there are {', '.join(names)}"
            raise TVMagicError(
                f"nobody counts `{fact}`, which the goal `{text}` of a puzzle names",
                hint=hint,
                code="puzzle.unknown_metric",
            )
        return Goal(text, fact, relation, float(bound) if "." in bound else int(bound))

    def holds(self, value: Any) -> bool:
        """Whether a value reaches the goal."""
        return _RELATIONS[self.relation][1](value, self.bound)

    @property
    def wanted(self) -> str:
        """The bound in words: `at most 65,536`."""
        return f"{_RELATIONS[self.relation][0]} {number_text(self.bound)}"


class Row(NamedTuple):
    """One thing that was looked at: what, what is wanted, what the answer has, and whether that is right."""

    what: str
    wanted: str
    got: str
    right: bool


@dataclass
class Verdict:
    """What an answer reaches.

    Attributes
    ----------
    rows: what was looked at, in the order in which it was.
    fault: the first thing that is wrong: `refused`, `values`, a goal's text or the name of an answer; None if nothing is.
    hint: the puzzle's hint for that fault; empty for an answer that is solved or not begun.
    error: why a call was refused, if one was.
    version: the schedule of an answer that is one, to step through; None of others.
    program: the text of what the answer becomes, if it becomes a program.
    begun: whether the answer is another one than the cell that the puzzle starts with.
    """

    rows: list[Row] = field(default_factory=list)
    fault: str | None = None
    hint: str = ""
    error: TVMagicError | None = None
    version: Any = None
    program: str = ""
    begun: bool = True

    @property
    def solved(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault is None


@dataclass(frozen=True, kw_only=True)
class Puzzle:
    """A task that grades itself; a subclass says what an answer is.

    Attributes
    ----------
    title, task: what it is called, and what is to be done; what is between backquotes is code, an empty line ends a
        paragraph.
    start: the cell that one starts with.
    solution: an answer that reaches all goals.
    hints: for each fault (`refused`, `values`, the text of a goal, or the name of an answer) the hint that fits it; three
        at least, the gentlest first.
    wrong: wrong answers that people give, each with the fault that is found in it; three at least.
    number, name: its place among the others, and what its progress is kept under; from the name of its file.
    address: what `%puzzle` is given to find it: the number, or the file of one that is not the package's.
    """

    title: str
    task: str
    start: str = ""
    solution: str
    hints: Mapping[str, str]
    wrong: Sequence[tuple[str, str]]
    number: int = 0
    name: str = ""
    address: str = ""

    @property
    def faults(self) -> list[str]:
        """The faults that an answer can have."""
        return [REFUSED, VALUES]

    def operator(self) -> Operator | None:
        """The operator that the task is about; None if it is about none."""
        return None

    def shown(self) -> str:
        """The program that the task is about, as text; empty if there is none."""
        return ""

    def wanted(self) -> list[tuple[str, str]]:
        """What an answer has to reach: what, and how much."""
        raise NotImplementedError

    def grade(self, answer: str, namespace: Mapping[str, Any]) -> Verdict:
        """The verdict on an answer, without hint."""
        raise NotImplementedError

    def judge(self, answer: str, namespace: Mapping[str, Any] | None = None) -> Verdict:
        """The verdict on an answer, with the hint that fits its first fault.

        `namespace` has the names that the answer may use besides those of the puzzle.
        """
        verdict = self.grade(answer, namespace or {})
        verdict.begun = code_of(answer) != code_of(self.start)
        if verdict.fault is not None and verdict.begun:
            verdict.hint = self.hints.get(verdict.fault) or self.general_hint(verdict.fault)
        return verdict

    def general_hint(self, fault: str) -> str:
        """The hint for a fault that the puzzle has none of its own for; empty if there is nothing to say."""
        return ""


def code_of(cell: str) -> list[str]:
    """The lines of a cell without comments and blanks."""
    lines = [line.split("#")[0].rstrip() for line in cell.splitlines()]
    return [line for line in lines if line]
