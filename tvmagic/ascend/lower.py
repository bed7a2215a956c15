"""An ImplGraph as a function of our IR.

The block-outer axis becomes a parallel loop, the loops up to `loop_axis` loops, each API call
vector loops over the axes behind it with the true size of tails, tensors local buffers. Data moves
between the groups of a result through workspace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from tvmagic import ir
from tvmagic.ascend.addressing import Places, by_axis, coefficient, seen_from
from tvmagic.ascend.calls import Dim, Gathered, Operand, argmax_call, map_call, reduce_call
from tvmagic.ascend.copy_elision import broadcasts_in_place, loads_in_place, stored_in, stores_in_place
from tvmagic.ascend.evaluate import check_runs
from tvmagic.ascend.graph import AscendError, AscGraph, AscNode, AscTensor, Axis, AxisType, dense_strides, plain_name
from tvmagic.ascend.lifetimes import is_local
from tvmagic.ascend.memory import buffer_length, local_buffers
from tvmagic.ascend.optypes import reduce_identity
from tvmagic.ascend.padding import row_strides
from tvmagic.ascend.sizes import Size, ceiling, to_expr
from tvmagic.ascend.verifier import (
    axis_of,
    calls_axes,
    check_graph,
    check_impl,
    domain_of,
    held_axes,
    moved_parts,
    reduced_axes,
)


def _substituted(graph: AscGraph, sizes: Mapping[str, int]) -> AscGraph:
    """The graph with numbers for size variables."""
    values = {**{n: v for n, v in graph.sizes.items() if v is not None}, **sizes}
    new = graph.copy()
    for axis in new.axes:
        axis.size = axis.size.substitute(values)
    for node in new.nodes:
        y = node.y
        y.repeats = [r.substitute(values) for r in y.repeats]
        y.strides = [s.substitute(values) for s in y.strides]
        y.vectorized_strides = [s.substitute(values) for s in y.vectorized_strides]
        for key, value in node.attrs.items():
            if isinstance(value, Size):
                node.attrs[key] = value.substitute(values)
    return new


def _length(y: AscTensor) -> Size:
    """How many elements of memory an array takes."""
    if y.strides == dense_strides(y.repeats):
        return y.elements
    total = Size.of(1)
    for repeat, stride in zip(y.repeats, y.strides, strict=True):
        total = total + (repeat - 1) * stride
    return total


class _Memory:
    """The arrays in global memory: arguments of the function by name, and workspace."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.variables: dict[str, ir.PrimExpr] = {}
        self.flat: dict[str, ir.Buffer] = {}
        self.arguments: list[ir.Buffer] = []
        self.numbers: dict[str, ir.Var] = {}
        self.workspaces: list[ir.Buffer] = []

    def expr(self, size: Size) -> ir.PrimExpr:
        for name in size.names():
            self.variables.setdefault(name, ir.SizeVar(name, self.dtype))
        return to_expr(size, self.variables, self.dtype)

    def _buffer(self, name: str, y: AscTensor, data: ir.Var) -> ir.Buffer:
        return ir.Buffer(data, y.dtype, [self.expr(_length(y))], (), None, name)

    def argument(self, node: AscNode) -> None:
        y = node.y
        dense = "array" in node.attrs or y.strides == dense_strides(y.repeats)
        strides = () if dense else [self.expr(s) for s in y.strides]
        name = plain_name(node.name)
        data = ir.pointer_var(name, y.dtype)
        shape = [self.expr(s) for s in node.array_shape()]
        self.arguments.append(ir.Buffer(data, y.dtype, shape, strides, None, name))
        self.flat[node.name] = self._buffer(f"{name}_flat", y, data)

    def number(self, node: AscNode) -> ir.PrimExpr:
        """The value of a node that is a number."""
        if node.type == "IndexExpr":
            return ir.ops.cast(node.y.dtype, self.expr(Size.of(node.attr("expr"))))
        if node.type == "ScalarData":
            return self.numbers[node.name]
        return ir.ops.const(node.attrs["value"], node.y.dtype)

    def workspace(self, node: AscNode) -> None:
        if node.name not in self.flat:
            name = plain_name(node.name)
            buffer = self._buffer(name, node.y, ir.pointer_var(name, node.y.dtype))
            self.flat[node.name] = buffer
            self.workspaces.append(buffer)


