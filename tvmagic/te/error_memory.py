"""Memory for programs that run on values with errors, and statements of extern operations run on it.

What is added up in place, `C[i] = C[i] + x`, is a sum that a schedule may reorder: its rounding follows from the
magnitudes and the number of its terms (`error_sums.py`), so an element keeps both until it is read for something else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.te.error_bound import REFERENCE, Approximate, Value, bounded, format_of, parts, stored_numbers
from tvmagic.te.error_evaluator import ErrorEvaluator
from tvmagic.te.error_ties import fresh_numbers, ties
from tvmagic.te.numpy_stmt import StatementRunner


def cells_dtype(dtype: ir.DataType) -> np.dtype[Any]:
    """An element of memory: its value, the error of what was stored, and of the terms that were added since: the sum of
    the magnitudes, how many, and the largest power of two that all are multiples of; and its value number, which is 0
    until something is stored."""
    kind = "f8" if dtype.is_float else numpy_dtype(dtype.element_of)
    return np.dtype(
        [("value", kind), ("error", "f8"), ("size", "f8"), ("count", "f8"), ("grain", "f8"), ("number", "u8")]
    )


def cells(value: Value, dtype: ir.DataType) -> np.ndarray:
    """Elements that hold a value of `dtype`, nothing added yet."""
    plain, error = parts(value)
    memory = np.zeros(np.shape(plain), cells_dtype(dtype))
    memory["value"] = plain
    memory["error"] = 0.0 if error is None else error
    memory["number"] = stored_numbers(value, memory.shape)
    if dtype.is_float:
        memory["size"], memory["grain"] = np.abs(plain) + memory["error"], _grain(memory["value"])
    return memory


def loaded(memory: np.ndarray, dtype: ir.DataType) -> Value:
    """The value of elements with its error."""
    value, error = memory["value"], memory["error"]
    number = memory["number"].copy() if ties().numbered else None
    added = memory["count"] > 0
    if not dtype.is_float or not np.any(added):
        return Approximate(value, error, number) if np.any(error) else value
    form, size = format_of(dtype), memory["size"]
    with np.errstate(all="ignore"):
        own = memory["count"] * size * (form.unit + REFERENCE)
        exact = np.logical_not(added) | ((error == 0) & (size <= memory["grain"] * 2.0**form.digits))
        own = np.where(exact, 0.0, own)
        overflow = (size > form.top) & np.isfinite(value) & (np.abs(value) < size * (1 - 2.0**-20))
    result = bounded(value, np.where(overflow, np.inf, error + own), error, form)
    return result._replace(number=number) if isinstance(result, Approximate) else result


def extended(memory: np.ndarray, term: Value, sign: int) -> np.ndarray:
    """Elements after a term was added to them (subtracted, if `sign` is -1)."""
    plain, error = parts(term)
    result = np.empty(np.broadcast_shapes(memory.shape, np.shape(plain)), memory.dtype)
    with np.errstate(all="ignore"):
        result["value"] = memory["value"] + sign * plain
        result["error"] = memory["error"] + (0.0 if error is None else error)
        result["size"] = memory["size"] + np.abs(plain) + (0.0 if error is None else error)
        result["count"] = memory["count"] + 1
        result["grain"] = np.minimum(memory["grain"], _grain(np.asarray(plain)))
    result["number"] = fresh_numbers(result.shape)
    return result


def _grain(value: np.ndarray) -> np.ndarray:
    """The largest power of two that a float64 is a multiple of; infinite for 0."""
    fraction, exponent = np.frexp(np.where(np.isfinite(value), value, 0.0))
    digits = (fraction * 2.0**53).astype(np.int64)
    return np.where(digits == 0, np.inf, np.ldexp((digits & -digits).astype(np.float64), exponent - 53))


def added_term(node: ir.BufferStore) -> tuple[ir.PrimExpr, int] | None:
    """The term that a store adds to the element itself, with its sign; None if it does something else."""
    value = node.value
    if not isinstance(value, (ir.Add, ir.Sub)) or not value.dtype.is_float:
        return None
    if _is_element(value.a, node):
        return value.b, 1 if isinstance(value, ir.Add) else -1
    if isinstance(value, ir.Add) and _is_element(value.b, node):
        return value.a, 1
    return None


def _is_element(value: ir.PrimExpr, node: ir.BufferStore) -> bool:
    if not isinstance(value, ir.BufferLoad) or value.buffer is not node.buffer:
        return False
    return all(ir.structural_equal(a, b) for a, b in zip(value.indices, node.indices))


class ErrorRunner(ErrorEvaluator, StatementRunner):
    """Statements run on memory of elements with errors, one iteration after the other."""

    def _number(self, value: Any) -> int:
        plain, error = parts(self.visit(value))
        if error is not None and np.any(error):
            raise TVMagicError(
                "which statements run, or where they store, depends on rounding",
                node=value,
                code="error_bound.control_depends_on_rounding",
            )
        return int(plain)

    @ir.handles(ir.BufferLoad)
    def buffer_load(self, node: ir.BufferLoad) -> Value:
        array, indices = self._place(node)
        found = np.asarray(
            array[indices].copy()
        )  # one element of several fields alone is a view, which later stores change
        if found.dtype.names is None:  # an array of constants
            return found.astype(np.float64) if node.dtype.is_float else found
        return loaded(found, node.buffer.dtype)

    @ir.handles(ir.BufferStore)
    def buffer_store(self, node: ir.BufferStore) -> None:
        array, indices = self._place(node)
        term = added_term(node)
        if term is not None and node.value.dtype.lanes == 1:
            array[indices] = extended(np.asarray(array[indices]), self.visit(term[0]), term[1])
        else:
            array[indices] = cells(self.visit(node.value), node.buffer.dtype)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        sizes = [self._number(e) for e in node.extents]
        self.memory[node.buffer_var] = cells(np.zeros(sizes), node.dtype)
        self.visit(node.body)

    @ir.handles(ir.AllocateConst)
    def constant_array(self, node: ir.AllocateConst) -> None:
        self.memory[node.buffer_var] = cells(np.asarray(node.data), node.dtype)
        self.visit(node.body)
