"""Passes on memory: flattening, sharing, compaction, if buffers are allocated."""

import math

import numpy as np
import pytest
from pass_checks import module, script
from refusals import refuses

import tvmagic
from tvmagic import ir, te
from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.ir.query import nodes_of
from tvmagic.passes import recording
from tvmagic.script import from_source
from tvmagic.tir import Schedule
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.transform import (
    CompactBufferAllocation,
    ConvertBlocksToOpaque,
    LowerInitBlock,
    LowerOpaqueBlock,
    PlanAndUpdateBufferAllocationLocation,
    Simplify,
    StorageFlatten,
    StorageRewrite,
)


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


def _at_six(size: ir.PrimExpr) -> int:
    """A size whose one variable is 6."""
    used: list[ir.Var] = []
    ir.post_order_visit(size, lambda n: used.append(n) if isinstance(n, ir.Var) else None)
    value = Analyzer().simplify(ir.substitute(size, dict.fromkeys(used, ir.IntImm("int32", 6))))
    assert isinstance(value, ir.IntImm)
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
    found: list[ir.Allocate | ir.DeclBuffer] = []
    ir.post_order_visit(mod["main"], lambda n: found.append(n) if isinstance(n, (ir.Allocate, ir.DeclBuffer)) else None)
    declared, allocated = found
    assert isinstance(declared, ir.DeclBuffer) and isinstance(allocated, ir.Allocate)
    steps = [(_at_six(s), _at_six(stride)) for s, stride in zip(declared.buffer.shape, declared.buffer.strides)]
    assert math.prod(_at_six(e) for e in allocated.extents) > sum((s - 1) * stride for s, stride in steps)
    for axis, factor, offset in alignments:
        assert steps[axis][1] % factor == offset
    for check_bounds in (False, True):
        a, c = np.random.default_rng(0).random((6, 5), "float32"), np.zeros((6, 5), "float32")
        tvmagic.build(sch.mod, check_bounds=check_bounds)(a, c)
        np.testing.assert_array_equal(c, a * 2 + 1)


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
    with refuses("tir.lower_opaque_block.variables_left", names="`sum`"):
        LowerOpaqueBlock()(LowerInitBlock()(init))


def te_function(*statements) -> ir.IRModule:
    """A module as SchedulePostProcToPrimFunc makes them, without parameters."""
    func = ir.PrimFunc([], ir.stmt_seq(*statements)).with_attr(
        {"from_legacy_te_schedule": True, "global_symbol": "main"}
    )
    return ir.IRModule({"main": func})


def realized(buffer: ir.Buffer, body) -> ir.BufferRealize:
    return ir.BufferRealize(buffer, [ir.Range(0, s) for s in buffer.shape], True, body)


def test_storage_flatten_refuses_accesses_outside_of_a_realization() -> None:
    buffer = ir.decl_buffer((4,), "float32", "B")
    store = ir.BufferStore(buffer, ir.FloatImm("float32", 0), [0])
    assert "T.allocate([4]" in script(StorageFlatten(64)(te_function(realized(buffer, store))))
    with pytest.raises(TVMagicError, match="`B`"):
        StorageFlatten(64)(te_function(realized(buffer, store), store))
    with refuses("tir.storage_flatten.realized_twice", names="`B`"):
        StorageFlatten(64)(te_function(realized(buffer, store), realized(buffer, store)))


def test_storage_align_of_te_becomes_strides() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 8), lambda i, j: b[j, i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].storage_align(b.op.axis[0], 16, 4)
    assert "* 20" in script(tvmagic.lower(s, [a, c]))


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
    (inside,) = [b for b in nodes_of(planned.body, ir.Block) if b.alloc_buffers]
    (buffer,) = inside.alloc_buffers
    region = ir.BufferRegion(buffer, [ir.Range(0, size) for size in buffer.shape])
    more = inside.replace(**{side: (*getattr(inside, side), region)})
    changed = planned.replace(body=ir.ir_transform(planned.body, lambda node: more if node is inside else None, None))
    (again,) = PlanAndUpdateBufferAllocationLocation()(ir.IRModule({"main": changed})).functions.values()
    (after,) = [b for b in nodes_of(again.body, ir.Block) if b.alloc_buffers]
    assert [r.buffer for r in getattr(after, side)] == [r.buffer for r in getattr(inside, side)]


def test_what_spatial_iterations_use_is_allocated_inside() -> None:
    text = script(PlanAndUpdateBufferAllocationLocation()(module(carried("3", "spatial"))))
    assert text.index("for i") < text.index("alloc_buffer")


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
    open_, given = b.replace(elem_offset=ir.Var("off", "int32")), c.replace(elem_offset=func.params[1])
    func = func.with_body(BufferReplacer({b: open_, c: given}).visit(func.body))
    new = LowerOpaqueBlock()(ir.IRModule({"main": func}))["main"]
    offsets = {n.buffer.name: n.buffer.elem_offset for n in nodes_of(new.body, ir.BufferStore)}
    assert str(offsets["B"]) == "0" and offsets["C"] is func.params[1]


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
    tvmagic.build(ir.IRModule({"main": from_source(text).with_attr("global_symbol", "main")}))(a, c)
    assert (c == a + 81).all()
