"""HintGraphs of tensor expressions: of TE tensors, and of the operator of a `%%tensor` cell.

A tensor that is computed elementwise is computed over the axes of what reads it, as broadcasts
stand directly behind loads (and reductions); each such set of axes is a domain. What is computed
twice in one domain is one node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tvmagic import ir, te
from tvmagic.ascend import ops
from tvmagic.ascend.graph import AscendError, AscGraph, AscTensor, Axis, dense_strides
from tvmagic.ascend.optypes import reduce_identity
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.te_accesses import RULE, Part, Parts, gathered_place, pieces, refuse, whole_parts
from tvmagic.ascend.te_axes import Dimension, Dimensions
from tvmagic.ascend.verifier import check_hint
from tvmagic.errors import a_thing
from tvmagic.passes import note, run_step
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order

Domain = tuple[tuple[Axis, Size], ...]  # axes in order, each with its size: less than its own in a part of a concat

_BINARY: dict[type, str] = {
    ir.Add: "Add", ir.Sub: "Sub", ir.Mul: "Mul", ir.Div: "Div", ir.Max: "Maximum", ir.Min: "Minimum", ir.LT: "Lt", ir.LE: "Le", ir.GT: "Gt",
    ir.GE: "Ge", ir.EQ: "Eq", ir.NE: "Ne", ir.And: "LogicalAnd", ir.Or: "LogicalOr", ir.FloorDiv: "FloorDiv", ir.FloorMod: "Remainder", ir.Mod: "Fmod",
}  # fmt: skip
_CALLS = {
    "tir.exp": "Exp", "tir.log": "Ln", "tir.sqrt": "Sqrt", "tir.rsqrt": "Rsqrt", "tir.tanh": "Tanh",
    "tir.sigmoid": "Sigmoid", "tir.fabs": "Abs", "tir.erf": "Erf", "tir.sin": "Sin", "tir.cos": "Cos",
    "tir.floor": "Floor", "tir.ceil": "Ceil", "tir.pow": "Pow", "tir.if_then_else": "Where", "tir.exp2": "Exp2",
    "tir.log2": "Log2", "tir.log10": "Log10", "tir.log1p": "Log1p", "tir.trunc": "Trunc", "tir.nearbyint": "Round",
    "tir.tan": "Tan", "tir.asin": "Asin", "tir.acos": "Acos", "tir.atan": "Atan", "tir.sinh": "Sinh", "tir.cosh": "Cosh",
    "tir.asinh": "Asinh", "tir.acosh": "Acosh", "tir.atanh": "Atanh", "tir.atan2": "Atan2", "tir.hypot": "Hypot",
    "tir.copysign": "CopySign", "tir.isnan": "Isnan", "tir.isinf": "IsInf", "tir.isfinite": "IsFinite",
    "tir.bitwise_and": "BitwiseAnd", "tir.bitwise_or": "BitwiseOr", "tir.bitwise_xor": "BitwiseXor",
    "tir.bitwise_not": "BitwiseNot", "tir.shift_left": "LShift", "tir.shift_right": "RShift",
}  # fmt: skip

_REDUCTIONS: dict[type, str] = {ir.Add: "Sum", ir.Mul: "Prod", ir.Max: "Max", ir.Min: "Min"}


class TensorOperator(Protocol):
    """An operator that tensor expressions define, such as a `%%tensor` cell gives."""

    name: str
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


def hint_graph(
    source: te.Tensor | Sequence[te.Tensor] | TensorOperator,
    inputs: Sequence[te.Tensor] | None = None,
    name: str | None = None,
) -> AscGraph:
    """The HintGraph of tensor expressions.

    Parameters
    ----------
    source: an operator, or the tensors that are its outputs.
    inputs: the placeholders in the order of the graph's Data nodes; by default in the order of their first use.
        An operator tells its own.
    name: the graph's name; by default that of the operator or of the first output.

    Functions compiled from the graph take arrays of the tensors' own shapes, inputs before outputs.

    Raises AscendError if an expression has no node in a HintGraph; it is named, with its place.
    """
    if isinstance(source, te.Tensor):
        outputs = [source]
    elif isinstance(source, Sequence):
        outputs = [] if isinstance(source, str) else list(source)
    elif hasattr(source, "outputs"):
        outputs, name = list(source.outputs), name or source.name
        inputs = list(source.inputs) if inputs is None else inputs
    else:
        raise AscendError(
            RULE,
            f"`{source}` is {a_thing(source)}",
            hint="give an operator of a cell, or the tensors it computes",
            code="ascend.unsupported_program",
        )
    if not outputs or not all(isinstance(t, te.Tensor) for t in (*outputs, *(inputs or ()))):
        raise AscendError(
            RULE,
            f"`{name or source}` is not made of tensor expressions",
            hint="index notation or calls of `te.compute`; the kernel of a tiling is its `ascend_c()`",
            code="ascend.not_tensor_expressions",
        )
    build = _Builder(name or outputs[0].name, outputs, inputs)
    return run_step("ascend.HintGraph", build.run, before="\n".join(map(_op_text, build.order)), after=str)


def _op_text(op: te.Operation) -> str:
    body = ", ".join(map(str, op.body)) if isinstance(op, te.ComputeOp) else op.kind
    return f"{op.name}({', '.join(iv.var.name for iv in op.axis)}) = {body}"


class _Builder:
    """Builds the graph of some outputs: a first walk finds the domains, a second one makes the nodes."""

    def __init__(self, name: str, outputs: list[te.Tensor], inputs: Sequence[te.Tensor] | None) -> None:
        self.graph, self.outputs = AscGraph(name), outputs
        roots = [t.op for t in (*(inputs or ()), *outputs)]
        self.order = post_dfs_order(roots, create_read_graph(roots))
        states = {state for op in self.order if isinstance(op, te.ScanOp) for state in op.state_placeholder}
        found = [t for t in (op.output(0) for op in self.order if isinstance(op, te.PlaceholderOp)) if t not in states]
        self.inputs = found if inputs is None else list(inputs)
        missing = next((t for t in found if all(t is not i for i in self.inputs)), None)
        if missing is not None:
            raise AscendError(RULE, f"`{missing.name}` is read, but is none of the inputs", code="ascend.unknown_input")
        computed = next((t for t in self.inputs if not isinstance(t.op, te.PlaceholderOp)), None)
        if computed is not None:
            raise AscendError(
                RULE,
                f"the input `{computed.name}` is computed",
                hint="inputs are placeholders",
                code="ascend.input_computed",
            )
        self.data: dict[te.Operation, AscTensor] = {}
        self.nodes: dict[Any, AscTensor] = {}
        self.names: set[str] = set()

    def run(self) -> AscGraph:
        """The graph, checked."""
        self.dimensions = Dimensions(self.order)
        self.axes: dict[Dimension, Axis] = {}
        for dimension in self.dimensions.ordered([*self.inputs, *self.outputs]):
            for size in sorted(dimension.size.names() - self.graph.sizes.keys()):
                self.graph.create_size(size)
            self.axes[dimension] = axis = self.graph.create_axis(f"z{len(self.axes)}", dimension.size)
            note("ascend.axis", f"`{axis.name}` is `{dimension.name}`", size=str(axis.size))
        if not self.axes:
            self.graph.create_axis("z0", 1)
        self._check_outputs()
        self.along = {op: self._along(op, near) for op, near in self.dimensions.gathers.items()}
        for t in self.inputs:
            self.data[t.op] = self._argument(t, ops.Data(self.graph, self._name(t.name), (), str(t.dtype)))
        for op, domain in self._domains():
            for tensor in op.outputs:
                self.nodes[tensor, domain] = self._value(tensor, domain)
        for tensor in self.outputs:
            value = self.nodes[tensor, self.domain(tensor)]
            if str(tensor.dtype) == "bool":  # flags are uint8 within the graph
                value = ops.Cast(value, "bool")
            stored = ops.Store(self.turned(value, self._layout(tensor)[0]))
            self._argument(tensor, ops.Output(stored, self._name(tensor.name)))
        check_hint(self.graph)
        return self.graph

    def _name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self.names:
            name, count = f"{wanted}_{count}", count + 1
        self.names.add(name)
        return name

    def _check_outputs(self) -> None:
        for tensor in self.outputs:
            part = next((d for d in self.dimensions.of(tensor) if d is not None and d.is_part), None)
            if part is not None:
                raise refuse(
                    tensor.op, tensor.name, f"is an output, and its `{part.name}` a part of a longer axis",
                    "in a HintGraph what a Concat puts together is an output as a whole only",
                )  # fmt: skip

    def axis(self, dimension: Dimension) -> Axis:
        """The axis that a dimension is."""
        return self.axes[dimension.axis]

    def _along(self, table: te.Operation, near: Sequence[Dimension]) -> Axis:
        """Along which axis an input has the dimension that is read at indices: one of theirs, which it has not itself."""
        own = {self.axis(d) for d in self.dimensions.of(table.output(0)) if d is not None and not d.gathered}
        for axis in (*map(self.axis, near), *self.graph.sched_axes):
            if axis not in own:
                return axis
        return self.graph.create_axis(f"z{len(self.graph.axes)}", 1)

    def _axes_and_sizes(self, tensor: te.Tensor) -> list[tuple[Axis, Size] | None]:
        """The axis and the size of each dimension of a tensor, None if that is 1."""
        return [
            None if d is None else (self.along[tensor.op] if d.gathered else self.axis(d), d.size)
            for d in self.dimensions.of(tensor)
        ]

    def _layout(self, tensor: te.Tensor) -> tuple[list[Axis], list[Size]]:
        """The axes of an array of the tensor's own shape in the order of its memory, and the sizes along them."""
        held = [h for h in self._axes_and_sizes(tensor) if h is not None]
        return ops.layout(self.graph, [a for a, _ in held], [s for _, s in held])

    def _argument(self, tensor: te.Tensor, y: AscTensor) -> AscTensor:
        """Give a Data or Output node the layout of an array of the tensor's own shape."""
        y.node.attrs["array"] = ", ".join(h[0].name if h else "1" for h in self._axes_and_sizes(tensor))
        y.axis, y.repeats = self._layout(tensor)
        y.strides = dense_strides(y.repeats)
        if tensor.op in self.along:  # what is read at indices has the axes of the graph in their order
            facts = {a: (r, s) for a, r, s in zip(y.axis, y.repeats, y.strides, strict=True)}
            y.axis = list(self.graph.sched_axes)
            y.repeats, y.strides = [facts[a][0] for a in y.axis], [facts[a][1] for a in y.axis]
        return y

    # ------------------------------------------------------------------ domains

    def _sorted(self, dims: Iterable[Dimension | None]) -> Domain:
        sizes = {self.axis(d): d.size for d in dims if d is not None}
        return tuple(sorted(sizes.items(), key=lambda held: held[0].id))

    def domain(self, tensor: te.Tensor) -> Domain:
        """The axes of a tensor itself."""
        return self._sorted(self.dimensions.of(tensor))

    def source_domain(self, op: te.Operation) -> Domain:
        """The axes over which the body of an operation is computed."""
        return self._sorted([*self.dimensions.of(op.output(0)), *self.dimensions.reduced(op)])

    def within(self, domain: Domain, parts: Parts) -> Domain:
        """A domain where iteration variables run over parts of theirs only."""
        sizes: dict[Axis, Size] = {}
        for var, part in parts.items():
            dimension = self.dimensions.variables[var]
            if dimension is not None and part.size != dimension.size:
                sizes[self.axis(dimension)] = part.size
        return tuple((axis, sizes.get(axis, size)) for axis, size in domain)

    def _domains(self) -> list[tuple[te.Operation, Domain]]:
        """Each operation with each domain in which it is read, producers first."""
        wanted: dict[te.Operation, dict[Domain, None]] = {op: {} for op in self.order}
        for tensor in self.outputs:
            wanted[tensor.op][self.domain(tensor)] = None
        for op in reversed(self.order):
            inside = dict.fromkeys([self.source_domain(op)]) if _is_reduction(op) and wanted[op] else wanted[op]
            for read in self.dimensions.reads(op):
                if gathered_place(read.load) is None:
                    domains = [self.within(domain, read.parts) for domain in inside]
                    wanted[read.load.producer.op].update(dict.fromkeys(domains))
        return [(op, domain) for op in self.order for domain in wanted[op]]

    # ------------------------------------------------------------------ values

    def made(self, key: Any, make: Callable[[], AscTensor]) -> AscTensor:
        """The node of a key, made once."""
        if key not in self.nodes:
            self.nodes[key] = make()
        return self.nodes[key]

    def spread(self, x: AscTensor, domain: Domain) -> AscTensor:
        """`x` broadcast to a domain, one node an axis, the innermost first."""
        for axis, size in reversed(domain):
            if x.repeat(axis).is_one and not size.is_one:
                make = functools.partial(ops.Broadcast, x, axis, size=size)
                x = self.made(("Broadcast", x, axis, size), make)
        return x

    def turned(self, x: AscTensor, axes: list[Axis]) -> AscTensor:
        """`x` with its axes in memory in the order of `axes`."""
        return x if x.axis == axes else self.made(("Transpose", x, *axes), lambda: ops.Transpose(x, axes))

    def scalar(self, value: float, dtype: str, domain: Domain) -> AscTensor:
        """A number in all of a domain."""
        x = self.made(("Scalar", repr(value), dtype), lambda: ops.Scalar(self.graph, value, dtype))
        return self.spread(x, domain)

    def call(self, type: str, *inputs: AscTensor) -> AscTensor:
        """A node of some inputs."""
        return self.made((type, *inputs), lambda: getattr(ops, type)(*inputs))

    def concat(self, inputs: Sequence[AscTensor], axis: Axis, size: Size) -> AscTensor:
        """What inputs are together, along an axis."""
        return self.made(("Concat", axis, *inputs), lambda: ops.Concat(inputs, axis, size=size))

    def _value(self, tensor: te.Tensor, domain: Domain) -> AscTensor:
        op = tensor.op
        if isinstance(op, te.PlaceholderOp):
            loaded = self.spread(self.made(("Load", op), lambda: ops.Load(self.data[op])), domain)
            value = self.turned(loaded, self.graph.sched_axes)
            if value.dtype == "bool":
                value = self.made(("Cast", value, "uint8"), lambda: ops.Cast(value, "uint8"))
            return value
        assert isinstance(op, te.ComputeOp)
        body = op.body[tensor.value_index]
        if not isinstance(body, ir.Reduce):
            return _Elements(self, op, domain).visit(body)
        return self.spread(self.made(("Reduce", tensor), lambda: self._reduced(op, body)), domain)

    def _reduced(self, op: te.ComputeOp, reduce: ir.Reduce) -> AscTensor:
        type = _reduction(op, reduce)
        source = _Elements(self, op, self.source_domain(op)).visit(reduce.source[0])
        axes = [self.axis(d) for d in self.dimensions.reduced(op)]
        return ops.reduce(type, source, axes) if axes else source


