"""Calls that look harmless and would change what a function computes: refused, or done so that it stays."""

from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te, tir
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir import Schedule
from tvmagic.tir.schedule import ScheduleError

ROW_SUM = """
def f(A: T.Buffer((4, 6), "float32"), E: T.Buffer((4, 6), "float32")):
    D = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + A[vi, vk]
    for i, j in T.grid(4, 6):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = A[vi, vj] + D[vi]
"""

CHAIN = """
def f(A: T.Buffer((4, 8), "float32"), D: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    C = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(4, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B[vi, vj]
"""

PADDED = """
def f(A: T.Buffer((6,), "float32"), C: T.Buffer((8,), "float32")):
    P = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi] = T.if_then_else(1 <= vi and vi < 7, A[vi - 1], T.float32(0))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = P[vi] + T.float32(1)
"""

MATMUL = """
def f(A: T.Buffer((4, 6), "float32"), B: T.Buffer((6, 5), "float32"), D: T.Buffer((4, 5), "float32")):
    C = T.alloc_buffer((4, 5))
    for i, j, k in T.grid(4, 5, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(4, 5):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + T.float32(1)
"""


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


def schedule(text: str) -> Schedule:
    return Schedule(parse(text), debug_mask="all")


def check_result(text: str, sch: Schedule) -> None:
    """Run the function and its schedule on the same arrays, each access checked."""
    before = parse(text)
    rng = np.random.default_rng(0)
    shapes = [[int(s) for s in before.buffer_map[p].shape] for p in before.params]
    given = [rng.integers(-4, 5, shape).astype("float32") for shape in shapes]
    expected, got = [a.copy() for a in given], [a.copy() for a in given]
    tvmagic.build(before, check_bounds=True)(*expected)
    tvmagic.build(sch.mod["main"], check_bounds=True)(*got)
    for want, have in zip(expected, got):
        np.testing.assert_allclose(have, want, 1e-5, 1e-5)


def loops(sch: Schedule, block: str) -> list[Any]:
    return sch.get_loops(sch.get_block(block))


def refused(sch: Schedule, message: str, call: Any) -> None:
    mod = sch.mod
    with pytest.raises(ScheduleError, match=message):
        call()
    assert sch.mod is mod


def test_merged_loops_do_not_read_a_part_of_a_sum() -> None:
    sch = schedule(ROW_SUM)
    refused(sch, "reduced in part", lambda: sch.merge(loops(sch, "D")[1], loops(sch, "E")[1]))
    sch.merge(loops(sch, "D")[0], loops(sch, "E")[0])
    check_result(ROW_SUM, sch)


def test_a_consumer_that_is_done_again_may_stand_in_the_loop_of_the_sum() -> None:
    sch = schedule(MATMUL)
    fused = sch.fuse(*loops(sch, "C")[1:])
    sch.reverse_compute_at(sch.get_block("D"), fused)
    check_result(MATMUL, sch)


def test_a_partitioned_reader_comes_after_the_copy() -> None:
    sch = schedule(CHAIN)
    sch.loop_partition(loops(sch, "C")[0], [2, None])
    sch.cache_write(sch.get_block("B"), 0, "global")
    check_result(CHAIN, sch)


def test_a_partitioned_reader_is_not_left_before_its_producer() -> None:
    sch = schedule(CHAIN)
    sch.loop_partition(loops(sch, "C")[0], [2, None])
    refused(sch, "depends", lambda: sch.reverse_compute_at(sch.get_block("B"), loops(sch, "D")[1]))


def test_a_block_with_a_hidden_writer_does_not_read_a_copy_made_before_it() -> None:
    sch = schedule(CHAIN)
    sch.loop_partition(loops(sch, "C")[0], [2, None])
    joined = sch.blockize([sch.get_block(name) for name in ("B", "C_i_common", "D")])
    sch.cache_read(joined, 0, "global")
    check_result(CHAIN, sch)


def test_a_copy_of_a_padded_read_stays_inside_the_buffer() -> None:
    sch = schedule(PADDED)
    sch.blockize([sch.get_block("P"), sch.get_block("C")])
    copy = sch.cache_read(sch.get_block("P"), 0, "global")
    assert [loop.extent.value for loop in map(sch.get, sch.get_loops(copy))] == [6]
    check_result(PADDED, sch)


