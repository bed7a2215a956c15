"""What a HintGraph computes, in NumPy: the reference that implementations are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, as_graph, in_node
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.verifier import axis_of, check_graph, split_before
from tvmagic.eval.ops import convert
from tvmagic.ir import DataType


def bind_sizes(graph: AscGraph, inputs: Sequence[np.ndarray]) -> dict[str, int]:
    """The numbers of the size variables, from the shapes of the inputs. Raises AscendError where they differ."""
    values = {n: v for n, v in graph.sizes.items() if v is not None}
    data, numbers = graph.of_type("Data"), graph.of_type("ScalarData")
    if len(data) + len(numbers) != len(inputs):
        count = f"{len(data)} inputs" + (f" and {len(numbers)} numbers" if numbers else "")
        raise AscendError(
            "arguments",
            f"graph `{graph.name}` takes {count}, not {len(inputs)}",
            hint="give an array for each Data node, and a number for each ScalarData, in the order in which they were created",
        )
    shapes = [n.array_shape() for n in data]
    for node, sizes, array in zip(data, shapes, inputs, strict=False):
        if array.ndim != len(sizes):
            raise AscendError(
                "arguments",
                f"`{node.name}` has {len(sizes)} axes, not {array.ndim}",
                hint=f"a tensor of a graph has all of its axes, of size 1 along those that it does not depend on: the shape ({', '.join(map(str, sizes))})",
            )
        for size, length in zip(sizes, array.shape, strict=True):
            if size.constant is None and str(size) in graph.sizes:
                values.setdefault(str(size), length)
    for node, sizes, array in zip(data, shapes, inputs, strict=False):
        shape = tuple(s.evaluate(values) for s in sizes)
        if shape != array.shape:
            raise AscendError("arguments", f"`{node.name}` has the shape {shape}, not {array.shape}")
    return values


def evaluate(graph: AscGraph, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The outputs of a HintGraph for arrays of the shapes of its Data nodes (`AscNode.array_shape`).

    Numbers for its ScalarData nodes follow the arrays. What no Store writes of an output is 0. Raises AscendError for
    arrays of other shapes, and for nodes that can only be read.
    """
    for node in as_graph(graph).nodes:
        check_runs(node)
    check_graph(graph)
    sizes = bind_sizes(graph, inputs)
    values: dict[AscTensor, Any] = {}
    given, numbers = iter(inputs), iter(inputs[len(graph.of_type("Data")) :])
    for node in graph.nodes:
        if node.type == "Data":
            values[node.y] = _from_array(node, next(given))
        elif node.type == "ScalarData":
            values[node.y] = np.full([1] * len(node.y.axis), next(numbers), node.y.dtype)
        elif node.op.kind == "load":
            values[node.y] = _loaded(node, values[node.inputs[0]], sizes)
        elif node.op.is_buffer:
            values[node.y] = _written(node, [values[x] for x in node.inputs], sizes)
        elif node.op.kind == "split":
            axis = next(i for i, a in enumerate(node.y.axis) if a is axis_of(node))
            first = split_before(node)
            for y in node.outputs:
                last = first + y.repeats[axis]
                values[y] = values[node.inputs[0]].take(range(first.evaluate(sizes), last.evaluate(sizes)), axis)
                first = last
        else:
            values[node.y] = _value(node, [values[x] for x in node.inputs], sizes)
    return [np.ascontiguousarray(_to_array(n, values[n.y])) for n in graph.of_type("Output")]


def check_runs(node: AscNode) -> None:
    """Refuse a node that can be read and printed only. Raises AscendError."""
    if node.op.refused:
        with in_node(node):
            raise AscendError("not-run", f"`{node.name}` is a `{node.type}`: {node.op.refused}")


class _Memory:
    """The memory of a tensor in global memory, as elements one behind the other."""

    def __init__(self, y: AscTensor, sizes: Mapping[str, int]) -> None:
        self.y = y
        self.shape = [r.evaluate(sizes) for r in y.repeats]
        self.strides = [s.evaluate(sizes) for s in y.strides]
        self.flat = np.zeros(self._end(self.shape), y.dtype)

    def _end(self, shape: Sequence[int]) -> int:
        return 1 + sum((n - 1) * s for n, s in zip(shape, self.strides, strict=True))

    def part(self, node: AscNode, shape: Sequence[int], sizes: Mapping[str, int]) -> np.ndarray:
        """The elements that a Load or Store with an offset moves."""
        offset = Size.of(node.attr("offset")).evaluate(sizes) if node.op.is_call else 0
        if offset < 0 or offset + self._end(shape) > len(self.flat):
            raise AscendError(
                "offset-inside", f"`{node.name}` moves {tuple(shape)} elements from offset {offset} on of `{self.y}`, "
                f"which has {len(self.flat)}",
            )  # fmt: skip
        steps = [s * self.flat.itemsize for s in self.strides]
        return np.lib.stride_tricks.as_strided(self.flat[offset:], shape, steps)


