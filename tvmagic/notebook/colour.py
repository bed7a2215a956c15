"""Colours of program text by Pygments: one short class for each part of a line."""

from __future__ import annotations

import html
import re
from functools import cache, lru_cache
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String

from tvmagic.notebook.lexers import AsmLexer, ClassicLexer, TVMScriptLexer

Piece = tuple[str, str]
"""The class of a part (empty if it has none) and its text."""

# Token types from the special to the general; a type counts for its subtypes.
_CLASSES: tuple[tuple[Any, str], ...] = (
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (Name.Builtin.Pseudo, "b"),
    (Name.Builtin, "f"),
    (Name.Function, "f"),
    (Name.Namespace, "m"),
    (Name.Decorator, "a"),
    (Name.Label, "l"),
    (Name.Variable, "v"),
    (Number, "d"),
    (String, "s"),
    (Comment, "c"),
)
# A number's digits do not change how a line is read, so that lines alike but for numbers share one reading.
_NUMBERS = re.compile(r"(?<![\w.])\d+(?![\w.])")


@cache
def _lexer(language: str) -> Lexer | None:
    options = {"stripnl": False, "ensurenl": False}
    match language:
        case "tvmscript":
            return TVMScriptLexer(**options)
        case "classic" | "cinn":
            return ClassicLexer(**options)
        case "python":
            return PythonLexer(**options)
        case "asm":
            return AsmLexer(**options)
        case "cpp":
            from pygments.lexers.c_cpp import CppLexer

            return CppLexer(**options)
        case "opencl":
            from pygments.lexers.c_cpp import CLexer

            return CLexer(**options)
        case "llvm":
            from pygments.lexers.asm import LlvmLexer

            return LlvmLexer(stripnl=False)  # its comments end with the line
    return None


@cache
def _class_of(token: Any) -> str:
    for kind, name in _CLASSES:
        if token in kind:
            return name
    return ""


@lru_cache(maxsize=20_000)
def _template(line: str, language: str) -> tuple[Piece, ...]:
    lexer = _lexer(language)
    if lexer is None or not line.strip():
        return (("", line),) if line else ()
    merged: list[Piece] = []
    for token, text in lexer.get_tokens(line):
        text, name = text.rstrip("\n"), _class_of(token)
        if merged and merged[-1][0] == name:
            merged[-1] = (name, merged[-1][1] + text)
        elif text:
            merged.append((name, text))
    return tuple(merged)


def pieces(line: str, language: str) -> list[Piece]:
    """The parts of a line with their classes, in order; together they are the line."""
    numbers = _NUMBERS.findall(line)
    template = (
        _template(_NUMBERS.sub("\0", line).replace("\0", "0"), language) if numbers else _template(line, language)
    )
    if not numbers or "".join(text for _, text in template) == line:
        return list(template)
    supply = iter(numbers)
    result = [(name, _NUMBERS.sub(lambda _: next(supply, ""), text)) for name, text in template]
    joined = "".join(text for _, text in result)
    return result if joined == line else list(_template(line, language))


@lru_cache(maxsize=20_000)
def html_line(line: str, language: str, marks: tuple[tuple[int, int], ...] = (), tag: str = "ins") -> str:
    """A line as HTML, with the parts in `marks` inside `<tag>`; everything is escaped."""
    out: list[str] = []
    cuts = sorted({c for mark in marks for c in mark})
    position, inside = 0, False
    starts, ends = {a for a, _ in marks}, {b for _, b in marks}
    for name, text in pieces(line, language):
        offset = 0
        while offset < len(text):
            at = position + offset
            if at in ends and inside:
                out.append(f"</{tag}>")
                inside = False
            if at in starts and not inside:
                out.append(f"<{tag}>")
                inside = True
            stop = min([c - position for c in cuts if c > at] + [len(text)])
            stop = min(stop, len(text))
            piece = html.escape(text[offset:stop], quote=False)
            out.append(f'<span class="{name}">{piece}</span>' if name else piece)
            offset = stop
        position += len(text)
    if inside:
        out.append(f"</{tag}>")
    return "".join(out)
