"""Transpose and Gather nodes: what they mean, what they refuse, how they are tiled and lowered."""

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, Machine, ops
from tvmagic.ascend.cost import CostModel
from tvmagic.ascend.verifier import axis_of

RNG = np.random.default_rng(0)


def test_a_transpose_of_what_has_one_element_takes_part_in_merges() -> None:
    """Where a merged axis of size 1 is among the others does not matter."""
    graph = AscGraph("one")
    axes = [graph.create_axis(f"z{i}", n) for i, n in enumerate((4, 5, 13))]
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Transpose(ops.Max(x, axes), [axes[2], axes[0], axes[1]])), "most")
    turned = ops.Transpose(ops.Sub(x, ops.broadcast_to(ops.Min(x, axes), axes)), [axes[1], axes[2], axes[0]])
    ops.Output(ops.Store(turned), "turned")
    data = np.random.default_rng(0).standard_normal((4, 5, 13)).astype("float32")
    most, rest = np.zeros((1, 1, 1), "float32"), np.zeros((5, 13, 4), "float32")
    tvmagic.build(ascend.compile_graph(graph))(data, most, rest)
    np.testing.assert_array_equal(most, data.max())
    np.testing.assert_allclose(rest, (data - data.min()).transpose(1, 2, 0))


def transposed(rows: int = 37, columns: int = 50) -> AscGraph:
    """abs(x).T + y"""
    graph = AscGraph("transposed")
    z0, z1 = graph.create_axis("z0", rows), graph.create_axis("z1", columns)
    x, y = ops.Load(ops.Data(graph, "x", [z0, z1])), ops.Load(ops.Data(graph, "y", [z1, z0]))
    ops.Output(ops.Store(ops.Add(ops.Transpose(ops.Abs(x), [z1, z0]), y)), "out")
    return graph


def embedding(dtype: str = "int32") -> AscGraph:
    """table[indices] for a table of 100 rows of 24 and indices of 4 by 9."""
    graph = AscGraph("embedding")
    z0, z1, z2 = graph.create_axis("z0", 4), graph.create_axis("z1", 9), graph.create_axis("z2", 24)
    table = ops.Data(graph, "table", [z0, z2], sizes=[100, 24])
    at = ops.Load(ops.Data(graph, "at", [z0, z1], dtype))
    ops.Output(ops.Store(ops.Exp(ops.Gather(table, at, z0))), "out")
    return graph


def run(graph: AscGraph, *inputs: np.ndarray) -> np.ndarray:
    (want,) = ascend.evaluate(graph, inputs)
    out = np.zeros_like(want)
    tvmagic.build(ascend.compile_graph(graph, machine=Machine(threads=2)))(*inputs, out)
    np.testing.assert_allclose(out, want, rtol=1e-5)
    return out


def test_a_transpose_is_numpys() -> None:
    x, y = RNG.standard_normal((37, 50)).astype("float32"), RNG.standard_normal((50, 37)).astype("float32")
    np.testing.assert_allclose(run(transposed(), x, y), abs(x).T + y, rtol=1e-6)


def test_a_transposed_tensor_has_its_axes_in_the_order_of_its_memory() -> None:
    graph = transposed()
    ascend.check_hint(graph)
    y = graph.find_node("transpose_0").y
    assert str(y.axis) == "[z1, z0]" and [str(s) for s in y.strides] == ["37", "1"]
    assert graph.find_node("transpose_0").sched.axis == graph.sched_axes
    assert str(ascend.parse_graph(str(graph))) == str(graph)
    (result,) = ascend.auto_schedule(graph)
    first = result.groups[0].impls[0].graph
    assert [a.name for a in first.find_node("abs_0").y.vectorized_axis] == ["z0t", "z1"]
    assert [a.name for a in first.find_node("transpose_0").y.vectorized_axis] == ["z1", "z0t"]
    assert [str(s) for s in first.find_node("transpose_0").y.vectorized_strides] == ["z0t_size", "1"]


def test_axes_merge_where_a_transpose_keeps_them_together() -> None:
    graph = AscGraph("together")
    z0, z1, z2 = (graph.create_axis(f"z{i}", n) for i, n in enumerate((3, 4, 5)))
    x = ops.Load(ops.Data(graph, "x"))
    ops.Output(ops.Store(ops.Transpose(x, [z2, z0, z1])), "out")
    merged = ascend.merge_axes(graph)
    assert [a.name for a in merged.sched_axes] == ["z0z1", "z2"]
    assert str(merged.find_node("transpose_0").y.axis) == "[z2, z0z1]"
    assert str(merged.find_node("out").y.axis) == "[z2, z0, z1]"  # as the caller knows it
    data = RNG.standard_normal((3, 4, 5)).astype("float32")
    np.testing.assert_array_equal(run(graph, data), data.transpose(2, 0, 1))


def test_a_large_transpose_is_tiled_along_both_axes() -> None:
    """Tiles of a few elements along an axis move lines of one side in pieces; the model knows."""
    results = ascend.auto_schedule(transposed(4096, 4096))
    cases = [i.case for i in results[0].groups[0].impls if i.rows != "padded"]
    assert cases == ["tile_z0", "tile_z1", "tile_z0_z1"]
    (choice,) = ascend.auto_tiling(results, machine=Machine()).choices
    assert choice.impl.tiles == ["z1t_size", "z0t_size"] and min(choice.sizes.values()) >= 16
    model = CostModel(choice.impl, {}, Machine())
    for narrow in ({"z0t_size": 2}, {"z1t_size": 2}):
        assert model.cost({**choice.sizes, **narrow}).total > 3 * choice.cost.total


