"""Functions that add nodes to a graph and give their tensors their attributes.

Each takes tensors (or nodes) and returns the output tensor of the new node. Tensors range over all
axes around the node; along an axis that a tensor does not have its size is 1 and its stride 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, Axis, dense_strides, the_dtype
from tvmagic.ascend.optypes import OP_TYPES
from tvmagic.ascend.sizes import Size, SizeLike
from tvmagic.errors import did_you_mean

__all__ = [
    "Broadcast",
    "Cast",
    "Concat",
    "Data",
    "Gather",
    "IndexExpr",
    "Load",
    "MatMul",
    "Nddma",
    "Output",
    "Scalar",
    "ScalarData",
    "Split",
    "Store",
    "Transpose",
    "VectorFunc",
    "broadcast_to",
    "layout",
    "reduce",
]

Operand = Any  # AscTensor or AscNode


def _tensor(value: Operand) -> AscTensor:
    if isinstance(value, AscNode):
        return value.y
    if not isinstance(value, AscTensor):
        raise AscendError(
            "operand",
            f"an operand is a tensor or a node of a graph, not `{type(value).__name__}`",
            hint="a number is a node too: `ops.Scalar(graph, 2.5)`, and a Broadcast of it along each axis",
        )
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
    axes: Sequence[Axis | str] | None = None,
    dtype: str = "float32",
    *,
    sizes: Sequence[SizeLike] | None = None,
    strides: Sequence[SizeLike] | None = None,
) -> AscTensor:
    """An input of the graph; inputs are numbered in the order of their creation.

    Parameters
    ----------
    axes: the axes that it has (by default all), in the order of its memory, the outermost first.
    sizes: its size along each of `axes`, if it is not the axis's own.
    strides: its strides in elements along each of its axes, those of size 1 among them; dense by default.
    """
    y = graph.add_node("Data", (), name, index=len(graph.of_type("Data"))).y
    y.dtype, (y.axis, y.repeats) = (
        the_dtype(dtype),
        layout(graph, None if axes is None else graph.find_axes(axes), sizes),
    )
    y.strides = dense_strides(y.repeats) if strides is None else [Size.of(s) for s in strides]
    return _global(y)


def Load(
    x: Operand, name: str | None = None, *, offset: SizeLike = 0, sizes: Sequence[SizeLike] | None = None
) -> AscTensor:
    """The data of an input in local memory.

    Parameters
    ----------
    offset: how many elements behind the input's first one the data begins.
    sizes: the size along each axis of the input, if less than all of it is loaded.
    """
    x = _tensor(x)
    return _part_of(_new(x.node.graph, "Load", [x], x, name=name, offset=offset), sizes)


def Nddma(x: Operand, name: str | None = None, *, offset: SizeLike = 0) -> AscTensor:
    """A load that also broadcasts or transposes in the move; it can be read and shown, not run."""
    x = _tensor(x)
    return _new(x.node.graph, "Nddma", [x], x, name=name, offset=offset)


def Store(x: Operand, name: str | None = None, *, offset: SizeLike = 0) -> AscTensor:
    """The data back in global memory, `offset` elements behind the first one of the output."""
    x = _tensor(x)
    return _global(_new(x.node.graph, "Store", [x], x, name=name, offset=offset))


def Output(
    x: Operand | Sequence[Operand], name: str | None = None, *, sizes: Sequence[SizeLike] | None = None
) -> AscTensor:
    """What stores have written becomes an output of the graph.

    Parameters
    ----------
    x: what a Store has written, or several that write parts of one output.
    sizes: the sizes of the output, if what is written is a part of it.
    """
    stored = [_tensor(v) for v in (x if isinstance(x, (list, tuple)) else [x])]
    graph = stored[0].node.graph
    y = _new(graph, "Output", stored, stored[0], name=name, index=len(graph.of_type("Output")))
    return _part_of(_global(y), sizes)


def _global(y: AscTensor) -> AscTensor:
    y.mem.alloc_type, y.mem.hardware, y.mem.position = "Global", "GM", "GM"
    return y


def _part_of(y: AscTensor, sizes: Sequence[SizeLike] | None) -> AscTensor:
    if sizes is not None:
        if len(sizes) != len(y.axis):
            raise AscendError(
                "tensor-rank",
                f"`{y}` has {len(y.axis)} axes, not {len(sizes)}",
                hint="give a size for each axis, in their order",
            )
        y.repeats = [Size.of(s) for s in sizes]
        y.strides = dense_strides(y.repeats)
    return y


def _as_scalar(y: AscTensor, dtype: str) -> AscTensor:
    y.dtype, y.axis = dtype, list(y.node.graph.sched_axes)
    y.repeats = [Size.of(1) for _ in y.axis]
    y.strides = dense_strides(y.repeats)
    return y


def Scalar(graph: AscGraph, value: float, dtype: str = "float32", name: str | None = None) -> AscTensor:
    """A number, as a tensor of size 1 along every axis."""
    index = len(graph.of_type("Scalar"))
    return _as_scalar(graph.add_node("Scalar", (), name, value=value, index=index).y, dtype)


def ScalarData(graph: AscGraph, name: str | None = None, dtype: str = "float32") -> AscTensor:
    """A number that is an argument of the graph, after its Data; numbered in the order of their creation."""
    return _as_scalar(graph.add_node("ScalarData", (), name, index=len(graph.of_type("ScalarData"))).y, dtype)


def IndexExpr(graph: AscGraph, expr: SizeLike, dtype: str = "int64", name: str | None = None) -> AscTensor:
    """A whole number that is computed from the sizes of the graph."""
    return _as_scalar(graph.add_node("IndexExpr", (), name, expr=Size.of(expr)).y, dtype)


def Broadcast(x: Operand, axis: Axis | str, name: str | None = None, *, size: SizeLike | None = None) -> AscTensor:
    """`x`, of size 1 along `axis`, repeated along it; `size` times where it is a part of the axis, as for a concat."""
    x = _tensor(x)
    along = x.node.graph.find_axis(axis)
    y = _new(x.node.graph, "Broadcast", [x], x, name=name)
    times = along.size if size is None else Size.of(size)
    y.repeats = [times if a is along else r for a, r in zip(x.axis, x.repeats, strict=True)]
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
    inputs: Sequence[Operand], axis: Axis | str, name: str | None = None, *, size: SizeLike | None = None
) -> AscTensor:
    """The inputs one after the other along `axis`, whose size is the sum of theirs; `size` in a part of another concat."""
    tensors = [_tensor(x) for x in inputs]
    along = tensors[0].node.graph.find_axis(axis)
    y = _new(tensors[0].node.graph, "Concat", tensors, tensors[0], name=name)
    total = along.size if size is None else Size.of(size)
    y.repeats = [total if a is along else r for a, r in zip(y.axis, y.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def Split(x: Operand, axis: Axis | str, sizes: Sequence[SizeLike], name: str | None = None) -> list[AscTensor]:
    """`x` cut along `axis` into parts of `sizes`, the first one first; the inverse of `Concat`."""
    x = _tensor(x)
    axis = x.node.graph.find_axis(axis)
    node = _new(x.node.graph, "Split", [x], None, name=name, index=0, gid=0).node
    for number, size in enumerate(sizes):
        y = node.output(f"y{number}")
        y.dtype, y.axis = x.dtype, list(x.axis)
        y.repeats = [Size.of(size) if a is axis else r for a, r in zip(x.axis, x.repeats, strict=True)]
        y.strides = dense_strides(y.repeats)
    return list(node.outputs)


def Transpose(x: Operand, axes: Sequence[Axis | str], name: str | None = None) -> AscTensor:
    """The elements of `x` in memory in the order of `axes`, the outermost first; `axes` are those of `x`."""
    x = _tensor(x)
    order = x.node.graph.find_axes(axes)
    y = _new(x.node.graph, "Transpose", [x], x, name=name)
    if len(order) != len(x.axis) or set(order) != set(x.axis):
        raise AscendError(
            "transpose-permutation",
            f"{order} is not an order of the axes {x.axis} of `{x}`",
            hint="give each axis of the input once, in the order of the result",
        )
    y.axis, y.repeats = order, [x.repeat(a) for a in order]
    y.strides = dense_strides(y.repeats)
    return y


def Gather(
    x: Operand, indices: Operand, axis: Axis | str, name: str | None = None, *, negative_index_support: bool = False
) -> AscTensor:
    """The elements of the input `x` at the places `indices` along `axis`.

    `y[.., i, ..] = x[.., indices[.., i, ..], ..]`. The result has along `axis` the size of `indices`,
    along the other axes that of `x`, and that of `indices` where this is 1. Places outside `x` are
    those of its first or last element.

    Parameters
    ----------
    x: a Data node's tensor, of any size along `axis`.
    indices: a tensor of whole numbers, of size 1 along axes on which they do not depend.
    negative_index_support: negative indices count from the end.
    """
    x, at = _tensor(x), _tensor(indices)
    along = x.node.graph.find_axis(axis)
    place = next((i for i, a in enumerate(x.axis) if a is along), -1)
    if place < 0:
        raise AscendError(
            "node-axis", f"`{x}` has no axis `{along.name}`", hint=f"it has {', '.join(a.name for a in x.axis)}"
        )
    attrs = {"axis": place, "negative_index_support": negative_index_support}
    y = _new(x.node.graph, "Gather", [x, at], x, name=name, **attrs)
    y.repeats = [at.repeat(a) if a is along or r.is_one else r for a, r in zip(x.axis, x.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def reduce(type: str, x: Operand, axes: Axis | str | Sequence[Axis | str], name: str | None = None) -> AscTensor:
    """A reduction (`Sum`, `Mean`, `Max`, `Min`, `Prod`, `Any`, `All`, `ArgMax`) over `axes`, which stay with size 1."""
    x = _tensor(x)
    chosen = x.node.graph.find_axes(axes)
    y = _new(x.node.graph, type, [x], x, name=name)
    y.dtype = OP_TYPES[type].result_type(x.dtype)
    y.repeats = [Size.of(1) if any(a is c for c in chosen) else r for a, r in zip(x.axis, x.repeats, strict=True)]
    y.strides = dense_strides(y.repeats)
    return y


def Cast(x: Operand, dtype: str, name: str | None = None) -> AscTensor:
    """`x` in another type."""
    x = _tensor(x)
    y = _new(x.node.graph, "Cast", [x], x, name=name)
    y.dtype = the_dtype(dtype)
    return y


def _elementwise(type: str) -> Callable[..., AscTensor]:
    op = OP_TYPES[type]

    def build(*inputs: Operand, name: str | None = None, **attrs: Any) -> AscTensor:
        tensors = [_tensor(x) for x in inputs]
        if len(tensors) != op.inputs:
            raise AscendError("input-count", f"`{type}` takes {op.inputs} inputs, not {len(tensors)}")
        unknown = next((key for key in attrs if key not in op.attrs), None)
        if unknown is not None:
            known = f"it has {', '.join(f'`{key}`' for key in op.attrs)}" if op.attrs else "it has none"
            raise AscendError("attribute", f"`{type}` has no attribute `{unknown}`", hint=known)
        y = _new(tensors[0].node.graph, type, tensors, tensors[-1], name=name, **{**op.attrs, **attrs})
        operands = [x.dtype for i, x in enumerate(tensors) if i not in op.conditions]
        y.dtype = op.result_type(operands[0])
        return y

    build.__name__ = build.__qualname__ = type
    more = f" Attributes: {', '.join(f'`{k}` ({v})' for k, v in op.attrs.items())}." if op.attrs else ""
    build.__doc__ = f"A `{type}` node over {op.inputs} tensors of equal sizes.{more}"
    return build


def _reduction(type: str) -> Callable[..., AscTensor]:
    def build(x: Operand, axes: Axis | str | Sequence[Axis | str], name: str | None = None) -> AscTensor:
        return reduce(type, x, axes, name)

    build.__name__ = build.__qualname__ = type
    build.__doc__ = f"A `{type}` node over `axes`, which stay with size 1."
    return build


def MatMul(x1: Operand, x2: Operand, axes: Sequence[Axis | str], name: str | None = None, **attrs: Any) -> AscTensor:
    """A product of matrices over `axes` (those of the result); it can be read and shown, not run."""
    left, right = _tensor(x1), _tensor(x2)
    axes = left.node.graph.find_axes(axes)
    y = _new(left.node.graph, "MatMul", [left, right], left, name=name, **{**OP_TYPES["MatMul"].attrs, **attrs})
    y.axis, y.repeats = list(axes), [a.size for a in axes]
    y.strides = dense_strides(y.repeats)
    return y


def VectorFunc(
    inputs: Sequence[Operand], sub_graph_name: str, outputs: int = 1, name: str | None = None
) -> list[AscTensor]:
    """A fused body of elementwise nodes, named `sub_graph_name`; it can be read and shown, not run."""
    tensors = [_tensor(x) for x in inputs]
    graph, like = tensors[0].node.graph, tensors[0]
    node = _new(graph, "VectorFunc", tensors, None, name=name, sub_graph_name=sub_graph_name).node
    for number in range(outputs):
        y = node.output(f"y{number}" if outputs > 1 else "y")
        y.dtype, y.axis, y.repeats = like.dtype, list(like.axis), list(like.repeats)
        y.strides = dense_strides(y.repeats)
    return list(node.outputs)


_MAKERS = {"elewise": _elementwise, "reduce": _reduction}
for _name, _op in OP_TYPES.items():
    if _op.kind in _MAKERS and _name not in ("Cast", "VectorFunc"):
        globals()[_name] = _MAKERS[_op.kind](_name)
        __all__.append(_name)


def __getattr__(name: str) -> Any:
    near = did_you_mean(name, OP_TYPES)
    raise AttributeError(f"there is no node type `{name}`" + (f"; {near}" if near else ""))
