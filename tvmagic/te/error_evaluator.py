"""Expressions evaluated to values with errors, each variable standing for an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmagic import ir
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import callee
from tvmagic.ir.semantics import plain
from tvmagic.te.error_bound import Approximate, Value, binary, cast, choose, either, parts
from tvmagic.te.error_functions import call
from tvmagic.te.error_ties import ties
from tvmagic.te.numpy_eval import ArrayEvaluator, given


def widened(value: Value, dtype: ir.DataType) -> Value:
    """Floats as float64."""
    return value if isinstance(value, Approximate) or not dtype.is_float else value.astype(np.float64)


def constant(node: Any) -> Value:
    """A constant rounded to its dtype.

    One that does not fit may be folded before it is rounded or after. One of bfloat16 may stay as it is written, as
    programs compute in float32.
    """
    meant = plain(node.value)
    value = np.asarray(meant, numpy_dtype(node.dtype))
    value = value.astype(np.float64) if node.dtype.is_float else value
    if node.dtype.is_float and np.isinf(value) and np.isfinite(meant):
        return Approximate(value, np.full((), np.inf))
    if str(node.dtype) == "bfloat16" and value != meant and np.isfinite(value):
        return Approximate(value, np.abs(value - meant))
    return value


class ErrorEvaluator(ArrayEvaluator):
    """Gives for an expression a value with its error.

    `scale`: how many times each rounding counts, for a combiner whose steps may come one after the other.
    """

    scale = 1.0

    @ir.handles(ir.IntImm, ir.FloatImm)
    def constant(self, node: Any) -> Value:
        return constant(node)

    @ir.handles(ir.BinaryOp)
    def binary(self, node: ir.BinaryOp) -> Value:
        result = binary(type(node), self.visit(node.a), self.visit(node.b), node.a.dtype, self.scale)
        if isinstance(node, ir.CmpOp):
            ties().observe(node, parts(result)[0], self.mask)
        return result

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> Value:
        value, error = parts(self.visit(node.a))
        result = np.logical_not(value)
        return result if error is None else Approximate(result, error)

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> Value:
        return cast(self.visit(node.value), node.value.dtype, node.dtype, self.scale)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Value:
        name = callee(node)
        if name == "tir.if_then_else":
            return self._choose(*node.args)
        args = [self.visit(a) for a in node.args]
        if name == "tir.reinterpret":
            return reinterpreted(args[0], node.args[0].dtype, node.dtype)
        return call(node, args, self.scale)

    def _choose(self, condition: ir.PrimExpr, then: ir.PrimExpr, otherwise: ir.PrimExpr) -> Value:
        chosen = self.visit(condition)
        holds, open_ = parts(chosen)
        outer = self.mask
        for_then = holds if open_ is None else holds | (open_ > 0)
        for_other = np.logical_not(holds) if open_ is None else np.logical_not(holds) | (open_ > 0)
        self.mask = for_then if outer is None else np.logical_and(outer, for_then)
        first = self.visit(then)
        self.mask = for_other if outer is None else np.logical_and(outer, for_other)
        second = self.visit(otherwise)
        self.mask = outer
        return choose(chosen, first, second)

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Value:
        stored = given(self.values, node.producer)
        places = [self.visit(index) for index in node.indices]
        return read(stored, node.dtype, [self._inside(node, k, p, stored) for k, p in enumerate(places)], places)

    def _inside(self, node: ir.ProducerLoad, axis: int, place: Value, stored: Any) -> np.ndarray:
        """An index that is in its dimension, or a read whose value is not used."""
        index, size = parts(place)[0], np.shape(parts(stored)[0])[axis]
        outside = (index < 0) | (index >= size)
        if outside.any():
            self._check_outside(node, axis, index, outside, size)
            index = np.clip(index, 0, max(size - 1, 0))
        return index


def read(stored: Any, dtype: ir.DataType, indices: Sequence[np.ndarray], places: Sequence[Value]) -> Value:
    """Elements of an array; if an index is not certain, any element may be read."""
    array, errors = parts(stored)
    if not array.size:  # no value that is read here is used
        return np.zeros(np.broadcast_shapes(*map(np.shape, indices)), np.float64 if dtype.is_float else array.dtype)
    value = array[tuple(indices)]
    value = value.astype(np.float64, copy=False) if dtype.is_float else value
    error = None if errors is None else np.broadcast_to(errors, array.shape)[tuple(indices)]
    numbers = stored.number if isinstance(stored, Approximate) else None
    number = None if numbers is None else np.broadcast_to(numbers, array.shape)[tuple(indices)]
    open_ = [place.error > 0 for place in places if isinstance(place, Approximate)]
    if not any(np.any(o) for o in open_):
        return value if error is None else Approximate(value, error, number)
    most = 0.0 if errors is None else np.max(errors, initial=0.0)
    far = np.maximum(either(value, array.max(), None), either(value, array.min(), None)) + most
    reached = np.logical_or.reduce(np.broadcast_arrays(*open_))
    return Approximate(value, np.where(reached, far, 0.0 if error is None else error))


def reinterpreted(value: Value, source: ir.DataType, target: ir.DataType) -> Value:
    plain, error = parts(value)
    bits = plain.astype(numpy_dtype(source)).view(numpy_dtype(target))
    result = widened(bits, target)
    return result if error is None else Approximate(result, np.where(error == 0, 0.0, np.inf))
