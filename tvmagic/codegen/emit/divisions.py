"""Quotients and remainders, of integers and of floats: NumPy's, whatever is divided by what."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.codegen.math.math_library import libm_call
from tvmagic.codegen.text.types import constant, llvm_type


def float_division(emitter: Any, node: ir.BinaryOp) -> str:
    a, b = emitter.visit(node.a), emitter.visit(node.b)
    dtype = node.dtype
    if dtype.bits > 16 or (isinstance(node, ir.Div) and dtype.code != "bfloat"):
        return _quotient_of_floats(emitter, type(node), dtype, a, b)
    wide = ir.DataType("float32").with_lane_code(
        dtype.lane_code
    )  # 16-bit floats are computed in float32 and rounded once
    x, y = (emitter.convert(v, dtype, wide) for v in (a, b))
    return emitter.convert(_quotient_of_floats(emitter, type(node), wide, x, y), wide, dtype)


def _quotient_of_floats(emitter: Any, op: type, dtype: ir.DataType, a: str, b: str) -> str:
    kind = llvm_type(dtype)
    if op is ir.Div:
        return emitter.out.op(f"fdiv {kind} {a}, {b}")
    if emitter.context.family.launches:  # LLVM's `frem` is not exact there
        rest = libm_call(emitter, "fmod", dtype, [a, b])
    else:
        rest = emitter.out.op(f"frem {kind} {a}, {b}")
    if op is ir.Mod:
        return rest
    if op is ir.FloorMod:
        return _floor_of_float_rest(emitter, dtype, rest, b)
    return _floor_of_float_quotient(emitter, dtype, a, b, rest)


def _floor_of_float_quotient(emitter: Any, dtype: ir.DataType, a: str, b: str, rest: str) -> str:
    """NumPy's `a // b`: what remains is taken off first, so that the quotient is nearly whole."""
    out, kind, flags = emitter.out, llvm_type(dtype), emitter.condition_type(dtype)
    zero, one = constant(dtype, 0.0), constant(dtype, 1.0)
    plain = out.op(f"fdiv {kind} {a}, {b}")
    near = out.op(f"fdiv {kind} {out.op(f'fsub {kind} {a}, {rest}')}, {b}")
    signs = [out.op(f"fcmp olt {kind} {x}, {zero}") for x in (rest, b)]
    differ = out.op(f"xor {flags} {signs[0]}, {signs[1]}")
    wrong = out.op(f"and {flags} {differ}, {out.op(f'fcmp une {kind} {rest}, {zero}')}")
    near = out.op(f"select {flags} {wrong}, {kind} {out.op(f'fsub {kind} {near}, {one}')}, {kind} {near}")
    whole = emitter.intrinsic("floor", dtype, near)
    left = out.op(f"fcmp ogt {kind} {out.op(f'fsub {kind} {near}, {whole}')}, {constant(dtype, 0.5)}")
    whole = out.op(f"select {flags} {left}, {kind} {out.op(f'fadd {kind} {whole}, {one}')}, {kind} {whole}")
    nothing = out.op(f"fcmp oeq {kind} {near}, {zero}")
    signed_zero = emitter.intrinsic("copysign", dtype, zero, plain)
    whole = out.op(f"select {flags} {nothing}, {kind} {signed_zero}, {kind} {whole}")
    by_zero = out.op(f"fcmp oeq {kind} {b}, {zero}")
    return out.op(f"select {flags} {by_zero}, {kind} {plain}, {kind} {whole}")


def _floor_of_float_rest(emitter: Any, dtype: ir.DataType, rest: str, b: str) -> str:
    kind, zero, flags = llvm_type(dtype), constant(dtype, 0.0), emitter.condition_type(dtype)
    signs = [emitter.out.op(f"fcmp olt {kind} {x}, {zero}") for x in (rest, b)]
    differ = emitter.out.op(f"xor {flags} {signs[0]}, {signs[1]}")
    not_zero = emitter.out.op(f"fcmp one {kind} {rest}, {zero}")
    wrong = emitter.out.op(f"and {flags} {differ}, {not_zero}")
    moved = emitter.out.op(f"fadd {kind} {rest}, {b}")
    moved = emitter.out.op(f"select {flags} {wrong}, {kind} {moved}, {kind} {rest}")
    signed_zero = emitter.intrinsic("copysign", dtype, zero, b)
    is_zero = emitter.out.op(f"fcmp oeq {kind} {rest}, {zero}")
    return emitter.out.op(f"select {flags} {is_zero}, {kind} {signed_zero}, {kind} {moved}")


