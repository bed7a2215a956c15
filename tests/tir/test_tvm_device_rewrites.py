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
from tvmagic.tir.transform.threads.permuted_layout import _width
from tvmagic.transform import PassContext

# ---------------------------------------------------------------------------- InjectPermutedLayout

PERMUTED = """
def main(A: T.Buffer((16, {n}), "float16"), C: T.Buffer((16, {n}), "float16")):
    with T.block("root"):
        S = T.alloc_buffer(({rows}, {n}), "float16", scope="shared.dyn")
        for i, j in T.grid(16, {n}):
            with T.block("S"):
                T.reads(A[i, j])
                T.writes(S[i, j])
                T.block_attr({first})
                S[i, j] = A[i, j]
        for i, j in T.grid(16, {n}):
            with T.block("C"):
                T.reads(S[i, j])
                T.writes(C[i, j])
                T.block_attr({second})
                C[i, j] = S[i, j]
"""
YES, ALSO = '{"permuted_layout": 1}', '{"permuted_layout": "s2l", "kept": 2}'


def permuted(n: int, first: str = YES, second: str = ALSO, rows: int = 16) -> Any:
    return t.InjectPermutedLayout()(module(PERMUTED.format(n=n, first=first, second=second, rows=rows)))


@pytest.mark.parametrize(("n", "by"), [(64, "i % 8"), (96, "i % 8 // 2"), (128, "i % 8"), (32, "i % 8 // 2")])
def test_columns_are_exchanged_row_by_row(n: int, by: str) -> None:
    mod = permuted(n)
    assert f"S[i, T.bitwise_xor(j // 8, {by}) * 8 + j % 8] = A[i, j]" in script(mod)
    assert "permuted_layout" not in script(mod) and '"kept": 2' in script(mod)
    a = np.random.default_rng(1).random((16, n)).astype("float16")
    c = np.zeros_like(a)
    tvm.build(mod)(a, c)
    np.testing.assert_array_equal(a, c)


def test_pointers_to_permuted_columns_move_too() -> None:
    text = """
    def main(S: T.Buffer((64, 64), "float16", scope="shared"), W: T.Buffer((32, 8), "float16", scope="warp")):
        for k in range(4):
            with T.block("load"):
                T.reads(S[0:16, k * 16:k * 16 + 16])
                T.writes(W[0:32, 0:8])
                T.block_attr({"permuted_layout": 1})
                for lane in T.thread_binding(32, thread="threadIdx.x"):
                    T.ptx_ldmatrix("float16", False, 4, ".b16", W.data, lane * 8,
                        T.tvm_access_ptr(T.type_annotation("float16"), S.data, k * 16, 1024, 1), lane % 16 * 64 + lane // 16 * 8)
    """
    after = script(t.InjectPermutedLayout()(module(text)))
    assert (
        'T.tvm_access_ptr(T.type_annotation("float16"), S.data, lane % 16 * 64 + T.bitwise_xor(k * 2 + lane // 16, lane % 8) * 8, 1024, 1), 0)'
        in after
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n": 64, "second": "{}"}, "both inside and outside blocks with `permuted_layout`"),
        ({"n": 64, "first": '{"permuted_layout": ""}'}, "both inside and outside"),
        ({"n": 40}, "cannot be permuted"),
        ({"n": 32, "rows": 17}, "cannot be permuted"),
    ],
)
def test_what_cannot_be_permuted_is_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(TVMagicError, match=words):
        permuted(**arguments)


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


@pytest.mark.parametrize(
    ("shape", "width"),
    [((16, 64), 64), ((3, 64), 64), ((16, 32), 32), ((15, 32), 0), ((16, 96), 96), ((15, 96), 0), ((16, 128), 128), ((16, 48), 0), ((16, 0), 0), ((0, 32), 0), ((64,), 0), ((2, 3, 64), 64),
     (("n", 64), 64), (("n", 32), 0), ((16, "n"), 0)],
)  # fmt: skip
def test_layouts_that_can_be_permuted(shape: tuple[Any, ...], width: int) -> None:
    """Rows of 64 elements, whatever their number, or pairs of rows of 32; sizes that are known."""
    n = tir.Var("n", "int32")
    buffer = tir.decl_buffer([n if size == "n" else size for size in shape], "float16", "B")
    if width:
        assert _width(buffer) == width
    else:
        with pytest.raises(TVMagicError, match="the layout of `B`, of shape .*, cannot be permuted"):
            _width(buffer)
