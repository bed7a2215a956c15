"""Reductions: `sum`, `min`, `max`, `prod`, and `comm_reducer` for others such as argmax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.constants import const, neutral_of_max, neutral_of_min
from tvmagic.ir.ops import maximum, minimum

__all__ = ["LAWS", "combine", "comm_reducer", "max", "min", "prod", "sum", "unproved_law"]

LAWS = "associative and commutative, with a neutral start value"


def combine(combiner: ir.CommReducer, left: Sequence[Any], right: Sequence[Any]) -> list[ir.PrimExpr]:
    """What a combiner makes of two values, or of two sequences of values for a reduction of several."""
    values: dict[Any, Any] = {**dict(zip(combiner.lhs, left)), **dict(zip(combiner.rhs, right))}
    return [ir.substitute(result, values) for result in combiner.result]


def comm_reducer(
    fcombine: Callable[..., Any],
    fidentity: Callable[..., Any],
    name: str = "reduce",
    associative: bool = False,
    nonempty: bool = False,
) -> Callable[..., Any]:
    """Make a reduction of a combining function and its neutral element.

    Parameters
    ----------
    fcombine: takes two values (two sequences for a tuple reduction), gives the combined ones.
    fidentity: takes the dtype of each value, gives the neutral element of each.
    associative: declare that `fcombine` is associative and commutative, and `fidentity` neutral. `rfactor`,
        reductions over threads and the order of reduction loops rest on this. Without the declaration they
        are refused unless it can be proved: for sums, products, minima, maxima, choices by comparison
        (argmax), and polynomials such as the complex product.
    nonempty: declare that a reduction of no elements has no value. A call with such sizes is refused.

    The result is called as `reducer(expr, axis, where=None, init=None)`: `expr` is one expression
    or a tuple, `axis` one reduction axis or several; only elements with `where` take part. Called
    as `reducer(a, b, ...)` on expressions it combines just these.
    """
    names = fcombine.__code__.co_varnames
    if fcombine.__code__.co_argcount != 2:
        raise TVMagicError(f"the combiner of `{name}` takes two arguments", code="te.comm_reducer.wrong_combiner")

    def combiner_of(values: tuple[ir.PrimExpr, ...], is_tuple: bool) -> ir.CommReducer:
        dtypes = [v.dtype for v in values]
        suffixes = [f"_{i}" for i in range(len(values))] if is_tuple else [""]
        lhs = [ir.Var(names[0] + s, t) for s, t in zip(suffixes, dtypes)]
        rhs = [ir.Var(names[1] + s, t) for s, t in zip(suffixes, dtypes)]
        result = fcombine(lhs, rhs) if is_tuple else fcombine(lhs[0], rhs[0])
        identity = fidentity(*dtypes)
        declared = {"associative": associative, "nonempty": nonempty}
        attrs = {law: True for law, holds in declared.items() if holds}
        combiner = ir.CommReducer(lhs, rhs, ir.exprs(result), ir.exprs(identity), attrs)
        if not len(combiner.result) == len(combiner.identity_element) == len(values):
            raise TVMagicError(
                f"`{name}` combines {len(values)} values but gives {len(combiner.result)}",
                code="te.comm_reducer.wrong_value_count",
            )
        return combiner

    def reduce(values: Any, axis: Any, where: Any, init: Any) -> Any:
        is_tuple = isinstance(values, (tuple, list))
        sources = ir.exprs(values) if is_tuple else (ir.expr(values),)
        axes = _reduction_axes(axis)
        combiner = combiner_of(sources, is_tuple)
        start = () if init is None else ir.exprs(init if isinstance(init, (tuple, list)) else [init])
        condition = ir.convert(True) if where is None else ir.expr(where)
        outputs = [ir.Reduce(combiner, sources, axes, condition, i, start) for i in range(len(sources))]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def reducer(value: Any, axis: Any = None, where: Any = None, init: Any = None, *args: Any) -> Any:
        if isinstance(axis, (ir.IterVar, list, tuple)):
            return reduce(value, axis, where, init)
        if axis is None:
            raise TVMagicError(
                f"`{name}` takes an axis, or several values to combine",
                hint=f"write `{name}(..., axis=k)` with `k = te.reduce_axis((0, 128), name='k')` above",
                code="te.comm_reducer.missing_axis",
            )
        others = (other for other in (axis, where, init, *args) if other is not None)
        return functools.reduce(fcombine, others, value)

    reducer.__name__ = reducer.__qualname__ = name
    reducer.__doc__ = f"The `{name}` of `value` over `axis`; or of just the values given."
    return reducer


def _reduction_axes(axis: Any) -> Sequence[ir.IterVar]:
    """Return one axis or several as a sequence. Raises TVMagicError unless all are reduction axes."""
    axes = axis if isinstance(axis, (list, tuple)) else [axis]
    for iv in axes:
        if not isinstance(iv, ir.IterVar) or iv.iter_type != ir.IterVar.CommReduce:
            shown = iv.var.name if isinstance(iv, ir.IterVar) else repr(iv)
            raise TVMagicError(
                f"`{shown}` is not a reduction axis",
                hint="make it by te.reduce_axis",
                code="te.comm_reducer.not_a_reduction_axis",
            )
    return axes


def unproved_law(action: str, combiner: ir.CommReducer, law: str) -> tuple[str, str]:
    """Return the message and the hint of a refusal because a law of the reducer is not proved."""
    sides = ", ".join(v.name for v in (*combiner.lhs, *combiner.rhs))
    text = ", ".join(map(str, combiner.result))
    return (
        f"cannot {action}: cannot prove that its reducer `lambda {sides}: {text}` is {law}",
        "leave the reduction loops in order, or declare it by `te.comm_reducer(..., associative=True)`",
    )


def _constant(value: int) -> Callable[[ir.DataType], ir.PrimExpr]:
    return lambda dtype: const(value, dtype)


sum = comm_reducer(lambda x, y: x + y, _constant(0), name="sum")
prod = comm_reducer(lambda x, y: x * y, _constant(1), name="prod")
min = comm_reducer(lambda x, y: minimum(x, y), neutral_of_min, name="min")
max = comm_reducer(lambda x, y: maximum(x, y), neutral_of_max, name="max")
