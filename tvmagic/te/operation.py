"""The functions by which users write tensor expressions: `placeholder`, `compute`, `scan`, ..."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.passes import user_span
from tvmagic.te.intrinsic import TensorIntrinCall
from tvmagic.te.tag import current_tag
from tvmagic.te.tensor import ComputeOp, ConstantOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp


def _shape(shape: Any, what: str) -> tuple[ir.PrimExpr, ...]:
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    result = tuple([ir.expr(int(s) if isinstance(s, float) else s) for s in sizes])
    for axis, size in enumerate(result):
        if size.dtype.is_float or size.dtype.is_handle:
            raise TVMagicError(
                f"dimension {axis} of {what} is not an integer", span=user_span(), code="te.shape.size_not_integer"
            )
        if isinstance(size, ir.IntImm) and size.value < 0:
            raise TVMagicError(
                f"dimension {axis} of {what} is negative: {size.value}", span=user_span(), code="te.shape.negative_size"
            )
    return result


def _unwrap_size(size: Any) -> Any:
    """`size` without the type of a NumPy integer: an axis over 8 of them has indices of 32 bits, as in TVM."""
    return int(size) if isinstance(size, Integral) else size


def axis_text(op: Operation, loop: ir.IterVar) -> str | None:
    """How a cell writes an axis of an operation, as `s[C].op.reduce_axis[0]`; None for another loop."""
    for axes in ("axis", "reduce_axis"):
        for number, iv in enumerate(getattr(op, axes, ())):
            if iv is loop:
                return f"s[{op.name}].op.{axes}[{number}]"
    return None


def placeholder(shape: Any, dtype: Any = None, name: str = "placeholder") -> Tensor:
    """A tensor of `shape` that the caller gives; `dtype` is float32 by default."""
    sizes = _shape(shape, f"`{name}`")
    try:
        kind = ir.dtype_of(dtype or "float32")
    except TVMagicError as error:
        if name == "placeholder" and isinstance(dtype, str):
            error.hint = f"write `name={dtype!r}`: the second argument is the data type"
        raise
    return PlaceholderOp(name, sizes, kind, user_span()).output(0)


def _argument_names(fcompute: Callable[..., Any], ndim: int, varargs_names: Sequence[str] | None) -> list[str]:
    """The names of the axes: those of the arguments of `fcompute`, `i0`, `i1`, ... for `*args`."""
    spec = inspect.getfullargspec(fcompute)
    if spec.varkw is not None or spec.kwonlyargs:
        raise TVMagicError(
            "the function of te.compute takes one plain argument for each axis",
            span=user_span(),
            code="te.compute.wrong_function",
        )
    names = list(spec.args)
    if names and inspect.ismethod(fcompute):
        names = names[1:]
    if spec.varargs is not None or not names:
        rest = ndim - len(names)
        if varargs_names is not None:
            if len(varargs_names) != rest:
                raise TVMagicError(
                    f"{len(varargs_names)} varargs_names are given for {rest} axes",
                    span=user_span(),
                    code="te.compute.wrong_varargs",
                )
            return names + list(varargs_names)
        return names + [f"i{i}" for i in range(rest)]
    if len(names) > ndim:
        raise TVMagicError(
            f"the function of te.compute takes {len(names)} indices, the shape has {ndim} dimensions",
            span=user_span(),
            code="te.compute.wrong_index_count",
        )
    return names


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor whose element at the indices `i, j, ...` is `fcompute(i, j, ...)`.

    Parameters
    ----------
    shape: the size of each dimension, numbers or expressions.
    fcompute: takes an index for each dimension, gives an expression, or a tuple of expressions
        for several outputs, or the call of a tensor intrinsic.
    varargs_names: names of the axes that `fcompute` takes by `*args`.

    Returns the tensor, or a tuple of tensors where `fcompute` gives several values.
    """
    span = user_span()
    tag = current_tag(tag)
    sizes = _shape(
        [_unwrap_size(s) for s in shape] if isinstance(shape, (list, tuple)) else _unwrap_size(shape), f"`{name}`"
    )
    names = _argument_names(fcompute, len(sizes), varargs_names)
    axis = [ir.IterVar(ir.Range(0, size), n, ir.IterVar.DataPar, span=span) for n, size in zip(names, sizes)]
    body = fcompute(*[iv.var for iv in axis])
    if isinstance(body, TensorIntrinCall):
        inner = [ir.IterVar(ir.Range(0, s), f"ax{i}", ir.IterVar.Opaque) for i, s in enumerate(sizes[len(axis) :])]
        op: Any = TensorComputeOp(
            name, tag, [*axis, *inner], body.reduce_axis, len(axis), body.intrin, body.tensors, body.regions,
            body.scalar_inputs, span,
        )  # fmt: skip
    else:
        values = body if isinstance(body, (list, tuple)) else [body]
        op = ComputeOp(name, tag, attrs, axis, [_value(v, name) for v in values], span)
    return op.outputs[0] if op.num_outputs == 1 else op.outputs


