"""Auto Schedule and tiling: merged axes, groups, cases, memory, the record, and results against NumPy."""

import numpy as np
import pytest
from ascend_graphs import softmax
from random_graphs import check, check_mutations, run_apart
from refusals import refuses

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, Machine, ops
from tvmagic.passes import recording


def elementwise(rows: int = 40, columns: int = 1000) -> AscGraph:
    graph = AscGraph("elementwise")
    graph.create_axis("z0", rows), graph.create_axis("z1", columns)
    x, y = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "y"))
    ops.Output(ops.Store(ops.Exp(ops.Mul(ops.Add(x, y), x))), "out")
    return graph


def test_each_step_is_in_the_record() -> None:
    with recording() as record:
        ascend.compile_graph(softmax(37, 100))
    names = [s.name for s in record]
    assert names[0] == "ascend.MergeAxes" and names[-2:] == ["ascend.AutoTiling", "ascend.Lower"]
    assert {"ascend.Partition", "ascend.TilingGroups", "ascend.TileSplit", "ascend.BlockSplit"} <= set(names)
    assert record.notes("ascend.reuse") and record.notes("ascend.result")
    groups = [n.text for n in record["TilingGroups"].notes]
    assert groups == ["one axis of each group is tiled: `()(z0)(z1)`"]


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
    with refuses("ascend.arguments", error=AscendError):
        ascend.evaluate(softmax(37, 100), [])
    with refuses("ascend.arguments", error=AscendError):
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


@pytest.mark.soak
def test_many_random_graphs() -> None:
    failures = [text for first in range(0, 500, 25) for text in run_apart(first, 25)[2]]
    assert not failures, "\n".join(failures)


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