def test_an_inplace_copy_of_a_padded_read_stays_inside_the_buffer() -> None:
    text = """
def f(A: T.Buffer((6,), "float32"), S: T.Buffer((8,), "float32")):
    for i in range(1):
        with T.block("outer"):
            T.reads(A[-1:7])
            T.writes(A[0:6], S[0:8])
            for j in range(8):
                with T.block("S"):
                    vj = T.axis.spatial(8, j)
                    S[vj] = T.if_then_else(1 <= vj and vj < 7, A[vj - 1], T.float32(0))
            for j in range(6):
                with T.block("A"):
                    vj = T.axis.spatial(6, j)
                    A[vj] = S[vj + 1] * T.float32(2)
"""
    sch = schedule(text)
    sch.cache_inplace(sch.get_block("outer"), 0, "global")
    check_result(text, sch)


def test_a_padded_read_is_not_copied_without_its_condition() -> None:
    sch = schedule(PADDED)
    block = sch.get_block("P")
    refused(sch, "may lie outside", lambda: sch.reindex(block, ("read", 0)))
    refused(sch, "may lie outside", lambda: sch.reindex_cache_read(block, 0, "global", lambda i: (i,)))


def test_a_read_in_an_outer_block_is_inside_by_its_domain() -> None:
    sch = schedule(CHAIN)
    outer, _ = sch.split(loops(sch, "B")[0], [2, 2])
    sch.blockize(sch.get_loops(sch.get_block("B"))[1])
    sch.reindex(sch.get_block("B"), ("read", 0))
    check_result(CHAIN, sch)


def test_reindex_does_not_copy_beside_loops_that_use_the_buffer() -> None:
    sch = schedule(CHAIN)
    sch.compute_at(sch.get_block("C"), loops(sch, "D")[1])
    refused(sch, "in the loops of", lambda: sch.reindex(sch.get_block("C"), ("write", 0)))
    refused(sch, "in the loops of", lambda: sch.reindex(sch.get_block("D"), ("read", 0)))
    sch.reindex(sch.get_block("C"), ("read", 0))
    sch.reindex(sch.get_block("D"), ("write", 0))
    check_result(CHAIN, sch)


def test_an_init_does_not_leave_a_loop_that_repeats_the_sum() -> None:
    sch = schedule(MATMUL)
    sch.reverse_compute_at(sch.get_block("C"), loops(sch, "D")[0])
    assert len(loops(sch, "C")) == 4
    refused(sch, "again", lambda: sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[0]))
    sch.decompose_reduction(sch.get_block("C"), loops(sch, "C")[1])
    check_result(MATMUL, sch)


@pytest.mark.parametrize("place", range(4))
def test_an_init_leaves_loops_with_tails(place: int) -> None:
    sch = schedule(MATMUL)
    i, j, k = loops(sch, "C")
    (j0, j1), (k0, k1) = sch.split(j, [None, 4]), sch.split(k, [None, 4])
    sch.reorder(i, j0, j1, k0, k1)
    sch.decompose_reduction(sch.get_block("C"), (i, j0, j1, k0)[place])
    check_result(MATMUL, sch)


@pytest.mark.parametrize(("inner", "keep_unit"), [(False, True), (False, False), (True, False)])
@pytest.mark.parametrize("factor", [4, 5, 7])
def test_blocks_of_loops_longer_than_their_axis(factor: int, inner: bool, keep_unit: bool) -> None:
    sch = schedule(ROW_SUM)
    i, k = loops(sch, "D")
    i0, i1 = sch.split(i, [None, factor])
    where = sch.fuse(i1, k) if inner else i0
    sch.blockize(where, keep_unit)
    check_result(ROW_SUM, sch)


def test_a_block_of_a_loop_with_a_condition_on_a_part_of_it() -> None:
    sch = schedule(ROW_SUM)
    i, k = loops(sch, "D")
    k0, k1 = sch.split(k, [None, 6])
    k00, k01 = sch.split(k0, [None, 4])
    sch.fuse(k00, k01, k1)
    refused(sch, "cannot be divided", lambda: sch.blockize(i))


