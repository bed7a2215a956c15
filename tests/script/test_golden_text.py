"""The expressions of the golden cases print as TVM 0.19 prints them; `test_parser_golden.py` has the functions."""

from __future__ import annotations

from golden import rows

from tvmagic import ir, tir


def test_all_golden_expressions_print_alike() -> None:
    """The expressions of the arithmetic cases, built by operators, print as TVM prints them."""
    functions = {
        "fld": tir.floordiv,
        "flm": tir.floormod,
        "min": tir.min,
        "max": tir.max,
        "land": tir.And,
        "lor": tir.Or,
        "lnot": tir.Not,
        "sel": tir.Select,
    }
    for case in rows("arith"):
        if "error" in case:
            continue
        names = {name: ir.Var(name) for name in case["ranges"]}
        value = eval(case["expr"], {**names, **functions})
        expr = value.asobject() if hasattr(value, "asobject") else tir.convert(value)
        assert str(expr) == case["text"], case["id"]
