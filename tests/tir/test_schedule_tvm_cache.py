"""TVM's behaviour of cache_read, cache_write and reindex in schedules, rule by rule."""

from __future__ import annotations

import pytest
from schedule_behaviour import block, expect, parse, same_results, schedule

from tvmagic import tir
from tvmagic.ir import assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError

INNER = """
def main(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    with T.block("root"):
        B = T.alloc_buffer((12,))
        for i in range(3):
            with T.block("o"):
                vo = T.axis.spatial(3, i)
                T.reads(A[vo * 4:vo * 4 + 4])
                T.writes(C[vo * 4:vo * 4 + 4])
                for j in range(4):
                    with T.block("B"):
                        v = T.axis.spatial(12, vo * 4 + j)
                        B[v] = A[v] * T.float32(2)
                for j in range(4):
                    with T.block("C"):
                        v = T.axis.spatial(12, vo * 4 + j)
                        C[v] = B[v] + T.float32(1)
"""
INNER_AFTER = """
def main(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    # with T.block("root"):
    B = T.alloc_buffer((12,))
    for i in range(3):
        with T.block("o"):
            vo = T.axis.spatial(3, i)
            T.reads(A[vo * 4:vo * 4 + 4])
            T.writes(C[vo * 4:vo * 4 + 4])
            A_local = T.alloc_buffer((4,), scope="local")
            C_local = T.alloc_buffer((4,), scope="local")
            B_shared = T.alloc_buffer((4,), scope="shared")
            for ax0 in range(4):
                with T.block("A_local"):
                    v0 = T.axis.spatial(4, ax0)
                    T.reads(A[vo * 4 + v0])
                    T.writes(A_local[v0])
                    A_local[v0] = A[vo * 4 + v0]
            for j in range(4):
                with T.block("B"):
                    v = T.axis.spatial(12, vo * 4 + j)
                    T.reads(A_local[v - vo * 4])
                    T.writes(B[v])
                    B[v] = A_local[v - vo * 4] * T.float32(2)
            for ax0 in range(4):
                with T.block("B_shared"):
                    v0 = T.axis.spatial(4, ax0)
                    T.reads(B[vo * 4 + v0])
                    T.writes(B_shared[v0])
                    B_shared[v0] = B[vo * 4 + v0]
            for j in range(4):
                with T.block("C"):
                    v = T.axis.spatial(12, vo * 4 + j)
                    T.reads(B_shared[v - vo * 4])
                    T.writes(C_local[v - vo * 4])
                    C_local[v - vo * 4] = B_shared[v - vo * 4] + T.float32(1)
            for ax0 in range(4):
                with T.block("C_local"):
                    v0 = T.axis.spatial(4, ax0)
                    T.reads(C_local[v0])
                    T.writes(C[vo * 4 + v0])
                    C[vo * 4 + v0] = C_local[v0]
"""


def test_115_copies_in_a_nested_scope_have_the_region_s_shape() -> None:
    sch = schedule(INNER)
    sch.cache_read("B", 0, "local")
    sch.cache_write("C", 0, "local")
    sch.cache_read("C", 0, "shared")
    expect(sch, INNER, INNER_AFTER)


def test_115_at_the_root_the_shape_stays() -> None:
    sch = schedule(INNER)
    sch.cache_read("o", 0, "local")
    (buffer,) = [b for b in block(sch, "root").alloc_buffers if b.name == "A_local"]
    assert [int(n) for n in buffer.shape] == [12]


SYMBOLIC = """
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 8,))
    C = T.match_buffer(c, (n * 8,))
    for i in range(n):
        with T.block("o"):
            vo = T.axis.spatial(n, i)
            T.reads(A[vo * 8:vo * 8 + 8])
            T.writes(C[vo * 8:vo * 8 + 8])
            for j in range(8):
                with T.block("C"):
                    v = T.axis.spatial(n * 8, vo * 8 + j)
                    C[v] = A[v] * T.float32(2)
"""
SYMBOLIC_AFTER = """
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (n * 8,))
    C = T.match_buffer(c, (n * 8,))
    # with T.block("root"):
    for i in range(n):
        with T.block("o"):
            vo = T.axis.spatial(n, i)
            T.reads(A[vo * 8:vo * 8 + 8])
            T.writes(C[vo * 8:vo * 8 + 8])
            A_local = T.alloc_buffer((8,), scope="local")
            for ax0 in range(8):
                with T.block("A_local"):
                    v0 = T.axis.spatial(8, ax0)
                    T.reads(A[vo * 8 + v0])
                    T.writes(A_local[v0])
                    A_local[v0] = A[vo * 8 + v0]
            for j in range(8):
                with T.block("C"):
                    v = T.axis.spatial(n * 8, vo * 8 + j)
                    T.reads(A_local[v - vo * 8])
                    T.writes(C[v])
                    C[v] = A_local[v - vo * 8] * T.float32(2)
"""


