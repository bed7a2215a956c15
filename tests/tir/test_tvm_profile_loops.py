"""InstrumentProfileIntrinsics: marks of loops and functions for profilers."""

from __future__ import annotations

from typing import Any

import numpy as np
from pass_checks import module, script
from tvmagic.transform import PassContext

import tvmagic as tvm
from tvmagic.tir import transform as t

LOOPS = """
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        for j in {kind}(8):
            for k in range(8):
                A[k] = 1
            for k in range(8):
                for l in range(2):
                    A[k] = 2
"""
ALONE = {"tir.reset_start_id": True, "tir.lwp_disable_func_prof": True}


def marked(kind: str = "range", **options: Any) -> str:
    with PassContext(config={**ALONE, **{f"tir.{key}": value for key, value in options.items()}}):
        return script(t.InstrumentProfileIntrinsics()(module(LOOPS.format(kind=kind))))


def marks(text: str) -> list[int]:
    return [int(line.split("(")[1].rstrip(")")) for line in text.splitlines() if "T.start_profile" in line]


def test_loops_are_marked_by_place_and_height() -> None:
    text = marked()
    assert marks(text) == [4]  # of the two neighbours, the one with a loop inside
    assert "T.start_profile_intrinsic(4)\n        for k, l in T.grid(8, 2):" in text
    assert text.rstrip().endswith("T.end_profile_intrinsic(4)")
    assert marks(marked(lwp_min_height=0)) == [3, 4]
    assert marks(marked(instr_siblings=False)) == [1]
    assert marks(marked(instr_siblings=False, lwp_max_depth=1)) == [1, 2]
    assert marks(marked(instr_siblings=False, lwp_max_depth=3, lwp_min_height=0)) == [1, 2, 3, 4, 5]
    assert marks(marked("T.parallel", instr_siblings=False, lwp_max_depth=3, lwp_min_height=0)) == [1, 2]


def test_functions_are_marked_and_numbers_go_on() -> None:
    with PassContext(config={"tir.reset_start_id": True}):
        first = marks(script(t.InstrumentProfileIntrinsics()(module(LOOPS.format(kind="range")))))
    assert first == [0, 4]
    assert marks(script(t.InstrumentProfileIntrinsics()(module(LOOPS.format(kind="range"))))) == [6, 10]


def test_machine_code_leaves_marks_out() -> None:
    a = np.zeros(8, "int32")
    with PassContext(config={"tir.instrument_lwp": True}):
        mod = tvm.lower(module(LOOPS.format(kind="range")))
        assert "T.start_profile_intrinsic" in script(mod)
        tvm.build(mod)(a)
    assert (a == 2).all()
