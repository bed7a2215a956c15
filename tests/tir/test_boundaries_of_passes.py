"""Passes at the boundaries of what they decide: the ends of loops, sizes of memory, pointers and targets, by counting."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pass_checks import module, parse, script

from tvmagic.arith import Analyzer
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Var,
    decl_buffer,
)
from tvmagic.ir.query import nodes_of
from tvmagic.passes import PassContext
from tvmagic.tir import transform
from tvmagic.tir.transform.loops.lanes import LaneStorage
from tvmagic.tir.transform.loops.vectorize_loop import lane_by_lane
from tvmagic.tir.transform.uses import mentions

# ---------------------------------------------------------------------------- parts of loops

PARTED = """def main(A: T.Buffer((32,), "int32"), n: T.int32, m: T.int32):
    for i in {loop}:
        A[i] = A[i] + 1
        if T.likely({condition}):
            A[i + 16] = A[i + 16] + 1"""
LOOPS: dict[str, Any] = {
    "range(n)": lambda n, m: range(n),
    "range(2, n)": lambda n, m: range(2, n),
    "range(m, n)": lambda n, m: range(m, n),
    'T.thread_binding(n, thread="blockIdx.x")': lambda n, m: range(n),
}
CONDITIONS = [
    *(f"i < n + ({k})" for k in (-1, 0, 1, 2)), *(f"i >= n + ({k})" for k in (-1, 0, 1)), *(f"i >= {k}" for k in (0, 1, 2, 3)),
    "i < 2", "i * 2 < n + 1", "i < m", "i + m < n", "i >= m % 4",
]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_parts_of_a_loop_are_its_iterations(loop: str) -> None:
    """Each one once, whichever way a condition changes at, before or behind an end, and however short the loop is."""
    for condition in CONDITIONS:
        before = transform.LowerOpaqueBlock()(module(PARTED.format(loop=loop, condition=condition)))
        after = transform.LoopPartition()(before)["main"]
        for n, m in itertools.product((0, 1, 2, 5), (0, 3) if "m" in condition or "m" in loop else (0,)):
            wanted = [0] * 32
            for i in LOOPS[loop](n, m):
                wanted[i] += 1
                wanted[i + 16] += eval(condition, {"i": i, "n": n, "m": m})
            counts = np.zeros(32, "int32")
            run_function(after, [counts, np.asarray(n, "int32"), np.asarray(m, "int32")])
            assert counts.tolist() == wanted, (condition, n, m)


@pytest.mark.parametrize(
    ("condition", "asked"),
    [
        ("i >= 0", "T.bool(True)"), ("i > 0", "i >= T.min(1, n - 1 + 1)"), ("i >= 2", "i >= T.min(2, n - 1 + 1)"),
        ("i < n", "i < T.max(n, 0)"), ("i < n - 1", "i < T.max(n - 1, 0)"), ("i >= n - 1", "i >= T.max(n - 1, 0)"),
        ("i < 12", "T.bool(True)"), ("i < 11", "i < 11"), ("i < 13", "T.bool(True)"), ("i <= 11", "T.bool(True)"),
    ],
)  # fmt: skip
def test_blocks_of_threads_ask_once_whether_they_are_in_the_known_part(condition: str, asked: str) -> None:
    """An end of that part which is the launch's own is not asked for."""
    extent = "12" if "1" in condition[-2:] and "n" not in condition else "n"
    loop = f'T.thread_binding({extent}, thread="blockIdx.x")'
    mod = transform.LowerOpaqueBlock()(module(PARTED.format(loop=loop, condition=condition)))
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        after = transform.LoopPartition()(mod)["main"]
    assert str(nodes_of(after.body, IfThenElse)[-1].condition) == asked


HINTED = """def main(A: T.Buffer((32,), "int32"), n: T.int32, m: T.int32):
    for i in T.serial({extent}, annotations={{"pragma_loop_partition_hint": 1}}):
        if i < {place}:
            A[i] = 1
        if i >= {place}:
            A[i] = 2"""