class _GraphLowering:
    """Lowers one ImplGraph to a statement."""

    def __init__(self, graph: AscGraph, memory: _Memory, in_place: bool) -> None:
        self.graph, self.memory = graph, memory
        self.zero = ir.IntImm(memory.dtype, 0)
        self.readers = graph.readers()
        self.places = Places(graph, memory.expr, self.zero)
        self.local: dict[int, ir.Buffer] = {}
        self.allocated: list[ir.Buffer] = []
        self.loaded = loads_in_place(graph) if in_place else {}
        self.stored = stores_in_place(graph) if in_place else {}
        self.repeated = broadcasts_in_place(graph) if in_place else {}

    def run(self) -> ir.Stmt:
        left_out = {*self.loaded, *self.repeated, *(id(n) for n in self.stored.values())}
        nodes = [n for n in self.graph.nodes if n.op.is_call and id(n) not in left_out]
        loops = {id(n): n.sched.axis[: len(n.sched.axis) - len(calls_axes(n))] for n in nodes}
        self._place_buffers(nodes)
        outermost = [loops[id(n)][:1] for n in nodes]
        if outermost and outermost[0] and outermost[0][0].type is AxisType.BLOCK_OUT:
            if all(o and o[0] is outermost[0][0] for o in outermost):
                return self._loop(outermost[0][0], nodes, loops, 0, allocate=True)
        return self._allocate(self._emit(nodes, loops, 0))

    # ------------------------------------------------------------------ memory

    def _place_buffers(self, nodes: Sequence[AscNode]) -> None:
        """One buffer for the tensors in one place, as long as the longest of them."""
        kept = {id(n) for n in nodes if n.type != "Store" and id(n) not in self.stored}
        left_out = [id(n) for n in self.graph.nodes if id(n) not in kept]
        for tensors in local_buffers(self.graph, left_out):
            first, name = tensors[0], f"{plain_name(tensors[0].node.name)}_local"
            data = ir.pointer_var(name, first.dtype, "local")
            buffer = ir.Buffer(data, first.dtype, [self._longest(tensors)], (), None, name)
            self.local.update((id(y), buffer) for y in tensors)
            self.allocated.append(buffer)

    def _longest(self, tensors: Sequence[AscTensor]) -> ir.PrimExpr:
        lengths: list[Size] = []
        for length in dict.fromkeys(map(buffer_length, tensors)):
            if not any(known.covers(length) for known in lengths):
                lengths = [*(known for known in lengths if not length.covers(known)), length]
        return functools.reduce(ir.ops.maximum, map(self.memory.expr, lengths))

    def _allocate(self, body: ir.Stmt) -> ir.Stmt:
        for buffer in reversed(self.allocated):
            body = allocate(buffer, body)
        self.allocated = []
        return body

    # ------------------------------------------------------------------ loops

    def _loop(self, axis: Axis, nodes: list[AscNode], loops: dict[int, list[Axis]], depth: int, allocate: bool = False):
        extent = self.places.extent(axis)[0]
        var = ir.Var(axis.name, self.memory.dtype)
        self.places.open[id(axis)] = var
        body = self._emit(nodes, loops, depth + 1)
        del self.places.open[id(axis)]
        kind = ir.ForKind.PARALLEL if axis.type is AxisType.BLOCK_OUT else ir.ForKind.SERIAL
        return ir.For(var, self.zero, extent, kind, self._allocate(body) if allocate else body)

    def _emit(self, nodes: list[AscNode], loops: dict[int, list[Axis]], depth: int) -> ir.Stmt:
        """The nodes in order; neighbours with the same next loop share it."""
        parts: list[ir.Stmt] = []
        place = 0
        while place < len(nodes):
            own = loops[id(nodes[place])]
            if len(own) <= depth:
                parts.append(self._single(nodes[place], own))
                place += 1
                continue
            end = place
            while (
                end < len(nodes) and len(loops[id(nodes[end])]) > depth and loops[id(nodes[end])][depth] is own[depth]
            ):
                end += 1
            run = nodes[place:end]
            starting = [n for n in run if self._first_reduced(n, loops[id(n)]) == depth]
            parts += [self._start(n) for n in starting]
            parts.append(self._loop(own[depth], run, loops, depth))
            parts += [p for n in starting for p in self._finish(n)]
            place = end
        return ir.SeqStmt.flatten(*parts)

    def _first_reduced(self, node: AscNode, loops: list[Axis]) -> int | None:
        if node.op.kind != "reduce":
            return None
        reduced = {id(a) for a in reduced_axes(node)}
        return next((i for i, a in enumerate(loops) if any(id(p) in reduced for p in a.ancestors())), None)

    def _single(self, node: AscNode, loops: list[Axis]) -> ir.Stmt:
        if node.op.kind != "reduce" or self._first_reduced(node, loops) is not None:
            return self._call(node)
        return ir.SeqStmt.flatten(self._start(node), self._call(node), *self._finish(node))

    # ------------------------------------------------------------------ calls

    def _dims(self, node: AscNode, y: AscTensor) -> tuple[list[Dim], list[Axis]]:
        axes = held_axes(node, y)
        dims: list[Dim] = []
        for axis in axes:
            if axis.from_ and axis.split_pair is not None:
                dims.append(Dim(axis.name, *self.places.extent(axis)))
            else:
                repeat = y.repeat(axis)
                dims.append(Dim(axis.name, self.memory.expr(repeat), repeat))
        return dims, axes

    def _operand(self, y: AscTensor, axes: list[Axis]) -> Operand:
        y = self.repeated.get(id(y.node), y)
        if y.node.op.is_number:
            return Operand(None, None, [Size.of(0) for _ in axes], self.memory.number(y.node))
        if id(y.node) in self.loaded:
            return self._loaded(self.loaded[id(y.node)], axes)
        start = self.places.offset(y.vectorized_axis, y.vectorized_strides)
        strides = {id(a): s for a, s in zip(y.vectorized_axis, y.vectorized_strides, strict=True)}
        return Operand(self.local[id(y)], start, [strides.get(id(a), Size.of(0)) for a in axes])

    def _loaded(self, load: AscNode, axes: list[Axis]) -> Operand:
        return self._global(load, load.inputs[0], axes)

    def _global(self, node: AscNode, y: AscTensor, axes: list[Axis]) -> Operand:
        """The array that a Load reads or a Store writes, from its offset on."""
        held, _, steps = seen_from(node, y)
        start, strides = self.places.offset(held, steps), by_axis(node, y)
        offset = Size.of(node.attr("offset"))
        if offset != 0:
            start = start + self.memory.expr(offset)
        return Operand(self.memory.flat[y.node.name], start, [coefficient(strides, a) for a in axes])

    def _call(self, node: AscNode) -> ir.Stmt:
        kind, y = node.op.kind, node.y
        if kind == "concat":
            return self._concat(node)
        if kind == "reduce":
            return self._reduce(node)
        dims, axes = self._dims(node, domain_of(node))
        if kind == "gather":
            x = [self._gathered(node, axes)]
        elif kind == "load":
            x = [self._loaded(node, axes)]
        else:
            x = [self._operand(t, axes) for t in node.inputs]
        store = node if kind == "store" else self.stored.get(id(node))
        if store is not None:
            result = self._global(store, stored_in(self.readers, store), axes)
        else:
            result = self._operand(y, axes)
        return map_call(dims, result, x, element_function(node), self.memory.expr)

    def _gathered(self, node: AscNode, axes: list[Axis]) -> Operand:
        x, at = node.inputs
        along = axis_of(node)
        held, repeats, steps = seen_from(node, x)
        place = next(i for i, a in enumerate(held) if a is along)
        rest = [(a, s) for a, s in zip(held, steps, strict=True) if a is not along]
        start = self.places.offset([a for a, _ in rest], [s for _, s in rest])
        strides = {id(a): s for a, s in rest}
        buffer, last = self.memory.flat[x.node.name], self.memory.expr(repeats[place] - 1)
        return Gathered(
            buffer, start, [coefficient(strides, a) for a in axes], indices=self._operand(at, axes),
            stride=self.memory.expr(steps[place]), last=last, from_end=node.attr("negative_index_support"),
        )  # fmt: skip

    def _concat(self, node: AscNode) -> ir.Stmt:
        parts: list[ir.Stmt] = []
        axis, done = axis_of(node), Size.of(0)
        for x in node.inputs:
            dims, axes = self._dims(node, x)
            result = self._operand(node.y, axes)
            strides = {id(a): s for a, s in zip(node.y.vectorized_axis, node.y.vectorized_strides, strict=True)}
            assert result.start is not None
            result.start = result.start + self.memory.expr(done * strides[id(axis)])
            parts.append(map_call(dims, result, [self._operand(x, axes)], lambda v: v, self.memory.expr))
            done = done + x.repeat(axis)
        return ir.SeqStmt.flatten(*parts)

    def _reduce(self, node: AscNode) -> ir.Stmt:
        x, combine = node.inputs[0], node.op.compute
        dims, axes = self._dims(node, x)
        operands = self._operand(node.y, axes), self._operand(x, axes)
        if node.type == "ArgMax":
            return self._argmax(node, dims, axes, operands)
        assert combine is not None
        identity = reduce_identity(node.type, node.y.dtype)
        if not dims:
            return map_call([], operands[0], [operands[0], operands[1]], combine, self.memory.expr)
        call, partial = reduce_call(dims, *operands, combine, identity, self.memory.expr)
        return call if partial is None else allocate(partial, call)

    def _argmax(self, node: AscNode, dims: list[Dim], axes: list[Axis], operands: tuple[Operand, Operand]) -> ir.Stmt:
        reduced = [i for i, a in enumerate(axes) if any(a is r for r in reduced_axes(node))]
        loops = node.sched.axis[: len(node.sched.axis) - len(calls_axes(node))]
        if len(reduced) > 1 or self._first_reduced(node, loops) is not None:
            raise AscendError("argmax-whole", f"one call of `{node.name}` does not have its whole reduced axis")
        return argmax_call(dims, reduced[0], *operands, self.memory.expr) if reduced else ir.SeqStmt([])

    def _start(self, node: AscNode) -> ir.Stmt:
        """The identity in all of a reduction's result."""
        dims, axes = self._dims(node, node.y)
        identity = reduce_identity(node.type, node.y.dtype)
        return map_call(dims, self._operand(node.y, axes), [], lambda: identity, self.memory.expr)

    def _finish(self, node: AscNode) -> list[ir.Stmt]:
        """The division of a mean by the number of elements."""
        if node.type != "Mean":
            return []
        count = Size.of(1)
        for axis in reduced_axes(node):
            count = count * node.inputs[0].repeat(axis)
        count = ceiling(count)
        dims, axes = self._dims(node, node.y)
        number = ir.ops.cast(node.y.dtype, self.memory.expr(count))
        y, again = self._operand(node.y, axes), self._operand(node.y, axes)
        return [map_call(dims, y, [again], lambda v: ir.ops.div(v, number), self.memory.expr)]


