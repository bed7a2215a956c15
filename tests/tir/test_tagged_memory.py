# pyright: reportInvalidTypeForm=false
"""Special memories of a device (`local.UB`): one allocation for each, used again, described by what is registered."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import tir
from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.eval.values import Unsupported
from tvmagic.ir import DataType, IRModule, MemoryInfo, make_node
from tvmagic.ir.memory_scope import MemoryScope, StorageRank, memory_info
from tvmagic.ir.query import is_access_ptr, nodes_of
from tvmagic.ir.registry import register_func, remove_global_func
from tvmagic.script import tir as T
from tvmagic.tir.transform.memory.storage_rewrite import scope_of


def rewritten(func: Any) -> Any:
    (found,) = tir.transform.StorageRewrite()(IRModule.from_expr(func)).functions.values()
    return found


def allocations(func: Any) -> list[tuple[int, str, str]]:
    found: list[tuple[int, str, str]] = []

    def see(node: Any) -> None:
        if isinstance(node, tir.Allocate):
            found.append((node.extents[0].value, str(node.dtype), scope_of(node.buffer_var)))  # type: ignore[attr-defined]

    tvmagic.tir.stmt_functor.post_order_visit(func.body, see)
    return found[::-1]


@T.prim_func
def both_alive(X: T.Buffer((64,), "float32"), Y: T.Buffer((32,), "int16"), Z: T.Buffer((32,), "float32")):
    a = T.allocate([64], "float32", "local.UB")
    A = T.Buffer((64,), data=a, scope="local.UB")
    b = T.allocate([32], "int16", "local.UB")
    B = T.Buffer((32,), "int16", data=b, scope="local.UB")
    for i in range(64):
        A[i] = X[i] * T.float32(2)
    for i in range(32):
        B[i] = Y[i] + T.int16(1)
    for i in range(32):
        Z[i] = A[i + 32] + T.cast(B[i], "float32")


def test_buffers_of_one_special_memory_are_one_allocation() -> None:
    func = rewritten(both_alive)
    assert allocations(func) == [(80, "float32", "local.UB")]
    text = func.script()
    assert "[i + 128] = Y[i] + T.int16(1)" in text or "[128 + i] = Y[i] + T.int16(1)" in text
    x, y, z = np.arange(64, dtype="float32"), np.arange(32, dtype="int16"), np.zeros(32, "float32")
    with pytest.raises(Unsupported, match="`local.UB`"):
        run_function(func, [x, y, z])
    tvmagic.build(both_alive)(x, y, z)
    np.testing.assert_array_equal(z, 2 * x[32:] + y + 1)


@pytest.mark.parametrize(("shape", "index"), [((32,), "i * 4 + j"), ((8, 4), "i, j"), ((2, 4, 4), "i // 4, i % 4, j")])
def test_the_last_index_of_a_part_begins_behind_the_parts_before(shape: tuple[int, ...], index: str) -> None:
    func = tvmagic.script.from_source(f"""
