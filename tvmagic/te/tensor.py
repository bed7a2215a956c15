"""Tensors and the operations that produce them: the dataflow graph of a tensor expression.

A `Tensor` is one output of an `Operation`. Operations are not changed after they were built; the
schedule's rewrites make new ones. Names and fields are those of `tvm.te.tensor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.errors import TVMagicError, visible
from tvmagic.ir.container import JoinedTuple
from tvmagic.ir.deep_recursion import check_written_size
from tvmagic.ir.node import new_origin
from tvmagic.te.tensor_operators import TensorOperators

if TYPE_CHECKING:
    from tvmagic.te.intrinsic import TensorIntrin


class TensorSlice(ir.ExprOp):
    """Some leading indices of a tensor given: `A[i]` of a matrix `A`, to be followed by `[j]`."""

    __slots__ = ("indices", "tensor")
    __iter__ = None  # by its indices Python would go through it without end, as in `sum(A)` and `x in A`

    def __init__(self, tensor: Tensor, indices: Any) -> None:
        self.tensor = tensor
        self.indices = indices if isinstance(indices, tuple) else (indices,)

    def __getitem__(self, indices: Any) -> TensorSlice:
        return TensorSlice(self.tensor, self.indices + (indices if isinstance(indices, tuple) else (indices,)))

    def asobject(self) -> ir.ProducerLoad:
        """The element of the tensor; all indices must be given."""
        return self.tensor(*self.indices)

    @property
    def dtype(self) -> ir.DataType:
        """The type of an element."""
        return self.tensor.dtype

    __hash__ = ir.ExprOp.__hash__


class Tensor(ir.DataProducer, TensorOperators):
    """One output of an operation: an array of `dtype` elements of `shape`.

    `A[i, j]`, `A[i][j]` and `A(i, j)` are its elements. There is one object for each output of
    an operation, so tensors compare by identity; `==` on tensors tells whether both are one.
    """

    __slots__ = ("dtype", "op", "shape", "value_index")
    __iter__ = None  # by its indices Python would go through it without end, as in `sum(A)` and `x in A`
    op: Operation
    value_index: int
    shape: tuple[ir.PrimExpr, ...]
    dtype: ir.DataType

    def __init__(self, op: Operation, value_index: int, shape: Sequence[ir.PrimExpr], dtype: ir.DataType) -> None:
        self.op, self.value_index, self.shape, self.dtype = op, value_index, JoinedTuple(shape), dtype
        self.span = op.span

    def __call__(self, *indices: Any) -> ir.ProducerLoad:
        if len(indices) != len(self.shape):
            raise TVMagicError(
                f"tensor `{self.name}` has {len(self.shape)} dimensions, {len(indices)} indices are given",
                code="te.tensor.wrong_index_count",
            )
        return ir.ProducerLoad(self, [self._index(axis, index) for axis, index in enumerate(indices)])

    def _index(self, axis: int, index: Any) -> ir.PrimExpr:
        if isinstance(index, slice):
            raise TVMagicError(
                f"a slice of tensor `{self.name}` is not an element",
                hint="index every dimension",
                code="te.tensor.slice_not_element",
            )
        if isinstance(index, int) and index < 0:  # counts from the end, as in Python
            return self.shape[axis] + index
        result = ir.expr(index)
        if result.dtype.is_handle:  # a float is refused if machine code is made
            raise TVMagicError(
                f"index {axis} of tensor `{self.name}` is a `{result.dtype}`, not an integer",
                hint="cast it with astype",
                code="te.tensor.index_not_integer",
            )
        return result.astype("int32") if result.dtype.is_bool else result  # NumPy takes bools for a choice of elements

    def __getitem__(self, indices: Any) -> TensorSlice:
        return TensorSlice(self, indices)

    def asobject(self) -> ir.ProducerLoad:
        """The element of a tensor without dimensions."""
        return self()

    def __hash__(self) -> int:
        return id(self) >> 4

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Tensor):
            if not self.shape and not other.shape and self is not other:
                raise TVMagicError(
                    "`==` on tensors without dimensions is ambiguous",
                    hint="write a.equal(b) for the expression, a.same_as(b) for the object",
                    code="te.tensor.ambiguous_equality",
                )
            return self is other
        return ir.EqualOp(self, other) if isinstance(other, ir.ExprOp) else False

    def __ne__(self, other: object) -> Any:
        result = self.__eq__(other)
        return not result if isinstance(result, bool) else ir.ExprOp.__ne__(self, other)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def axis(self) -> tuple[ir.IterVar, ...]:
        """The iteration variables of the operation that produces it."""
        return self.op.axis

    @property
    def name(self) -> str:
        """The operation's name; with `.v0`, `.v1`, ... where it has several outputs."""
        return self.op.name if self.op.num_outputs == 1 else f"{self.op.name}.v{self.value_index}"

    name_hint = name

    def __repr__(self) -> str:
        return f"Tensor(shape=[{', '.join(map(str, self.shape))}], op.name={visible(self.op.name)})"

    __str__ = __repr__


