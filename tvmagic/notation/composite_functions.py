"""Functions of the index notation that are stages of simpler ones: `mean`, `softmax`, `argmax`, running sums.

Each takes the statement that it is in, the call `f(E, over=k)`, and what the index names are bound to at its place; it
makes the stages that it needs, named after the statement (`Y_argmax`), and gives the value there.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from tvmagic import te
from tvmagic.ir import DataType, FloatImm, PrimExpr, Select, ops
from tvmagic.ir.constants import const, max_value, min_value
from tvmagic.notation.source import Source
from tvmagic.notation.syntax import over_names
from tvmagic.notation.wide_sums import is_narrow_float, round_to, widen

Bound = Mapping[str, Any]


class Stages(Protocol):
    """What a statement offers for making stages."""

    source: Source

    @property
    def ranges(self) -> Mapping[str, tuple[Any, Any]]:
        """The range (first value, extent) of every index name."""
        ...

    def fail(self, node: ast.AST, message: str, hint: str | None = None, *, code: str | None = None) -> NoReturn:
        """Raise the error of a place in the statement."""
        ...

    def index_names(self, node: ast.AST) -> list[str]:
        """The index names in `node`, in the order in which they are first read."""
        ...

    def compute(self, suffix: str, axes: list[str], body: Callable[[Bound], Any]) -> Any:
        """A stage named after the statement, of the elements `body(index names to variables)`."""
        ...

    def expression(self, node: ast.expr, bound: Bound) -> PrimExpr:
        """An expression of the notation."""
        ...


def _one(stages: Stages, call: ast.Call) -> tuple[ast.expr, list[str], list[str]]:
    """The expression of a call, its index names, and those that follow `over=`."""
    name = ast.unparse(call.func)
    over = over_names(call, stages.source)
    if len(call.args) != 1:
        stages.fail(
            call,
            f"`{name}(..., over=...)` takes one expression, not {len(call.args)}",
            code="notation.wrong_argument_count",
        )
    names = stages.index_names(call.args[0])
    for missing in sorted(over - set(names)):
        stages.fail(call, f"nothing is indexed by `{missing}`, over which `{name}` runs", code="notation.unused_index")
    return call.args[0], names, [n for n in names if n in over]


def refuse_sum_of_bools(stages: Stages, node: ast.AST, any_of: str) -> NoReturn:
    """The sum of bools is a bool, not how many there are as in NumPy; `any_of` is the text for whether any is true."""
    text = ast.unparse(node)
    stages.fail(
        node,
        f"`{text}` is a `bool`: its sum would say whether any is true, not how many are",
        f"write `int32({text})` to count them, `{any_of}` for whether any is true",
        code="notation.sum_of_bools",
    )


def _check_kept(stages: Stages, call: ast.Call, over: list[str], bound: Bound) -> None:
    """The value has an element for each value of these index names, so they are on the left side too."""
    for name in over:
        if name not in bound:
            function = ast.unparse(call.func)
            stages.fail(
                call,
                f"`{function}` has a value for each `{name}`",
                f"put `{name}` on the left side too",
                code="notation.index_kept",
            )


def _reduced(stages: Stages, kind: str, suffix: str, names: list[str], over: list[str], body: Any) -> Any:
    """A stage that reduces `body` over some of the index names."""
    axes = [n for n in names if n not in over]

    def reduce(bound: Bound) -> Any:
        own = {
            n: te.reduce_axis((stages.ranges[n][0], stages.ranges[n][0] + stages.ranges[n][1]), name=n) for n in over
        }
        inside = {**bound, **{n: iv.var for n, iv in own.items()}}
        return getattr(te, kind)(body(inside), axis=list(own.values()))

    return stages.compute(suffix, axes, reduce)


def _mean(stages: Stages, call: ast.Call, bound: Bound) -> PrimExpr:
    node, names, over = _one(stages, call)
    total, dtype = _sum(stages, names, over, lambda at: _float(stages, node, call, at))
    terms: Any = math.prod((stages.ranges[n][1] for n in over), start=1)
    count = te.const(terms, total.dtype) if isinstance(terms, int) else ops.cast(total.dtype, terms)
    return round_to(dtype, total(*[bound[n] for n in names if n not in over]) / count)


def _sum(stages: Stages, names: list[str], over: list[str], body: Callable[[Bound], PrimExpr]) -> tuple[Any, Any]:
    """The stage of a sum, and the dtype of its terms; terms that are 16-bit floats are accumulated in float32."""
    dtypes: list[Any] = []

    def term(at: Bound) -> PrimExpr:
        value = body(at)
        dtypes.append(value.dtype)
        return widen(value) if is_narrow_float(value.dtype) else value

    return _reduced(stages, "sum", "sum", names, over, term), dtypes[0]


def _float(stages: Stages, node: ast.expr, call: ast.Call, bound: Bound) -> PrimExpr:
    """The value of an expression that must be a float."""
    value = stages.expression(node, bound)
    if not value.dtype.is_float:
        text = f"{ast.unparse(call.func)}(float32({ast.unparse(node)}), ...)"
        stages.fail(
            call,
            f"`{ast.unparse(node)}` is {value.dtype}; `{ast.unparse(call.func)}` takes floats",
            f"write `{text}`",
            code="notation.not_a_float",
        )
    return value


def _softmax(stages: Stages, call: ast.Call, bound: Bound) -> PrimExpr:
    """exp(E - max of E) over the sum of these, so that nothing overflows."""
    node, names, over = _one(stages, call)
    _check_kept(stages, call, over, bound)
    rows = [n for n in names if n not in over]
    at_row = lambda tensor, at: tensor(*[at[n] for n in rows])  # noqa: E731
    top = _reduced(stages, "max", "max", names, over, lambda at: _float(stages, node, call, at))
    shifted = stages.compute("exp", names, lambda at: ops.exp(stages.expression(node, at) - at_row(top, at)))
    total, dtype = _sum(stages, names, over, lambda at: shifted(*[at[n] for n in names]))
    return round_to(dtype, round_to(total.dtype, shifted(*[bound[n] for n in names])) / at_row(total, bound))


def _arg(name: str) -> Callable[[Stages, ast.Call, Bound], PrimExpr]:
    def arg(stages: Stages, call: ast.Call, bound: Bound) -> PrimExpr:
        node, names, over = _one(stages, call)
        if len(over) != 1:
            stages.fail(
                call,
                f"`{name}` runs over one index, not {len(over)}",
                "its value is the place along that index",
                code="notation.several_indices",
            )
        axes = [n for n in names if n not in over]
        begin, extent = stages.ranges[over[0]]

        def reduce(at: Bound) -> Any:
            axis = te.reduce_axis((begin, begin + extent), name=over[0])
            value = stages.expression(node, {**at, over[0]: axis.var})
            return _REDUCERS[name]((ops.cast("int32", axis.var), value), axis=axis)

        return stages.compute(name, axes, reduce)[0](*[bound[n] for n in axes])

    return arg


def _first_of(better: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Of two pairs (place, value) the better one; of equal ones the first, as in NumPy, and a NaN before any number."""

    def combine(a: Any, b: Any) -> Any:
        (i, x), (j, y) = a, b
        wins, same = better(y, x), ops.equal(x, y)
        if x.dtype.is_float:
            of_x, of_y = ops.isnan(x), ops.isnan(y)
            wins, same = ops.any(wins, ops.all(of_y, ops.logical_not(of_x))), ops.any(same, ops.all(of_x, of_y))
        takes = ops.any(wins, ops.all(same, j < i))
        return Select(takes, j, i), Select(takes, y, x)

    return combine


