"""Queues, buffers and their numbers; arrays in global memory that keep their axes; parts of larger arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_graphs import Maker
from refusals import refuses
from sampling import every

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, AscNode, AxisType, Machine, Queue, ops
from tvmagic.ascend.lifetimes import is_local, lifetimes
from tvmagic.ascend.memory import place_of
from tvmagic.ascend.sizes import Size


def new(name: str, *sizes: int) -> AscGraph:
    graph = AscGraph(name)
    for number, size in enumerate(sizes or (4000,)):
        graph.create_axis(f"z{number}", size)
    return graph


def check_memory(graph: AscGraph) -> None:
    """What must hold of every ImplGraph's memory, told from the graph alone."""
    lives, readers = lifetimes(graph), graph.readers()
    local = [n for n in graph.nodes if is_local(n)]
    for node in local:
        y = node.y
        crosses = node.op.unit == "MTE2" or any(r.op.unit != node.op.unit for r in readers[y])
        where = ("VECIN" if node.op.unit == "MTE2" else "VECOUT") if crosses else "VECCALC"
        queued = y.que.id >= 0  # what does not cross may take an element of a queue
        assert (y.mem.position, y.mem.alloc_type) == (where, "Queue" if queued else "Buffer"), node
        assert (y.que == Queue()) != (y.buf.id == -1) and (y.mem.reuse_id >= 0) == queued >= crosses
        assert not queued or (y.que.depth, y.que.buf_num) == (2, 2)
    for position in ("VECIN", "VECOUT"):
        numbers = sorted({n.y.que.id for n in local if n.y.mem.position == position})
        assert len(numbers) <= 4 and (not numbers or numbers == list(range(numbers[0], numbers[-1] + 1)))
    for a in local:
        for b in local:
            if a is not b and place_of(a.y) == place_of(b.y) and not _beside(a, b):
                (first, last), (start, end) = lives[id(a)], lives[id(b)]
                over = a.y.buf.id >= 0 and (last == start or end == first)
                assert last < start or end < first or over, (a, b)
    numbers = {n.y.mem.tensor_id for n in graph.nodes}
    assert numbers == set(range(len(numbers)))


def _beside(a: AscNode, b: AscNode) -> bool:
    return a.y.que.id >= 0 and a.y.mem.reuse_id == b.y.mem.reuse_id


@pytest.mark.parametrize("seed", every(2, range(40)))
def test_memory_of_random_graphs(seed: int) -> None:
    hint = Maker(seed).build()
    arrays = {n.name: _layout(n) for n in hint.nodes if n.op.is_buffer}
    stores = {n.name: _layout(n) for n in hint.of_type("Store")}
    results = ascend.auto_schedule(hint)
    chosen = random.Random(seed).choice(results)
    for made in (i.graph for g in chosen.groups for i in g.impls):
        check_memory(made)
        for node in made.nodes:
            if node.name in arrays:
                assert _layout(node) == arrays[node.name] and not node.y.vectorized_axis
            if node.name in stores and not any(r.type == "Workspace" for r in made.consumers(node.y)):
                assert _layout(node) == stores[node.name] and not node.y.vectorized_axis
        for axis in made.axes:
            split = axis.type not in (AxisType.ORIGINAL, AxisType.MERGED)
            assert axis.align == (1 if split else -1)
            assert axis.bind_block == (axis.type is AxisType.BLOCK_OUT) and (axis.split_pair is not None) == split
        text = str(made)
        assert ascend.graph_text(ascend.parse_graph(text), 1) == text
        short = ascend.graph_text(made, 2)
        assert ascend.graph_text(ascend.parse_graph(short), 2) == short


def _layout(node: AscNode) -> tuple[list[str], list[str], list[str]]:
    return [a.name for a in node.y.axis], list(map(str, node.y.repeats)), list(map(str, node.y.strides))


# ---------------------------------------------------------------------------- offsets


