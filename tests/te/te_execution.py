"""Runs a scheduled program on random arrays and compares it with NumPy's value of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import tvmagic
from tvmagic import te
from tvmagic.ir import IntImm, Var
from tvmagic.te.reference import evaluate_all

SYMBOLIC = 37


def arrays_for(args: list[Any], seed: int = 0, size: int = SYMBOLIC) -> list[Any]:
    """A random array for each tensor, `size` for each variable and symbolic dimension."""
    random = np.random.default_rng(seed)
    arrays: list[Any] = []
    for arg in args:
        if isinstance(arg, Var):
            arrays.append(size)
            continue
        shape = [s.value if isinstance(s, IntImm) else size for s in arg.shape]
        if arg.dtype.is_float:
            arrays.append((random.random(shape) - 0.5).astype(str(arg.dtype)))
        else:
            arrays.append(random.integers(-5, 6, shape).astype(str(arg.dtype)))
    return arrays


def largest_difference(s: Any, args: list[Any], seed: int = 0, outputs: list[Any] | None = None) -> float:
    """The largest difference between the compiled program and NumPy, relative to the largest value."""
    func = tvmagic.build(s, args, "llvm")
    arrays = arrays_for(args, seed)
    results = outputs or [a for a in args if not isinstance(a, Var) and not isinstance(a.op, te.PlaceholderOp)]
    given = {a: x for a, x in zip(args, arrays) if not any(a is r for r in results)}
    wanted = evaluate_all(results, given)
    for arg, array in zip(args, arrays):
        if any(arg is r for r in results):
            array[...] = 7 if array.dtype.kind != "f" else np.nan
    func(*arrays)
    worst = 0.0
    for result, value in zip(results, wanted):
        found = next(x for a, x in zip(args, arrays) if a is result)
        assert found.shape == value.shape
        found, value = found.astype(np.float64), value.astype(np.float64)
        same = (found == value) | (np.isnan(found) & np.isnan(value))  # infinities too
        assert not np.isnan(found[~same]).any(), f"`{result.name}` has elements that were not computed"
        scale = max(1.0, np.abs(value[np.isfinite(value)]).max(initial=0.0))
        worst = max(worst, float(np.abs(found[~same] - value[~same]).max(initial=0.0) / scale))
    return worst
