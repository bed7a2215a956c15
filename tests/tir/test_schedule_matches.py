"""Blocks that match parts of buffers, whose buffers get copies or another memory: results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic
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


# a block inside another one, on buffers that the outer one matches, with offsets and strides that are variables
INSIDE = (
    SIGNATURE
    + """
    for i in range(2):
        with T.block("O"):
            vi = T.axis.spatial(2, i)
            T.reads({source}[vi * 4:vi * 4 + 4, 0:8])
            T.writes(C[vi * 4:vi * 4 + 4, 0:8])
            s = T.int32()
            e = T.int32()
            M = T.match_buffer({source}[vi * 4:vi * 4 + 4, 0:8], (4, 8), strides=(s, 1), elem_offset=e)
            N = T.match_buffer(C[vi * 4:vi * 4 + 4, 0:8], (4, 8), strides=(8, 1), offset_factor=1)
            for j, k in T.grid(4, 8):
                with T.block("N"):
                    vj, vk = T.axis.remap("SS", [j, k])
                    N[vj, vk] = {value}[vj, vk] * T.float32(2) + T.float32(1)
"""
)
OUTER = INSIDE.format(source="A", value="M")
SCOPES = ["global", "local", "shared"]


def run(sch: Schedule) -> None:
    a = np.random.default_rng(0).random((8, 8), "float32")
    assert from_source(sch.mod.script()) is not None
    for check_bounds in (False, True):
        c = a.copy()  # what the in-place programs begin with
        tvmagic.build(sch.mod["main"], check_bounds=check_bounds)(a, c)
        np.testing.assert_array_equal(c, a * 2 + 1)


def schedule(text: str) -> Schedule:
    function = from_source(HEAD + text)
    assert isinstance(function, PrimFunc)
    return Schedule(function, debug_mask="all")


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("text", "call"),
    [
        (reader(), lambda sch, scope: sch.cache_read("C", 0, scope)),
        (reader(), lambda sch, scope: sch.cache_read("C", 0, scope, ["C"])),
        (reader(), lambda sch, scope: sch.cache_write("B", 0, scope)),
        (reader(), lambda sch, scope: sch.cache_write("B", 0, scope, ["C"])),
        (reader(), lambda sch, scope: sch.cache_write("C", 0, scope)),
        (reader(), lambda sch, scope: sch.set_scope("B", 0, scope)),
        (reader(), lambda sch, scope: sch.read_at(sch.get_loops("C")[0], "C", 0, scope)),
        (reader(), lambda sch, scope: sch.read_at(sch.get_loops("C")[1], "C", 0, scope)),
        (writer(), lambda sch, scope: sch.cache_write("B", 0, scope)),
        (writer(), lambda sch, scope: sch.cache_read("C", 0, scope)),
        (writer(), lambda sch, scope: sch.set_scope("B", 0, scope)),
    ],
)
def test_what_matches_goes_along_into_another_memory(text: str, call: Any, scope: str) -> None:
    sch = schedule(text)
    call(sch, scope)
    run(sch)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "call",
    [
        lambda sch, scope: sch.cache_read("N", 0, scope),
        lambda sch, scope: sch.cache_write("N", 0, scope),
        lambda sch, scope: sch.read_at(sch.get_loops("N")[0], "N", 0, scope),
        lambda sch, scope: sch.read_at(sch.get_loops("N")[1], "N", 0, scope),
        lambda sch, scope: sch.write_at(sch.get_loops("N")[0], "N", 0, scope),
        lambda sch, scope: sch.reindex_cache_read("N", 0, scope, lambda i, j: (j, i)),
        lambda sch, scope: sch.reindex_cache_write("N", 0, scope, lambda i, j: (j, i)),
        lambda sch, scope: sch.reindex("N", ("read", 0)),
        lambda sch, scope: sch.reindex("N", ("write", 0)),
    ],
)
def test_a_copy_of_a_matched_buffer_begins_at_its_own_memory(call: Any, scope: str) -> None:
    sch = schedule(OUTER)
    call(sch, scope)
    (copy,) = sch.get(sch.get_block("O")).alloc_buffers
    assert not copy.strides and int(copy.elem_offset) == 0  # type: ignore[call-overload]
    run(sch)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_matched_buffer_is_updated_in_place(scope: str) -> None:
    sch = schedule(INSIDE.format(source="C", value="N").replace("M = T.match_buffer(C", "M = T.match_buffer(A"))
    sch.cache_inplace("N", 0, scope)
    run(sch)


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
