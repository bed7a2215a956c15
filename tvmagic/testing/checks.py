"""Assertions on arrays, expressions and functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic import arith, te
from tvmagic.errors import WrongValueError
from tvmagic.ir import IntImm, Not, PrimExpr, Range, Var, ops, substitute
from tvmagic.tir.schedule.testing import assert_structural_equal_ignore_global_symbol

__all__ = [
    "assert_allclose",
    "assert_prim_expr_equal",
    "assert_prim_func_equal_structural",
    "check_bool_expr_is_true",
    "check_int_constraints_trans_consistency",
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
        raise WrongValueError(f"{lhs} and {rhs} are not equal")


assert_prim_func_equal_structural = assert_structural_equal_ignore_global_symbol


def check_bool_expr_is_true(bool_expr: Any, vranges: Mapping[Var, Range], cond: Any = None) -> None:
    """Raise an AssertionError, with a counterexample, unless a condition holds for all values of its variables.

    vranges: the range of each variable, of constant extent. cond: a condition that the values must meet.
    """
    import numpy as np

    claim = ops.expr(bool_expr) if cond is None else ops.logical_or(Not(ops.expr(cond)), bool_expr)
    variables, ranges = list(vranges), list(vranges.values())
    extents = [_constant(r.extent) for r in ranges]
    if not variables:
        extents = [1]

    def value(*point: Var) -> PrimExpr:
        return substitute(claim, {v: p + r.min for v, p, r in zip(variables, point, ranges)})

    holds = _values(extents, value)
    if np.all(holds):
        return
    place = np.argwhere(np.logical_not(holds))[0]
    values = sorted((v.name, _constant(r.min) + int(i)) for v, r, i in zip(variables, ranges, place))
    example = ", ".join(f"{name} = {number}" for name, number in values)
    raise AssertionError(
        f"Expression {arith.Analyzer().simplify(claim)}\nis not true on {dict(vranges)}\nCounterexample: {example}"
    )


def _constant(extent: PrimExpr) -> int:
    size = arith.Analyzer().simplify(extent)
    if not isinstance(size, IntImm):
        raise WrongValueError(f"`{size}`, which a range of values has, is not a constant")
    return size.value


def _values(extents: list[int], value: Any) -> Any:
    """The values of a condition at all points, computed by compiled code."""
    import numpy as np

    from tvmagic.driver import build

    table = te.compute(tuple(extents), lambda *point: ops.cast("int8", value(*point)), name="holds")
    result = np.zeros(extents, "int8")
    build(te.create_schedule(table.op), [table])(result)
    return result


def check_int_constraints_trans_consistency(constraints_trans: Any, vranges: Mapping[Var, Range] | None = None) -> None:
    """Raise an AssertionError unless a transform of constraints is one to one and its two sides say the same."""
    t, outer = constraints_trans, dict(vranges or {})
    _check_forward(t.src, t.dst, t.src_to_dst, t.dst_to_src, outer)
    _check_forward(t.dst, t.src, t.dst_to_src, t.src_to_dst, outer)


def _check_forward(here: Any, there: Any, to_there: Any, to_here: Any, outer: dict[Var, Range]) -> None:
    """At every point of `here`: the transform leads back to it, and what `there` demands holds."""
    analyzer, true = arith.Analyzer(), ops.const(True)
    claim: PrimExpr = true
    for var in here.variables:
        if var in to_there:
            back = analyzer.simplify(substitute(to_there[var], to_here))
            claim = ops.logical_and(claim, ops.equal(var, back))
    demanded = ops.all(true, *there.relations)
    for var in there.variables:
        if var in there.ranges:
            r = there.ranges[var]
            demanded = ops.all(demanded, var >= r.min, var < r.min + r.extent)
    claim = ops.logical_and(analyzer.simplify(substitute(demanded, to_here)), claim)
    check_bool_expr_is_true(claim, {**outer, **here.ranges}, cond=ops.all(true, *here.relations))
