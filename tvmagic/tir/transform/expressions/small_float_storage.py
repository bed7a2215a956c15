"""BF16StorageLegalize and FP8StorageLegalize: memory of small floats holds their bits, as unsigned integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import is_call
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.small_float_legalize import is_bfloat16, is_float8

# ---------------------------------------------------------------------------- bits and numbers


def _format(dtype: ir.DataType) -> tuple[int, int, int]:
    """How many bits the fraction has, the least exponent of a normal number, and the bits of NaN."""
    if dtype.code == "bfloat":
        return 7, -126, 0x7FC0
    return (3, -6, 0x7F) if dtype.code == "e4m3_float" else (2, -14, 0x7E)


def _const(value: float, like: ir.PrimExpr) -> ir.PrimExpr:
    return ir.ops.make_const(like.dtype, value)


def _named(name: str, value: ir.PrimExpr, use: Callable[[ir.Var], ir.PrimExpr]) -> ir.PrimExpr:
    """What `use` makes of `value`, which is computed once."""
    var = ir.Var(name, value.dtype)
    return ir.Let(var, value, use(var))


def number_of(bits: ir.PrimExpr, small: ir.DataType, wanted: ir.DataType) -> ir.PrimExpr:
    """The value, of the type `wanted`, of a small float whose bits are given as an unsigned integer; exact."""
    if small.code == "bfloat":
        word = ir.ops.shift_left(ir.ops.cast(ir.DataType("uint32").with_lanes_of(small), bits), 16)
        return ir.ops.cast(wanted, ir.ops.reinterpret(ir.DataType("float32").with_lanes_of(small), word))
    half = ir.DataType("float16").with_lanes_of(small)
    word = ir.ops.cast(ir.DataType("uint16").with_lanes_of(small), bits)
    if small.code == "e5m2_float":  # the upper half of a float16
        return ir.ops.cast(wanted, ir.ops.reinterpret(half, ir.ops.shift_left(word, 8)))

    def of_e4m3(bits: ir.Var) -> ir.PrimExpr:
        # one bit less of exponent than float16, whose bias is 8 larger; one NaN and no infinity
        magnitude = ir.ops.bitwise_and(bits, 0x7F)
        sign = ir.ops.shift_left(ir.ops.bitwise_and(bits, 0x80), 8)
        scaled = ir.ops.reinterpret(half, ir.ops.bitwise_or(ir.ops.shift_left(magnitude, 7), sign))
        value = scaled * _const(256.0, scaled)
        return ir.Select(magnitude.equal(_const(0x7F, magnitude)), _const(float("nan"), value), value)

    return ir.ops.cast(wanted, _named("bits", word, of_e4m3))


def bits_of(value: ir.PrimExpr, small: ir.DataType) -> ir.PrimExpr:
    """The bits of the small float nearest to `value`, to even on a tie, as an unsigned integer.

    What is too large becomes infinity, or NaN in e4m3, which has none.
    """
    wide = ir.DataType("uint32").with_lanes_of(small)

    def signed(word: ir.Var) -> ir.PrimExpr:
        sign = ir.ops.shift_right(ir.ops.bitwise_and(word, 0x80000000), 32 - small.bits)
        magnitude = ir.ops.bitwise_and(word, 0x7FFFFFFF)
        return ir.ops.bitwise_or(_named("magnitude", magnitude, lambda m: _rounded(m, small)), sign)

    word = ir.ops.reinterpret(wide, ir.ops.cast(ir.DataType("float32").with_lanes_of(small), value))
    return ir.ops.cast(bits_type(small), _named("word", word, signed))


def _rounded(magnitude: ir.Var, small: ir.DataType) -> ir.PrimExpr:
    """The bits of a small float, without sign, from those of a float32."""
    fraction, least, nan = _format(small)
    dropped = 23 - fraction
    # 1. A normal number: drop the lowest bits of the fraction; a carry goes into the exponent.
    odd = ir.ops.bitwise_and(ir.ops.shift_right(magnitude, dropped), 1)
    result = ir.ops.shift_right(magnitude + _const((1 << (dropped - 1)) - 1, magnitude) + odd, dropped)
    # 2. Less than the least normal number: a multiple of the least number there is.
    if least > -126:
        normal = result - _const((127 + least - 1) << fraction, magnitude)
        single = ir.ops.reinterpret(ir.DataType("float32").with_lanes_of(small), magnitude)
        units = ir.ops.nearbyint(single * _const(2.0 ** (fraction - least), single))
        tiny = magnitude < _const((127 + least) << 23, magnitude)
        result = ir.Select(tiny, ir.ops.cast(magnitude.dtype, units), normal)
    # 3. Too large, or no number at all.
    limit = _const(nan if small.code == "e4m3_float" else _infinity(small), magnitude)
    result = _named("rounded", result, lambda r: ir.Select(r >= limit, limit, r))
    return ir.Select(magnitude > _const(0x7F800000, magnitude), _const(nan, magnitude), result)


def constant_bits(value: float, small: ir.DataType) -> int:
    """The bits of the small float nearest to a number, as `bits_of` has them."""
    fraction, least, nan = _format(small)
    sign = 1 << (small.bits - 1) if math.copysign(1.0, value) < 0 else 0
    if not value or math.isnan(value):
        return sign | (nan if value else 0)
    limit = nan if small.code == "e4m3_float" else _infinity(small)
    if math.isinf(value):
        return sign | limit
    exponent = max(math.frexp(value)[1] - 1, least)
    units = round(math.ldexp(abs(value), fraction - exponent))  # to even on a tie; a carry goes into the exponent
    return sign | min(((exponent - least) << fraction) + units, limit)


def _infinity(small: ir.DataType) -> int:
    fraction, _, _ = _format(small)
    exponents = small.bits - 1 - fraction
    return ((1 << exponents) - 1) << fraction


def bits_type(small: ir.DataType) -> ir.DataType:
    """The unsigned integers of a small float's width."""
    return ir.DataType(f"uint{small.bits}").with_lanes_of(small)