@pytest.mark.parametrize(
    ("extent", "place", "kind"),
    [
        ("1", "n", ForKind.SERIAL),
        ("2", "n", ForKind.UNROLLED),
        ("5", "n", ForKind.UNROLLED),
        ("n", "n + m", ForKind.SERIAL),
        ("n + 2", "n * m", ForKind.SERIAL),
        ("2, 7", "n", ForKind.UNROLLED),
        ("3, 4", "n", ForKind.SERIAL),
    ],
)
def test_loops_without_known_parts_are_unrolled_if_asked_for(extent: str, place: str, kind: ForKind) -> None:
    with PassContext(config={"tir.LoopPartition": {"unroll_loop_with_partition_hint_no_interval": True}}):
        after = transform.LoopPartition()(module(HINTED.format(extent=extent, place=place)))["main"]
    (loop,) = nodes_of(after.body, For)
    *begin, end = extent.split(", ")
    count = str(int(end) - int(begin[0])) if begin else end
    assert loop.kind is kind and not loop.annotations and (str(loop.min), str(loop.extent)) == (*(begin or "0"), count)


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorized", "unroll"])
@pytest.mark.parametrize(("place", "constant"), [("3", True), ("n", False), ("n % 4", False)])
def test_vectors_and_unrolled_loops_are_split_at_constants(kind: str, place: str, constant: bool) -> None:
    text = PARTED.format(loop=f"T.{kind}(8)", condition=f"i < {place}")
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        after = transform.LoopPartition()(module(text))["main"]
    assert len(nodes_of(after.body, For)) == (2 if constant or kind in ("serial", "parallel") else 1)


@pytest.mark.parametrize(
    ("tag", "differs"), [("blockIdx.x", True), ("blockIdx.y", True), ("threadIdx.x", False), ("threadIdx.y", False)]
)
def test_threads_of_a_block_do_not_part_at_a_condition(tag: str, differs: bool) -> None:
    """The parts of a loop are the same for all of them; those of blocks are of each."""
    text = f'''def main(A: T.Buffer((64,), "int32"), n: T.int32):
    for t in T.thread_binding(8, thread="{tag}"):
        for k in range(n):
            if T.likely(t * 4 + k < 29):
                A[t * 4 + k] = 1'''
    after = transform.LoopPartition()(transform.LowerOpaqueBlock()(module(text)))["main"]
    loops = nodes_of(after.body, For)
    (launch,) = [node for node in nodes_of(after.body, AttrStmt) if node.attr_key == "thread_extent"]
    assert len(loops) == 2
    assert any(mentions(loop.extent, (launch.node.var,)) for loop in loops) is differs


@pytest.mark.parametrize(
    ("condition", "clipped"),
    [
        ("i >= m % 4", ["T.min"]), ("i >= m % 4 + 1", ["T.min"]), ("i >= m", ["T.max", "T.min"]), ("i >= m % 4 - 1", ["T.max", "T.min"]),
        ("i < n - m % 4", ["T.max"]), ("i < n - m % 4 - 1", ["T.max"]), ("i < n - m", ["T.max", "T.min"]), ("i < n - m % 4 + 1", ["T.max", "T.min"]),
    ],
)  # fmt: skip
def test_ends_of_parts_are_kept_inside_the_loop_if_they_may_leave_it(condition: str, clipped: list[str]) -> None:
    mod = transform.LoopPartition()(module(PARTED.format(loop="range(n)", condition=condition)))
    extent = str(nodes_of(mod["main"].body, For)[0].extent)
    assert [name for name in ("T.max", "T.min") if name in extent] == clipped


# ---------------------------------------------------------------------------- memory


PAIR = """def main(A: T.Buffer((64,), "float32"), n: T.int32):
    X = T.allocate([{size}], "float32", "global")
    x = T.Buffer(({size},), data=X)
    for i in range({size}):
        x[i] = A[i] * T.float32(2)
    for i in range({size}):
        A[i] = x[i] + T.float32(1)
    for p in T.{loop}(4):
        Y = T.allocate([{size}], "float32", "{scope}")
        y = T.Buffer(({size},), data=Y, scope="{scope}")
        for i in range({size}):
            y[i] = A[i]
        for i in range({size}):
            A[i] = y[i] + T.float32(1)"""


