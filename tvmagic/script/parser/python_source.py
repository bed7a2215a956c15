"""Sources and expressions for tools of TVM's users: where a function or class is in its file, and what an expression gives.

The names are those of TVM's `script.parser.core`: `diagnostics.Source`, `evaluator.ExprEvaluator`, and `doc`, whose
classes are those of Python's `ast`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError

__all__ = ["ExprEvaluator", "Source"]


class Source:
    """The text of `program` (a function, a class, a tree, or a text) without its indentation.

    `start_line` is the line of the file that it begins in, from 0 for a text given as such, `start_column` the columns by which it was
    moved left, `full_source` all that the file holds.
    """

    source_name: str
    start_line: int
    start_column: int
    source: str
    full_source: str

    def __init__(self, program: Any) -> None:
        if isinstance(program, (str, ast.AST)):
            self.source_name, self.start_line, self.start_column = "<str>", 0, 0
            self.source = program if isinstance(program, str) else ast.unparse(program)
            self.full_source = self.source
            return
        try:
            self.source_name = inspect.getsourcefile(program) or "<unknown>"
            lines, first = inspect.getsourcelines(program)
            file_lines, _ = inspect.findsource(program)
        except (TypeError, OSError) as error:
            raise TVMagicError(
                f"the source of `{program!r}` cannot be found: {error}", code="script.source_not_found"
            ) from None
        self.start_line = first
        self.start_column = len(lines[0]) - len(lines[0].lstrip())
        self.source = textwrap.dedent("".join(lines)) if self.start_column else "".join(lines)
        self.full_source = "".join(file_lines)

    def as_ast(self) -> ast.Module:
        """The tree of the text."""
        return ast.parse(self.source)


class ExprEvaluator:
    """Evaluates expressions of Python with the values of given names."""

    @staticmethod
    def eval(parser: Any, node: Any, value_table: Mapping[str, Any]) -> Any:
        """The value of the expression `node`; what it raises is raised. `parser` is not needed and may be None."""
        if not isinstance(node, ast.expr):
            raise TVMagicError(
                f"an expression is evaluated, not `{type(node).__name__}`", code="script.not_an_expression"
            )
        names = dict(value_table)
        if isinstance(node, ast.Slice):
            parts = [
                None if p is None else ExprEvaluator.eval(parser, p, names) for p in (node.lower, node.upper, node.step)
            ]
            return slice(*parts)
        tree = ast.fix_missing_locations(ast.Expression(node))
        return eval(compile(tree, "<expression>", "eval"), names)
