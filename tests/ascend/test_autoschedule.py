"""Auto Schedule and tiling: merged axes, groups, cases, memory, the record, and results against NumPy."""

import math

import numpy as np
import pytest
from ascend_graphs import softmax
from random_graphs import check, check_mutations, run_apart

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, AxisType, Machine, Npu, ops
from tvmagic.ascend.autoschedule import merge_axes
from tvmagic.ascend.graph import dense_strides
from tvmagic.ascend.memory import assign_memory, place_of
from tvmagic.notebook.view import make_view
from tvmagic.passes import recording


def elementwise(rows: int = 40, columns: int = 1000) -> AscGraph:
    graph = AscGraph("elementwise")
    graph.create_axis("z0", rows), graph.create_axis("z1", columns)
    x, y = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "y"))
    ops.Output(ops.Store(ops.Exp(ops.Mul(ops.Add(x, y), x))), "out")
    return graph


def test_contiguous_axes_merge() -> None:
    merged = ascend.merge_axes(elementwise())
    assert [a.name for a in merged.sched_axes] == ["z0z1"]
    assert merged.find_axis("z0z1").size == 40_000
    y = merged.find_node("exp_0").y
    assert [str(r) for r in y.repeats] == ["40000"] and [str(s) for s in y.strides] == ["1"]


def test_impl_graph_has_the_form_of_the_dump() -> None:
    (result,) = ascend.auto_schedule(elementwise())
    (impl,) = result.groups[0].impls
    text = str(impl.graph)
    assert "  z0z1t_size: VAR\n" in text
    facts = "from: {z0z1, }, align: 1, allow_oversize_axis: 0, allow_unaligned_tail: 1"
    assert f"  z0z1T(3) : Ceiling((40000 / (z0z1t_size))), TILE_OUT, {facts}\n" in text
    for line in (
        ".axis = {z0z1TB, z0z1Tb, z0z1t, }",
        ".loop_axis = z0z1Tb",
        ".y.repeats = {(40000 / (z0z1Tb_size * z0z1t_size)), z0z1Tb_size, z0z1t_size, }",
        ".y.strides = {(z0z1Tb_size * z0z1t_size), z0z1t_size, 1, }",
        ".y.vectorized_axis = {z0z1t, }",
        ".y.vectorized_strides = {1, }",
    ):
        assert f"    {line}\n" in text
    assert str(ascend.parse_graph(text)) == text
    assert "  Exp(exp_0_local[0], mul_0_local[0], z0z1t_actual_size)\n" in ascend.pseudo_code(impl.graph)


def test_templates_groups_and_cases_of_a_reduction() -> None:
    row, loop = ascend.auto_schedule(softmax(37, 100))
    assert [str(g.groups) for g in row.groups] == ["()(z0)(z1)"]
    assert [str(g.groups) for g in loop.groups] == ["()(z0)(z1)", "()(z0)(z1)", "()(z0,z1)()"]
    both = ["tile_z0_z1", "tile_z0_z1_padded"]
    last = ["tile_z0", "tile_z0_padded", "tile_z1"]
    assert [[i.case for i in g.impls] for g in loop.groups] == [both, both, last]
    assert [i.name for i in (row.groups[0].impls[0].graph.of_type("Workspace"))] == []
    assert [n.name for n in loop.groups[1].hint.of_type("Workspace")] == ["max_0_ws", "sum_0_ws"]


def test_concat_has_a_local_and_a_global_template() -> None:
    graph = AscGraph("cat")
    z0, z1 = graph.create_axis("z0", 6), graph.create_axis("z1", 9)
    del z0
    parts = [ops.Abs(ops.Load(ops.Data(graph, f"x{n}", sizes=[6, n]))) for n in (4, 5)]
    ops.Output(ops.Store(ops.Concat(parts, z1)), "out")
    local, direct = ascend.auto_schedule(graph)
    assert str(local.groups[0].groups) == "(z0)()()" and len(direct.groups) == 2
    stores = [g.hint.of_type("Store")[0] for g in direct.groups]
    assert [str(s.attrs["offset"]) for s in stores] == ["0", "4"]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_parts_go_straight_to_an_output_whose_axes_have_merged(place: int) -> None:
    """What is stored has the output's axes and sizes, but for the one along which it is a part."""
    graph, whole = AscGraph("cat"), (4, 6, 5)
    axes = [graph.create_axis(f"z{n}", size) for n, size in enumerate(whole)]
    shapes = [[count if n == place else size for n, size in enumerate(whole)] for count in (2, whole[place] - 2)]
    loaded = [ops.Load(ops.Data(graph, f"x{n}", sizes=shape)) for n, shape in enumerate(shapes)]
    ops.Output(ops.Store(ops.Concat([ops.Abs(x) for x in loaded], axes[place])), "out")
    direct = ascend.auto_schedule(graph)[-1]
    assert direct.template.concat == "global" and len(direct.groups) == 2
    for group, shape in zip(direct.groups, shapes, strict=True):
        (stored,) = group.hint.of_type("Store")
        assert (stored.y.axis, stored.y.repeats) == (group.hint.find_node("out").y.axis, shape)
        assert stored.y.strides == dense_strides(stored.y.repeats)
    given = [np.random.default_rng(n).normal(size=shape).astype("float32") for n, shape in enumerate(shapes)]
    out = np.zeros(whole, "float32")
    tvmagic.build(ascend.auto_tiling([direct], machine=Machine(threads=1)).lower())(*given, out)
    np.testing.assert_array_equal(out, abs(np.concatenate(given, place)))


