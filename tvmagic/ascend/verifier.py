"""The rules that a graph keeps, each with a name that its error carries.

`check_graph` holds for every graph, `check_hint` adds the rules of a HintGraph, `check_impl`
those of an ImplGraph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tvmagic.ascend.addressing import seen_from
from tvmagic.ascend.graph import (
    AscendError,
    AscGraph,
    AscNode,
    AscTensor,
    Axis,
    AxisType,
    as_graph,
    dense_strides,
    in_node,
    the_dtype,
)
from tvmagic.ascend.sizes import Size
from tvmagic.ir import dtype_of


def check_graph(graph: AscGraph) -> None:
    """Check what holds for every graph: known axes, ends of edges, sizes and strides. Raises AscendError."""
    check_structure(graph)
    outer = [a.name for a in graph.axes if a.type is AxisType.BLOCK_OUT]
    if len(outer) > 1:
        raise AscendError("one-block-outer", f"graph `{graph.name}` has the block-outer axes {', '.join(outer)}")
    for node in graph.nodes:
        with in_node(node):
            _check_sizes(graph, node)
            for y in node.outputs:
                _check_layout(y)
            check = _BY_KIND.get(node.op.kind)
            if check is not None:
                check(node)
    _check_parts(graph)
    _check_stores(graph)
    for type in ("Data", "Output"):
        indices = [n.attrs.get("index") for n in graph.of_type(type)]
        if indices != list(range(len(indices))):
            raise AscendError("index", f"the `{type}` nodes of graph `{graph.name}` have the indices {indices}")


def moved_parts(graph: AscGraph) -> Iterator[tuple[AscNode, AscTensor, Size, Size, Size]]:
    """The Loads and Stores that move a part of an array: the node, the array, the offset, and how many elements the part
    spans and the array has, gaps included."""
    readers = graph.readers()
    for node in graph.nodes:
        arrays = node.inputs if node.op.kind == "load" else [n.y for n in readers[node.y] if n.op.is_buffer]
        for array in arrays if node.op.kind in ("load", "store") else ():
            offset = Size.of(node.attr("offset"))
            if offset != 0 or (node.type != "Nddma" and node.y.repeats != array.repeats):
                strides = [array.stride(a) for a in node.y.axis]
                yield node, array, offset, _spanned(node.y.repeats, strides), _spanned(array.repeats, array.strides)


def _spanned(repeats: Sequence[Size], strides: Sequence[Size]) -> Size:
    total = Size.of(1)
    for repeat, stride in zip(repeats, strides, strict=True):
        total = total + (repeat - 1) * stride
    return total


def _check_parts(graph: AscGraph) -> None:
    """Parts that are known to be outside their arrays; those of open sizes are checked when the program runs."""
    for node, array, offset, part, whole in moved_parts(graph):
        beyond = (offset + part - whole).constant
        if (offset.constant is not None and offset.constant < 0) or (beyond is not None and beyond > 0):
            with in_node(node):
                raise AscendError(
                    "offset-inside", f"`{node.name}` moves [{', '.join(map(str, node.y.repeats))}] elements from offset "
                    f"{offset} on of `{array}`, which has {whole}",
                )  # fmt: skip


def _check_stores(graph: AscGraph) -> None:
    """Stores that are known to write the same elements of one array: the tiles decide which of them is the last."""
    for node in graph.nodes:
        stores = [x.node for x in node.inputs] if node.op.is_buffer else []
        for first, second in itertools.combinations(stores, 2):
            if _overlap(first, second, node.y):
                with in_node(second):
                    raise AscendError(
                        "stores-apart", f"`{first.name}` and `{second.name}` write the same elements of `{node.y}`",
                        hint="give each its `offset` in the output, in elements",
                    )  # fmt: skip


def _overlap(first: AscNode, second: AscNode, array: AscTensor) -> bool:
    """Whether two stores are known to write an element of the array in common."""
    one, other = _box(first, array), _box(second, array)
    if one is not None and other is not None:
        return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))
    return Size.of(first.attr("offset")) == Size.of(second.attr("offset"))


def _box(store: AscNode, array: AscTensor) -> list[tuple[int, int]] | None:
    """The part of an array that a store writes, along each axis; None if that is not a box of known numbers."""
    rest = Size.of(store.attr("offset")).constant
    box: list[tuple[int, int]] = []
    for axis, whole, stride in zip(array.axis, array.repeats, array.strides, strict=True):
        length, end, step = store.y.repeat(axis).constant, whole.constant, stride.constant
        if rest is None or length is None or end is None or step is None:
            return None
        first, rest = divmod(rest, step) if step else (0, rest)
        if first + length > end:
            return None
        box.append((first, first + length))
    return box if rest == 0 else None


def check_structure(graph: AscGraph) -> None:
    """Check that all that nodes refer to is there: axes, nodes before them, the halves of splits. Raises AscendError."""
    known = {id(a) for a in as_graph(graph).axes}
    seen: set[int] = set()
    for axis in graph.axes:
        missing = next((f for f in axis.from_ if id(f) not in known), None)
        if missing is not None:
            raise AscendError("axis-known", f"`{axis.name}` is made of `{missing.name}`, which its graph does not have")
        if axis.is_half and (len(axis.from_) != 1 or axis.split_pair is None):
            raise AscendError(
                "split-pair", f"the axis `{axis.name}` is a half of a split, and the other half is not there"
            )
    for node in graph.nodes:
        with in_node(node):
            _check_edges(node, seen)
            _check_inputs(node)
            _check_axes(node, known)
        seen.add(id(node))


def _check_edges(node: AscNode, seen: set[int]) -> None:
    for tensor in node.inputs:
        if id(tensor.node) not in seen:
            hint = "nodes are in an order of execution; one of an excerpt lacks what it reads"
            raise AscendError("acyclic", f"`{node.name}` reads `{tensor}`, which is not before it", hint=hint)
        if not any(tensor is y for y in tensor.node.outputs):
            raise AscendError("output-known", f"`{node.name}` reads `{tensor}`, which its node does not have")


def _check_inputs(node: AscNode) -> None:
    wanted = node.op.inputs
    if not node.op.known:
        return
    if (wanted >= 0 and len(node.inputs) != wanted) or (wanted < 0 and not node.inputs and node.type != "Workspace"):
        taken = wanted if wanted >= 0 else "one or more"
        raise AscendError("input-count", f"`{node}` takes {taken} inputs, not {len(node.inputs)}")


def _check_axes(node: AscNode, known: set[int]) -> None:
    for axis in (*node.sched.axis, *(a for y in node.outputs for a in (*y.axis, *y.vectorized_axis))):
        if id(axis) not in known:
            raise AscendError("axis-known", f"`{node.name}` has the axis `{axis.name}`, which its graph does not have")
    for axes in (node.sched.axis, *(s for y in node.outputs for s in (y.axis, y.vectorized_axis))):
        if len({id(a) for a in axes}) != len(axes):
            raise AscendError("axis-once", f"`{node.name}` has an axis twice")
    if node.sched.loop_axis is not None and not any(a is node.sched.loop_axis for a in node.sched.axis):
        raise AscendError("loop-axis", f"the loop axis of `{node.name}` is not one of its axes")
    for y in node.outputs:
        _check_tensor(y)


def _check_tensor(y: AscTensor) -> None:
    if not len(y.axis) == len(y.repeats) == len(y.strides):
        raise AscendError(
            "tensor-rank", f"`{y}` has {len(y.axis)} axes, {len(y.repeats)} sizes, {len(y.strides)} strides"
        )
    if len(y.vectorized_axis) != len(y.vectorized_strides):
        raise AscendError(
            "tensor-rank",
            f"`{y}` has {len(y.vectorized_axis)} vectorized axes, but {len(y.vectorized_strides)} strides of them",
        )
    the_dtype(y.dtype, f"`{y}` has the type `{y.dtype}`")


def _check_sizes(graph: AscGraph, node: AscNode) -> None:
    names: set[str] = set()
    for y in node.outputs:
        for size in (*y.repeats, *y.strides, *y.vectorized_strides):
            names |= size.names()
    for size in (*(a.size for a in node.sched.axis), *(v for v in node.attrs.values() if isinstance(v, Size))):
        names |= size.names()
    unknown = sorted(names - graph.sizes.keys())
    if unknown:
        raise AscendError("size-known", f"`{node.name}` has the size `{unknown[0]}`, which its graph does not have")


def _check_layout(y: AscTensor) -> None:
    for axis, repeat, stride in zip(y.axis, y.repeats, y.strides, strict=True):
        if stride.constant is not None and stride.constant < 0:
            raise AscendError(
                "strides", f"`{y}` has the stride `{stride}` along `{axis.name}`; a stride is not negative"
            )
        if repeat.is_one != (stride == 0) and not (repeat.is_one and axis.size.is_one):
            raise AscendError(
                "strides", f"`{y}` has the size `{repeat}` and the stride `{stride}` along `{axis.name}`",
                hint="a stride is 0 where the size is 1, and only there",
            )  # fmt: skip
    if not y.is_global and not _split_axes(y) and y.strides != dense_strides(y.repeats):
        raise AscendError("strides", f"`{y}` is computed with gaps: strides {y.strides} for sizes {y.repeats}")


def _split_axes(y: AscTensor) -> bool:
    return any(a.is_half for a in y.axis)


def _same_axes(x: AscTensor, y: AscTensor) -> None:
    if x.axis != y.axis:
        hint = "another order of axes in memory takes a Transpose node" if set(x.axis) == set(y.axis) else None
        raise AscendError("edge-axis", f"`{x}` has the axes {x.axis}, `{y}` has {y.axis}", hint=hint)


def _same_edge(node: AscNode, x: AscTensor, skip: Callable[[Axis], bool] = lambda axis: False) -> None:
    """Both ends of an edge have the same axes and, but for those that the node changes, the same sizes."""
    y = node.y
    _same_axes(x, y)
    _same_sizes(x, y, skip)


def _same_sizes(x: AscTensor, y: AscTensor, skip: Callable[[Axis], bool] = lambda axis: False) -> None:
    for axis, made in zip(y.axis, y.repeats, strict=True):
        given = x.repeat(axis)
        if given != made and not skip(axis):
            raise AscendError(
                "edge-repeats", f"`{x}` has the size `{given}` along `{axis.name}`, `{y}` has `{made}`",
                hint="broadcasts are explicit: add a Broadcast node",
            )  # fmt: skip


def _same_type(node: AscNode, inputs: list[AscTensor], dtype: str) -> None:
    for x in inputs:
        if x.dtype != dtype:
            raise AscendError(
                "edge-dtype",
                f"`{node.name}` takes `{dtype}`, `{x}` is `{x.dtype}`",
                hint=f'cast one of them, as in `ops.Cast({x.node.name}, "{dtype}")`',
            )


def _check_move(node: AscNode, local: AscTensor, array: AscTensor) -> None:
    """What is moved is all of an array in global memory, or a part of it."""
    if _split_axes(local):
        return
    axes, repeats, _ = seen_from(node, array)
    if axes != local.axis and not (axes != array.axis and _same_but_ones(axes, repeats, local)):
        hint = "another order of axes in memory takes a Transpose node" if set(axes) == set(local.axis) else None
        raise AscendError("edge-axis", f"`{array}` has the axes {axes}, `{local}` has {local.axis}", hint=hint)
    for axis, held, moved in zip(axes, repeats, local.repeats, strict=True):
        if not held.covers(moved):
            raise AscendError(
                "edge-repeats", f"`{array}` has the size `{held}` along `{axis.name}`, `{local}` has `{moved}`",
                hint="broadcasts are explicit: add a Broadcast node",
            )  # fmt: skip


def _same_but_ones(axes: list[Axis], repeats: list[Size], local: AscTensor) -> bool:
    """Whether a tensor has some axes in their order, those of size 1 aside: where a merge puts them is of no account."""
    wide = [a for a, r in zip(axes, repeats, strict=True) if not r.is_one]
    return set(axes) == set(local.axis) and wide == [a for a in local.axis if not local.repeat(a).is_one]


def _check_copy(node: AscNode) -> None:
    _same_type(node, node.inputs, node.y.dtype)
    if node.type == "Load":
        _check_move(node, node.y, node.inputs[0])
    elif node.type == "Store":
        _check_move(node, node.inputs[0], node.y)
    if node.type == "Load" and not node.inputs[0].node.op.is_buffer:
        raise AscendError(
            "load-from-global",
            f"`{node.name}` loads `{node.inputs[0]}`, which is not in global memory",
            hint="a Load takes a Data node; what was computed is in local memory already",
        )
    if node.type in ("Output", "Workspace") and any(x.node.type != "Store" for x in node.inputs):
        raise AscendError(
            "output-from-store",
            f"`{node.name}` takes what a Store has written",
            hint="write `ops.Output(ops.Store(result), name)`",
        )
    if node.type == "Store" and node.inputs[0].node.op.is_buffer:
        raise AscendError(
            "store-from-local",
            f"`{node.name}` stores `{node.inputs[0]}`, which is in global memory",
            hint="a Store takes what was computed or loaded",
        )


def _check_local_inputs(node: AscNode) -> None:
    for x in node.inputs:
        if x.node.op.is_buffer or x.node.type == "Store":
            raise AscendError(
                "compute-on-local",
                f"`{node.name}` computes on `{x}`, which is in global memory",
                hint=f"load it first: `ops.Load({x.node.name})`",
            )


def _check_elementwise(node: AscNode) -> None:
    _check_local_inputs(node)
    for x in node.inputs:
        _same_edge(node, x)
    if node.type in ("Cast", "VectorFunc"):
        return
    for place in node.op.conditions:
        if node.inputs[place].dtype not in ("uint8", "bool"):
            _same_type(node, [node.inputs[place]], "uint8")
    operands = [x for i, x in enumerate(node.inputs) if i not in node.op.conditions]
    _same_type(node, operands[1:], operands[0].dtype)
    _check_kind(node, operands[0])
    result = node.op.result_type(operands[0].dtype)
    if result != node.y.dtype and not (result == "uint8" and node.y.dtype == "bool"):
        raise AscendError("edge-dtype", f"`{node.name}` gives `{result}`, not `{node.y.dtype}`")


_KINDS = {"f": "floats", "i": "signed integers", "u": "unsigned integers", "b": "bool"}


def _check_kind(node: AscNode, x: AscTensor) -> None:
    kind = "f" if x.dtype == "bfloat16" else np.dtype(x.dtype).kind
    if kind not in node.op.takes:
        taken = ", ".join(_KINDS[k] for k in node.op.takes)
        raise AscendError(
            "op-dtype",
            f"`{node.name}` is a `{node.type}`, which takes {taken}, and `{x}` is `{x.dtype}`",
            hint=f'cast it first, as in `ops.Cast({x.node.name}, "float32")`',
        )


def _check_broadcast(node: AscNode) -> None:
    x, y = node.inputs[0], node.y
    _check_local_inputs(node)
    _same_type(node, [x], y.dtype)
    changed = [a for a, r, s in zip(y.axis, x.repeats, y.repeats, strict=False) if r != s]
    if not _split_axes(y) and (len(changed) != 1 or not x.repeat(changed[0]).is_one):
        raise AscendError(
            "broadcast-one-axis", f"`{node.name}` repeats along {len(changed)} axes {changed}",
            hint="one axis of size 1 a Broadcast node",
        )  # fmt: skip
    _same_edge(node, x, lambda axis: x.repeat(axis).is_one)


def _check_reduce(node: AscNode) -> None:
    x, y = node.inputs[0], node.y
    _check_local_inputs(node)
    _check_kind(node, x)
    if node.op.result_type(x.dtype) != y.dtype:
        raise AscendError("edge-dtype", f"`{node.name}` gives `{node.op.result_type(x.dtype)}`, not `{y.dtype}`")
    if [a.id for a in x.axis] != [a.id for a in y.axis]:
        raise AscendError(
            "reduce-keeps-dimension", f"`{node.name}` has the axes {y.axis}, its input {x.axis}",
            hint="a reduced axis stays, with size 1",
        )  # fmt: skip
    if not any(not r.is_one and s.is_one for r, s in zip(x.repeats, y.repeats, strict=True)):
        raise AscendError(
            "reduce-keeps-dimension",
            f"`{node.name}` reduces no axis: its sizes are {y.repeats}",
            hint="name one of the axes along which the input has more than one element",
        )
    _same_edge(node, x, lambda axis: y.repeat(axis).is_one)
    if (
        node.type == "ArgMax"
        and not _split_axes(y)
        and sum(r != s for r, s in zip(x.repeats, y.repeats, strict=True)) > 1
    ):
        raise AscendError("argmax-one-axis", f"`{node.name}` reduces several axes; an ArgMax reduces one")


def _check_transpose(node: AscNode) -> None:
    x, y = node.inputs[0], node.y
    _check_local_inputs(node)
    _same_type(node, [x], y.dtype)
    if sorted(a.id for a in x.axis) != sorted(a.id for a in y.axis):
        raise AscendError("transpose-permutation", f"`{node.name}` has the axes {y.axis}, its input {x.axis}")
    _same_sizes(x, y)


def axis_of(node: AscNode) -> Axis:
    """The axis along which a `Concat` puts its inputs, a `Split` cuts, or a `Gather` reads at indices."""
    if node.op.kind != "gather":
        x, y = node.inputs[0], node.y
        return next((a for a in x.axis if x.repeat(a) != y.repeat(a)), x.axis[0])
    x, place = node.inputs[0], node.attr("axis")
    if not isinstance(place, int) or not 0 <= place < len(x.axis):
        raise AscendError("node-axis", f"`{node.name}` has no axis number {place}")
    axes = seen_from(node, x)[0]
    return next(a for a in axes if any(f is x.axis[place] for f in a.ancestors()))


def _check_gather(node: AscNode) -> None:
    (x, at), y = node.inputs, node.y
    if x.node.type != "Data":
        raise AscendError(
            "gather-from-global", f"`{node.name}` reads `{x}` at indices, which is not an input of the graph",
            hint="what is computed is in local memory, a tile at a time",
        )  # fmt: skip
    if at.node.op.is_buffer or at.node.type == "Store":
        raise AscendError(
            "compute-on-local",
            f"`{node.name}` has the indices `{at}`, which are in global memory",
            hint=f"load them first: `ops.Load({at.node.name})`",
        )
    _same_type(node, [x], y.dtype)
    if not (dtype_of(at.dtype).is_int or at.dtype == "uint8"):
        raise AscendError("gather-indices", f"`{node.name}` has indices of the type `{at.dtype}`", hint="cast them")
    axis = axis_of(node)
    _same_axes(at, y)
    _same_edge(node, at, lambda a: at.repeat(a).is_one)
    if _split_axes(y):
        return
    axes, repeats, _ = seen_from(node, x)
    if axes != y.axis:
        raise AscendError("edge-axis", f"`{x}` has the axes {axes}, `{y}` has {y.axis}")
    for a, held, made in zip(axes, repeats, y.repeats, strict=True):
        wanted = at.repeat(a) if a is axis or held.is_one else held
        if made != wanted:
            raise AscendError(
                "edge-repeats", f"`{node.name}` gives the size `{wanted}` along `{a.name}`, `{y}` has `{made}`"
            )


def _check_concat(node: AscNode) -> None:
    _check_local_inputs(node)
    axis = axis_of(node)
    _same_type(node, node.inputs, node.y.dtype)
    total = Size.of(0)
    for x in node.inputs:
        _same_edge(node, x, lambda a: a is axis)
        total = total + x.repeat(axis)
    if all(x.repeat(a) == node.y.repeat(a) for x in node.inputs for a in x.axis) and len(node.inputs) > 1:
        raise AscendError(
            "concat-size", f"the inputs of `{node.name}` have the size of its result along every axis",
            hint="an axis has the size of the result: give each Data its own `sizes` along it",
        )  # fmt: skip
    if total != node.y.repeat(axis):
        raise AscendError(
            "concat-size", f"the inputs of `{node.name}` have the size `{total}` along `{axis.name}`, "
            f"the output has `{node.y.repeat(axis)}`",
        )  # fmt: skip


def _check_split(node: AscNode) -> None:
    _check_local_inputs(node)
    (x,), axis = node.inputs, axis_of(node)
    for y in node.outputs:
        _same_type(node, [x], y.dtype)
        _same_axes(x, y)
        _same_sizes(x, y, lambda a: a is axis)
    total = sum((y.repeat(axis) for part in split_group(node) for y in part.outputs), Size.of(0))
    if total != x.repeat(axis):
        raise AscendError(
            "split-size", f"the outputs of `{node.name}` have the size `{total}` along `{axis.name}`, "
            f"the input has `{x.repeat(axis)}`",
        )  # fmt: skip


def split_group(node: AscNode) -> list[AscNode]:
    """The Split nodes that cut one input together, in the order of their `index`: those with the same `gid`."""
    same = [n for n in node.graph.consumers(node.inputs[0]) if n.type == "Split" and n.attr("gid") == node.attr("gid")]
    return sorted(same, key=lambda n: n.attr("index"))


def split_before(node: AscNode) -> Size:
    """Where the first output of a Split begins: behind the outputs of the nodes in front of it."""
    group, axis = split_group(node), axis_of(node)
    place = next(i for i, n in enumerate(group) if n is node)
    return sum((y.repeat(axis) for part in group[:place] for y in part.outputs), Size.of(0))


_BY_KIND: dict[str, Callable[[AscNode], None]] = {
    "load": _check_copy,
    "store": _check_copy,
    "data": _check_copy,
    "split": _check_split,
    "elewise": _check_elementwise,
    "broadcast": _check_broadcast,
    "reduce": _check_reduce,
    "concat": _check_concat,
    "transpose": _check_transpose,
    "gather": _check_gather,
}


def check_hint(graph: AscGraph) -> None:
    """Check a HintGraph: the rules of `check_graph`, one set of loops, broadcasts right after their source."""
    if not as_graph(graph).sched_axes:
        raise AscendError("axis-known", f"graph `{graph.name}` has no axis")
    check_graph(graph)
    order = [a.id for a in graph.sched_axes]
    for node in graph.nodes:
        with in_node(node):
            _check_hint_node(node, graph, order)
    if not graph.of_type("Output"):
        raise AscendError(
            "has-output", f"graph `{graph.name}` has no Output",
            hint="end with `ops.Output(ops.Store(result), name)` for each result",
        )  # fmt: skip


def _check_hint_node(node: AscNode, graph: AscGraph, order: list[int]) -> None:
    if [a.id for a in node.sched.axis] != order:
        raise AscendError(
            "same-sched-axis", f"`{node.name}` has the loops {node.sched.axis}, the graph {graph.sched_axes}",
            hint="each node of a HintGraph has all axes of the graph as its loops, in the order of the graph",
        )  # fmt: skip
    source = node.inputs[0].node if node.type == "Broadcast" else None
    if source is not None and source.op.kind not in ("load", "gather", "broadcast", "reduce", "number"):
        raise AscendError(
            "broadcast-after-load", f"`{node.name}` repeats what `{source.name}` computed",
            hint="broadcast what was loaded (or reduced), then compute",
        )  # fmt: skip


def check_impl(graph: AscGraph) -> None:
    """Check an ImplGraph: the rules of `check_graph`, block-outer outermost, vectorized axes of each call."""
    check_graph(graph)
    for node in graph.nodes:
        if not node.op.is_call:
            continue
        types = [a.type for a in node.sched.axis]
        if AxisType.BLOCK_OUT in types[1:]:
            raise AscendError("block-outermost", f"the block-outer axis of `{node.name}` is not its outermost loop")
        inside = calls_axes(node)
        for axis in inside:
            held = not node.y.repeat(axis).is_one
            if held and node.type not in ("Store",) and not any(a is axis for a in node.y.vectorized_axis):
                raise AscendError(
                    "vectorized-axis", f"`{node.y}` holds `{axis.name}` of a call, which is not vectorized"
                )


def reduced_axes(node: AscNode) -> list[Axis]:
    """The axes that a reduction reduces."""
    x, y = node.inputs[0], node.y
    return [a for a in x.axis if not x.repeat(a).is_one and y.repeat(a).is_one]


def domain_of(node: AscNode) -> AscTensor:
    """The tensor whose elements a call goes through: what it stores or reduces, else its result."""
    return node.inputs[0] if node.op.kind in ("reduce", "store") else node.y


def held_axes(node: AscNode, y: AscTensor) -> list[Axis]:
    """The axes of one call along which a tensor is longer than 1, in the order of the tensor's memory."""
    inside = {id(a) for a in calls_axes(node)}
    return [a for a, r in zip(y.axis, y.repeats, strict=True) if id(a) in inside and not r.is_one]


def calls_axes(node: AscNode) -> list[Axis]:
    """The axes of one call: those behind the loop axis."""
    loop = node.sched.loop_axis
    if loop is None:
        return list(node.sched.axis)
    place = next(i for i, a in enumerate(node.sched.axis) if a is loop)
    return node.sched.axis[place + 1 :]
