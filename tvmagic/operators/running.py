"""Python statements of a cell: run with the cell's own lines, and what fails in them told with its place."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError, did_you_mean
from tvmagic.ir import Span
from tvmagic.notation.source import Source

__all__ = ["CellError", "instruction_span", "run_python"]


class CellError(TVMagicError):
    """Python code in a cell failed by itself; the message is that of the Python error."""


def run_python(statement: ast.stmt, source: Source, scope: dict[str, Any]) -> None:
    """Run a statement of a cell; what fails in it becomes an error of ours with its place."""
    try:
        exec(compile(ast.Module([statement], []), source.name, "exec"), scope)
    except TVMagicError as error:
        if error.span is None or error.span.source != source.name or error.span.end_line == 0:
            error.span = place_in_cell(error, source) or error.span or source.span(statement)
        raise
    except Exception as error:
        span = place_in_cell(error, source) or source.span(statement)
        text = error.msg if isinstance(error, SyntaxError) else error
        raise CellError(f"{type(error).__name__}: {text}", span=span, hint=_meant(error, scope)) from error


def _meant(error: Exception, scope: Mapping[str, Any]) -> str | None:
    """`did you mean ...?` for an attribute or a name that does not exist."""
    name = getattr(error, "name", None)
    if not isinstance(name, str) or not isinstance(error, (AttributeError, NameError)):
        return None
    known = [dir(error.obj)] if isinstance(error, AttributeError) else [scope, dir(builtins)]
    hints = (did_you_mean(name, [k for k in names if not k.startswith("_")]) for names in known)
    return next((hint for hint in hints if hint), None)


def place_in_cell(error: BaseException, source: Source) -> Span | None:
    """The place of the innermost expression of the cell in an error's traceback."""
    found: Span | None = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == source.name:
            found = instruction_span(traceback.tb_frame.f_code, traceback.tb_lasti, source) or found
        traceback = traceback.tb_next
    return found


def instruction_span(code: Any, offset: int, source: Source) -> Span | None:
    """The place in the cell of an instruction of code compiled from it."""
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if index * 2 == offset and line is not None:
            node = ast.Pass(lineno=line, col_offset=column or 0, end_lineno=end_line, end_col_offset=end_column or 0)
            return source.span(node)
    return None
