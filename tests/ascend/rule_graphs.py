"""Graphs that keep all rules, and random changes of a graph, many of which break one."""

from __future__ import annotations

import random
from collections.abc import Callable

from tvmagic.ascend import AscGraph, AscNode, AscTensor, AxisType, Size, ops
from tvmagic.ascend.graph import dense_strides


def every_kind() -> AscGraph:
    """A graph with a node of each kind, over axes of 4, 6 and 1 elements."""
    graph = AscGraph("g")
    z0, z1, z2 = (graph.create_axis(name, size) for name, size in (("z0", 4), ("z1", 6), ("z2", 1)))
    x = ops.Load(ops.Data(graph, "x"), name="lx")
    row = ops.Broadcast(ops.Load(ops.Data(graph, "r", [z1]), name="lr"), z0, name="br")
    add = ops.Add(x, row, name="add")
    total = ops.Broadcast(ops.Sum(add, z1, name="sum"), z1, name="bs")
    sub = ops.Sub(add, total, name="sub")
    chosen = ops.Where(ops.Lt(sub, x, name="lt"), sub, x, name="where")
    whole = ops.Cast(chosen, "int32", name="cast")
    turned = ops.Transpose(chosen, [z1, z0, z2], name="turn")
    at = ops.Load(ops.Data(graph, "i", [z0], dtype="int32"), name="li")
    found = ops.Gather(ops.Data(graph, "t", sizes=[9, 6, 1]), at, z0, name="get")
    joined = ops.Concat(
        [ops.Load(ops.Data(graph, f"p{n}", sizes=[4, n, 1]), name=f"l{n}") for n in (2, 4)], z1, name="cat"
    )
    a, b = ops.Split(joined, z1, [2, 4], name="cut")
    for value, name in (
        (whole, "o0"),
        (turned, "o1"),
        (found, "o2"),
        (ops.Neg(joined, name="neg"), "o3"),
        (a, "o4"),
        (ops.Exp(b), "o5"),
    ):
        ops.Output(ops.Store(value, name=f"s{name[1]}"), name)
    return graph


def chain() -> AscGraph:
    graph = AscGraph("chain")
    graph.create_axis("z0", 40)
    graph.create_axis("z1", 30)
    ops.Output(ops.Store(ops.Abs(ops.Load(ops.Data(graph, "x")))), "y")
    return graph


# ---------------------------------------------------------------------------- changes

Change = Callable[[AscGraph, AscNode, AscTensor, random.Random], object]


def _resized(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    place = rng.randrange(len(y.repeats))
    old = y.repeats[place]
    y.repeats[place] = rng.choice([Size.of(1), old + 1, old + 1, old - 1, old * 2, Size.of("far")])
    if rng.random() < 0.8:
        y.strides = dense_strides(y.repeats)


def _moved(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    strides = rng.choice([y.strides, y.vectorized_strides or y.strides])
    place = rng.randrange(len(strides))
    strides[place] = rng.choice([Size.of(0), Size.of(1), strides[place] + 1, strides[place] * -1, Size.of("far")])


def _turned(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    axes = rng.choice([y.axis, y.axis, y.vectorized_axis, node.sched.axis])
    if len(axes) > 1:
        a, b = rng.sample(range(len(axes)), 2)
        axes[a], axes[b] = axes[b], axes[a]
        if axes is y.axis and rng.random() < 0.5:
            y.repeats[a], y.repeats[b] = y.repeats[b], y.repeats[a]
            y.strides = dense_strides(y.repeats)


def _replaced(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    axes = rng.choice([y.axis, y.vectorized_axis, node.sched.axis])
    if axes:
        axes[rng.randrange(len(axes))] = rng.choice(graph.axes)


def _shortened(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    lists = [y.axis, y.repeats, y.strides, y.vectorized_axis, y.vectorized_strides, node.sched.axis, node.inputs]
    held = [found for found in lists if found]
    rng.choice(held).pop()


def _retyped(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    y.dtype = rng.choice(["float16", "float32", "int32", "uint8", "bool", "bfloat16", "int4"])


def _rewired(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    other = rng.choice([t for n in graph.nodes for t in n.outputs])
    if node.inputs and rng.random() < 0.8:
        node.inputs[rng.randrange(len(node.inputs))] = other
    else:
        node.inputs.append(other)


def _attributed(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    names = [name for name in ("offset", "axis", "index", "gid") if name in node.attrs]
    if names:
        node.attrs[rng.choice(names)] = rng.choice([-1, 0, 1, 2, 3, 6])


def _relooped(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    node.sched.loop_axis = rng.choice([None, *graph.axes])


def _grown(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    axis = rng.choice(graph.axes)
    axis.size = rng.choice([axis.size + 1, Size.of(1), Size.of("far")])


def _otherwise_split(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    axis = rng.choice(graph.axes)
    axis.type = rng.choice(list(AxisType))


def _reordered(graph: AscGraph, node: AscNode, y: AscTensor, rng: random.Random) -> None:
    graph.nodes.remove(node)
    graph.nodes.insert(rng.randint(0, len(graph.nodes)), node)


_CHANGES: list[Change] = [
    _resized,
    _resized,
    _moved,
    _turned,
    _replaced,
    _shortened,
    _retyped,
    _rewired,
    _rewired,
    _attributed,
    _relooped,
    _grown,
    _otherwise_split,
    _reordered,
]


def random_change(graph: AscGraph, rng: random.Random) -> str:
    """Change something of one node, tensor or axis; what kind of change it was, and of which tensor."""
    change = rng.choice(_CHANGES)
    node = rng.choice([n for n in graph.nodes if n.y.repeats])
    y = rng.choice(node.outputs)
    change(graph, node, y, rng)
    return f"{getattr(change, '__name__', '')[1:]} {y}"
