"""Passes on memory: flattening, sharing, compaction, if buffers are allocated."""

import math
import re

import numpy as np
import pytest
from pass_checks import check, module, script

import tvmagic
from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir import (
    Allocate,
    Block,
    Buffer,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    FloatImm,
    IntImm,
    IRModule,
    PrimExpr,
    PrimFunc,
    Range,
    Var,
    decl_buffer,
    post_order_visit,
    stmt_seq,
    substitute,
)
from tvmagic.ir.functor import ir_transform
from tvmagic.ir.query import nodes_of
from tvmagic.passes import PassContext, recording
from tvmagic.script import from_source
from tvmagic.tir import Schedule
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.transform import (
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    FlattenBuffer,
    LowerInitBlock,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    PlanAndUpdateBufferAllocationLocation,
    Simplify,
    StorageFlatten,
    StorageRewrite,
)


def test_flatten_buffer() -> None:
    mod = module(
        """
        def main(A: T.Buffer((4, 8), "float32")):
            B = T.decl_buffer((4, 8), "bool")
            for i, j in T.grid(4, 8):
                B[i, j] = A[i, j] < T.float32(1)
                if B[i, j]:
                    A[i, j] = T.float32(0)
        """
    )
    assert script(FlattenBuffer()(mod)).split("\n")[2:] == [
        '    B = T.allocate([32], "int8", "global")',
        "    for i, j in T.grid(4, 8):",
        '        B_1 = T.Buffer((32,), "int8", data=B)',
        "        A_1 = T.Buffer((32,), data=A.data)",
        '        B_1[i * 8 + j] = T.Cast("int8", A_1[i * 8 + j] < T.float32(1.0))',
        '        if T.Cast("bool", B_1[i * 8 + j]):',
        "            A_1[i * 8 + j] = T.float32(0.0)",
    ]


def test_flatten_puts_a_fused_loop_together_again() -> None:
    text = script(
        FlattenBuffer()(
            module('def main(A: T.Buffer((4, 8), "int32")):\n    for f in range(32):\n        A[f // 8, f % 8] = f')
        )
    )
    assert "[f] = f" in text


def test_memory_is_shared_by_what_does_not_live_together() -> None:
    before = """
        def main(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float32")):
            B = T.allocate([64], "float32", "global")
            C = T.allocate([64], "float32", "global")
            E = T.allocate([64], "float32", "global")
            b = T.Buffer((64,), data=B)
            c = T.Buffer((64,), data=C)
            e = T.Buffer((64,), data=E)
            for i in range(64):
                b[i] = A[63 - i]
            for i in range(64):
                c[i] = b[63 - i]
            for i in range(64):
                e[i] = c[63 - i]
            for i in range(64):
                D[i] = e[63 - i]
        """
    with recording() as record:
        result = StorageRewrite()(module(before))
    assert script(result).count("T.allocate") == 2  # e takes b's memory
    assert [n.facts for n in record.notes("storage.reuse")] == [{}]


def test_memory_is_used_in_place() -> None:
    text = script(
        StorageRewrite()(
            module(
                """
        def main(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float32")):
            B = T.allocate([64], "float32", "global")
            C = T.allocate([64], "float32", "global")
            b = T.Buffer((64,), data=B)
            c = T.Buffer((64,), data=C)
            for i in range(64):
                b[i] = A[63 - i]
            for i in range(64):
                c[i] = b[i] + T.float32(1)
            for i in range(64):
                D[i] = c[i]
        """
            )
        )
    )
    assert text.count("T.allocate") == 1


def test_allocations_move_out_of_serial_loops_and_stay_in_parallel_ones() -> None:
    before = """
        def main(A: T.Buffer((64,), "float32")):
            for i in range(8):
                B = T.allocate([8], "float32", "global")
                b = T.Buffer((8,), data=B)
                for j in range(8):
                    b[j] = A[i * 8 + j]
                for j in range(8):
                    A[i * 8 + j] = b[7 - j]
        """
    serial = script(StorageRewrite()(module(before)))
    assert serial.index("T.allocate") < serial.index("for i")
    parallel = script(StorageRewrite()(module(before.replace("i in range(8)", "i in T.parallel(8)"))))
    assert parallel.index("T.allocate") > parallel.index("for i")


