"""TVM's behaviour of loops, compute_at and inlining in schedules, rule by rule."""

from __future__ import annotations

import numpy as np
import pytest
from schedule_behaviour import block, expect, loops, parse, same_results, schedule, script

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.ir import assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError

SQUARED = """
def main(A: T.Buffer((40, 8, 8), "float32"), B: T.Buffer((40, 8, 8), "float32")):
    for a, b, c in T.grid(7, 8, 8):
        with T.block("B"):
            va = T.axis.spatial(40, a * a)
            vb, vc = T.axis.remap("SS", [b, c])
            B[va, vb, vc] = A[va, vb, vc] * T.float32(2)
"""


def test_123_reorder_of_loops_that_are_bound_affinely() -> None:
    sch = schedule(SQUARED)
    a, b, c = loops(sch, "B")
    sch.reorder(c, b)
    assert [loop.loop_var.name for loop in map(sch.get, loops(sch, "B"))] == ["a", "c", "b"]
    same_results(parse(SQUARED), sch.mod["main"])
    with pytest.raises(ScheduleError, match="affine"):
        sch.reorder(c, a)


SYMBOLIC = """
def main(a: T.handle, b: T.handle, n: T.int64):
    A = T.match_buffer(a, (n * T.int64(16),))
    B = T.match_buffer(b, (n * T.int64(16),))
    for i in range(n * T.int64(16)):
        with T.block("B"):
            v = T.axis.spatial(n * T.int64(16), i)
            B[v] = A[v] * T.float32(2)
"""


@pytest.mark.parametrize("factors", [[None, 16], [None, 4, 4], [None, 8]])
def test_124_split_of_a_symbolic_multiple(factors: list[int | None]) -> None:
    sch = schedule(SYMBOLIC)
    new = sch.split(loops(sch, "B")[0], factors)
    assert "T.where" not in sch.mod["main"].script()
    assert [str(sch.get(loop).extent) for loop in new[1:]] == [f"T.int64({f})" for f in factors[1:]]


def test_124_a_predicate_where_the_factors_may_overrun() -> None:
    sch = schedule(SYMBOLIC)
    sch.split(loops(sch, "B")[0], [None, 5])
    assert "T.where(i_0 * T.int64(5) + i_1 < n * T.int64(16))" in sch.mod["main"].script()


HALVES = """
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(8):
        with T.block("lo"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for j in range(8):
        with T.block("hi"):
            v = T.axis.spatial(8, j)
            B[v + 8] = A[v + 8] * T.float32(2)
"""
ZEROED = """
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("init"):
            v = T.axis.spatial(8, i)
            B[v] = T.float32(0)
    for i, k in T.grid(8, 8):
        with T.block("sum"):
            v, vk = T.axis.remap("SR", [i, k])
            B[v] = B[v] + A[v, vk]
"""


def test_125_two_writers_each_in_its_own_loop() -> None:
    sch = schedule(HALVES)
    sch.parallel(loops(sch, "hi")[0])
    sch.vectorize(loops(sch, "lo")[0])
    same_results(parse(HALVES), sch.mod["main"])
    sch = schedule(HALVES)
    sch.bind(loops(sch, "hi")[0], "threadIdx.x")
    sch = schedule(ZEROED)
    sch.vectorize(loops(sch, "init")[0])
    same_results(parse(ZEROED), sch.mod["main"])


def test_125_two_writers_in_one_loop_are_refused() -> None:
    both = """
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(8):
        with T.block("one"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
        with T.block("two"):
            v = T.axis.spatial(8, i)
            B[v + 1] = A[v]
"""
    sch = schedule(both)
    with pytest.raises(ScheduleError, match="only writer"):
        sch.parallel(loops(sch, "one")[0])


def test_126_tiles_of_a_symbolic_loop() -> None:
    sch = schedule(SYMBOLIC)
    (i,) = loops(sch, "B")
    tiles = sch.sample_perfect_tile(i, n=3)
    assert tiles[0] is None and [sch.get(t) for t in tiles[1:]] == [1, 1]
    new = sch.split(i, tiles)
    assert [str(sch.get(loop).extent) for loop in new] == ["n * T.int64(16)", "T.int64(1)", "T.int64(1)"]
    from tvmagic.tir.schedule.testing import verify_trace_roundtrip

    verify_trace_roundtrip(sch, parse(SYMBOLIC))


