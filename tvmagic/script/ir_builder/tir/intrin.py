"""The operators of the `T` namespace: math, memory, calls, and the nodes under their own names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvmagic.ir as _nodes
from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.script.ir_builder.tir.values import as_value, dtype_from, dtype_function


def _wrap(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` taking regions of buffers as vector loads, and ignoring a `dtype`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("dtype", None)
        for value in args:
            if isinstance(value, ir.BufferRegion):
                return function(*[as_value(a) for a in args], **kwargs)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


_PLAIN = """abs acos acosh asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clz
copysign cos cosh erf exp exp2 exp10 floor ceildiv floordiv floormod fma fmod hypot if_then_else isfinite isinf isnan
isnullptr ldexp likely log log1p log2 log10 nearbyint nextafter popcount pow power ret round rsqrt shift_left
shift_right sigmoid sin sinh sqrt tan tanh trunc truncdiv truncmod assume undef address_of vscale indexdiv
indexmod all any""".split()
_OF_DTYPE = "max_value min_value infinity type_annotation".split()


def _of_dtype(name: str) -> Callable[..., Any]:
    function = getattr(ir.ops, name)

    def call(dtype: Any) -> ir.PrimExpr:
        return function(dtype_from(dtype))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = function.__doc__
    return call


# name: dtype of the result, least and greatest number of arguments
_FIXED: dict[str, tuple[str, int, int | None]] = {
    "tvm_tuple": ("handle", 0, None),
    "tvm_stack_alloca": ("handle", 2, 2),
    "tvm_stack_make_shape": ("handle", 0, None),
    "tvm_stack_make_array": ("handle", 6, 6),
    "tvm_struct_set": ("int32", 4, 4),
    "tvm_storage_sync": ("int32", 1, 3),
    "tvm_warp_activemask": ("uint32", 0, 0),
    "tvm_thread_allreduce": ("handle", 1, None),
    "tvm_load_matrix_sync": ("handle", 8, 8),
    "tvm_mma_sync": ("handle", 8, 8),
    "tvm_bmma_sync": ("handle", 8, 8),
    "tvm_fill_fragment": ("handle", 6, 6),
    "tvm_store_matrix_sync": ("handle", 8, 8),
    "tvm_check_return": ("int32", 3, 3),
    "tvm_throw_last_error": ("handle", 0, 0),
    "tvm_access_ptr": ("handle", 5, 5),
    "lookup_param": ("handle", 1, 1),
    "TVMBackendAllocWorkspace": ("handle", 5, 5),
    "TVMBackendFreeWorkspace": ("int32", 3, 3),
    "start_profile_intrinsic": ("handle", 1, 1),
    "end_profile_intrinsic": ("handle", 1, 1),
    "anylist_getitem": ("handle", 2, 2),
    "anylist_setitem_call_packed": ("int32", 3, None),
    "anylist_setitem_call_cpacked": ("int32", 3, None),
    "q_multiply_shift": ("int32", 4, 4),
    "q_multiply_shift_per_axis": ("int32", 7, 7),
    "ignore_loop_partition": ("bool", 1, 1),
    "tvm_static_handle": ("handle", 0, 0),
    "tvm_call_trace_packed": ("int32", 1, None),
    "tvm_call_trace_packed_lowered": ("int32", 1, None),
    "tvm_context_id": ("handle", 0, 0),
    "tvm_thread_context": ("handle", 1, 1),
    "tvm_global_barrier_kinit": ("int32", 0, 0),
    "masked_store": ("", 3, None),
    "end_of_function": ("", 0, 0),
    "ptx_wait_group": ("", 1, 1),
    "ptx_commit_group": ("", 0, 0),
    "ptx_cp_async_barrier": ("", 1, 1),
    "ptx_init_barrier_thread_count": ("", 2, 2),
    "ptx_arrive_barrier": ("", 1, 1),
    "ptx_arrive_barrier_expect_tx": ("", 2, 2),
    "ptx_wait_barrier": ("", 1, 1),
    "create_barriers": ("", 1, 1),
    "anylist_resetitem": ("int32", 2, 2),
    "make_filled_simdgroup_matrix": ("handle", 5, 5),
    "simdgroup_load": ("handle", 7, 7),
    "simdgroup_store": ("handle", 7, 7),
    "simdgroup_multiply_accumulate": ("handle", 8, 8),
}
# name: the number of arguments, and which of them has the dtype of the result
_OF_ARGUMENT: dict[str, tuple[int, int]] = {
    "atomic_add": (2, 1),
    "checked_index": (5, 0),
    "tvm_thread_invariant": (1, 0),
    "tvm_warp_shuffle": (5, 1),
    "tvm_warp_shuffle_up": (5, 1),
    "tvm_warp_shuffle_down": (5, 1),
}
_PACKED = "call_packed call_cpacked call_packed_lowered call_cpacked_lowered".split()
# name: the number of arguments after the dtype, or None for any
_DTYPE_FIRST: dict[str, int | None] = {
    "ptx_mma": None,
    "ptx_ldmatrix": None,
    "ptx_mma_sp": None,
    "ptx_cp_async": None,
    "ptx_cp_async_bulk": None,
    "ptx_ldg32": None,
    "mma_store": None,
    "mma_fill": None,
    "vectorlow": 1,
    "vectorhigh": 1,
    "vectorcombine": 2,
    "get_active_lane_mask": 2,
    "masked_load": None,
    "call_spirv_pure_glsl450": None,
}


def _check_count(name: str, count: int, least: int, most: int | None) -> None:
    if count < least or (most is not None and count > most):
        wanted = str(least) if most == least else f"{least} or more" if most is None else f"{least} to {most}"
        raise TVMagicError(f"`T.{name}` takes {wanted} arguments, not {count}", code="script.wrong_argument_count")


def _argument(value: Any) -> Any:
    return ir.StringImm(value) if isinstance(value, str) else ir.expr(as_value(value))


def _only_dtype(name: str, options: dict[str, Any]) -> None:
    """Refuse other keywords than `dtype`, which operators of a fixed type accept and do not need."""
    for key in options:
        if key != "dtype":
            raise TVMagicError(f"`T.{name}` has no argument `{key}`", code="script.unknown_argument")


def _fixed(name: str, dtype: str, least: int, most: int | None) -> Callable[..., ir.Call]:
    def call(*args: Any, **options: Any) -> ir.Call:
        _only_dtype(name, options)
        _check_count(name, len(args), least, most)
        return ir.Call(dtype or "void", op, [_argument(a) for a in args])

    op = ir.Op.get(f"tir.{name}")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"A call of `{name}`."
    return call


def _dtype_first(name: str, count: int | None) -> Callable[..., ir.Call]:
    def call(dtype: Any, *args: Any) -> ir.Call:
        _check_count(name, len(args), count or 0, count)
        return ir.Call(dtype_from(dtype), op, [_argument(a) for a in args])

    op = ir.Op.get(f"tir.{name}")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"A call of `{name}` with a result of type `dtype`."
    return _forward_dtype(call)


def _forward_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` taking its first argument, the dtype, also by the keyword `dtype`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if "dtype" in kwargs:
            args = (kwargs.pop("dtype"), *args)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _pack(buffer: ir.Buffer) -> ir.Call:
    """A buffer as an argument of a packed function: a descriptor on the stack."""
    shape = ir.Call("handle", "tir.tvm_stack_make_shape", buffer.shape)
    strides = ir.Call("handle", "tir.tvm_stack_make_shape", buffer.strides) if buffer.strides else 0
    zero = ir.ops.const(0, buffer.dtype)
    args = (buffer.data, shape, strides, len(buffer.shape), zero, buffer.elem_offset)
    return ir.Call("handle", "tir.tvm_stack_make_array", args)


def _packed(name: str) -> Callable[..., ir.Call]:
    op = ir.Op.get(f"tir.tvm_{name}")

    def call(*args: Any, **options: Any) -> ir.Call:
        _only_dtype(name, options)
        _check_count(name, len(args), 1, None)
        return ir.Call("int32", op, [_pack(a) if isinstance(a, ir.Buffer) else _argument(a) for a in args])

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "A call of the registered function named by the first argument."
    return call


def _of_argument(name: str, count: int, which: int) -> Callable[..., ir.Call]:
    op = ir.Op.get(f"tir.{name}")

    def call(*args: Any, **options: Any) -> ir.Call:
        _only_dtype(name, options)
        _check_count(name, len(args), count, count)
        values = [_argument(a) for a in args]
        return ir.Call(values[which].dtype, op, values)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"A call of `{name}`, of the type of its argument {which}."
    return call


def call_extern(dtype: Any, func_name: str, *args: Any) -> ir.Call:
    """A call of the C function `func_name` with a result of type `dtype`."""
    return _named_call("call_extern", dtype, func_name, args)


def call_pure_extern(dtype: Any, func_name: str, *args: Any) -> ir.Call:
    """A call of the C function `func_name`, which has no effect besides its result."""
    return _named_call("call_pure_extern", dtype, func_name, args)


def call_llvm_intrin(dtype: Any, name: str, *args: Any) -> ir.Call:
    """A call of the LLVM intrinsic `name`."""
    return ir.ops.call_llvm_intrin(dtype_from(dtype), name, *[_argument(a) for a in args])


def call_llvm_pure_intrin(dtype: Any, name: str, *args: Any) -> ir.Call:
    """A call of the LLVM intrinsic `name`, which has no effect besides its result."""
    return ir.ops.call_llvm_pure_intrin(dtype_from(dtype), name, *[_argument(a) for a in args])


def _named_call(op: str, dtype: Any, name: Any, args: tuple[Any, ...]) -> ir.Call:
    return ir.Call(dtype_from(dtype), f"tir.{op}", [_argument(a) for a in (name, *args)])


def call_intrin(dtype: Any, func_name: Any, *args: Any) -> ir.Call:
    """A call of the operator `func_name`, such as `tir.exp`."""
    if isinstance(func_name, ir.StringImm):
        func_name = func_name.value
    if isinstance(func_name, str):
        func_name = ir.Op.get(func_name)
    return ir.Call(dtype_from(dtype), func_name, [_argument(a) for a in args])


def call_node(dtype: Any, op: Any, args: Any) -> ir.Call:
    """`T.Call`: the call node itself."""
    return call_intrin(dtype, op, *args)


def reinterpret(dtype: Any, value: Any) -> ir.PrimExpr:
    """The bits of `value` read as `dtype`."""
    return ir.ops.reinterpret(dtype_from(dtype), as_value(value))


def tvm_struct_get(arr: Any, index: Any, field: Any, dtype: Any) -> ir.Call:
    """A field of an array descriptor."""
    return ir.Call(dtype_from(dtype), "tir.tvm_struct_get", [_argument(a) for a in (arr, index, field)])


def large_uint_imm(dtype: Any, low: Any, high: Any) -> ir.Call:
    """An unsigned constant beyond the signed range, by its two halves."""
    return ir.Call(dtype_from(dtype), "tir.large_uint_imm", [_argument(low), _argument(high)])


def dp4a(*args: Any) -> ir.Call:
    """`dp4a(vec1, vec2, acc=0)`: the dot product of four int8 values, added to `acc`.

    A dtype may come first, as TVM prints it.
    """
    dtype = dtype_from(args[0]) if args and isinstance(args[0], str) else None
    rest = args[1:] if dtype is not None else args
    _check_count("dp4a", len(rest), 2, 3)
    return ir.Call(dtype or "int32", "tir.dp4a", [_argument(a) for a in (*rest, *(0,) * (3 - len(rest)))])


def llvm_lookup_intrinsic_id(name: str) -> ir.PrimExpr:
    """The number by which the LLVM at hand knows the intrinsic `name`, such as `llvm.ctpop.i8`; an uint32."""
    return ir.ops.llvm_lookup_intrinsic_id(name)


def truncmod(a: Any, b: Any) -> ir.PrimExpr:
    """The remainder of `truncdiv`, with the sign of `a`; of constants too the node itself, which prints like this."""
    a, b = ir.ops.match_types(ir.expr(as_value(a)), ir.expr(as_value(b)))
    result = ir.ops.truncmod(a, b)  # refuses what are not integers
    return result if isinstance(result, _nodes.Mod) else _nodes.Mod(a, b)


def _operators() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {name: _wrap(getattr(ir.ops, name), name) for name in _PLAIN}
    table["fabs"] = table["abs"]
    table.update({name: _of_dtype(name) for name in _OF_DTYPE})
    table.update({name: _fixed(name, *row) for name, row in _FIXED.items()})
    table.update({name: _of_argument(name, *row) for name, row in _OF_ARGUMENT.items()})
    for name in _PACKED:
        table[name] = table[f"tvm_{name}"] = _packed(name)
    table.update({name: _dtype_first(name, count) for name, count in _DTYPE_FIRST.items()})
    for function in (call_extern, call_pure_extern, call_llvm_intrin, call_llvm_pure_intrin, call_intrin):
        table[function.__name__] = _forward_dtype(function)
    table.update(reinterpret=_forward_dtype(reinterpret), large_uint_imm=_forward_dtype(large_uint_imm))
    table.update(
        tvm_struct_get=tvm_struct_get,
        dp4a=dp4a,
        llvm_lookup_intrinsic_id=llvm_lookup_intrinsic_id,
        truncmod=truncmod,
        Call=call_node,
    )
    return table


_NODE_NAMES = """Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Ramp Broadcast
Shuffle""".split()


def _node(name: str) -> Callable[..., ir.PrimExpr]:
    cls = getattr(_nodes, name)

    def call(*args: Any, **kwargs: Any) -> ir.PrimExpr:
        if any(isinstance(a, (ir.BufferRegion, list, tuple)) for a in args):
            args = tuple([[as_value(v) for v in a] if isinstance(a, (list, tuple)) else as_value(a) for a in args])
        return cls(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = cls.__doc__
    call.__wrapped__ = cls  # type: ignore[attr-defined]
    return call


def registered_operator(name: str) -> Callable[..., ir.Call] | None:
    """The function that calls the operator `tir.<name>`, which a user has registered; None if there is none.

    It takes the operands, and the result's type as `dtype` (by default that of the first operand).
    """
    op = ir.Op.registry.get(f"tir.{name}")
    if op is None:
        return None

    def call(*args: Any, dtype: Any = None) -> ir.Call:
        values = [_argument(a) for a in args]
        return ir.Call(dtype_from(dtype) if dtype else values[0].dtype if values else "void", op, values)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"A call of `{op.name}`."
    return call


def further_name(name: str) -> Callable[..., Any] | None:
    """What `T.<name>` means if it is none of the names listed: a type such as `int32x4`, or a user's operator."""
    return dtype_function(name) or registered_operator(name)


OPERATORS = _operators()
NODES = {name: _node(name) for name in _NODE_NAMES}
