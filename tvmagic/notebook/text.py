"""The text of a program: its lines, its language, and the places of the cell each line is from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvmagic.ir import Node, Stmt

__all__ = ["LineOrigins", "Program", "language_of", "node_program", "program_of"]

LineOrigins = tuple[tuple[str, int], ...]


@dataclass
class Program:
    """Lines of text in a language (`tvmscript`, `classic`, `llvm`, `asm`, `python`, `text`).

    `origins[i]` are the places (source, line) that line i comes from; empty where nothing is known.
    A text made of another program (`made_of`) names for each line that program's line, from 1; 0 for none.
    """

    lines: list[str]
    language: str = "tvmscript"
    origins: list[LineOrigins] = field(default_factory=list)
    made_of: Any = None
    made_of_lines: tuple[int, ...] = ()


def program_of(value: Any) -> Program:
    """The text of whatever a step holds: an IR node, a schedule, a built module, or a text."""
    if isinstance(value, Program):
        return value
    if isinstance(value, str):
        if (lines := getattr(value, "line_of", None)) is not None:
            return Program(value.splitlines(), "llvm", made_of=getattr(value, "source"), made_of_lines=lines)
        return Program(value.rstrip("\n").split("\n"), language_of(value))
    if isinstance(value, Node):
        return node_program(value)
    if hasattr(value, "line_of") and hasattr(value, "assembly"):
        return Program(list(value.assembly), "asm", made_of=value.source, made_of_lines=tuple(value.line_of))
    if hasattr(value, "mod") and isinstance(value.mod, Node):
        return node_program(value.mod)
    from tvmagic.notebook.schedules import is_te_schedule, schedule_program

    if is_te_schedule(value):
        return schedule_program(value)
    return Program(str(value).rstrip("\n").split("\n"), "text")


def node_program(node: Node) -> Program:
    """The TVMScript of a node; each line with the places of the statements that begin on it."""
    from tvmagic.script import script_with_spans

    text, spans = script_with_spans(node)
    lines = text.rstrip("\n").split("\n")
    found: list[dict[tuple[str, int], None]] = [{} for _ in lines]
    expressions: list[dict[tuple[str, int], None]] = [{} for _ in lines]
    for place in spans.places:
        origin = getattr(place.node, "span", None)
        number = place.span.line - 1
        if origin is not None and number < len(lines):
            target = found if isinstance(place.node, Stmt) else expressions
            target[number][origin.source, origin.line] = None
    origins = [tuple(statement or inner) for statement, inner in zip(found, expressions)]
    return Program(lines, "tvmscript", origins)


_MARKS = (
    ("llvm", ("; ModuleID", "target triple", "source_filename =")),
    ("asm", ("\t.text", "\t.globl", "\t.file", "\t.section", ".functype", ".visible")),
    ("classic", ("realize ", "produce ", "// attr [", "for (")),
)


def language_of(text: str) -> str:
    """The language of a text that a step holds; TVMScript where nothing says otherwise."""
    head = text.lstrip()[:4000]
    for language, marks in _MARKS:
        if any(mark in head for mark in marks):
            return language
    return "tvmscript"
