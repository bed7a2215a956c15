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
from tvmagic.ascend.memory import assign_memory, place_of
from tvmagic.ascend.npu import local_sizes
from tvmagic.ascend.sizes import Size
from tvmagic.passes import recording


def new(name: str, *sizes: int) -> AscGraph:
    graph = AscGraph(name)
    for number, size in enumerate(sizes or (4000,)):
        graph.create_axis(f"z{number}", size)
    return graph


def impl(graph: AscGraph, result: int = 0) -> AscGraph:
    return ascend.auto_schedule(graph)[result].groups[0].impls[0].graph


def ids(graph: AscGraph) -> dict[str, tuple[int, int]]:
    return {n.name: (n.y.mem.tensor_id, n.y.mem.reuse_id) for n in graph.nodes}


def test_a_chain() -> None:
    graph = new("chain")
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x")))), "y")
    graph = impl(graph)
    assert ids(graph) == {"x": (0, -1), "load_0": (2, 0), "abs_0": (3, 1), "store_0": (1, -1), "y": (1, -1)}
    load, result, store = (graph.find_node(n).y for n in ("load_0", "abs_0", "store_0"))
    assert (load.mem.alloc_type, load.mem.hardware, load.mem.position, load.que) == (
        "Queue",
        "UB",
        "VECIN",
        Queue(0, 2, 2),
    )
    assert (result.mem.position, result.que) == ("VECOUT", Queue(1, 2, 2))
    assert (store.mem.alloc_type, store.mem.hardware, store.mem.position) == ("Global", "GM", "GM")


def test_two_loads_into_one_node_lie_side_by_side() -> None:
    graph = new("two")
    x, y = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "y"))
    ops.Output(ops.Store(ops.Add(x, y)), "z")
    graph = impl(graph)
    assert ids(graph) == {
        "x": (0, -1),
        "y": (1, -1),
        "load_0": (3, 0),
        "load_1": (4, 0),
        "add_0": (5, 1),
        "store_0": (2, -1),
        "z": (2, -1),
    }
    assert [graph.find_node(n).y.que.id for n in ("load_0", "load_1", "add_0")] == [0, 0, 1]
    text = str(ascend.lower_graph(graph, {"z0t_size": 64, "z0Tb_size": 2}))
    assert "load_0_local = T.decl_buffer((64,)" in text and "load_1_local = T.decl_buffer((64,)" in text


def test_a_diamond() -> None:
    """What is read by the same unit lies in a buffer; a load that two nodes read has a queue of its own."""
    graph = new("diamond")
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Add(ops.Abs(x), ops.Exp(x))), "y")
    graph = impl(graph)
    facts = {n.name: (n.y.mem.position, n.y.que.id, n.y.buf.id, n.y.mem.reuse_id) for n in graph.nodes if is_local(n)}
    assert facts == {
        "load_0": ("VECIN", 0, -1, 0),
        "abs_0": ("VECCALC", -1, 0, -1),
        "exp_0": ("VECCALC", -1, 1, -1),
        "add_0": ("VECOUT", 1, -1, 1),
    }


def test_a_reduction() -> None:
    """Results of reductions in queues are not shared, the broadcast of one takes a buffer."""
    graph = new("rows", 40, 300)
    z1 = graph.axes[1]
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Sum(x, z1)), "total")
    ops.Output(ops.Store(ops.Max(x, z1)), "most")
    graph = impl(graph)
    assert [graph.find_node(n).y.que.id for n in ("load_0", "sum_0", "max_0")] == [0, 1, 2]
    assert all(graph.find_node(n).y.mem.position == "VECOUT" for n in ("sum_0", "max_0"))


def test_a_queue_is_taken_again_but_not_the_one_used_just_before() -> None:
    graph = new("again")
    value = None
    for number in range(5):
        x = ops.Load(ops.Data(graph, f"x{number}"))
        value = ops.Abs(x) if value is None else ops.Add(value, ops.Abs(x))
    ops.Output(ops.Store(value), "y")
    graph = impl(graph)
    assert [n.y.que.id for n in graph.of_type("Load")] == [0, 1, 0, 1, 0]
    assert [n.y.mem.reuse_id for n in graph.of_type("Load")] == [0, 1, 2, 3, 4]