class Operation(ir.Identified):
    """What produces tensors.

    Attributes
    ----------
    name, tag: as the user gave them; attrs: facts by name, as the user gave them.
    span: the place in the user's source where it was made.
    """

    kind = "operation"
    __slots__ = ("__weakref__", "_inputs", "_outputs", "attrs", "name", "origin", "span", "tag")

    def __init__(
        self, name: str, tag: str = "", attrs: Mapping[str, Any] | None = None, span: ir.Span | None = None
    ) -> None:
        self.name, self.tag, self.span = name, tag, span
        self.origin = new_origin()  # what a statement that computes it is followed by
        self.attrs: dict[str, Any] = {k: ir.attr_value(v) for k, v in (attrs or {}).items()}
        self._outputs: tuple[Tensor, ...] = ()
        self._inputs: tuple[Tensor, ...] | None = None

    def _set_outputs(self, shapes: Iterable[Sequence[ir.PrimExpr]], dtypes: Iterable[ir.DataType]) -> None:
        self._outputs = tuple([Tensor(self, i, s, d) for i, (s, d) in enumerate(zip(shapes, dtypes))])

    @property
    def num_outputs(self) -> int:
        """How many tensors it computes."""
        return len(self._outputs)

    def output(self, index: int) -> Tensor:
        """Output number `index`."""
        return self._outputs[index]

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that it computes."""
        return self._outputs

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, each once, in the order in which they are first read."""
        if self._inputs is None:
            self._inputs = self._find_inputs()
        return self._inputs

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return ()

    @property
    def axis(self) -> tuple[ir.IterVar, ...]:
        """The iteration variables over the output."""
        return ()

    @property
    def reduce_axis(self) -> tuple[ir.IterVar, ...]:
        """The variables that it reduces over: none, unless it is a reduction."""
        return ()

    def root_iter_vars(self) -> tuple[ir.IterVar, ...]:
        """All iteration variables before any split or fuse."""
        return ()

    def replace_inputs(self, replacements: Mapping[Tensor, Tensor]) -> Operation:
        """The operation with some input tensors replaced; itself where it reads none of them."""
        return self

    def __repr__(self) -> str:
        return f"{self.kind}({visible(self.name)}, shape={[str(s) for s in self.output(0).shape] if self._outputs else []})"


class PlaceholderOp(Operation):
    """A tensor that the caller gives."""

    kind = "placeholder"
    __slots__ = ("dtype", "shape")

    def __init__(
        self, name: str, shape: Sequence[ir.PrimExpr], dtype: ir.DataType, span: ir.Span | None = None
    ) -> None:
        super().__init__(name, span=span)
        self.shape, self.dtype = JoinedTuple(shape), dtype
        self._set_outputs([self.shape], [dtype])


class TensorReplacer(ir.Mutator):
    """Replaces the tensors that an expression or statement loads from."""

    def __init__(self, replacements: Mapping[Tensor, Tensor]) -> None:
        self.replacements = replacements

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Any:
        node = self.visit_children(node)
        other = self.replacements.get(node.producer)
        return node if other is None else node.replace(producer=other)


def loads_by_tensor(*roots: Any) -> dict[Tensor, list[ir.ProducerLoad]]:
    """The loads in the expressions or statements, for each tensor in order."""
    found: dict[Tensor, list[ir.ProducerLoad]] = {}

    def look(node: Any) -> None:
        if isinstance(node, ir.ProducerLoad):
            found.setdefault(node.producer, []).append(node)

    for root in roots:
        ir.post_order_visit(root, look)
    return found


