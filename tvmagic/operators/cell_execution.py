"""Python statements of a cell: run with the cell's own lines, and what fails in them told with its place."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Sequence
from typing import Any

from tvmagic.errors import TVMagicError, WrongIndexError
from tvmagic.ir import IterVar, Span
from tvmagic.notation.source import Source
from tvmagic.operators.cell_hints import hint_for


class CellError(TVMagicError):
    """Python code in a cell failed by itself; the message is that of the Python error, or says what is wrong with a value."""


class WrongEntryError(CellError, WrongIndexError):
    """An entry of a list or tuple that is not there."""


def run_python(statement: ast.stmt, source: Source, scope: dict[str, Any]) -> None:
    """Run a statement of a cell; what fails in it becomes an error of ours with its place.

    Lists and tuples with too few entries for what the statement does with them are told by what they hold.
    """
    try:
        counted = _Counted().visit(copy.deepcopy(statement))
    except RecursionError:
        counted = statement
    scope[_UNPACK], scope[_INDEX] = _unpacked, _indexed
    try:
        exec(compile(ast.Module([counted], []), source.name, "exec"), scope)
    except TVMagicError as error:
        if error.span is None or error.span.source != source.name or error.span.end_line == 0:
            error.span = place_in_cell(error, source) or error.span or source.span(statement)
        raise
    except Exception as error:
        span = place_in_cell(error, source) or source.span(statement)
        text = error.msg if isinstance(error, SyntaxError) else error
        raise CellError(
            f"{type(error).__name__}: {text}",
            span=span,
            hint=hint_for(error, scope, ast.unparse(statement)),
            code="cell.python_error",
        ) from error
    finally:
        scope.pop(_UNPACK, None)
        scope.pop(_INDEX, None)


_UNPACK, _INDEX = "__unpacked__", "__indexed__"


class _Counted(ast.NodeTransformer):
    """Lets what is unpacked, or indexed with a number, be looked at before that fails.

    The bodies of functions stay: they may run when the cell is over.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        target = node.targets[0]
        if (
            len(node.targets) == 1
            and isinstance(target, (ast.Tuple, ast.List))
            and not isinstance(node.value, ast.Tuple)
        ):
            stars = any(isinstance(e, ast.Starred) for e in target.elts)
            if not stars:
                node.value = _call(_UNPACK, node.value, [ast.unparse(node.value), len(target.elts)])
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        index = node.slice.operand if isinstance(node.slice, ast.UnaryOp) else node.slice
        if isinstance(node.ctx, ast.Load) and isinstance(index, ast.Constant) and type(index.value) is int:
            sign = -1 if isinstance(node.slice, ast.UnaryOp) and isinstance(node.slice.op, ast.USub) else 1
            node.value = _call(_INDEX, node.value, [ast.unparse(node.value), sign * index.value])
        return node


def _call(name: str, value: ast.expr, others: list[Any]) -> ast.Call:
    """A call at the place of its first argument."""
    call = ast.Call(ast.Name(name, ast.Load()), [value, *(ast.Constant(o) for o in others)], [])
    for node in ast.walk(call):
        if not hasattr(node, "lineno"):
            ast.copy_location(node, value)
    return call


def _unpacked(value: Any, text: str, count: int) -> Any:
    """`value`, if it has as many entries as there are names for them."""
    if isinstance(value, (tuple, list)) and len(value) != count:
        names = "1 name is" if count == 1 else f"{count} names are"
        hint = _hint_of_steps(text, value) or _hint(text, len(value))
        raise CellError(
            f"`{text}` has {_entries(value)}, {names} given for them", hint=hint, code="cell.wrong_unpack_count"
        )
    return value


def _indexed(value: Any, text: str, index: int) -> Any:
    """`value`, if it has an entry at `index`."""
    if isinstance(value, (tuple, list)) and not -len(value) <= index < len(value):
        raise WrongEntryError(
            f"`{text}` has {_entries(value)}, so there is no `[{index}]`",
            hint=_hint(text, len(value)),
            code="cell.entry_out_of_range",
        )
    return value


def _entries(values: Sequence[Any]) -> str:
    """`2 entries (i and j)`, with the names of loops."""
    names = [v.var.name if isinstance(v, IterVar) else "" for v in values]
    count = "1 entry" if len(values) == 1 else f"{len(values)} entries"
    return f"{count} ({', '.join(names)})" if names and all(names) else count


def _hint_of_steps(text: str, values: Sequence[Any]) -> str | None:
    """Where the loops are that run in each step of a recurrence: its own only axis is time."""
    stage = re.fullmatch(r"s\[\W*(\w+?)(_scan)?\W*\](\.op)?\.axis", text)
    if stage is None or not any(isinstance(v, IterVar) and v.iter_type == IterVar.Ordered for v in values):
        return None
    return (
        f"`{stage[1]}` is a recurrence, and its axis its steps: the loops inside a step are those of the stage that computes it, "
        f"of one in the index notation `s[{stage[1]}_update].axis`"
    )


def _hint(text: str, count: int) -> str | None:
    """Where other loops are: those of a reduction are not among `axis`."""
    if not count:
        return "an input has no loops: nothing computes it"
    if re.search(r"(?<!reduce_)\baxis$", text):
        return f"the loops of a sum, if it has one, are in `{re.sub('axis$', 'reduce_axis', text)}`"
    return None


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