def test_an_elementwise_node_writes_over_what_it_alone_reads() -> None:
    graph = new("over")
    x = ops.Load(ops.Data(graph, "x"))
    a = ops.Exp(ops.Abs(x))
    ops.Output(ops.Store(ops.Add(a, ops.Neg(ops.Sqrt(ops.Abs(x))))), "y")
    graph = impl(graph)
    found = {n.name: n.y.buf.id for n in graph.nodes if n.y.buf.id >= 0}
    assert found["exp_0"] == found["abs_0"] and found["neg_0"] == found["sqrt_0"] == found["abs_1"] != found["exp_0"]
    assert graph.find_node("abs_0").y.que.id == -1  # never over what was loaded


def many_results() -> AscGraph:
    graph = new("results", 5000)
    x, y = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "y"))
    a = ops.Abs(x)
    b = ops.Exp(a)
    c = ops.Add(ops.Mul(a, b), ops.Sub(b, a))
    ops.Output(ops.Store(ops.Add(ops.Mul(c, y), ops.Mul(c, a))), "out")
    return graph


def test_a_result_takes_an_element_of_a_queue_that_is_free_while_it_lives() -> None:
    """`abs_0` is done with before anything is stored, `exp_0` begins once `x` was used: no more memory is taken for them."""
    hint = many_results()
    with recording() as record:
        graph = impl(hint)
    shown = {n.name: (n.y.mem.alloc_type, n.y.que.id) for n in graph.nodes if n.y.mem.position == "VECCALC"}
    assert shown["exp_0"] == ("Queue", graph.find_node("load_0").y.que.id)
    assert any("takes an element of the queue of" in note.text for note in record.notes("ascend.reuse"))
    check_memory(graph)
    text = str(graph)
    assert str(ascend.parse_graph(text)) == text and ascend.graph_text(graph, 2) == str(
        ascend.parse_graph(ascend.graph_text(graph, 2))
    )
    sizes = {"z0t_size": 64, "z0Tb_size": 3}
    assert local_sizes(graph, sizes)["q0"] == (256, 2)  # as large as it is for what is loaded alone
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 5000)).astype("float32")
    out = np.zeros_like(x)
    tvmagic.build(ascend.lower_graph(ascend.parse_graph(text), sizes))(x, y, out)
    np.testing.assert_allclose(out, ascend.evaluate(hint, [x, y])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stores", [False, True])
def test_more_tensors_than_queues_are_copied(stores: bool) -> None:
    """Seven loads that all wait, or nine results that are all stored at the end."""
    graph = new("many", 50, 40)
    loads = [ops.Load(ops.Data(graph, f"x{i}")) for i in range(7 if not stores else 1)]
    if stores:
        values = [ops.Add(loads[0], ops.broadcast_to(ops.Scalar(graph, float(i)), graph.axes)) for i in range(9)]
    else:
        values = [loads[0]]
        for x in loads:
            values.append(ops.Add(ops.Abs(values[-1]), ops.Abs(x)))
        values = [ops.Mul(values[-1], loads[0])]
    for number, value in enumerate(values):
        ops.Output(ops.Store(value), f"y{number}")
    made = impl(graph)
    copies = made.of_type("Ub2ub")
    assert len(copies) >= 3
    for position in ("VECIN", "VECOUT"):
        assert len({n.y.que.id for n in made.nodes if n.y.mem.position == position}) <= 4
    inputs = [np.random.default_rng(i).standard_normal((50, 40)).astype("float32") for i in range(len(loads))]
    wanted = ascend.evaluate(graph, inputs)
    outputs = [np.zeros_like(w) for w in wanted]
    func = ascend.lower.lower_graphs(graph, [made], [dict.fromkeys(made.sizes, 17)], in_place=stores)
    tvmagic.build(func)(*inputs, *outputs)
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


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


def test_cached_results_have_one_buffer() -> None:
    graph = new("cached", 40, 300)
    z0, z1 = graph.axes
    b = ops.Broadcast(ops.Load(ops.Data(graph, "b", [z1])), z0)
    ops.Output(ops.Store(ops.Add(b, ops.Load(ops.Data(graph, "x")))), "y")
    made = impl(graph)
    made.find_node("load_0").sched.exec_condition = "cache_block_split_origin_brc_axis"
    assign_memory(made)
    assert made.find_node("load_0").y.que.buf_num == 1 and made.find_node("load_1").y.que.buf_num == 2
    assert "    .exec_condition = cache_block_split_origin_brc_axis\n" in str(made)
    assert str(ascend.parse_graph(str(made))) == str(made)


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
