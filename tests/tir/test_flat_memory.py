"""Flattened buffers, views and layouts: the address of every element, by counting."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from pass_checks import module

from tvmagic import ir
from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir.query import nodes_of
from tvmagic.tir import transform
from tvmagic.tir.transform.blocks.lower_opaque_block import allocation_shape
from tvmagic.tir.transform.memory.flat_index import FlatIndex
from tvmagic.tir.transform.memory.layout_transforms import apply_layout_transforms


@pytest.mark.parametrize("seed", range(60))
def test_flat_index_is_element_offset(seed: int) -> None:
    """By strides and an offset, whatever is put together: a quotient and a remainder of one value are that value."""
    rng = random.Random(seed)
    i, j, k = ir.Var("i", "int32"), ir.Var("j", "int32"), ir.Var("k", "int32")
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
    buffer = ir.decl_buffer(
        tuple(shape), "int32", "B", strides=() if strides is dense else tuple(strides), elem_offset=offset
    )
    (flat,) = FlatIndex()(buffer, indices)
    for point in itertools.product(range(4), range(5), range(3)):
        values = dict(zip((i, j, k), point))
        assert evaluate(flat, values) == offset + sum(s * evaluate(e, values) for s, e in zip(strides, indices))


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("size", ["8", "12", "16", "n", "n * 4", "n * 8", "n * 8 + 4", "n * 2 + 1"])
def test_vector_memory_holds_whole_vectors(size: str, lanes: int) -> None:
    """If it is accessed by vectors alone, of one length that divides its size."""
    text = f"""def main(A: T.Buffer((8,), "float32"), n: T.int32):
    M = T.allocate([{size}], "float32", "global")
    B = T.Buffer(({size},), data=M)
    B[0:{lanes}] = A[0:{lanes}]
    A[0:{lanes}] = B[0:{lanes}]"""
    (memory,) = nodes_of(transform.StorageRewrite()(module(text))["main"].body, ir.Allocate)
    divides = all(eval(size, {"n": n}) % lanes == 0 for n in range(16))
    assert str(memory.dtype) == (f"float32x{lanes}" if divides else "float32")
    if "n" not in size:
        assert evaluate(memory.extents[0], {}) == int(size) // (lanes if divides else 1)


LAYOUTS: list[list[Any]] = [
    [],
    [lambda i, j: [j, i]],
    [lambda i, j: [i // 2, j, i % 2]],
    [lambda i, j: [i * 6 + j]],
    [lambda i, j: [j, i], lambda j, i: [j // 4, i, j % 4]],
    [lambda i, j: [i, j // 4, j % 4]],
]


@pytest.mark.parametrize("number", range(len(LAYOUTS)))
def test_layout_transform_moves_every_element(number: int) -> None:
    """In loads, stores, realized memory, prefetches and facts of buffers; an alignment of an axis is of the old layout."""
    maps = [IndexMap.from_func(f) for f in LAYOUTS[number]]

    def place(index: tuple[int, ...]) -> tuple[int, ...]:
        for layout in LAYOUTS[number]:
            index = tuple(layout(*index))
        return index

    a, b = (
        ir.decl_buffer((4, 6), "int32", "A", strides=[ir.Var("s0", "int32"), ir.Var("s1", "int32")]),
        ir.decl_buffer((4, 6), "int32", "B"),
    )
    i, j = ir.Var("i", "int32"), ir.Var("j", "int32")
    store = ir.BufferStore(b, ir.BufferLoad(a, [i, j + 1]) * ir.BufferLoad(b, [3 - i, j]), [i, j])
    box = [ir.Range.from_min_extent(1, 2), ir.Range.from_min_extent(2, 3)]
    facts = ir.SeqStmt(
        [ir.AttrStmt(b, "buffer_dim_align", 1, ir.Prefetch(b, box)), ir.AttrStmt(b, "double_buffer_scope", 1, store)]
    )
    body = ir.BufferRealize(b, [ir.Range(0, 4), ir.Range(0, 6)], True, facts)
    func = ir.PrimFunc([ir.Var("a", "handle")], body)
    func = ir.PrimFunc(func.params, body, buffer_map={func.params[0]: a})
    if maps:
        func = func.replace(attrs={"layout_transform_map": {a: maps, b: maps}})
    new = apply_layout_transforms(func)
    assert "layout_transform_map" not in new.attrs
    (after,) = nodes_of(new.body, ir.BufferStore)
    loads = nodes_of(after.value, ir.BufferLoad)
    for values in itertools.product(range(4), range(5)):
        point = dict(zip((i, j), values))
        for access, index in (
            (loads[0], (values[0], values[1] + 1)),
            (loads[1], (3 - values[0], values[1])),
            (after, values),
        ):
            assert tuple(evaluate(e, point) for e in access.indices) == place(index)
    shape = tuple(n + 1 for n in map(max, zip(*(place(p) for p in itertools.product(range(4), range(6))))))
    (realize,) = nodes_of(new.body, ir.BufferRealize)
    argument = new.buffer_map[new.params[0]]
    bounds = [(evaluate(side.min, {}), evaluate(side.extent, {})) for side in realize.bounds]
    assert [tuple(int(n) for n in one.shape) for one in (realize.buffer, after.buffer, argument)] == [shape] * 3
    assert bounds == [(0, n) for n in shape] and len(argument.strides) == len(shape)
    (fetch,) = nodes_of(new.body, ir.Prefetch)
    sides = [range(evaluate(s.min, {}), evaluate(s.min, {}) + evaluate(s.extent, {})) for s in fetch.bounds]
    inside = [place(p) for p in itertools.product(range(1, 3), range(2, 5))]
    assert all(value in side for p in inside for value, side in zip(p, sides, strict=True))
    assert all(side.start >= 0 and side.stop <= n for side, n in zip(sides, shape, strict=True))
    noted = {node.attr_key: node.node for node in nodes_of(new.body, ir.AttrStmt)}
    assert noted["double_buffer_scope"] is after.buffer and noted["buffer_dim_align"] is b


@pytest.mark.parametrize(
    ("shape", "box"),
    [
        ((4, 8), [(1, 2), (3, 5)]),
        ((4, 8), [(0, 4), (0, 8)]),
        ((4, 8), [(2, 1), (7, 1)]),
        ((2, 3, 4), [(1, 1), (0, 2), (1, 3)]),
        ((9,), [(2, 4)]),
    ],
)
def test_flat_region_spans_all_elements(shape: tuple[int, ...], box: list[tuple[int, int]]) -> None:
    sides = ", ".join(f"{first}:{first + extent}" for first, extent in box)
    text = f"""def main(A: T.Buffer(({", ".join(map(str, shape))},), "int32")):
    with T.block("b"):
        T.reads(A[{sides}])
        T.writes(A[{sides}])
        T.evaluate(0)"""
    (block,) = [
        b for b in nodes_of(transform.FlattenBuffer()(module(text))["main"].body, ir.Block) if b.name_hint == "b"
    ]
    strides = [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    first = sum(s * low for s, (low, _) in zip(strides, box))
    last = sum(s * (low + extent - 1) for s, (low, extent) in zip(strides, box))
    for region in (*block.reads, *block.writes):
        ((low, extent),) = [(evaluate(side.min, {}), evaluate(side.extent, {})) for side in region.region]
        assert (low, low + extent - 1) == (first, last)


@pytest.mark.parametrize(
    ("memory", "extents"),
    [
        ("B = T.Buffer((4, 8), data=m)", ["32"]),
        ("B = T.decl_buffer((4, 8), data=m)", ["32"]),
        ("B = T.decl_buffer((4, 8), data=m, axis_separators=[1])", ["4", "8"]),
        ("B = T.decl_buffer((2, 16), data=m)", ["32"]),
        ("B = T.decl_buffer((2, 16), data=m, axis_separators=[1])", None),
        ("B = T.decl_buffer((2, 2, 8), data=m)", ["32"]),
        ("B = T.decl_buffer((2, 2, 8), data=m, axis_separators=[1])", None),
    ],
)
def test_flattening_respects_axis_separators(memory: str, extents: list[str] | None) -> None:
    index = "1, 0, 0" if "2, 2, 8" in memory else "1, 0"
    mod = module(
        f"def main(A: T.Buffer((8,), 'float32')):\n    m = T.allocate([4, 8], 'float32')\n    {memory}\n    B[{index}] = A[0]"
    )
    if extents is None:
        with pytest.raises(TVMagicError):
            transform.FlattenBuffer()(mod)
        return
    (allocation,) = nodes_of(transform.FlattenBuffer()(mod)["main"].body, ir.Allocate)
    assert [str(e) for e in allocation.extents] == extents


@pytest.mark.parametrize("seed", range(25))
def test_view_addresses_shown_elements(seed: int) -> None:
    """Of a part of a buffer of a TE program, also of one that is realized from elsewhere than 0; rows have one dimension."""
    rng = random.Random(seed)
    sizes, begins = [rng.randint(3, 6) for _ in range(2)], [rng.choice([0, 0, 2]) for _ in range(2)]
    target = ir.decl_buffer(tuple(b + n for b, n in zip(begins, sizes)), "int32", "B")
    first = [b + rng.randint(0, 1) for b in begins]
    extents = [rng.randint(1, b + n - f) for b, n, f in zip(begins, sizes, first)]
    rank = rng.choice([1, 2])
    shape = extents[2 - rank :]
    view = ir.decl_buffer(
        tuple(shape),
        "int32",
        "V",
        strides=[ir.Var(f"s{n}", "int32") for n in range(rank)],
        elem_offset=ir.Var("o", "int32"),
    )
    index = [rng.randrange(n) for n in shape]
    body: ir.Stmt = ir.BufferStore(view, ir.BufferLoad(view, index) + 1, index)

    place = [f + i for f, i in zip(first, [*[0] * (2 - rank), *index])]
    if rank == 1:
        extents[0] = 1
    window = ir.Call("handle", "tir.tvm_tuple", [ir.IntImm("int32", n) for pair in zip(first, extents) for n in pair])
    ranges = [ir.Range.from_min_extent(b, n) for b, n in zip(begins, sizes)]
    whole = ir.BufferRealize(target, ranges, True, ir.AttrStmt((view, target), "buffer_bind_scope", window, body))
    func = ir.PrimFunc([], whole).with_attr({"from_legacy_te_schedule": True, "global_symbol": "main"})
    after = transform.StorageFlatten(64)(ir.IRModule({"main": func}))["main"].body
    flat = (place[0] - begins[0]) * sizes[1] + place[1] - begins[1]
    found = [*nodes_of(after, ir.BufferStore), *nodes_of(after, ir.BufferLoad)]
    assert len(found) == 2
    assert [evaluate(access.indices[0], {}) for access in found] == [flat] * len(found)


@pytest.mark.parametrize("seed", range(40))
def test_allocation_covers_strides(seed: int) -> None:
    """Each dimension but the first has the elements of its row; the last element is inside, and its row the last but the offset's."""
    rng = random.Random(seed)
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    strides = [rng.choice([1, 1, 2])]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * (size + rng.choice([0, 0, 1, 3])))
    offset = rng.choice([0, 0, 1, 16, 40])
    buffer = ir.decl_buffer(tuple(shape), "int32", "B", strides=tuple(strides), elem_offset=offset)
    found = [evaluate(size, {}) for size in allocation_shape(buffer)]
    rows = [shape[0], *[outer // inner for outer, inner in itertools.pairwise(strides)]]
    rows[-1] *= strides[-1]
    before = -(-offset // math.prod(rows[1:]))
    assert found == [rows[0] + before if len(rows) > 1 else rows[0] + offset, *rows[1:]]
    assert math.prod(found) > offset + sum((n - 1) * s for n, s in zip(shape, strides))


@pytest.mark.parametrize(
    ("region", "shape", "used", "meant"),
    [
        ("A[vi, 2:6, 0:8]", "4, 8", "M[vj, 1:5]", "A[vi, 2 + vj, 1:5]"),
        ("A[vi, 2:6, 0:8]", "1, 4, 8", "M[0, vj, 1:5]", "A[vi, 2 + vj, 1:5]"),
        ("A[vi, 5, 0:8]", "8", "M[vj:vj + 3]", "A[vi, 5, vj:vj + 3]"),
        ("A[vi, 5, 3]", "1", "M[0]", "A[vi, 5, 3]"),
        ("A[vi:vi + 1, 0:2, 0:8]", "2, 8", "M[0:2, vj]", "A[vi, 0:2, vj]"),
    ],
)
def test_region_of_view_is_region_of_source(region: str, shape: str, used: str, meant: str) -> None:
    """A view has the last dimensions of a region; the others have one element each."""
    text = f"""def main(A: T.Buffer((4, 8, 8), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("outer"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, 0:8, 0:8])
            T.writes(A[vi, 0:8, 0:8])
            M = T.match_buffer({region}, ({shape},), "int32", strides={[f"s{k}" for k in range(shape.count(",") + 1)]}, offset_factor=1)
            with T.block("inner"):
                T.reads({used})
                T.writes({used})
                T.evaluate(vj)"""
    inner = next(
        b for b in nodes_of(transform.LowerMatchBuffer()(module(text))["main"].body, ir.Block) if b.name_hint == "inner"
    )
    plain = next(
        b
        for b in nodes_of(module(text.replace(f"T.reads({used})", f"T.reads({meant})"))["main"].body, ir.Block)
        if b.name_hint == "inner"
    )
    assert [str(r) for r in (*inner.reads, *inner.writes)] == [str(plain.reads[0])] * 2
