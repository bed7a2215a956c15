"""Conversions between dtypes, as C and NumPy convert: one table from families of dtypes to rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.codegen.text.types import constant, llvm_type
from tvmagic.ir import DataType
from tvmagic.ir.dtype import integer_limits


def family(dtype: DataType) -> str:
    if dtype.is_bool:
        return "bool"
    return "float" if dtype.is_float else "handle" if dtype.is_handle else "int"


Conversion = Callable[[Any, str, DataType, DataType], str]


def _to(word: str, emitter: Any, value: str, source: DataType, target: DataType) -> str:
    return emitter.out.op(f"{word} {llvm_type(source)} {value} to {llvm_type(target)}")


def _int_to_int(emitter: Any, value: str, source: DataType, target: DataType) -> str:
    if source.bits == target.bits:
        return value
    if source.bits > target.bits:
        return _to("trunc", emitter, value, source, target)
    return _to("sext" if source.is_int else "zext", emitter, value, source, target)


def _float_to_int(emitter: Any, value: str, source: DataType, target: DataType) -> str:
    # C leaves open what lies outside the target's range, and every machine has its own answer. Here it is the nearest
    # end, and 0 for NaN, on all of them (`ir/semantics.py`).
    if source.bits == 16:
        wide = DataType("float32").with_lanes_of(source)
        value, source = emitter.convert(value, source, wide), wide
    low, high = integer_limits(target)
    exact = target.bits < (32 if source.bits == 32 else 64)  # whether a float is both of the ends
    return (_clamped if exact else _chosen)(emitter, value, source, target, low, high)


def _clamped(emitter: Any, value: str, source: DataType, target: DataType, low: int, high: int) -> str:
    """The integer part of a float that is first moved to the nearest end, which is a float.

    LLVM makes no vectors of its own instructions that do so.
    """
    out, f, flags = emitter.out, llvm_type(source), emitter.condition_type(source)
    for word, end in (("ogt", low), ("olt", high)):  # NaN becomes the lower end
        number = constant(source, float(end))
        inside = emitter.float_comparison(word, source, value, number)
        moved = out.op(f"select {flags} {inside}, {f} {value}, {f} {number}")
        if low and word == "ogt":
            nan = emitter.float_comparison("uno", source, value, value)
            moved = out.op(f"select {flags} {nan}, {f} {constant(source, 0.0)}, {f} {moved}")
        value = moved
    # of 32 bits, signed: that is one instruction on every machine
    wide = DataType("int32" if target.bits < 32 or target.is_int else "int64").with_lanes_of(source)
    return _int_to_int(emitter, _to("fptosi", emitter, value, source, wide), wide, target)


def _chosen(emitter: Any, value: str, source: DataType, target: DataType, low: int, high: int) -> str:
    """The integer part of a float if the type holds it, and else an end of the type, or 0 for NaN."""
    out, f, flags, t = emitter.out, llvm_type(source), emitter.condition_type(source), llvm_type(target)
    above, least = constant(source, float(high + 1)), constant(source, float(low))
    fits = emitter.float_comparison("olt", source, value, above)
    big_enough = emitter.float_comparison("oge", source, value, least)
    inside = out.op(f"and {flags} {fits}, {big_enough}")
    safe = out.op(f"select {flags} {inside}, {f} {value}, {f} {constant(source, 0.0)}")
    whole = _to("fptosi" if target.is_int else "fptoui", emitter, safe, source, target)
    for word, bound, end in (("oge", above, high), ("olt", least, low)):
        if end:
            beyond = emitter.float_comparison(word, source, value, bound)
            whole = out.op(f"select {flags} {beyond}, {t} {constant(target, end)}, {t} {whole}")
    return whole


def _int_to_float(emitter: Any, value: str, source: DataType, target: DataType) -> str:
    word = "sitofp" if source.is_int else "uitofp"
    if target.bits == 16:  # float32 is exact for 16 bits, float64 nearly always for more
        wide = DataType("float64" if source.bits > 16 else "float32").with_lanes_of(target)
        return _float_to_float(emitter, _to(word, emitter, value, source, wide), wide, target)
    return _to(word, emitter, value, source, target)


def _float_to_float(emitter: Any, value: str, source: DataType, target: DataType) -> str:
    single = DataType("float32").with_lanes_of(source)
    if source.code == "bfloat":
        return emitter.convert(_wide_of_bfloat(emitter, value, source), single, target)
    if source.bits == 16 and emitter.context.family.widens_half:
        return emitter.convert(_wide_of_half(emitter, value, source), single, target)
    if source.bits == target.bits:  # float16 to bfloat16
        value, source = _to("fpext", emitter, value, source, single), single
    if source.bits == 64 and target.bits == 16:
        value, source = _rounded_to_odd(emitter, value, source, single), single
    if target.code == "bfloat":
        return _narrow_to_bfloat(emitter, value, source, target)
    return _to("fptrunc" if source.bits > target.bits else "fpext", emitter, value, source, target)


def _wide_of_bfloat(emitter: Any, value: str, source: DataType) -> str:
    """bfloat16 as float32: its bits are the upper half."""
    out, word = emitter.out, DataType("uint32").with_lanes_of(source)
    w = llvm_type(word)
    bits = out.op(f"zext {llvm_type(source)} {value} to {w}")
    top = out.op(f"shl {w} {bits}, {constant(word, 16)}")
    return out.op(f"bitcast {w} {top} to {llvm_type(DataType('float32').with_lanes_of(source))}")


def _wide_of_half(emitter: Any, value: str, source: DataType) -> str:
    """float16 as float32, on its bits: the exponent is moved by a product, which makes subnormal numbers normal."""
    out, word, single = emitter.out, *(DataType(name).with_lanes_of(source) for name in ("uint32", "float32"))
    w, f, flags = llvm_type(word), llvm_type(single), emitter.condition_type(source)
    half_bits = llvm_type(DataType("uint16").with_lanes_of(source))
    narrow = out.op(f"bitcast {llvm_type(source)} {value} to {half_bits}")
    bits = out.op(f"zext {half_bits} {narrow} to {w}")
    size = out.op(f"shl {w} {out.op(f'and {w} {bits}, {constant(word, 0x7FFF)}')}, {constant(word, 13)}")
    moved = out.op(f"fmul {f} {out.op(f'bitcast {w} {size} to {f}')}, {constant(single, 2.0**112)}")
    endless = out.op(f"icmp uge {w} {size}, {constant(word, 0x7C00 << 13)}")
    special = out.op(f"or {w} {size}, {constant(word, 0x7F800000)}")
    chosen = out.op(f"select {flags} {endless}, {w} {special}, {w} {out.op(f'bitcast {f} {moved} to {w}')}")
    sign = out.op(f"shl {w} {out.op(f'and {w} {bits}, {constant(word, 0x8000)}')}, {constant(word, 16)}")
    return out.op(f"bitcast {w} {out.op(f'or {w} {chosen}, {sign}')} to {f}")


def _narrow_to_bfloat(emitter: Any, value: str, source: DataType, target: DataType) -> str:
    """float32 to bfloat16 on its bits, to even on a tie: the machine's instruction, if there is
    one, would make subnormal numbers zero."""
    out, lanes = emitter.out, source.lane_code
    word = DataType("int32").with_lane_code(lanes)
    w, flags = llvm_type(word), emitter.condition_type(source)
    bits = out.op(f"bitcast {llvm_type(source)} {value} to {w}")
    top = out.op(f"lshr {w} {bits}, {constant(word, 16)}")
    tie = out.op(f"and {w} {top}, {constant(word, 1)}")
    sum_ = out.op(f"add {w} {out.op(f'add {w} {bits}, {constant(word, 0x7FFF)}')}, {tie}")
    rounded = out.op(f"lshr {w} {sum_}, {constant(word, 16)}")
    quiet = out.op(f"or {w} {top}, {constant(word, 0x40)}")
    nan = out.op(f"fcmp uno {llvm_type(source)} {value}, {value}")
    chosen = out.op(f"select {flags} {nan}, {w} {quiet}, {w} {rounded}")
    return out.op(f"trunc {w} {chosen} to {llvm_type(target)}")


def _rounded_to_odd(emitter: Any, value: str, source: DataType, single: DataType) -> str:
    """float64 as float32, rounded to odd, so that rounding it again to 16 bits does no harm."""
    out, lanes = emitter.out, source.lane_code
    word = DataType("int32").with_lane_code(lanes)
    s, w, flags = llvm_type(single), llvm_type(word), emitter.condition_type(source)
    near = _to("fptrunc", emitter, value, source, single)
    back = _to("fpext", emitter, near, single, source)
    bits = out.op(f"bitcast {s} {near} to {w}")
    sizes = [emitter.intrinsic("fabs", source, v) for v in (back, value)]
    far = out.op(f"fcmp ogt {llvm_type(source)} {sizes[0]}, {sizes[1]}")
    down = out.op(f"sub {w} {bits}, {out.op(f'zext {flags} {far} to {w}')}")
    inexact = out.op(f"fcmp one {llvm_type(source)} {back}, {value}")
    odd = out.op(f"or {w} {down}, {out.op(f'zext {flags} {inexact} to {w}')}")
    return out.op(f"bitcast {w} {odd} to {s}")


def _to_bool(emitter: Any, value: str, source: DataType, target: DataType) -> str:
    if source.is_float:
        return emitter.float_comparison("une", source, value, constant(source, 0.0))
    zero = "null" if source.is_handle else constant(source, 0)
    return emitter.out.op(f"icmp ne {llvm_type(source)} {value}, {zero}")


CONVERSIONS: dict[tuple[str, str], Conversion] = {
    ("int", "int"): _int_to_int,
    ("int", "float"): _int_to_float,
    ("float", "int"): _float_to_int,
    ("float", "float"): _float_to_float,
    ("int", "bool"): _to_bool,
    ("float", "bool"): _to_bool,
    ("handle", "bool"): _to_bool,
    ("bool", "bool"): lambda e, v, s, t: v,
    ("bool", "int"): lambda e, v, s, t: _to("zext", e, v, s, t),
    ("bool", "float"): _int_to_float,
    ("handle", "handle"): lambda e, v, s, t: v,
    ("handle", "int"): lambda e, v, s, t: _to("ptrtoint", e, v, s, t),
    ("int", "handle"): lambda e, v, s, t: _to("inttoptr", e, v, s, t),
}
