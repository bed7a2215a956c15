"""`Simplify` with what is known of buffers: conditions that are decided, loads that are replaced by their values."""

from __future__ import annotations

import pytest

import tvmagic as tvm
from tvmagic import ir, tir
from tvmagic.script import from_source
from tvmagic.tir.transform import Simplify

HEAD = "from tvm.script import ir as I\nfrom tvm.script import tir as T\n"
PROVE, SIMPLIFY = "propagate_knowns_to_prove_conditional", "propagate_knowns_to_simplify_expressions"
AB = 'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")'
KNOWN = {
    "a vector of one value": (
        PROVE,
        "A[0:8] = T.Broadcast(3, 8)",
        "for i in range(8):\n    if A[i] == 3: B[i] = 1",
        "for i in range(8):\n    B[i] = 1",
    ),
    "a ramp": (
        PROVE,
        "A[0:8] = T.Ramp(11, 1, 8)",
        "for i in range(8):\n    if A[i] == i + 11: B[i] = 1",
        "for i in range(8):\n    B[i] = 1",
    ),
    "lanes with a step": (
        SIMPLIFY,
        "for i in range(16): A[i] = i",
        "B[0:16:4] = A[0:16:4]",
        "B[0:16:4] = T.Ramp(0, 4, 4)",
    ),
    "another index": (
        PROVE,
        "for i in range(16): T.assume(i < 14 or A[i] == 0)",
        "for i in range(2):\n    if A[i + 14] == 0: B[i] = 3",
        "for i in range(2): B[i] = 3",
    ),
    "not by an inequality": (
        PROVE,
        "B[0] = 1",
        "if A[0] > 5:\n    if A[0] > 5: B[0] = 8",
        "if 5 < A[0]:\n    if 5 < A[0]: B[0] = 8",
    ),
    "in the branch and not behind it": (
        PROVE,
        "B[0] = 1",
        "if A[0] == 5:\n    if A[0] == 5: B[0] = 2\nif A[0] == 5: B[0] = 7",
        "if A[0] == 5: B[0] = 2\nif A[0] == 5: B[0] = 7",
    ),
}


def function(params: str, body: str) -> tir.PrimFunc:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return from_source(f"{HEAD}@T.prim_func\ndef f({params}):\n{lines}")


@pytest.mark.parametrize("case", KNOWN)
def test_simplify_uses_known_values(case: str) -> None:
    option, first, before, after = KNOWN[case]
    with tvm.transform.PassContext(config={"tir.Simplify": {option: True}}):
        new = Simplify()(tvm.IRModule.from_expr(function(AB, f"{first}\n{before}")))["f"]
    assert ir.structural_equal(new, function(AB, f"{first}\n{after}")), new.script()