def test_116_symbolic_sizes() -> None:
    sch = schedule(SYMBOLIC)
    sch.cache_read("C", 0, "local")
    expect(sch, SYMBOLIC, SYMBOLIC_AFTER, run=False)


def test_116_a_consumer_outside_of_the_scope_needs_the_full_shape() -> None:
    text = INNER.replace(
        """                for j in range(4):
                    with T.block("C"):
                        v = T.axis.spatial(12, vo * 4 + j)
                        C[v] = B[v] + T.float32(1)
""",
        """        for i in range(12):
            with T.block("C"):
                v = T.axis.spatial(12, i)
                C[v] = B[v] + T.float32(1)
""",
    ).replace("T.writes(C[", "T.writes(B[")
    sch = schedule(text)
    sch.cache_write("B", 0, "local")
    expect_shape = [int(n) for b in block(sch, "o").alloc_buffers for n in b.shape]
    assert expect_shape == [4]


TWO = """
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32"), D: T.Buffer((24,), "float32")):
    B = T.alloc_buffer((24,))
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(24, i * 4 + j)
                B[v] = A[v] * T.float32(2)
        for j in range(4):
            with T.block("C"):
                v = T.axis.spatial(24, i * 4 + j)
                C[v] = B[v] + T.float32(1)
    for i in range(24):
        with T.block("D"):
            v = T.axis.spatial(24, i)
            D[v] = B[v]
"""
TWO_AFTER = """
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32"), D: T.Buffer((24,), "float32")):
    # with T.block("root"):
    B = T.alloc_buffer((24,))
    B_local = T.alloc_buffer((24,), scope="local")
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(24, i * 4 + j)
                T.reads(A[v])
                T.writes(B_local[v])
                B_local[v] = A[v] * T.float32(2)
        for j in range(4):
            with T.block("C"):
                v = T.axis.spatial(24, i * 4 + j)
                T.reads(B_local[v])
                T.writes(C[v])
                C[v] = B_local[v] + T.float32(1)
    for ax0 in range(24):
        with T.block("B_local"):
            v0 = T.axis.spatial(24, ax0)
            T.reads(B_local[v0])
            T.writes(B[v0])
            B[v0] = B_local[v0]
    for i in range(24):
        with T.block("D"):
            v = T.axis.spatial(24, i)
            T.reads(B[v])
            T.writes(D[v])
            D[v] = B[v]
"""


def test_117_named_consumers_do_not_hold_the_copy_back() -> None:
    sch = schedule(TWO)
    sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    expect(sch, TWO, TWO_AFTER)


def test_117_without_other_readers_the_copy_is_last() -> None:
    sch = schedule(TWO)
    sch.cache_write("B", 0, "local", consumer_blocks=["C", "D"])
    text = sch.mod["main"].script()
    assert text.index('T.block("D")') < text.index('T.block("B_local")')
    assert [str(r) for r in block(sch, "D").reads] == ["B_local[v]"]


INPLACE = """
def main(A: T.Buffer((8,), "int32")):
    for i in range(1):
        with T.block("ext"):
            T.reads(A[0:8])
            T.writes(A[0:8])
            T.evaluate(T.call_extern("int32", "twist", A.data))
"""
INPLACE_AFTER = """
def main(A: T.Buffer((8,), "int32")):
    # with T.block("root"):
    A_local = T.alloc_buffer((8,), "int32", scope="local")
    A_global = T.alloc_buffer((8,), "int32")
    A_global_1 = T.alloc_buffer((8,), "int32")
    for ax0 in range(8):
        with T.block("A_global"):
            v0 = T.axis.spatial(8, ax0)
            T.reads(A[v0])
            T.writes(A_global[v0])
            A_global[v0] = A[v0]
    for i in range(1):
        for ax0 in range(8):
            with T.block("A_local"):
                v0 = T.axis.spatial(8, ax0)
                T.reads(A_global[v0])
                T.writes(A_local[v0])
                A_local[v0] = A_global[v0]
        with T.block("ext"):
            T.reads(A_local[0:8])
            T.writes(A_local[0:8])
            T.call_extern("int32", "twist", A_local.data)
        for ax0 in range(8):
            with T.block("A_local"):
                v0 = T.axis.spatial(8, ax0)
                T.reads(A_local[v0])
                T.writes(A_global_1[v0])
                A_global_1[v0] = A_local[v0]
    for ax0 in range(8):
        with T.block("A_global"):
            v0 = T.axis.spatial(8, ax0)
            T.reads(A_global_1[v0])
            T.writes(A[v0])
            A[v0] = A_global_1[v0]
"""


