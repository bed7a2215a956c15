"""Prefetches against the cache lines and iterations that they are for."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir.query import is_call, nodes_of
from tvmagic.tir import transform


def flattened(buffer: ir.Buffer, body: ir.Stmt, line: int, bounds: bool = False) -> ir.Stmt:
    """A statement on a realized buffer of a TE program after StorageFlatten."""
    whole = ir.BufferRealize(buffer, [ir.Range(0, size) for size in buffer.shape], True, ir.stmt_seq(body))
    func = ir.PrimFunc([], whole).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    return transform.StorageFlatten(line, bounds)(ir.IRModule({"main": func}))["main"].body


def fetched(stmt: ir.Stmt) -> list[int]:
    """The flat places that the prefetches of a statement name, in order."""
    found: list[int] = []

    def run(node: Any, values: dict[ir.Var, int]) -> None:
        if isinstance(node, ir.SeqStmt):
            for part in node.seq:
                run(part, values)
        elif isinstance(node, ir.For):
            first, count = evaluate(node.min, values), evaluate(node.extent, values)
            for n in range(first, first + count):
                run(node.body, {**values, node.loop_var: n})
        elif isinstance(node, ir.Evaluate) and is_call(node.value, "tir.prefetch"):
            found.append(evaluate(node.value.args[0].args[0].indices[0], values))
        elif not isinstance(node, ir.Evaluate):
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
    buffer = ir.decl_buffer(shape, "float32", "B")
    ranges = tuple([ir.Range.from_min_extent(first, extent) for first, extent in box])
    places = fetched(flattened(buffer, ir.Prefetch(buffer, ranges), line))
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


def fetched_boxes(
    loops: list[tuple[ir.Var, int, int, ir.ForKind]], at: int, later: int, index: list[ir.PrimExpr]
) -> Any:
    """For each iteration of the loops outside a prefetch the box that it names; the prefetch is `at` loops deep."""
    buffer, sink = ir.decl_buffer((64, 64), "float32", "B"), ir.decl_buffer((64, 64), "float32", "C")
    body: ir.Stmt = ir.BufferStore(sink, ir.BufferLoad(buffer, index), [0, 0])
    for depth in range(len(loops), 0, -1):
        if depth == at:
            body = ir.AttrStmt(buffer, "prefetch_scope", ir.IntImm("int32", later), body)
        var, low, extent, kind = loops[depth - 1]
        body = ir.For(var, low, extent, kind, body)
    func = ir.PrimFunc([], body).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    after = transform.InjectPrefetch()(ir.IRModule({"main": func}))["main"].body
    boxes: dict[tuple[int, ...], Any] = {}

    def run(node: Any, values: dict[ir.Var, int]) -> None:
        if isinstance(node, ir.For):
            for n in range(evaluate(node.min, values), evaluate(node.min, values) + evaluate(node.extent, values)):
                run(node.body, {**values, node.loop_var: n})
        elif isinstance(node, ir.SeqStmt):
            for part in node.seq:
                run(part, values)
        elif isinstance(node, ir.Prefetch):
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
    i, j, k = ir.Var("i", "int32"), ir.Var("j", "int32"), ir.Var("k", "int32")
    kind = {"s": ir.ForKind.SERIAL, "v": ir.ForKind.VECTORIZED}
    loops = [(i, 2, 3, kind[kinds[0]]), (j, 1, 4, kind[kinds[1]]), (k, 0, 2, ir.ForKind.SERIAL)]
    index = [i * 4 + k, 40 - j * 3 + i]
    boxes = fetched_boxes(loops, at, later, index)
    outer = [range(low, low + extent) for _, low, extent, _ in loops[:at]]
    assert sorted(boxes) == sorted(itertools.product(*outer))
    for values, box in boxes.items():
        point = dict(zip((i, j, k), values))
        around = {v: [point[v]] if v in point else list(range(low, low + extent)) for v, low, extent, _ in loops}
        for var, low, extent, how in loops[: at - 1]:
            around[var] = list(range(low, low + extent)) if how is ir.ForKind.VECTORIZED else around[var]
        around[loops[at - 1][0]] = [values[-1] + later]
        places = [[evaluate(e, dict(zip(around, at_))) for e in index] for at_ in itertools.product(*around.values())]
        assert box == [(min(side), max(side)) for side in zip(*places)]


def test_prefetch_of_unread_tensor_is_omitted() -> None:
    buffer, other, i = ir.decl_buffer((8,), "float32", "B"), ir.decl_buffer((8,), "int32", "I"), ir.Var("i", "int32")
    for read, fetches in ((ir.BufferLoad(buffer, [i]), 1), (ir.BufferLoad(other, [i]).astype("float32"), 0)):
        body = ir.AttrStmt(
            buffer, "prefetch_scope", ir.IntImm("int32", 1), ir.BufferStore(ir.decl_buffer((8,)), read, [0])
        )
        for stmt in (body, ir.For(i, 0, 8, ir.ForKind.SERIAL, body)):
            func = ir.PrimFunc([], stmt).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
            if stmt is body:
                with pytest.raises(TVMagicError):
                    transform.InjectPrefetch()(ir.IRModule({"main": func}))
            else:
                after = transform.InjectPrefetch()(ir.IRModule({"main": func}))["main"].body
                assert len(nodes_of(after, ir.Prefetch)) == fetches
                assert not [n for n in nodes_of(after, ir.AttrStmt) if n.attr_key == "prefetch_scope"] or fetches == 1