@T.prim_func
def main(X: T.Buffer((16,), "float32"), Y: T.Buffer((4, 8), "float32")):
    a = T.allocate([16], "float32", "local.UB")
    A = T.Buffer((16,), data=a, scope="local.UB")
    b = T.allocate([32], "float32", "local.UB")
    B = T.Buffer({shape}, data=b, scope="local.UB")
    for i in range(16):
        A[i] = X[i]
    for i, j in T.grid(8, 4):
        B[{index}] = A[i] * T.float32(j)
    for i, j in T.grid(8, 4):
        Y[j, i] = B[{index}] + A[i]""")
    found = [
        n for n in nodes_of(rewritten(func).body, tir.BufferStore, tir.BufferLoad) if [*n.buffer.shape] == [*shape]
    ]
    before, _, last = index.rpartition(", ")
    assert len(found) == 2
    for node in found:
        assert ", ".join(str(i) for i in node.indices[:-1]) == before
        assert str(Analyzer().simplify(node.indices[-1])) == f"{last} + 16"


@pytest.mark.parametrize("simd", [8, 128, 256, 512])
@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_special_memory_do_not_overlap(seed: int, simd: int) -> None:
    """Each begins at a multiple of the widest vector and of its elements; the whole is as long as they are, in such vectors."""
    rng = random.Random(seed)
    parts = [
        (rng.choice(["int8", "float32", "float32x4", "float16x3"]), rng.randint(1, 40))
        for _ in range(rng.randint(2, 4))
    ]
    lines = [f"    p{k} = T.allocate([{n}], '{dtype}', 'local.UB')" for k, (dtype, n) in enumerate(parts)]
    kinds = [f"T.type_annotation('{dtype}')" for dtype, _ in parts]
    pointers = ", ".join(f"T.tvm_access_ptr({kind}, p{k}, 0, 1, 3)" for k, kind in enumerate(kinds))
    text = "\n".join(
        ["@T.prim_func", "def main():", *lines, f"    T.evaluate(T.call_extern('int32', 'f', {pointers}))"]
    )
    register_func(
        "tvm.info.mem.local.UB",
        lambda: make_node("MemoryInfo", unit_bits=8, max_simd_bits=simd, max_num_bits=1 << 20, head_address=None),
        override=True,
    )
    try:
        func = rewritten(tvmagic.script.from_source(text))
    finally:
        remove_global_func("tvm.info.mem.local.UB")
    (whole,) = nodes_of(func.body, tir.Allocate)
    end = 0
    for (dtype, n), call in zip(parts, [c for c in nodes_of(func.body, tir.Call) if is_access_ptr(c)]):
        bits = DataType(dtype).bits * DataType(dtype).lanes
        begin = call.args[2].value * bits
        assert end <= begin < end + math.lcm(simd, bits) and begin % simd == 0
        end = begin + n * bits
    (size,) = whole.extents
    own = whole.dtype.bits * whole.dtype.lanes
    assert end <= size.value * own < end + simd + own


@T.prim_func
def in_turn(X: T.Buffer((96,), "float32"), Y: T.Buffer((96,), "float32")):
    for i in range(4):
        a = T.allocate([96], "float32", "local.UB")
        A = T.Buffer((96,), data=a, scope="local.UB")
        for j in range(96):
            A[j] = X[j]
        for j in range(96):
            Y[j] = A[j]
    for i in range(4):
        b = T.allocate([96], "float32", "local.UB")
        B = T.Buffer((96,), data=b, scope="local.UB")
        for j in range(96):
            B[j] = Y[j]
        for j in range(96):
            Y[j] = B[j] + T.float32(1)


def test_memory_whose_last_use_has_passed_is_used_again() -> None:
    assert allocations(rewritten(in_turn)) == [(96, "float32", "local.UB")]
    local = tvmagic.script.from_source(in_turn.script().replace("local.UB", "local"))
    assert len(allocations(rewritten(local))) == 2, "ordinary local memory is not shared"


@T.prim_func
def of_unknown_size(n: T.int32, y: T.handle):
    Y = T.match_buffer(y, (n,))
    a = T.allocate([n], "float32", "local.UB")
    A = T.Buffer((n,), data=a, scope="local.UB")
    for i in range(n):
        A[i] = T.float32(1)
    for i in range(n):
        Y[i] = A[i]


def test_a_size_must_be_constant_in_special_memory() -> None:
    with pytest.raises(TVMagicError, match="`A`.*`local.UB`"):
        rewritten(of_unknown_size)


def test_what_is_registered_aligns_and_limits() -> None:
    def describe(bits: int) -> None:
        register_func(
            "tvm.info.mem.local.UB",
            lambda: make_node("MemoryInfo", unit_bits=8, max_simd_bits=256, max_num_bits=bits, head_address=None),
            override=True,
        )

    try:
        describe(1 << 16)
        info = memory_info("local.UB")
        assert isinstance(info, MemoryInfo) and (info.unit_bits, info.max_simd_bits) == (8, 256)
        assert allocations(rewritten(both_alive)) == [(80, "float32", "local.UB")], "2048 and 512 are multiples of 256"
        describe(80 * 32)
        assert allocations(rewritten(both_alive)) == [(80, "float32", "local.UB")], "all of it"
        describe(2048)
        with refuses("tir.storage_rewrite.memory_too_small"):
            rewritten(both_alive)
    finally:
        remove_global_func("tvm.info.mem.local.UB")
    assert memory_info("local.UB") is None


@T.prim_func
def pointers(Y: T.Buffer((4,), "float32")):
    a = T.allocate([4], "float32", "local.L0A")
    A = T.Buffer((4,), data=a, scope="local.L0A")
    b = T.allocate([4], "float32", "local.L0A")
    B = T.Buffer((4,), data=b, scope="local.L0A")
    for i in range(4):
        A[i] = T.float32(1)
    for i in range(4):
        B[i] = T.float32(2)
    T.evaluate(T.call_extern("int32", "use", A.data, B.data))
    T.evaluate(T.call_extern("int32", "use", B.access_ptr("r")))
    for i in range(4):
        Y[i] = A[i] + B[i]


def test_pointers_into_merged_memory_point_to_their_own_part() -> None:
    func = rewritten(pointers)
    assert allocations(func) == [(8, "float32", "local.L0A")]
    text = func.script()
    assert 'T.call_extern("int32", "use", A, T.address_of(A_3[4]))' in text
    assert 'T.tvm_access_ptr(T.type_annotation("float32"), A, 4, 4, 1)' in text


@pytest.mark.parametrize(
    ("name", "rank", "tag", "special"),
    [
        ("", StorageRank.GLOBAL, "", False),
        ("global", StorageRank.GLOBAL, "", False),
        ("global:tag", StorageRank.GLOBAL, ":tag", True),
        ("local_TB2", StorageRank.LOCAL, "_TB2", True),
        ("local.L0A", StorageRank.LOCAL, ".L0A", True),
        ("shared.dyn", StorageRank.SHARED, ".dyn", False),
        ("global.vtcm", StorageRank.GLOBAL, ".vtcm", False),
        ("global.workspace", StorageRank.GLOBAL, ".workspace", False),
        ("wmma.matrix_a", StorageRank.WMMA_A, "", False),
        ("m16n8k8.matrixC", StorageRank.MMA_C, "", False),
        ("texture", StorageRank.TEXTURE, "", False),
        ("global.texture", StorageRank.TEXTURE, "", False),
    ],
)
def test_ranks_and_tags(name: str, rank: StorageRank, tag: str, special: bool) -> None:
    scope = MemoryScope.of(name)
    assert scope == (rank, tag) and scope.is_special == special


def test_a_scope_that_there_is_not() -> None:
    with pytest.raises(TVMagicError, match="`near`"):
        MemoryScope.of("near")
    sch = tir.Schedule(both_alive_blocks)
    with pytest.raises(tir.ScheduleError, match="`near`"):
        sch.cache_read("Y", 0, "near")
    sch.cache_read("Y", 0, "local.L0A")
    assert 'scope="local.L0A"' in sch.mod.script()


@T.prim_func
def both_alive_blocks(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = X[v] + T.float32(1)
