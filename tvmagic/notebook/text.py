"""The text of a program: its lines, its language, and the places of the cell each line is from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, Node, PrimFunc, Stmt
from tvmagic.ir.origins import own_origins
from tvmagic.ir.schedulable import notation_of

LineOrigins = tuple[tuple[str, int], ...]


@dataclass
class Program:
    """Lines of text in a language (`tvmscript`, `classic`, `llvm`, `asm`, `python`, `text`).

    `origins[i]` are the places (source, line) that line i comes from; empty if nothing is known. `numbers[i]` are the
    origins (`Span.origin`) of the statements and loads on it.
    A text made of another program (`made_of`) names for each line that program's line, from 1; 0 for none.
    `instead` says why it is in TVMScript, if another notation was asked for.
    """

    lines: list[str]
    language: str = "tvmscript"
    origins: list[LineOrigins] = field(default_factory=list)
    numbers: list[tuple[int, ...]] = field(default_factory=list)
    made_of: Any = None
    made_of_lines: tuple[int, ...] = ()
    instead: str = ""


def node_program(node: Node, notation: str | None = None, whole: bool = False) -> Program:
    """The text of a node; each line with the places of the statements that begin on it.

    A program that `notation` has no text for is written in TVMScript, and `instead` says why; `whole`: also one of which
    `notation` would leave something out.
    """
    if notation is None:
        notation = notation_of(node)
    if notation == "tvmscript" or not isinstance(node, (Stmt, PrimFunc, IRModule)):
        return _script_program(node)
    try:
        missing = _left_out(node) if whole and notation == "cinn" else ""
        return _script_program(node, missing) if missing else _braces_program(node, notation)
    except TVMagicError as error:
        return _script_program(node, error.message)


def _left_out(node: Stmt | PrimFunc | IRModule) -> str:
    from tvmagic.cinn.text.unprintable import left_out

    missing = left_out(node)
    return f"CINN's text does not say {missing}" if missing else ""


def _script_program(node: Node, instead: str = "") -> Program:
    """The text of a node in TVMScript."""
    from tvmagic.script import script_with_spans

    text, spans = script_with_spans(node)
    lines = text.rstrip("\n").split("\n")
    found: list[dict[tuple[str, int], None]] = [{} for _ in lines]
    expressions: list[dict[tuple[str, int], None]] = [{} for _ in lines]
    numbers: list[dict[int, None]] = [{} for _ in lines]
    for place in spans.places:
        origin = getattr(place.node, "span", None)
        number = place.span.line - 1
        if origin is not None and origin.origin and number < len(lines) and place.node.HAS_ORIGIN:
            numbers[number][origin.origin] = None
        if origin and number < len(lines):
            target = found if isinstance(place.node, Stmt) else expressions
            target[number][origin.source, origin.line] = None
    origins = [tuple(statement or inner) for statement, inner in zip(found, expressions)]
    return Program(lines, "tvmscript", origins, [tuple(line) for line in numbers], instead=instead)


def _braces_program(node: Stmt | PrimFunc | IRModule, notation: str) -> Program:
    """The text of a program in the classic notation or in CINN's."""
    if notation == "classic":
        from tvmagic.script.printer.classic_text import classic_with_nodes

        lines, nodes = classic_with_nodes(node)
    else:
        from tvmagic.cinn.text.printer import cinn_with_nodes

        lines, nodes = cinn_with_nodes(node)
    begun = [None if line.strip() == "}" else n for line, n in zip(lines, nodes)]
    spans = [getattr(n, "span", None) for n in begun]
    numbers = [own_origins(n) if isinstance(n, Node) else () for n in begun]
    return Program(lines, "classic", [((s.source, s.line),) if s else () for s in spans], numbers)


_MARKS = (
    ("python", ("Graph: ",)),  # of Ascend
    ("opencl", ("__kernel void ",)),
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