def loaded_tensors(*roots: Any) -> tuple[Tensor, ...]:
    """The tensors that the expressions or statements load from, each once, in order."""
    return tuple(loads_by_tensor(*roots))


class BaseComputeOp(Operation):
    """What computes each element of its outputs from its iteration variables."""

    __slots__ = ("_axis", "_reduce_axis")

    def __init__(self, name: str, tag: str, attrs: Any, axis: Sequence[ir.IterVar], span: ir.Span | None) -> None:
        super().__init__(name, tag, attrs, span)
        self._axis: tuple[ir.IterVar, ...] = JoinedTuple(axis)
        self._reduce_axis: tuple[ir.IterVar, ...] = JoinedTuple()

    @property
    def axis(self) -> tuple[ir.IterVar, ...]:
        return self._axis

    @property
    def reduce_axis(self) -> tuple[ir.IterVar, ...]:
        return self._reduce_axis

    @property
    def num_schedulable_dims(self) -> int:
        """How many leading axes are loops (the others belong to an intrinsic)."""
        return len(self._axis)

    def root_iter_vars(self) -> tuple[ir.IterVar, ...]:
        return self._axis + self._reduce_axis

    def output_shape(self) -> tuple[ir.PrimExpr, ...]:
        return tuple([_domain(iv).extent for iv in self._axis])


def _domain(iv: ir.IterVar) -> ir.Range:
    assert iv.dom is not None
    return iv.dom


class ComputeOp(BaseComputeOp):
    """One expression for each output, over `axis`; a reduction is at the top or nowhere."""

    kind = "compute"
    __slots__ = ("body", "loads")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        axis: Sequence[ir.IterVar],
        body: Sequence[ir.PrimExpr],
        span: ir.Span | None = None,
    ) -> None:
        super().__init__(name, tag, attrs, axis, span)
        self.body: tuple[ir.PrimExpr, ...] = tuple([ir.expr(b) for b in body])
        if not self.body:
            raise TVMagicError(f"the body of `{name}` gives no value", code="te.compute.no_value")
        for value in self.body:
            check_written_size(value, f"the body of `{name}`")
        self.loads = loads_by_tensor(*self.body)  # what is read of each tensor
        first = self.body[0]
        if isinstance(first, ir.Reduce):
            self._reduce_axis = JoinedTuple(first.axis)
        self._verify()
        shape = self.output_shape()
        self._set_outputs([shape] * len(self.body), [b.dtype for b in self.body])

    def __repr__(self) -> str:
        body, axis, reduced = (", ".join(map(str, nodes)) for nodes in (self.body, self.axis, self.reduce_axis))
        attrs = ", ".join(f"{visible(str(key))}: {value}" for key, value in self.attrs.items())
        parts = f"body=[{body}], axis=[{axis}], reduce_axis=[{reduced}], tag={visible(self.tag)}, attrs={{{attrs}}}"
        return f"compute({visible(self.name)}, {parts})"

    def _verify(self) -> None:
        """Reductions only at the top, and the outputs of a tuple reduction of one reduction."""
        first = self.body[0]
        for value in self.body:
            top: tuple[Any, ...] = (value,)
            if isinstance(value, ir.Reduce):
                same = isinstance(first, ir.Reduce) and (
                    value.combiner is first.combiner
                    and len(value.axis) == len(first.axis)
                    and all(a is b for a, b in zip(value.axis, first.axis))
                )
                if not same:
                    raise TVMagicError(
                        f"the outputs of `{self.name}` are different reductions",
                        span=self.span,
                        code="te.compute.outputs_differ",
                    )
                top = (*value.source, value.condition)
            elif isinstance(first, ir.Reduce):
                raise TVMagicError(
                    f"some outputs of `{self.name}` are reductions and some are not",
                    span=self.span,
                    code="te.compute.mixed_reductions",
                )
            for part in top:
                if _has_reduce(part):
                    raise TVMagicError(
                        f"a reduction inside another expression in `{self.name}`",
                        span=self.span,
                        hint="make the reduction a te.compute of its own and use its result",
                        code="te.compute.nested_reduction",
                    )

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return tuple(self.loads)

    def replace_inputs(self, replacements: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in replacements for t in self.input_tensors):
            return self
        replacer = TensorReplacer(replacements)
        return self.with_body(mutate_bodies(replacer, self.body))

    def with_body(self, body: Sequence[ir.PrimExpr]) -> ComputeOp:
        """The same operation with another body."""
        return ComputeOp(self.name, self.tag, self.attrs, self._axis, body, self.span)