def test_one_block_axis_and_loops_that_merge() -> None:
    graph = AscGraph("three")
    axes = [graph.create_axis(f"z{i}", n) for i, n in enumerate((4, 5, 6))]
    x = ops.Load(ops.Data(graph, "x"))
    y = ops.Broadcast(ops.Load(ops.Data(graph, "y", [axes[0], axes[2]])), axes[1])
    ops.Output(ops.Store(ops.Add(x, y)), "out")
    (result,) = ascend.auto_schedule(graph)
    impl = next(i for i in result.groups[0].impls if i.case == "tile_z1")
    node = impl.graph.find_node("add_0")
    assert [a.name for a in node.sched.axis] == ["z0z1TB", "z0z1Tb", "z1t", "z2"]
    assert [a.name for a in node.y.axis] == ["z0", "z1T", "z1t", "z2"]
    assert sum(a.type is AxisType.BLOCK_OUT for a in impl.graph.axes) == 1


def test_local_memory_is_shared() -> None:
    (result,) = ascend.auto_schedule(elementwise())
    graph = result.groups[0].impls[0].graph
    places = {n.name: place_of(n.y) for n in graph.nodes if place_of(n.y)}
    assert places == {
        "load_0": ("que", 0),
        "load_1": ("que", 1),
        "add_0": ("que", 2),  # until `exp_0` is there
        "mul_0": ("buf", 0),
        "exp_0": ("que", 2),
    }


def test_each_step_is_in_the_record() -> None:
    with recording() as record:
        ascend.compile_graph(softmax(37, 100))
    names = [s.name for s in record]
    assert names[0] == "ascend.MergeAxes" and names[-2:] == ["ascend.AutoTiling", "ascend.Lower"]
    assert {"ascend.Partition", "ascend.TilingGroups", "ascend.TileSplit", "ascend.BlockSplit"} <= set(names)
    assert record.notes("ascend.reuse") and record.notes("ascend.result")
    groups = [n.text for n in record["TilingGroups"].notes]
    assert groups == ["one axis of each group is tiled: `()(z0)(z1)`"]


def test_steps_show_the_graph_before_and_after() -> None:
    with recording() as record:
        ascend.compile_graph(softmax(37, 100))
    for step, following in zip(record.steps, record.steps[1:]):
        if step.name.startswith("ascend.") and step.name not in ("ascend.AutoTiling", "ascend.Lower"):
            assert step.before.startswith("Graph: ") and step.after.startswith("Graph: "), step.name
            if following.name in ("ascend.BlockSplit", "ascend.Vectorize", "ascend.AssignMemory"):
                assert following.before == step.after
    view = make_view(record)
    assert [r.kind for r in view.steps[-1].rows if r.kind != "added"] == [], "the function is no change of the graph"


def test_tiling_fits_and_reports() -> None:
    small = Machine(threads=2, l1=2048, l2=8192)
    results = ascend.auto_schedule(elementwise())
    tiling = ascend.auto_tiling(results, machine=small)
    (choice,) = tiling.choices
    assert choice.fits and choice.cost.local_bytes <= small.local_memory
    tiles = -(-40_000 // choice.sizes["z0z1t_size"])
    assert -(-tiles // choice.sizes["z0z1Tb_size"]) <= 2
    assert tiling.tiling_key == (0, 0) and "* (0, 0, 0) elementwise_0_tile_z0z1" in tiling.report()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [elementwise, softmax])
def test_chosen_implementation_equals_numpy(make, threads: int) -> None:
    graph = make()
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal([a.size.constant for a in graph.axes]).astype("float32") for _ in graph.of_type("Data")
    ]
    (want,) = ascend.evaluate(graph, inputs)
    out = np.zeros_like(want)
    tvmagic.build(ascend.compile_graph(graph, machine=Machine(threads=threads)))(*inputs, out)
    np.testing.assert_allclose(out, want, rtol=1e-5)


def test_symbolic_sizes_are_tiled_for_given_numbers_and_run_for_others() -> None:
    graph = AscGraph("symbolic")
    graph.create_axis("z0", graph.create_size("s0")), graph.create_axis("z1", 33)
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Sum(ops.Exp(x), graph.axes[1])), "out")
    kernel = tvmagic.build(ascend.compile_graph(graph, {"s0": 50}, Machine(threads=2)))
    for rows in (1, 50, 64):
        data = np.random.default_rng(rows).standard_normal((rows, 33)).astype("float32")
        out = np.zeros((rows, 1), "float32")
        kernel(data, out)
        np.testing.assert_allclose(out, np.exp(data).sum(1, keepdims=True), rtol=1e-4)