def _is_reduction(op: te.Operation) -> bool:
    return isinstance(op, te.ComputeOp) and isinstance(op.body[0], ir.Reduce)


def _reduction(op: te.ComputeOp, reduce: ir.Reduce) -> str:
    """The node type of a reduction."""
    combiner = reduce.combiner
    if len(reduce.source) > 1:
        raise refuse(op, reduce, "reduces several values at once", "a HintGraph's reductions are of one tensor")
    if reduce.init or not (isinstance(reduce.condition, ir.IntImm) and reduce.condition.value):
        raise refuse(op, reduce, "has an initial value or a condition", "put it into the reduced expression")
    (x,), (y,), (result,), (identity,) = combiner.lhs, combiner.rhs, combiner.result, combiner.identity_element
    name = _REDUCTIONS.get(type(result))
    if name is not None and isinstance(result, ir.BinaryOp) and {result.a, result.b} == {x, y}:
        if ir.structural_equal(identity, reduce_identity(name, str(reduce.dtype))):
            return name
    raise refuse(op, reduce, "combines by no reduction of a HintGraph", "it has Sum, Prod, Max and Min")


class _Elements(ir.Visitor):
    """The node of an expression of an operation's body, over a domain."""

    def __init__(
        self, builder: _Builder, op: te.ComputeOp, domain: Domain, parts: Parts | None = None,
        bound: dict[ir.Var, ir.PrimExpr] | None = None,
    ) -> None:  # fmt: skip
        self.builder, self.op, self.domain = builder, op, domain
        self.parts = whole_parts(op) if parts is None else parts
        self.bound = {} if bound is None else bound

    @ir.handles(ir.PrimExpr)
    def other(self, node: ir.PrimExpr) -> AscTensor:
        raise refuse(self.op, node, f"is a `{type(node).__name__}`, which a HintGraph has no node for")

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> AscTensor:
        if node in self.bound:
            return self.builder.made((node, self.domain), lambda: self.visit(self.bound[node]))
        raise refuse(self.op, node, "is used as a value; nodes compute on tensors and numbers only")

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> AscTensor:
        self.bound[node.var] = node.value
        return self.visit(node.body)

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> AscTensor:
        place = gathered_place(node)
        if place is None:
            return self.builder.nodes[node.producer, self.domain]
        table, axis = self.builder.data[node.producer.op], self.builder.along[node.producer.op]
        at = self.visit(node.indices[place])
        gathered = self.builder.made(("Gather", table, at), lambda: ops.Gather(table, at, axis))
        return self.builder.spread(gathered, self.domain)

    @ir.handles(ir.IntImm, ir.FloatImm)
    def number(self, node: ir.IntImm | ir.FloatImm) -> AscTensor:
        dtype = "uint8" if node.dtype == "bool" else str(node.dtype)
        return self.builder.scalar(node.value, dtype, self.domain)

    @ir.handles(ir.BinaryOp)
    def binary(self, node: ir.BinaryOp) -> AscTensor:
        name = _BINARY.get(type(node))
        if name == "Div" and not node.dtype.is_float:
            name = "TruncDiv"
        if name is None:
            return self.other(node)
        return self.builder.call(name, self.visit(node.a), self.visit(node.b))

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> AscTensor:
        return self.builder.call("LogicalNot", self.visit(node.a))

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> AscTensor:
        cut = pieces(node, self.parts)
        if cut is not None:
            return self.concat(*cut)
        values = self.visit(node.condition), self.visit(node.true_value), self.visit(node.false_value)
        return self.builder.call("Where", *values)

    def concat(self, var: ir.Var, found: Sequence[tuple[Part, ir.PrimExpr]]) -> AscTensor:
        """The pieces that a choice by an iteration variable cuts its axis into, one after the other."""
        values = []
        for part, value in found:
            parts = {**self.parts, var: part}
            inside = _Elements(self.builder, self.op, self.builder.within(self.domain, parts), parts, self.bound)
            values.append(inside.visit(value))
        dimension = self.builder.dimensions.variables[var]
        if len(values) == 1 or dimension is None:
            return values[0]
        size = sum((part.size for part, _ in found), Size.of(0))
        return self.builder.concat(values, self.builder.axis(dimension), size)

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> AscTensor:
        x, dtype = self.visit(node.value), str(node.dtype)
        if dtype == "bool":
            return self.builder.call("Ne", x, self.builder.scalar(0, x.dtype, self.domain))
        return self.builder.made(("Cast", x, dtype), lambda: ops.Cast(x, dtype))

    @ir.handles(ir.Call)
    def function(self, node: ir.Call) -> AscTensor:
        name = str(getattr(node.op, "name", node.op))
        if name == "tir.likely":
            return self.visit(node.args[0])
        cut = pieces(node, self.parts)
        if cut is not None:
            return self.concat(*cut)
        if name not in _CALLS:
            raise refuse(self.op, node, f"calls `{name}`, which a HintGraph has no node for")
        return self.builder.call(_CALLS[name], *map(self.visit, node.args))
