"""Math functions as vector code of our own.

A function is written once, as straight-line arithmetic on values of any number of lanes; LLVM
inlines it, and vectorizes the scalar form when it vectorizes a loop. Stated errors are the
largest found in a sweep of all float32 numbers (`tests/codegen/test_vector_math.py`).
"""

from __future__ import annotations

from typing import Any

from tvmagic.codegen.math.math_text import MathText
from tvmagic.codegen.text.rules import OWN
from tvmagic.codegen.text.types import llvm_type, suffix
from tvmagic.ir import DataType


def define(context: Any, name: str, dtype: DataType) -> str:
    """The name of the module's function for `name` on `dtype`; its text is added once."""
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
