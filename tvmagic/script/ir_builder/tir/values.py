"""What stands for values in a function: dtypes, pointers, buffers, reducers, nodes by their names."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tvmagic import ir
from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError
from tvmagic.ir.dtype import integer_limits
from tvmagic.ir.operators import vscale_factor
from tvmagic.script.ir_builder.tir.extent import constant_difference, difference

# ---------------------------------------------------------------------------- dtypes

_SPECIAL_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class DTypeFunction:
    """`T.float32`: called with a value it converts, called without one it is a new variable."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: ir.DataType) -> None:
        self.dtype = dtype

    def __call__(self, expr: Any = None, *, is_size_var: bool = False) -> ir.PrimExpr:
        dtype = self.dtype
        if expr is None:
            return ir.SizeVar("v", dtype) if is_size_var else ir.Var("v", dtype)
        if isinstance(expr, str):
            if expr not in _SPECIAL_FLOATS:
                raise TVMagicError(
                    f'`"{expr}"` is not a number',
                    hint='the texts are "inf", "-inf" and "nan"',
                    code="script.not_a_number",
                )
            if not dtype.is_float:
                raise TVMagicError(f'the type `{dtype}` has no value "{expr}"', code="script.no_such_value")
            return ir.ops.const(_SPECIAL_FLOATS[expr], dtype)
        if type(expr) is int or type(expr) is float:
            _check_literal(expr, dtype.element_of)
            if type(expr) is int and not dtype.is_handle and dtype.code != "void":
                return ir.ops.make_const(dtype, expr)
            if dtype.is_float and dtype.lanes == 1:  # not by way of float32, which holds fewer numbers
                return ir.ops.const(expr, dtype)
        return ir.ops.cast(dtype, as_value(expr))

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


def _check_literal(value: int | float, dtype: ir.DataType) -> None:
    """Refuse a number that a type does not hold."""
    if dtype.is_int or dtype.is_uint:
        low, high = integer_limits(dtype)
        fits = low <= value <= high
    else:
        fits = not dtype.is_float or not math.isfinite(value) or abs(value) <= _greatest(dtype)
    if not fits:
        raise TVMagicError(f"the literal {value} does not fit into `{dtype}`", code="script.literal_does_not_fit")


@cache
def _greatest(dtype: ir.DataType) -> float:
    return ir.ops.max_value(dtype).value  # type: ignore[attr-defined]


class HandleFunction:
    """`T.handle`: a new pointer variable; `T.handle("float32", "shared")` says to what and where."""

    __slots__ = ()

    def __call__(
        self, dtype: Any = None, storage_scope: str = "global", *, is_size_var: bool = False
    ) -> ir.PrimExpr | ir.Var:
        if dtype is None and storage_scope == "global":
            return ir.Var("v", "handle")
        if isinstance(dtype, (ir.PrimExpr, int)) and not isinstance(dtype, bool):
            return ir.ops.cast("handle", dtype)
        if not isinstance(storage_scope, str):
            raise TVMagicError("the memory of `T.handle` is named by a text", code="script.scope_not_a_text")
        return ir.Var("v", ir.PointerType(ir.PrimType(dtype_from(dtype or "void")), storage_scope))

    def __repr__(self) -> str:
        return "T.handle"


handle = HandleFunction()
SCALAR_DTYPES = """int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16 e4m3_float8
e5m2_float8 bool void""".split()
_TYPE_HEADS = frozenset("int uint float bfloat e4m3_float e5m2_float bool void handle".split())
_dtype_functions: dict[str, DTypeFunction] = {}


def dtype_function(name: str) -> DTypeFunction | None:
    """The function called like a dtype (`int32x4`), or None if `name` is not a dtype."""
    found = _dtype_functions.get(name)
    if found is None:
        head = name.split("x")[0].rstrip("0123456789")
        if head not in _TYPE_HEADS or head == name == "int":
            return None
        try:
            dtype = ir.DataType(name)
        except TVMagicError:
            return None
        if dtype != name or not _is_sound(dtype):
            return None
        found = _dtype_functions[name] = DTypeFunction(dtype)
    return found


def _is_sound(dtype: ir.DataType) -> bool:
    bits = {"int": (1, 2, 4, 8, 16, 32, 64), "float": (16, 32, 64), "bfloat": (16,)}
    bits["uint"] = bits["int"]
    return dtype.bits in bits.get(dtype.code, (dtype.bits,)) and dtype.lane_code != 0


