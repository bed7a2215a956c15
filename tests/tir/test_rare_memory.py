"""Memory as passes lay it out, where few programs come to it: against counting, and as tables."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from pass_checks import module, script

from tvmagic import tir
from tvmagic.arith import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import (
    AttrStmt,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IntImm,
    IRModule,
    MatchBufferRegion,
    Prefetch,
    PrimFunc,
    Ramp,
    Range,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
    stmt_seq,
)
from tvmagic.ir.query import is_call, nodes_of
from tvmagic.passes import PassContext
from tvmagic.target import Target
from tvmagic.tir import transform
from tvmagic.tir.transform.blocks.compact_buffer import _declares_rows, relaxed_under
from tvmagic.tir.transform.loops.lanes import refuse_vectors_of_vectors
from tvmagic.tir.transform.memory.checked_indices import checked_indices
from tvmagic.tir.transform.threads.default_gpu_schedule import MOST_BLOCKS


def flattened(buffer: Buffer, body: Stmt, line: int, bounds: bool = False) -> Stmt:
    """A statement on a realized buffer of a TE program after StorageFlatten."""
    whole = BufferRealize(buffer, [Range(0, size) for size in buffer.shape], True, stmt_seq(body))
    func = PrimFunc([], whole).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    return transform.StorageFlatten(line, bounds)(IRModule({"main": func}))["main"].body


def fetched(stmt: Stmt) -> list[int]:
    """The flat places that the prefetches of a statement name, in order."""
    found: list[int] = []

    def run(node: Any, values: dict[Var, int]) -> None:
        if isinstance(node, SeqStmt):
            for part in node.seq:
                run(part, values)
        elif isinstance(node, For):
            first, count = evaluate(node.min, values), evaluate(node.extent, values)
            for n in range(first, first + count):
                run(node.body, {**values, node.loop_var: n})
        elif isinstance(node, Evaluate) and is_call(node.value, "tir.prefetch"):
            found.append(evaluate(node.value.args[0].args[0].indices[0], values))
        elif not isinstance(node, Evaluate):
            run(node.body, values)

    run(stmt, {})
    return found


@pytest.mark.parametrize("line", [1, 8, 16, 32, 64])
@pytest.mark.parametrize(
    ("shape", "box"),
    [((40,), [(3, 20)]), ((6, 4), [(1, 3), (0, 4)]), ((5, 2, 2), [(1, 3), (0, 2), (0, 2)]), ((4, 9), [(1, 2), (2, 7)]), ((3, 4, 5), [(0, 2), (1, 3), (0, 5)])],
)  # fmt: skip
def test_a_prefetch_names_each_cache_line_of_a_box_once(
    shape: tuple[int, ...], box: list[tuple[int, int]], line: int
) -> None:
    """Of 4-byte elements, from the first of each row on; rows that one line holds together are one."""
    buffer = decl_buffer(shape, "float32", "B")
    ranges = tuple([Range.from_min_extent(first, extent) for first, extent in box])
    places = fetched(flattened(buffer, Prefetch(buffer, ranges), line))
    elements = max(1, line // 4)
    block, last = 1, len(shape) - 1
    while last > 0 and block * shape[last] <= elements:
        block, last = block * shape[last], last - 1
    step = max(1, elements // block)
    steps = [range(first, first + extent) for first, extent in box[:last]]
    steps.append(range(box[last][0], box[last][0] + box[last][1], step))
    rest = [first for first, _ in box[last + 1 :]]
    flat = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    assert places == [
        sum(a * b for a, b in zip([*index, *rest], flat, strict=True)) for index in itertools.product(*steps)
    ]


@pytest.mark.parametrize(
    ("shape", "dtype", "count"),
    [((6, 4), "float32", 24), ((5,), "float32", 5), ((3, 2, 2), "int8", 12), ((6,), "float32x4", 24)],
)
def test_bounds_of_memory_are_its_elements(shape: tuple[int, ...], dtype: str, count: int) -> None:
    """As the bounds checker is told of them, at each access."""
    buffer = decl_buffer(shape, dtype, "B")
    zero = BufferLoad(buffer, [0] * len(shape))
    body = flattened(buffer, BufferStore(buffer, zero, [0] * len(shape)), 64, True)
    noted: list[Any] = [node.value for node in nodes_of(body, AttrStmt) if node.attr_key == "buffer_bound"]
    assert noted and {evaluate(call.args[0], {}) for call in noted} == {count}


# ---------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("scope", "tags"),
    [
        ("global", "blockIdx.x threadIdx.x threadIdx.y vthread"), ("global.workspace", "blockIdx.x threadIdx.x threadIdx.y vthread"),
        ("shared", "threadIdx.x threadIdx.y vthread"), ("shared.dyn", "threadIdx.x threadIdx.y vthread"), ("warp", "threadIdx.x"), ("local", ""),
    ],
)  # fmt: skip
def test_which_threads_share_memory(scope: str, tags: str) -> None:
    for tag in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y", "vthread"):
        assert relaxed_under(scope, tag) is (tag in tags.split() or scope.startswith("global"))


def test_lanes_of_lanes() -> None:
    """A vector of vectors is one if both have a known number of lanes."""
    scalar, fixed = Var("x", "int32"), Ramp(IntImm("int32", 0), 1, 4)
    scalable = Ramp(IntImm("int32", 0), 1, 4 * tir.vscale())
    for base, node, refusal in (
        (scalar, fixed, ""), (fixed, fixed, ""), (scalar, scalable, ""), (fixed, scalable, "over existing scalable vectors"), (scalable, fixed, "from existing vectors"),
    ):  # fmt: skip
        if refusal:
            with pytest.raises(TVMagicError, match=refusal):
                refuse_vectors_of_vectors(node, base)
        else:
            refuse_vectors_of_vectors(node, base)


def test_indices_that_are_checked_as_the_program_runs() -> None:
    """Those that may be outside: not those that are checked already, and lanes always."""
    analyzer, x, i = Analyzer(), Var("x", "int32"), Var("i", "int32")
    analyzer.bind(i, Range(0, 8))
    buffer, eight = decl_buffer((8, 8), "float32", "B"), IntImm("int32", 8)
    load = BufferLoad(buffer, [i, x])
    first, second = checked_indices(buffer, (i, x), (eight, eight), analyzer, load)
    assert first is i and is_call(second, "tir.checked_index")
    again = checked_indices(buffer, (first, second), (eight, eight), analyzer, load)
    assert again[0] is first and again[1] is second
    for index in (i + 1, i - 1, Ramp(i, 0, 2), Broadcast(i, 4)):
        made: Any = checked_indices(buffer, (i, index), (eight, eight), analyzer, load)
        assert (
            made[0] is i
            and is_call(made[1], "tir.checked_index")
            and [int(made[1].args[k]) for k in (1, 2, 3)] == [8, 1, 0]
        )
    assert checked_indices(buffer, (x,), (eight, eight), analyzer, load) == (x,)
    nodes = (load, BufferStore(buffer, 1.0, [i, x]))
    said: list[Any] = [checked_indices(buffer, (x, i), (eight, eight), analyzer, node)[0] for node in nodes]
    said = [call.args[4].value for call in said]
    assert said == ["load from buffer `B` of shape (8, 8)", "store to buffer `B` of shape (8, 8)"]


@pytest.mark.parametrize(
    ("count", "parts"),
    [
        (1, (1, 1)),
        (100, (1, 100)),
        (1024, (1, 1024)),
        (1025, (2, 1024)),
        (1024 * 256, (256, 1024)),
        (1024 * 256 + 1, (256, 1024)),
    ],
)
def test_threads_of_a_plain_loop(count: int, parts: tuple[int, int]) -> None:
    """As many as a block has, and blocks for the rest; what is beyond the most blocks is a loop."""
    mod = module(
        f"def main(A: T.Buffer(({count},), 'float32'), B: T.Buffer(({count},), 'float32')):\n    for i in range({count}):\n"
        "        with T.block('B'):\n            v = T.axis.spatial("
        + str(count)
        + ", i)\n            B[v] = A[v] + T.float32(1)"
    )
    with Target("cuda", host="llvm"):
        made = transform.DefaultGPUSchedule()(mod)["main"]
    extents = {
        loop.thread_binding.thread_tag if loop.thread_binding is not None else "": evaluate(loop.extent, {})
        for loop in nodes_of(made.body, For)
    }
    blocks, threads = parts
    assert MOST_BLOCKS == 256 and (extents["blockIdx.x"], extents["threadIdx.x"]) == (blocks, threads)
    assert ("" in extents) is (count > 1024 * MOST_BLOCKS)


def test_the_entry_of_a_module() -> None:
    plain, named = (module("def main(A: T.Buffer((4,), 'int32')):\n    A[0] = 1")["main"] for _ in "ab")
    plain = plain.without_attr("global_symbol")

    def entries(**functions: Any) -> list[str]:
        made = transform.AnnotateEntryFunc()(IRModule(functions))
        return [v.name_hint for v, f in made.functions.items() if f.attrs.get("tir.is_entry_func")]

    assert (
        entries(a=plain) == ["a"] and entries(a=plain, b=named) == ["b"] and entries(a=named, b=plain, c=plain) == ["a"]
    )
    assert entries(a=named, b=named) == [] and entries(a=plain, b=plain) == []


@pytest.mark.parametrize(
    ("limit", "size", "refused"), [(0, 4096, False), (1, 0, False), (128, 128, False), (127, 128, True), (1, 1, False)]
)
def test_the_limit_of_tagged_memory(limit: int, size: int, refused: bool) -> None:
    own = (
        f"    V = T.allocate([{size}], 'int8', 'global.vtcm')\n    V_1 = T.Buffer(({size},), 'int8', data=V, scope='global.vtcm')\n    V_1[0] = T.int8(1)\n"
        if size
        else ""
    )
    mod = module(f"def main(A: T.Buffer((4,), 'int8')):\n{own}    A[0] = T.int8(1)")
    mod = transform.BindTarget(Target("hexagon"))(mod)
    with PassContext(config={"tir.vtcm_capacity": limit}):
        if refused:
            with pytest.raises(TVMagicError, match=rf"allocated: {size}, limit: {limit}"):
                transform.VerifyVTCMLimit()(mod)
        else:
            transform.VerifyVTCMLimit()(mod)


def test_addresses_are_of_bytes_where_bools_are_stored() -> None:
    """A pointer to a bool is one to its byte, whether or not what is around it reads another."""
    mod = module(
        "def main(A: T.Buffer((4, 4), 'bool'), B: T.Buffer((4,), 'int32')):\n    B[0] = T.call_extern('int32', 'f', T.address_of(A[1, 2]), A[1, 3])\n"
        "    A[0, 0] = A[B[0], 1]"
    )
    text = script(transform.FlattenBuffer()(mod))
    assert (
        "T.address_of(A_1[6])" in text
        and 'T.Cast("bool", A_1[7])' in text
        and 'A_1[0] = T.Cast("int8", T.Cast("bool", A_1[B_1[0] * 4 + 1]))' in text
    )


@pytest.mark.parametrize(
    ("shape", "strides", "whole"),
    [
        ((4, 6, 8), (48, 8, 1), True), ((4, 6, 8), (8, 1), True), ((4, 6, 8), (48, 1), False), ((4, 6, 8), (8, 8, 1), False), ((4, 6, 8), (1,), False), ((4, 6, 8), (), False),
        ((4, 6, 8), ("s", 1), False), ((4, 6, 8), ("s", 8, 1), False), ((4, "n", 8), (8, 1), True), ((4, "n", 8), ("s", 8, 1), False), ((4, "n", 8), (48, 8, 1), False), ((4, 8, "n"), (8, 1), False),
        (("n", 8), (8, 1), True), ((4, 8), (8, 2), True), ((8,), (1,), False),
    ],
)  # fmt: skip
def test_views_that_declare_the_strides_of_whole_rows(
    shape: tuple[Any, ...], strides: tuple[Any, ...], whole: bool
) -> None:
    """As numbers, for all of its dimensions but the last."""
    named = {"n": Var("n", "int32"), "s": Var("s", "int32")}
    source = decl_buffer([named.get(size, size) for size in shape], "float32", "A")
    view = decl_buffer([2] * max(1, len(strides)), "float32", "V", strides=[named.get(s, s) for s in strides])
    region = BufferRegion(source, [Range.from_min_extent(0, 2) for _ in shape])
    assert _declares_rows(MatchBufferRegion(view, region)) is whole
