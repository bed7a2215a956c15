"""Steps on loops: fusion, reordering, predicates and thread axes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from nests import block, guarded, left, nest, schedule

from tvmagic.cinn import IRSchedule
from tvmagic.script import cinn_text, from_source
from tvmagic.tir.blocks.error import ScheduleError

ROW = np.arange(24, dtype="float32").reshape(4, 6)


PREDICATES = """\
@T.prim_func
def main(A: T.Buffer((4, 6), 'float32'), Y: T.Buffer((4, 6), 'float32')):
    for i, j in T.grid(5, 7):
        with T.block('Y'):
            vi, vj = T.axis.remap('SS', [i, j])
            T.where({})
            Y[vi, vj] = A[vi, vj] + T.float32(1)
"""


def test_initial_values_keep_spatial_predicates() -> None:
    sums = PREDICATES.replace("'SS'", "'SR'").replace("Y: T.Buffer((4, 6)", "Y: T.Buffer((4,)")
    sums = sums.replace(
        "            Y[vi, vj] = A[vi, vj] + T.float32(1)",
        "            with T.init():\n                Y[vi] = T.float32(0)\n            Y[vi] = Y[vi] + A[vi, vj]",
    )
    func = from_source("from tvm.script import tir as T\n" + sums.format("i < 4 and j < 6 and i + j < 7"))
    text = cinn_text(func, regions=False)
    first, _, update = text.partition("ScheduleBlock(Y__reduce_init)")
    assert re.findall(r"if \((\(.*\))\) \{", first) == ["(i < 4)"]
    assert re.findall(r"if \((\(.*\))\) \{", update) == ["(i < 4)", "(j < 6)", "((i + j) < 7)"]
    triangle = np.where(np.add.outer(np.arange(4), np.arange(6)) < 7, ROW, 0).sum(1)
    np.testing.assert_array_equal(left(IRSchedule(func), A=ROW)["Y"], triangle)


def test_reorder_refuses_dependent_conditions() -> None:
    inner = nest("j:6", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    plain = schedule(nest("i:4", guarded("(i < 3)", inner)))
    plain.reorder("Y", [1, 0])
    assert [x.strip() for x in plain.text(regions=False).split("\n") if "for (" in x or "if (" in x] == [
        "serial for (j, 0, 6)",
        "serial for (i, 0, 4)",
        "if ((i < 3)) {",
    ]
    other = nest("j:6", block("Z", "i, j", "Z[i0, i1] = A[i0, i1]"))
    made = schedule(nest("i:4", guarded("(i < 3)", inner, other)))
    with pytest.raises(ScheduleError) as raised:
        made.reorder("Y", [1, 0])
    assert raised.value.names == ["loop `i`"]  # the outermost of them