# ---------------------------------------------------------------------------- programs


_HELD = (ir.Var, ir.FloatImm, ir.BufferLoad, ir.Cast, ir.Broadcast, ir.Select, ir.Shuffle)
_HANDED_ON = ("tir.if_then_else", "tir.likely", "tir.reinterpret")


def _is_held(node: ir.PrimExpr) -> bool:
    """Whether an expression hands a value on, or converts it, and does not compute."""
    return isinstance(node, _HELD) or any(is_call(node, name) for name in _HANDED_ON)


class _Storage(ir.BufferRemapper):
    """An expression of a small type becomes that of its bits."""

    def __init__(self, small: Callable[[ir.DataType], bool], compute: str) -> None:
        super().__init__()
        self.small, self.compute = small, compute
        self.vars: dict[ir.Var, ir.Var] = {}

    def visit(self, node: Any) -> Any:
        if isinstance(node, ir.PrimExpr) and self.small(node.dtype) and not _is_held(node):
            raise TVMagicError(
                f"`{node}` computes in `{node.dtype}`, which only memory may hold",
                node=node,
                hint=f"run {self.compute} first",
                code="tir.small_float_storage.not_legalized",
            )
        return super().visit(node)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.Var:
        kind = var.type_annotation
        if isinstance(kind, ir.PointerType) and isinstance(kind.element_type, ir.PrimType):
            element = kind.element_type.dtype
            if self.small(element) and var not in self.vars:
                pointer = ir.PointerType(ir.PrimType(bits_type(element)), kind.storage_scope)
                self.vars[var] = ir.Var(var.name, pointer, var.span)
        elif self.small(var.dtype) and var not in self.vars:
            self.vars[var] = var.copy_with_dtype(bits_type(var.dtype))
        return self.vars.get(var, var)

    def remap(self, buffer: ir.Buffer) -> ir.Buffer:
        new = super().remap(buffer)
        return new.replace(dtype=bits_type(buffer.dtype)) if self.small(buffer.dtype) else new

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        new = self.visit_children(node)
        return ir.BufferLoad(new.buffer, new.indices, new.predicate, node.span) if self.small(node.dtype) else new

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        new = self.visit_children(node)
        new = new.replace(buffer_var=self.var(node.buffer_var)) if new.buffer_var is node.buffer_var else new
        return new.replace(dtype=bits_type(node.dtype)) if self.small(node.dtype) else new

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> ir.PrimExpr:
        value = self.visit(node.value)
        if self.small(node.value.dtype):
            value = number_of(value, node.value.dtype, node.dtype)
        if self.small(node.dtype):
            return bits_of(value, node.dtype)
        return value if value.dtype is node.dtype else node.with_(value=value)

    @ir.handles(ir.FloatImm)
    def constant(self, node: ir.FloatImm) -> ir.PrimExpr:
        if not self.small(node.dtype):
            return node
        return ir.IntImm(bits_type(node.dtype), constant_bits(float(node.value), node.dtype), node.span)

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> ir.PrimExpr:
        value = self.visit(node.value)
        return node if value is node.value else ir.Broadcast(value, node.lanes, node.span)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        new = self.visit_children(node)
        return ir.Select(new.condition, new.true_value, new.false_value, node.span) if self.small(node.dtype) else new

    @ir.handles(ir.Shuffle)
    def shuffle(self, node: ir.Shuffle) -> ir.PrimExpr:
        new = self.visit_children(node)
        return ir.Shuffle(new.vectors, new.indices, node.span) if self.small(node.dtype) else new

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if is_call(node, "tir.reinterpret"):
            value = self.visit(node.args[0])
            dtype = bits_type(node.dtype) if self.small(node.dtype) else node.dtype
            return ir.ops.reinterpret(dtype, value)
        new = self.visit_children(node)
        return ir.Call(bits_type(node.dtype), new.op, new.args, node.span) if self.small(node.dtype) else new


def _legalized(func: ir.PrimFunc, small: Callable[[ir.DataType], bool], compute: str) -> ir.PrimFunc:
    change = _Storage(small, compute)
    params = [change.var(p) for p in func.params]
    buffers = {
        q: change.visit_buffer_def(func.buffer_map[p]) for p, q in zip(func.params, params) if p in func.buffer_map
    }
    body = change.visit(func.body)
    if all(a is b for a, b in zip(params, func.params)) and body is func.body:
        if all(buffers[p] is func.buffer_map[p] for p in buffers):
            return func
    return func.replace(params=tuple(params), buffer_map=buffers, body=body)


@tir_pass("tir.BF16StorageLegalize")
def BF16StorageLegalize(func: ir.PrimFunc) -> ir.PrimFunc:
    """Keep bfloat16 in memory as uint16; conversions become operations on bits. BF16ComputeLegalize comes first."""
    return _legalized(func, is_bfloat16, "BF16ComputeLegalize")


@tir_pass("tir.FP8StorageLegalize")
def FP8StorageLegalize(func: ir.PrimFunc) -> ir.PrimFunc:
    """Keep floats of 8 bits in memory as uint8; conversions become operations on bits. FP8ComputeLegalize comes first.

    A machine without such floats runs what comes out: the function's parameters are arrays of uint8.
    """
    return _legalized(func, is_float8, "FP8ComputeLegalize")