def _worst(sign: int) -> Callable[[DataType, DataType], Any]:
    """The neutral pair: after every place, and no better than any value."""

    def identity(place: DataType, dtype: DataType) -> Any:
        last = max_value(place)
        if dtype.is_float:
            return last, FloatImm(dtype, sign * math.inf)
        return last, min_value(dtype) if sign < 0 else max_value(dtype)

    return identity


_REDUCERS = {
    "argmax": te.comm_reducer(_first_of(lambda a, b: a > b), _worst(-1), name="argmax", nonempty=True),
    "argmin": te.comm_reducer(_first_of(lambda a, b: a < b), _worst(1), name="argmin", nonempty=True),
}


def _if_some(some: PrimExpr | None, term: PrimExpr) -> PrimExpr:
    return term if some is None else ops.if_then_else(some, term, const(0, term.dtype))


def _running(combine: Callable[[Any, Any], Any]) -> Callable[[Stages, ast.Call, Bound], PrimExpr]:
    """`cumsum(E, over=i)`: a scan whose steps are the values of `i`."""

    def run(stages: Stages, call: ast.Call, bound: Bound) -> PrimExpr:
        node, names, over = _one(stages, call)
        name = ast.unparse(call.func)
        if len(over) != 1:
            stages.fail(call, f"`{name}` runs over one index, not {len(over)}", code="notation.several_indices")
        _check_kept(stages, call, over, bound)
        order = [over[0], *(n for n in names if n not in over)]
        begin, steps = stages.ranges[over[0]]
        if not (isinstance(begin, int) and begin == 0):
            stages.fail(
                call,
                f"the range of `{over[0]}`, over which `{name}` runs, begins at 0",
                code="notation.range_not_from_zero",
            )
        terms, dtype = _terms(stages, node, order, name == "cumsum")
        if name == "cumsum" and terms.dtype == "bool":
            refuse_sum_of_bools(stages, node, f"cummax({ast.unparse(node)}, over={over[0]})")
        rest = terms.shape[1:]
        some = None if isinstance(steps, int) else ops.less(0, steps)
        if some is not None:  # the first step is always taken: it has a place, and reads nothing if there is nothing
            steps = ops.maximum(steps, 1)
        first = te.compute((1, *rest), lambda t, *i: _if_some(some, terms(t, *i)), name=f"{terms.op.name}_first")
        state = te.placeholder((steps, *rest), terms.dtype, name=f"{terms.op.name}_state")
        update = te.compute(
            (steps, *rest), lambda t, *i: combine(state(t - 1, *i), terms(t, *i)), name=f"{terms.op.name}_update"
        )
        states = te.scan(first, update, state, inputs=[terms], name=f"{terms.op.name}_{name}")
        return round_to(dtype, states(*[bound[n] for n in order]))

    return run


def _terms(stages: Stages, node: ast.expr, order: list[str], is_sum: bool) -> tuple[Any, Any]:
    """The stage of the values that a scan combines, and their dtype; those of a sum of 16-bit floats are in float32."""
    dtypes: list[Any] = []

    def term(at: Bound) -> PrimExpr:
        value = stages.expression(node, at)
        dtypes.append(value.dtype)
        return widen(value) if is_sum and is_narrow_float(value.dtype) else value

    return stages.compute("terms", order, term), dtypes[0]


DERIVED: dict[str, Callable[[Stages, ast.Call, Bound], PrimExpr]] = {
    "mean": _mean,
    "softmax": _softmax,
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "cumsum": _running(lambda a, b: a + b),
    "cumprod": _running(lambda a, b: a * b),
    "cummax": _running(ops.maximum),
    "cummin": _running(ops.minimum),
}
"""What may follow `=` besides the plain functions, each with `over=`; those that keep their index have it on the left too."""