def test_a_buffer_of_vectors_gets_vector_elements() -> None:
    text = script(
        StorageRewrite()(
            module(
                """
        def main(A: T.Buffer((64,), "float32")):
            B = T.allocate([64], "float32", "global")
            b = T.Buffer((64,), data=B)
            for i in range(8):
                b[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8]
            for i in range(8):
                A[i * 8:i * 8 + 8] = b[56 - i * 8:56 - i * 8 + 8]
        """
            )
        )
    )
    assert 'T.allocate([8], "float32x8", "global")' in text


BLOCKS = """
        def main(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
            B = T.alloc_buffer((16, 16))
            for i in range(16):
                for j in range(16):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for j in range(16):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] + T.float32(1)
        """


def test_a_buffer_is_allocated_where_it_is_used_and_made_small() -> None:
    passes = [PlanAndUpdateBufferAllocationLocation(), ConvertBlocksToOpaque(), CompactBufferAllocation(), Simplify()]
    mod = module(BLOCKS)
    with recording() as record:
        for one in passes:
            mod = one(mod)
    text = script(mod)
    assert "B = T.alloc_buffer((1, 16))" in text and "B[0, j]" in text
    assert record.notes("plan.location") and record.notes("compact")


def test_storage_align_pads_rows() -> None:
    text = BLOCKS.replace(
        'with T.block("B"):',
        'with T.block("B"):\n                        T.block_attr({"buffer_dim_align": [[0, 0, 16, 4]]})',
    )
    mod = module(text)
    for one in (ConvertBlocksToOpaque(), CompactBufferAllocation(), LowerOpaqueBlock(), FlattenBuffer()):
        mod = one(mod)
    assert "i * 20" in script(mod)


COPIED = """
        def main(a: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (SIZE, 5))
            C = T.match_buffer(c, (SIZE, 5))
            B = T.alloc_buffer((SIZE, 5))
            for i, j in T.grid(SIZE, 5):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for i, j in T.grid(SIZE, 5):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)
        """


def _at_six(size: PrimExpr) -> int:
    """A size whose one variable is 6."""
    used: list[Var] = []
    post_order_visit(size, lambda n: used.append(n) if isinstance(n, Var) else None)
    value = Analyzer().simplify(substitute(size, dict.fromkeys(used, IntImm("int32", 6))))
    assert isinstance(value, IntImm)
    return value.value


@pytest.mark.parametrize("size", ["6", "n"])
@pytest.mark.parametrize(
    "alignments", [[(0, 8, 0)], [(1, 8, 0)], [(0, 3, 1), (1, 8, 0)], [(0, 5, 2), (1, 4, 3)], [(0, 16, 4)]]
)
def test_aligned_buffers_have_memory_for_all_of_their_elements(
    size: str, alignments: list[tuple[int, int, int]]
) -> None:
    sch = Schedule(module(COPIED.replace("SIZE", size)))
    for axis, factor, offset in alignments:
        sch.storage_align("B", 0, axis, factor, offset)
    mod = sch.mod
    for one in (ConvertBlocksToOpaque(), CompactBufferAllocation(), LowerOpaqueBlock()):
        mod = one(mod)
    found: list[Allocate | DeclBuffer] = []
    post_order_visit(mod["main"], lambda n: found.append(n) if isinstance(n, (Allocate, DeclBuffer)) else None)
    declared, allocated = found
    assert isinstance(declared, DeclBuffer) and isinstance(allocated, Allocate)
    steps = [(_at_six(s), _at_six(stride)) for s, stride in zip(declared.buffer.shape, declared.buffer.strides)]
    assert math.prod(_at_six(e) for e in allocated.extents) > sum((s - 1) * stride for s, stride in steps)
    for axis, factor, offset in alignments:
        assert steps[axis][1] % factor == offset
    for check_bounds in (False, True):
        a, c = np.random.default_rng(0).random((6, 5), "float32"), np.zeros((6, 5), "float32")
        tvmagic.build(sch.mod, check_bounds=check_bounds)(a, c)
        np.testing.assert_array_equal(c, a * 2 + 1)


