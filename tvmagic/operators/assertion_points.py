"""All iterations of the loops of an assertion at once, and the values of expressions at them, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.ir import PrimExpr, Var
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.notation.assertions import Loop, Reduction, Side
from tvmagic.te.numpy_eval import ArrayEvaluator

_FUNCTIONS: dict[str, Any] = {
    "any": np.logical_or, "all": np.logical_and, "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


class Points:
    """Iterations of nested loops, one after the other: each variable has an array with its value in each of them.

    `arrays`: by tensor; `sizes`: the values of symbolic sizes.
    """

    def __init__(self, arrays: Mapping[Any, np.ndarray], sizes: Mapping[Var, int]) -> None:
        self.arrays, self.count = arrays, 1
        self.env: dict[Var, np.ndarray] = {v: np.asarray(n, numpy_dtype(v.dtype)) for v, n in sizes.items()}
        self.loops: list[Var] = []

    def value(self, expr: Any) -> np.ndarray:
        """The value of an expression at each point, with strict bounds."""
        if not isinstance(expr, PrimExpr):
            return np.asarray(expr)
        return np.asarray(ArrayEvaluator(self.env, self.arrays).visit(expr))

    def enter(self, loops: Sequence[Loop]) -> Points:
        """Add loops inside those that are there; a range visits only itself. Return the points."""
        for loop in loops:
            begin, end = (np.broadcast_to(self.value(e), self.count) for e in (loop.begin, loop.end))
            counts = np.maximum(end.astype(np.int64) - begin.astype(np.int64), 0)
            starts = np.cumsum(counts) - counts
            self.env.update({var: np.repeat(self.env[var], counts) for var in self.loops})
            self.count = int(counts.sum())
            place = np.arange(self.count, dtype=np.int64) - np.repeat(starts - begin, counts)
            self.env[loop.var] = place.astype(numpy_dtype(loop.var.dtype))
            self.loops.append(loop.var)
        return self


def side_value(side: Side, at: Mapping[Var, int], arrays: Mapping[Any, np.ndarray], sizes: Mapping[Var, int]) -> Any:
    """The value of an operand in one iteration: `at` has the values of the loops' variables."""
    known = {**sizes, **at}
    for reduction in side.reductions:
        known[reduction.var] = _reduced(reduction, known, arrays)
    return Points(arrays, known).value(side.value).item()


def _reduced(reduction: Reduction, known: Mapping[Var, Any], arrays: Mapping[Any, np.ndarray]) -> Any:
    """The value of a reduction in one iteration."""
    points = Points(arrays, known).enter(reduction.loops)
    start = points.value(reduction.identity)
    if not reduction.inner:
        values = np.broadcast_to(points.value(reduction.element), points.count)
        return _FUNCTIONS[reduction.kind].reduce(values, initial=start, dtype=start.dtype)
    result = start
    for number in range(points.count):
        inner = {**known, **{var: points.env[var][number] for var in points.loops}}
        for part in reduction.inner:
            inner[part.var] = _reduced(part, inner, arrays)
        result = _FUNCTIONS[reduction.kind](result, Points(arrays, inner).value(reduction.element))
    return result
