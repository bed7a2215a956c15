"""Blocks that match parts of buffers, whose buffers get copies or another memory: results stay."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir import Schedule
from tvmagic.tir.schedule import ScheduleError

HEAD = "from tvm.script import tir as T\n@T.prim_func\n"
PLAIN = """
    for i, j in T.grid(8, 8):
        with T.block("{block}"):
            vi, vj = T.axis.remap("SS", [i, j])
            {to}[vi, vj] = {value}
"""
# four elements of a row, or one, read or written under another name, with the strides of the buffer
MATCHING = """
    for i, j in T.grid(8, {count}):
        with T.block("{block}"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads({source}[vi, vj * {size}:vj * {size} + {size}])
            T.writes({to}[vi, vj * {size}:vj * {size} + {size}])
            M = T.match_buffer({matched}[vi, vj * {size}:vj * {size} + {size}], (1, {size}), strides=(8, 1), offset_factor=1)
            for k in range({size}):
                {store} = {value}
"""
SIGNATURE = """def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):"""


def reader(size: int = 4) -> str:
    matching = MATCHING.format(
        block="C",
        source="B",
        to="C",
        matched="B",
        size=size,
        count=8 // size,
        store=f"C[vi, vj * {size} + k]",
        value="M[0, k] + T.float32(1)",
    )
    plain = PLAIN.format(block="B", to="B", value="A[vi, vj] * T.float32(2)")
    return SIGNATURE + "\n    B = T.alloc_buffer((8, 8))" + plain + matching


def writer(size: int = 4) -> str:
    matching = MATCHING.format(
        block="B",
        source="A",
        to="B",
        matched="B",
        size=size,
        count=8 // size,
        store="M[0, k]",
        value=f"A[vi, vj * {size} + k] * T.float32(2)",
    )
    plain = PLAIN.format(block="C", to="C", value="B[vi, vj] + T.float32(1)")
    return SIGNATURE + "\n    B = T.alloc_buffer((8, 8))" + matching + plain


def schedule(text: str) -> Schedule:
    function = from_source(HEAD + text)
    assert isinstance(function, PrimFunc)
    return Schedule(function, debug_mask="all")


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (reader(1), lambda sch: sch.reindex_cache_read("C", 0, "local", lambda i, j: (j, i))),
        (reader(1), lambda sch: sch.reindex("C", ("read", 0))),
        (writer(1), lambda sch: sch.reindex_cache_write("B", 0, "local", lambda i, j: (j, i))),
        (writer(1), lambda sch: sch.reindex("B", ("write", 0))),
    ],
    ids=["reindex_cache_read", "reindex_read", "reindex_cache_write", "reindex_write"],
)
def test_what_is_matched_gets_no_copy_in_another_order(text: str, call: Any) -> None:
    with pytest.raises(ScheduleError, match="`B`"):
        call(schedule(text))