def test_a_buffer_of_a_block_has_room_for_its_offset() -> None:
    text = """
        def main(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
            B = T.alloc_buffer((6, 8), "int32", elem_offset=13)
            for i, j in T.grid(6, 8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + vi
            for i, j in T.grid(6, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[5 - vi, vj]
        """
    mod = module(text)
    for one in (ConvertBlocksToOpaque(), CompactBufferAllocation(), LowerOpaqueBlock()):
        mod = one(mod)
    assert "T.allocate([8, 8]" in script(mod)  # six rows, and two that hold what is before them


COPIED_BACK = """
        def main(q: T.handle, p: T.handle):
            n = T.int32()
            Q = T.match_buffer(q, (n,))
            S = T.match_buffer(p, (n + 2, 8), "int16")
            for i, j in T.grid(n + 2, 8):
                with T.block("S"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    S[vi, vj] = T.Cast("int16", vi * 8 + vj)
        """


def test_a_symbolic_size_that_a_loop_changes_leaves_the_axis_whole() -> None:
    sch = Schedule(module(COPIED_BACK))
    sch.write_at(sch.get_loops("S")[0], "S", 0, "shared")
    sch.reindex_cache_write("S", 0, "shared", lambda i, j: [i, j // 2, j % 2])
    for check_bounds in (False, True):
        got = np.zeros((5, 8), "int16")
        tvmagic.build(sch.mod, check_bounds=check_bounds)(np.zeros(3, "float32"), got)
        np.testing.assert_array_equal(got.reshape(-1), np.arange(40))


def test_matched_buffers_become_accesses_of_what_they_match() -> None:
    check(
        [LowerMatchBuffer(), ConvertBlocksToOpaque(), LowerOpaqueBlock(), Simplify()],
        """
        def main(A: T.Buffer((16, 16), "float32")):
            for i in range(4):
                with T.block("b"):
                    s = T.int32()
                    V = T.match_buffer(A[i * 4:i * 4 + 4, 0:16], (4, 16), strides=(s, 1), offset_factor=1)
                    V[1, 2] = T.float32(3)
                    T.evaluate(s)
        """,
        """
        def main(A: T.Buffer((16, 16), "float32")):
            for i in range(4):
                A[i * 4 + 1, 2] = T.float32(3)
                T.evaluate(16)
        """,
    )


def test_a_match_of_another_type_is_refused() -> None:
    mod = module(
        """
        def main(A: T.Buffer((16,), "float32")):
            with T.block("b"):
                V = T.match_buffer(A[0:4], (4,), "int32", offset_factor=1)
                V[0] = 1
        """
    )
    with pytest.raises(TVMagicError, match="buffer `V` of int32"):
        LowerMatchBuffer()(mod)


def test_passes_on_blocks_say_what_must_run_before() -> None:
    init = module(
        """
        def main(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
            C = T.alloc_buffer((1,))
            for k in range(16):
                with T.block("sum"):
                    vk = T.axis.reduce(16, k)
                    with T.init():
                        C[0] = T.float32(0)
                    C[0] = C[0] + A[vk]
            with T.block("out"):
                B[0] = C[0]
        """
    )
    for needs_lowered in (ConvertBlocksToOpaque(), PlanAndUpdateBufferAllocationLocation()):
        with pytest.raises(TVMagicError, match="`sum`.*`init`") as caught:
            needs_lowered(init)
        assert caught.value.hint == "run LowerInitBlock first"
    with pytest.raises(TVMagicError, match="`sum` still binds variables"):
        LowerOpaqueBlock()(LowerInitBlock()(init))


def te_function(*statements) -> IRModule:
    """A module as SchedulePostProcToPrimFunc makes them, without parameters."""
    func = PrimFunc([], stmt_seq(*statements)).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    return IRModule({"main": func})


def realized(buffer: Buffer, body) -> BufferRealize:
    return BufferRealize(buffer, [Range(0, s) for s in buffer.shape], True, body)


def test_storage_flatten_refuses_accesses_outside_of_a_realization() -> None:
    buffer = decl_buffer((4,), "float32", "B")
    store = BufferStore(buffer, FloatImm("float32", 0), [0])
    assert "T.allocate([4]" in script(StorageFlatten(64)(te_function(realized(buffer, store))))
    with pytest.raises(TVMagicError, match="`B`"):
        StorageFlatten(64)(te_function(realized(buffer, store), store))
    with pytest.raises(TVMagicError, match="`B` is realized twice"):
        StorageFlatten(64)(te_function(realized(buffer, store), realized(buffer, store)))


def test_storage_align_of_te_becomes_strides() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 8), lambda i, j: b[j, i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].storage_align(b.op.axis[0], 16, 4)
    assert "* 20" in script(tvmagic.lower(s, [a, c]))


def test_bounds_are_checked_where_asked_for() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i + 1], name="B")
    s = te.create_schedule(b.op)
    with PassContext(config={"tir.instrument_bound_checkers": True}):
        text = script(tvmagic.lower(s, [a, b]))
    assert "OUT OF THE BOUNDS" in text and "buffer_bound" not in text


