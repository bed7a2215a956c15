"""Definitions that read themselves at earlier places, such as `Y[t] = X[t] if t == 0 else 0.5 * Y[t - 1] + X[t]`.

One index name of the left side is time: every access of the tensor itself is earlier along it, by a number of steps that is
written in the index. Such a definition is a `te.scan`, whose first dimension is time.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import te
from tvmagic.ir import PrimExpr, ops
from tvmagic.ir.constants import const
from tvmagic.notation.affine import affine_of, holds
from tvmagic.notation.expressions import index_items

if TYPE_CHECKING:
    from tvmagic.notation.definition import Definition

__all__ = ["EXAMPLE", "earlier_access", "recurrence"]

Bound = Mapping[str, Any]
_CHECKED = 32  # first steps that are looked at; what later ones read is checked while the operator runs
EXAMPLE = "`Y[t] = X[t] if t == 0 else 0.5 * Y[t - 1] + X[t]`"


class _Earlier:
    """The tensor of a recurrence inside its own definition: `read(indices)` of the time and the other axes."""

    def __init__(self, made: Definition, time: str, read: Callable[..., Any]) -> None:
        self.name, self.read = made.name, read
        self.shape = tuple(made.ranges[axis][1] for axis in made.axes)
        self.at = made.axes.index(time)

    def __call__(self, *indices: Any) -> PrimExpr:
        others = [index for number, index in enumerate(indices) if number != self.at]
        return self.read(indices[self.at], *others)


class _Taken(ast.NodeTransformer):
    """A value without the branches that are not taken for the `ranges` of index names."""

    def __init__(self, made: Definition, ranges: Mapping[str, tuple[Any, Any]]) -> None:
        self.made, self.ranges = made, ranges

    def _chosen(self, node: ast.expr, test: ast.expr, then: ast.expr, other: ast.expr) -> ast.AST:
        verdict = holds(test, self.made.names, self.made.numbers_of_indices(), self.ranges)
        return self.generic_visit(node) if verdict is None else self.visit(then if verdict else other)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._chosen(node, node.test, node.body, node.orelse)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in ("where", "select") and len(node.args) == 3:
            return self._chosen(node, *node.args)
        return self.generic_visit(node)


def _base(access: ast.Subscript) -> str:
    """The name of the tensor that is accessed."""
    return access.value.id if isinstance(access.value, ast.Name) else ""


def _earlier(made: Definition, own: list[ast.Subscript]) -> tuple[str, int] | None:
    """The index name along which all of the accesses are earlier, and by how many steps at most."""
    for place, name in enumerate(made.axes):
        sums = [affine_of(index_items(access)[place], made.names, made.numbers_of_indices()) for access in own]
        lags = [-s.constant if s is not None and s.factors == {name: 1} else None for s in sums]
        if all(isinstance(lag, int) and lag > 0 for lag in lags):
            return name, max(lag for lag in lags if lag is not None)
    return None


def earlier_access(made: Definition) -> ast.Subscript | None:
    """An access of the tensor itself, if the statement is written as a recurrence is: each is earlier, under a condition."""
    own = [(access, guarded) for access, guarded in made.accesses if _base(access) == made.name]
    if not own or not all(guarded for _, guarded in own) or _earlier(made, [access for access, _ in own]) is None:
        return None
    return own[0][0]


def _time(made: Definition) -> tuple[str, int]:
    """The index name along which the definition reads itself earlier, and by how many steps at most."""
    own = [access for access, _ in made.accesses if _base(access) == made.name]
    found = _earlier(made, own)
    if found is not None:
        return found
    made.fail(
        own[0].value, f"`{made.name}` is read before it is computed",
        f"one index is earlier by a number wherever `{made.name}` itself is read, as in {EXAMPLE}",
    )  # fmt: skip


class _Steps:
    """The stages of one recurrence."""

    def __init__(self, made: Definition) -> None:
        self.made = made
        self.time, self.lag = _time(made)
        self.others = [axis for axis in made.axes if axis != self.time]
        begin, self.extent = made.ranges[self.time]
        if not (isinstance(begin, int) and begin == 0):
            made.fail(made.target, f"the range of `{self.time}`, which is on the left side, begins at 0")
        self.begins = self._beginnings()

    def _beginnings(self) -> list[ast.expr]:
        """The values at the first steps, as far as these read no earlier one; every later step reads what there is."""
        found: list[ast.expr] = []
        steps = min(self.lag, _CHECKED, self.extent if isinstance(self.extent, int) else self.lag)
        for step in range(steps):
            value = _Taken(self.made, {**self.made.ranges, self.time: (step, 1)}).visit(copy.deepcopy(self.made.value))
            own = [n for n in ast.walk(value) if isinstance(n, ast.Subscript) and _base(n) == self.made.name]
            for access in own:
                self._check_earlier(access, step)
            if not own and len(found) == step:
                found.append(value)
        return (
            found[: max(self.extent - 1, 1)] if isinstance(self.extent, int) else found
        )  # a scan has a step after them

    def _check_earlier(self, access: ast.Subscript, step: int) -> None:
        """Refuse an access that is taken at a step before which there is no such value."""
        made = self.made
        earlier = affine_of(index_items(access)[made.axes.index(self.time)], made.names, made.numbers_of_indices())
        if earlier is None or step + earlier.constant >= 0:
            return
        first = f"{self.time} == 0" if self.lag == 1 else f"{self.time} < {self.lag}"
        made.fail(
            access, f"`{ast.unparse(access)}` is read at `{self.time} = {step}`, before `{made.name}` has a value",
            f"say how it begins: `{ast.unparse(made.target)} = ... if {first} else {ast.unparse(made.value)}`",
        )  # fmt: skip

    def first(self, step: int, others: Any) -> PrimExpr:
        """The value at one of the first steps, `others` being the other indices."""
        bound = {**dict(zip(self.others, others)), self.time: const(step, "int32")}
        return self.made.expression(self.begins[step], bound)

    def dtype(self) -> Any:
        """The data type of the states, which that of what is made of them agrees with."""
        made, zeros = self.made, [const(0, "int32")] * len(self.others)
        taken = set(made.scope.made)
        found = self.first(0, zeros).dtype
        for _ in range(2):
            state = te.placeholder(self._shape(), found, name=made.name)
            value = self._later(state, {self.time: const(self.lag, "int32"), **dict(zip(self.others, zeros))})
            if value.dtype == found:
                break
            found = value.dtype
        else:
            made.fail(made.target, f"the type of `{made.name}` is that of no value: it becomes wider in every step")
        made.scope.made.clear()
        made.scope.made.update(taken)
        return found

    def _later(self, state: Any, bound: Bound) -> PrimExpr:
        return self.made.expression(self.made.value, bound, _Earlier(self.made, self.time, state))

    def _shape(self) -> tuple[Any, ...]:
        """Time, which has at least the first steps, and the others."""
        steps = self.extent if isinstance(self.extent, int) else ops.maximum(self.extent, self.lag)
        return (steps, *(self.made.ranges[axis][1] for axis in self.others))

    def _begun(self, dtype: Any) -> Any:
        """The stage of the first steps; those that a symbolic size does not have read nothing."""

        def body(t: Any, *others: Any) -> PrimExpr:
            *earlier, value = [ops.cast(dtype, self.first(step, others)) for step in range(len(self.begins))]
            for step, other in reversed(list(enumerate(earlier))):
                value = ops.if_then_else(ops.equal(t, step), other, value)
            some = None if isinstance(self.extent, int) else ops.less(t, self.extent)
            return value if some is None else ops.if_then_else(some, value, const(0, dtype))

        return te.compute((len(self.begins), *self._shape()[1:]), body, name=f"{self.made.name}_first")

    def build(self) -> Any:
        """The tensor: a scan, or a stage of its own where time is not the first dimension; of one step no scan is needed."""
        if isinstance(self.extent, int) and self.extent == 1:
            return self.made.stage(self.made.name, self.made.axes, lambda at: self.made.expression(self.begins[0], at))
        made, dtype = self.made, self.dtype()
        order, shape = [self.time, *self.others], self._shape()
        state = te.placeholder(shape, dtype, name=f"{made.name}_state")
        made.ranges[self.time] = (0, shape[0])
        update = made.stage(f"{made.name}_update", order, lambda at: self._later(state, at))
        first = self._begun(dtype)
        bases = dict.fromkeys(_base(access) for access, _ in made.accesses)
        inputs = [made.scope.tensors[name] for name in bases if name in made.scope.tensors]
        alone = order == made.axes and isinstance(self.extent, int)
        states = te.scan(first, update, state, inputs=inputs, name=made.name if alone else f"{made.name}_scan")
        for stage in (first, states):
            stage.op.span = made.source.span(made.target)
        if alone:
            return states
        made.ranges[self.time] = (0, self.extent)
        return made.stage(made.name, made.axes, lambda at: states(*[at[axis] for axis in order]))


def recurrence(made: Definition) -> Any:
    """The tensor of a definition that reads itself.

    Raises
    ------
    NotationError: no index is earlier in all of these accesses, or nothing says how the tensor begins.
    """
    return _Steps(made).build()