TEN = """
def main(A: T.Buffer((10, 14), "float32"), B: T.Buffer((10, 14), "float32")):
    for i, j in T.grid(10, 14):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
"""


def test_127_partitions_of_partitions_read_what_they_need() -> None:
    sch = schedule(TEN)
    sch.loop_partition(loops(sch, "B")[0], [3, None])
    sch.loop_partition(loops(sch, "B_i0")[1], [5, None])
    for name, reads in (("B_i0_j0", "A[0:3, 0:5]"), ("B_i0_j1", "A[0:3, 5:14]"), ("B_i1", "A[3:10, 0:14]")):
        found = [str(r) for r in block(sch, name if name != "B_i1" else "B_i1").reads]
        assert found in ([reads], ["A[vi, vj]"]), name
    print(sch.mod.script())


def test_the_parts_of_a_loop_bind_variables_of_their_own() -> None:
    """A variable that a body binds is one in each of the parts: the text reads back as what it was."""
    sch = schedule("""
        def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    x: T.int32 = A[v] * 2
                    B[v] = x * x
    """)
    sch.loop_partition(loops(sch, "B")[0], [3, None])
    assert_structural_equal(from_source(sch.mod["main"].script()), sch.mod["main"])


REVERSED = """
def main(X: T.Buffer((6, 6), "float32"), Z: T.Buffer((6, 6), "float32")):
    Y = T.alloc_buffer((6, 6))
    for i, j in T.grid(6, 6):
        with T.block("p"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[5 - vi, 5 - vj] = X[vi, vj]
    for i, j in T.grid(6, 6):
        with T.block("c"):
            vi, vj = T.axis.remap("SS", [i, j])
            Z[vi, vj] = Y[vj, vi] * T.float32(2)
"""
REVERSED_AFTER = """
def main(X: T.Buffer((6, 6), "float32"), Z: T.Buffer((6, 6), "float32")):
    # with T.block("root"):
    Y = T.alloc_buffer((6, 6))
    for i in range(6):
        for ax0 in range(6):
            with T.block("p"):
                vi = T.axis.spatial(6, ax0)
                vj = T.axis.spatial(6, 5 - i)
                T.reads(X[vi, vj])
                T.writes(Y[5 - vi, 5 - vj])
                Y[5 - vi, 5 - vj] = X[vi, vj]
        for j in range(6):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(Y[vj, vi])
                T.writes(Z[vi, vj])
                Z[vi, vj] = Y[vj, vi] * T.float32(2)
"""


def test_128_compute_at_inverts_negative_and_transposed_indices() -> None:
    sch = schedule(REVERSED)
    sch.compute_at(sch.get_block("p"), loops(sch, "c")[0])
    expect(sch, REVERSED, REVERSED_AFTER)


CONCATENATED = """
def main(X: T.Buffer((12,), "float32"), Y: T.Buffer((12,), "float32"), Z: T.Buffer((20,), "float32"),
         C: T.Buffer((35,), "float32")):
    X1 = T.alloc_buffer((12,))
    K = T.alloc_buffer((44,))
    for i in range(12):
        with T.block("X1"):
            v = T.axis.spatial(12, i)
            X1[v] = X[v] * T.float32(2)
    for i in range(44):
        with T.block("K"):
            v = T.axis.spatial(44, i)
            K[v] = T.if_then_else(32 <= v, X1[v - 32], T.if_then_else(20 <= v, Y[v - 20], Z[v]))
    for i in range(1):
        for j in range(35):
            with T.block("C"):
                v = T.axis.spatial(35, j)
                C[v] = K[v] + T.float32(1)
"""


def test_129_compute_at_computes_just_what_a_condition_lets_through() -> None:
    sch = schedule(CONCATENATED)
    sch.compute_at(sch.get_block("K"), loops(sch, "C")[0])
    sch.compute_at(sch.get_block("X1"), loops(sch, "C")[0])
    (inner,) = [sch.get(loop) for loop in loops(sch, "X1")[1:]]
    assert int(inner.extent) == 3
    assert "T.where" not in sch.mod["main"].script()
    same_results(parse(CONCATENATED), sch.mod["main"])


