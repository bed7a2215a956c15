"""blockize of several blocks; can_decompose_padding; several functions; output blocks."""

import pytest
from same_results import same

import tvmagic
from tvmagic import tir
from tvmagic.ir import IRModule, PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError, Trace


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


TILED = """
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    B = T.alloc_buffer((64, 64))
    for i0, j0 in T.grid(4, 4):
        for i, j in T.grid(16, 16):
            with T.block("B"):
                vi = T.axis.spatial(64, i0 * 16 + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi = T.axis.spatial(64, i0 * 16 + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                C[vi, vj] = B[vi, vj] * T.float32(2)
"""
THREE = """
def f(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    C = T.alloc_buffer((8, 8))
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(2)
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] * T.float32(3)
"""
THREE_CD = """
def f(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    C = T.alloc_buffer((8, 8))
    for i in range(8):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("outer_C_D_"):
            vi_o = T.axis.spatial(8, i)
            vj_o = T.axis.spatial(1, 0)
            T.reads(C[vi_o, 0:8], B[vi_o, 0:8])
            T.writes(D[vi_o, 0:8], C[vi_o, 0:8])
            for j in range(8):
                with T.block("C"):
                    vj_i = T.axis.spatial(8, j)
                    C[vi_o, vj_i] = B[vi_o, vj_i] + T.float32(2)
            for j in range(8):
                with T.block("D"):
                    vj_i = T.axis.spatial(8, j)
                    D[vi_o, vj_i] = C[vi_o, vj_i] * T.float32(3)
"""
SUMS = """
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        for k in range(8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * T.float32(2)
"""


def test_form_of_several_blocks() -> None:
    sch = tir.Schedule(parse(THREE), debug_mask="all")
    sch.blockize([sch.get_block("C"), sch.get_block("D")])
    assert_structural_equal(sch.mod["main"], parse(THREE_CD))
    assert sch.trace.as_python()[-1] == "b2 = sch.blockize(target=[b0, b1], preserve_unit_iters=True)"
    again = tir.Schedule(parse(THREE))
    Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    assert_structural_equal(again.mod["main"], sch.mod["main"])
    third = tir.Schedule(parse(THREE))
    sch.trace.simplified(True).apply_to_schedule(third, remove_postproc=False)
    assert_structural_equal(third.mod["main"], sch.mod["main"])


@pytest.mark.parametrize(
    ("text", "names"), [(TILED, "BC"), (TILED, "CB"), (THREE, "BC"), (THREE, "BCD"), (SUMS, "BC"), (SUMS, "C")]
)
def test_results(text: str, names: str) -> None:
    before = parse(text)
    sch = tir.Schedule(before, debug_mask="all")
    outer = sch.blockize([*names])
    assert sch.get(outer).name_hint == "outer_" + "".join(n + "_" for n in names)
    same(before, sch.mod["main"])


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        (THREE, "BD", "must follow one another"),
        (THREE, "BB", "given twice"),
        (THREE, "", "no blocks to join"),
    ],
)
def test_refused(text: str, names: str, message: str) -> None:
    sch = tir.Schedule(parse(text), debug_mask="all")
    mod = sch.mod
    with pytest.raises(ScheduleError, match=message):
        sch.blockize([*names])
    assert sch.mod is mod


PAD = """
def f(x: T.Buffer((128,), "int32"), y: T.Buffer((140,), "int32")):
    for i in range(140):
        with T.block("block"):
            vi = T.axis.remap("S", [i])
            y[vi] = T.if_then_else(6 <= vi and vi < 134, x[vi - 6], 0)
"""


def test_can_decompose_padding() -> None:
    sch = tir.Schedule(parse(PAD), debug_mask="all")
    mod = sch.mod
    block = sch.get_block("block")
    (loop,) = sch.get_loops(block)
    count = len(sch.trace.insts)
    assert sch.can_decompose_padding(block, loop)
    assert sch.mod is mod and len(sch.trace.insts) == count
    sch.state.debug_verify()
    plain = tir.Schedule(parse(THREE))
    assert not plain.can_decompose_padding("D", plain.get_loops("D")[0])


def test_several_functions() -> None:
    mod = IRModule({"one": parse(THREE), "two": parse(TILED)})
    sch = tir.Schedule(mod, debug_mask="all")
    with pytest.raises(ScheduleError, match="several functions"):
        sch.get_block("B")
    assert len(sch.get_loops(sch.get_block("B", func_name="one"))) == 2
    sch.work_on("two")
    assert sch.func_working_on is not None and sch.func_working_on.name_hint == "two"
    loops = sch.get_loops(sch.get_block("B"))
    assert len(loops) == 4
    sch.parallel(loops[0])
    assert sch.mod["one"] is mod["one"]
    same(mod["two"], sch.mod["two"])
    with pytest.raises(tvmagic.TVMagicError, match="three"):
        sch.work_on("three")


def test_output_blocks() -> None:
    sch = tir.Schedule(parse(THREE))
    outputs = sch.get_output_blocks("root")
    assert [sch.get(b).name_hint for b in outputs] == ["D"]


GUARDED = """
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(3, 3):
        with T.block("C"):
            T.where(i < 2 and j < 2)
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize("depth", [0, 1])
def test_bounds_of_single_loops_are_kept(depth: int) -> None:
    """A predicate that bounds one loop is no part of the division, and must not be lost."""
    sch = tir.Schedule(parse(GUARDED), debug_mask="all")
    sch.blockize(sch.get_loops("C")[depth])
    same(parse(GUARDED), sch.mod["main"])
    assert sch.mod["main"].script().count("T.where(") == (1 if depth == 0 else 2)


TRIANGLE = """
def f(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i in range(4):
        for j in range(i + 1, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vj, vi]
"""


def test_the_regions_of_a_triangle_name_no_loop_inside_the_block() -> None:
    """The domain of `vj`, which is the range of its loop, follows `i`."""
    sch = tir.Schedule(parse(TRIANGLE))
    sch.blockize(sch.get_loops("C")[0])
    text = sch.mod["main"].script()
    assert "T.reads(A[1:4, 0:4])" in text and "T.writes(C[0:4, 1:4])" in text
    assert_structural_equal(from_source(text), sch.mod["main"])
