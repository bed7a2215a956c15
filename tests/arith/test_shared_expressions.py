"""Shared subexpressions are visited once, whatever is asked."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.analyzer import BUDGET

X, Y, Z, N = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("n")


def shared(depth: int) -> Any:
    """An expression of `depth` levels, each of which has the one below in it twice: 2 ** depth paths."""
    e: Any = ir.Add(ir.FloorDiv(X, ir.IntImm("int32", 3)), Y)
    for n in range(depth):
        e = ir.Max(ir.FloorMod(e, ir.IntImm("int32", 1000 + n)), ir.Sub(ir.FloorDiv(e, Z), ir.IntImm("int32", n)))
    return e


@pytest.mark.parametrize("ask", ["rewrite_simplify", "canonical_simplify", "simplify"])
def test_simplification_visits_shared_nodes_once(ask: str) -> None:
    analyzer, e = Analyzer(), shared(10)
    simplify = getattr(analyzer, ask)
    simplify(e)
    assert BUDGET - analyzer.budget < 1_000  # of some thousands of paths
    first = simplify(e)
    assert simplify(e) is first and BUDGET - analyzer.budget < 10  # from memory
    assert str(simplify(shared(10))) == str(first) and BUDGET - analyzer.budget < 10  # of the same structure
    analyzer.bind(X, ir.Range(0, 3))
    simplify(e)
    assert BUDGET - analyzer.budget > 20  # what is known changed


@pytest.mark.parametrize("ask", ["const_int_bound", "modular_set", "int_set"])
def test_analysis_visits_shared_nodes_once(ask: str) -> None:
    analyzer = Analyzer()
    analyzer.bind(X, ir.Range(0, 8))
    e: Any = X
    for n in range(200):
        e = ir.Sub(ir.Add(e, e), ir.Add(e, ir.IntImm("int32", n % 2)))
    assert getattr(analyzer, ask)(e) is not None
    assert str(getattr(analyzer, ask)(ir.Add(e, ir.ops.maximum(X, Y)))) != ""
