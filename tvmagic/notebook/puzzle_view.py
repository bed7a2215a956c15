"""Puzzles in the notebook: the task with its folded hints and solution, the verdict on an answer, and how far one is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.notebook.colour import html_line
from tvmagic.notebook.errors import error_lines
from tvmagic.notebook.html import escape, frame, sentence, table
from tvmagic.notebook.results import Listing, Shown, Table
from tvmagic.notebook.terminal import text_table
from tvmagic.operators import Operator
from tvmagic.puzzles import Progress, Puzzle, Verdict, load, puzzle, puzzles

_YES, _NO = "✓", "✗"
_told: dict[str, int] = {}  # how many hints of a puzzle were shown in this session


def puzzle_of(text: str) -> Puzzle:
    """The puzzle of a number, or of a file.

    Raises `TVMagicError` if there is none.
    """
    return puzzle(int(text)) if text.isdecimal() else load(text)


def progress_line(progress: Progress) -> str:
    """How many of the package's puzzles are solved, as a bar and in words."""
    solved, all_of_them = progress.solved(), puzzles()
    marks = "".join("■" if subject.name in solved else "□" for subject in all_of_them)
    count = sum(subject.name in solved for subject in all_of_them)
    kept = "" if progress.kept else f" (for this session alone: {progress.path} cannot be written)"
    return f"{marks} {count} of {len(all_of_them)} puzzles solved{kept}"


def overview(forget: bool = False) -> Table:
    """All puzzles, and which of them are solved; `forget` makes that none."""
    progress = Progress()
    if forget:
        progress.forget()
    solved = progress.solved()
    rows = [[p.number, p.title, _state(solved.get(p.name), progress.tries(p.name))] for p in puzzles()]
    notes = [progress_line(progress), "%puzzle 1 shows the first task; %%puzzle 1 judges the answer in the cell."]
    return Table(["puzzle", "title", "solved"], rows, "Puzzles", notes)


def _state(solved: int | None, tries: int) -> str:
    if solved is not None:
        return "at the first answer" if solved == 1 else f"at answer {solved}"
    return f"not yet, {tries} tried" if tries else ""


def program_html(text: str) -> str:
    """A program or a cell as lines with colours."""
    lines = text.rstrip("\n").split("\n")
    rows = "".join(f'<span class="tm-row">{html_line(line, "tvmscript")}\n</span>' for line in lines)
    return f'<div class="tm-scroll" tabindex="0" role="group" aria-label="Program"><pre>{rows}</pre></div>'


