"""TVM's behaviour of reductions and paddings in schedules, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest
from schedule_behaviour import block, expect, loops, parse, same_results, schedule, script

from tvmagic.tir.schedule import ScheduleError

LET = """
def main(A: T.Buffer((6, 20), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 20):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            w: T.float32 = C[vi] + A[vi, vk] * T.float32(2)
            C[vi] = w
"""


def test_143_the_value_in_a_variable() -> None:
    sch = schedule(LET)
    outer, _ = sch.split(loops(sch, "C")[1], [4, 5])
    sch.rfactor(outer, 1)
    assert [int(n) for n in block(sch, "C_rf").writes[0].buffer.shape] == [6, 4]
    same_results(parse(LET), sch.mod["main"])


@pytest.mark.parametrize("value", ["C[vi] + (C[vi] * A[vi, vk] + A[vi, vk])", "C[vi] * C[vi]"])
def test_what_an_iteration_takes_in_does_not_depend_on_the_result(value: str) -> None:
    """Such an update is no reduction: done in two steps, it gives other values."""
    sch = schedule(LET.replace("C[vi] + A[vi, vk] * T.float32(2)", value))
    with pytest.raises(ScheduleError, match="`C`"):
        sch.rfactor(loops(sch, "C")[1], 0)


@pytest.mark.parametrize("value", ["T.max(C[vi], A[vi, vk])", "T.Select(C[vi] > A[vi, vk], C[vi], A[vi, vk])"])
def test_a_reduction_starts_with_its_neutral_element(value: str) -> None:
    sch = schedule(LET.replace("C[vi] + A[vi, vk] * T.float32(2)", value))
    with pytest.raises(ScheduleError, match="`C`"):
        sch.rfactor(loops(sch, "C")[1], 0)


UNIT = """
def main(A: T.Buffer((6, 20), "float32"), D: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i, k, u in T.grid(6, 20, 1):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk] * A[vi, vk]
    for i in range(6):
        with T.block("D"):
            vi = T.axis.spatial(6, i)
            D[vi] = T.sqrt(B[vi])
"""


def test_144_a_loop_of_extent_1_that_no_variable_uses() -> None:
    sch = schedule(UNIT)
    sch.rfactor(loops(sch, "B")[2], 0)
    factored = block(sch, "B_rf")
    assert [int(n) for n in factored.writes[0].buffer.shape] == [1, 6]
    assert [v.var.name for v in factored.iter_vars][0] == "vu"
    same_results(parse(UNIT), sch.mod["main"])


TRIVIAL = """
def main(A: T.Buffer((1, 6, 20), "float32"), B: T.Buffer((1, 6), "float32")):
    for b, i, k in T.grid(1, 6, 20):
        with T.block("B"):
            vb = T.axis.spatial(1, 0)
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vb, vi] = T.float32(0)
            B[vb, vi] = B[vb, vi] + A[vb, vi, vk]
