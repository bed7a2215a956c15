"""Graphs of Ascend that several tests schedule."""

from __future__ import annotations

from tvmagic.ascend import AscGraph, ops


def softmax(rows: int = 37, columns: int | None = 200, dtype: str = "float32") -> AscGraph:
    """The softmax of each row of `x`, as `out`; the columns are the size `s1` if their number is None."""
    graph = AscGraph("softmax")
    graph.create_axis("z0", rows)
    z1 = graph.create_axis("z1", graph.create_size("s1") if columns is None else columns)
    x = ops.Load(ops.Data(graph, "x", dtype=dtype))
    e = ops.Exp(ops.Sub(x, ops.Broadcast(ops.Max(x, z1), z1)))
    ops.Output(ops.Store(ops.Div(e, ops.Broadcast(ops.Sum(e, z1), z1))), "out")
    return graph