def sliced(symbolic: bool) -> AscGraph:
    """`out[2:, 3:13] = abs(x[:6, 5:15])` of arrays of 20 columns; `out[:, 3:13] = abs(x[:, 5:15])` for any number of rows."""
    graph = AscGraph("sliced")
    s0 = graph.create_size("s0") if symbolic else Size.of(6)
    graph.create_axis("z0", s0), graph.create_axis("z1", 10)
    wide = [s0 if symbolic else 8, 20]
    x = ops.Load(ops.Data(graph, "x", sizes=wide), offset=5, sizes=[s0, 10])
    ops.Output(ops.Store(ops.Abs(x), offset=3 if symbolic else 43), "out", sizes=wide)
    return graph


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_part_of_a_larger_array_goes_in_and_out(symbolic: bool) -> None:
    graph = sliced(symbolic)
    ascend.check_hint(graph)
    x = np.random.default_rng(0).standard_normal((8, 20)).astype("float32")
    want, out = np.zeros_like(x), np.zeros_like(x)
    if symbolic:
        want[:, 3:13] = abs(x[:, 5:15])
    else:
        want[2:, 3:13] = abs(x[:6, 5:15])
    tvmagic.build(ascend.compile_graph(graph, {"s0": 3}, Machine(threads=2)))(x, out)
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(ascend.evaluate(graph, [x])[0], want)
    text = str(graph)
    assert str(ascend.parse_graph(text)) == text and '.offset = expression: "5"' in text


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 1), (1, 0), (2, 3)])
def test_a_part_begins_at_any_element_also_at_the_first(rows: int, columns: int) -> None:
    graph = AscGraph("part")
    graph.create_axis("z0", 2), graph.create_axis("z1", 3)
    part = ops.Load(ops.Data(graph, "x", sizes=[4, 6]), offset=6 * rows + columns, sizes=[2, 3])
    ops.Output(ops.Store(ops.Abs(part)), "out")
    x = -np.arange(24, dtype="float32").reshape(4, 6)
    (found,) = ascend.evaluate(graph, [x])
    np.testing.assert_array_equal(found, abs(x[rows : rows + 2, columns : columns + 3]))


def test_a_symbolic_offset() -> None:
    """The second half of what has twice as many rows; the sizes follow from the other argument."""
    graph = AscGraph("half")
    s0 = graph.create_size("s0")
    graph.create_axis("z0", s0), graph.create_axis("z1", 7)
    half = ops.Load(ops.Data(graph, "x", sizes=[s0 * 2, 7]), offset=s0 * 7, sizes=[s0, 7])
    ops.Output(ops.Store(ops.Add(half, ops.Load(ops.Data(graph, "y")))), "out")
    for rows in (1, 5):
        x = np.random.default_rng(rows).standard_normal((2 * rows, 7)).astype("float32")
        y, out = x[:rows] * 2, np.zeros((rows, 7), "float32")
        tvmagic.build(ascend.compile_graph(graph, {"s0": 4}, Machine()))(x, y, out)
        np.testing.assert_array_equal(out, x[rows:] + y)
        np.testing.assert_array_equal(ascend.evaluate(graph, [x, y])[0], out)


def test_two_stores_fill_one_output() -> None:
    graph = AscGraph("two_halves")
    graph.create_axis("z0", 6), graph.create_axis("z1", 5)
    x = ops.Load(ops.Data(graph, "x"))
    parts = [ops.Store(ops.Abs(x)), ops.Store(ops.Neg(x), offset=30)]
    ops.Output(parts, "out", sizes=[12, 5])
    data, out = np.random.default_rng(0).standard_normal((6, 5)).astype("float32"), np.zeros((12, 5), "float32")
    tvmagic.build(ascend.compile_graph(graph, machine=Machine()))(data, out)
    np.testing.assert_array_equal(out, np.concatenate([abs(data), -data]))
    np.testing.assert_array_equal(ascend.evaluate(graph, [data])[0], out)


