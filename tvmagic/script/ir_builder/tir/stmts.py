"""The functions that begin frames and add statements: `T.block`, `T.grid`, `T.reads`, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.expr import access_dtype
from tvmagic.ir.hooks import provided
from tvmagic.script.ir_builder.base import current_builder, name_value
from tvmagic.script.ir_builder.tir import frame as frames
from tvmagic.script.ir_builder.tir.common import as_condition, as_mapping, the_block, the_function
from tvmagic.script.ir_builder.tir.extent import constant_difference
from tvmagic.script.ir_builder.tir.loops import as_domain
from tvmagic.script.ir_builder.tir.values import (
    DTypeFunction,
    HandleFunction,
    as_tuple,
    as_value,
    dtype_from,
    make_shape,
    new_buffer,
    type_from,
    vector_indices,
)

BOOL = ir.DataType("bool")


# ---------------------------------------------------------------------------- functions


def prim_func(is_private: bool = False) -> frames.PrimFuncFrame:
    """A function under construction."""
    return frames.PrimFuncFrame(is_private)


def arg(name: str, obj: Any) -> Any:
    """A parameter of the function: a variable or a buffer."""
    function = the_function("T.arg")
    if isinstance(obj, (HandleFunction, DTypeFunction)):
        obj = obj()
    if isinstance(obj, ir.Buffer):
        name_value(name, obj)
        handle = ir.Var(name + "_handle", "handle", obj.span)
        function.args.append(handle)
        function.buffer_map[handle] = obj
    elif isinstance(obj, ir.Var):
        name_value(name, obj)
        function.args.append(obj)
    else:
        raise TVMagicError(
            f"the type of parameter `{name}` is not known",
            hint="write `T.Buffer(shape, dtype)`, `T.handle` or a scalar type such as `T.int32`",
            code="script.unknown_parameter_type",
        )
    return obj


def func_name(name: str) -> None:
    """The name of the function."""
    function = the_function("T.func_name")
    if function.name is not None:
        raise TVMagicError(f"the function has the name `{function.name}` already", code="script.second_function_name")
    function.name = name


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Facts about the function."""
    builder = current_builder()
    function = builder.last(frames.PrimFuncFrame) or the_function("T.func_attr")
    values = as_mapping(attrs, "T.func_attr")
    known = function.attrs or {}
    double = next((key for key in values if key in known), None)
    if double is not None:
        raise TVMagicError(
            f"the attribute `{double}` of the function is given twice", code="script.attribute_given_twice"
        )
    function.attrs = {**known, **values}


def func_ret(ret_type: Any) -> ir.Type:
    """The type that the function returns."""
    function = the_function("T.func_ret")
    if function.ret_type is not None:
        raise TVMagicError("the function has a return type already", code="script.second_return_type")
    function.ret_type = type_from(ret_type)
    return function.ret_type


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> ir.Buffer:
    """The buffer behind a pointer parameter, or another name for a region inside a block."""
    if isinstance(param, ir.BufferLoad):
        param = _region(param, "T.match_buffer")
    if shape is None:
        if not isinstance(param, ir.BufferRegion):
            raise TVMagicError("`T.match_buffer` of a parameter needs a shape", code="script.buffer_without_shape")
        shape, dtype = [r.extent for r in param.region], param.buffer.dtype
    buffer = new_buffer(
        shape,
        dtype,
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
        matched=True,
    )
    if isinstance(param, ir.BufferRegion):
        _check_match(buffer, param)
        the_block("T.match_buffer").match_buffers.append(ir.MatchBufferRegion(buffer, param, current_builder().span))
        return buffer
    function = the_function("T.match_buffer")
    if not isinstance(param, ir.Var) or not any(a is param for a in function.args):
        raise TVMagicError(
            "`T.match_buffer` takes a parameter of the function or a region of a buffer",
            hint="declare the parameter as `T.handle`",
            code="script.wrong_match_buffer",
        )
    if not param.dtype.is_handle:
        raise TVMagicError(
            f"the parameter `{param.name}` is a `{param.dtype}`, not a `T.handle`", code="script.parameter_not_a_handle"
        )
    if param in function.buffer_map:
        raise TVMagicError(
            f"the parameter `{param.name}` is matched to a buffer already", code="script.parameter_matched_twice"
        )
    function.buffer_map[param] = buffer
    return buffer


