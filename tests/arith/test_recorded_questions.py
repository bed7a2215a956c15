"""Answers to questions about small expressions are what they were: simplified forms, bounds, sets, maps, solved systems.

Of expressions of integers, each answer was held against all values at random points when it was recorded; the laws of the
other questions are in `test_int_set.py`, `test_iter_map.py`, `test_solve.py` and `test_integer_logic.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from recorded import PARTS, answer, check

from tvmagic import arith, ir, tir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.iter_map import subspace_divide
from tvmagic.ir import ops

NODES = (
    "Add And Broadcast BufferLoad Cast Div EQ FloatImm FloorDiv FloorMod GE GT IntImm LE LT Let Max Min Mod Mul NE Not Or "
    "Ramp Range Select Sub Var"
).split()
SETS = {"IntSet": arith.IntSet, "IntervalSet": arith.IntervalSet, "StrideSet": arith.StrideSet}


def scope() -> dict[str, Any]:
    """The names in a row's text: fresh variables and buffers of several types."""
    found: dict[str, Any] = {name: getattr(ir, name) for name in NODES}
    for dtype, names in (("int32", "xyzw"), ("int64", "pq"), ("bool", "bc"), ("float32", "fg")):
        found |= {name: ir.Var(name, dtype) for name in names}
    found |= {name: ir.SizeVar(name) for name in "nm"}
    for name, dtype in (("A", "int32"), ("B", "int8"), ("U", "uint8"), ("L", "int64")):
        found[name] = ir.decl_buffer((16,), dtype, name)
    found |= SETS | {"inf": arith.pos_inf(), "ninf": arith.neg_inf(), "subspace_divide": subspace_divide}
    return found | {"arith": arith, "ir": ir, "tir": tir, "ops": ops, "Analyzer": Analyzer}


def answers(row: dict[str, Any]) -> dict[str, str]:
    names = scope()
    exec(row["source"], names)
    return {call: answer(lambda call=call: eval(call, names)) for call in row["calls"]}


@pytest.mark.parametrize("part", range(PARTS))
def test_questions(part: int) -> None:
    check("questions", part, answers)
