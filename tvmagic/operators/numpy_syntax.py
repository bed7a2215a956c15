"""Pieces of Python code that calls NumPy, as `ast` nodes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmagic.ir.numpy_types import numpy_dtype


def dotted_name(dotted: str) -> ast.expr:
    """`np.sum` as code."""
    first, *rest = dotted.split(".")
    code: ast.expr = ast.Name(first, ast.Load())
    for part in rest:
        code = ast.Attribute(code, part, ast.Load())
    return code


def literal(value: Any) -> ast.expr:
    """A number, text, None, or a tuple of these as code."""
    if isinstance(value, tuple):
        return ast.Tuple([literal(v) for v in value], ast.Load())
    if isinstance(value, (int, float)) and value < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def dtype_code(dtype: Any) -> ast.expr:
    """The type of NumPy, or of `ml_dtypes`, of a data type: `np.float32`."""
    name = numpy_dtype(dtype).name
    if name == "bool":
        return dotted_name("np.bool_")  # `np.bool` is there since NumPy 2
    return dotted_name(f"ml_dtypes.{name}" if is_of_ml_dtypes(dtype) else f"np.{name}")


def is_of_ml_dtypes(dtype: Any) -> bool:
    """Whether arrays of a data type have a type of `ml_dtypes`, as `bfloat16`, and not one of NumPy's own."""
    name = numpy_dtype(dtype).name
    return name != "bool" and not hasattr(np, name)  # `np.bool` is there since NumPy 2


def call_of(function: str, *args: ast.expr, **options: ast.expr) -> ast.expr:
    """`function(*args, **options)`; the function as a dotted name."""
    return ast.Call(dotted_name(function), list(args), [ast.keyword(key, value) for key, value in options.items()])


def method_of(code: ast.expr, name: str, *args: ast.expr) -> ast.expr:
    """`code.name(*args)`"""
    return ast.Call(ast.Attribute(code, name, ast.Load()), list(args), [])


def times(a: ast.expr, b: ast.expr) -> ast.expr:
    """`a * b`"""
    return ast.BinOp(a, ast.Mult(), b)


def subscript(code: ast.expr, cuts: Sequence[ast.expr]) -> ast.expr:
    """`code[cuts]`"""
    return ast.Subscript(code, cuts[0] if len(cuts) == 1 else ast.Tuple(list(cuts), ast.Load()), ast.Load())


def is_whole(cut: ast.expr) -> bool:
    """Whether an index is `:`."""
    return isinstance(cut, ast.Slice) and cut.lower is None and cut.upper is None and cut.step is None


def is_view(code: ast.expr) -> bool:
    """Whether the array of code shares its memory with another one; a subscript by arrays does not."""
    if isinstance(code, ast.Subscript):
        cuts = code.slice.elts if isinstance(code.slice, ast.Tuple) else [code.slice]
        return is_view(code.value) and all(isinstance(c, (ast.Slice, ast.Constant)) for c in cuts)
    if isinstance(code, ast.Call):
        return ast.unparse(code.func) in ("windows", "np.broadcast_to") or (
            isinstance(code.func, ast.Attribute)
            and code.func.attr in ("reshape", "transpose")
            and is_view(code.func.value)
        )
    return isinstance(code, ast.Name) or (isinstance(code, ast.Attribute) and code.attr == "T" and is_view(code.value))


def transposed(code: ast.expr, places: list[int]) -> ast.expr:
    """The array with axis `places[k]` moved to place k."""
    if places == sorted(places):
        return code
    if places == [1, 0]:
        return ast.Attribute(code, "T", ast.Load())
    return method_of(code, "transpose", *map(literal, places))


def with_names(text: str, **values: ast.expr) -> ast.expr:
    """The code of an expression in which `values` stand for names."""

    class Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return values.get(node.id, node)

    return Named().visit(ast.parse(text, mode="eval").body)