def _check_match(buffer: ir.Buffer, source: ir.BufferRegion) -> None:
    """A matched buffer has the extents of the region, of which leading ones that are 1 may be left out."""
    extents, sizes = [r.extent for r in source.region], list(buffer.shape)
    missing = len(extents) - len(sizes)
    analyzer = provided("analyzer")()
    wanted = [ir.IntImm(e.dtype, 1) for e in extents[: max(missing, 0)]] + sizes
    for extent, size in zip(extents, wanted):
        if not isinstance(size, ir.Var) and not analyzer.can_prove_equal(extent, size):
            missing = -1
    if missing < 0:
        shape, region = (", ".join(map(str, parts)) for parts in (sizes, extents))
        raise TVMagicError(
            f"a buffer of shape ({shape}) cannot be matched to a region of buffer `{source.buffer.name}` of extents "
            f"({region})",
            code="script.match_shape_differs",
        )


# ---------------------------------------------------------------------------- blocks


def block(name: str = "", no_realize: bool = False) -> frames.BlockFrame:
    """A block."""
    if isinstance(name, ir.StringImm):
        name = name.value
    if not isinstance(name, str):
        raise TVMagicError(
            "the name of a block is a text", hint='write `T.block("name")`', code="script.block_name_not_a_text"
        )
    return frames.BlockFrame(name, bool(no_realize))


def init() -> frames.BlockInitFrame:
    """What runs before the first iteration of the block's reduction."""
    return frames.BlockInitFrame()


def where(predicate: Any) -> None:
    """The block runs only if `predicate` holds."""
    target = the_block("T.where")
    if target.predicate is not None:
        raise TVMagicError(f"block `{target.name}` has a second `T.where`", code="script.second_where")
    target.predicate = as_condition(predicate, "T.where")


def _region(value: Any, name: str) -> ir.BufferRegion:
    if isinstance(value, ir.BufferRegion):
        return value
    if isinstance(value, ir.BufferLoad):
        ranges = [ir.Range.from_min_extent(i, ir.IntImm(i.dtype.element_of, 1)) for i in value.indices]
        return ir.BufferRegion(value.buffer, ranges, value.span)
    if isinstance(value, ir.Buffer):
        zero = [ir.Range.from_min_extent(ir.IntImm(size.dtype, 0), size) for size in value.shape]
        return ir.BufferRegion(value, zero)
    raise TVMagicError(f"`{name}` takes accesses of buffers, such as `A[i, 0:16]`", code="script.not_an_access")


def _declare(field: str, slices: tuple[Any, ...]) -> None:
    name = f"T.{field}"
    target = the_block(name)
    if getattr(target, field) is not None:
        raise TVMagicError(f"block `{target.name}` has a second `{name}`", code="script.second_access_list")
    if len(slices) == 1 and isinstance(slices[0], (list, tuple)):
        slices = tuple(slices[0])
    setattr(target, field, [_region(value, name) for value in slices])


