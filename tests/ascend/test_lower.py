"""ImplGraphs as compiled functions, against NumPy."""

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import AscendError, AscGraph, Size, ops
from tvmagic.ascend.lower import lower_graph


def four_axes() -> AscGraph:
    """The manual's call: loops z0 and z1, one call computes z2 and z3, the buffer holds z1, z2, z3."""
    graph = AscGraph("four_axes")
    s2, s3 = graph.create_size("s2"), graph.create_size("s3")
    axes = [graph.create_axis("z0", 3), graph.create_axis("z1", 5), graph.create_axis("z2", s2)]
    axes.append(graph.create_axis("z3", s3))
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x")))), "out")
    for node in graph.nodes:
        if not node.op.is_buffer:
            node.sched.loop_axis = axes[1]
        if node.type in ("Load", "Abs"):
            node.y.vectorized_axis = axes[1:]
            node.y.vectorized_strides = [s2 * s3, s3, Size.of(1)]
    return graph


def test_the_call_of_the_manual() -> None:
    graph = four_axes()
    assert [str(s) for s in graph.find_node("abs_0").y.vectorized_strides] == ["(s2 * s3)", "s3", "1"]
    assert ascend.pseudo_code(graph).splitlines()[:4] == [
        "for z0 in range(z0_loop_size):",
        "  for z1 in range(z1_loop_size):",
        "    Load(load_0_local[z1 * (s2 * s3)], x_global, z2_actual_size, z3_actual_size)",
        "    Abs(abs_0_local[z1 * (s2 * s3)], load_0_local[z1 * (s2 * s3)], z2_actual_size, z3_actual_size)",
    ]
    graph.sizes.update(s2=4, s3=6)
    func = lower_graph(graph)
    text = str(func)
    assert "for z0, z1 in T.grid(3, 5):" in text and "abs_0_local = T.decl_buffer((120,)" in text
    assert "abs_0_local[z1 * 24 + (z2z3_v * 16 + lane)]" in text
    x = np.random.default_rng(0).standard_normal((3, 5, 4, 6)).astype("float32")
    out = np.zeros_like(x)
    tvmagic.build(func)(x, out)
    np.testing.assert_array_equal(out, abs(x))


@pytest.mark.parametrize("rows", [1, 4, 7, 9])
def test_block_loop_with_tails_and_symbolic_size(rows: int) -> None:
    graph = AscGraph("softmax")
    z0, z1 = graph.create_axis("z0", graph.create_size("s0")), graph.create_axis("z1", 100)
    x = ops.Load(ops.Data(graph, "x"))
    e = ops.Exp(ops.Add(x, ops.Broadcast(ops.Load(ops.Data(graph, "y", [z1])), z0)))
    ops.Output(ops.Store(ops.Div(e, ops.Broadcast(ops.Sum(e, z1), z1))), "out")
    outer, inner = ascend.block_split(graph, z0)
    ascend.apply_split(graph, outer, inner)
    for node in graph.nodes:
        node.sched.loop_axis = None if node.op.is_buffer else inner
    func = lower_graph(graph, {"z0b_size": 4})
    assert "for z0B in T.parallel(" in str(func)
    rng = np.random.default_rng(rows)
    x, y = rng.standard_normal((rows, 100)).astype("float32"), rng.standard_normal((1, 100)).astype("float32")
    out = np.zeros_like(x)
    tvmagic.build(func)(x, y, out)
    e = np.exp(x + y)
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_graphs_that_cannot_be_lowered() -> None:
    with refuses("ascend.vectorized_axis", error=AscendError):
        graph = four_axes()
        graph.find_node("abs_0").y.vectorized_axis.pop()
        graph.find_node("abs_0").y.vectorized_strides.pop()
        lower_graph(graph)
    graph = AscGraph("open")
    graph.create_axis("z0", graph.create_size("s0") * 2)
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x")))))
    with refuses("ascend.size_known", error=AscendError, names="`s0`"):
        lower_graph(graph)
