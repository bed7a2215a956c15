"""The tables of what operators are in code: rules for calls, and math functions of our own. Other files fill them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tvmagic.errors import BuildError
from tvmagic.ir import Call, IntImm

Rule = Callable[[Any, Call], str]
Function = Callable[..., str]

# C's functions, called lane by lane: correct to an ulp or so in the C libraries in use.
LIBRARY = (
    "tan sinh cosh asin acos atan asinh acosh atanh atan2 nextafter hypot ldexp exp10 fmod "
    "exp exp2 erf tanh log log2 log1p log10 sin cos pow"
).split()
OF_TWO = frozenset({"atan2", "fmod", "hypot", "nextafter", "pow"})


RULES: dict[str, Rule] = {}
OWN: dict[tuple[str, int], Function] = {}


_AnyRule = TypeVar("_AnyRule", bound=Callable[..., Any])


def rules_of(table: dict[str, _AnyRule]) -> Callable[..., Callable[[_AnyRule], _AnyRule]]:
    """The decorator `rule(*names)` that puts a function in `table` for the operators `names` (without their prefix `tir.`)."""

    def rule(*names: str) -> Callable[[_AnyRule], _AnyRule]:
        def register(function: _AnyRule) -> _AnyRule:
            table.update({f"tir.{name}": function for name in names})
            return function

        return register

    return rule


rule = rules_of(RULES)


def own(name: str, *bits: int) -> Callable[[Function], Function]:
    """Mark a function as the code of operator `name` on floats of `bits` bits."""

    def register(function: Function) -> Function:
        for width in bits:
            OWN[name, width] = function
        return function

    return register


def large_uint(call: Call) -> int:
    """The number that a call of `tir.large_uint_imm` gives in two halves, the lower one first."""
    low, high = (int(a) for a in call.args)
    return (high << 32) | (low & 0xFFFFFFFF)


def fixed_point_shifts(call: Call) -> tuple[int, int]:
    """By how many bits `tir.q_multiply_shift` moves its first factor to the left, and the product to the right."""
    q, s = call.args[2:]
    if not isinstance(q, IntImm) or not isinstance(s, IntImm):
        raise BuildError(
            "`q_multiply_shift` needs constant numbers of bits", node=call, code="codegen.shift_not_constant"
        )
    left, right = max(s.value, 0), q.value + max(-s.value, 0)
    if not (left < 64 and 0 < right < 64):
        raise BuildError(
            f"`q_multiply_shift` cannot move 64 bits by {left} to the left and {right} to the right",
            node=call,
            code="codegen.shift_out_of_range",
        )
    return left, right
