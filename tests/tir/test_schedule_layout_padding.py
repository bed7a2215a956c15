"""transform_layout with a padding value: where the padding is written, and what it holds."""

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import tir
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def groups(i: Any) -> list[Any]:
    return [i // 4, i % 4]


COPY = """
def f(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
"""
TWO = """
def f(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi]
            C[vi] = 0
"""


def test_padding_repeats_elements() -> None:
    before = parse(TWO)
    sch = tir.Schedule(before)
    buffer = next(b for b in before.buffer_map.values() if b.name == "B")
    sch.transform_layout("block", buffer, groups, pad_value=lambda i, j: buffer[(4 * i + j) % 14])
    a, b, c = np.arange(14, dtype="int32"), np.zeros((4, 4), "int32"), np.zeros(14, "int32")
    tvmagic.build(sch.mod["main"])(a, b, c)
    np.testing.assert_array_equal(b.reshape(-1), np.arange(16) % 14)


def test_error_is_a_schedule_error() -> None:
    sch = tir.Schedule(parse(COPY))
    with pytest.raises(ScheduleError, match="`B`"):
        sch.transform_layout("block", ("write", 0), groups)