LEVELS = """
def main(A: T.Buffer((1, 8, 2, 2), "float32"), C: T.Buffer((3, 32), "float32")):
    B = T.alloc_buffer((1, 8, 2, 2))
    for z, a, b, c in T.grid(1, 8, 2, 2):
        with T.block("B"):
            vz, va, vb, vc = T.axis.remap("SSSS", [z, a, b, c])
            B[vz, va, vb, vc] = A[vz, va, vb, vc] * T.float32(2)
    for ci, cj in T.grid(3, 32):
        with T.block("C"):
            w, v = T.axis.remap("SS", [ci, cj])
            C[w, v] = B[w // 8, v // 4, v % 4 // 2, v % 2]
"""


def test_130_reverse_compute_at_solves_several_levels() -> None:
    sch = schedule(LEVELS)
    sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[1])
    ax0, ax1 = [sch.get(loop) for loop in loops(sch, "C")[2:]]
    assert (int(ax0.extent), int(ax1.extent)) == (3, 4)
    realize = sch.state.realize_of(sch.get_sref(sch.get_block("C")))
    assert [str(v) for v in realize.iter_values] == ["ax0", "a * 4 + ax1"]
    same_results(parse(LEVELS), sch.mod["main"])


DYNAMIC = """
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, (4, n))
    C = T.match_buffer(c, (n * 4,))
    B = T.alloc_buffer((4, n))
    for i, j in T.grid(4, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for k in range(n * 4):
        with T.block("C"):
            q = T.axis.spatial(n * 4, k)
            C[q] = B[q // n, q % n]
"""


@pytest.mark.parametrize("at", [0, 1])
def test_131_no_condition_that_holds_for_symbolic_sizes(at: int) -> None:
    sch = schedule(DYNAMIC)
    sch.reverse_compute_at(sch.get_block("C"), loops(sch, "B")[at])
    assert "T.where" not in sch.mod["main"].script()


PREDICATED = """
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where(i < 7)
            B[v] = A[v] * T.float32(2)
    for i in range(7):
        with T.block("C"):
            v = T.axis.spatial(7, i)
            C[v] = B[v] + T.float32(1)
"""


def test_132_the_producer_s_condition_stands_once() -> None:
    sch = schedule(PREDICATED)
    sch.reverse_compute_inline("C")
    text = script(sch.mod["main"])
    assert text.count("T.where(i < 7)") == 1 and "and" not in text
    same_results(parse(PREDICATED), sch.mod["main"])


def test_133_other_blocks_need_not_be_a_pipeline() -> None:
    text = PREDICATED.replace(
        'C: T.Buffer((7,), "float32")', 'C: T.Buffer((7,), "float32"), E: T.Buffer((8,), "float32")'
    )
    text = text.replace(
        "    B = T.alloc_buffer((8,))\n",
        """    B = T.alloc_buffer((8,))
    D = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = A[v]
    for i in range(8):
        with T.block("E"):
            v = T.axis.spatial(8, i)
            E[v] = D[v]
""",
    )
    sch = schedule(text)
    sch.reverse_compute_inline("C")
    assert script(sch.mod["main"]).count("T.where(i < 7)") == 1
    shorter = schedule(text.replace("T.where(i < 7)", "T.where(i < 6)"))
    with pytest.raises(ScheduleError):
        shorter.reverse_compute_inline("C")


POINTER = """
def main(A: T.Buffer((8,), "float32"), table: T.Buffer((1024,), "int8"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + T.float32(1)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.reads(B[v], table[0:1024])
            T.writes(C[v])
            T.evaluate(T.tvm_access_ptr(T.type_annotation("int8"), table.data, 0, 1024, {mask}))
            C[v] = T.exp(B[v])
"""


@pytest.mark.parametrize(
    ("mask", "reads", "writes"),
    [
        (1, ["table[0:1024]", "A[v]"], ["C[v]"]),
        (2, ["A[v]"], ["table[0:1024]", "C[v]"]),
        (3, ["A[v]", "table[0:1024]"], ["C[v]", "table[0:1024]"]),
    ],
)
def test_134_the_mask_of_a_pointer_tells_what_it_does(mask: int, reads: list[str], writes: list[str]) -> None:
    sch = schedule(POINTER.format(mask=mask))
    sch.compute_inline("B")
    c = block(sch, "C")
    assert ([str(r) for r in c.reads], [str(w) for w in c.writes]) == (reads, writes)