def dtype_from(value: Any) -> ir.DataType:
    """A dtype as a user names it: a text, or `T.float32`."""
    if isinstance(value, DTypeFunction):
        return value.dtype
    if isinstance(value, HandleFunction):
        return ir.DataType("handle")
    if isinstance(value, ir.StringImm):
        value = value.value
    if not isinstance(value, str) and not (isinstance(value, type) or type(value).__module__ == "numpy"):
        raise TVMagicError(
            f"`{_show(value)}` is not a data type",
            hint='write it as a text such as "float32"',
            code="script.unknown_dtype",
        )
    dtype = ir.dtype_of(value)
    if not _is_sound(dtype):
        raise TVMagicError(
            f"`{value}` is not a data type",
            hint="write a name such as float32, int8x16 or bool",
            code="script.unknown_dtype",
        )
    return dtype


def _show(value: Any) -> str:
    try:
        text = type(value).__name__ if isinstance(value, (ir.Buffer, ir.BufferRegion)) else str(value)
    except Exception:
        text = type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."


def type_from(value: Any) -> ir.Type:
    """A type as a user names it: a Type, `T.int32`, or a text."""
    if value is None:
        return ir.TupleType()
    if isinstance(value, ir.Type):
        return value
    if isinstance(value, (HandleFunction, DTypeFunction)):
        value = value()
    if isinstance(value, ir.Var):
        return value.type_annotation
    return ir.PrimType(dtype_from(value))


def tuple_type(*fields: Any) -> ir.TupleType:
    """`T.Tuple(T.int32, T.handle)`: several types."""
    return ir.TupleType([type_from(field) for field in fields])


# ---------------------------------------------------------------------------- buffers


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One value or several as a tuple."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def make_shape(shape: Any, what: str = "shape") -> tuple[ir.PrimExpr, ...]:
    """A shape of expressions; every size is an integer."""
    sizes = []
    for size in as_tuple(shape):
        size = ir.expr(as_value(size))
        if not (size.dtype.is_int or size.dtype.is_uint) or isinstance(size, ir.StringImm):
            raise TVMagicError(f"a {what} consists of integers, not of `{size.dtype}`", code="script.shape_not_integer")
        sizes.append(size)
    return tuple(sizes)


def _strides(strides: Any, shape: tuple[ir.PrimExpr, ...], matched: bool) -> tuple[ir.PrimExpr, ...]:
    if strides is None:
        return ()
    dtype = shape[0].dtype if matched and shape else ir.DataType("int32")
    named = [ir.Var(s, dtype) if isinstance(s, str) else s for s in as_tuple(strides)]
    return make_shape(named, "list of strides")


def new_buffer(
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
    *,
    matched: bool = False,
    allocated: bool = False,
) -> ir.Buffer:
    """A new buffer without a name, as TVMScript's `T.Buffer` makes it.

    One that matches others gets what is left open from them: its strides may have names, and its offset is a variable if
    only `offset_factor` is given. One that is allocated begins with its memory.
    """
    sizes, dtype = make_shape(shape), dtype_from(dtype)
    if buffer_type not in ("", "auto", "default"):
        raise TVMagicError(
            f"`{buffer_type}` is not a kind of buffer",
            hint='the kinds are "default" and "auto"',
            code="script.unknown_buffer_kind",
        )
    if not isinstance(scope, str):
        raise TVMagicError("the memory of a buffer (`scope`) is named by a text", code="script.scope_not_a_text")
    if data is None:
        data = ir.data_pointer("", dtype, scope)
    elif not isinstance(data, ir.Var) or not data.dtype.is_handle:
        raise TVMagicError(
            "the `data` of a buffer is a pointer variable",
            hint="such as `A.data` or `T.handle()`",
            code="script.data_not_a_pointer",
        )
    if elem_offset is None and offset_factor and not allocated:
        elem_offset = ir.Var("elem_offset", sizes[0].dtype if sizes else "int32")
    elif isinstance(elem_offset, str):
        elem_offset = ir.Var(elem_offset, "int32")
    separators = make_shape(axis_separators, "list of axis separators") if axis_separators else ()
    return ir.Buffer(
        data,
        dtype,
        sizes,
        _strides(strides, sizes, matched),
        None if elem_offset is None else make_shape(elem_offset, "offset")[0],
        "",
        _plain_int(align, "align"),
        _plain_int(offset_factor, "offset_factor"),
        "" if buffer_type == "default" else buffer_type,
        separators,
    )


def _plain_int(value: Any, name: str) -> int:
    if isinstance(value, (int, ir.IntImm)):
        return int(value)
    raise TVMagicError(f"`{name}` is an integer constant", code="script.not_an_integer_constant")


class BufferFunction:
    """`T.Buffer`: a buffer as an annotation of a parameter, or as a declared value."""

    __slots__ = ()

    def __call__(
        self,
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
    ) -> ir.Buffer:
        return new_buffer(
            shape, dtype, data, strides, elem_offset, scope, align, offset_factor, buffer_type, axis_separators
        )

    def __getitem__(self, keys: Any) -> ir.Buffer:
        """`T.Buffer[shape, dtype]`, the old form."""
        if not isinstance(keys, tuple):
            return self(keys)
        if len(keys) >= 2 and not isinstance(keys[1], (str, DTypeFunction)):
            return self(keys)
        return self(*keys)

    def __repr__(self) -> str:
        return "T.Buffer"