@pytest.mark.parametrize(
    ("shape", "parts", "apart"),
    [
        ((10,), [(5, 0), (5, 5)], True),
        ((10,), [(5, 0), (5, 4)], False),
        ((10,), [(5, 4), (5, 0)], False),
        ((10,), [(5, 5), (5, 5)], False),
        ((4, 8), [((4, 3), 0), ((4, 5), 3)], True),  # columns beside one another
        ((4, 8), [((4, 3), 0), ((4, 5), 2)], False),
        ((4, 8), [((2, 8), 16), ((2, 8), 0)], True),  # rows
        ((4, 8), [((2, 8), 8), ((2, 8), 0)], False),
        ((4, 8), [((2, 8), 0), ((1, 3), 16), ((2, 8), 8)], False),
        ((4, 8), [((2, 4), 6), ((1, 1), 0)], True),  # over the end of a row: no box
        ((4, 8), [((2, 4), 6), ((1, 1), 6)], False),
        (("n",), [("n", 0), ("n", 0)], False),
        (("n",), [("n", 0), ("n", "n")], True),
    ],
)
def test_stores_of_one_output_write_elements_of_their_own(shape: tuple, parts: list[tuple], apart: bool) -> None:
    graph = AscGraph("parts")
    n = graph.create_size("n")

    def of(sizes: object) -> list:
        return [n if s == "n" else s for s in (sizes if isinstance(sizes, tuple) else (sizes,))]

    for number, size in enumerate(of(shape)):
        graph.create_axis(f"z{number}", size)
    x = ops.Data(graph, "x")
    stores = [ops.Store(ops.Load(x, sizes=of(s)), offset=n if at == "n" else at) for s, at in parts]
    ops.Output(stores, "out", sizes=[s * 2 if s is n else s for s in of(shape)])
    if apart:
        ascend.check_hint(graph)
        return
    with refuses("ascend.stores_apart", error=AscendError):
        ascend.check_hint(graph)


def test_a_part_that_is_not_inside_is_refused() -> None:
    graph = new("outside", 10)
    ops.Output(ops.Store(ops.Load(ops.Data(graph, "x"), offset=3)), "y")
    for use in (ascend.check_hint, ascend.lower_graph, lambda g: ascend.evaluate(g, [np.zeros(10, "float32")])):
        with refuses("ascend.offset_inside", error=AscendError):
            use(graph)
    for offset in (-1, 3):
        graph = new("stored_outside", 10)
        ops.Output(ops.Store(ops.Load(ops.Data(graph, "x")), offset=offset), "y")
        with refuses("ascend.offset_inside", error=AscendError):
            ascend.auto_schedule(graph)
    graph = new("backwards", 10)
    ops.Output(ops.Store(ops.Load(ops.Data(graph, "x", strides=[-1]))), "y")
    with pytest.raises(AscendError):
        ascend.check_hint(graph)
    graph = new("larger", 10)
    ops.Output(ops.Store(ops.Load(ops.Data(graph, "x", sizes=[9]), sizes=[10])), "y")
    with refuses("ascend.edge_repeats", error=AscendError):
        ascend.check_hint(graph)


def test_a_part_of_open_size_that_is_not_inside_is_refused_when_the_program_runs() -> None:
    graph = AscGraph("window")
    s0 = graph.create_size("s0")
    graph.create_axis("z0", 8)
    window = ops.Load(ops.Data(graph, "x", sizes=[20]), offset=s0, sizes=[8])
    graph.create_axis("z1", s0)
    given = ops.Data(graph, "y", ["z1"])
    ops.Output(ops.Store(ops.Abs(window)), "out")
    assert given.node.name == "y"  # an argument that says how large s0 is
    built = tvmagic.build(ascend.lower_graph(graph))
    x, out = np.arange(-10, 10, dtype="float32"), np.zeros(8, "float32")
    built(x, np.zeros((1, 12), "float32"), out)
    np.testing.assert_array_equal(out, abs(x[12:20]))
    with refuses("call.assertion_failed"):
        built(x, np.zeros((1, 13), "float32"), out)


@pytest.mark.parametrize("size", [3, 4, 10, 16, 17])
def test_a_part_begins_at_the_first_element_at_the_earliest(size: int) -> None:
    graph = AscGraph("window")
    s0 = graph.create_size("s0")
    graph.create_axis("z0", 8)
    window = ops.Load(ops.Data(graph, "x", sizes=[20]), offset=s0 - 4, sizes=[8])
    graph.create_axis("z1", s0)
    ops.Data(graph, "y", ["z1"])
    ops.Output(ops.Store(ops.Abs(window)), "out")
    built = tvmagic.build(ascend.lower_graph(graph))
    x, out = np.arange(-10, 10, dtype="float32"), np.zeros(8, "float32")
    if 0 <= size - 4 <= 12:
        built(x, np.zeros((1, size), "float32"), out)
        np.testing.assert_array_equal(out, abs(x[size - 4 : size + 4]))
    else:
        with refuses("call.assertion_failed"):
            built(x, np.zeros((1, size), "float32"), out)