CONSTANT = """
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    B = T.alloc_buffer((4,))
    K = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            W = T.Buffer((4,), data=K)
            B[v] = A[v] * W[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + T.float32(1)
"""


def test_135_mere_views_are_not_listed_in_regions() -> None:
    sch = schedule(CONSTANT)
    assert [str(r) for r in block(sch, "B").reads] == ["A[v]"]
    sch.compute_inline("B")
    assert [str(r) for r in block(sch, "C").reads] == ["A[v]"]
    same_results(parse(CONSTANT), sch.mod["main"])


def tiled_product(scope: str) -> tir.Schedule:
    """A product of 32 x 32 matrices by 8 x 8 threads, which copy each tile of an input to memory of `scope`."""
    a, b = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), "k")
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    block = sch.get_block("C")
    (i0, i1), (j0, j1), (k0, k1) = [sch.split(loop, [None, 8]) for loop in sch.get_loops(block)]
    sch.reorder(i0, j0, i1, j1, k0, k1)
    for loop, thread in zip((i0, j0, i1, j1), ("blockIdx.x", "blockIdx.y", "threadIdx.y", "threadIdx.x")):
        sch.bind(loop, thread)
    for index in range(2):
        copy = sch.cache_read(block, index, scope)
        sch.compute_at(copy, k0)
        for loop, thread in zip(sch.get_loops(copy)[-2:], ("threadIdx.y", "threadIdx.x")):
            sch.bind(loop, thread)
    return sch


def test_threads_load_a_tile_together() -> None:
    sch = tiled_product("shared")
    assert sch.mod["main"].script().count('thread="threadIdx.x"') == 3
    a, b = (np.random.default_rng(n).random((32, 32)).astype("float32") for n in range(2))
    c = np.zeros_like(a)
    tvm.build(sch.mod)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_thread_does_not_load_its_own_memory_with_others() -> None:
    with pytest.raises(ScheduleError, match="`threadIdx.y`"):
        tiled_product("local")


@pytest.mark.parametrize(
    ("inner", "thread"),
    [
        ("S[vi, vj] = A[vi, vj] + T.Cast('float32', i)", "threadIdx.x"),  # another value for each thread
        ("S[vi, vj] = A[vi, vj]", "blockIdx.x"),  # memory that blocks do not share
    ],
)
def test_threads_that_would_do_anothers_work(inner: str, thread: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    S = T.alloc_buffer((4, 4), scope="shared")
    for i in range(4):
        for j, k in T.grid(4, 4):
            with T.block("S"):
                vi, vj = T.axis.remap("SS", [j, k])
                T.reads(A[vi, vj])
                T.writes(S[vi, vj])
                {inner}
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = S[vi, vj]
""")
    sch = tir.Schedule(func)
    i, j, _ = sch.get_loops("S")
    sch.bind(j, thread)
    with pytest.raises(ScheduleError, match=f"is bound to `{thread}` already"):
        sch.bind(i, thread)


def test_virtual_threads_of_one_name_are_one_axis() -> None:
    """A nest counts each of them once, and the loops of one kernel that are bound to them are of one extent."""
    sch = schedule("""
        def main(A: T.Buffer((48,), "int32"), B: T.Buffer((48,), "int32"), C: T.Buffer((24,), "int32")):
            for t in T.thread_binding(1, thread="blockIdx.x"):
                for i in range(48):
                    with T.block("B"):
                        v = T.axis.spatial(48, i + t)
                        B[v] = A[v] * 3
                for i in range(24):
                    with T.block("C"):
                        v = T.axis.spatial(24, i + t)
                        C[v] = A[v] * 2
    """)
    _, outer, inner = sch.get_loops("B")[0], *sch.split(sch.get_loops("B")[1], [16, 3])
    sch.bind(outer, "vthread.x")
    with pytest.raises(ScheduleError, match="`vthread.x`"):
        sch.bind(inner, "vthread.x")
    sch.bind(sch.get_loops("C")[1], "vthread.x")
    with pytest.raises(tvm.TVMagicError, match="16.*24"):
        tir.transform.LiftThreadBinding()(sch.mod)