@pytest.mark.parametrize("size", ["64", "n", "n * 2"])
@pytest.mark.parametrize("loop", ["serial", "parallel"])
@pytest.mark.parametrize("scope", ["global", "shared", "shared.dyn"])
def test_free_memory_is_taken_by_what_is_allocated_at_the_same_place(size: str, loop: str, scope: str) -> None:
    """And in the same scope; iterations that run at the same time have memory of their own."""
    after = script(transform.StorageRewrite()(module(PAIR.format(size=size, loop=loop, scope=scope))))
    assert after.count("T.allocate(") == (1 if loop == "serial" and scope == "global" else 2)


@pytest.mark.parametrize(
    "use", ["A[0] = x[5]", "for i in range(64):\n        A[i] = x[i]", "if n > 3:\n        A[0] = x[5]"]
)
@pytest.mark.parametrize("size", ["64", "n"])
def test_memory_is_free_behind_its_last_use(use: str, size: str) -> None:
    """Whatever statement that is in, and not before."""
    memory = """    {0}_ = T.allocate([{1}], "float32", "global")
    {0} = T.Buffer(({1},), data={0}_)
    for i in range({1}):
        {0}[i] = A[i] * T.float32(2)
    {2}
"""
    head = 'def main(A: T.Buffer((64,), "float32"), n: T.int32):\n'
    text = head + memory.format("x", size, use) + memory.format("y", size, use.replace("x", "y"))
    for after_both, count in (("", 1), ("    A[1] = x[6]\n", 2)):
        after = transform.StorageRewrite()(module(text + after_both))["main"]
        assert len(nodes_of(after.body, Allocate)) == count


@pytest.mark.parametrize("loops", ["serial", "parallel"])
def test_memory_of_parallel_iterations_is_inside_their_loop(loops: str) -> None:
    """That of one loop is not for the next one; what was free before a loop is free again behind it."""
    part = """    {3}{0}_ = T.allocate([64], "float32", "global")
    {3}{0} = T.Buffer((64,), data={0}_)
    {3}for i in range(64):
    {3}    {0}[i] = A[i] * T.float32({1})
    {3}for i in range(64):
    {3}    {2}
"""
    text = 'def main(A: T.Buffer((64,), "float32")):\n' + part.format("x", 2, "A[i] = x[63 - i]", "")
    for name in "yz":
        text += f"    for p in T.{loops}(4):\n" + part.format(name, 3, f"A[i] = {name}[63 - i]", "    ")
    text += part.format("w", 4, "A[i] = w[63 - i]", "")
    after = transform.StorageRewrite()(module(text))["main"]
    inside = [len(nodes_of(n.body, Allocate)) for n in nodes_of(after.body, For) if n.loop_var.name.startswith("p")]
    assert inside == ([1, 1] if loops == "parallel" else [0, 0])
    assert len(nodes_of(after.body, Allocate)) == 1 + sum(inside)


@pytest.mark.parametrize(("count", "pieces"), [(1, 1), (2, 2), (3, 4)])
def test_of_one_or_two_buffers_that_begin_at_once_one_takes_memory_in_place(count: int, pieces: int) -> None:
    """As in TVM: of more none does."""
    names = ["b", "c", "d"][:count]
    text = 'def main(A: T.Buffer((64,), "float32")):\n'
    for name in ["x", *names]:
        text += f'    {name}_ = T.allocate([64], "float32", "global")\n    {name} = T.Buffer((64,), data={name}_)\n'
    text += "    for i in range(64):\n        x[i] = A[i]\n    for i in range(64):\n"
    text += "".join(f"        {name}[i] = {'x' if name == 'b' else 'A'}[i] + T.float32(1)\n" for name in names)
    text += "    for i in range(64):\n" + "".join(f"        A[i] = A[i] * {name}[63 - i]\n" for name in names)
    after = transform.StorageRewrite()(module(text))["main"]
    assert len(nodes_of(after.body, Allocate)) == pieces


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("step", [1, 2])
def test_each_lane_has_its_elements_beside_those_of_the_others(shape: tuple[int, ...], lanes: int, step: int) -> None:
    """In strided memory too: the strides of rows are those of as many rows."""
    strides = [step]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size + 1)
    lane, buffer = Var("lane", "int32"), decl_buffer(shape, "int32", "B", strides=strides)
    storage = LaneStorage(buffer.data, lane, IntImm("int32", lanes), Analyzer())
    for given in (buffer, buffer.replace(strides=())):
        places: dict[int, tuple[Any, ...]] = {}
        for index in itertools.product(*map(range, shape)):
            load = storage.visit(BufferLoad(given, index))
            (flat,), (before,) = (b.offset_of(i) for b, i in ((load.buffer, load.indices), (given, index)))
            for number in range(lanes):
                place = evaluate(flat, {lane: number})
                factor = step if given.strides else 1
                assert place == evaluate(before, {}) * lanes + number * factor
                assert places.setdefault(place, (index, number)) == (index, number)