def test_a_consumer_is_not_inlined_where_others_read_the_buffer_outside() -> None:
    sch = schedule(CHAIN)
    sch.blockize([sch.get_block("B"), sch.get_block("C")])
    refused(sch, "not allocated by the scope", lambda: sch.reverse_compute_inline(sch.get_block("C")))


@pytest.mark.parametrize("kind", ["vectorize", "parallel"])
def test_a_sum_does_not_move_into_a_loop_that_runs_at_once(kind: str) -> None:
    text = """
def f(A: T.Buffer((8,), "float32"), D: T.Buffer((1,), "float32")):
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] * T.float32(2)
    for i, k in T.grid(1, 8):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + C[vk]
"""
    sch = schedule(text)
    (loop,) = loops(sch, "C")
    getattr(sch, kind)(loop)
    refused(sch, "would reduce", lambda: sch.reverse_compute_at(sch.get_block("D"), loop))


def test_indices_that_a_loop_inside_makes_are_not_copied() -> None:
    text = """
def f(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            for j in range(4):
                C[vi] = A[vi, j]
"""
    sch = schedule(text)
    refused(sch, "a loop inside makes", lambda: sch.reindex(sch.get_block("C"), ("read", 0)))


def test_a_block_that_knows_its_loop_without_a_binding_stays() -> None:
    text = """
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[i]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"""
    sch = schedule(text)
    refused(sch, "not through a binding", lambda: sch.compute_at(sch.get_block("B"), loops(sch, "C")[0]))


OVERWRITTEN = """
def f(A: T.Buffer((9,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi + 1] = T.Cast("float32", vi)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] - T.float32(1)
"""


def test_a_block_is_not_inlined_past_one_that_overwrites_what_it_reads() -> None:
    sch = schedule(OVERWRITTEN)
    refused(sch, "overwrites what", lambda: sch.compute_inline(sch.get_block("B")))
    sch = schedule(CHAIN)
    sch.compute_inline(sch.get_block("B"))
    check_result(CHAIN, sch)


def test_a_writer_does_not_enter_the_loop_in_which_others_still_read() -> None:
    text = OVERWRITTEN.replace('T.Cast("float32", vi)', "B[vi] * T.float32(2)")
    sch = schedule(text)
    refused(sch, "overwrites buffer `A`", lambda: sch.reverse_compute_at(sch.get_block("A"), loops(sch, "B")[0]))
    sch.cache_write(sch.get_block("A"), 0, "global")  # as the error hints
    sch.reverse_compute_at(sch.get_block("A"), loops(sch, "B")[0])
    check_result(text, sch)


def test_a_producer_does_not_enter_the_loop_in_which_others_overwrite_what_it_reads() -> None:
    text = """
def f(A: T.Buffer((9,), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] * T.float32(2)
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi + 1] = T.Cast("float32", vi)
"""
    sch = schedule(text)
    refused(sch, "overwrites buffer `A`", lambda: sch.compute_at(sch.get_block("B"), loops(sch, "D")[0]))
    sch.cache_write(sch.get_block("A"), 0, "global")  # as the error hints
    sch.compute_at(sch.get_block("B"), loops(sch, "D")[0])
    check_result(text, sch)


