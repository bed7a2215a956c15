"""What a HintGraph computes, by NumPy: the reference that implementations are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode
from tvmagic.ascend.rules import axis_of
from tvmagic.eval.ops import CALLS, convert
from tvmagic.ir import DataType

__all__ = ["bind_sizes", "evaluate"]

_OTHERS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Rsqrt": CALLS["tir.rsqrt"],
    "Erf": CALLS["tir.erf"],
    "Sigmoid": CALLS["tir.sigmoid"],
}
_COPIES = ("Load", "Store")


def bind_sizes(graph: AscGraph, inputs: Sequence[np.ndarray]) -> dict[str, int]:
    """The numbers of the size variables, from the shapes of the inputs. Raises AscendError where they differ."""
    values = {n: v for n, v in graph.sizes.items() if v is not None}
    data = graph.of_type("Data")
    if len(data) != len(inputs):
        raise AscendError("arguments", f"graph `{graph.name}` takes {len(data)} inputs, not {len(inputs)}")
    shapes = [n.array_shape() for n in data]
    for node, sizes, array in zip(data, shapes, inputs, strict=True):
        if array.ndim != len(sizes):
            raise AscendError("arguments", f"`{node.name}` has {len(sizes)} axes, not {array.ndim}")
        for size, length in zip(sizes, array.shape, strict=True):
            if size.constant is None and str(size) in graph.sizes:
                values.setdefault(str(size), length)
    for node, sizes, array in zip(data, shapes, inputs, strict=True):
        shape = tuple(s.evaluate(values) for s in sizes)
        if shape != array.shape:
            raise AscendError("arguments", f"`{node.name}` has the shape {shape}, not {array.shape}")
    return values


def evaluate(graph: AscGraph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a HintGraph for arrays of the shapes of its Data nodes (`AscNode.array_shape`)."""
    sizes = bind_sizes(graph, inputs)
    values: dict[int, np.ndarray] = {}
    given = iter(inputs)
    for node in graph.nodes:
        if node.type == "Data":
            values[id(node)] = _from_array(node, next(given))
        else:
            values[id(node)] = _value(node, [values[id(x.node)] for x in node.inputs], sizes)
    return [np.ascontiguousarray(_to_array(n, values[id(n)])) for n in graph.of_type("Output")]


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
    """The array that an output stands for, of a value with the axes of the graph."""
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
            places[i] = np.clip(indices, 0, length - 1)
        elif length == 1:
            places[i] = np.zeros_like(places[i])
    return np.broadcast_to(x[tuple(places)], shape)


def _value(node: AscNode, inputs: list[Any], sizes: Mapping[str, int]) -> np.ndarray:
    y, kind = node.y, node.op.compute_type
    if node.type in _COPIES or kind == "data":
        return inputs[0] if inputs else np.full([1] * len(y.axis), node.attrs["value"], y.dtype)
    if kind == "broadcast":
        return np.broadcast_to(inputs[0], [r.evaluate(sizes) for r in y.repeats])
    if kind == "transpose":
        return np.transpose(inputs[0], [node.inputs[0].axis.index(a) for a in y.axis])
    if kind == "gather":
        return _gathered(node, inputs[0], inputs[1], sizes)
    if kind == "concat":
        return np.concatenate(inputs, axis=next(i for i, a in enumerate(y.axis) if a is axis_of(node)))
    if kind == "reduce":
        x = node.inputs[0]
        axes = tuple(i for i, (a, b) in enumerate(zip(x.repeats, y.repeats, strict=True)) if not a.is_one and b.is_one)
        wide = {"axis": axes, "keepdims": True}
        return np.asarray(getattr(np, node.op.numpy)(inputs[0], **wide)).astype(y.dtype)
    if node.type == "Cast":
        return convert(inputs[0], DataType(str(y.dtype)))
    function = _OTHERS.get(node.type) or getattr(np, node.op.numpy)
    with np.errstate(all="ignore"):
        return np.asarray(function(*inputs)).astype(y.dtype)
