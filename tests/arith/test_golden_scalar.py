"""What TVM 0.19 answers for random expressions: simplifiers, bounds, remainders, proofs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from golden import known, rows

from tvmagic import ir
from tvmagic.arith import Analyzer

# answers of TVM that ours differs from on purpose, each with the reason
KNOWN: dict[str, dict[str, str]] = known("arith")
# exact answers in the whole file, known differences not counted; a change that loses one must say why
RATCHET = {
    "text": 2486,
    "rewrite_simplify": 2486,
    "canonical_simplify": 2471,
    "simplify": 2469,
    "can_prove": 508,
    "const_int_bound": 1512,
    "modular_set": 1512,
}


def answers(case: dict[str, Any]) -> dict[str, Any]:
    """Ours to the questions of a case."""
    variables = {name: ir.Var(name) for name in case["ranges"]}
    functions = {
        "fld": ir.ops.floordiv,
        "flm": ir.ops.floormod,
        "min": ir.ops.minimum,
        "max": ir.ops.maximum,
        "land": ir.And,
        "lor": ir.Or,
        "lnot": ir.Not,
        "sel": ir.Select,
    }
    e = ir.convert(eval(case["expr"], {**functions, **variables}))
    analyzer = Analyzer()
    for name, (low, extent) in case["ranges"].items():
        analyzer.bind(variables[name], ir.Range.from_min_extent(low, extent))
    ours: dict[str, Any] = {"text": str(e)}
    for name in ("rewrite_simplify", "canonical_simplify", "simplify"):
        ours[name] = str(getattr(analyzer, name)(e))
    if "const_int_bound" in case:
        bound, modular = analyzer.const_int_bound(e), analyzer.modular_set(e)
        ours["const_int_bound"] = [str(bound.min_value), str(bound.max_value)]
        ours["modular_set"] = [modular.coeff, modular.base]
    if "can_prove" in case:
        ours["can_prove"] = analyzer.can_prove(e)
    return ours


def differences(case: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (value, case[name]) for name, value in answers(case).items() if value != case[name]}


def test_ratchet() -> None:
    exact: Counter[str] = Counter()
    unknown = {}
    for case in rows("arith"):
        if "error" in case:
            continue
        different = differences(case)
        exact.update(name for name in RATCHET if name in case and name not in different)
        for name, (ours, theirs) in different.items():
            if name not in KNOWN.get(case["id"], {}):
                unknown[case["id"], name] = (ours, theirs)
    assert not unknown
    assert {name: exact[name] for name in RATCHET} == RATCHET