def _value(value: Any, name: str) -> ir.PrimExpr:
    if value is None:
        raise TVMagicError(f"the function of `{name}` gives no value", span=user_span(), code="te.compute.no_value")
    return ir.expr(value)


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """The states of a recurrence; the first dimension of every tensor is time.

    Parameters
    ----------
    init: the first steps of each state; update: all steps, from states at earlier times.
    state_placeholder: the placeholders that `update` reads the states by.
    inputs: what the updates read besides.

    Returns the tensor of states, or a list of them.
    """
    first, later, states = [list(t) if isinstance(t, (list, tuple)) else [t] for t in (init, update, state_placeholder)]
    given = [] if inputs is None else list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    axis = ir.IterVar(ir.Range(first[0].shape[0], later[0].shape[0]), f"{name}.idx", ir.IterVar.Ordered)
    op = ScanOp(name, current_tag(tag), attrs, axis, first, later, states, given, user_span())
    return op.outputs[0] if op.num_outputs == 1 else list(op.outputs)


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[..., Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors that a statement computes.

    Parameters
    ----------
    shape: the shape of the output, or a list of shapes for several.
    fcompute: takes the buffers of the inputs and of the outputs (two lists), gives a statement
        or a call.
    dtype: of each output; that of the inputs by default.
    in_buffers, out_buffers: the buffers to use; new ones with a variable offset by default.

    Returns the tensor, or a list of them.
    """
    shapes = _shapes(shape, name)
    for tensor in inputs:
        if not isinstance(tensor, Tensor):
            raise TVMagicError(
                f"the inputs of extern `{name}` are tensors, not `{tensor!r}`",
                span=user_span(),
                code="te.extern.input_not_tensor",
            )
    dtypes = _extern_dtypes(dtype, inputs, len(shapes), name)
    sources = _buffers(in_buffers) or [_extern_buffer(t.shape, t.dtype, t.op.name) for t in inputs]
    targets = _buffers(out_buffers) or [_extern_buffer(s, d, name) for s, d in zip(shapes, dtypes)]
    body = fcompute(sources, targets)
    if isinstance(body, ir.PrimExpr):
        body = ir.Evaluate(body)
    if not isinstance(body, ir.Stmt):
        raise TVMagicError(
            f"the function of extern `{name}` gives a statement or an expression",
            span=user_span(),
            code="te.extern.no_statement",
        )
    op = ExternOp(name, current_tag(tag), attrs, inputs, sources, targets, body, user_span())
    return op.outputs[0] if op.num_outputs == 1 else list(op.outputs)


def _shapes(shape: Any, name: str) -> list[tuple[ir.PrimExpr, ...]]:
    nested = isinstance(shape, (list, tuple)) and len(shape) > 0 and isinstance(shape[0], (list, tuple))
    return [_shape(s, f"`{name}`") for s in (shape if nested else [shape])]


def _buffers(given: Any) -> list[ir.Buffer]:
    return [] if given is None else [given] if isinstance(given, ir.Buffer) else list(given)


def _extern_buffer(shape: Sequence[ir.PrimExpr], dtype: Any, name: str) -> ir.Buffer:
    return ir.decl_buffer(shape, dtype, name, elem_offset=ir.Var("elem_offset", "int32"))


def _extern_dtypes(dtype: Any, inputs: Sequence[Tensor], count: int, name: str) -> list[ir.DataType]:
    if dtype is not None:
        return [ir.dtype_of(d) for d in dtype] if isinstance(dtype, (list, tuple)) else [ir.dtype_of(dtype)] * count
    known = {t.dtype for t in inputs}
    if len(known) != 1:
        raise TVMagicError(
            f"the dtype of extern `{name}` does not follow from its inputs",
            hint="give dtype=",
            code="te.extern.unknown_dtype",
        )
    return [known.pop()] * count


def from_array(array: Any, name: str = "constant") -> Tensor:
    """A tensor with the elements of a NumPy array, which become part of the program."""
    data = np.array(array, order="C")  # a copy: the program does not follow later changes
    data.setflags(write=False)
    dtype = ir.dtype_of(str(data.dtype))
    target = ir.decl_buffer(data.shape, dtype, name)
    pointer = ir.pointer_var(f"{name}_data", dtype)
    source = ir.decl_buffer(data.shape, dtype, f"{name}_data", data=pointer)
    loops = [ir.Var(f"ax{i}", "int32") for i in range(data.ndim)]
    body = ir.loop_nest(loops, data.shape, ir.BufferStore(target, ir.BufferLoad(source, loops), loops))
    body = ir.AllocateConst(pointer, dtype, data.shape, data, ir.DeclBuffer(source, body))
    return ConstantOp(name, data, target, body, user_span()).output(0)


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: ir.PrimFunc, **kwargs: Any) -> Any:
    """Tensors that a function computes.

    Its inputs, one for each of `input_tensors`, are the buffers that it reads, in the order of its parameters; its outputs
    those that it writes and does not read. If there are none of these, the last buffer that it updates in place is the
    output, and no input.
    """
    sources, targets = _inputs_and_outputs(primfunc)
    if not targets:
        raise TVMagicError("the function has no buffer left for an output", code="te.extern_primfunc.no_output")
    if len(sources) != len(input_tensors):
        names = ", ".join(f"`{b.name}`" for b in sources) or "none"
        raise TVMagicError(
            f"the function reads the buffers {names}; {len(input_tensors)} tensors are given for them",
            code="te.extern_primfunc.wrong_tensor_count",
        )
    return extern_of_function(input_tensors, primfunc, sources, targets, **kwargs)


def extern_of_function(
    input_tensors: Sequence[Tensor],
    function: ir.PrimFunc,
    sources: list[ir.Buffer],
    targets: list[ir.Buffer],
    **kwargs: Any,
) -> Any:
    """Tensors that a function computes in `targets`, which it may read, too; `sources` are its buffers of the inputs."""
    values = {
        old: new
        for tensor, buffer in zip(input_tensors, sources)
        for old, new in zip(buffer.shape, tensor.shape)
        if isinstance(old, ir.Var)
    }
    shapes = [[ir.substitute(s, values) for s in b.shape] for b in targets]

    def body(ins: Sequence[ir.Buffer], outs: Sequence[ir.Buffer]) -> ir.Stmt:
        return ir.substitute(function.body, values)

    dtypes = [b.dtype for b in targets]
    return extern(shapes, input_tensors, body, in_buffers=sources, out_buffers=targets, dtype=dtypes, **kwargs)


def _inputs_and_outputs(function: ir.PrimFunc) -> tuple[list[ir.Buffer], list[ir.Buffer]]:
    loaded: set[ir.Buffer] = set()
    stored: set[ir.Buffer] = set()

    def note(node: Any) -> None:
        if isinstance(node, ir.BufferStore):
            stored.add(node.buffer)
        elif isinstance(node, ir.BufferLoad):
            loaded.add(node.buffer)

    ir.post_order_visit(function.body, note)
    buffers = [function.buffer_map[p] for p in function.params if p in function.buffer_map]
    sources = [b for b in buffers if b in loaded]
    targets = [b for b in buffers if b in stored and b not in loaded]
    if not targets:
        targets = [b for b in sources if b in stored][-1:]
        sources = [b for b in sources if b not in targets]
    return sources, targets


def var(name: str = "tindex", dtype: Any = "int32", span: ir.Span | None = None) -> ir.Var:
    """A new variable, such as a symbolic dimension."""
    return ir.Var(name, dtype, span)


def size_var(name: str = "size", dtype: Any = "int32", span: ir.Span | None = None) -> ir.SizeVar:
    """A new variable that is never negative."""
    return ir.SizeVar(name, dtype, span)


def _domain(dom: Any) -> ir.Range | None:
    if dom is None or isinstance(dom, ir.Range):
        return dom
    if isinstance(dom, (list, tuple)) and len(dom) == 2:
        return ir.Range(_unwrap_size(dom[0]), _unwrap_size(dom[1]))
    return ir.Range(_unwrap_size(dom))


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: ir.Span | None = None) -> ir.IterVar:
    """An axis of threads to bind loops to, such as `thread_axis("threadIdx.x")`."""
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise TVMagicError(
            "a thread axis needs a tag", hint='te.thread_axis("threadIdx.x")', code="te.thread_axis.no_tag"
        )
    return ir.IterVar(_domain(dom), name or tag, ir.IterVar.ThreadIndex, tag, span)


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: ir.Span | None = None) -> ir.IterVar:
    """An axis to reduce over; `dom` is a pair of ends or a Range."""
    return ir.IterVar(_domain(dom), name, ir.IterVar.CommReduce, thread_tag, span)
