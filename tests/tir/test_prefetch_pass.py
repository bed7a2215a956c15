"""Prefetches against the cache lines and iterations that they are for."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IntImm,
    IRModule,
    Prefetch,
    PrimExpr,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    Var,
    decl_buffer,
    stmt_seq,
)
from tvmagic.ir.query import is_call, nodes_of
from tvmagic.tir import transform


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
    [
        ((40,), [(3, 20)]),
        ((6, 4), [(1, 3), (0, 4)]),
        ((5, 2, 2), [(1, 3), (0, 2), (0, 2)]),
        ((4, 9), [(1, 2), (2, 7)]),
        ((3, 4, 5), [(0, 2), (1, 3), (0, 5)]),
    ],
)
def test_prefetch_covers_each_cache_line_once(shape: tuple[int, ...], box: list[tuple[int, int]], line: int) -> None:
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
def test_prefetch_covers_later_iteration(kinds: str, at: int, later: int) -> None:
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


def test_prefetch_of_unread_tensor_is_omitted() -> None:
    buffer, other, i = decl_buffer((8,), "float32", "B"), decl_buffer((8,), "int32", "I"), Var("i", "int32")
    for read, fetches in ((BufferLoad(buffer, [i]), 1), (BufferLoad(other, [i]).astype("float32"), 0)):
        body = AttrStmt(buffer, "prefetch_scope", IntImm("int32", 1), BufferStore(decl_buffer((8,)), read, [0]))
        for stmt in (body, For(i, 0, 8, ForKind.SERIAL, body)):
            func = PrimFunc([], stmt).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
            if stmt is body:
                with pytest.raises(TVMagicError):
                    transform.InjectPrefetch()(IRModule({"main": func}))
            else:
                after = transform.InjectPrefetch()(IRModule({"main": func}))["main"].body
                assert len(nodes_of(after, Prefetch)) == fetches
                assert not [n for n in nodes_of(after, AttrStmt) if n.attr_key == "prefetch_scope"] or fetches == 1