def _loaded(node: AscNode, value: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """All of an array, or the part at an offset."""
    source, shape = node.inputs[0], [r.evaluate(sizes) for r in node.y.repeats]
    if list(value.shape) == shape and Size.of(node.attr("offset")) == 0:
        return value
    memory = _Memory(source, sizes)
    memory.part(source.node, memory.shape, sizes)[...] = value
    return memory.part(node, shape, sizes).copy()


def _written(node: AscNode, values: Sequence[np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
    """What stores have written of an array."""
    memory = _Memory(node.y, sizes)
    for store, value in zip(node.inputs, values, strict=True):
        memory.part(store.node, value.shape, sizes)[...] = value
    return memory.part(node, memory.shape, sizes)


def _from_array(node: AscNode, array: np.ndarray) -> np.ndarray:
    """The array with the axes of the graph, of size 1 where it has none."""
    if "array" not in node.attrs:
        return array
    axes = node.array_axes()
    flat = array.reshape([n for n, a in zip(array.shape, axes, strict=True) if a is not None])
    held = [a for a in axes if a is not None]
    places = [next((i for i, h in enumerate(held) if h is a), None) for a in node.y.axis]
    moved = flat.transpose([p for p in places if p is not None])
    return moved[tuple(None if p is None else slice(None) for p in places)]


def _to_array(node: AscNode, value: np.ndarray) -> np.ndarray:
    """The array of an output, of a value with the axes of the graph."""
    if "array" not in node.attrs:
        return value
    axes = node.array_axes()
    places = [next((i for i, b in enumerate(node.y.axis) if b is a), None) for a in axes]
    held = [p for p in places if p is not None]
    flat = value.transpose([*held, *(i for i in range(value.ndim) if i not in held)])
    return flat.reshape([1 if p is None else value.shape[p] for p in places])


def _gathered(node: AscNode, x: np.ndarray, indices: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    along = axis_of(node)
    shape = [r.evaluate(sizes) for r in node.y.repeats]
    places = list(np.ogrid[tuple(slice(n) for n in shape)])
    for i, (axis, length) in enumerate(zip(node.y.axis, x.shape, strict=True)):
        if axis is along:
            if node.attr("negative_index_support"):
                indices = np.where(indices < 0, indices + length, indices)
            places[i] = np.clip(indices, 0, length - 1)
        elif length == 1:
            places[i] = np.zeros_like(places[i])
    return np.broadcast_to(x[tuple(places)], shape)


def _value(node: AscNode, inputs: list[Any], sizes: Mapping[str, int]) -> np.ndarray:
    y, kind = node.y, node.op.kind
    if kind == "store":
        return inputs[0]
    if kind == "number":
        value = Size.of(node.attr("expr")).evaluate(sizes) if node.type == "IndexExpr" else node.attrs["value"]
        return np.full([1] * len(y.axis), value, y.dtype)
    if kind == "broadcast":
        return np.broadcast_to(inputs[0], [r.evaluate(sizes) for r in y.repeats])
    if kind == "transpose":
        return np.transpose(inputs[0], [node.inputs[0].axis.index(a) for a in y.axis])
    if kind == "gather":
        return _gathered(node, inputs[0], inputs[1], sizes)
    if kind == "concat":
        return np.concatenate(inputs, axis=next(i for i, a in enumerate(y.axis) if a is axis_of(node)))
    if node.type == "Cast":
        return convert(inputs[0], DataType(str(y.dtype)))
    assert node.op.numpy is not None
    more: dict[str, Any] = {key: node.attr(key) for key in node.op.attrs}
    if kind == "reduce":
        x = node.inputs[0]
        more["axis"] = tuple(
            i for i, (a, b) in enumerate(zip(x.repeats, y.repeats, strict=True)) if not a.is_one and b.is_one
        )
    with np.errstate(all="ignore"):
        return np.asarray(node.op.numpy(*inputs, **more)).astype(y.dtype)