def integer_division(emitter: Any, node: ir.BinaryOp, a: str, b: str) -> str:
    """Quotient or remainder of integers, by the cheapest instructions that are right."""
    dtype = node.dtype
    kind, remainder = llvm_type(dtype), isinstance(node, (ir.Mod, ir.FloorMod))
    low_a, high_a = emitter.intervals.of(node.a)
    low_b, high_b = emitter.intervals.of(node.b)
    floors = isinstance(node, (ir.FloorDiv, ir.FloorMod))
    power = low_b == high_b > 0 and low_b & (low_b - 1) == 0
    if power and (floors or low_a >= 0):
        if remainder:
            return low_bits(emitter, dtype, a, low_b - 1)
        shift = "ashr" if dtype.is_int and low_a < 0 else "lshr"
        return emitter.out.op(f"{shift} {kind} {a}, {constant(dtype, low_b.bit_length() - 1)}")
    unsigned = not dtype.is_int or (low_a >= 0 and low_b >= 0)
    word = ("u" if unsigned else "s") + ("rem" if remainder else "div")
    if low_b > 0 or high_b < 0 and (high_b < -1 or low_a > -(1 << (dtype.bits - 1))):
        return _rounded(emitter, node, a, b, emitter.out.op(f"{word} {kind} {a}, {b}"), unsigned or not floors)
    return _guarded_division(emitter, node, a, b, word, unsigned or not floors)


def low_bits(emitter: Any, dtype: ir.DataType, a: str, mask: int) -> str:
    """`a & mask` for a mask of low bits."""
    return emitter.out.op(f"and {llvm_type(dtype)} {a}, {unseen(emitter, dtype, a, constant(dtype, mask))}")


def unseen(emitter: Any, dtype: ir.DataType, a: str, number: str) -> str:
    """A number by which `a` comes to wrap around, or to lose its upper bits, so that LLVM does not see it.

    LLVM 22.1 reads an index `i & 3`, or `i << 30 >> 30`, as one that goes on by ones, and vectorizes loops so without asking
    whether it wraps around. If the loop is unrolled and `a` a number, it may see it.
    """
    if dtype.lane_code != 1 or dtype.bits < 32 or a[0] != "%":
        return number
    kind = llvm_type(dtype)
    known = emitter.context.text.declare(f"llvm.is.constant.{kind}", "i1", kind)
    is_known = emitter.out.op(f"call i1 {known}({kind} {a})")
    return emitter.out.op(f"select i1 {is_known}, {kind} {number}, {kind} {emitter.out.hidden(kind, number)}")


def _guarded_division(emitter: Any, node: ir.BinaryOp, a: str, b: str, word: str, plain: bool) -> str:
    """Division by what may be zero, or may be -1 with the least integer over it: the machine
    would stop the process. Zero and the least integer come out, as in NumPy."""
    dtype, kind, flags = node.dtype, llvm_type(node.dtype), emitter.condition_type(node.dtype)
    one, zero = constant(dtype, 1), constant(dtype, 0)
    by_zero = emitter.out.op(f"icmp eq {kind} {b}, {zero}")
    emitter.context.on_zero_division(emitter, node, by_zero)
    unsafe = by_zero
    if dtype.is_int:
        least = emitter.out.op(f"icmp eq {kind} {a}, {constant(dtype, 1 << (dtype.bits - 1))}")
        minus = emitter.out.op(f"icmp eq {kind} {b}, {constant(dtype, -1)}")
        unsafe = emitter.out.op(f"or {flags} {by_zero}, {emitter.out.op(f'and {flags} {least}, {minus}')}")
    divisor = emitter.out.op(f"select {flags} {unsafe}, {kind} {one}, {kind} {b}")
    result = _rounded(emitter, node, a, divisor, emitter.out.op(f"{word} {kind} {a}, {divisor}"), plain)
    return emitter.out.op(f"select {flags} {by_zero}, {kind} {zero}, {kind} {result}")


def _rounded(emitter: Any, node: ir.BinaryOp, a: str, b: str, result: str, plain: bool) -> str:
    if plain:
        return result
    dtype, kind, flags = node.dtype, llvm_type(node.dtype), emitter.condition_type(node.dtype)
    zero = constant(dtype, 0)
    rest = result
    if isinstance(node, ir.FloorDiv):
        rest = emitter.out.op(f"sub {kind} {a}, {emitter.out.op(f'mul {kind} {result}, {b}')}")
    signs = emitter.out.op(f"xor {kind} {rest}, {b}")
    differ = emitter.out.op(f"icmp slt {kind} {signs}, {zero}")
    some = emitter.out.op(f"icmp ne {kind} {rest}, {zero}")
    wrong = emitter.out.op(f"and {flags} {differ}, {some}")
    change = constant(dtype, -1) if isinstance(node, ir.FloorDiv) else b
    moved = emitter.out.op(f"add {kind} {result}, {change}")
    return emitter.out.op(f"select {flags} {wrong}, {kind} {moved}, {kind} {result}")
