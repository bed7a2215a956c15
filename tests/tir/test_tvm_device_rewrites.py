"""Passes that write for devices and profilers: permuted layouts, predicated loads, contexts, marks, constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import module, script

import tvmagic as tvm
from tvmagic import tir
from tvmagic.errors import TVMagicError
from tvmagic.tir import transform as t
from tvmagic.transform import PassContext

# ---------------------------------------------------------------------------- InjectPermutedLayout

YES, ALSO = '{"permuted_layout": 1}', '{"permuted_layout": "s2l", "kept": 2}'


# ---------------------------------------------------------------------------- InstrumentProfileIntrinsics

LOOPS = """
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        for j in {kind}(8):
            for k in range(8):
                A[k] = 1
            for k in range(8):
                for l in range(2):
                    A[k] = 2
"""
ALONE = {"tir.reset_start_id": True, "tir.lwp_disable_func_prof": True}


def marked(kind: str = "range", **options: Any) -> str:
    with PassContext(config={**ALONE, **{f"tir.{key}": value for key, value in options.items()}}):
        return script(t.InstrumentProfileIntrinsics()(module(LOOPS.format(kind=kind))))


def marks(text: str) -> list[int]:
    return [int(line.split("(")[1].rstrip(")")) for line in text.splitlines() if "T.start_profile" in line]


def test_loops_are_marked_by_place_and_height() -> None:
    text = marked()
    assert marks(text) == [4]  # of the two neighbours, the one with a loop inside
    assert "T.start_profile_intrinsic(4)\n        for k, l in T.grid(8, 2):" in text
    assert text.rstrip().endswith("T.end_profile_intrinsic(4)")
    assert marks(marked(lwp_min_height=0)) == [3, 4]
    assert marks(marked(instr_siblings=False)) == [1]
    assert marks(marked(instr_siblings=False, lwp_max_depth=1)) == [1, 2]
    assert marks(marked(instr_siblings=False, lwp_max_depth=3, lwp_min_height=0)) == [1, 2, 3, 4, 5]
    assert marks(marked("T.parallel", instr_siblings=False, lwp_max_depth=3, lwp_min_height=0)) == [1, 2]


def test_functions_are_marked_and_numbers_go_on() -> None:
    with PassContext(config={"tir.reset_start_id": True}):
        first = marks(script(t.InstrumentProfileIntrinsics()(module(LOOPS.format(kind="range")))))
    assert first == [0, 4]
    assert marks(script(t.InstrumentProfileIntrinsics()(module(LOOPS.format(kind="range"))))) == [6, 10]


def test_machine_code_leaves_marks_out() -> None:
    a = np.zeros(8, "int32")
    with PassContext(config={"tir.instrument_lwp": True}):
        mod = tvm.lower(module(LOOPS.format(kind="range")))
        assert "T.start_profile_intrinsic" in script(mod)
        tvm.build(mod)(a)
    assert (a == 2).all()


# ---------------------------------------------------------------------------- scopes and contexts of coprocessors


# ---------------------------------------------------------------------------- other rewrites


CONSTANT = """
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    with T.block("root"):
        W = T.alloc_buffer((2, 2))
        K = T.allocate_const([1, 2, 3, 4], "float32", [4])
        B = T.Buffer((4,), data=K)
        for i0 in range(4):
            with T.block("rewrite"):
                i = T.axis.spatial(4, i0)
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                W[i % 2, i // 2] = {value}
        for i0 in range(4):
            with T.block("C"):
                i = T.axis.spatial(4, i0)
                C[i] = A[i] * W[i % 2, i // 2]
"""


def test_constants_are_gathered_in_the_module() -> None:
    text = CONSTANT.replace("{value}", "B[i]")
    one, other = module(text)["main"], module(text.replace('4], "float32"', '5], "float32"'))["main"]
    mod = t.ExtractPrimFuncConstants()(tvm.IRModule({"a": one, "b": one, "c": other}))
    assert [list(array.numpy()) for array in mod.attrs["constants"]] == [[1, 2, 3, 4], [1, 2, 3, 5]]
    found: list[Any] = []
    for name in "abc":
        tir.stmt_functor.post_order_visit(mod[name].body, found.append)
    assert [n.irmod_storage_idx for n in found if isinstance(n, tir.AllocateConst)] == [0, 0, 1]


def test_weights_in_the_wanted_layout_are_not_copied() -> None:
    mod = module(CONSTANT.replace("{value}", "B[i]"))
    text = script(t.RemoveWeightLayoutRewriteBlock()(mod))
    assert "T.allocate_const([1.0, 3.0, 2.0, 4.0]" in text and "alloc_buffer" not in text
    assert "T.allocate_const([1.0, 2.0, 3.0, 4.0]" in script(t.RemoveWeightLayoutRewriteBlock(True)(mod))
    a, c = np.ones(4, "float32"), np.zeros(4, "float32")
    tvm.build(t.RemoveWeightLayoutRewriteBlock()(mod))(a, c)
    assert c.tolist() == [1, 2, 3, 4]


def test_a_parameter_is_given_in_the_wanted_layout() -> None:
    text = CONSTANT.replace("C: T.Buffer", "B: T.Buffer((4,)), C: T.Buffer").replace("{value}", "B[i]")
    kept = [line for line in text.splitlines() if "allocate_const" not in line and "data=K" not in line]
    after = script(t.RemoveWeightLayoutRewriteBlock()(module("\n".join(kept))))
    assert 'W: T.Buffer((2, 2), "float32")' in after and "B: T.Buffer" not in after


def test_a_rewrite_that_computes_is_refused() -> None:
    with pytest.raises(TVMagicError, match="is not one copy"):
        t.RemoveWeightLayoutRewriteBlock()(module(CONSTANT.replace("{value}", "B[i] + T.float32(1)")))


# ---------------------------------------------------------------------------- Hexagon's memory

VTCM = """
def main(A: T.Buffer((128,), "int8"), C: T.Buffer((128,), "int8")):
    with T.block("root"):
        V = T.alloc_buffer((128,), "int8", scope="global.vtcm")
        W = T.alloc_buffer((128,), "int8", scope="global.vtcm")
        for i in range(128):
            with T.block("V"):
                v = T.axis.spatial(128, i)
                V[v] = A[v] + T.int8(1)
        for i in range(128):
            with T.block("W"):
                v = T.axis.spatial(128, i)
                W[v] = V[v] + T.int8(1)
        for i in range(128):
            with T.block("C"):
                v = T.axis.spatial(128, i)
                C[v] = W[v]
"""


def test_memory_in_use_is_counted_behind_the_passes_that_join_it() -> None:
    lowered = tvm.transform.Sequential(tir.analysis.get_vtcm_compaction_passes())(module(VTCM))
    assert tir.analysis.calculate_allocated_bytes(lowered) == {"main": {"global.vtcm": 128}}
    for target in ("hexagon -vtcm-capacity=128", "hexagon"):
        assert t.VerifyVTCMLimit(tvm.target.Target(target))(lowered) is lowered
    assert t.VerifyVTCMLimit()(lowered) is lowered


def test_more_memory_than_there_is_is_refused() -> None:
    words = r"limit has been exceeded in `main` \(allocated: 256, limit: 100\)"
    blocks = t.LowerOpaqueBlock()(t.ConvertBlocksToOpaque()(module(VTCM)))
    with pytest.raises(RuntimeError, match=words):
        t.VerifyVTCMLimit(tvm.target.Target("hexagon -vtcm-capacity=100"))(blocks)
    with pytest.raises(RuntimeError, match=words), PassContext(config={"tir.vtcm_capacity": 100}):
        t.VerifyVTCMLimit(tvm.target.Target("hexagon"))(blocks)
    own = blocks["main"].with_attr("target", tvm.target.Target("hexagon -vtcm-capacity=100"))
    with pytest.raises(RuntimeError, match=words):
        t.VerifyVTCMLimit()(tvm.IRModule({"main": own}))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i = T.axis.spatial(4, i0)\n                T.block_attr", "i = T.axis.spatial(4, i0)\n                D = T.alloc_buffer((4,))\n                T.block_attr"),
        ("W[i % 2, i // 2] = {value}", "M = T.match_buffer(B[0:4], (4,))\n                W[i % 2, i // 2] = {value}"),
        ("{value}", "T.float32(1)"),
        ("{value}", "B[3]"),
        ("{value}", "B[i * 1 + 0 + i % 1]"),
        ("W[i % 2, i // 2] = {value}", "T.evaluate(i)"),
    ],
)  # fmt: skip
def test_a_rewrite_that_is_not_one_copy_is_refused(old: str, new: str) -> None:
    text = CONSTANT.replace(old, new, 1).replace("{value}", "B[i]")
    if new == "B[i * 1 + 0 + i % 1]":
        assert "alloc_buffer" not in script(t.RemoveWeightLayoutRewriteBlock()(module(text)))
        return
    with pytest.raises(TVMagicError, match="the block `rewrite` that rewrites a layout is not one copy"):
        t.RemoveWeightLayoutRewriteBlock()(module(text))
