"""The texts that users write in cells, and places in them.

Every cell that defines or schedules an operator is a `Source` under a name such as
`%%tensor dense`. IR nodes carry a `Span` with that name, so that an error or a line of any pass
can be shown where it comes from.
"""

from __future__ import annotations

import ast
import linecache
import re
from dataclasses import dataclass

from tvmagic.errors import underlined
from tvmagic.ir import Span
from tvmagic.lazy import cached_property

_LINE_END = re.compile(r"\r\n|\r|\n")
_SOURCES: dict[str, Source] = {}


@dataclass(frozen=True)
class Source:
    """The text of a cell.

    `name` is what spans call it; `text` is the whole cell as the user sees it, so that line
    numbers are those that the notebook shows (the line of a cell magic is line 1).
    """

    name: str
    text: str

    def remember(self) -> Source:
        """Keep the text, so that `find_source` and Python's tracebacks find its lines."""
        _SOURCES[self.name] = self
        lines = [line + "\n" for line in self.text.splitlines()]
        linecache.cache[self.name] = (len(self.text), None, lines, self.name)
        return self

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, as Python counts them: a form feed, say, ends none."""
        lines = _LINE_END.split(self.text)
        return lines if lines[-1] else lines[:-1]

    def span(self, node: ast.AST) -> Span:
        """The place of a node of the cell's syntax tree. `ast` counts columns in bytes from 0."""
        line = getattr(node, "lineno", 1)
        end_line = getattr(node, "end_lineno", None) or line
        column = self._column(line, getattr(node, "col_offset", 0))
        end_column = self._column(end_line, getattr(node, "end_col_offset", None) or 0)
        return Span(self.name, line, column, end_line, end_column)

    def _column(self, line: int, offset: int) -> int:
        lines = self.lines
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        if text.isascii():
            return min(offset, len(text)) + 1
        return len(text.encode(errors="surrogatepass")[:offset].decode(errors="ignore")) + 1

    def parse(self) -> ast.Module:
        """The syntax tree; a line that begins with `%%` at the top counts as a comment."""
        return ast.parse(self.python, self.name)

    @property
    def python(self) -> str:
        """The text as Python: the line of the cell magic blanked, so that lines keep their numbers."""
        lines = self.text.split("\n")
        if lines and lines[0].lstrip().startswith("%%"):
            lines[0] = ""
        return "\n".join(lines)


def find_source(name: str) -> Source | None:
    """The cell of that name that ran last."""
    return _SOURCES.get(name)


def known_sources(names: set[str]) -> dict[str, str]:
    """The texts of the cells among `names`, by name."""
    return {name: _SOURCES[name].text for name in sorted(names) if name in _SOURCES}


def excerpt(span: Span | None) -> str:
    """The line of a cell that `span` is in with carets under the place; empty if unknown."""
    source = _SOURCES.get(span.source) if span is not None else None
    if span is None or source is None or not 0 < span.line <= len(source.lines):
        return ""
    line, carets = underlined(source.lines[span.line - 1], span)
    gutter = f"{span.line:>4} | "
    return f"{gutter}{line}\n{'| '.rjust(len(gutter))}{carets}"
