"""Checks that `check_bounds` compiles in front of accesses and divisions."""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.types import llvm_type
from tvmagic.ir import Buffer, DataType, IntImm, PrimExpr, Ramp

__all__ = ["check_access", "check_divisor"]

INT64 = DataType("int64")


def check_access(context: Any, emitter: Any, node: Any, predicate: str | None) -> None:
    """Stop with a BoundsError where an index of `node` is outside its buffer."""
    buffer: Buffer = node.buffer
    if emitter.void:
        return
    active = emitter.mask if predicate is None else predicate
    lanes = node.indices[-1].dtype.lanes if node.indices else 1
    extents = [_wide(emitter, size) for size in buffer.shape]
    if len(node.indices) == 1:
        extents[0] = _least(emitter, extents[0], _real_size(context, emitter, buffer))
    first, last, inside = [], [], "true"
    for index, extent in zip(node.indices, extents):
        for position, low_values in _ends(emitter, index, active if index.dtype.lanes == lanes > 1 else None):
            (first if low_values else last).append(position)
            ok = emitter.out.op(f"icmp ult i64 {position}, {extent}")
            inside = ok if inside == "true" else emitter.out.op(f"and i1 {inside}, {ok}")
    if inside == "true":
        return
    site = context.site("bounds", node, buffer=buffer, values=(len(first), len(last), len(extents)))
    emitter.fail_unless(inside, site, [*first, *last, *extents])


def _wide(emitter: Any, value: PrimExpr) -> str:
    return (
        emitter.convert(emitter.visit(value), value.dtype, INT64) if not isinstance(value, IntImm) else str(value.value)
    )


def _least(emitter: Any, a: str, b: str | None) -> str:
    if b is None or a == b:
        return a
    if a[0] != "%" and b[0] != "%":
        return str(min(int(a), int(b)))
    return emitter.intrinsic("smin", INT64, a, b)


def _real_size(context: Any, emitter: Any, buffer: Buffer) -> str | None:
    """How many elements of `buffer` the memory behind its pointer really holds."""
    known = context.sizes.get(buffer.data)
    if known is None or known is buffer or not isinstance(buffer.elem_offset, IntImm) or buffer.elem_offset.value:
        return None
    shape, dtype = (known.shape, known.dtype) if isinstance(known, Buffer) else known
    if isinstance(known, Buffer) and known.strides:
        return None
    total = "1"
    for extent in shape:
        size = _wide(emitter, extent)
        constant = total[0] != "%" and size[0] != "%"
        total = str(int(total) * int(size)) if constant else emitter.out.op(f"mul i64 {total}, {size}")
    if dtype.bytes == buffer.dtype.bytes:
        return total
    if total[0] != "%":
        return str(int(total) * dtype.bytes // buffer.dtype.bytes)
    size = emitter.out.op(f"mul i64 {total}, {dtype.bytes}")
    return emitter.out.op(f"udiv i64 {size}, {buffer.dtype.bytes}")


def _ends(emitter: Any, index: PrimExpr, active: str | None) -> list[tuple[str, bool]]:
    """The least and the largest position of `index` over its active lanes, as i64."""
    if index.dtype.lanes == 1:
        return [(_wide(emitter, index), True)]
    if isinstance(index, Ramp) and active is None:
        base, stride = _wide(emitter, index.base), _wide(emitter, index.stride)
        reach = emitter.out.op(f"mul i64 {stride}, {index.lanes - 1}")
        return [(base, True), (emitter.out.op(f"add i64 {base}, {reach}"), False)]
    wide = INT64.with_lanes(index.dtype.lanes)
    vector = emitter.convert(emitter.visit(index), index.dtype, wide)
    result = []
    for word, low, neutral in (("smin", True, (1 << 63) - 1), ("smax", False, -(1 << 63))):
        lanes = vector
        if active is not None:  # an inactive lane stands at 0, which is always inside or never reached
            flags = f"<{index.dtype.lanes} x i1>"
            lanes = emitter.out.op(
                f"select {flags} {active}, {llvm_type(wide)} {vector}, {llvm_type(wide)} zeroinitializer"
            )
        name = emitter.context.text.declare(
            f"llvm.vector.reduce.{word}.v{index.dtype.lanes}i64", "i64", llvm_type(wide)
        )
        result.append((emitter.out.op(f"call i64 {name}({llvm_type(wide)} {lanes})"), low))
    return result


def check_divisor(context: Any, emitter: Any, node: Any, by_zero: str) -> None:
    """Stop where a divisor is zero."""
    lanes = node.dtype.lanes
    if emitter.void or emitter.mask is not None:
        return
    if lanes > 1:
        name = context.text.declare(f"llvm.vector.reduce.or.v{lanes}i1", "i1", f"<{lanes} x i1>")
        by_zero = emitter.out.op(f"call i1 {name}(<{lanes} x i1> {by_zero})")
    emitter.fail_unless(emitter.out.op(f"xor i1 {by_zero}, true"), context.site("zero", node), [])
