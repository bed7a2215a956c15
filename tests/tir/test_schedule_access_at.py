"""read_at and write_at: forms, results, refusals."""

import pytest
from same_results import same

from tvmagic import tir
from tvmagic.ir import PrimFunc, assert_structural_equal
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError, Trace


def parse(text: str) -> PrimFunc:
    return from_source("from tvm.script import tir as T\n@T.prim_func\n" + text.strip()).without_attr("global_symbol")


TILED = """
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i0, j0 in T.grid(4, 4):
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi = T.axis.spatial(64, i0 * 16 + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                C[vi, vj] = A[vi, vj] + T.float32(1)
"""
READ_AT_1 = """
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    A_shared = T.alloc_buffer((64, 64), scope="shared")
    for i0, j0 in T.grid(4, 4):
        with T.block("A_shared"):
            v0, v1 = T.axis.remap("SS", [i0, j0])
            T.reads(A[v0 * 16:v0 * 16 + 16, v1 * 16:v1 * 16 + 16])
            T.writes(A_shared[v0 * 16:v0 * 16 + 16, v1 * 16:v1 * 16 + 16])
            T.block_attr({"auto_copy": T.bool(True)})
            for ax0, ax1 in T.grid(16, 16):
                A_shared[v0 * 16 + ax0, v1 * 16 + ax1] = A[v0 * 16 + ax0, v1 * 16 + ax1]
        for i, j in T.grid(16, 16):
            with T.block("C"):
                vi = T.axis.spatial(64, i0 * 16 + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                C[vi, vj] = A_shared[vi, vj] + T.float32(1)
"""
WRITE_AT_2 = """
def f(A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    C_shared = T.alloc_buffer((64, 64), scope="shared")
    for i0, j0, i in T.grid(4, 4, 16):
        for j in range(16):
            with T.block("C"):
                vi = T.axis.spatial(64, i0 * 16 + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                C_shared[vi, vj] = A[vi, vj] + T.float32(1)
        with T.block("C_shared"):
            v0, v1, v2 = T.axis.remap("SSS", [i0, i, j0])
            T.reads(C_shared[v0 * 16 + v1, v2 * 16:v2 * 16 + 16])
            T.writes(C[v0 * 16 + v1, v2 * 16:v2 * 16 + 16])
            T.block_attr({"auto_copy": T.bool(True)})
            for ax0, ax1 in T.grid(1, 16):
                C[v0 * 16 + v1 + ax0, v2 * 16 + ax1] = C_shared[v0 * 16 + v1 + ax0, v2 * 16 + ax1]
"""


@pytest.mark.parametrize(
    ("method", "depth", "after"), [("read_at", 1, READ_AT_1), ("write_at", 2, WRITE_AT_2)], ids=["read", "write"]
)
def test_form(method: str, depth: int, after: str) -> None:
    sch = tir.Schedule(parse(TILED), debug_mask="all")
    block = sch.get_block("C")
    copy = getattr(sch, method)(sch.get_loops(block)[depth], block, 0, "shared")
    assert sch.get(copy).name_hint == ("A_shared" if method == "read_at" else "C_shared")
    assert_structural_equal(sch.mod["main"], parse(after))
    again = tir.Schedule(parse(TILED))
    Trace.apply_json_to_schedule(sch.trace.as_json(), again)
    assert_structural_equal(again.mod["main"], parse(after))


STENCIL = """
def f(A: T.Buffer((20, 20), "float32"), C: T.Buffer((20, 20), "float32")):
    B = T.alloc_buffer((20, 20))
    for i, j in T.grid(20, 20):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(20, 20):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.if_then_else(1 <= vi and vi < 19, B[vi - 1, vj] + B[vi + 1, vj], T.float32(0))
"""
MATMUL = """
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
UPDATE = """
def f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(16):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            C[vi] = C[vi] + A[vi]
"""


@pytest.mark.parametrize("depth", range(2))
@pytest.mark.parametrize(
    ("text", "method", "index"),
    [
        (TILED, "read_at", 0),
        (TILED, "write_at", 0),
        (STENCIL, "read_at", 0),
        (STENCIL, "write_at", 0),
        (MATMUL, "read_at", 0),
        (MATMUL, "read_at", 1),
        (MATMUL, "write_at", 0),
    ],
)
@pytest.mark.parametrize("scope", ["global", "local"])
def test_results(text: str, method: str, index: int, depth: int, scope: str) -> None:
    before = parse(text)
    sch = tir.Schedule(before, debug_mask="all")
    block = sch.get_block("C")
    getattr(sch, method)(sch.get_loops(block)[depth], block, index, scope)
    same(before, sch.mod["main"])


def test_after_a_reduction_is_split() -> None:
    before = parse(MATMUL)
    sch = tir.Schedule(before, debug_mask="all")
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [4, 4])
    sch.reorder(k0, i, j, k1)
    sch.write_at(i, block, 0, "global")
    sch.read_at(j, block, 0, "global")
    same(before, sch.mod["main"])


@pytest.mark.parametrize(
    ("text", "calls", "message"),
    [
        (TILED, "sch.read_at(sch.get_loops('C')[0], 'C', 1, 'shared')", "has 1 reads"),
        (TILED, "sch.read_at(sch.get_loops('C')[0], 'C', 0, 'nowhere')", "not a storage scope"),
        (STENCIL, "sch.read_at(sch.get_loops('B')[0], 'C', 0, 'shared')", "not a loop round block `C`"),
        (UPDATE, "sch.read_at(sch.get_loops('C')[0], 'C', 0, 'shared')", "writes buffer `C`"),
        (UPDATE, "sch.write_at(sch.get_loops('C')[0], 'C', 0, 'shared')", "in place"),
        (
            TILED,
            "sch.reorder(*[sch.get_loops('C')[i] for i in (2, 3, 0, 1)]); "
            "sch.write_at(sch.get_loops('C')[1], 'C', 0, 'shared')",
            "not known that block `C` writes all",
        ),
    ],
)
def test_refused(text: str, calls: str, message: str) -> None:
    sch = tir.Schedule(parse(text), debug_mask="all")
    with pytest.raises(ScheduleError, match=message):
        exec(calls, {"sch": sch})
    sch.state.debug_verify()