def carried(R: str, kind: str) -> str:
    return f"""
        @T.prim_func
        def main(A: T.Buffer((20,), "float32"), C: T.Buffer((20,), "float32")):
            B = T.alloc_buffer(({R},))
            for i in range(20):
                with T.block("put"):
                    vi = T.axis.{kind}(20, i)
                    T.reads(A[vi])
                    T.writes(B[vi % {R}])
                    B[vi % {R}] = A[vi]
                with T.block("get"):
                    vi = T.axis.{kind}(20, i)
                    T.reads(B[0:{R}])
                    T.writes(C[vi])
                    C[vi] = B[vi % {R}] + B[(vi + {R} - 1) % {R}]
        """


@pytest.mark.parametrize("kind", ["opaque", "scan"])
def test_what_opaque_iterations_carry_is_allocated_around_them(kind: str) -> None:
    mod = module(carried("3", kind))
    text = script(PlanAndUpdateBufferAllocationLocation()(mod))
    assert text.index("alloc_buffer") < text.index("for i")
    a, c = np.arange(20, dtype="float32"), np.zeros(20, "float32")
    tvmagic.build(mod)(a, c)
    np.testing.assert_array_equal(c[1:], a[1:] + a[:-1])


@pytest.mark.parametrize("side", ["reads", "writes"])
def test_a_block_is_not_said_to_use_what_it_allocates(side: str) -> None:
    """Also if the buffer stays where it is."""
    (planned,) = PlanAndUpdateBufferAllocationLocation()(module(carried("3", "spatial"))).functions.values()
    (inside,) = [b for b in nodes_of(planned.body, Block) if b.alloc_buffers]
    (buffer,) = inside.alloc_buffers
    region = BufferRegion(buffer, [Range(0, size) for size in buffer.shape])
    more = inside.replace(**{side: (*getattr(inside, side), region)})
    changed = planned.replace(body=ir_transform(planned.body, lambda node: more if node is inside else None, None))
    (again,) = PlanAndUpdateBufferAllocationLocation()(IRModule({"main": changed})).functions.values()
    (after,) = [b for b in nodes_of(again.body, Block) if b.alloc_buffers]
    assert [r.buffer for r in getattr(after, side)] == [r.buffer for r in getattr(inside, side)]


def test_what_spatial_iterations_use_is_allocated_inside() -> None:
    text = script(PlanAndUpdateBufferAllocationLocation()(module(carried("3", "spatial"))))
    assert text.index("for i") < text.index("alloc_buffer")