def element_function(node: AscNode) -> Callable[..., ir.PrimExpr]:
    """The function from the elements of the inputs to that of the output."""
    if node.type == "Cast":
        dtype = node.y.dtype
        return lambda v: ir.ops.cast(dtype, v)
    if node.op.compute is None:
        return lambda v: v
    return functools.partial(
        node.op.compute, **{key: node.attr(key) for key in node.op.attrs if node.op.kind == "elewise"}
    )


def allocate(buffer: ir.Buffer, body: ir.Stmt) -> ir.Stmt:
    """`body` with memory for `buffer`."""
    return ir.Allocate(buffer.data, buffer.dtype, buffer.shape, ir.IntImm("bool", 1), ir.DeclBuffer(buffer, body))


def _index_type(graph: AscGraph) -> str:
    """32 bits where all arrays are known to be that small."""
    for y in graph.tensors():
        length = _length(y).constant
        if length is None or length >= 2**31:
            return "int64"
    return "int32"


def lower_graphs(
    hint: AscGraph,
    graphs: Sequence[AscGraph],
    sizes: Sequence[Mapping[str, int]] = (),
    name: str | None = None,
    *,
    in_place: bool = True,
) -> ir.PrimFunc:
    """The function of several ImplGraphs that run one after the other.

    Parameters
    ----------
    hint: the HintGraph; its Data, ScalarData and Output nodes, in order, are the function's parameters. Along
        axes that a tensor does not have, the arrays have size 1, unless the attribute `array` of a
        node tells the array's own axes.
    sizes: numbers for the size variables of the splits, for each graph.
    name: the function's name; by default that of the HintGraph.
    in_place: leave out copies between global and local memory that a cache makes by itself
        (`tvmagic.ascend.copy_elision`).
    """
    hint = _substituted(hint, {})
    memory = _Memory(_index_type(hint))
    for node in hint.nodes:
        check_runs(node)
    check_graph(hint)
    for node in (*hint.of_type("Data"), *hint.of_type("Output")):
        memory.argument(node)
    memory.numbers = {n.name: ir.Var(plain_name(n.name), n.y.dtype) for n in hint.of_type("ScalarData")}
    bodies: list[ir.Stmt] = []
    for graph, chosen in zip(graphs, sizes or [{}] * len(graphs), strict=True):
        check_impl(graph)
        concrete = _substituted(graph, chosen)
        for node in concrete.of_type("Workspace"):
            memory.workspace(node)
        bodies.append(_GraphLowering(concrete, memory, in_place).run())
    body = _with_parts_checked(hint, memory, ir.SeqStmt.flatten(*bodies))
    for buffer in reversed(memory.workspaces):
        body = allocate(buffer, body)
    for node in reversed((*hint.of_type("Data"), *hint.of_type("Output"))):
        body = ir.DeclBuffer(memory.flat[node.name], body)
    _check_variables(memory)
    attrs = {"global_symbol": name or plain_name(hint.name), "tir.noalias": True}
    inputs = len(hint.of_type("Data"))
    parameters = [*memory.arguments[:inputs], *memory.numbers.values(), *memory.arguments[inputs:]]
    return ir.PrimFunc(parameters, body, attrs=attrs)


