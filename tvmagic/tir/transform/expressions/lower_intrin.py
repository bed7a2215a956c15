"""LowerIntrin: floor divisions and some functions by what every machine has.

`a // b` and `a % b` round down; machines round towards zero. Where the signs are known one
division does; else the remainder corrects it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.ops import (
    add,
    bitwise_and,
    div,
    exp,
    floor,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    make_const,
    multiply,
    negative,
    shift_right,
    sqrt,
    subtract,
)
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.with_analyzer import AnalyzerMutator


def _power_of_two(value: ir.PrimExpr) -> int | None:
    """The exponent where `value` is a constant power of two."""
    if isinstance(value, ir.IntImm) and value.value > 0 and value.value & (value.value - 1) == 0:
        return value.value.bit_length() - 1
    return None


def _sigmoid(node: ir.Call) -> ir.PrimExpr:
    one = make_const(node.dtype, 1)
    return div(one, add(one, exp(negative(node.args[0]))))


_FUNCTIONS: dict[str, Callable[[ir.Call], ir.PrimExpr]] = {
    "tir.sigmoid": _sigmoid,
    "tir.rsqrt": lambda node: div(make_const(node.dtype, 1), sqrt(node.args[0])),
    "tir.exp10": lambda node: exp(multiply(node.args[0], make_const(node.dtype, math.log(10)))),
    "tir.isnan": lambda node: ir.NE(node.args[0], node.args[0], node.span),
}


def _fused(node: ir.Call) -> ir.PrimExpr:
    """`fma` as the intrinsic that LLVM fuses if the processor can."""
    args = (ir.StringImm("llvm.fmuladd"), ir.IntImm("uint32", 3), *node.args)
    return ir.Call(node.dtype, "tir.call_llvm_pure_intrin", args, node.span)


class _IntrinLower(AnalyzerMutator):
    """`kind`: that of the target whose rules count. `for_llvm`: whether LLVM's intrinsics may be used."""

    def __init__(self, analyzer: Analyzer, kind: str, for_llvm: bool) -> None:
        super().__init__(analyzer)
        self.kind = kind
        self.functions = {**_FUNCTIONS, "tir.fma": _fused} if for_llvm else _FUNCTIONS

    @ir.handles(ir.FloorDiv)
    def quotient(self, node: ir.FloorDiv) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if node.dtype.is_float:
            return floor(div(a, b, node.span))
        shift = _power_of_two(b)
        if shift is not None and node.dtype.is_int:
            return shift_right(a, make_const(node.dtype, shift), node.span)
        if self._never_negative(b) and (self._never_negative(a) or node.dtype.is_uint):
            return ir.Div(a, b, node.span)
        quotient, remainder = ir.Div(a, b, node.span), ir.Mod(a, b, node.span)
        return ir.Select(
            self._is_floor(b, remainder), quotient, subtract(quotient, make_const(node.dtype, 1)), node.span
        )

    @ir.handles(ir.FloorMod)
    def remainder(self, node: ir.FloorMod) -> ir.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if node.dtype.is_float:
            return subtract(a, multiply(floor(div(a, b)), b), node.span)
        if _power_of_two(b) is not None and node.dtype.is_int:
            return bitwise_and(a, subtract(b, make_const(b.dtype, 1)), node.span)
        if self._never_negative(b) and (self._never_negative(a) or node.dtype.is_uint):
            return ir.Mod(a, b, node.span)
        remainder = ir.Mod(a, b, node.span)
        return ir.Select(self._is_floor(b, remainder), remainder, add(remainder, b), node.span)

    def _never_negative(self, value: ir.PrimExpr) -> bool:
        return self.analyzer.can_prove_greater_equal(value, 0)

    def _is_floor(self, b: ir.PrimExpr, remainder: ir.PrimExpr) -> ir.PrimExpr:
        """Whether rounding towards zero was rounding down: the remainder has the sign of `b`, or is 0."""
        zero = make_const(remainder.dtype, 0)
        if self._never_negative(b):
            return greater_equal(remainder, zero)
        return logical_or(
            logical_and(greater_equal(b, zero), greater_equal(remainder, zero)),
            logical_and(less(b, zero), less_equal(remainder, zero)),
        )

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        new = super().call(node)
        if not isinstance(new, ir.Call) or not isinstance(new.op, ir.Op):
            return new
        rule = new.op.lowering_rule(self.kind) or self.functions.get(new.op.name)
        lowered = new if rule is None else rule(new)
        return new if lowered is new or lowered is None else self.visit(lowered)


class _ByRules(ir.Mutator):
    """Rewrites calls by the rules that users have registered."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        new = self.visit_children(node)
        rule = new.op.lowering_rule(self.kind) if isinstance(new.op, ir.Op) else None
        lowered = None if rule is None else rule(new)
        return new if lowered is None or lowered is new else self.visit(lowered)


def lower_by_rules(mod: ir.IRModule, kind: str) -> ir.IRModule:
    """The module with the rules of `register_intrin_lowering` for targets of this kind, and those for all, applied."""
    if not ir.Op.with_rules:
        return mod
    rewrite = _ByRules(kind)
    return mod.map_functions(lambda func: func.with_body(rewrite.visit(func.body)))


def _kind(func: ir.PrimFunc) -> str:
    """The kind of target that a function is for."""
    target = func.attrs.get("target")
    return "llvm" if target is None else str(target).split()[0]


@tir_pass("tir.LowerIntrin")
def LowerIntrin(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write floor division, remainder, sigmoid, rsqrt, exp10 and isnan by simpler operations.

    In a function whose attribute `target` is of the kind `llvm`, `fma` becomes LLVM's `fmuladd`.
    """
    kind = getattr(func.attrs.get("target"), "kind", None)
    lower = _IntrinLower(Analyzer(), _kind(func), getattr(kind, "name", "") == "llvm")
    lower.mark_sizes(func)
    return func.with_body(lower.visit(func.body))