@pytest.mark.parametrize("method", ["reindex_cache_read", "reindex_cache_write"])
def test_elements_do_not_meet_in_a_copy(method: str) -> None:
    sch = schedule(CHAIN)
    call = getattr(sch, method)
    refused(sch, "same for", lambda: call(sch.get_block("C"), 0, "global", lambda i, j: (i + j,)))
    refused(sch, "same for", lambda: call(sch.get_block("C"), 0, "global", lambda i, j: (i, j // 2)))
    call(sch.get_block("C"), 0, "global", lambda i, j: (j // 2, i, j % 2))
    check_result(CHAIN, sch)


def test_a_copy_may_be_ordered_by_an_index_that_is_a_sum() -> None:
    text = """
def f(A: T.Buffer((4, 10), "float32"), C: T.Buffer((4, 8), "float32")):
    for i, j, k in T.grid(4, 8, 3):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vj + vk]
"""
    sch = schedule(text)
    sch.reindex_cache_read(sch.get_block("C"), 0, "global", lambda i, j, k: (j + k, i))
    check_result(text, sch)


PARTLY_WRITTEN = """
def f(A: T.Buffer((8,), "float32"), D: T.Buffer((16,), "float32"), E: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi * 2] = A[vi] + T.float32(1)
    for i in range(8):
        with T.block("E"):
            vi = T.axis.spatial(8, i)
            if vi < 5:
                E[vi] = A[vi] * T.float32(2)
"""


@pytest.mark.parametrize("name", ["D", "E"])
def test_what_a_block_leaves_out_is_not_copied_back(name: str) -> None:
    sch = schedule(PARTLY_WRITTEN)
    block = sch.get_block(name)
    refused(sch, "writes all", lambda: sch.cache_write(block, 0, "global"))
    refused(sch, "writes all", lambda: sch.reindex(block, ("write", 0)))
    refused(sch, "writes all", lambda: sch.reindex_cache_write(block, 0, "global", lambda i: (i,)))
    refused(sch, "writes all", lambda: sch.write_at(sch.get_loops(block)[0], block, 0, "global"))


def test_outputs_written_in_tiles_with_a_tail_may_be_copied_back() -> None:
    sch = schedule(MATMUL)
    i, j = loops(sch, "D")
    j0, _ = sch.split(j, [None, 4])
    sch.reorder(j0, i)
    sch.cache_write(sch.get_block("D"), 0, "global")
    check_result(MATMUL, sch)


def test_readers_that_are_named_must_read_the_buffer() -> None:
    sch = schedule(CHAIN)
    refused(sch, "does not read", lambda: sch.cache_read(sch.get_block("C"), 0, "global", [sch.get_block("B")]))
    refused(sch, "does not read", lambda: sch.cache_read(sch.get_block("B"), 0, "global", [sch.get_block("D")]))
    sch.cache_read(sch.get_block("C"), 0, "global", [sch.get_block("D")])
    check_result(CHAIN, sch)


def test_one_copy_does_not_serve_readers_before_and_after_the_writer() -> None:
    text = OVERWRITTEN.replace("B[vi] - T.float32(1)", "B[vi] - A[vi + 1]")
    sch = schedule(text)
    for name, place in (("B", 0), ("D", 1)):
        refused(sch, "before block `A` writes", lambda: sch.cache_read(sch.get_block(name), place, "global"))
    sch.cache_read(sch.get_block("D"), 1, "global", [sch.get_block("D")])
    check_result(text, sch)


def test_loops_of_one_nest_are_not_bound_to_the_same_threads() -> None:
    sch = schedule(CHAIN)
    (i, j), other = loops(sch, "B"), loops(sch, "C")[0]
    sch.bind(i, "threadIdx.x")
    refused(sch, "already", lambda: sch.bind(j, "threadIdx.x"))
    sch.bind(j, "blockIdx.x")
    sch.bind(other, "threadIdx.x")
    check_result(CHAIN, sch)


@pytest.mark.parametrize(
    ("loops_of_c", "store", "condition"),
    [
        ("", "C[0] = B[1, 3]", "i == 1 and j == 3"),
        ("for i in range(4):", "C[vi] = B[vi, 3]", "j == 3"),
        ("for i in range(4):", "C[vi] = B[2, vi + 1]", "i == 2"),
    ],
)
def test_a_reader_of_a_part_is_inlined_into_the_writer_of_that_part(
    loops_of_c: str, store: str, condition: str
) -> None:
    inside = "    " * bool(loops_of_c)
    text = f"""
def f(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    {loops_of_c}
    {inside}with T.block("C"):
        {inside}{"vi = T.axis.spatial(4, i)" if loops_of_c else ""}
        {inside}{store}
"""
    sch = schedule(text)
    sch.reverse_compute_inline(sch.get_block("C"))
    assert condition in sch.mod.script()
    check_result(text, sch)


def test_a_condition_goes_along_to_new_block_variables() -> None:
    text = """
def f(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.block("C"):
            T.where(i * 8 + j < 21)
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    sch = schedule(text)
    sch.transform_block_layout(sch.get_block("C"), lambda i, j: (j, i))
    check_result(text, sch)


def test_an_ordered_copy_is_made_for_a_leaf_block_alone() -> None:
    sch = schedule(ROW_SUM)
    sch.blockize(loops(sch, "D")[1])
    outer = sch.get_block("D_o")
    refused(sch, "leaf", lambda: sch.reindex_cache_write(outer, 0, "global", lambda i, k: (i,)))


def test_new_block_variables_do_not_lose_a_loop_that_the_condition_needs() -> None:
    text = """
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for u, i in T.grid(2, 8):
        with T.block("C"):
            T.where(u < 1)
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + T.float32(1)
"""
    sch = schedule(text)
    refused(sch, "the condition", lambda: sch.transform_block_layout(sch.get_block("C"), lambda i: (i,)))


def test_a_ring_is_filled_element_by_element() -> None:
    text = """
def f(A: T.Buffer((4, 10), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 10))
    for i, j in T.grid(4, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi, vj + 1] + B[vi, vj + 2]
"""
    sch = schedule(text)
    copy = sch.read_at(loops(sch, "C")[1], sch.get_block("C"), 0, "global")
    refused(sch, "several elements", lambda: sch.rolling_buffer(copy, 0))
    sch = schedule(text)
    sch.compute_at(sch.get_block("B"), loops(sch, "C")[1])
    sch.rolling_buffer(sch.get_block("B"), 0)
    check_result(text, sch)


def pools(size: int, count: int) -> tuple[str, list[str]]:
    """A cascade of `count` max_pools with windows of 3 x 3; the names of its buffers."""
    names = ["A", *[f"P{n}" for n in range(1, count)], "C"]
    sides = [size - 2 * n for n in range(count + 1)]
    text = f'def f(A: T.Buffer(({size}, {size}), "float32"), C: T.Buffer(({sides[-1]}, {sides[-1]}), "float32")):\n'
    for name, side in zip(names[1:-1], sides[1:]):
        text += f'    {name} = T.alloc_buffer(({side}, {side}), "float32")\n'
    for source, name, side in zip(names, names[1:], sides[1:]):
        text += f"""
    for i, j, di, dj in T.grid({side}, {side}, 3, 3):
        with T.block("{name}"):
            vi, vj, vdi, vdj = T.axis.remap("SSRR", [i, j, di, dj])
            with T.init():
                {name}[vi, vj] = T.min_value("float32")
            {name}[vi, vj] = T.max({name}[vi, vj], {source}[vi + vdi, vj + vdj])
"""
    return text, names


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("tile", [(1, 10), (2, 5), (5, 5), (10, 2)], ids=str)
def test_a_cascade_of_pools_carries_what_is_in_its_rings(count: int, tile: tuple[int, int]) -> None:
    """Each iteration computes new elements only; the others are in buffers that outlive the iteration."""
    text, names = pools(10 + 2 * count, count)
    sch = schedule(text)
    i, j, *window = loops(sch, "C")
    outer_i, inner_i = sch.split(i, [None, tile[0]])
    outer_j, inner_j = sch.split(j, [None, tile[1]])
    sch.reorder(outer_i, outer_j, inner_i, inner_j, *window)
    for name in reversed(names[1:-1]):
        sch.compute_at(sch.get_block(name), outer_i if tile[1] == 10 else outer_j)
    for name in names[1:-1]:
        sch.rolling_buffer(sch.get_block(name), 0)
    assert sch.mod.script().count("T.axis.opaque") >= count
    passes = tvmagic.tir.transform
    lowered = passes.PlanAndUpdateBufferAllocationLocation()(passes.LowerInitBlock()(sch.mod)).script()
    assert lowered.rindex("alloc_buffer") < lowered.index("i_0" if tile[1] == 10 else "j_0")
    check_result(text, sch)


def test_rfactor_leaves_no_part_unmade() -> None:
    sch = schedule(ROW_SUM)
    _, k = loops(sch, "D")
    _, inner = sch.split(k, [None, 7])
    refused(sch, "from running at all", lambda: sch.rfactor(inner, 0))
    sch = schedule(ROW_SUM)
    _, inner = sch.split(loops(sch, "D")[1], [None, 4])
    sch.rfactor(inner, 0)
    check_result(ROW_SUM, sch)


def test_a_copy_that_nobody_reads_any_more_may_keep_its_alignment() -> None:
    text = """
def f(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.block_attr({"buffer_dim_align": [[0, 0, 8, 1]]})
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
    check_result(text, schedule(text))


def test_a_block_of_overlapping_loops_keeps_its_binding() -> None:
    """`j + (a * 2 + c)` is no `j * 3 + (a * 2 + c)`."""
    text = """
def f(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6, 6), "float32")):
    for i, j, a, c in T.grid(6, 4, 2, 2):
        with T.block("C"):
            T.where(a * 2 + c < 3)
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(6, j + (a * 2 + c))
            C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    sch = schedule(text)
    refused(sch, "cannot be divided", lambda: sch.blockize(loops(sch, "C")[1]))


def test_rfactor_of_a_pair_of_one_type() -> None:
    """Place and value are both float32: neither is taken for the other."""
    pair = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda a, b: (tir.const(-1, a), te.min_value(b)),
        name="pair",
    )
    place, value = te.placeholder((4, 8), name="place"), te.placeholder((4, 8), name="value")
    k = te.reduce_axis((0, 8), "k")
    largest = te.compute((4,), lambda i: pair((place[i, k], value[i, k]), axis=k), name="largest")
    sch = tir.Schedule(te.create_prim_func([place, value, *largest]))
    _, loop = sch.get_loops(sch.get_block("largest"))
    sch.rfactor(sch.split(loop, [None, 4])[1], 0)
    places = np.tile(np.arange(8, dtype="float32"), (4, 1))
    values = np.random.default_rng(0).random((4, 8)).astype("float32")
    where, what = np.zeros(4, "float32"), np.zeros(4, "float32")
    tvmagic.build(sch.mod)(places, values, where, what)
    np.testing.assert_array_equal(where, values.argmax(1))
    np.testing.assert_array_equal(what, values.max(1))


@pytest.mark.parametrize(("factors", "part"), [([8, None], 1), ([16, None], 1), ([None, 8], 0)])
def test_a_part_of_a_sum_moves_with_its_condition(factors: list[int | None], part: int) -> None:
    """A split of more than the extent: the condition alone keeps a variable of the partial sum inside A."""
    sch = schedule(ROW_SUM)
    split = sch.split(loops(sch, "D")[1], factors)
    partial = sch.rfactor(split[part], 0)
    sch.compute_at(partial, loops(sch, "D")[0])
    assert "T.where(ax0 < 6)" in sch.mod.script()
    check_result(ROW_SUM, sch)


TRIANGLE = """
def f(A: T.Buffer((21,), "float32"), C: T.Buffer((4, 8), "float32")):
    B = T.alloc_buffer((4, 8))
    for i, j in T.grid(4, 8):
        with T.block("B"):
            T.where(i * 8 + j < 21)
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi * 8 + vj] + T.float32(1)
    for i, j in T.grid(4, 8):
        with T.block("C"):
            T.where(i * 8 + j < 21)
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""


@pytest.mark.parametrize("way", ["compute_at", "reverse_compute_at"])
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("place", [0, 1])
def test_a_condition_goes_along_to_other_loops(place: int, factor: int, way: str) -> None:
    sch = schedule(TRIANGLE)
    moved, other = ("B", "C") if way == "compute_at" else ("C", "B")
    sch.split(loops(sch, moved)[0], [None, factor])
    getattr(sch, way)(sch.get_block(moved), loops(sch, other)[place])
    assert sch.mod.script().count("T.where") == 2
    check_result(TRIANGLE, sch)


@pytest.mark.parametrize("condition", ["u < 1", "i_0 * 3 + i_1 < 5", "u < 1 and i_0 * 3 + i_1 < 5"])
def test_a_condition_on_loops_that_repeat_goes_with_them(condition: str) -> None:
    """Here the new loops run the block for each element once anyway."""
    text = f"""
def f(A: T.Buffer((20,), "float32"), C: T.Buffer((20,), "float32")):
    B = T.alloc_buffer((20,))
    for u, i, i_0, i_1 in T.grid(2, 4, 2, 3):
        with T.block("B"):
            T.where(i * 5 + (i_0 * 3 + i_1) < 20 and {condition})
            vi = T.axis.spatial(20, i * 5 + (i_0 * 3 + i_1))
            B[vi] = A[vi] + T.float32(1)
    for i in range(20):
        with T.block("C"):
            vi = T.axis.spatial(20, i)
            C[vi] = B[vi] * T.float32(2)
"""
    sch = schedule(text)
    sch.compute_at(sch.get_block("B"), loops(sch, "C")[0])
    assert "T.where" not in sch.mod.script()
    check_result(text, sch)


VIEWS = """
def f(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    B = T.alloc_buffer((6, 8))
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2])
            T.writes(B[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2])
            V = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2], (2, 2), strides=[T.int32(), T.int32()], offset_factor=1)
            W = T.match_buffer(B[vi * 2:vi * 2 + 2, vj * 2:vj * 2 + 2], (2, 2), strides=[T.int32(), T.int32()], offset_factor=1)
            STATEMENT
    for i, j in T.grid(6, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * T.float32(2)
"""
STATEMENTS = [
    "for x, y in T.grid(2, 2):\n                W[x, y] = V[x, y] + T.float32(1)",
    "for x in range(2):\n                "
    'T.evaluate(T.call_extern("handle", "memcpy", W.access_ptr("w", offset=x * 8, extent=2), V.access_ptr("r", offset=x * 8, extent=2), T.uint64(8)))',
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=["loads and stores", "pointers"])
def test_a_copy_is_behind_the_pieces_of_what_writes_by_a_view(statement: str) -> None:
    """Blocks around the pieces of a partitioned loop declare nothing; the writer inside has a view of the buffer."""
    text = VIEWS.replace("STATEMENT", statement)
    sch = schedule(text)
    sch.loop_partition(loops(sch, "B")[0], [1, None])
    sch.cache_read(sch.get_block("C"), 0, "local")
    check_result(text, sch)


SYMBOLIC_SUM = """
def f(n: T.int32, s: T.handle):
    S = T.match_buffer(s, (4, 6))
    for i, j, r in T.grid(4, 6, n):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            once = T.axis.reduce(1, r // n)
            vr = T.axis.reduce(n, r % n)
            with T.init():
                S[vi, vj] = T.float32(0)
            S[vi, vj] = S[vi, vj] + T.Cast("float32", vr)
"""


def test_pieces_of_a_sum_begin_at_its_first_value() -> None:
    """The ranges of `r // n` and `r % n` as intervals begin below 0, where no iteration is."""
    sch = schedule(SYMBOLIC_SUM)
    sch.loop_partition(loops(sch, "S")[1], [2, None])
    got = np.full((4, 6), 77, "float32")
    tvmagic.build(sch.mod["main"])(5, got)
    assert (got == 10).all()


NEIGHBOURS = """
def f(A: T.Buffer((14, 8)), C: T.Buffer((12, 8))):
    B = T.alloc_buffer((14, 8))
    for i, j in T.grid(14, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(12, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 2, vj]
"""


def test_what_a_piece_of_a_loop_reads_is_copied_as_a_whole() -> None:
    """The pieces declare one row of the three that they read."""
    sch = schedule(NEIGHBOURS)
    sch.loop_partition(sch.fuse(*loops(sch, "C")), [3, None])
    pieces = [sch.get_block(f"C_i_j_fused{n}") for n in range(2)]
    assert [str(sch.get(piece).reads) for piece in pieces] == ["(B[0, 0:3],)", "(B[0:12, 0:8],)"]
    for piece in pieces:
        sch.read_at(sch.get_loops(piece)[0], piece, 0, "global")
    check_result(NEIGHBOURS, sch)