def _with_parts_checked(graph: AscGraph, memory: _Memory, body: ir.Stmt) -> ir.Stmt:
    """`body` after checks that what is moved at an offset is inside its array, if that depends on open sizes."""
    for node, array, offset, part, whole in moved_parts(graph):
        inside = ir.ops.all(memory.expr(offset) >= 0, memory.expr(offset + part) <= memory.expr(whole))
        said = f"`{node.name}` moves elements from offset {offset} on of `{array}`, which has {whole}"
        if not isinstance(inside, ir.IntImm):
            body = ir.AssertStmt(inside, ir.StringImm(said), body)
    return body


def _check_variables(memory: _Memory) -> None:
    shapes = {id(s) for b in memory.arguments for s in b.shape}
    for name, variable in memory.variables.items():
        if id(variable) not in shapes:
            raise AscendError(
                "size-known", f"the size `{name}` has no number and is not the size of an argument",
                hint=f"give it a number: {{'{name}': 64}}",
            )  # fmt: skip


def lower_graph(graph: AscGraph, sizes: Mapping[str, int] | None = None, name: str | None = None) -> ir.PrimFunc:
    """The function of one graph: loops, calls and local buffers as the graph says, every copy among them.

    A tensor without vectorized axes gets those of its node's calls, dense. The arrays have the
    sizes of the graph's Data and Output nodes. `sizes`: numbers for the sizes of splits, and for any others.
    """
    check_graph(graph)
    graph = graph.copy()
    for node in graph.nodes:
        if not node.y.vectorized_axis and is_local(node):
            vectorize(node.y, calls_axes(node))
    return lower_graphs(_substituted(graph, sizes or {}), [graph], [sizes or {}], name, in_place=False)


def vectorize(y: AscTensor, axes: Sequence[Axis]) -> None:
    """Let the local buffer of a tensor hold `axes`, dense and in the order of the tensor's own memory."""
    rank = {a: i for i, a in enumerate(y.axis)}
    y.vectorized_axis = sorted(axes, key=lambda a: rank.get(a, len(rank)))
    y.vectorized_strides = row_strides(y)