def test_a_block_inside_of_an_opaque_one_carries_too() -> None:
    mod = module(
        """
        @T.prim_func
        def main(A: T.Buffer((20,), "float32"), C: T.Buffer((20,), "float32")):
            B = T.alloc_buffer((3,))
            for i in range(20):
                with T.block("outer"):
                    vo = T.axis.opaque(20, i)
                    T.reads(A[vo], B[0:3])
                    T.writes(B[0:3], C[vo])
                    with T.block("put"):
                        vi = T.axis.spatial(20, vo)
                        T.reads(A[vi])
                        T.writes(B[vi % 3])
                        B[vi % 3] = A[vi]
                    with T.block("get"):
                        vi = T.axis.spatial(20, vo)
                        T.reads(B[0:3])
                        T.writes(C[vi])
                        C[vi] = B[vi % 3] + B[(vi + 2) % 3]
        """
    )
    text = script(PlanAndUpdateBufferAllocationLocation()(mod))
    assert text.index("alloc_buffer") < text.index("for i")


ROWS_APART = """
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
        B = T.alloc_buffer((8, 16))
        for i, j in T.grid(8, 16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(8, 16):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
    """


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("where", [("B", "read"), ("B", "write"), ("C", "write")])
def test_rows_that_are_apart_are_rows_in_flat_memory(where: tuple[str, str], vector: bool) -> None:
    s = tvmagic.tir.Schedule(module(ROWS_APART))
    s.set_axis_separator(where[0], (where[1], 0), [1])
    for name in ("B", "C") if vector else ():
        s.vectorize(s.get_loops(name)[-1])
    a, c = np.arange(128, dtype="float32").reshape(8, 16), np.zeros((8, 16), "float32")
    tvmagic.build(s.mod)(a, c)
    np.testing.assert_array_equal(c, a * 2 + 1)
    c[...] = 0
    run_function(tvmagic.lower(s.mod)["main"], [a, c])
    np.testing.assert_array_equal(c, a * 2 + 1)


READ_TWICE = """
        def main(I: T.Buffer((4,), "int32"), A: T.Buffer((8,), "float32"), C: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    T.reads(I[vi], A[0:8])
                    T.writes(I[vi], C[vi])
                    B = T.alloc_buffer((8,))
                    B[I[vi]] = A[I[vi]]
                    B[I[vi] + 1] = A[I[vi] + 1]
                    I[vi] = I[vi] + 1
                    C[vi] = B[I[vi]]
        """


def test_an_axis_is_whole_where_the_region_depends_on_data() -> None:
    mod = module(READ_TWICE)
    text = script(CompactBufferAllocation()(ConvertBlocksToOpaque()(mod)))
    assert "B = T.alloc_buffer((8,))" in text
    i, a, c = np.array([5, 0, 3, 2], "int32"), np.arange(8, dtype="float32"), np.zeros(4, "float32")
    tvmagic.build(mod, check_bounds=True)(i, a, c)
    np.testing.assert_array_equal(c, [6, 1, 4, 3])


def test_memory_of_an_open_size_is_taken_again_by_a_buffer_of_the_same_scope_and_type() -> None:
    text = """
@T.prim_func
def f(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    X = T.allocate([n], "float32", "global")
    Xb = T.Buffer((n,), data=X)
    for i in range(n):
        Xb[i] = A[i] * 2.0
    for i in range(n):
        A[i] = Xb[i] + 1.0
    Y = T.allocate([n], "TYPE", "SCOPE")
    Yb = T.Buffer((n,), "TYPE", data=Y, scope="SCOPE")
    for i in range(n):
        Yb[i] = T.Cast("TYPE", A[i])
    for i in range(n):
        A[i] = T.Cast("float32", Yb[i])
"""
    for dtype, scope, count in (("float32", "global", 1), ("int32", "global", 2), ("float32", "shared", 2)):
        after = StorageRewrite()(module(text.replace("TYPE", dtype).replace("SCOPE", scope)))
        assert after.script().count("T.allocate(") == count, (dtype, scope)


