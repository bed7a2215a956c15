"""Checks that `check_bounds` compiles in front of accesses and divisions."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.codegen.text.types import llvm_type

INT64 = ir.DataType("int64")


def check_access(
    context: Any, emitter: Any, node: Any, indices: tuple[ir.PrimExpr, ...], predicate: str | None
) -> None:
    """Stop with a BoundsError where an index of `node` is outside its buffer, or its place outside the memory.

    `indices` are those of `node`, with variables for what is computed already.
    """
    buffer: ir.Buffer = node.buffer
    active = emitter.mask if predicate is None else predicate
    lanes = indices[-1].dtype.lanes if indices else 1
    extents = [_as_int64(emitter, size) for size in buffer.shape]
    memory = None if context.sizes.get(buffer.data) is buffer else memory_size(context, emitter, buffer.data, buffer)
    strided = bool(getattr(context.sizes.get(buffer.data), "strides", ()))
    if strided and len(indices) > 1:  # places of groups of axes, whose sum is checked below
        extents = []
    moved = bool(buffer.strides) or len(indices) != 1 or not _is_zero(buffer.elem_offset)
    before = "0"
    if memory is not None and not moved:
        # the flat size of a strided argument, its first stride times its size, says little of what it spans
        extents[0] = memory if strided else _minimum(emitter, extents[0], memory)
        before = _before(context, emitter, buffer.data) if strided else "0"
    first, last, inside = [], [], "true"
    counted = _from_begin(buffer, indices)
    if all(_is_inside(emitter, index, extent) for index, extent in zip(counted, extents)):
        extents = []
    for index, extent in zip(counted, extents):
        for position, low_values in _index_bounds(emitter, index, active if index.dtype.lanes == lanes else None):
            (first if low_values else last).append(position)
            ok = emitter.out.op(f"icmp ult i64 {_moved(emitter, position, before)}, {extent}")
            inside = ok if inside == "true" else emitter.out.op(f"and i1 {inside}, {ok}")
    if inside != "true":
        inside = _or_idle(emitter, inside, predicate, lanes)
        site = context.site("bounds", node, buffer=buffer, values=(len(first), len(last), len(extents)))
        emitter.fail_unless(inside, site, [*first, *last, *extents])
    if memory is not None and moved:
        _check_place(context, emitter, node, indices, predicate, memory)


def _or_idle(emitter: Any, inside: str, predicate: str | None = None, lanes: int = 1) -> str:
    """Whether an access that is done in the lanes of a mask is `inside`, or is not done as no lane of it is on."""
    if predicate is None:
        predicate, lanes = emitter.mask, emitter.mask_lanes
    if predicate is None:
        return inside
    idle = emitter.out.op(f"xor i1 {emitter.some_lane(predicate, lanes)}, true")
    return emitter.out.op(f"or i1 {inside}, {idle}")


def _is_inside(emitter: Any, index: ir.PrimExpr, extent: str) -> bool:
    """Whether an index is known to be below `extent`, an i64, before the program runs.

    Never of the memory of a strided argument, whose size is computed: there, places may lie before the pointer.
    """
    return extent[0] != "%" and emitter.intervals.inside(index, int(extent))


def _from_begin(buffer: ir.Buffer, indices: tuple[ir.PrimExpr, ...]) -> tuple[ir.PrimExpr, ...]:
    """The indices of an access, counted from the begin of its buffer: a flat one has its offset in it."""
    offset = buffer.elem_offset
    if len(indices) != 1 or buffer.strides or _is_zero(offset):
        return indices
    (index,) = indices
    if isinstance(index, ir.Ramp):
        return (ir.Ramp(index.base - offset, index.stride, index.lanes),)
    return (index - (offset if index.dtype.lanes == 1 else ir.Broadcast(offset, index.dtype.lanes)),)


def _check_place(
    context: Any, emitter: Any, node: Any, indices: tuple[ir.PrimExpr, ...], predicate: str | None, memory: str
) -> None:
    """Stop where the flat place of an access is outside the `memory` elements behind its pointer."""
    index = emitter.flat_index(node.buffer, indices)
    if _is_inside(emitter, index, memory):
        return
    before = _before(context, emitter, node.buffer.data)
    what = f"{'store to' if isinstance(node, ir.BufferStore) else 'load from'} buffer `{node.buffer.name}`"
    for place, _ in _index_bounds(emitter, index, emitter.mask if predicate is None else predicate):
        ok = emitter.out.op(f"icmp ult i64 {_moved(emitter, place, before)}, {memory}")
        ok = _or_idle(emitter, ok, predicate, index.dtype.lanes)
        emitter.fail_unless(ok, context.site("region", node, what), [place, "1", memory])


def check_index(context: Any, emitter: Any, call: Any, value: str) -> None:
    """Stop with a BoundsError where `value`, the index that `call` checks, is outside its dimension."""
    index, size, axis, repeats, what = call.args
    extent = _as_int64(emitter, size)
    active = emitter.mask if index.dtype.lanes == emitter.mask_lanes else None
    ends = [
        place
        for place, _ in _ends_of(
            emitter, emitter.convert(value, index.dtype, INT64.with_lanes(index.dtype.lanes)), index.dtype.lanes, active
        )
    ]
    for place in ends:
        ok = emitter.out.op(f"icmp ult i64 {place}, {extent}")
        if repeats.value:
            ok = emitter.out.op(f"or i1 {ok}, {emitter.out.op(f'icmp eq i64 {extent}, 1')}")
        ok = _or_idle(emitter, ok)
        emitter.fail_unless(ok, context.site("index", call, what.value, values=(int(axis),)), [place, extent])


def check_pointer(context: Any, emitter: Any, call: Any) -> None:
    """Stop where the region that `tvm_access_ptr` hands on goes beyond the memory of its buffer."""
    kind, data, offset, extent, _ = call.args
    memory = memory_size(context, emitter, data, kind, whole_rows=True) if isinstance(data, ir.Var) else None
    if memory is None or offset.dtype.lanes > 1:
        return
    first, count = _as_int64(emitter, offset), _as_int64(emitter, extent)
    place = _moved(emitter, first, _before(context, emitter, data))
    last = emitter.out.op(f"add i64 {place}, {count}")
    parts = [f"icmp sge i64 {place}, 0", f"icmp sge i64 {count}, 0", f"icmp sle i64 {last}, {memory}"]
    inside = "true"
    for part in parts:
        inside = emitter.out.op(f"and i1 {inside}, {emitter.out.op(part)}")
    inside = _or_idle(emitter, inside)
    what = f"a pointer into `{data.name}`"
    emitter.fail_unless(inside, context.site("region", call, what), [first, count, memory])


def _is_zero(value: ir.PrimExpr) -> bool:
    return isinstance(value, ir.IntImm) and value.value == 0


def _as_int64(emitter: Any, value: ir.PrimExpr) -> str:
    return (
        emitter.convert(emitter.visit(value), value.dtype, INT64)
        if not isinstance(value, ir.IntImm)
        else str(value.value)
    )


def _minimum(emitter: Any, a: str, b: str | None) -> str:
    if b is None or a == b:
        return a
    if a[0] != "%" and b[0] != "%":
        return str(min(int(a), int(b)))
    return emitter.intrinsic("smin", INT64, a, b)


def memory_size(context: Any, emitter: Any, data: ir.Var, element: Any, whole_rows: bool = False) -> str | None:
    """How many elements of the dtype of `element` the memory behind `data` holds; None if that is not known.

    `whole_rows`: the last row of a strided buffer counts with what is between it and a next one, as the region that
    `access_ptr` tells of such a buffer does.
    """
    known = context.sizes.get(data)
    if known is None:
        return None
    shape, dtype = (known.shape, known.dtype) if isinstance(known, ir.Buffer) else known
    strides: tuple[ir.PrimExpr, ...] = known.strides if isinstance(known, ir.Buffer) else ()
    if strides and len(strides) == len(shape):
        total = _span(emitter, shape, strides)
        if whole_rows:
            rows = _multiplied(emitter, _as_int64(emitter, shape[0]), _as_int64(emitter, strides[0]))
            total = emitter.intrinsic("smax", INT64, total, rows)
    else:
        total = "1"
        for extent in shape:
            total = _multiplied(emitter, total, _as_int64(emitter, extent))
    if dtype.bytes == element.dtype.bytes:
        return total
    size = _multiplied(emitter, total, str(dtype.bytes))
    if size[0] != "%":
        return str(int(size) // element.dtype.bytes)
    return emitter.out.op(f"udiv i64 {size}, {element.dtype.bytes}")


def _span(emitter: Any, shape: Any, strides: Any) -> str:
    """The number of elements from the first to the last of a strided buffer; 0 if it is empty."""
    total, some = "1", "true"
    for extent, stride in zip(shape, strides):
        size = _as_int64(emitter, extent)
        steps = emitter.intrinsic("abs", INT64, _steps(emitter, size, stride), extra="i1 false")
        total = emitter.out.op(f"add i64 {total}, {steps}")
        some = emitter.out.op(f"and i1 {some}, {emitter.out.op(f'icmp sgt i64 {size}, 0')}")
    return emitter.out.op(f"select i1 {some}, i64 {total}, i64 0")


def _before(context: Any, emitter: Any, data: ir.Var) -> str:
    """How many elements of an argument lie before its pointer: those that strides below 0 lead to."""
    known = context.sizes.get(data)
    total = "0"
    for extent, stride in zip(known.shape, known.strides) if isinstance(known, ir.Buffer) else ():
        if not isinstance(stride, ir.IntImm) or stride.value < 0:
            steps = emitter.intrinsic("smin", INT64, _steps(emitter, _as_int64(emitter, extent), stride), "0")
            total = emitter.out.op(f"sub i64 {total}, {steps}")
    return total


def _moved(emitter: Any, place: str, before: str) -> str:
    """A place counted from the first element in memory, of which `before` are in front of the pointer."""
    return place if before == "0" else emitter.out.op(f"add i64 {place}, {before}")


def _steps(emitter: Any, size: str, stride: ir.PrimExpr) -> str:
    """The elements from the first to the last of a dimension of `size`."""
    return _multiplied(emitter, emitter.out.op(f"sub i64 {size}, 1"), _as_int64(emitter, stride))


def _multiplied(emitter: Any, a: str, b: str) -> str:
    if a[0] != "%" and b[0] != "%":
        return str(int(a) * int(b))
    return emitter.out.op(f"mul i64 {a}, {b}")


def _index_bounds(emitter: Any, index: ir.PrimExpr, active: str | None) -> list[tuple[str, bool]]:
    """The least and the largest position of `index` over its active lanes, as i64."""
    if index.dtype.lanes == 1:
        return [(_as_int64(emitter, index), True)]
    if isinstance(index, ir.Ramp) and active is None:
        base, stride = _as_int64(emitter, index.base), _as_int64(emitter, index.stride)
        reach = emitter.out.op(f"mul i64 {stride}, {index.dtype.lanes - 1}")
        return [(base, True), (emitter.out.op(f"add i64 {base}, {reach}"), False)]
    lanes = index.dtype.lanes
    return _ends_of(emitter, emitter.convert(emitter.visit(index), index.dtype, INT64.with_lanes(lanes)), lanes, active)


def _ends_of(emitter: Any, value: str, lanes: int, active: str | None) -> list[tuple[str, bool]]:
    """The least and the largest of the i64 lanes of `value` that are active."""
    if lanes == 1:
        return [(value, True)]
    kind = llvm_type(INT64.with_lanes(lanes))
    if active is not None:  # an inactive lane counts as 0, which is always inside or never reached
        flags = f"<{lanes} x i1>"
        value = emitter.out.op(f"select {flags} {active}, {kind} {value}, {kind} zeroinitializer")
    result = []
    for word, low in (("smin", True), ("smax", False)):
        name = emitter.context.text.declare(f"llvm.vector.reduce.{word}.v{lanes}i64", "i64", kind)
        result.append((emitter.out.op(f"call i64 {name}({kind} {value})"), low))
    return result


def check_divisor(context: Any, emitter: Any, node: Any, by_zero: str) -> None:
    """Stop where a divisor is zero in a lane that is on."""
    lanes = node.dtype.lane_code
    some = emitter.some_lane(emitter.also_masked(by_zero, lanes), lanes)
    emitter.fail_unless(emitter.out.op(f"xor i1 {some}, true"), context.site("zero", node), [])
