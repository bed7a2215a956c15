"""What programs written for TVM use, as they are in the world."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.script import from_source

A = te.placeholder((16, 16), name="A")
B = te.compute((16, 16), lambda i, j: A[i, j] * 2, name="B")
K = te.reduce_axis((0, 16), name="k")
ROWS = te.compute((16,), lambda i: te.sum(A[i, K], axis=K), name="C")
INIT = """# from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, 0:2])
            for k in range(2):
                with T.init():
                    B[vi, {}] = T.float32(0)
                B[vi, k] = B[vi, k] + A[vi, vj]
"""


def test_arrays_print_as_numpy_and_show_tvm_class() -> None:
    array = tvmagic.nd.array(np.arange(3, dtype="float32"))
    assert str(array) == f"{array}" == str(array.numpy())
    assert repr(array) == "<tvm.nd.NDArray shape=(3,), cpu(0)>\narray([0., 1., 2.], dtype=float32)"


def test_text_of_relay_is_script() -> None:
    func = te.create_prim_func([A, B])
    for node in (tvmagic.IRModule({"main": func}), func, A[0, 0] + 1):
        assert node.astext() == node.astext(show_meta_data=False, annotate=None) == node.script()


def test_objects_print_as_tvm_does() -> None:
    schedule = te.create_schedule(B.op)
    axes = 'T.iter_var(i, T.Range(0, 16), "DataPar", ""), T.iter_var(j, T.Range(0, 16), "DataPar", "")'
    text = f"compute(B, body=[A[i, j] * T.float32(2.0)], axis=[{axes}], reduce_axis=[], tag=, attrs={{}})"
    assert str(B.op) == text and str(schedule[B]) == f"stage(B, {text})"
    assert str(schedule.create_group(outputs=B, inputs=A)).startswith("group-stage(")
    assert str(tir.transform.Simplify()) == "PrimFuncPass(tir.Simplify, opt_level=0)"
    steps = tvmagic.transform.Sequential([tir.transform.Simplify()], name="mine")
    assert "mine at the optimization level 0" in str(steps) and "[tir.Simplify ]" in str(steps)
    built = tvmagic.build(schedule, [A, B])
    assert re.fullmatch(r"Module\(llvm, [0-9a-f]+\)", str(built)) and built.entry_name == "__tvm_main__"
    assert built[built.entry_name] is built["main"]


def test_absent_parts_decorate_and_are_bases() -> None:
    testing = importlib.import_module("tvmagic.testing")
    assert testing.utils.install_request_hook(depth=3) is None
    assert importlib.import_module("tvmagic.runtime.module").load_module is tvmagic.runtime.load_module
    from tvmagic import autotvm, relay

    @relay.op.register("nn.x")
    @autotvm.template
    def function() -> int:
        return 1

    assert function() == 1 and not isinstance(function, relay.Call)
    with refuses("compat.not_available", names="tedd"):
        importlib.import_module("tvmagic.contrib.tedd").viz_dataflow_graph(te.create_schedule(B.op))


def test_init_in_loop_is_init_of_block() -> None:
    func = from_source(INIT.format(0))
    assert func.script().index("T.init()") < func.script().index("for k in range(2)")
    with refuses("script.init_in_loop", names="`k`"):
        from_source(INIT.format("k"))


def test_traces_and_names_of_schedules() -> None:
    sch = tir.Schedule(te.create_prim_func([A, ROWS]))
    root = sch.get_block("root")
    assert sch.get_output_blocks(root) and sch.get_output_blocks(block=root)
    assert "sch.get_output_blocks(block=b0)" in str(sch.trace)
    inner = sch.split(sch.get_loops("C")[1], [None, 4])[1]
    sch.cache_write(sch.rfactor(inner, 0), 0, "local")
    assert sch.get(sch.get_block("C.rf_local")).name_hint == "C.rf_local"
    again = tir.Schedule(te.create_prim_func([A, ROWS]))
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert again.mod.script() == sch.mod.script()


@pytest.mark.parametrize("seed", [0, -2, 2**31])
def test_seeds_are_those_of_tvm(seed: int) -> None:
    with refuses("schedule.wrong_seed"):
        tir.Schedule(te.create_prim_func([A, B]), seed=seed)


def test_calls_have_signatures_of_tvm() -> None:
    sch = tir.Schedule(te.create_prim_func([A, ROWS]))
    with refuses("schedule.wrong_arguments"):
        sch.transform_layout("C", ("read", 0), lambda i, j: (j, i), None, True)
    sch.cache_read("C", 0, "local", None)
    assert sch.cache_write.__signature__.parameters["consumer_blocks"].default is None  # type: ignore[attr-defined]


def test_code_of_kernels_is_an_imported_module() -> None:
    schedule = te.create_schedule(B.op)
    for axis, thread in zip(B.op.axis, ("blockIdx.x", "threadIdx.x")):
        schedule[B].bind(axis, te.thread_axis(thread))
    (code,) = tvmagic.build(schedule, [A, B], "cuda").imported_modules
    assert code.type_key == "cuda" and code.get_source().startswith("// PTX by LLVM") and ".entry" in code.get_source()
    assert code.get_source() == code.get_source("ptx")
    with refuses("codegen.no_cuda_printer"):
        code.get_source("cu")
    (code,) = tvmagic.build(schedule, [A, B], "opencl").imported_modules
    assert "__kernel" in code.get_source()
    with refuses("codegen.no_c_printer"):
        tvmagic.build(te.create_schedule(B.op), [A, B], "c")


def test_topi_names_blocks_and_loops_as_tvm() -> None:
    weight, other = te.placeholder((4, 16), name="W"), te.placeholder((16, 4), name="V")
    topi = tvmagic.topi
    dense = te.create_prim_func([A, weight, topi.nn.dense(A, weight)])
    assert list(dense.attrs["layout_free_buffers"]) == [1] and "for i0, i1, k in" in dense.script()
    assert "for ax0, ax1, k in" in te.create_prim_func([A, other, topi.matmul(A, other)]).script()
    for result, names in (
        (topi.nn.log_softmax(A), ("T_softmax_maxelem", "compute", "compute_1")),
        (topi.split(A, 2), ("T_split_sections", "T_split_sections_1")),
        (topi.split(A, [3]), ("T_split", "T_split_1")),
    ):
        sch = tir.Schedule(te.create_prim_func([A, *(result if isinstance(result, list) else [result])]))
        assert all(sch.get_block(name) for name in names)
    padded = te.create_prim_func([A, topi.nn.pad(A, (0, 0), (0, 2))])
    assert "T.if_then_else(0 <= v_i1 and v_i1 < 16, " in padded.script()


def test_quotients_stay_unless_asked() -> None:
    x = tir.Var("x", "float32")
    assert str(tvmagic.arith.Analyzer().simplify(x / 3.0)) == "x / T.float32(3.0)"
    assert str(tvmagic.arith.Analyzer(fast_math=True).simplify(x / 3.0)).startswith("x * T.float32(0.333")
    assert str(tvmagic.arith.Analyzer().simplify(x - x)) == "T.float32(0.0)"