def test_118_several_levels_of_copies_of_what_is_updated_in_place() -> None:
    sch = schedule(INPLACE)
    copy_in, copy_out = sch.cache_inplace("ext", 0, "local")
    sch.cache_read(copy_in, 0, "global", [copy_in])
    sch.cache_write(copy_out, 0, "global")
    expect(sch, INPLACE, INPLACE_AFTER, run=False)


REPEATED = INPLACE.replace("range(1)", "range(3)")


def test_118_a_repeated_update_is_copied_in_each_iteration() -> None:
    sch = schedule(REPEATED)
    copy_in, copy_out = sch.cache_inplace("ext", 0, "local")
    copy = sch.cache_read(copy_in, 0, "global", [copy_in])
    assert len(sch.get_loops(copy)) == 2
    with pytest.raises(ScheduleError, match="next iteration"):
        sch.cache_write(copy_out, 0, "global")


UPDATED = """
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("U"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] * T.float32(2) + T.float32(1)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
"""
UPDATED_AFTER = """
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    # with T.block("root"):
    A_local = T.alloc_buffer((8,), scope="local")
    A_local_1 = T.alloc_buffer((8,), scope="local")
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            T.reads(A[v0])
            T.writes(A_local[v0])
            A_local[v0] = A[v0]
    for i in range(8):
        with T.block("U"):
            v = T.axis.spatial(8, i)
            T.reads(A_local[v])
            T.writes(A_local_1[v])
            A_local_1[v] = A_local[v] * T.float32(2) + T.float32(1)
    for ax0 in range(8):
        with T.block("A_local"):
            v0 = T.axis.spatial(8, ax0)
            T.reads(A_local_1[v0])
            T.writes(A[v0])
            A[v0] = A_local_1[v0]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.reads(A[v])
            T.writes(C[v])
            C[v] = A[v]
"""


def test_118_both_copies_of_elements_that_are_updated_in_place() -> None:
    sch = schedule(UPDATED)
    sch.cache_read("U", 0, "local", ["U"])
    sch.cache_write("U", 0, "local")
    expect(sch, UPDATED, UPDATED_AFTER)


def test_118_a_block_that_reads_other_elements_is_refused() -> None:
    sch = schedule(UPDATED.replace("A[v] * T", "A[T.max(v - 1, 0)] * T"))
    with pytest.raises(ScheduleError, match="wrote in other iterations"):
        sch.cache_read("U", 0, "local", ["U"])


def test_118_what_a_pointer_updates_is_refused() -> None:
    with pytest.raises(ScheduleError):
        schedule(INPLACE).cache_read("ext", 0, "local", ["ext"])


EXTERN = """
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(2):
        with T.block("ext"):
            v = T.axis.spatial(2, i)
            T.reads(A[v * 4:v * 4 + 4])
            T.writes(B[v * 4:v * 4 + 4])
            T.evaluate(T.call_extern("int32", "fill", B.data, A.data, v))
"""
EXTERN_AFTER = """
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    # with T.block("root"):
    B_local = T.alloc_buffer((8,), "int32", scope="local")
    for i in range(2):
        with T.block("ext"):
            v = T.axis.spatial(2, i)
            T.reads(A[v * 4:v * 4 + 4])
            T.writes(B_local[v * 4:v * 4 + 4])
            T.call_extern("int32", "fill", B_local.data, A.data, v)
    for ax0 in range(8):
        with T.block("B_local"):
            v0 = T.axis.spatial(8, ax0)
            T.reads(B_local[v0])
            T.writes(B[v0])
            B[v0] = B_local[v0]
"""


def test_119_opaque_blocks_write_what_they_declare() -> None:
    sch = schedule(EXTERN)
    sch.cache_write("ext", 0, "local")
    expect(sch, EXTERN, EXTERN_AFTER, run=False)


