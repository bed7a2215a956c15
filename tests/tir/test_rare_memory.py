"""Memory as passes lay it out, where few programs come to it: against counting, and as tables."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from pass_checks import module, parse, script

import tvmagic
from tvmagic import tir
from tvmagic.arith import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir import (
    Allocate,
    AssertStmt,
    AttrStmt,
    Block,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IRModule,
    MatchBufferRegion,
    Prefetch,
    PrimExpr,
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
from tvmagic.passes import recording
from tvmagic.tir import transform
from tvmagic.tir.transform.blocks.compact_buffer import _declares_rows, relaxed_under
from tvmagic.tir.transform.blocks.lower_opaque_block import allocation_shape
from tvmagic.tir.transform.loops.lanes import refuse_vectors_of_vectors
from tvmagic.tir.transform.memory.checked_indices import checked_indices
from tvmagic.tir.transform.memory.flat_index import FlatIndex
from tvmagic.tir.transform.memory.layout_transforms import apply_layout_transforms


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


def fetched_boxes(loops: list[tuple[Var, int, int, ForKind]], at: int, later: int, index: list[PrimExpr]) -> Any:
    """For each iteration of the loops outside a prefetch the box that it names; the prefetch is `at` loops deep."""
    buffer, sink = decl_buffer((64, 64), "float32", "B"), decl_buffer((64, 64), "float32", "C")
    body: Stmt = BufferStore(sink, BufferLoad(buffer, index), [0, 0])
    for depth in range(len(loops), 0, -1):
        if depth == at:
            body = AttrStmt(buffer, "prefetch_scope", IntImm("int32", later), body)
        var, low, extent, kind = loops[depth - 1]
        body = For(var, low, extent, kind, body)
    func = PrimFunc([], body).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    after = transform.InjectPrefetch()(IRModule({"main": func}))["main"].body
    boxes: dict[tuple[int, ...], Any] = {}

    def run(node: Any, values: dict[Var, int]) -> None:
        if isinstance(node, For):
            for n in range(evaluate(node.min, values), evaluate(node.min, values) + evaluate(node.extent, values)):
                run(node.body, {**values, node.loop_var: n})
        elif isinstance(node, SeqStmt):
            for part in node.seq:
                run(part, values)
        elif isinstance(node, Prefetch):
            boxes[tuple(values.values())] = [
                (evaluate(side.min, values), evaluate(side.min, values) + evaluate(side.extent, values) - 1)
                for side in node.bounds
            ]

    run(after, {})
    return boxes


@pytest.mark.parametrize("kinds", ["ss", "sv", "vs", "vv"])
@pytest.mark.parametrize(("at", "later"), [(1, 1), (1, 3), (2, 1), (2, 4), (2, 0)])
def test_a_prefetch_names_what_a_later_iteration_reads(kinds: str, at: int, later: int) -> None:
    """The box around it: of the loop at which the prefetch is, `later` iterations on, and of all lanes of vectorized loops."""
    i, j, k = Var("i", "int32"), Var("j", "int32"), Var("k", "int32")
    kind = {"s": ForKind.SERIAL, "v": ForKind.VECTORIZED}
    loops = [(i, 2, 3, kind[kinds[0]]), (j, 1, 4, kind[kinds[1]]), (k, 0, 2, ForKind.SERIAL)]
    index = [i * 4 + k, 40 - j * 3 + i]
    boxes = fetched_boxes(loops, at, later, index)
    outer = [range(low, low + extent) for _, low, extent, _ in loops[:at]]
    assert sorted(boxes) == sorted(itertools.product(*outer))
    for values, box in boxes.items():
        point = dict(zip((i, j, k), values))
        around = {v: [point[v]] if v in point else list(range(low, low + extent)) for v, low, extent, _ in loops}
        for var, low, extent, how in loops[: at - 1]:
            around[var] = list(range(low, low + extent)) if how is ForKind.VECTORIZED else around[var]
        around[loops[at - 1][0]] = [values[-1] + later]
        places = [[evaluate(e, dict(zip(around, at_))) for e in index] for at_ in itertools.product(*around.values())]
        assert box == [(min(side), max(side)) for side in zip(*places)]


def test_what_is_not_read_or_not_known_is_not_prefetched() -> None:
    buffer, other, i = decl_buffer((8,), "float32", "B"), decl_buffer((8,), "int32", "I"), Var("i", "int32")
    for read, fetches in ((BufferLoad(buffer, [i]), 1), (BufferLoad(other, [i]).astype("float32"), 0)):
        body = AttrStmt(buffer, "prefetch_scope", IntImm("int32", 1), BufferStore(decl_buffer((8,)), read, [0]))
        for stmt in (body, For(i, 0, 8, ForKind.SERIAL, body)):
            func = PrimFunc([], stmt).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
            if stmt is body:
                with pytest.raises(TVMagicError, match="the prefetch of `B` is in no loop"):
                    transform.InjectPrefetch()(IRModule({"main": func}))
            else:
                after = transform.InjectPrefetch()(IRModule({"main": func}))["main"].body
                assert len(nodes_of(after, Prefetch)) == fetches
                assert not [n for n in nodes_of(after, AttrStmt) if n.attr_key == "prefetch_scope"] or fetches == 1


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


@pytest.mark.parametrize(
    "memory",
    ['offset_factor=4', 'offset_factor=1', 'elem_offset=16', 'elem_offset=16, offset_factor=8', 'scope="local", offset_factor=4'],
)  # fmt: skip
@pytest.mark.parametrize("shape", ["8", "4, 2"])
def test_memory_of_a_block_begins_at_a_multiple_of_its_factor(memory: str, shape: str) -> None:
    """At its first element, if no offset is given: what is allocated needs none from elsewhere."""
    place = "v // 2, v % 2" if "," in shape else "v"
    text = f"""def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer(({shape},), "int32", {memory})
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[{place}] = A[v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[{place}] + 1
"""
    func = parse(text)
    assert script(parse(script(func))) == script(func)
    array, out = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    tvmagic.build(func, check_bounds=True)(array, out)
    np.testing.assert_array_equal(out, array * 2 + 1)
    declared = "def main(C: T.Buffer((8,), 'int32')):\n    B = T.decl_buffer((8,), 'int32', offset_factor=4)\n    B[3] = 5\n    C[3] = B[3]"
    out[3] = 0
    tvmagic.build(parse(declared), check_bounds=True)(out)
    assert out[3] == 5


def taken_memory(free: list[tuple[int, str]], count: int, dtype: str) -> str:
    """The memory that a buffer gets after others, of some elements and types each, were freed in order."""
    lines = ["def main(A: T.Buffer((64,), 'float32')):"]
    for n, (size, kind) in enumerate(free):
        lines += [
            f"B{n} = T.allocate([{size}], '{kind}', 'global')",
            f"B{n}_1 = T.Buffer(({size},), '{kind}', data=B{n})",
        ]
    lines += [f"B{n}_1[0] = T.Cast('{kind}', A[{n}])" for n, (_, kind) in enumerate(free)]
    lines += [f"A[{n}] = T.Cast('float32', B{n}_1[0])" for n in range(len(free))]
    lines += [f"C = T.allocate([{count}], '{dtype}', 'global')", f"C_1 = T.Buffer(({count},), '{dtype}', data=C)"]
    lines += [f"C_1[0] = T.Cast('{dtype}', A[33])", "A[0] = T.Cast('float32', C_1[0])"]
    body = transform.StorageRewrite()(module("\n    ".join(lines)))["main"].body
    (store,) = [
        s
        for s in nodes_of(body, BufferStore)
        if any(str(i) == "33" for b in nodes_of(s.value, BufferLoad) for i in b.indices)
    ]
    return store.buffer.data.name.split("_")[0]


@pytest.mark.parametrize("seed", range(30))
def test_which_freed_memory_is_taken(seed: int) -> None:
    """The smallest that is large enough, up to 16 times; else the largest that is not, down to a 16th, if of the same type."""
    rng = random.Random(seed)
    bits = {"float32": 32, "int8": 8, "int64": 64}
    dtype, count = rng.choice(["float32", "int8"]), 64 * rng.choice([8, 16, 24])
    wanted = count * bits[dtype]
    free: list[tuple[int, str]] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(list(bits))
        times = rng.choice([1 / 32, 1 / 16, 1 / 8, 1 / 2, 1, 2, 3, 16, 32])
        free.append((max(1, int(wanted * times) // bits[kind]), kind))
    sizes = [n * bits[kind] for n, kind in free]
    larger = [n for n, size in enumerate(sizes) if wanted <= size <= 16 * wanted]
    smaller = [n for n, size in enumerate(sizes) if wanted // 16 <= size < wanted and free[n][1] == dtype]
    if larger:
        chosen = f"B{min(larger, key=lambda n: (sizes[n], n))}"
    else:
        chosen = f"B{max(smaller, key=lambda n: (sizes[n], n))}" if smaller else "C"
    assert taken_memory(free, count, dtype) == chosen, (free, count, dtype)


FILLED = """def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(16):
        x: T.int32 = A[i] % 4
        B = T.allocate([4], "int32", "global")
        b = T.Buffer((4,), "int32", data=B)
        with T.attr(B, "double_buffer_scope", 1):
            for j in range(4):
                b[j] = A[i * 4 + j]
        for j in range(4):
            C[i * 4 + j] = b[j] + 1"""
FILL = '        with T.attr(B, "double_buffer_scope", 1):\n            for j in range(4):\n                b[j] = A[i * 4 + j]\n'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("", "", ""),
        ("i in range(16)", "i in range(n)", ""),
        ("i in range(16)", "i in T.unroll(16)", ""),
        ("b[j] + 1", "b[j] + x", ""),
        ("i in range(16)", "i in range(1, 16)", "loop `i` does not begin at 0"),
        ("i in range(16)", "i in range(n, 16)", "loop `i` does not begin at 0"),
        ("i in range(16)", "i in T.parallel(16)", "the iterations of `i` do not run one after the other"),
        ("T.allocate([4]", "T.allocate([x + 4]", "its size differs from iteration to iteration"),
        ("T.allocate([4]", "T.allocate([i + 4]", "its size differs from iteration to iteration"),
        ("T.allocate([4]", "T.allocate([n + 4]", ""),
        ("b[j] = A[i * 4 + j]", "b[j] = A[i * 4 + j] + x", "what fills it needs what the iteration computes before"),
        ("b[j] = A[i * 4 + j]", "b[j] = C[i * 4 + j]", "what fills it depends on what the iteration stores"),
        ("b[j] = A[i * 4 + j]", "b[j] = A[i * 4 + j]\n                C[j] = 2", "what fills it depends on what the iteration stores"),
        ("b[j] = A[i * 4 + j]", "b[j] = A[i * 4 + j]\n                A[j] = 2", "what fills it depends on what the iteration stores"),
        ("C[i * 4 + j] = b[j] + 1", "A[i * 4 + j] = b[j] + 1", "what fills it depends on what the iteration stores"),
        (FILL, "        if n > 2:\n" + "".join("    " + line + "\n" for line in FILL.splitlines()), "not every iteration fills it"),
        ("b[j] + 1", 'T.call_extern("int32", "f", B)', "it is used other than by loads and stores"),
    ],
)  # fmt: skip
def test_which_buffers_are_filled_ahead(old: str, new: str, reason: str) -> None:
    """Doubled or left as they are, with a note that says why; the values are the same."""
    mod = module(FILLED.replace(old, new) if old else FILLED)
    with recording() as record:
        after = transform.InjectDoubleBuffer()(mod)
    notes = [note.text for note in record.notes("double_buffer.skipped")]
    assert notes == ([f"`b` is not doubled: {reason}"] if reason else [])
    assert ("double_buffer_write" in script(after)) is not bool(reason)
    if "call_extern" in new:
        return
    for size in (0, 1, 3, 16):
        results: list[Any] = []
        for program in (mod, after):
            arrays = [np.arange(3, 67, dtype="int32"), np.zeros(64, "int32")]
            run_function(program["main"], [*arrays, np.array(size, "int32")])
            results.append(np.concatenate(arrays))
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("seed", range(60))
def test_a_flat_index_is_the_place_of_its_element(seed: int) -> None:
    """By strides and an offset, whatever is put together: a quotient and a remainder of one value are that value."""
    rng = random.Random(seed)
    i, j, k = Var("i", "int32"), Var("j", "int32"), Var("k", "int32")
    rank = rng.randint(1, 4)
    shape = [rng.choice([1, 2, 3, 4, 8]) for _ in range(rank)]
    dense = [math.prod(shape[n + 1 :]) for n in range(rank)]
    strides = dense if rng.random() < 0.6 else [s + rng.choice([0, 0, 1, 5]) for s in dense]
    offset = rng.choice([0, 0, 7, 16])
    fused = i * rng.choice([2, 4, 8]) + j
    parts = [
        fused // 8,
        fused % 8,
        fused // 4 % 2,
        fused % 4,
        i,
        j + 1,
        k,
        (fused + k) % 3,
        fused // 3,
        fused % 3,
        fused // 24,
        fused // 3 % 8,
    ]
    indices = tuple([rng.choice(parts) for _ in shape])
    buffer = decl_buffer(
        tuple(shape), "int32", "B", strides=() if strides is dense else tuple(strides), elem_offset=offset
    )
    (flat,) = FlatIndex()(buffer, indices)
    for point in itertools.product(range(4), range(5), range(3)):
        values = dict(zip((i, j, k), point))
        assert evaluate(flat, values) == offset + sum(s * evaluate(e, values) for s, e in zip(strides, indices))


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("size", ["8", "12", "16", "n", "n * 4", "n * 8", "n * 8 + 4", "n * 2 + 1"])
def test_memory_of_vectors_has_whole_vectors(size: str, lanes: int) -> None:
    """If it is accessed by vectors alone, of one length that divides its size."""
    text = f"""def main(A: T.Buffer((8,), "float32"), n: T.int32):
    M = T.allocate([{size}], "float32", "global")
    B = T.Buffer(({size},), data=M)
    B[0:{lanes}] = A[0:{lanes}]
    A[0:{lanes}] = B[0:{lanes}]"""
    (memory,) = nodes_of(transform.StorageRewrite()(module(text))["main"].body, Allocate)
    divides = all(eval(size, {"n": n}) % lanes == 0 for n in range(16))
    assert str(memory.dtype) == (f"float32x{lanes}" if divides else "float32")
    if "n" not in size:
        assert evaluate(memory.extents[0], {}) == int(size) // (lanes if divides else 1)


# ---------------------------------------------------------------------------- layouts

LAYOUTS: list[list[Any]] = [
    [],
    [lambda i, j: [j, i]],
    [lambda i, j: [i // 2, j, i % 2]],
    [lambda i, j: [i * 6 + j]],
    [lambda i, j: [j, i], lambda j, i: [j // 4, i, j % 4]],
    [lambda i, j: [i, j // 4, j % 4]],
]


@pytest.mark.parametrize("number", range(len(LAYOUTS)))
def test_elements_are_where_their_layout_puts_them(number: int) -> None:
    """In loads, stores, realized memory, prefetches and facts of buffers; an alignment of an axis is of the old layout."""
    maps = [IndexMap.from_func(f) for f in LAYOUTS[number]]

    def place(index: tuple[int, ...]) -> tuple[int, ...]:
        for layout in LAYOUTS[number]:
            index = tuple(layout(*index))
        return index

    a, b = (
        decl_buffer((4, 6), "int32", "A", strides=[Var("s0", "int32"), Var("s1", "int32")]),
        decl_buffer((4, 6), "int32", "B"),
    )
    i, j = Var("i", "int32"), Var("j", "int32")
    store = BufferStore(b, BufferLoad(a, [i, j + 1]) * BufferLoad(b, [3 - i, j]), [i, j])
    box = [Range.from_min_extent(1, 2), Range.from_min_extent(2, 3)]
    facts = SeqStmt(
        [AttrStmt(b, "buffer_dim_align", 1, Prefetch(b, box)), AttrStmt(b, "double_buffer_scope", 1, store)]
    )
    body = BufferRealize(b, [Range(0, 4), Range(0, 6)], True, facts)
    func = PrimFunc([Var("a", "handle")], body)
    func = PrimFunc(func.params, body, buffer_map={func.params[0]: a})
    if maps:
        func = func.replace(attrs={"layout_transform_map": {a: maps, b: maps}})
    new = apply_layout_transforms(func)
    assert "layout_transform_map" not in new.attrs
    (after,) = nodes_of(new.body, BufferStore)
    loads = nodes_of(after.value, BufferLoad)
    for values in itertools.product(range(4), range(5)):
        point = dict(zip((i, j), values))
        for access, index in (
            (loads[0], (values[0], values[1] + 1)),
            (loads[1], (3 - values[0], values[1])),
            (after, values),
        ):
            assert tuple(evaluate(e, point) for e in access.indices) == place(index)
    shape = tuple(n + 1 for n in map(max, zip(*(place(p) for p in itertools.product(range(4), range(6))))))
    (realize,) = nodes_of(new.body, BufferRealize)
    argument = new.buffer_map[new.params[0]]
    bounds = [(evaluate(side.min, {}), evaluate(side.extent, {})) for side in realize.bounds]
    assert [tuple(int(n) for n in one.shape) for one in (realize.buffer, after.buffer, argument)] == [shape] * 3
    assert bounds == [(0, n) for n in shape] and len(argument.strides) == len(shape)
    (fetch,) = nodes_of(new.body, Prefetch)
    sides = [range(evaluate(s.min, {}), evaluate(s.min, {}) + evaluate(s.extent, {})) for s in fetch.bounds]
    inside = [place(p) for p in itertools.product(range(1, 3), range(2, 5))]
    assert all(value in side for p in inside for value, side in zip(p, sides, strict=True))
    assert all(side.start >= 0 and side.stop <= n for side, n in zip(sides, shape, strict=True))
    noted = {node.attr_key: node.node for node in nodes_of(new.body, AttrStmt)}
    assert noted["double_buffer_scope"] is after.buffer and noted["buffer_dim_align"] is b


@pytest.mark.parametrize(
    ("shape", "box"),
    [((4, 8), [(1, 2), (3, 5)]), ((4, 8), [(0, 4), (0, 8)]), ((4, 8), [(2, 1), (7, 1)]), ((2, 3, 4), [(1, 1), (0, 2), (1, 3)]), ((9,), [(2, 4)])],
)  # fmt: skip
def test_a_flat_region_reaches_from_the_first_to_the_last_element(
    shape: tuple[int, ...], box: list[tuple[int, int]]
) -> None:
    sides = ", ".join(f"{first}:{first + extent}" for first, extent in box)
    text = f"""def main(A: T.Buffer(({", ".join(map(str, shape))},), "int32")):
    with T.block("b"):
        T.reads(A[{sides}])
        T.writes(A[{sides}])
        T.evaluate(0)"""
    (block,) = [b for b in nodes_of(transform.FlattenBuffer()(module(text))["main"].body, Block) if b.name_hint == "b"]
    strides = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    first = sum(s * low for s, (low, _) in zip(strides, box))
    last = sum(s * (low + extent - 1) for s, (low, extent) in zip(strides, box))
    for region in (*block.reads, *block.writes):
        ((low, extent),) = [(evaluate(side.min, {}), evaluate(side.extent, {})) for side in region.region]
        assert (low, low + extent - 1) == (first, last)


@pytest.mark.parametrize("condition", [0, 1, None])
@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("likely", [True, False])
def test_branches_that_are_decided_are_gone(condition: int | None, other: bool, likely: bool) -> None:
    buffer, n = decl_buffer((8,), "int32", "B"), Var("n", "int32")
    stores = [BufferStore(buffer, IntImm("int32", value), [0]) for value in (1, 2)]
    asked = n < 3 if condition is None else IntImm("bool", condition)
    asked = Call("bool", "tir.likely", [asked]) if likely else asked
    around = For(n, 1, 7, ForKind.SERIAL, IfThenElse(asked, stores[0], stores[1] if other else None))
    after = flattened(buffer, around, 64)
    kept = {None: [1, 2], 1: [1], 0: [2]}[condition]
    assert [s.value.value for s in nodes_of(after, BufferStore)] == [k for k in kept if k == 1 or other]
    assert len(nodes_of(after, IfThenElse)) == (condition is None)


@pytest.mark.parametrize(
    ("memory", "extents"),
    [
        ("B = T.Buffer((4, 8), data=m)", ["32"]), ("B = T.decl_buffer((4, 8), data=m)", ["32"]), ("B = T.decl_buffer((4, 8), data=m, axis_separators=[1])", ["4", "8"]),
        ("B = T.decl_buffer((2, 16), data=m)", ["32"]), ("B = T.decl_buffer((2, 16), data=m, axis_separators=[1])", None), ("B = T.decl_buffer((2, 2, 8), data=m)", ["32"]),
        ("B = T.decl_buffer((2, 2, 8), data=m, axis_separators=[1])", None),
    ],
)  # fmt: skip
def test_memory_of_several_dimensions_is_flat_or_as_its_axes_are_separated(
    memory: str, extents: list[str] | None
) -> None:
    index = "1, 0, 0" if "2, 2, 8" in memory else "1, 0"
    mod = module(
        f"def main(A: T.Buffer((8,), 'float32')):\n    m = T.allocate([4, 8], 'float32')\n    {memory}\n    B[{index}] = A[0]"
    )
    if extents is None:
        with pytest.raises(TVMagicError, match="buffer `B` has axis separators that do not fit its allocation"):
            transform.FlattenBuffer()(mod)
        return
    (allocation,) = nodes_of(transform.FlattenBuffer()(mod)["main"].body, Allocate)
    assert [str(e) for e in allocation.extents] == extents


@pytest.mark.parametrize("offset", [0, 1, 7, 8, 9, 24, 25])
@pytest.mark.parametrize("shape", [(4, 8), (3, 2, 4), (5,), (1, 8), ()])
def test_rows_in_front_of_a_buffer_hold_its_offset(shape: tuple[int, ...], offset: int) -> None:
    row = math.prod(shape[1:])
    found = tuple(int(n) for n in allocation_shape(decl_buffer(shape, "int32", "B", elem_offset=offset)))
    assert found == (((shape or (1,))[0] + -(-offset // row), *shape[1:]) if offset else shape)


# ---------------------------------------------------------------------------- views and pointers


@pytest.mark.parametrize(
    ("shape", "extents", "checks"),
    [
        ("4, 8", "4, 8", []), ("n, m", "4, 8", []), ("n, 8", "k, 8", []), ("4, 8", "k, 8", ["k == 4"]), ("4, 8", "k, k", ["k == 4", "k == 8"]),
        ("n, n", "k, 8", ["k == 8"]),
    ],
)  # fmt: skip
def test_what_a_view_declares_is_checked_where_it_is_not_known(shape: str, extents: str, checks: list[str]) -> None:
    names = {name: Var(name, "int32") for name in "nmk"}
    sizes = [eval(s, dict(names)) for s in shape.split(", ")]
    target = decl_buffer((16, 16), "int32", "B")
    view = decl_buffer(
        sizes, "int32", "V", strides=[Var(f"s{n}", "int32") for n in range(2)], elem_offset=Var("o", "int32")
    )
    parts = [part for size in extents.split(", ") for part in (0, eval(size, dict(names)))]
    window = Call("handle", "tir.tvm_tuple", [IntImm("int32", p) if isinstance(p, int) else p for p in parts])
    store: Stmt = BufferStore(view, IntImm("int32", 1), [1, 2])
    after = flattened(target, AttrStmt((view, target), "buffer_bind_scope", window, store), 64)
    found = [str(Analyzer().simplify(n.condition)) for n in nodes_of(after, AssertStmt)]
    assert found[::-1] == checks


@pytest.mark.parametrize("seed", range(25))
def test_elements_of_a_view_are_those_of_what_it_shows(seed: int) -> None:
    """Of a part of a buffer of a TE program, also of one that is realized from elsewhere than 0; rows have one dimension."""
    rng = random.Random(seed)
    sizes, begins = [rng.randint(3, 6) for _ in range(2)], [rng.choice([0, 0, 2]) for _ in range(2)]
    target = decl_buffer(tuple(b + n for b, n in zip(begins, sizes)), "int32", "B")
    first = [b + rng.randint(0, 1) for b in begins]
    extents = [rng.randint(1, b + n - f) for b, n, f in zip(begins, sizes, first)]
    rank = rng.choice([1, 2])
    shape = extents[2 - rank :]
    view = decl_buffer(
        tuple(shape), "int32", "V", strides=[Var(f"s{n}", "int32") for n in range(rank)], elem_offset=Var("o", "int32")
    )
    index = [rng.randrange(n) for n in shape]
    body: Stmt = BufferStore(view, BufferLoad(view, index) + 1, index)

    place = [f + i for f, i in zip(first, [*[0] * (2 - rank), *index])]
    if rank == 1:
        extents[0] = 1
    window = Call("handle", "tir.tvm_tuple", [IntImm("int32", n) for pair in zip(first, extents) for n in pair])
    ranges = [Range.from_min_extent(b, n) for b, n in zip(begins, sizes)]
    whole = BufferRealize(target, ranges, True, AttrStmt((view, target), "buffer_bind_scope", window, body))
    func = PrimFunc([], whole).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    after = transform.StorageFlatten(64)(IRModule({"main": func}))["main"].body
    flat = (place[0] - begins[0]) * sizes[1] + place[1] - begins[1]
    found = [*nodes_of(after, BufferStore), *nodes_of(after, BufferLoad)]
    assert len(found) == 2
    assert [evaluate(access.indices[0], {}) for access in found] == [flat] * len(found)


@pytest.mark.parametrize("first", [0, 1, 2, 3, "address"])
@pytest.mark.parametrize("second", [0, 1, 2, 3, "address"])
def test_barriers_between_calls_that_get_pointers(first: Any, second: Any) -> None:
    """If one of two calls writes what the other one touches; who gets an address may do both."""
    pointers = {mask: f"T.tvm_access_ptr(T.type_annotation('int32'), S, 0, 8, {mask})" for mask in (0, 1, 2, 3)} | {
        "address": "T.address_of(s[0])"
    }
    calls = [f"    T.evaluate(T.call_extern('int32', 'f', {pointers[way]}))\n" for way in (first, second)]
    text = (
        "def main(A: T.Buffer((8,), 'int32')):\n    tx = T.launch_thread('threadIdx.x', 8)\n"
        "    S = T.allocate([8], 'int32', 'shared')\n    s = T.Buffer((8,), 'int32', data=S, scope='shared')\n"
        + "".join(calls)
    )
    masks = [3 if way == "address" else way for way in (first, second)]
    meets = (
        all(masks)
        and any(mask & 2 for mask in masks)
        and (bool(masks[0] & 1 and masks[1] & 2) or bool(masks[0] & 2 and masks[1] & 1))
    )
    after = script(transform.ThreadSync("shared")(module(text)))
    assert after.count("tvm_storage_sync") == int(meets)


@pytest.mark.parametrize("seed", range(40))
def test_memory_is_as_large_as_strides_ask_for(seed: int) -> None:
    """Each dimension but the first has the elements of its row; the last element is inside, and its row the last but the offset's."""
    rng = random.Random(seed)
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    strides = [rng.choice([1, 1, 2])]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * (size + rng.choice([0, 0, 1, 3])))
    offset = rng.choice([0, 0, 1, 16, 40])
    buffer = decl_buffer(tuple(shape), "int32", "B", strides=tuple(strides), elem_offset=offset)
    found = [evaluate(size, {}) for size in allocation_shape(buffer)]
    rows = [shape[0], *[outer // inner for outer, inner in itertools.pairwise(strides)]]
    rows[-1] *= strides[-1]
    before = -(-offset // math.prod(rows[1:]))
    assert found == [rows[0] + before if len(rows) > 1 else rows[0] + offset, *rows[1:]]
    assert math.prod(found) > offset + sum((n - 1) * s for n, s in zip(shape, strides))


@pytest.mark.parametrize("place", ["before", "inside", "behind"])
def test_only_threads_need_barriers(place: str) -> None:
    """Accesses of memory of a block meet inside the launch alone."""
    accesses = {"before": "", "inside": "        s[tx] = A[tx]\n        A[tx] = s[7 - tx]\n", "behind": ""}
    if place != "inside":
        accesses[place] = "    s[0] = A[0]\n    A[0] = s[1]\n"
        accesses["inside"] = "        A[tx] = tx\n"
    text = (
        "def main(A: T.Buffer((8,), 'int32')):\n    S = T.allocate([8], 'int32', 'shared')\n"
        "    s = T.Buffer((8,), 'int32', data=S, scope='shared')\n"
        f"{accesses['before']}    with T.launch_thread('threadIdx.x', 8) as tx:\n{accesses['inside']}{accesses['behind']}"
    )
    after = script(transform.ThreadSync("shared")(module(text)))
    assert after.count("tvm_storage_sync") == int(place == "inside")
