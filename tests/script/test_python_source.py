"""Sources and expressions of Python, as TVM's parsers use them."""

from __future__ import annotations

import ast
import inspect
import pathlib
from typing import Any

from refusals import refuses


class Holder:
    def inside(self, a: int) -> int:
        return a + 1


def test_sources_know_their_place() -> None:
    from tvmagic.script.parser.core.diagnostics import Source  # type: ignore[import-not-found]

    source = Source(Holder.inside)
    assert source.source_name == __file__ and source.start_column == 4
    assert source.start_line == inspect.getsourcelines(Holder.inside)[1]
    assert source.source.startswith("def inside") and source.full_source == pathlib.Path(__file__).read_text()
    (function,) = source.as_ast().body
    assert isinstance(function, ast.FunctionDef) and function.name == "inside"
    assert Source("1 + 2").full_source == "1 + 2"
    with refuses("script.source_not_found"):
        Source(3)


def test_expressions_have_values() -> None:
    from tvmagic.script.parser.core import doc, evaluator  # type: ignore[import-not-found]

    def value(text: str, **names: Any) -> Any:
        return evaluator.ExprEvaluator.eval(None, doc.parse(text).body[0].value, names)

    assert value("1, 3.5, True, 'a'") == (1, 3.5, True, "a")
    assert value("f(a[1:], *b, k=2)", f=lambda *p, k: (p, k), a=[1, 2], b=(3,)) == (([2], 3), 2)
    assert value("{k: v + 1 for k, v in m.items()}", m={"a": 1}) == {"a": 2}
    (part,) = [n for n in ast.walk(doc.parse("a[1:n:2]")) if isinstance(n, doc.Slice)]
    assert evaluator.ExprEvaluator.eval(None, part, {"n": 8}) == slice(1, 8, 2)
    with refuses("script.not_an_expression"):
        evaluator.ExprEvaluator.eval(None, ast.Pass(), {})