def folded(summary: str, body: str) -> str:
    """A part that unfolds."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each in one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]


class Task(Shown):
    """A puzzle as it is set: hints and solution are folded in a notebook, and left out in a terminal."""

    def __init__(self, subject: Puzzle) -> None:
        self.subject = subject
        self.title = f"Puzzle {subject.address}: {subject.title}"
        self.solved = subject.name in Progress().solved()

    def html(self, styled: bool = True) -> str:
        subject = self.subject
        head = f'<div class="tm-title">{escape(self.title)}{" " + _YES if self.solved else ""}</div>'
        task = "".join(f"<p>{sentence(part)}</p>" for part in paragraphs(subject.task))
        shown = program_html(subject.shown()) if subject.shown() else ""
        goals = table(["checked", "wanted"], subject.wanted())
        hints = "".join(
            folded(f"Hint {number}", f"<p>{sentence(text)}</p>")
            for number, text in enumerate(subject.hints.values(), start=1)
        )
        answer = folded("Solution", program_html(answer_cell(subject, subject.solution)))
        return frame(head + task + shown + goals + hints + answer, self.title, styled)

    def text(self, colour: bool | None = None) -> str:
        subject = self.subject
        shown = ["", *("    " + line for line in subject.shown().split("\n")), ""] if subject.shown() else [""]
        return "\n".join(
            [
                self.title + (f" {_YES}" if self.solved else ""),
                *paragraphs(subject.task),
                *shown,
                text_table(["checked", "wanted"], subject.wanted()),
                "",
                f"Answer in a cell that begins with %%puzzle {self.subject.address}; %puzzle {self.subject.address} --hint helps, and --solution tells.",
            ]
        )


class Judged(Shown):
    """The verdict on an answer: what was looked at, the hint that fits, and how far one is."""

    def __init__(self, subject: Puzzle, verdict: Verdict, progress: Progress) -> None:
        self.subject, self.verdict = subject, verdict
        self.title = f"Puzzle {self.subject.address}: {self._word()}"
        self.line = progress_line(progress)

    @property
    def operator(self) -> Operator | None:
        """The operator with the answer as its last schedule, to step through; None if the answer is not one."""
        version = self.verdict.version
        return version.operator if version is not None and self.verdict.error is None else None

    def _word(self) -> str:
        if self.verdict.solved:
            return f"{_YES} solved"
        return "not solved yet" if self.verdict.begun else "waits for your answer"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        rows = self.verdict.rows if self.verdict.error is None else []
        return [(_YES if row.right else _NO, row.what, row.wanted, row.got) for row in rows]

    def _notes(self) -> list[str]:
        notes = [f"Hint: {self.verdict.hint}"] if self.verdict.hint else []
        if self.operator is not None:
            notes.append(f"`%passes {self.operator.name}` steps through it.")
        return notes

    def _error(self) -> list[str]:
        error = self.verdict.error
        return error_lines(error, colour=False) if error is not None and self.verdict.begun else []

    def html(self, styled: bool = True) -> str:
        head = f'<div class="tm-title">{escape(self.title)}</div>'
        error = f"<pre>{escape(chr(10).join(self._error()))}</pre>" if self._error() else ""
        rows = table(["", "checked", "wanted", "yours"], self._rows()) if self._rows() else ""
        notes = "".join(f"<p>{sentence(note)}</p>" for note in self._notes())
        program = (
            folded("The program of this answer", program_html(self.verdict.program)) if self.verdict.program else ""
        )
        progress = f'<div class="tm-meta">{escape(self.line)}</div>'
        return frame(head + error + rows + notes + program + progress, self.title, styled)

    def text(self, colour: bool | None = None) -> str:
        rows = [text_table(["", "checked", "wanted", "yours"], self._rows())] if self._rows() else []
        return "\n".join([self.title, *self._error(), *rows, *self._notes(), self.line])


def judged(subject: Puzzle, answer: str, namespace: Mapping[str, Any]) -> Judged:
    """Judge an answer and keep that it was tried; the cell that one starts with does not count."""
    verdict, progress = subject.judge(answer, namespace), Progress()
    if verdict.begun:
        progress.tried(subject.name, verdict.solved)
    return Judged(subject, verdict, progress)


def hint(subject: Puzzle, number: int = 0) -> Table:
    """A hint of a puzzle: that of a number from 1 on; for 0 the next one that was not shown in this session."""
    hints = list(subject.hints.values())
    chosen = number or min(_told.get(subject.name, 0) + 1, len(hints))
    if chosen > len(hints):
        raise TVMagicError(
            f"puzzle {subject.address} has no hint {chosen}", hint=f"it has {len(hints)}", code="puzzle.unknown_hint"
        )
    _told[subject.name] = chosen
    return Table([], [], f"Hint {chosen} of {len(hints)} for puzzle {subject.address}", [hints[chosen - 1]])


def answer_cell(subject: Puzzle, answer: str) -> str:
    """An answer as a cell."""
    return f"%%puzzle {subject.address}\n{answer.strip()}\n"


def solution(subject: Puzzle) -> Listing:
    """The solution as a cell."""
    return Listing(answer_cell(subject, subject.solution), "tvmscript", f"Puzzle {subject.address}: a solution")
