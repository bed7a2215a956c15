"""Functions that add nodes to a graph and give their tensors their attributes.

Each takes tensors (or nodes) and returns the output tensor of the new node. Tensors range over all
axes round the node; along an axis that a tensor does not have its size is 1 and its stride 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, Axis, dense_strides
from tvmagic.ascend.optypes import OP_TYPES
from tvmagic.ascend.sizes import Size, SizeLike

__all__ = [
    "Broadcast",
    "Concat",
    "Data",
    "Gather",
    "Load",
    "Output",
    "Scalar",
    "Store",
    "Transpose",
    "broadcast_to",
    "layout",
    "reduce",
]

Operand = Any  # AscTensor or AscNode


def _tensor(value: Operand) -> AscTensor:
    if isinstance(value, AscNode):
        return value.y
    if not isinstance(value, AscTensor):
        raise AscendError("operand", f"an operand is a tensor or a node of a graph, not `{type(value).__name__}`")
    return value


def _new(graph: AscGraph, type: str, inputs: Sequence[AscTensor], like: AscTensor | None, **attrs: Any) -> AscTensor:
    name = attrs.pop("name", None)
    node = graph.add_node(type, inputs, name, **attrs)
    y = node.y
    if like is not None:
        y.dtype, y.axis, y.repeats = like.dtype, list(like.axis), list(like.repeats)
        y.strides = dense_strides(y.repeats)
    return y


def layout(
    graph: AscGraph, axes: Sequence[Axis] | None, sizes: Sequence[SizeLike] | None
) -> tuple[list[Axis], list[Size]]:
    """All axes of the graph, `axes` among them in their own order, and the size along each (of `axes`: `sizes`)."""
    chosen = list(graph.sched_axes if axes is None else axes)
    given = [a.size for a in chosen] if sizes is None else [Size.of(s) for s in sizes]
    by_axis = dict(zip(chosen, given, strict=True))
    next_one = iter(chosen)
    order = [next(next_one) if a in by_axis else a for a in graph.sched_axes]
    return order, [by_axis.get(a, Size.of(1)) for a in order]


def Data(
    graph: AscGraph,
    name: str,
    axes: Sequence[Axis] | None = None,
    dtype: str = "float32",
    *,
    sizes: Sequence[SizeLike] | None = None,
    strides: Sequence[SizeLike] | None = None,
) -> AscTensor:
    """An input of the graph; inputs are numbered in the order of their creation.

    Parameters
    ----------
    axes: the axes that it has (all unless told), in the order of its memory, the outermost first.
    sizes: its size along each of `axes`, where it is not the axis's own.
    strides: its strides in elements along each of its axes, those of size 1 among them; dense unless told.
    """
    y = graph.add_node("Data", (), name, index=len(graph.of_type("Data"))).y
    y.dtype, (y.axis, y.repeats) = dtype, layout(graph, axes, sizes)
    y.strides = dense_strides(y.repeats) if strides is None else [Size.of(s) for s in strides]
    y.mem.alloc_type, y.mem.hardware = "Global", "GM"
    return y


def Load(x: Operand, name: str | None = None) -> AscTensor:
    """The data of an input in local memory."""
    x = _tensor(x)
    return _new(x.node.graph, "Load", [x], x, name=name)


def Store(x: Operand, name: str | None = None) -> AscTensor:
    """The data back in global memory."""
    x = _tensor(x)
    y = _new(x.node.graph, "Store", [x], x, name=name)
    y.mem.alloc_type, y.mem.hardware = "Global", "GM"
    return y


def Output(x: Operand, name: str | None = None) -> AscTensor:
    """What a store has written becomes an output of the graph."""
    x = _tensor(x)
    y = _new(x.node.graph, "Output", [x], x, name=name, index=len(x.node.graph.of_type("Output")))
    y.mem.alloc_type, y.mem.hardware = "Global", "GM"
    return y


def Scalar(graph: AscGraph, value: float, dtype: str = "float32", name: str | None = None) -> AscTensor:
    """A number, as a tensor of size 1 along every axis."""
    y = graph.add_node("Scalar", (), name, value=value).y
    y.dtype, y.axis = dtype, list(graph.sched_axes)
    y.repeats = [Size.of(1) for _ in y.axis]
    y.strides = dense_strides(y.repeats)
    return y


def Broadcast(x: Operand, axis: Axis, name: str | None = None, *, size: SizeLike | None = None) -> AscTensor:
    """`x`, of size 1 along `axis`, repeated along it; `size` times where it is a part of the axis, as for a concat."""
    x = _tensor(x)
    y = _new(x.node.graph, "Broadcast", [x], x, name=name)
    times = axis.size if size is None else Size.of(size)
    y.repeats = [times if a is axis else r for a, r in zip(x.axis, x.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def broadcast_to(x: Operand, axes: Sequence[Axis]) -> AscTensor:
    """`x` repeated along those of `axes` where it has size 1, one node for each, the innermost first."""
    x = _tensor(x)
    for axis in reversed(list(axes)):
        if x.repeat(axis).is_one and not axis.size.is_one:
            x = Broadcast(x, axis)
    return x


def Concat(
    inputs: Sequence[Operand], axis: Axis, name: str | None = None, *, size: SizeLike | None = None
) -> AscTensor:
    """The inputs one after the other along `axis`, whose size is the sum of theirs; `size` in a part of another concat."""
    tensors = [_tensor(x) for x in inputs]
    y = _new(tensors[0].node.graph, "Concat", tensors, tensors[0], name=name, axis=axis.name)
    total = axis.size if size is None else Size.of(size)
    y.repeats = [total if a is axis else r for a, r in zip(y.axis, y.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def Transpose(x: Operand, axes: Sequence[Axis], name: str | None = None) -> AscTensor:
    """The elements of `x` in memory in the order of `axes`, the outermost first; `axes` are those of `x`."""
    x = _tensor(x)
    y = _new(x.node.graph, "Transpose", [x], x, name=name)
    if len(axes) != len(x.axis) or set(axes) != set(x.axis):
        raise AscendError("transpose-permutation", f"{list(axes)} is not an order of the axes {x.axis} of `{x}`")
    y.axis, y.repeats = list(axes), [x.repeat(a) for a in axes]
    y.strides = dense_strides(y.repeats)
    return y


def Gather(x: Operand, indices: Operand, axis: Axis, name: str | None = None) -> AscTensor:
    """The elements of the input `x` at the places `indices` along `axis`.

    `y[.., i, ..] = x[.., indices[.., i, ..], ..]`. The result has along `axis` the size of `indices`,
    along the other axes that of `x`, and where this is 1 that of `indices`. Places outside `x` are
    those of its first or last element.

    Parameters
    ----------
    x: a Data node's tensor, of any size along `axis`.
    indices: a tensor of whole numbers, of size 1 along axes on which they do not depend.
    """
    x, at = _tensor(x), _tensor(indices)
    y = _new(x.node.graph, "Gather", [x, at], x, name=name, axis=axis.name)
    y.repeats = [at.repeat(a) if a is axis or r.is_one else r for a, r in zip(x.axis, x.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def reduce(type: str, x: Operand, axes: Axis | Sequence[Axis], name: str | None = None) -> AscTensor:
    """A reduction (`Sum`, `Mean`, `Max`, `Min`, `Prod`) over `axes`, which stay with size 1."""
    x = _tensor(x)
    chosen = [axes] if isinstance(axes, Axis) else list(axes)
    y = _new(x.node.graph, type, [x], x, name=name)
    y.repeats = [Size.of(1) if any(a is c for c in chosen) else r for a, r in zip(x.axis, x.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def Cast(x: Operand, dtype: str, name: str | None = None) -> AscTensor:
    """`x` in another type."""
    x = _tensor(x)
    y = _new(x.node.graph, "Cast", [x], x, name=name, dtype=dtype)
    y.dtype = dtype
    return y


def _elementwise(type: str) -> Callable[..., AscTensor]:
    op = OP_TYPES[type]

    def build(*inputs: Operand, name: str | None = None) -> AscTensor:
        tensors = [_tensor(x) for x in inputs]
        if len(tensors) != op.inputs:
            raise AscendError("input-count", f"`{type}` takes {op.inputs} inputs, not {len(tensors)}")
        y = _new(tensors[0].node.graph, type, tensors, tensors[-1], name=name)
        y.dtype = op.result or tensors[-1].dtype
        return y

    build.__name__ = build.__qualname__ = type
    build.__doc__ = f"A `{type}` node over {op.inputs} tensors of equal sizes."
    return build


def _reduction(type: str) -> Callable[..., AscTensor]:
    def build(x: Operand, axes: Axis | Sequence[Axis], name: str | None = None) -> AscTensor:
        return reduce(type, x, axes, name)

    build.__name__ = build.__qualname__ = type
    build.__doc__ = f"A `{type}` node over `axes`, which stay with size 1."
    return build


_MAKERS = {"elewise": _elementwise, "reduce": _reduction}
for _name, _op in OP_TYPES.items():
    if _op.compute_type in _MAKERS and _name != "Cast":
        globals()[_name] = _MAKERS[_op.compute_type](_name)
        __all__.append(_name)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"there is no node type `{name}`")
