"""Blocks built again keep the conditions, the domains and the data that the old ones had: results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir import Schedule

SUM = """
def f(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""

BOUND = """
def f(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    for i in range({loop}):
        with T.block("C"):
            vi = T.axis.spatial({domain}, {value})
            C[{index}] = A[{index}] + T.float32(1)
"""

SCATTERED = """
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi * 2] = A[vi]
    for i in range(9):
        with T.block("C"):
            vi = T.axis.spatial(9, i)
            C[vi] = B[vi] * T.float32(2)
"""

ACCUMULATED = """
def f(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi], A[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""

GATHERED = """
def f(A: T.Buffer((10, 2), "float32"), B: T.Buffer((4, 3, 6), "float32")):
    for i, k, j in T.grid(4, 3, 6):
        with T.block("B"):
            vi, vk, vj = T.axis.remap("SSS", [i, k, j])
            B[vi, vk, vj] = A[vi * 2 + vk, vj // 6 * 2 + vk % 2]
"""

GUARD = 16


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def run(sch: Schedule, *arrays: Any) -> list[np.ndarray]:
    """The arrays after the scheduled function, each with guard zones around it that it must leave alone."""
    for check_bounds in (True, False):
        given = [np.full(np.size(a) + 2 * GUARD, 55, "float32") for a in arrays]
        inside = [g[GUARD:-GUARD].reshape(np.shape(a)) for g, a in zip(given, arrays)]
        for part, array in zip(inside, arrays):
            part[...] = array
        tvmagic.build(sch.mod["main"], check_bounds=check_bounds)(*inside)
        for g in given:
            assert (g[:GUARD] == 55).all() and (g[-GUARD:] == 55).all()
    return inside


def block_with(function: PrimFunc, line: str) -> bool:
    return line in function.script()


def test_an_init_keeps_the_guard_of_a_loop_of_one_iteration() -> None:
    sch = Schedule(parse(SUM))
    outer, _ = sch.split(sch.get_loops("C")[0], [None, 8], preserve_unit_iters=False)
    sch.decompose_reduction("C", outer)
    assert block_with(sch.mod["main"], "T.where(i_1_init < 4)")
    a = np.random.default_rng(0).random((4, 6), "float32")
    np.testing.assert_allclose(run(sch, a, np.zeros(4))[1], a.sum(1), rtol=1e-5)


def test_a_condition_on_the_reduction_alone_leaves_the_init() -> None:
    sch = Schedule(parse(SUM))
    sch.split(sch.get_loops("C")[1], [None, 4])
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    init, update = sch.mod["main"].script().split("C_update")
    assert "T.where" not in init and "T.where(k_0 * 4 + k_1 < 6)" in update
    a = np.random.default_rng(0).random((4, 6), "float32")
    np.testing.assert_allclose(run(sch, a, np.zeros(4))[1], a.sum(1), rtol=1e-5)


@pytest.mark.parametrize("piece", [0, 1])
@pytest.mark.parametrize("value", ["i", "7 - i"])
def test_blockize_of_a_piece_of_a_loop(value: str, piece: int) -> None:
    sch = Schedule(parse(BOUND.format(loop="8", domain="8", value=value, index="vi")))
    pieces = sch.loop_partition(sch.get_loops("C")[0], [2, None])
    block = sch.blockize(pieces[piece])
    (inner,) = sch.get_child_blocks(block)
    low, high = sorted({("i", 0): (0, 2), ("i", 1): (2, 8), ("7 - i", 0): (6, 8), ("7 - i", 1): (0, 6)}[value, piece])
    domain = sch.get(inner).iter_vars[0].dom
    assert (int(domain.min), int(domain.min + domain.extent)) == (low, high)  # type: ignore[call-overload]
    a = np.arange(12.0)
    np.testing.assert_array_equal(run(sch, a, np.zeros(12))[1][:8], a[:8] + 1)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("domain", "value"), [("(2, 10)", "i + 2"), ("(3, 11)", "10 - i")])
def test_blockize_where_a_domain_does_not_start_at_0(domain: str, value: str, several: bool) -> None:
    sch = Schedule(parse(BOUND.format(loop="8", domain=domain, value=value, index="vi")))
    sch.blockize(["C"] if several else sch.get_loops("C")[0])
    a, low = np.arange(12.0), int(domain[1])
    got = run(sch, a, np.zeros(12))[1]
    np.testing.assert_array_equal(got[low : low + 8], a[low : low + 8] + 1)
    assert not got[:low].any() and not got[low + 8 :].any()


@pytest.mark.parametrize(
    "call",
    [
        lambda sch: sch.reindex("C", ("read", 0)),
        lambda sch: sch.reindex_cache_read("C", 0, "global", lambda i: (i,)),
        lambda sch: sch.reindex_cache_write("C", 0, "global", lambda i: (i,)),
        lambda sch: sch.cache_index("C", "global"),
        lambda sch: sch.cache_read("C", 0, "global"),
        lambda sch: sch.cache_write("C", 0, "global"),
    ],
    ids=["reindex", "reindex_cache_read", "reindex_cache_write", "cache_index", "cache_read", "cache_write"],
)
def test_copies_where_a_domain_does_not_start_at_0(call: Any) -> None:
    sch = Schedule(parse(BOUND.format(loop="8", domain="(3, 11)", value="i + 3", index="vi - 3")))
    call(sch)
    a = np.arange(12.0)
    np.testing.assert_array_equal(run(sch, a, np.zeros(12))[1][:8], a[:8] + 1)


def test_a_copy_for_reading_holds_what_nobody_wrote() -> None:
    sch = Schedule(parse(SCATTERED))
    sch.cache_read("C", 0, "global")
    a, b = np.arange(4.0), np.arange(9.0) + 20
    expected = b.copy()
    expected[:7:2] = a
    np.testing.assert_array_equal(run(sch, a, b, np.zeros(9))[2], expected * 2)


@pytest.mark.parametrize("buffer", ["C", ("write", 0)])
def test_a_name_is_that_of_what_is_written(buffer: Any) -> None:
    sch = Schedule(parse(ACCUMULATED))
    copy = sch.reindex("C", buffer)
    assert sch.get(copy).name_hint == "C_reindex"
    assert 'buffer=("write", 0)' in str(sch.trace)
    a = np.random.default_rng(0).random((4, 6), "float32")
    np.testing.assert_allclose(run(sch, a, np.zeros(4))[1], a.sum(1), rtol=1e-5)


def test_reindex_leaves_out_variables_that_simplify_away() -> None:
    sch = Schedule(parse(GATHERED))
    copy = sch.reindex("B", ("read", 0))
    (read,) = sch.get(copy).reads
    assert str(read) == "A[v0 * 2 + v1, v1 % 2]"
    assert [int(n) for n in sch.get(copy).writes[0].buffer.shape] == [4, 3]
    a = np.random.default_rng(0).random((10, 2), "float32")
    i, k = np.ogrid[:4, :3]
    expected = np.repeat(a[i * 2 + k, k % 2][:, :, None], 6, 2)
    np.testing.assert_array_equal(run(sch, a, np.zeros((4, 3, 6)))[1], expected)


WRITTEN_IN_PART = """
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where({condition})
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("condition", "covered"),
    [("i < 4", False), ("2 <= i", False), ("i < 3 or 6 <= i", False), ("i % 2 == 0", False), ("i < 9", True)],
)
def test_what_a_condition_leaves_out_is_not_covered(condition: str, covered: bool) -> None:
    sch = Schedule(parse(WRITTEN_IN_PART.format(condition=condition)))
    assert sch.state.get_cached_flags(sch.get_sref(sch.get_block("C"))).region_cover is covered


def test_what_runs_in_part_reads_what_was_written_in_part() -> None:
    text = WRITTEN_IN_PART.format(condition="i % 2 == 0").replace("C[vi] =", "T.where(i % 2 == 0)\n            C[vi] =")
    sch = Schedule(parse(text))
    assert sch.state.get_cached_flags(sch.get_sref(sch.get_block("C"))).region_cover


def test_conditions_of_splits_leave_nothing_out() -> None:
    sch = Schedule(
        parse(
            WRITTEN_IN_PART.format(condition="True")
            .replace(', B: T.Buffer((8,), "float32")', "")
            .replace("    for i", "    B = T.alloc_buffer((8,))\n    for i", 1)
        )
    )
    sch.split(sch.get_loops("C")[0], [None, 3])
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.split(sch.get_loops("B")[1], [None, 2])
    assert sch.state.get_cached_flags(sch.get_sref(sch.get_block("C"))).region_cover
    a = np.arange(8.0)
    np.testing.assert_array_equal(run(sch, a, np.zeros(8))[1], a * 2)
