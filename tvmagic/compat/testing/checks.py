"""Assertions on arrays, expressions and functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic import arith, ir, te
from tvmagic.errors import WrongValueError
from tvmagic.tir.schedule.testing import assert_structural_equal_ignore_global_symbol

__all__ = [
    "assert_allclose",
    "assert_prim_expr_equal",
    "assert_prim_func_equal_structural",
    "check_bool_expr_is_true",
]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise an AssertionError unless two arrays have one shape and differ by at most `atol + rtol * |desired|`."""
    import numpy as np

    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    assert actual.shape == desired.shape, f"the shapes differ: {actual.shape} and {desired.shape}"
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise a ValueError unless the analyzer proves that two expressions are equal."""
    if not arith.Analyzer().can_prove_equal(lhs, rhs):
        raise WrongValueError(f"{lhs} and {rhs} are not equal", code="testing.expressions_differ")


assert_prim_func_equal_structural = assert_structural_equal_ignore_global_symbol


def check_bool_expr_is_true(bool_expr: Any, vranges: Mapping[ir.Var, ir.Range], cond: Any = None) -> None:
    """Raise an AssertionError, with a counterexample, unless a condition holds for all values of its variables.

    vranges: the range of each variable, of constant extent. cond: a condition that the values must meet.
    """
    import numpy as np

    claim = ir.ops.expr(bool_expr) if cond is None else ir.ops.logical_or(ir.Not(ir.ops.expr(cond)), bool_expr)
    variables, ranges = list(vranges), list(vranges.values())
    extents = [_constant(r.extent) for r in ranges]
    if not variables:
        extents = [1]

    def value(*point: ir.Var) -> ir.PrimExpr:
        return ir.substitute(claim, {v: p + r.min for v, p, r in zip(variables, point, ranges)})

    holds = _values(extents, value)
    if np.all(holds):
        return
    place = np.argwhere(np.logical_not(holds))[0]
    values = sorted((v.name, _constant(r.min) + int(i)) for v, r, i in zip(variables, ranges, place))
    example = ", ".join(f"{name} = {number}" for name, number in values)
    raise AssertionError(
        f"Expression {arith.Analyzer().simplify(claim)}\nis not true on {dict(vranges)}\nCounterexample: {example}"
    )


def _constant(extent: ir.PrimExpr) -> int:
    size = arith.Analyzer().simplify(extent)
    if not isinstance(size, ir.IntImm):
        raise WrongValueError(
            f"`{size}`, which a range of values has, is not a constant", code="testing.range_not_constant"
        )
    return size.value


def _values(extents: list[int], value: Any) -> Any:
    """The values of a condition at all points, computed by compiled code."""
    import numpy as np

    from tvmagic.driver import build

    table = te.compute(tuple(extents), lambda *point: ir.ops.cast("int8", value(*point)), name="holds")
    result = np.zeros(extents, "int8")
    build(te.create_schedule(table.op), [table])(result)
    return result
