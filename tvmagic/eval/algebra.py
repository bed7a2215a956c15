"""Algebras of the interpreter: how values are represented, computed, selected, loaded and stored.

`Machine` runs loops, addresses and lanes on integers. All that a program computes goes through an `Algebra`. `Plain` is
NumPy arrays of the program's own dtypes; proofs give one whose values are terms (`tvmagic/prove/algebra.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.ops import BINARY, CALLS, convert
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.semantics import plain

Array = Any


class Unsupported(TVMagicError):
    """Something that the interpreter does not know, such as a call of C code."""


class Plain:
    """Values as NumPy arrays of their dtype, computed as the program says.

    A value has the shape (), (lanes,), (vector,) or (lanes, vector). A subclass may return other arrays of these shapes, as
    long as `decide` turns those that choose statements, iterations and addresses into plain ones.
    """

    def constant(self, node: Any) -> Array:
        """The value of a constant."""
        if node.dtype.is_handle:
            return node.value
        return np.asarray(plain(node.value), numpy_dtype(node.dtype))

    def zero(self, dtype: ir.DataType) -> Array:
        """The value 0 of the elements of `dtype`."""
        return np.zeros((), numpy_dtype(dtype.element_of))

    def binary(self, node: ir.BinaryOp, a: Array, b: Array) -> Array:
        """The result of a binary operator, a comparison, `And` or `Or`."""
        return np.asarray(BINARY[type(node)](a, b)).astype(numpy_dtype(node.dtype.element_of), copy=False)

    def invert(self, value: Array) -> Array:
        """Logical negation."""
        return ~value

    def cast(self, value: Array, source: ir.DataType, dtype: ir.DataType) -> Array:
        """A value of `source` converted to `dtype`."""
        return convert(value, dtype)

    def call(self, name: str, node: ir.Call, args: list[Array]) -> Array:
        """The result of a function. Raises Unsupported for one that is not known."""
        if name == "reinterpret":
            return np.asarray(args[0]).view(numpy_dtype(node.dtype.element_of))
        compute: Callable[..., Array] | None = CALLS.get(name) or CALLS.get(f"tir.{name}")
        if compute is None:
            raise Unsupported(f"the interpreter does not know the call `{name}`", code="interpreter.unsupported_call")
        return np.asarray(compute(*args)).astype(numpy_dtype(node.dtype.element_of), copy=False)

    # ------------------------------------------------------------------------ conditions

    def branches(self, taken: Array) -> tuple[Array, Array, bool]:
        """Where a condition may hold, where it may not, and whether both may be so somewhere."""
        return taken, ~taken, False

    def select(self, taken: Array, yes: Array, no: Array, dtype: ir.DataType) -> Array:
        """`yes` where `taken` holds, else `no`."""
        return np.where(taken, yes, no)

    def merged(self, taken: Array, yes: np.ndarray, no: np.ndarray) -> np.ndarray:
        """Elements of memory after an `if`: those that its branches left, by its condition."""
        return np.where(taken, yes, no)

    def decide(self, value: Array, node: ir.PrimExpr) -> Array:
        """The value of `node` as plain numbers, as it decides what runs or which element is accessed."""
        return value

    # ------------------------------------------------------------------------ memory

    def fresh(self, dtype: ir.DataType, shape: tuple[int, int]) -> np.ndarray:
        """Memory without content. Floats begin as NaN, so that reading them early shows."""
        kind = numpy_dtype(dtype.element_of)
        return np.full(shape, np.nan if kind.kind == "f" else 0, kind)

    def memory_of(self, data: np.ndarray, dtype: ir.DataType) -> np.ndarray:
        """Memory that holds constant data."""
        return data

    def loaded(self, elements: np.ndarray, dtype: ir.DataType) -> Array:
        """The value of elements of memory, read as `dtype`."""
        wanted = numpy_dtype(dtype.element_of)
        if elements.dtype is not wanted and elements.dtype != wanted:
            same = elements.dtype.itemsize == wanted.itemsize
            elements = elements.view(wanted) if same else elements.astype(wanted)
        return elements

    def stored(self, value: Array, dtype: ir.DataType, memory: np.ndarray) -> Array:
        """A value of `dtype` as elements of `memory`."""
        if value.dtype != memory.dtype and value.dtype.itemsize == memory.dtype.itemsize:
            value = value.view(memory.dtype)
        return value

    def element_size(self, memory: np.ndarray) -> int | None:
        """Bytes of an element of memory, or None if elements have no size."""
        return memory.dtype.itemsize


PLAIN = Plain()