def test_a_transpose_goes_in_blocks() -> None:
    """Vectors of 8 along the result, a line of the input long, and what is left over."""
    text = str(ascend.lower_graph(transposed()))
    assert (
        "    for z0_v in range(4):\n        for z1_v, z1_i in T.grid(3, 16):\n            for lane in T.vectorized(8):\n"
        in text
    )
    assert "        for z1_r in range(2):\n            for lane in T.vectorized(8):\n" in text
    assert "    for z0_r, z1 in T.grid(5, 50):\n" in text


@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
def test_a_gather_reads_rows(dtype: str) -> None:
    table = RNG.standard_normal((100, 1, 24)).astype("float32")
    at = RNG.integers(0, 100, (4, 9, 1)).astype(dtype)
    np.testing.assert_allclose(run(embedding(dtype), table, at), np.exp(table[:, 0][at[..., 0]]), rtol=1e-5)


def test_places_outside_are_those_at_the_ends() -> None:
    table = RNG.standard_normal((100, 1, 24)).astype("float32")
    at = np.full((4, 9, 1), -7, "int32")
    at[1:] = 2**31 - 1
    got = run(embedding(), table, at)
    np.testing.assert_allclose(got[0], np.exp(np.broadcast_to(table[0], (9, 24))), rtol=1e-5)
    np.testing.assert_allclose(got[1:], np.exp(np.broadcast_to(table[99], (3, 9, 24))), rtol=1e-5)


def test_the_axes_of_indices_merge() -> None:
    merged = ascend.merge_axes(embedding())
    assert [a.name for a in merged.sched_axes] == ["z0z1", "z2"]
    assert axis_of(merged.find_node("gather_0")).name == "z0z1"
    assert [str(r) for r in merged.find_node("table").y.repeats] == ["100", "1", "24"]
    assert "x1 = table.y" in str(merged) and "compute_type = gather" in str(merged)
    assert str(ascend.parse_graph(str(merged))) == str(merged)


def test_indices_for_each_element() -> None:
    """`take_along_axis`: the input has the other axes of the indices."""
    graph = AscGraph("along")
    z0, z1 = graph.create_axis("z0", 6), graph.create_axis("z1", 10)
    table = ops.Data(graph, "table", sizes=[50, 10])
    at = ops.Load(ops.Data(graph, "at", [z0, z1], "int32"))
    ops.Output(ops.Store(ops.Gather(table, at, z0)), "out")
    data, places = RNG.standard_normal((50, 10)).astype("float32"), RNG.integers(0, 50, (6, 10)).astype("int32")
    np.testing.assert_array_equal(run(graph, data, places), np.take_along_axis(data, places, 0))


def test_a_row_of_one_index_is_repeated_behind_the_gather() -> None:
    graph = AscGraph("repeated")
    z0, z1 = graph.create_axis("z0", 7), graph.create_axis("z1", 40)
    one = ops.Gather(ops.Data(graph, "table", [z0], sizes=[20]), ops.Load(ops.Data(graph, "at", [z0], "int32")), z0)
    ops.Output(ops.Store(ops.Mul(ops.Broadcast(one, z1), ops.Load(ops.Data(graph, "x")))), "out")
    table, at = RNG.standard_normal((20, 1)).astype("float32"), RNG.integers(0, 20, (7, 1)).astype("int32")
    x = RNG.standard_normal((7, 40)).astype("float32")
    np.testing.assert_allclose(run(graph, table, at, x), table[at[:, 0]] * x, rtol=1e-6)


def _graph() -> tuple[AscGraph, ascend.Axis, ascend.Axis]:
    graph = AscGraph("refused")
    return graph, graph.create_axis("z0", 4), graph.create_axis("z1", 5)


def test_what_is_no_transpose_is_refused() -> None:
    graph, z0, z1 = _graph()
    x, y = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "y", [z1, z0]))
    with refuses("ascend.transpose_permutation", error=AscendError):
        ops.Transpose(x, [z0])
    ops.Output(ops.Store(ops.Add(x, y)), "out")
    with refuses("ascend.edge_axis", error=AscendError, names="`load_0.y`") as raised:
        ascend.check_hint(graph)
    assert "a Transpose node" in str(raised.value)


def test_what_is_no_gather_is_refused() -> None:
    for wrong, rule in (("float32", "gather-indices"), ("bool", "gather-indices")):
        graph, z0, _ = _graph()
        at = ops.Load(ops.Data(graph, "at", [z0], wrong))
        ops.Output(ops.Store(ops.Gather(ops.Data(graph, "x"), at, z0)), "out")
        with pytest.raises(AscendError, match=rule):
            ascend.check_hint(graph)
    graph, z0, _ = _graph()
    at = ops.Load(ops.Data(graph, "at", [z0], "int32"))
    ops.Output(ops.Store(ops.Gather(ops.Abs(ops.Load(ops.Data(graph, "x"))), at, z0)), "out")
    with refuses("ascend.gather_from_global", error=AscendError):
        ascend.check_hint(graph)
    graph, z0, z1 = _graph()
    at = ops.Load(ops.Data(graph, "at", [z0, z1], "int32"))
    ops.Output(ops.Store(ops.Gather(ops.Data(graph, "x", sizes=[9, 3]), at, z0)), "out")
    with refuses("ascend.edge_repeats", error=AscendError):
        ascend.check_hint(graph)
