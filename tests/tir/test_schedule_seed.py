"""Each before and after of the schedule API document, verified after every step and replayed."""

import pytest
from schedule_seed_cases import CASES

from tvmagic import tir
from tvmagic.ir import PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import Trace


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


@pytest.mark.parametrize("name", CASES)
def test_example(name: str) -> None:
    before, calls, after = CASES[name]
    sch = tir.Schedule(parse(before), debug_mask="all")
    exec(calls, {"sch": sch})
    assert_structural_equal(sch.mod["main"], parse(after))
    replayed = tir.Schedule(parse(before))
    Trace.apply_json_to_schedule(sch.trace.as_json(), replayed)
    assert_structural_equal(replayed.mod["main"], parse(after))
    scope: dict = {}
    exec(str(sch.trace).replace(": tir.Schedule", ""), scope)
    again = tir.Schedule(parse(before))
    scope["apply_trace"](again)
    assert_structural_equal(again.mod["main"], parse(after))


MMA = """
def {name}(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (16, 16), align=128, offset_factor=1)
    B = T.match_buffer(b, (16, 16), align=128, offset_factor=1)
    C = T.match_buffer(c, (16, 16), align=128, offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])
        T.writes(C[0:16, 0:16])
        {body}
"""
LOOPS = """for i, j, k in T.grid(16, 16, 16):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]"""
SYNC = (
    "T.evaluate(T.tvm_mma_sync({0}.data, {0}.elem_offset // 256, {1}.data, {1}.elem_offset // 256, "
    '{2}.data, {2}.elem_offset // 256, {0}.data, {0}.elem_offset // 256, dtype="handle"))'
)
PARTS = (("A", "vio", "vko"), ("B", "vjo", "vko"), ("C", "vio", "vjo"))


def test_tensorize() -> None:
    before = """
def f(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i_0, j_0, k_0, i_1, j_1, k_1 in T.grid(8, 8, 8, 16, 16, 16):
        with T.block("update"):
            vi = T.axis.spatial(128, i_0 * 16 + i_1)
            vj = T.axis.spatial(128, j_0 * 16 + j_1)
            vk = T.axis.reduce(128, k_0 * 16 + k_1)
            T.reads(C[vi, vj], A[vi, vk], B[vj, vk])
            T.writes(C[vi, vj])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
    tir.TensorIntrin.register(
        "seed_mma",
        parse(MMA.format(name="desc", body=LOOPS)),
        parse(MMA.format(name="impl", body=SYNC.format("C", "A", "B"))),
        override=True,
    )
    sch = tir.Schedule(parse(before), debug_mask="all")
    _, _, _, inner, _, _ = sch.get_loops(sch.get_block("update"))
    sch.tensorize(inner, "seed_mma")
    boxes = {n: f"{n}[{p} * 16 : {p} * 16 + 16, {q} * 16 : {q} * 16 + 16]" for n, p, q in PARTS}
    matches = "".join(
        f"""
            {n}_1 = T.match_buffer({boxes[n]}, (16, 16), align=128, offset_factor=1)"""
        for n in "ABC"
    )
    after = f"""
def f(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i_0, j_0, k_0 in T.grid(8, 8, 8):
        with T.block("update_o"):
            vio, vjo, vko = T.axis.remap("SSR", [i_0, j_0, k_0])
            T.reads({boxes["C"]}, {boxes["A"]}, {boxes["B"]})
            T.writes({boxes["C"]}){matches}
            {SYNC.format("C_1", "A_1", "B_1")}
"""
    assert_structural_equal(sch.mod["main"], parse(after))
