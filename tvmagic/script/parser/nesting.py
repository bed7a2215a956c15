"""Texts whose brackets are nested deeper than Python's parser follows.

Python refuses more than 200 brackets inside each other. Where a text has more, what stands deep
inside is cut out, a name is in its place, and the piece is parsed on its own. Every place in
the text stays where it was, so that spans and errors are right.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

_DEPTH = 90  # brackets in one piece
_SHORTEST = 10  # characters of what is cut out; a shorter text holds no deep nest
_TOKEN = re.compile(
    r"""[rbuf]{0,2}(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^\\'\n]|\\.)*'|"(?:[^\\"\n]|\\.)*")"""
    r"""|\#[^\n]*|[()\[\]{}]""",
    re.S | re.I,
)
_NAME_BEFORE = re.compile(r"[\w.]+\Z")


class _Piece(NamedTuple):
    """An expression of the text: where it begins and ends."""

    start: int
    end: int


def parse_nested(text: str) -> tuple[ast.Module, dict[str, ast.expr]]:
    """The tree of `text`, and the expressions that names stand for in it."""
    cuts = _cuts(text)
    pieces: dict[str, ast.expr] = {}
    prefix = next(p for p in ("_p", "_q", "_v", "_x", "_z", "_piece") if p not in text or p == "_piece")
    names = {start: f"{prefix}{index:x}" for index, start in enumerate(cuts)}
    line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
    for start, end in cuts.items():
        inner = _replaced(text, _Piece(start, end), cuts, names)
        line = _line_of(line_starts, start)
        column = len(text[line_starts[line] : start].encode())
        try:
            tree = ast.parse(f"({inner})", mode="eval")
        except SyntaxError as error:
            raise _moved_error(error, line, start - line_starts[line]) from None
        for node in ast.walk(tree):
            _move(node, line, column)
        pieces[names[start]] = tree.body
    return ast.parse(_replaced(text, _Piece(0, len(text)), cuts, names)), pieces


def _move(node: ast.AST, line: int, column: int) -> None:
    """Place a node of a piece, which was parsed inside one bracket at its place in the text."""
    if not hasattr(node, "lineno"):
        return
    for row, place in (("lineno", "col_offset"), ("end_lineno", "end_col_offset")):
        if getattr(node, row) == 1:
            setattr(node, place, getattr(node, place) - 1 + column)
        setattr(node, row, getattr(node, row) + line)


def _moved_error(error: SyntaxError, line: int, column: int) -> SyntaxError:
    """The error in a piece at its place in the text."""
    for row, place in (("lineno", "offset"), ("end_lineno", "end_offset")):
        number, offset = getattr(error, row), getattr(error, place)
        if number == 1 and offset:
            setattr(error, place, offset - 1 + column)
        setattr(error, row, (number or 1) + line)
    return error


def _line_of(starts: list[int], offset: int) -> int:
    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle] <= offset else (low, middle)
    return low


def _cuts(text: str) -> dict[int, int]:
    """The expressions to cut out, by their beginnings: one at every `_DEPTH` brackets."""
    open_at: list[int] = []
    cuts: dict[int, int] = {}
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in ("(", "[", "{"):
            open_at.append(match.start())
        elif token in (")", "]", "}") and open_at:
            begin = open_at.pop()
            if open_at and len(open_at) % _DEPTH == 0 and token != "}":
                start = _start(text, begin)
                if start is not None and match.end() - start >= _SHORTEST:
                    cuts[start] = match.end()
    return dict(sorted(cuts.items()))


def _start(text: str, begin: int) -> int | None:
    """Where the expression with the bracket at `begin` starts: with the name that is called."""
    before = _NAME_BEFORE.search(text, max(0, begin - 200), begin)
    if before is None:
        previous = text[begin - 1] if begin else ""
        return None if previous in ")]}\"'" or text[begin] == "[" else begin
    if before.group() in ("and", "or", "not", "if", "else", "in", "lambda", "for", "is"):
        return begin
    return before.start()


def _replaced(text: str, piece: _Piece, cuts: dict[int, int], names: dict[int, str]) -> str:
    """The text of a piece with names in the place of what is cut out of it, of the same extent."""
    parts: list[str] = []
    at = piece.start
    for start in _starts_inside(piece, cuts):
        if start < at:
            continue
        end = cuts[start]
        parts += [text[at:start], _filled(names[start], text[start:end])]
        at = end
    parts.append(text[at : piece.end])
    return "".join(parts)


def _starts_inside(piece: _Piece, cuts: dict[int, int]) -> list[int]:
    return [s for s, e in cuts.items() if piece.start <= s and e <= piece.end and (s, e) != (piece.start, piece.end)]


def _filled(name: str, old: str) -> str:
    """`name` with blanks, of the same lines and columns (in bytes) as `old`."""
    lines = old.split("\n")
    if len(lines) == 1:
        return name + " " * (len(old.encode()) - len(name))
    return name + "\n" * (len(lines) - 1) + " " * len(lines[-1].encode())
