"""Math functions as vector code of our own, and the C library's where none is needed.

A function is written once, as straight-line arithmetic on values of any number of lanes; LLVM
inlines it, and vectorizes the scalar form when it vectorizes a loop. Stated errors are the
largest found in a sweep of all float32 numbers (`tests/codegen/test_vector_math.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.codegen.math_text import MathText
from tvmagic.codegen.types import llvm_type
from tvmagic.ir import DataType

__all__ = ["OWN", "define", "libm_call"]

Function = Callable[..., str]
OWN: dict[tuple[str, int], Function] = {}


def own(name: str, *bits: int) -> Callable[[Function], Function]:
    """Mark a function as the code of operator `name` on floats of `bits` bits."""

    def register(function: Function) -> Function:
        for width in bits:
            OWN[name, width] = function
        return function

    return register


def define(context: Any, name: str, dtype: DataType) -> str:
    """The name of the module's function for `name` on `dtype`; its text is added once."""
    from tvmagic.codegen.expressions import suffix

    function = OWN[name, dtype.bits]
    symbol = f"tvm.{name}.{suffix(dtype)}"
    if symbol not in context.text.helpers:
        context.text.helpers[symbol] = ""  # holds the place while the text is made
        math = MathText(context, dtype)
        arity = function.__code__.co_argcount - 1
        params = [f"%x{i}" for i in range(arity)]
        result = function(math, *params)
        heads = ", ".join(f"{llvm_type(dtype)} {p}" for p in params)
        head = f"define internal {llvm_type(dtype)} @{symbol}({heads}) alwaysinline nounwind memory(none)"
        body = "\n".join(math.lines)
        context.text.helpers[symbol] = f"{head} {{\n{body}\n  ret {llvm_type(dtype)} {result}\n}}\n"
    return f"@{symbol}"


def libm_call(emitter: Any, name: str, dtype: DataType, args: list[str]) -> str:
    """A call of C's function, lane by lane."""
    scalar = dtype.element_of
    kind = llvm_type(scalar)
    types = [kind] * len(args)
    if name == "ldexp":
        types[1] = "i32"
    symbol = name + ("f" if scalar.bits == 32 else "")
    function = emitter.context.text.declare(symbol, kind, ", ".join(types), "nounwind willreturn memory(none)")

    def one(values: list[str]) -> str:
        return emitter.out.op(f"call {kind} {function}({', '.join(f'{t} {v}' for t, v in zip(types, values))})")

    if dtype.lanes == 1:
        return one(args)
    vectors = [dtype if t == kind else DataType("int32").with_lanes(dtype.lanes) for t in types]
    lanes = [one([emitter.lane(a, v, i) for a, v in zip(args, vectors)]) for i in range(dtype.lanes)]
    return emitter.join(lanes, scalar)


from tvmagic.codegen import approximations as _approximations  # noqa: E402,F401  (fills OWN)
