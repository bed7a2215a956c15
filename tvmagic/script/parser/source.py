"""The text of a script: its tree, the places in it, and errors that show them."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.ir import Span, diagnostics
from tvmagic.script.parser.nesting import parse_nested


class Source:
    """A text with its name, and where it begins in the file or cell that it comes from.

    `line_base` lines are before it there, and each of its lines was moved left by `column_base`
    columns.
    """

    def __init__(self, text: str, name: str = "<script>", line_base: int = 0, column_base: int = 0) -> None:
        self.text = text
        self.name = name
        self.line_base = line_base
        self.column_base = column_base
        self.ascii = text.isascii()
        self.lines = text.splitlines()
        self.pieces: dict[str, ast.expr] = {}

    def parse(self) -> ast.Module:
        """The tree of the text."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                try:
                    return ast.parse(self.text)
                except SyntaxError as error:
                    if "too many nested parentheses" not in str(error.msg):
                        raise
                    tree, self.pieces = parse_nested(self.text)
                    return tree
        except SyntaxError as error:
            raise self._syntax_error(error) from None
        except (RecursionError, MemoryError):
            raise DiagnosticError("the text is nested too deeply to be read", code="script.nested_too_deeply") from None
        except ValueError as error:  # a null byte
            raise DiagnosticError(f"the text cannot be read: {error}", code="script.not_readable") from None

    def _syntax_error(self, error: SyntaxError) -> DiagnosticError:
        line = error.lineno or 1
        column = max(1, error.offset or 1)
        end_line = error.end_lineno or line
        end_column = error.end_offset or column + 1
        if (end_line, end_column) <= (line, column):
            end_line, end_column = line, column + 1
        base, shift = self.line_base, self.column_base
        span = Span(self.name, line + base, column + shift, end_line + base, end_column + shift)
        hint = "statements are at most 100 levels deep" if "levels of indentation" in str(error.msg) else None
        return self._diagnostic(f"this is not valid Python: {error.msg}", span, hint, "script.not_python")

    def span(self, node: Any) -> Span:
        """The place of a node of the tree."""
        line, column = node.lineno, node.col_offset
        end_line, end_column = node.end_lineno, node.end_col_offset
        if not self.ascii:  # the tree counts bytes
            column, end_column = self._characters(line, column), self._characters(end_line, end_column)
        base, shift = self.line_base, self.column_base + 1
        return Span(self.name, line + base, column + shift, end_line + base, end_column + shift)

    def header(self, node: Any, last: Any) -> Span:
        """The place of a statement with a body: from its beginning to the end of `last`."""
        start, end = self.span(node), self.span(last)
        return Span(self.name, start.line, start.column, end.end_line, end.end_column)

    def _characters(self, line: int, byte: int) -> int:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="ignore"))

    def error(self, node: Any, message: str, hint: str | None = None, *, code: str | None = None) -> DiagnosticError:
        """The error with `message` at a node of the tree."""
        return self._diagnostic(message, self.span(node), hint, code)

    def error_at(
        self, span: Span | None, message: str, hint: str | None = None, *, code: str | None = None
    ) -> DiagnosticError:
        """The error with `message` at a place."""
        return self._diagnostic(message, span, hint, code)

    def from_error(self, node: Any, error: TVMagicError) -> DiagnosticError:
        """`error`, which was raised while `node` was read, at its place."""
        if error.span is not None and error.node is None and error.span.source == self.name:  # it knows better
            return self.error_at(error.span, error.message, error.hint, code=error.code)
        return self.error(node, error.message, error.hint, code=error.code)

    def _diagnostic(self, message: str, span: Span | None, hint: str | None, code: str | None) -> DiagnosticError:
        line = None
        if span is not None:
            index = span.line - self.line_base - 1
            if 0 <= index < len(self.lines):
                line = " " * self.column_base + self.lines[index]
        return DiagnosticError(message, span=span, source_line=line, hint=hint, code=code)


def reported(error: DiagnosticError) -> DiagnosticError:
    """`error` for the user: told to a renderer, if one was set, and without the parser's own frames."""
    diagnostics.render(error)
    return error.with_traceback(None)