"""


def test_145_loops_of_extent_1_stay_in_the_second_block() -> None:
    sch = schedule(TRIVIAL)
    sch.rfactor(loops(sch, "B")[2], 2)
    assert [sch.get(loop).loop_var.name for loop in loops(sch, "B")] == ["b", "i", "k"]
    same_results(parse(TRIVIAL), sch.mod["main"])


BESIDE = """
def main(A: T.Buffer((6, 5, 20), "float32"), C: T.Buffer((6, 5), "float32"), D: T.Buffer((6, 5), "float32")):
    for i in range(6):
        for j in range(5):
            for k in range(20):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vj, vk]
            for k in range(20):
                with T.block("D"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        D[vi, vj] = T.float32(0)
                    D[vi, vj] = D[vi, vj] + A[vi, vj, vk] * C[vi, vj]
"""


def test_146_the_first_of_several_blocks_below_spatial_loops() -> None:
    sch = schedule(BESIDE)
    sch.rfactor(loops(sch, "C")[2], 2)
    assert [sch.get(loop).loop_var.name for loop in loops(sch, "C_rf")] == ["i", "j", "k"]
    assert loops(sch, "C")[0] is not loops(sch, "C_rf")[0]
    shared = [sch.get(a) is sch.get(b) for a, b in zip(loops(sch, "C"), loops(sch, "D"))]
    assert shared == [True, True, False]
    same_results(parse(BESIDE), sch.mod["main"])
    with pytest.raises(ScheduleError):
        sch = schedule(BESIDE)
        sch.rfactor(loops(sch, "D")[2], 2)


SCALAR = """
def main(A: T.Buffer((20,), "float32"), B: T.Buffer((), "float32")):
    for k in range(20):
        with T.block("B"):
            vk = T.axis.reduce(20, k)
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + A[vk]
"""


def test_147_the_offset_of_a_factored_result_without_dimensions() -> None:
    sch = schedule(SCALAR)
    outer, _ = sch.split(loops(sch, "B")[0], [4, 5])
    sch.rfactor(outer, 0)
    old, new = block(sch, "B").writes[0].buffer, block(sch, "B_rf").writes[0].buffer
    assert new.elem_offset.dtype == old.elem_offset.dtype
    same_results(parse(SCALAR), sch.mod["main"])


ARGMAX = """
def main(X: T.Buffer((6, 20), "int32"), V: T.Buffer((6, 20), "float32"), OI: T.Buffer((6,), "int32"),
         OV: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 20):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(X[vi, vk], V[vi, vk])
            T.writes(OI[vi], OV[vi])
            with T.init():
                {init}
            {update}
"""
INIT = "OI[vi] = -1\n                OV[vi] = T.float32(-100)"
LETS = """p: T.int32 = T.Select(OV[vi] >= V[vi, vk], OI[vi], X[vi, vk])
            q: T.float32 = T.Select(OV[vi] >= V[vi, vk], OV[vi], V[vi, vk])
            """


def argmax(update: str, init: str = INIT) -> str:
    return ARGMAX.format(init=init, update=update)


@pytest.mark.parametrize("stores", ["OI[vi] = p\n            OV[vi] = q", "OV[vi] = q\n            OI[vi] = p"])
@pytest.mark.parametrize("init", [INIT, "OV[vi] = T.float32(-100)\n                OI[vi] = -1"])
def test_148_stores_in_any_order(stores: str, init: str) -> None:
    text = argmax(LETS + stores, init)
    sch = schedule(text)
    outer, _ = sch.split(loops(sch, "M")[1], [4, 5])
    sch.rfactor(outer, 1)
    order = [part.split("[")[0].strip() for part in stores.split("\n")]
    root = block(sch, "root")
    assert [b.name for b in root.alloc_buffers] == [f"{name}_rf" for name in order]
    same_results(parse(text), sch.mod["main"])


@pytest.mark.parametrize(
    "update",
    [
        "p: T.int32 = T.Select(OV[vi] >= V[vi, vk], OI[vi], X[vi, vk])\n            OI[vi] = p\n"
        "            OV[vi] = T.Select(OV[vi] >= V[vi, vk], OV[vi], V[vi, vk])",
        LETS + "OI[vi] = p + 1\n            OV[vi] = q",
        LETS + "OI[vi] = p\n            OV[vi] = T.Cast('float32', p)",
    ],
    ids=["fewer lets than stores", "a value that is no variable", "a variable twice"],
)
def test_148_other_forms_are_refused(update: str) -> None:
    sch = schedule(argmax(update))
    outer, _ = sch.split(loops(sch, "M")[1], [4, 5])
    with pytest.raises(ScheduleError):
        sch.rfactor(outer, 1)


def test_148_buffers_of_different_shapes_are_refused() -> None:
    text = argmax(LETS + "OI[vi] = p\n            OV[vi] = q").replace("OV: T.Buffer((6,)", "OV: T.Buffer((7,)")
    sch = schedule(text)
    with pytest.raises(ScheduleError):
        sch.rfactor(loops(sch, "M")[1], 1)


BOUND = """
def main(A: T.Buffer((6, 20), "float32"), B: T.Buffer((6,), "float32")):
    for i in T.thread_binding(6, thread="threadIdx.x"):
        for k in range(20):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"""


def test_149_the_init_has_a_thread_binding_of_its_own() -> None:
    sch = schedule(BOUND)
    sch.decompose_reduction("B", loops(sch, "B")[0])
    first, second = [sch.get(loops(sch, name)[0]) for name in ("B_init", "B_update")]
    assert first.thread_binding.thread_tag == second.thread_binding.thread_tag == "threadIdx.x"
    assert first.thread_binding is not second.thread_binding
    assert first.thread_binding.var is not second.thread_binding.var and first.loop_var is not second.loop_var


PADDED = """
def main(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")):
    for o, i in T.grid(4, 4):
        with T.block("pad"):
            v = T.axis.spatial(16, o * 4 + i)
            B[v] = T.if_then_else(v >= 3 and v < 13, A[v - 3], T.float32(0))
"""
PADDED_INNER = """
def main(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")):
    # with T.block("root"):
    for o in range(4):
        for i in range(4):
            with T.block("pad_pad_const"):
                v = T.axis.spatial(16, o * 4 + i)
                T.reads()
                T.writes(B[v])
                B[v] = T.float32(0)
        for i in range(4):
            with T.block("pad"):
                v = T.axis.spatial(10, o * 4 + i - 3)
                T.where(3 <= o * 4 + i and o * 4 + i < 13)
                T.reads(A[v])
                T.writes(B[v + 3])
                B[v + 3] = A[v]
"""


def test_150_padding_of_split_loops() -> None:
    sch = schedule(PADDED)
    sch.decompose_padding("pad", loops(sch, "pad")[1])
    expect(sch, PADDED, PADDED_INNER)
    sch = schedule(PADDED)
    sch.decompose_padding("pad", loops(sch, "pad")[0])
    text = script(sch.mod["main"])
    assert text.index('"pad_pad_const"') < text.index("T.where(3 <= o * 4 + i and o * 4 + i < 13)")
    assert text.count("in T.grid(4, 4):") == 2
    same_results(parse(PADDED), sch.mod["main"])


BELOW = """
def main(A: T.Buffer((10, 4), "float32"), B: T.Buffer((16, 4), "float32")):
    for i, j in T.grid(16, 4):
        with T.block("pad"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = T.if_then_else(v < 10, A[v, w], T.float32(0))
"""


def test_151_a_loop_below_the_one_that_pads() -> None:
    sch = schedule(BELOW)
    sch.decompose_padding("pad", loops(sch, "pad")[1])
    text = script(sch.mod["main"])
    assert "v = T.axis.spatial(10, i)" in text and "T.where(i < 10)" in text
    same_results(parse(BELOW), sch.mod["main"])


@pytest.mark.parametrize("wide", [False, True])
def test_151_unit_loops_above(wide: bool) -> None:
    text = """
def main(A: T.Buffer((1, 10), "float32"), B: T.Buffer((1, 16), "float32")):
    for b, i in T.grid(1, 16):
        with T.block("pad"):
            vb, v = T.axis.remap("SS", [b, i])
            B[vb, v] = T.if_then_else(v < 10, A[vb, v], T.float32(0))
"""
    if wide:
        for n in ("(1, 10)", "(1, 16)"):
            a, b = n.strip("()").split(", ")
            text = text.replace(n, f"(T.int64({a}), T.int64({b}))")
    sch = schedule(text)
    sch.decompose_padding("pad", loops(sch, "pad")[1])
    one = "T.int64(1), T.int64(0)" if wide else "1, 0"
    assert script(sch.mod["main"]).count(f"vb = T.axis.spatial({one})") == 2
    same_results(parse(text), sch.mod["main"])


MORE = """
def main(A: T.Buffer((4, 10), "float32"), B: T.Buffer((4, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    for t in range(4):
        for i in range(16):
            with T.block("pad"):
                vt, v = T.axis.remap("SS", [t, i])
                B[vt, v] = T.if_then_else(v < 10, A[vt, v], T.float32(0))
        for i in range(16):
            with T.block("C"):
                vt, v = T.axis.remap("SS", [t, i])
                C[vt, v] = B[vt, v] + T.float32(1)
"""


def test_152_the_filling_is_lifted_above_a_loop_with_more_in_it() -> None:
    sch = schedule(MORE)
    sch.decompose_padding("pad", loops(sch, "pad")[0])
    assert [int(sch.get(loop).extent) for loop in loops(sch, "pad_pad_const")] == [4, 16]
    assert sch.get(loops(sch, "pad")[0]) is sch.get(loops(sch, "C")[0])
    same_results(parse(MORE), sch.mod["main"])


UNEVEN = """
def main(A: T.Buffer((3, 11), "float32"), C: T.Buffer((3,), "float32")):
    for i, k in T.grid(3, 11):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""


def _factored() -> tuple[Any, list[Any]]:
    """Eleven values in parts of four: the block of the parts has the condition `k_0 * 4 + k_1 < 11`."""
    sch = schedule(UNEVEN)
    _, inner = sch.split(loops(sch, "C")[1], [None, 4])
    sch.rfactor(inner, 0)
    return sch, loops(sch, "C_rf")


@pytest.mark.parametrize("how", ["reorder", "parallel", "vectorize", "bind", "decompose", "all"])
def test_a_block_of_parts_keeps_its_condition_where_it_stays_in_its_loops(how: str) -> None:
    sch, (i, outer, inner) = _factored()
    if how in ("reorder", "all"):
        sch.reorder(i, inner, outer)
    if how == "parallel":
        sch.parallel(i)
    if how == "vectorize":
        sch.vectorize(inner)
    if how in ("bind", "all"):
        sch.bind(i, "blockIdx.x")
        sch.bind(inner, "threadIdx.x")
    if how in ("decompose", "all"):
        sch.decompose_reduction("C_rf", outer)
    assert "T.where(k_0 * 4 + k_1 < 11)" in script(sch.mod["main"])
    same_results(parse(UNEVEN), sch.mod["main"])


def test_a_block_of_parts_that_has_a_condition_is_not_moved() -> None:
    """TVM moves it without its condition, and reads outside."""
    sch, _ = _factored()
    with pytest.raises(ScheduleError):
        sch.compute_at("C_rf", loops(sch, "C")[0])
