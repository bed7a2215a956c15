"""blockize of several blocks; can_decompose_padding; several functions; output blocks."""

from refusals import refuses
from same_results import same

import tvmagic
from tvmagic import tir
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError


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
    with refuses("get_block.several_functions", error=ScheduleError):
        sch.get_block("B")
    assert len(sch.get_loops(sch.get_block("B", func_name="one"))) == 2
    sch.work_on("two")
    assert sch.func_working_on is not None and sch.func_working_on.name_hint == "two"
    loops = sch.get_loops(sch.get_block("B"))
    assert len(loops) == 4
    sch.parallel(loops[0])
    assert sch.mod["one"] is mod["one"]
    same(mod["two"], sch.mod["two"])
    with refuses("module.unknown_function", error=tvmagic.TVMagicError):
        sch.work_on("three")


def test_output_blocks() -> None:
    sch = tir.Schedule(parse(THREE))
    outputs = sch.get_output_blocks("root")
    assert [sch.get(b).name_hint for b in outputs] == ["D"]