def test_opaque_blocks_with_matched_buffers_are_lowered_later() -> None:
    mod = module(
        """
        def main(A: T.Buffer((16,), "float32")):
            with T.block("b"):
                T.reads()
                T.writes(A[4:8])
                M = T.match_buffer(A[4:8], (4,), offset_factor=1)
                M[0] = T.float32(1)
        """
    )
    with pytest.raises(TVMagicError, match="`b`.*`M`"):
        LowerOpaqueBlock()(mod)
    assert "A[4] = T.float32(1.0)" in script(LowerOpaqueBlock()(LowerMatchBuffer()(mod)))


@pytest.mark.parametrize(("count", "wide"), [((1 << 26) + 8, True), (1 << 26, True), ((1 << 26) - 8, False)])
def test_bits_that_no_int32_holds_are_counted_in_int64(count: int, wide: bool) -> None:
    """Memory of two types is shared by their bits: 2**26 float32 are 2**31."""
    text = f"""
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    P = T.allocate([{count}], "float32", "global")
    Q = T.allocate([{4 * count}], "int8", "global")
    P_1 = T.Buffer(({count},), data=P)
    Q_1 = T.Buffer(({4 * count},), "int8", data=Q)
    for i in range(8):
        P_1[i] = A[i]
    for i in range(8):
        B[i] = P_1[i]
    for i in range(8):
        Q_1[i] = T.Cast("int8", B[i])
    for i in range(8):
        B[i] = T.Cast("float32", Q_1[i])
"""
    found = str(StorageRewrite()(IRModule({"main": from_source(text)})))
    assert re.findall(r"T.allocate\((.*)\)", found) == [
        f'[{"T.int64(" * wide}{count}{")" * wide}], "float32", "global"'
    ]


def test_views_of_fewer_dimensions_have_the_strides_of_the_last_ones() -> None:
    text = """
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((4, 6, 8), "float32"), C: T.Buffer((4, 6, 8), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            s = T.int32()
            t = T.int32()
            M = T.match_buffer(A[v, 0:6, 0:8], (6, 8), strides=(s, t), offset_factor=1)
            for j, k in T.grid(6, 8):
                C[v, j, k] = M[j, k] + T.Cast("float32", s * 10 + t)
"""
    a, c = np.arange(192, dtype="float32").reshape(4, 6, 8), np.zeros((4, 6, 8), "float32")
    tvmagic.build(IRModule({"main": from_source(text).with_attr("global_symbol", "main")}))(a, c)
    assert (c == a + 81).all()


def test_a_branch_that_is_never_taken_leaves_nothing() -> None:
    text = """
from tvm.script import tir as T

@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    if n * 0 > 2:
        A[0] = T.float32(1)
"""
    last = str(Simplify()(IRModule({"main": from_source(text)}))).splitlines()[-1]
    assert last.strip() == "T.evaluate(0)"


def test_memory_whose_offset_nothing_defines_begins_where_it_is_allocated() -> None:
    text = """
        def main(A: T.Buffer((8,), "float32"), o: T.int32):
            with T.block("root"):
                B = T.alloc_buffer((8,))
                C = T.alloc_buffer((8,))
                for i in range(8):
                    with T.block("B"):
                        T.reads(A[i])
                        T.writes(B[i], C[i])
                        B[i] = A[i]
                        C[i] = A[i]"""
    func = module(text)["main"]
    root = func.body.block
    b, c = root.alloc_buffers
    open_, given = b.replace(elem_offset=Var("off", "int32")), c.replace(elem_offset=func.params[1])
    func = func.with_body(BufferReplacer({b: open_, c: given}).visit(func.body))
    new = LowerOpaqueBlock()(IRModule({"main": func}))["main"]
    offsets = {n.buffer.name: n.buffer.elem_offset for n in nodes_of(new.body, BufferStore)}
    assert str(offsets["B"]) == "0" and offsets["C"] is func.params[1]