def reads(*buffer_slices: Any) -> None:
    """The regions that the block reads."""
    _declare("reads", buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """The regions that the block writes."""
    _declare("writes", buffer_slices)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Annotations of the block."""
    target = the_block("T.block_attr")
    values = as_mapping(attrs, "T.block_attr")
    known = target.annotations or {}
    double = next((key for key in values if key in known), None)
    if double is not None:
        raise TVMagicError(
            f"the annotation `{double}` of block `{target.name}` is given twice", code="script.annotation_given_twice"
        )
    target.annotations = {**known, **values}


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> ir.Buffer:
    """A buffer that lives in the block around, or in the function."""
    buffer = new_buffer(
        shape,
        dtype,
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
        allocated=True,
    )
    builder = current_builder()
    target = builder.find(frames.BlockFrame)
    if target is not None:
        target.alloc_buffers.append(buffer)
    else:
        the_function("T.alloc_buffer").root_alloc_buffers.append(buffer)
    return buffer


# ---------------------------------------------------------------------------- other statements with a body


def Assert(condition: Any, message: Any = "") -> frames.AssertFrame:
    """A check that `condition` holds."""
    if not isinstance(message, (str, ir.StringImm)):
        raise TVMagicError("the message of an assertion is a text", code="script.assert_message_not_a_text")
    return frames.AssertFrame(as_condition(condition, "assert"), message)


def LetStmt(value: Any, type_annotation: Any = None, *, var: ir.Var | None = None) -> frames.LetFrame:
    """A variable that stands for `value`."""
    value = ir.expr(as_value(value))
    if var is None:
        annotation = type_from(type_annotation) if type_annotation is not None else None
        if annotation is None and value.dtype.is_handle and isinstance(value, ir.Var):
            annotation = value.type_annotation
        var = ir.Var("v", annotation if annotation is not None else value.dtype, current_builder().span)
    elif not isinstance(var, ir.Var):
        raise TVMagicError("the `var` of `T.LetStmt` is a variable", code="script.let_not_a_variable")
    if var.dtype is not value.dtype:
        raise TVMagicError(
            f"a variable of type `{var.dtype}` cannot be used as a value of type `{value.dtype}`",
            code="script.let_dtype_differs",
        )
    return frames.LetFrame(var, value)


def let(v: Any, value: Any, body: Any = None) -> Any:
    """The variable `v` with a value: for a body that is an expression, or for what follows."""
    if body is not None:
        return ir.ops.let(v, as_value(value), as_value(body))
    return LetStmt(value, var=v)


def realize(buffer_slice: Any, storage_scope: Any = None, condition: Any = True) -> frames.RealizeFrame:
    """A region of a buffer, allocated for what follows."""
    if isinstance(storage_scope, ir.StringImm):
        storage_scope = storage_scope.value
    if storage_scope is not None and not isinstance(storage_scope, str):
        storage_scope, condition = None, storage_scope
    region = _region(buffer_slice, "T.realize")
    return frames.RealizeFrame(region, storage_scope, as_condition(condition, "T.realize"))


def allocate(
    extents: Any, dtype: Any, scope: str = "global", condition: Any = None, annotations: Any = None
) -> frames.AllocateFrame:
    """Memory for `extents` elements of `dtype`."""
    dtype = dtype_from(dtype)
    if not isinstance(scope, str):
        raise TVMagicError("the memory of `T.allocate` is named by a text", code="script.scope_not_a_text")
    var = ir.Var("", ir.PointerType(ir.PrimType(dtype), scope), current_builder().span)
    condition = ir.IntImm(BOOL, 1) if condition is None else as_condition(condition, "T.allocate")
    values = as_mapping(annotations, "annotations") if annotations else None
    return frames.AllocateFrame(var, dtype, make_shape(extents, "list of extents"), condition, values)


def allocate_const(data: Any, dtype: Any, extents: Any, annotations: Any = None) -> frames.AllocateConstFrame:
    """A constant array. `data` is a list or a NumPy array."""
    import numpy as np

    dtype = dtype_from(dtype)
    sizes = make_shape(extents, "list of extents")
    values = as_mapping(annotations, "annotations") if annotations else None
    var = ir.Var("", ir.PointerType(ir.PrimType(dtype), "global"), current_builder().span)
    if isinstance(data, (list, tuple)):
        plain = [getattr(item, "value", item) for item in data]
        try:
            data = np.asarray(plain, dtype=str(dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise TVMagicError(
                f"the data of `T.allocate_const` does not fit `{dtype}`: {error}", code="script.constant_data_differs"
            ) from None
        if all(isinstance(size, ir.IntImm) for size in sizes):
            shape = [int(size) for size in sizes]  # type: ignore[arg-type]
            if data.size != int(np.prod(shape)):
                raise TVMagicError(
                    f"`T.allocate_const` of shape {tuple(shape)} got {data.size} values",
                    code="script.constant_size_differs",
                )
            data = data.reshape(shape)
    return frames.AllocateConstFrame(var, dtype, sizes, data, values)


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> frames.DeclBufferFrame:
    """A buffer over the memory behind `data`, or over new memory."""
    buffer = new_buffer(
        shape,
        dtype,
        data,
        strides,
        elem_offset,
        scope,
        align,
        offset_factor,
        buffer_type,
        axis_separators,
        allocated=data is None,
    )
    return frames.DeclBufferFrame(buffer, data is not None)


def attr(node: Any, attr_key: str, value: Any) -> frames.AttrFrame:
    """The fact `attr_key` of `node`."""
    if isinstance(attr_key, ir.StringImm):
        attr_key = attr_key.value
    if not isinstance(attr_key, str):
        raise TVMagicError("the key of `T.attr` is a text", code="script.attribute_key_not_a_text")
    return frames.AttrFrame(ir.attr_value(as_value(node)), attr_key, as_value(value))


def launch_thread(thread: Any, extent: Any) -> frames.LaunchThreadFrame:
    """The threads of an axis: its name, or a variable from `T.env_thread`."""
    (extent,) = make_shape(extent, "extent of a thread axis")
    if isinstance(thread, str):
        thread = env_thread(thread, extent.dtype)
    function = the_function("T.launch_thread")
    axis = function.env_threads.get(thread) if isinstance(thread, ir.Var) else None
    if axis is None:
        raise TVMagicError(
            "`T.launch_thread` takes the name of a thread axis or a variable from `T.env_thread`",
            code="script.unknown_thread",
        )
    if axis.dom is None:
        axis.dom = ir.Range.from_min_extent(ir.IntImm(extent.dtype, 0), extent)
    elif constant_difference(axis.dom.extent, extent) != 0:
        raise TVMagicError(
            f"the thread axis `{axis.thread_tag}` is launched with two different extents",
            code="script.thread_extents_differ",
        )
    return frames.LaunchThreadFrame(axis, extent)


def env_thread(thread_tag: str, dtype: Any = "int32") -> ir.Var:
    """The variable of a thread axis such as `threadIdx.x`."""
    if not isinstance(thread_tag, str):
        raise TVMagicError(
            "a thread axis is named by a text", hint='such as "threadIdx.x"', code="script.thread_not_a_text"
        )
    var = ir.Var("", dtype_from(dtype), current_builder().span)
    axis = ir.IterVar(None, var, ir.IterVar.ThreadIndex, thread_tag)
    the_function("T.env_thread").env_threads[var] = axis
    return var


def While(condition: Any) -> frames.WhileFrame:
    """A loop that runs while `condition` holds."""
    return frames.WhileFrame(as_condition(condition, "while", or_integer=True))


def If(condition: Any) -> frames.IfFrame:
    """A condition; `T.Then()` and `T.Else()` are inside."""
    return frames.IfFrame(as_condition(condition, "if", or_integer=True))


def Then() -> frames.ThenFrame:
    """What runs where the condition holds."""
    return frames.ThenFrame()


def Else() -> frames.ElseFrame:
    """What runs if the condition does not hold."""
    return frames.ElseFrame()


# ---------------------------------------------------------------------------- statements without a body


def buffer_store(buffer: ir.Buffer, value: Any, indices: Any, predicate: Any = None) -> None:
    """Store `value`, converted to the type that is stored at `indices`."""
    builder = current_builder()
    builder.add(make_store(buffer, value, indices, predicate, builder.span))


def make_store(buffer: Any, value: Any, indices: Any, predicate: Any = None, span: Any = None) -> ir.BufferStore:
    """The store of `value` at `indices`, which may hold slices."""
    if not isinstance(buffer, ir.Buffer):
        raise TVMagicError("only an element of a buffer can be assigned", code="script.store_not_an_element")
    positions = vector_indices(buffer, as_tuple(indices))
    value = as_value(value)
    value = ir.IntImm(BOOL, value) if isinstance(value, bool) and buffer.dtype.is_bool else ir.expr(value)
    dtype = access_dtype(buffer, positions)
    if value.dtype is not dtype:
        if value.dtype.lane_code != dtype.lane_code:
            raise TVMagicError(
                f"a value of type `{value.dtype}` cannot be stored in buffer `{buffer.name}` at a place of type `{dtype}`",
                code="script.store_dtype_differs",
            )
        value = ir.ops.cast(dtype, value)
    return ir.BufferStore(buffer, value, positions, None if predicate is None else as_value(predicate), span)


def evaluate(value: Any) -> None:
    """Compute `value` for its effect."""
    builder = current_builder()
    if isinstance(value, str):
        value = ir.StringImm(value)
    elif isinstance(value, bool):
        value = ir.IntImm(BOOL, value)
    builder.add(ir.Evaluate(as_value(value), builder.span))


def prefetch(buffer: ir.Buffer, bounds: Sequence[Any]) -> None:
    """Fetch the region `bounds` of `buffer` ahead."""
    builder = current_builder()
    builder.add(ir.Prefetch(buffer, [as_domain(b) for b in bounds], builder.span))
