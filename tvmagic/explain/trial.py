"""Trying a call before it is proposed: the version's cell with the call, scheduled, lowered, modelled."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tvmagic.codegen import last_program
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule
from tvmagic.model.program_model import ProgramModel, model
from tvmagic.notation.source import Source
from tvmagic.operators import Version
from tvmagic.operators.races import refuse_races
from tvmagic.operators.scheduling import schedule_from_cell
from tvmagic.target import Target


@dataclass(frozen=True)
class Edit:
    """A change of a cell: `text` at its end or, with `line`, in the place of that line (from 1, the magic's line is 1)."""

    text: str
    line: int = 0
    span: int = 1  # how many lines it replaces


class Trial(NamedTuple):
    """A changed version, its last program for the target, and the model of that."""

    version: Version
    mod: IRModule
    model: ProgramModel


class Trials:
    """Changes of a version's cell, tried: so many at most, none begun after so many seconds."""

    def __init__(self, version: Version, target: Target, sizes: int, most: int, seconds: float) -> None:
        self.version, self.target, self.sizes, self.left = version, target, sizes, most
        self.end = time.monotonic() + seconds
        self.cell = _cell_of(version)
        self.known: dict[Edit, Trial | None] = {}

    def text(self, edit: Edit) -> str | None:
        """The cell with a change in it; None if the version has no cell."""
        if self.cell is None:
            return None
        lines = self.cell.split("\n")
        if edit.line:
            lines[edit.line - 1 : edit.line - 1 + edit.span] = [edit.text]
            return "\n".join(lines)
        return "\n".join([*lines, edit.text]) if self.cell.strip() else edit.text

    def whole(self, calls: str) -> Edit:
        """Calls in the place of all that the cell has."""
        lines = (self.cell or "").split("\n")
        return Edit(calls, 2, len(lines) - 1) if any(line.strip() for line in lines[1:]) else Edit(calls)

    def run(self, edit: Edit) -> Trial | None:
        """The changed version with its model; None if the change is refused or may not be tried any more."""
        if edit not in self.known:
            if self.left <= 0 or time.monotonic() > self.end:
                self.left = min(self.left, -1)
                return None
            self.left -= 1
            self.known[edit] = self._run(edit)
        return self.known[edit]

    def _run(self, edit: Edit) -> Trial | None:
        text = self.text(edit)
        if text is None:
            return None
        try:
            made = tried(self.version, text)
            mod = last_program(made.lower(), self.target)
            found = model(next(iter(mod.functions.values())), self.target.machine, self.sizes)
            nested = any(sum(x.parallel for x in n.nest.loops) > 1 for n in found.nests)
            return None if nested else Trial(made, mod, found)
        except TVMagicError:
            return None

    def accepted(self, edit: Edit) -> bool:
        """Whether a change that ran is free of races, as a cell has to be."""
        found = self.known.get(edit)
        if found is None:
            return False
        try:
            refuse_races(found.version)
        except TVMagicError:
            return False
        return True


def tried(version: Version, cell: str) -> Version:
    """A version's operator scheduled by another cell, the magic's line first, without a trace of it in the operator."""
    op = version.operator
    attempt = op.attempt
    try:
        return schedule_from_cell(op, Source(f"schedule {op.name} (tried)", cell), "tried", version.scope)
    finally:
        op.attempt = attempt


def _cell_of(version: Version) -> str | None:
    """The text of a version's cell with its magic's line; None if it was made without one."""
    if version.source is not None:
        return version.source.text
    return f"%%schedule {version.operator.name}" if version.schedule is None else None


@dataclass(frozen=True)
class Number:
    """A size in a `split` or `tile` call of a cell: its value, the lines of its statement, and the text around it there."""

    value: int
    line: int
    lines: int
    before: str
    after: str

    def edit(self, value: int) -> Edit:
        """The cell with another size."""
        return Edit(f"{self.before}{value}{self.after}", self.line, self.lines)


def numbers_in(version: Version) -> Iterator[Number]:
    """The sizes in the `split` and `tile` calls of a version's cell."""
    if version.source is None:
        return
    lines = version.source.lines
    try:
        tree = ast.parse("\n".join(["", *lines[1:]]))
    except SyntaxError:
        return
    for statement in tree.body:
        calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        for call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in ("split", "tile"):
                yield from _numbers(lines, statement, call)


def _numbers(lines: list[str], statement: ast.stmt, call: ast.Call) -> Iterator[Number]:
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    for argument in (*call.args, *(k.value for k in call.keywords)):
        for value in ast.walk(argument):
            if isinstance(value, ast.Constant) and type(value.value) is int and value.value > 1:
                text = lines[value.lineno - 1].encode()
                end = value.end_col_offset or value.col_offset + 1
                before = [*lines[first - 1 : value.lineno - 1], text[: value.col_offset].decode()]
                after = [text[end:].decode(), *lines[value.lineno : last]]
                yield Number(value.value, first, last - first + 1, "\n".join(before), "\n".join(after))


def _calls(version: Version) -> Iterator[tuple[ast.stmt, ast.Call, str]]:
    """The statements of a version's cell that are one call, each with the cell's text in which the places of both are."""
    if version.source is None:
        return
    text = "\n".join(["", *version.source.lines[1:]])
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield statement, statement.value, text


def _line_range(statement: ast.stmt) -> tuple[int, int]:
    """The first line of a statement, and how many it has."""
    return statement.lineno, (statement.end_lineno or statement.lineno) - statement.lineno + 1


def inlinings(version: Version) -> list[tuple[Edit, str]]:
    """Each `compute_inline` of the cell left out, with the text of the block that `sch.compute_inline(block)` names."""
    return [
        (Edit(f"pass  # without {ast.unparse(call)}", *_line_range(statement)), "".join(map(ast.unparse, call.args)))
        for statement, call, _ in _calls(version)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "compute_inline"
    ]


def parallel_calls(version: Version) -> dict[str, tuple[int, int]]:
    """The lines of the cell's calls of `parallel`, by the text of the stage, or of the loop in `sch.parallel(loop)`, and how many lines
    each has."""
    found: dict[str, tuple[int, int]] = {}
    for statement, call, _ in _calls(version):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "parallel":
            stage = ast.unparse(call.func.value)
            found["".join(map(ast.unparse, call.args)) if stage == "sch" else stage] = _line_range(statement)
    return found


def attachments(version: Version) -> list[tuple[Edit, str]]:
    """Each `sch.compute_at(block, loop)` of the cell moved outside parts of the loop, with the text of the block."""
    found: list[tuple[Edit, str]] = []
    for statement, call, text in _calls(version):
        if ast.unparse(call.func) != "sch.compute_at" or len(call.args) != 2:
            continue
        block, loop = (ast.get_source_segment(text, a) or ast.unparse(a) for a in call.args)
        name = loop if loop.isidentifier() else "loop"
        for size in (16, 64):
            calls = f"{name}_o, {name}_i = sch.split({loop}, [None, {size}])\nsch.compute_at({block}, {name}_o)"
            found.append((Edit(calls, *_line_range(statement)), block))
    return found