def mutate_bodies(mutator: ir.Mutator, body: Sequence[ir.PrimExpr]) -> list[ir.PrimExpr]:
    """The bodies rewritten; those of a tuple reduction stay one reduction."""
    first = mutator.visit(body[0])
    if isinstance(first, ir.Reduce) and len(body) > 1:
        return [ir.Reduce(first.combiner, first.source, first.axis, first.condition, i, first.init, first.span)
                for i in range(len(body))]  # fmt: skip
    return [first, *[mutator.visit(b) for b in body[1:]]]


def _has_reduce(root: ir.PrimExpr) -> bool:
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or isinstance(node, ir.Reduce)

    ir.post_order_visit(root, look)
    return found


class TensorComputeOp(BaseComputeOp):
    """A tensor intrinsic called for each iteration of the leading axes.

    `input_regions` are the regions of `inputs` that one call reads.
    """

    kind = "tensor_compute_op"
    __slots__ = ("input_regions", "inputs", "intrin", "scalar_inputs", "schedulable_ndim")

    def __init__(
        self,
        name: str,
        tag: str,
        axis: Sequence[ir.IterVar],
        reduce_axis: Sequence[ir.IterVar],
        schedulable_ndim: int,
        intrin: TensorIntrin,
        tensors: Sequence[Tensor],
        regions: Sequence[Sequence[ir.Range]],
        scalar_inputs: Sequence[ir.PrimExpr] = (),
        span: ir.Span | None = None,
    ) -> None:
        super().__init__(name, tag, None, axis, span)
        self._reduce_axis = JoinedTuple(reduce_axis)
        self.schedulable_ndim = schedulable_ndim
        self.intrin = intrin
        self.inputs = tuple(tensors)
        self.input_regions = tuple([tuple(r) for r in regions])
        self.scalar_inputs = tuple(scalar_inputs)
        outputs = intrin.buffers[len(intrin.inputs) :]
        self._set_outputs([self.output_shape()] * len(outputs), [b.dtype for b in outputs])

    @property
    def num_schedulable_dims(self) -> int:
        return self.schedulable_ndim

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys([*self.inputs, *loaded_tensors(*self.scalar_inputs)]))

    def replace_inputs(self, replacements: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in replacements for t in self.input_tensors):
            return self
        replacer = TensorReplacer(replacements)
        return TensorComputeOp(
            self.name,
            self.tag,
            self._axis,
            self._reduce_axis,
            self.schedulable_ndim,
            self.intrin,
            [replacements.get(t, t) for t in self.inputs],
            self.input_regions,
            [replacer.visit(s) for s in self.scalar_inputs],
            self.span,
        )