buffer = BufferFunction()


class PointerFunction:
    """`T.Ptr(T.float32)`, `T.Ptr["float32"]`: a pointer parameter."""

    __slots__ = ()

    def __call__(self, dtype: Any, storage_scope: str = "global") -> ir.Var:
        return ir.Var("v", ir.PointerType(type_from(dtype), storage_scope))

    def __getitem__(self, keys: Any) -> ir.Var:
        return self(*as_tuple(keys))


ptr = PointerFunction()


def region_of(buffer: ir.Buffer, indices: Sequence[Any]) -> ir.BufferRegion:
    """The region that slices and indices name."""
    _check_rank(buffer, indices)
    ranges = []
    for axis, index in enumerate(indices):
        if not isinstance(index, slice):
            index = ir.expr(as_value(index))
            ranges.append(ir.Range.from_min_extent(index, ir.IntImm(index.dtype.element_of, 1)))
            continue
        start = ir.expr(as_value(0 if index.start is None else index.start))
        stop = ir.expr(as_value(buffer.shape[axis] if index.stop is None else index.stop))
        if index.start is None and isinstance(start, ir.IntImm):
            start = ir.IntImm(stop.dtype, 0)
        ranges.append(ir.Range.from_min_extent(start, difference(stop, start)))
    return ir.BufferRegion(buffer, ranges)


def _check_rank(buffer: ir.Buffer, indices: Sequence[Any]) -> None:
    if len(indices) != len(buffer.shape):
        raise TVMagicError(
            f"buffer `{buffer.name}` has {len(buffer.shape)} dimensions, the access has {len(indices)} indices",
            code="script.wrong_index_count",
        )


def vector_indices(buffer: ir.Buffer, indices: Sequence[Any]) -> tuple[ir.PrimExpr, ...]:
    """Indices with slices as ramps: `start:stop` and `start:stop:step`."""
    _check_rank(buffer, indices)
    result: list[ir.PrimExpr] = []
    for axis, index in enumerate(indices):
        if not isinstance(index, slice):
            result.append(ir.expr(as_value(index)))
            continue
        start = ir.expr(as_value(0 if index.start is None else index.start))
        stop = as_value(buffer.shape[axis] if index.stop is None else index.stop)
        step = 1 if index.step is None else index.step
        if not isinstance(step, (int, ir.IntImm)) or int(step) == 0:
            raise TVMagicError(
                "the step of a vector access is an integer constant other than 0", code="script.wrong_vector_step"
            )
        result.append(_ramp(buffer, start, stop, int(step)))
    return tuple(result)


