"""Hoisted lets and branches preserve results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import module

from tvmagic.eval.machine import run_function
from tvmagic.ir import For, IfThenElse, Let, LetStmt
from tvmagic.ir.deep_recursion import parts_of
from tvmagic.passes import PassContext
from tvmagic.tir import transform

LETS = """def main(A: T.Buffer((16,), "int32"), n: T.int32):
    y = T.int32()
    for i in range(4):
        for j in range(4):
            x: T.int32 = n * 3
            z: T.int32 = i + 7
            if x < 40:
                A[i * 4 + j] = T.Let(y * (x + z), where={y: n + 5})"""


def loops_around(body: Any) -> dict[str, int]:
    """How many loops are around each let and around the branch."""
    found: dict[str, int] = {}

    def look(node: Any, depth: int) -> None:
        if isinstance(node, (Let, LetStmt)):
            found[node.var.name] = depth
        elif isinstance(node, IfThenElse):
            found.setdefault("if", depth)
        inside = {id(part) for part in (node.body,)} if isinstance(node, For) else set()
        for part in parts_of(node):
            look(part, depth + (id(part) in inside))

    look(body, 0)
    return found


@pytest.mark.parametrize("lets", range(8))
@pytest.mark.parametrize("conditionals", [0, 1, 15])
def test_hoisting_preserves_results(lets: int, conditionals: int) -> None:
    """1: those that a condition needs that moves; 2: statements; 4: expressions. As far as the loops that they name."""
    mod = module(LETS)
    with PassContext(
        config={"tir.HoistExpression": {"hoisted_let_bindings": lets, "hoisted_conditionals": conditionals}}
    ):
        after = transform.InsertHoistedExpression()(mod)
    needed = bool(conditionals & 1 and lets & 1)
    moves_x = bool(lets & 2) or needed
    assert loops_around(after["main"].body) == {
        "x": 0 if moves_x else 2,
        "z": 1 if lets & 2 else 2,
        "y": 0 if lets & 4 else 2,
        "if": 0 if conditionals & 1 and moves_x else 2,
    }
    for size in (0, 12, 13, 14):
        arrays = [np.full(16, -1, "int32") for _ in range(2)]
        for array, program in zip(arrays, (mod, after)):
            run_function(program["main"], [array, np.array(size, "int32")])
        np.testing.assert_array_equal(arrays[0], arrays[1])