class ScanOp(Operation):
    """A recurrence over time: `init` gives the first steps, `update` each step from the ones before.

    `scan_axis` is time; `spatial_axis_` holds one opaque variable for each further dimension of
    each state.
    """

    kind = "scan"
    __slots__ = ("init", "inputs", "scan_axis", "spatial_axis_", "state_placeholder", "update")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        axis: ir.IterVar,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        state_placeholder: Sequence[Tensor],
        inputs: Sequence[Tensor],
        span: ir.Span | None = None,
        spatial_axis: Sequence[ir.IterVar] | None = None,
    ) -> None:
        super().__init__(name, tag, attrs, span)
        self.scan_axis = axis
        self.init, self.update = tuple(init), tuple(update)
        self.state_placeholder, self.inputs = tuple(state_placeholder), tuple(inputs)
        self._verify()
        if spatial_axis is None:
            spatial_axis = [
                ir.IterVar(ir.Range.from_min_extent(0, size), f"{name}.out{i}.i{k + 1}", ir.IterVar.Opaque)
                for i, tensor in enumerate(self.update)
                for k, size in enumerate(tensor.shape[1:])
            ]
        self.spatial_axis_ = tuple(spatial_axis)
        self._set_outputs([s.shape for s in self.state_placeholder], [u.dtype for u in self.update])

    def _verify(self) -> None:
        sizes = {len(self.init), len(self.update), len(self.state_placeholder)}
        if len(sizes) != 1 or not self.init:
            raise TVMagicError(
                f"scan `{self.name}` takes as many init as update and state tensors",
                span=self.span,
                code="te.scan.wrong_tensor_count",
            )
        for init, update, state in zip(self.init, self.update, self.state_placeholder):
            if init.dtype is not state.dtype or update.dtype is not state.dtype:
                raise TVMagicError(
                    f"scan `{self.name}`: init, update and state `{state.name}` have different dtypes",
                    code="te.scan.dtypes_differ",
                )
            if not len(init.shape) == len(update.shape) == len(state.shape):
                raise TVMagicError(
                    f"scan `{self.name}`: init, update and state `{state.name}` have different ranks",
                    code="te.scan.ranks_differ",
                )

    @property
    def axis(self) -> tuple[ir.IterVar, ...]:
        return (self.scan_axis,)

    def spatial_axes(self, index: int) -> tuple[ir.IterVar, ...]:
        """The opaque variables of state number `index`."""
        start = sum(len(t.shape) - 1 for t in self.update[:index])
        return self.spatial_axis_[start : start + len(self.update[index].shape) - 1]

    def root_iter_vars(self) -> tuple[ir.IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis_)

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return (*self.init, *self.update)

    def replace_inputs(self, replacements: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in replacements for t in (*self.init, *self.update)):
            return self
        return ScanOp(
            self.name,
            self.tag,
            self.attrs,
            self.scan_axis,
            [replacements.get(t, t) for t in self.init],
            [replacements.get(t, t) for t in self.update],
            self.state_placeholder,
            self.inputs,
            self.span,
            self.spatial_axis_,
        )


class ExternOp(Operation):
    """Tensors that a statement of the user computes, from and to buffers."""

    kind = "extern"
    __slots__ = ("body", "input_placeholders", "inputs", "output_placeholders")

    def __init__(
        self,
        name: str,
        tag: str,
        attrs: Any,
        inputs: Sequence[Tensor],
        input_placeholders: Sequence[ir.Buffer],
        output_placeholders: Sequence[ir.Buffer],
        body: ir.Stmt,
        span: ir.Span | None = None,
    ) -> None:
        super().__init__(name, tag, attrs, span)
        self.inputs = tuple(inputs)
        self.input_placeholders, self.output_placeholders = tuple(input_placeholders), tuple(output_placeholders)
        self.body = body
        for tensor, buffer in zip(self.inputs, self.input_placeholders):
            if tensor.dtype is not buffer.dtype or len(tensor.shape) != len(buffer.shape):
                raise TVMagicError(
                    f"extern `{name}`: the buffer of input `{tensor.name}` has another dtype or rank",
                    code="te.extern.buffer_differs",
                )
        self._set_outputs([b.shape for b in self.output_placeholders], [b.dtype for b in self.output_placeholders])

    def _find_inputs(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))

    def replace_inputs(self, replacements: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in replacements for t in self.inputs):
            return self
        inputs = [replacements.get(t, t) for t in self.inputs]
        return ExternOp(
            self.name,
            self.tag,
            self.attrs,
            inputs,
            self.input_placeholders,
            self.output_placeholders,
            self.body,
            self.span,
        )


class ConstantOp(ExternOp):
    """The elements of a NumPy array, which becomes part of the program."""

    kind = "constant"
    __slots__ = ("array",)

    def __init__(self, name: str, array: Any, buffer: ir.Buffer, body: ir.Stmt, span: ir.Span | None = None) -> None:
        super().__init__(name, "", None, (), (), (buffer,), body, span)
        self.array = array


def constant_shape(tensor: Tensor) -> tuple[int, ...] | None:
    """The sizes of a tensor as numbers, or None if one is symbolic."""
    sizes = [s.value for s in tensor.shape if isinstance(s, ir.IntImm)]
    return tuple(sizes) if len(sizes) == len(tensor.shape) else None
