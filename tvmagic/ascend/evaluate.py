"""What a HintGraph computes, by NumPy: the reference that implementations are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode
from tvmagic.ascend.rules import concat_axis

__all__ = ["bind_sizes", "evaluate"]

_OTHERS = {
    "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: (1 / (1 + np.exp(-x))).astype(x.dtype),
}
_COPIES = ("Load", "Store")


def bind_sizes(graph: AscGraph, inputs: Sequence[np.ndarray]) -> dict[str, int]:
    """The numbers of the size variables, from the shapes of the inputs. Raises AscendError where they differ."""
    values = {n: v for n, v in graph.sizes.items() if v is not None}
    data = graph.of_type("Data")
    if len(data) != len(inputs):
        raise AscendError("arguments", f"graph `{graph.name}` takes {len(data)} inputs, not {len(inputs)}")
    for node, array in zip(data, inputs, strict=True):
        if array.ndim != len(node.y.repeats):
            raise AscendError("arguments", f"`{node.name}` has {len(node.y.repeats)} axes, not {array.ndim}")
        for repeat, length in zip(node.y.repeats, array.shape, strict=True):
            if repeat.constant is None and str(repeat) in graph.sizes:
                values.setdefault(str(repeat), length)
    for node, array in zip(data, inputs, strict=True):
        shape = tuple(r.evaluate(values) for r in node.y.repeats)
        if shape != array.shape:
            raise AscendError("arguments", f"`{node.name}` has the shape {shape}, not {array.shape}")
    return values


def evaluate(graph: AscGraph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a HintGraph for arrays of the sizes of its Data nodes (1 along axes they do not have)."""
    sizes = bind_sizes(graph, inputs)
    values: dict[int, np.ndarray] = {}
    given = iter(inputs)
    for node in graph.nodes:
        if node.type == "Data":
            values[id(node)] = next(given)
        else:
            values[id(node)] = _value(node, [values[id(x.node)] for x in node.inputs], sizes)
    return [values[id(n)] for n in graph.of_type("Output")]


def _value(node: AscNode, inputs: list[Any], sizes: Mapping[str, int]) -> np.ndarray:
    y, kind = node.y, node.op.compute_type
    if node.type in _COPIES or kind == "data":
        return inputs[0] if inputs else np.full([1] * len(y.axis), node.attrs["value"], y.dtype)
    if kind == "broadcast":
        return np.broadcast_to(inputs[0], [r.evaluate(sizes) for r in y.repeats])
    if kind == "concat":
        return np.concatenate(inputs, axis=next(i for i, a in enumerate(y.axis) if a is concat_axis(node)))
    if kind == "reduce":
        x = node.inputs[0]
        axes = tuple(i for i, (a, b) in enumerate(zip(x.repeats, y.repeats, strict=True)) if not a.is_one and b.is_one)
        wide = {"axis": axes, "keepdims": True}
        return np.asarray(getattr(np, node.op.numpy)(inputs[0], **wide)).astype(y.dtype)
    if node.type == "Cast":
        return inputs[0].astype(y.dtype)
    function = _OTHERS.get(node.type) or getattr(np, node.op.numpy)
    with np.errstate(all="ignore"):
        return np.asarray(function(*inputs)).astype(y.dtype)
