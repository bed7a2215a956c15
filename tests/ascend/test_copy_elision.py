"""Copies and broadcasts that are left out, broadcasts that sink, axes that merge through them: equal to NumPy."""

import numpy as np
import pytest
from ascend_graphs import softmax

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscGraph, Machine, ops
from tvmagic.ascend.broadcast_sinking import sink_broadcasts
from tvmagic.ascend.copy_elision import broadcasts_in_place, loads_in_place, stores_in_place
from tvmagic.ascend.lower import lower_graphs


def scaled(rows: int = 40, columns: int = 300) -> AscGraph:
    """`x * 0.5 + sqrt(abs(b))` with a vector `b`."""
    graph = AscGraph("scaled")
    z0, z1 = graph.create_axis("z0", rows), graph.create_axis("z1", columns)
    x = ops.Load(ops.Data(graph, "x"))
    b = ops.Broadcast(ops.Load(ops.Data(graph, "b", [z1])), z0)
    half = ops.broadcast_to(ops.Scalar(graph, 0.5), [z0, z1])
    ops.Output(ops.Store(ops.Add(ops.Mul(x, half), ops.Sqrt(ops.Abs(b)))), "out")
    return graph


def run(graph: AscGraph, in_place: bool) -> str:
    """Compile the tiled graph, compare it with NumPy, and give its text."""
    tiling = ascend.auto_tiling(ascend.auto_schedule(graph), machine=Machine())
    choices = tiling.choices
    func = lower_graphs(graph, [c.impl.graph for c in choices], [c.sizes for c in choices], in_place=in_place)
    rng = np.random.default_rng(0)
    shapes = [[r.constant for r in n.y.repeats] for n in graph.of_type("Data")]
    inputs = [rng.standard_normal(s).astype("float32") for s in shapes]
    (want,) = ascend.evaluate(graph, inputs)
    out = np.zeros_like(want)
    tvmagic.build(func)(*inputs, out)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)
    return str(func)


@pytest.mark.parametrize("make", [softmax, scaled])
def test_copies_are_left_out_and_nothing_changes(make) -> None:
    plain, short = run(make(), False), run(make(), True)
    assert "load_0_local" in plain and "load_0_local" not in short
    assert plain.count("decl_buffer") > short.count("decl_buffer")


def test_loads_that_are_copied() -> None:
    """What several calls read in rows that lie apart, and what does not go by ones."""
    graph = AscGraph("square")
    z0 = [graph.create_axis("z0", 40), graph.create_axis("z1", 300)][0]
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Sum(ops.Mul(x, ops.Abs(x)), z0)), "out")
    (impl,) = (i for r in ascend.auto_schedule(graph) for g in r.groups for i in g.impls if i.case == "tile_z1_z0")
    assert not loads_in_place(impl.graph)
    transposed = ops.Data(graph := AscGraph("t"), "x", [graph.create_axis("z0", 4), graph.create_axis("z1", 8)])
    transposed.strides = [ascend.Size.of(1), ascend.Size.of(4)]
    ops.Output(ops.Store(ops.Abs(ops.Load(transposed))), "out")
    for impl in ascend.auto_schedule(graph)[0].groups[0].impls:
        assert not loads_in_place(impl.graph) and stores_in_place(impl.graph)


def test_a_broadcast_is_kept_where_its_source_was_overwritten() -> None:
    (impl,) = (i for i in ascend.auto_schedule(softmax(37, 200))[0].groups[0].impls if i.case == "tile_z0")
    graph = impl.graph
    repeated = broadcasts_in_place(graph)
    assert {n.name for n in graph.nodes if id(n) in repeated} == {"broadcast_0", "broadcast_1"}
    for name in ("max_0", "sub_0"):
        graph.find_node(name).y.buf.id = 99
    assert {n.name for n in graph.nodes if id(n) in broadcasts_in_place(graph)} == {"broadcast_1"}


@pytest.mark.parametrize("summed", [False, True])
def test_a_repeated_number_is_read_itself_unless_a_reduction_reads_it(summed: bool) -> None:
    graph = AscGraph("number")
    z0, z1 = graph.create_axis("z0", 4), graph.create_axis("z1", 6)
    rows = ops.Broadcast(ops.Scalar(graph, 2, "int32"), z0)
    both = ops.Broadcast(rows, z1)
    read = [
        ops.Abs(both),
        both,
        ops.Transpose(both, [z1, z0]),
        ops.Gather(ops.Data(graph, "t", sizes=[9, 6]), rows, z0),
    ]
    for value in [*read, *([ops.Sum(both, z1)] if summed else [])]:
        ops.Output(ops.Store(value))
    left_out = {n.name for n in graph.nodes if id(n) in broadcasts_in_place(graph)}
    assert left_out == (set() if summed else {"broadcast_0", "broadcast_1"})


def test_broadcasts_sink_below_what_depends_on_a_row_alone() -> None:
    graph = sink_broadcasts(scaled())
    ascend.check_graph(graph)
    order = [n.type for n in graph.nodes if n.type not in ("Data", "Output")]
    assert order.index("Sqrt") < len(order) - 1 - order[::-1].index("Broadcast")
    assert graph.find_node("sqrt_0").y.repeats[0].is_one and graph.find_node("abs_0").y.repeats[0].is_one
    assert not graph.find_node("mul_0").y.repeats[0].is_one


def test_axes_merge_through_broadcasts_of_numbers() -> None:
    graph = AscGraph("half")
    axes = [graph.create_axis("z0", 7), graph.create_axis("z1", 9)]
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Mul(x, ops.broadcast_to(ops.Scalar(graph, 0.5), axes))), "out")
    merged = ascend.merge_axes(graph)
    ascend.check_graph(merged)
    assert [a.name for a in merged.sched_axes] == ["z0z1"] and len(merged.of_type("Broadcast")) == 1
    run(graph, True)


def test_axes_do_not_merge_through_broadcasts_of_rows() -> None:
    assert [a.name for a in ascend.merge_axes(scaled()).sched_axes] == ["z0", "z1"]