def test_arguments_are_checked() -> None:
    with pytest.raises(AscendError, match="arguments"):
        ascend.evaluate(softmax(37, 100), [])
    with pytest.raises(AscendError, match="arguments"):
        ascend.evaluate(softmax(37, 100), [np.zeros((3, 4), "float32")])


@pytest.mark.parametrize("seed", range(6))  # `test_many_random_graphs` runs all of 500
def test_random_graphs_equal_numpy(seed: int) -> None:
    assert check(seed, limit=2)


@pytest.mark.parametrize("seed", range(100, 110))
def test_broken_random_graphs_are_refused(seed: int) -> None:
    assert check_mutations(seed) >= 9


def test_work_grows_with_the_graph_and_not_faster(calls) -> None:
    def whole(length: int) -> None:
        graph = AscGraph("chain")
        graph.create_axis("z0", 64), graph.create_axis("z1", 96)
        values = [ops.Load(ops.Data(graph, "x"))]
        for number in range(length):  # every third value is read again much later, so that many buffers live at once
            values.append(ops.Add(ops.Abs(values[-1]), values[number // 3]))
        values.append(ops.Add(values[-1], ops.Broadcast(ops.Sum(values[-1], graph.axes[1]), graph.axes[1])))
        ops.Output(ops.Store(values[-1]), "out")
        ascend.auto_tiling(ascend.auto_schedule(graph), machine=Machine(threads=2)).lower()

    whole(20)  # what is remembered between graphs is there
    assert calls(lambda: whole(120)) < 4.6 * calls(lambda: whole(30))


def test_a_buffer_is_freed_once() -> None:
    """A result that nothing reads frees the buffer that it was written over one time, not twice."""
    graph = AscGraph("dead")
    graph.create_axis("z0", 64)
    x = ops.Load(ops.Data(graph, "x"))
    a = ops.Exp(x)
    ops.Abs(a)
    b, c = ops.Exp(x), ops.Sqrt(x)
    ops.Output(ops.Store(ops.Add(ops.Add(b, c), x)), "out")
    assign_memory(graph)
    assert place_of(graph.find_node("exp_1").y) != place_of(graph.find_node("sqrt_0").y)


@pytest.mark.soak
def test_many_random_graphs() -> None:
    failures = [text for first in range(0, 500, 25) for text in run_apart(first, 25)[2]]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("columns", [64, 100])
def test_tiling_keeps_all_cores_busy(columns: int) -> None:
    """Of those near the best the tiling that keeps the most cores busy, whatever their number."""
    for count in (1, 3, 48):
        tiling = ascend.auto_tiling(ascend.auto_schedule(softmax(4800, columns))[:1], machine=Npu("n", count, 10**5))
        assert tiling.choices[0].cost.cores == count
        sizes = tiling.choices[0].sizes
        assert math.ceil(math.ceil(4800 / sizes["z0t_size"]) / sizes["z0Tb_size"]) == count


def test_broadcast_merges_only_along_merged_axes() -> None:
    """Along `z0`, then `z2`, then `z1`: what is repeated along `z2` in between keeps `z0` and `z1` apart."""
    for order, merged in (((0, 2, 1), ["z0", "z1z2"]), ((0, 1, 2), ["z0z1z2"]), ((2, 1, 0), ["z0z1z2"])):
        graph = AscGraph("between")
        axes = [graph.create_axis(f"z{n}", size) for n, size in enumerate((4, 6, 5))]
        x = y = ops.Load(ops.Data(graph, "x", sizes=[1, 1, 1]))
        for place in order:
            y = ops.Broadcast(y, axes[place])
        ops.Output(ops.Store(ops.Add(y, ops.Load(ops.Data(graph, "w")))), "out")
        assert x.repeats == [1, 1, 1] and [a.name for a in merge_axes(graph).sched_axes] == merged
        given = [np.full((1, 1, 1), 2, "float32"), np.arange(120, dtype="float32").reshape(4, 6, 5)]
        out = np.zeros((4, 6, 5), "float32")
        tvmagic.build(ascend.compile_graph(graph, machine=ascend.Machine(threads=1)))(*given, out)
        np.testing.assert_array_equal(out, given[1] + 2)


def test_sum_over_loops_computes_reference() -> None:
    """All axes are loops, so that a call has none."""
    graph = AscGraph("each")
    z1 = [graph.create_axis("z0", 4), graph.create_axis("z1", 6)][1]
    ops.Output(ops.Store(ops.Sum(ops.Load(ops.Data(graph, "x")), z1)), "out")
    for node in graph.nodes:
        if node.op.is_call:
            node.sched.loop_axis = z1
    x, out = np.arange(24, dtype="float32").reshape(4, 6), np.full((4, 1), 7, "float32")
    tvmagic.build(ascend.lower_graph(graph))(x, out)
    np.testing.assert_array_equal(out, x.sum(1, keepdims=True))