def _ramp(buffer: ir.Buffer, start: ir.PrimExpr, stop: Any, step: int) -> ir.PrimExpr:
    distance = constant_difference(stop, start)
    if distance is None:
        simplified = difference(stop, start)
        if step == 1 and vscale_factor(simplified) is not None:
            return ir.Ramp(start, ir.IntImm(start.dtype, 1), simplified)
        if not isinstance(simplified, ir.IntImm):
            raise TVMagicError(
                f"a vector access of buffer `{buffer.name}` needs a constant number of lanes",
                code="script.lanes_not_constant",
            )
        distance = simplified.value
    lanes = -(-distance // step)  # rounded up, whatever the sign of the step
    if lanes < 1:
        raise TVMagicError(
            f"a vector access of buffer `{buffer.name}` has one lane or more, not {lanes}",
            code="script.wrong_lane_count",
        )
    return start if lanes == 1 else ir.Ramp(start, ir.IntImm(start.dtype, step), lanes)


def as_value(value: Any) -> Any:
    """`value`; a region of a buffer becomes the (vector) load of it."""
    if not isinstance(value, ir.BufferRegion):
        return value
    indices = []
    for r in value.region:
        if not isinstance(r.extent, ir.IntImm) and vscale_factor(r.extent) is None:
            raise TVMagicError(
                f"a region of buffer `{value.buffer.name}` of unknown size cannot be loaded",
                hint="give the slice constant ends, or ends that differ by a constant",
                code="script.region_of_unknown_size",
            )
        indices.append(r.min if r.extent == 1 else ir.Ramp(r.min, ir.IntImm(r.min.dtype, 1), r.extent, value.span))
    return ir.BufferLoad(value.buffer, indices, None, value.span)


# ---------------------------------------------------------------------------- nodes


boolean = dtype_function("bool")  # another name of `T.bool`


def cast(value: Any, dtype: Any) -> ir.PrimExpr:
    """`value` converted to `dtype`; constants at once."""
    return ir.ops.cast(dtype_from(dtype), as_value(value))


def make_cast(dtype: Any, value: Any) -> ir.Cast:
    """`T.Cast`: the conversion node itself; constants too stay under it."""
    return ir.Cast(dtype_from(dtype), as_value(value))


def const(value: Any, dtype: Any = None) -> ir.PrimExpr:
    """A constant."""
    return ir.ops.const(value, None if dtype is None else dtype_from(dtype))


def make_let(expr: Any, where: Mapping[ir.Var, Any]) -> ir.Let:
    """`T.Let(body, where={var: value})`: `body` with `var` standing for `value`."""
    if not isinstance(where, Mapping) or len(where) != 1:
        raise TVMagicError(
            "`T.Let` takes one variable with its value in `where`",
            hint="write `where={x: value}`",
            code="script.wrong_let",
        )
    ((var, value),) = where.items()
    if not isinstance(var, ir.Var):
        raise TVMagicError("`T.Let` binds a variable", code="script.let_not_a_variable")
    return ir.Let(var, as_value(value), as_value(expr))


def minimum(a: Any, b: Any, *others: Any) -> ir.PrimExpr:
    """The smallest of two or more values."""
    return functools.reduce(ir.ops.minimum, [as_value(value) for value in (a, b, *others)])


def maximum(a: Any, b: Any, *others: Any) -> ir.PrimExpr:
    """The largest of two or more values."""
    return functools.reduce(ir.ops.maximum, [as_value(value) for value in (a, b, *others)])


def make_range(begin: Any, end: Any = None) -> ir.Range:
    """`T.Range(begin, end)`: the integers from `begin` to `end`, the end left out."""
    return ir.Range(begin, end)


_ITER_TYPES = (
    "DataPar ThreadIndex CommReduce Ordered DimInfo Opaque Unrolled Vectorized Parallelized Tensorized".split()
)


def iter_var(v: Any, dom: Any, iter_type: str, thread_tag: str = "") -> ir.IterVar:
    """An iteration variable: `v` over `dom` (a Range, a pair of ends or None) of a named kind."""
    if iter_type not in _ITER_TYPES:
        raise TVMagicError(
            f"`{iter_type}` is not a kind of iteration variable",
            hint="the kinds are " + ", ".join(_ITER_TYPES),
            code="script.unknown_iter_var_kind",
        )
    return ir.IterVar(dom, v, getattr(ir.IterVar, iter_type), thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> ir.CommReducer:
    """A commutative reducer from `lambda x, y: ...` and its neutral elements."""
    elements = [ir.convert(value) for value in as_tuple(identity)]
    names = parameter_names(combiner, "T.comm_reducer")
    if len(names) != 2 * len(elements):
        raise TVMagicError(
            f"a reducer of {len(elements)} values takes {2 * len(elements)} parameters, not {len(names)}",
            code="script.wrong_reducer",
        )
    args = [ir.Var(name, value.dtype) for name, value in zip(names, elements + elements)]
    result = [ir.expr(as_value(value)) for value in as_tuple(combiner(*args))]
    half = len(elements)
    return ir.CommReducer(args[:half], args[half:], result, elements)


def reduce(
    combiner: ir.CommReducer, source: Any, init: Any, axis: Any, condition: Any = True, value_index: int = 0
) -> ir.Reduce:
    """`T.reduce`: the reduction node."""
    return ir.Reduce(combiner, [as_value(s) for s in as_tuple(source)], axis, condition, value_index, init or ())


def parameter_names(function: Any, name: str) -> list[str]:
    """The names of the parameters of a function that a user gives to `name`."""
    names = getattr(function, "parameter_names", None)
    if names is not None:
        return list(names)
    if not callable(function):
        raise TVMagicError(f"`{name}` takes a function, such as `lambda x, y: x + y`", code="script.not_a_function")
    return list(inspect.signature(function).parameters)


def index_map(mapping: Callable[..., Any], *, inverse_index_map: Any = None, index_dtype: str = "int64") -> Any:
    """An index map from `lambda i, j: [...]`."""
    return IndexMap.from_func(mapping, inverse_index_map=inverse_index_map, index_dtype=index_dtype)


def target(target_config: Any, host: Any = None) -> Any:
    """A target from its name or its options."""
    from tvmagic.target import Target

    return Target(target_config) if host is None else Target(target_config, host)


def buffer_var(dtype: Any, storage_scope: str = "global") -> ir.Var:
    """A new pointer to elements of `dtype`."""
    return ir.Var("v", ir.PointerType(type_from(dtype), storage_scope))


def var(dtype: Any, name: str = "") -> ir.Var:
    """A new variable."""
    return ir.Var(name, dtype_from(dtype))


class meta_var:
    """`T.meta_var(value)`: a value that is only a name in the script, not a variable of the program."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __iter__(self) -> Any:
        return (meta_var(item) for item in self.value)