SHARED_LOOPS = """
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32")):
    B = T.alloc_buffer((24,))
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(24, i * 4 + j)
                B[v] = A[v] * T.float32(2)
        for j in range(4):
            with T.block("C"):
                v = T.axis.spatial(24, i * 4 + j)
                C[v] = B[v] + T.float32(1)
"""
SHARED_LOOPS_AFTER = """
def main(A: T.Buffer((24,), "float32"), C: T.Buffer((24,), "float32")):
    # with T.block("root"):
    B = T.alloc_buffer((24,))
    B_shared = T.alloc_buffer((3, 8), scope="shared")
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(24, i * 4 + j)
                T.reads(A[v])
                T.writes(B[v])
                B[v] = A[v] * T.float32(2)
        for j in range(4):
            with T.block("B_shared"):
                v = T.axis.spatial(24, i * 4 + j)
                T.reads(B[v])
                T.writes(B_shared[v // 8, v % 8])
                B_shared[v // 8, v % 8] = B[v]
        for j in range(4):
            with T.block("C"):
                v = T.axis.spatial(24, i * 4 + j)
                T.reads(B_shared[v // 8, v % 8])
                T.writes(C[v])
                C[v] = B_shared[v // 8, v % 8] + T.float32(1)
"""


def test_120_reindexed_copies_share_the_loops_above_them() -> None:
    sch = schedule(SHARED_LOOPS)
    sch.reindex_cache_read("C", 0, "shared", lambda v: (v // 8, v % 8))
    expect(sch, SHARED_LOOPS, SHARED_LOOPS_AFTER)


REDUCED = """
def main(A: T.Buffer((6, 4, 5), "float32"), C: T.Buffer((6, 4), "float32"), D: T.Buffer((6, 4), "float32")):
    for i, j in T.grid(6, 4):
        for k in range(5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vj, vk]
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * T.float32(3)
"""


def test_120_a_reduction_is_copied_without_loops_of_its_own() -> None:
    sch = schedule(REDUCED)
    sch.reindex_cache_write("C", 0, "shared", lambda i, j, k: (j, i))
    expect(sch, REDUCED, REDUCED_AFTER)


REDUCED_AFTER = """
def main(A: T.Buffer((6, 4, 5), "float32"), C: T.Buffer((6, 4), "float32"), D: T.Buffer((6, 4), "float32")):
    # with T.block("root"):
    C_shared = T.alloc_buffer((4, 6), scope="shared")
    for i, j in T.grid(6, 4):
        for k in range(5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vj, vk])
                T.writes(C_shared[vj, vi])
                with T.init():
                    C_shared[vj, vi] = T.float32(0)
                C_shared[vj, vi] = C_shared[vj, vi] + A[vi, vj, vk]
        with T.block("C_shared"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(C_shared[vj, vi])
            T.writes(C[vi, vj])
            C[vi, vj] = C_shared[vj, vi]
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(C[vi, vj])
            T.writes(D[vi, vj])
            D[vi, vj] = C[vi, vj] * T.float32(3)
"""
CONSTANT = """
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    with T.block("root"):
        K = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
        W = T.decl_buffer((4,), data=K)
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = A[v] * W[v]
"""


def test_121_copies_stand_below_declarations() -> None:
    sch = schedule(CONSTANT)
    sch.cache_read("C", 0, "local")
    sch.cache_read("C", 1, "local")
    sch.cache_write("C", 0, "local")
    lines = [line.strip() for line in sch.mod["main"].script().split("\n")]
    places = [
        next(i for i, line in enumerate(lines) if part in line)
        for part in (
            "T.allocate_const",
            "T.decl_buffer",
            'T.block("W_local")',
            'T.block("A_local")',
            'T.block("C")',
            'T.block("C_local")',
        )
    ]
    assert places == sorted(places)
    same_results(parse(CONSTANT), sch.mod["main"])


INDEX = """
def main(A: T.Buffer((40,), "float32"), B: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.block("B"):
            v = T.axis.spatial(12, i)
            B[v] = A[v // 3 * 7 + v % 3] + A[v // 3 * 7 + v % 3 + 1]
"""
INDEX_AFTER = """
def main(A: T.Buffer((40,), "float32"), B: T.Buffer((12,), "float32")):
    # with T.block("root"):
    index_var_0 = T.alloc_buffer((12,), "int32", strides=(1,))
    for ax0 in range(12):
        with T.block("index_0"):
            v0 = T.axis.spatial(12, ax0)
            T.reads()
            T.writes(index_var_0[v0])
            index_var_0[v0] = v0 // 3 * 7 + v0 % 3
    for i in range(12):
        with T.block("B"):
            v = T.axis.spatial(12, i)
            T.reads(A[v // 3 * 7 + v % 3:v // 3 * 7 + v % 3 + 2])
            T.writes(B[v])
            B[v] = A[index_var_0[v]] + A[index_var_0[v] + 1]
"""


def test_122_sub_expressions_that_occur_often() -> None:
    sch = schedule(INDEX)
    sch.cache_index("B", "global", 2)
    expect(sch, INDEX, INDEX_AFTER)


BILINEAR = """
def main(A: T.Buffer((10,), "float32"), B: T.Buffer((20,), "float32")):
    for i in range(20):
        with T.block("B"):
            v = T.axis.spatial(20, i)
            B[v] = (
                A[v // 2] * (T.float32(1) - T.Cast("float32", v % 2) * T.float32(0.5))
                + A[T.min(v // 2 + 1, 9)] * (T.Cast("float32", v % 2) * T.float32(0.5))
            )
"""


def test_122_parts_of_any_type_up_to_equivalent_forms() -> None:
    sch = schedule(BILINEAR)
    made = sch.cache_index("B", "global", 2)
    stored = [block(sch, b).body for b in made]
    assert [str(s.value) for s in stored] == ['T.Cast("float32", v0 % 2) * T.float32(0.5)', "v0 // 2"]
    assert [str(s.buffer.dtype) for s in stored] == ["float32", "int32"]
    same_results(parse(BILINEAR), sch.mod["main"])
    assert sch.cache_index("B", "global", 9) == []


CHOICE = """
def main(B: T.Buffer((6, 3), "int32")):
    for i, j in T.grid(6, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.Select(vj == 0, 0, 1)
"""


def test_what_cache_index_made_is_padded_too() -> None:
    """Its loads are in no region that the block declares."""
    sch = schedule(CHOICE)
    sch.cache_index("B", "global", 0)
    sch.pad_einsum("B", [1, 2])
    same_results(parse(CHOICE), sch.mod["main"])
    assert tuple(b.name for b in block(sch, "root").alloc_buffers) == ("index_var_0", "index_var_0_pad", "B_pad")


def test_a_condition_on_a_sum_leaves_elements_out_that_a_copy_would_overwrite() -> None:
    text = """from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), E: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(4, 16):
        with T.block("E"):
            T.where(i * 16 + j < {bound})
            vi = T.axis.spatial(8, i * 2 + j // 8)
            vj = T.axis.spatial(8, j % 8)
            E[vi, vj] = A[vi, vj] * 3
"""
    for bound, whole in ((60, False), (63, False), (64, True), (70, True)):
        sch = tir.Schedule(from_source(text.replace("{bound}", str(bound))))
        if whole:
            sch.cache_write("E", 0, "local")
            continue
        with pytest.raises(ScheduleError):
            sch.cache_write("E", 0, "local")


BOOLS = """
def main(A: T.Buffer((13, 3), "int32"), B: T.Buffer((13, 3), "int8"), C: T.Buffer((13, 3), "int32")):
    with T.block("root"):
        M = T.alloc_buffer((13, 3), "int8")
        for i, j in T.grid(13, 3):
            with T.block("M"):
                vi, vj = T.axis.remap("SS", [i, j])
                M[vi, vj] = B[vi, vj]
        for i, j in T.grid(13, 3):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Select(vj % 2 == 0, A[vi, vj], A[vi, vj // 2]) + T.Cast("int32", M[vi, vj])
"""


@pytest.mark.parametrize("call", [lambda s: s.cache_index("C", "global"), lambda s: s.unsafe_set_dtype("M", 0, "bool")])
def test_the_text_of_a_new_buffer_of_bools_is_read_as_what_it_was(call) -> None:
    sch = schedule(BOOLS)
    call(sch)
    assert_structural_equal(from_source(sch.mod["main"].script()), sch.mod["main"])


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("C[v] = B[v]; B[v] = B[v] + A[v]", True),
        ("for t in range(2): B[v * 2 + t] = B[v * 2 + t] + A[v]", True),
        ("for t in range(2): B[v * 2 + t] = B[v * 2 + (1 - t)] + A[v]", False),
        ("B[v] = A[v]; C[v] = B[v]", False),
        ("B[v] = A[v]; B[v] = B[v] + 1", False),
        ("for t in range(3): B[v] = B[v] * 2", False),
    ],
)
def test_a_block_that_reads_what_it_has_just_written_reads_no_copy_of_what_was_there(body: str, kept: bool) -> None:
    statements = "".join(f"\n            {part.strip()}" for part in body.split(";"))
    wide = "2:v * 2 + 2" if "* 2 +" in body else ""
    sch = schedule(f"""
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(4):
        with T.block("U"):
            v = T.axis.spatial(4, i)
            T.reads(A[v], B[v{" * " + wide if wide else ""}])
            T.writes(B[v{" * " + wide if wide else ""}], C[v]){statements}
""")
    before = sch.mod["main"]
    if not kept:
        with pytest.raises(ScheduleError, match="has just written"):
            sch.cache_read("U", 1, "local", ["U"])
        return
    sch.cache_read("U", 1, "local", ["U"])
    same_results(before, sch.mod["main"])