# ---------------------------------------------------------------------------- lanes and threads


@pytest.mark.parametrize(
    ("index", "vector"),
    [
        ("T.checked_index(j + n, 16, 1, False, 'A')", 'T.checked_index(T.Ramp(n, 1, 4), 16, 1, T.bool(False), "A")'),
        ("T.checked_index(n, 16, 1, False, 'A') + j", 'T.checked_index(n, 16, 1, T.bool(False), "A")'),
        ("T.checked_index(n, j + 1, 1, False, 'A')", None),
        ("T.checked_index(j, j + 1, 1, False, 'A')", None),
    ],
)
def test_checks_of_lanes_need_an_extent_that_all_have(index: str, vector: str | None) -> None:
    text = f'def main(A: T.Buffer((16,), "int32"), n: T.int32):\n    for j in T.vectorized(4):\n        A[{index}] = 1'
    after = script(transform.VectorizeLoop()(module(text)))
    assert vector in after if vector else "for j_s in range(4)" in after


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        ("T.if_then_else(A[0] < 3, j, 1)", True), ("T.if_then_else(A[n] < 3, j, 1)", True), ("T.if_then_else(A[j] < 3, j, 1)", False),
        ("T.if_then_else(A[A[0]] < 3, j, 1)", True), ("T.if_then_else(A[A[j]] < 3, j, 1)", False), ("A[A[j]] + j", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lanes", [2, 4])
def test_loads_of_one_element_are_the_same_in_all_lanes(value: str, whole: bool, lanes: int) -> None:
    text = f"""def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    for j in T.vectorized({lanes}):
        B[j] = {value}"""
    (loop,) = nodes_of(parse(text).body, For)
    assert (not lane_by_lane(loop)) is whole


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_what_threads_share_is_written_once_before_they_are_launched(threads: int) -> None:
    """By the first of them, before others read it into memory of their own."""
    text = f"""def main(A: T.Buffer((2, 8), "int32"), B: T.Buffer((2, {threads}), "int32"), C: T.Buffer((2,), "int32")):
    i = T.launch_thread("blockIdx.x", 2)
    L = T.allocate([1], "int32", "local")
    l = T.Buffer((1,), "int32", data=L, scope="local")
    S = T.allocate([{threads}], "int32", "shared")
    s = T.Buffer(({threads},), "int32", data=S, scope="shared")
    C[i] = C[i] + A[i, 3]
    l[0] = C[i] * 2
    threadIdx_x = T.launch_thread("threadIdx.x", {threads})
    s[threadIdx_x] = l[0] + A[i, threadIdx_x]
    T.tvm_storage_sync("shared")
    B[i, threadIdx_x] = s[{threads - 1} - threadIdx_x]"""
    given, outs = np.arange(5, 21, dtype="int32").reshape(2, 8), np.zeros((2, threads), "int32")
    total = np.array([100, 200], "int32")
    wanted = total + given[:, 3]
    run_function(transform.ThreadsAsLoops()(module(text))["main"], [given, outs, total])
    np.testing.assert_array_equal(total, wanted)
    np.testing.assert_array_equal(outs, (wanted[:, None] * 2 + given[:, :threads])[:, ::-1])


@pytest.mark.parametrize(
    ("condition", "count", "asked"),
    [
        ("tx < 3", 3, False), ("tx < 1", 1, False), ("tx < 8", 8, False), ("tx < 9", 8, True), ("tx < 0", 8, True), ("T.likely(tx < 3)", 3, False),
        ("tx == 0", 1, False), ("tx == 1", 8, True), ("tx == -1", 8, True), ("tx == 8", 8, True), ("tx <= 3", 8, True), ("tx != 0", 8, True),
        ("tx < n", 8, True), ("n < 3", 8, True), ("n == 0", 8, True), ("tx + 1 < 3", 8, True), ("n < tx", 8, True),
    ],
)  # fmt: skip
def test_the_first_threads_alone_are_a_shorter_loop(condition: str, count: int, asked: bool) -> None:
    """If the others skip the whole branch; the steps of others are asked for as they come."""
    text = f"""def main(A: T.Buffer((8,), "int32"), n: T.int32):
    tx = T.launch_thread("threadIdx.x", 8)
    S = T.allocate([8], "int32", "shared")
    s = T.Buffer((8,), "int32", data=S, scope="shared")
    s[tx] = tx + 1
    T.tvm_storage_sync("shared")
    if {condition}:
        A[tx] = s[7 - tx]"""
    after = transform.ThreadsAsLoops()(module(text))["main"]
    last = nodes_of(after.body, For)[-1]
    assert (evaluate(last.extent, {}), isinstance(last.body, IfThenElse)) == (count, asked)
    for n in (0, 2, 7):
        found = np.zeros(8, "int32")
        run_function(after, [found, np.asarray(n, "int32")])
        likely = SimpleNamespace(likely=bool)
        assert found.tolist() == [(8 - tx) * eval(condition, {"tx": tx, "n": n, "T": likely}) for tx in range(8)]


def test_what_a_block_reads_of_its_threads_is_what_the_first_one_has() -> None:
    """It is written once, without a question for each thread."""
    text = """def main(A: T.Buffer((2, 8), "int32"), C: T.Buffer((2,), "int32")):
    i = T.launch_thread("blockIdx.x", 2)
    L = T.allocate([1], "int32", "local")
    l = T.Buffer((1,), "int32", data=L, scope="local")
    S = T.allocate([8], "int32", "shared")
    s = T.Buffer((8,), "int32", data=S, scope="shared")
    with T.launch_thread("threadIdx.x", 8) as tx:
        s[tx] = A[i, tx]
        T.tvm_storage_sync("shared")
        l[0] = s[7 - tx]
    C[i] = C[i] + l[0]"""
    after = transform.ThreadsAsLoops()(module(text))["main"]
    assert not nodes_of(after.body, IfThenElse)
    given, total = np.arange(5, 21, dtype="int32").reshape(2, 8), np.array([100, 200], "int32")
    run_function(after, [given, total])
    np.testing.assert_array_equal(total, [100, 200] + given[:, 7])


# ---------------------------------------------------------------------------- narrower types


@pytest.mark.parametrize(
    ("index", "narrow", "loop"),
    [
        ('T.Cast("int64", x)', "x", "T.int64(8)"), ('T.Cast("int64", x % 16) + i', "x % 16 + i", "8"), ('T.Cast("int64", B[x])', "B[x]", "T.int64(8)"),
        ('T.Cast("int64", x) + i', 'T.Cast("int64", x) + i', "T.int64(8)"), ('T.Cast("int64", T.Cast("int64", x))', "x", "T.int64(8)"),
        ('T.Cast("int64", T.Cast("int16", x))', 'T.Cast("int32", T.Cast("int16", x))', "T.int64(8)"), ("x % 16", "x % 16", "T.int64(8)"),
        ('T.Cast("int64", y % T.int64(16))', 'T.Cast("int32", y % T.int64(16))', "T.int64(8)"),
    ],
)  # fmt: skip
def test_casts_of_indices_are_narrowed(index: str, narrow: str, loop: str) -> None:
    """If what they are of may be computed in fewer bits; casts of values stay the same nodes."""
    text = """def main(A: T.Buffer((T.int64(64),), "float32"), B: T.Buffer((64,), "int32"), x: T.int32, y: T.int64):
    for i in range({}):
        A[{}] = T.Cast("float32", x)"""
    before = module(text.format("T.int64(8)", index))
    after = transform.NarrowDataType(32)(before)
    assert script(after) == script(module(text.format(loop, narrow)))
    (old,), (new,) = (nodes_of(mod["main"].body, BufferStore) for mod in (before, after))
    assert new.value is old.value
