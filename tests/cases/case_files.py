"""Read case files: plain text that a person edits by hand.

A file is a description (lines with `#`) and sections. A section is a header `--- NAME` or `--- NAME: DETAIL`, and its text:

    # A reduction loop cannot run in parallel.
    --- function
    def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
        ...
    --- accepted
    sch.parallel(loops("C")[0])
    --- refused: ScheduleError at loop j
    sch.parallel(loops("C")[1])

The first section is the program. Its name says how it is read:

    function   one TVMScript function; calls use `sch`, `block(NAME)` and `loops(NAME)`
    tensors    Python with `te` that ends with a schedule `s` and its arguments `args`
    cell       tensor notation

The others say what happens to it:

    accepted                     each line, a call on the program, is done and preserves the program's results
    refused: CLASS at PLACE      each line is refused with an error of this class about this place; a cell needs no lines
    steps: DESCRIPTION           the lines are done in order on one schedule, and preserve the program's results
    refused steps: CLASS at PLACE  the lines are done in order, and the last of them is refused
    cinn steps, refused cinn steps  the same on an IRSchedule
    pass: NAME(ARGUMENTS) {CONFIG}  a pass, with its arguments if it has any and options in a PassContext; what follows is
                                 another pass on its result, or the result
    becomes                      the text of the program after the pass, or after the steps above
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

PLACE = pathlib.Path(__file__).parent
LONGEST = 60  # lines of a case


@dataclass(frozen=True)
class Section:
    """A section of a case: the header's name and detail, and the lines below it."""

    name: str
    detail: str
    text: str

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@dataclass(frozen=True)
class Case:
    """A case file: its description, the program and the expectations."""

    title: str
    program: Section
    expected: list[Section]


def read(path: pathlib.Path) -> Case:
    """Parse a case file."""
    title, *parts = ("\n" + path.read_text(encoding="utf-8")).split("\n--- ")
    sections = []
    for part in parts:
        header, _, text = part.partition("\n")
        name, _, detail = header.partition(": ")
        sections.append(Section(name.strip(), detail.strip(), text.strip("\n")))
    return Case(title.replace("\n#", "").strip(), sections[0], sections[1:])


def where(error: Any) -> str:
    """Return an error's class and its place: a line and column of a cell, or a named part of a program."""
    kind = type(error).__name__
    node = getattr(error.node, "block", error.node)
    part = {"Block": "block", "For": "loop", "Buffer": "buffer", "Var": "variable"}.get(type(node).__name__)
    name = getattr(node, "name_hint", None) or getattr(node, "name", None) or getattr(node, "loop_var", None)
    if part and name is not None:
        return f"{kind} at {part} {name}"
    if error.span is not None:
        return f"{kind} at {error.span.line}:{error.span.column}"
    return kind
