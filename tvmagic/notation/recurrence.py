"""Definitions that read themselves at earlier places, such as `Y[t] = X[t] if t == 0 else 0.5 * Y[t - 1] + X[t]`.

One index name of the left side is time: every access of the tensor itself is earlier along it, by a number of steps that is
written in the index. Such a definition is a `te.scan`, whose first dimension is time. In a table, such as
`L[i, j] = 0 if i == 0 or j == 0 else max(L[i - 1, j], L[i, j - 1])`, two index names are time together: its elements are computed
row by row, one after another. Tensors that read each other are a table, too, with an index that says which one it is:

    S[t, s] = 0 if t == 0 else (0.5 * S[t - 1, 0] + S[t - 1, 1]) if s == 0 else tanh(S[t, 0])
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any

from tvmagic import te
from tvmagic.ir import PrimExpr, ops
from tvmagic.ir.constants import const
from tvmagic.notation.affine import affine_of, holds
from tvmagic.notation.conditional_reductions import choice_of
from tvmagic.notation.expressions import index_items
from tvmagic.notation.syntax import over_names
from tvmagic.notation.wide_sums import stage_of

if TYPE_CHECKING:
    from tvmagic.notation.definition import Definition

Bound = Mapping[str, Any]
_CASES = 16  # values of an index of which it is looked at which are left in a branch
_BORDER = 128  # elements along each border of a table that are looked at
_CHECKED = 32  # first steps that are looked at; what later ones read is checked while the operator runs
EXAMPLE = "`Y[t] = X[t] if t == 0 else 0.5 * Y[t - 1] + X[t]`"


class _Earlier:
    """The tensor of a recurrence inside its own definition: `read(indices)` of the step and the other axes."""

    def __init__(self, steps: _Steps, read: Callable[..., Any]) -> None:
        self.name, self.steps, self.read = steps.made.name, steps, read
        self.shape = tuple(steps.made.ranges[axis][1] for axis in steps.made.axes)
        self.in_a_table = isinstance(steps, _Table)

    def __call__(self, *indices: Any) -> PrimExpr:
        at = dict(zip(self.steps.made.axes, indices))
        return self.read(self.steps.step_read(at), *[at[axis] for axis in self.steps.others])


class _Taken(ast.NodeTransformer):
    """A value without the branches that are not taken for the `ranges` of index names; `over=` gives a name all of its range."""

    def __init__(self, made: Definition, ranges: Mapping[str, tuple[Any, Any]]) -> None:
        self.made, self.ranges = made, ranges

    def _chosen(self, node: ast.expr, test: ast.expr, then: ast.expr, other: ast.expr) -> ast.AST:
        verdict = holds(test, self.made.names, self.made.numbers_of_indices(), self.ranges)
        return self.generic_visit(node) if verdict is None else self.visit(then if verdict else other)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._chosen(node, node.test, node.body, node.orelse)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        choice = choice_of(node)
        if choice is not None:
            return self._chosen(node, *choice)
        inside = {
            name: self.made.ranges[name] for name in over_names(node, self.made.source) if name in self.made.ranges
        }
        around, self.ranges = self.ranges, {**self.ranges, **inside}
        try:
            return self.generic_visit(node)
        finally:
            self.ranges = around


class _Settled(ast.NodeVisitor):
    """Puts index names in the place of numbers in accesses of the tensor itself, if a branch leaves one value of the name.

    In the branch `s == 0`, an access with 1 in the place of `s` becomes one with `s + 1`.
    """

    def __init__(self, made: Definition) -> None:
        self.made = made
        extents = {name: made.ranges[name][1] for name in made.axes}
        self.left = {name: range(n) for name, n in extents.items() if isinstance(n, int) and n <= _CASES}

    def _branch(self, node: ast.expr, test: ast.expr, taken: bool) -> None:
        """Visit what is evaluated if `test` holds, or if it does not."""
        around, ranges, numbers = self.left, self.made.ranges, self.made.numbers_of_indices()
        self.left = {
            name: [
                value
                for value in values
                if holds(test, self.made.names, numbers, {**ranges, name: (value, 1)}) in (None, taken)
            ]
            for name, values in around.items()
        }
        self.visit(node)
        self.left = around

    def _choice(self, node: ast.expr) -> None:
        choice = choice_of(node)
        if choice is None:
            self.generic_visit(node)
            return
        test, then, other = choice
        self._branch(then, test, True)
        self._branch(other, test, False)
        self.visit(test)

    visit_IfExp = visit_Call = _choice

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        if _base(node) != self.made.name or not isinstance(node.slice, ast.Tuple):
            return
        for place, (name, item) in enumerate(zip(self.made.axes, node.slice.elts)):
            left = self.left.get(name, ())
            number = affine_of(item, self.made.names, self.made.numbers_of_indices())
            if len(left) == 1 and number is not None and not number.factors and isinstance(number.constant, int):
                moved = ast.BinOp(ast.Name(name, ast.Load()), ast.Add(), ast.Constant(number.constant - left[0]))
                node.slice.elts[place] = ast.fix_missing_locations(ast.copy_location(moved, item))


def _base(access: ast.Subscript) -> str:
    """The name of the tensor that is accessed."""
    return access.value.id if isinstance(access.value, ast.Name) else ""


def _offset(made: Definition, access: ast.Subscript, name: str) -> int | None:
    """The number that an access adds to the index `name` of the left side; None if it is not of that form."""
    found = affine_of(index_items(access)[made.axes.index(name)], made.names, made.numbers_of_indices())
    return (
        found.constant if found is not None and found.factors == {name: 1} and isinstance(found.constant, int) else None
    )


def _earlier(made: Definition, own: list[ast.Subscript]) -> tuple[tuple[str, ...], list[tuple[int, ...]]] | None:
    """The index name, or the row and the column, along which all of the accesses are earlier, and by how much each is."""
    for count in (1, 2):
        for names in permutations(made.axes, count):
            offsets = [tuple(_offset(made, access, name) for name in names) for access in own]
            known = [offset for offset in offsets if None not in offset]
            if len(known) == len(own) and all(offset < (0,) * count for offset in known):  # type: ignore[operator]
                return names, known  # type: ignore[return-value]
    return None


def earlier_access(made: Definition) -> ast.Subscript | None:
    """An access of the tensor itself, if the statement is written as a recurrence is: each is earlier, under a condition."""
    own = [(access, guarded) for access, guarded in made.accesses if _base(access) == made.name]
    if not own or not all(guarded for _, guarded in own) or _earlier(made, [access for access, _ in own]) is None:
        return None
    return own[0][0]


def _check_zero(made: Definition, name: str) -> None:
    begin = made.ranges[name][0]
    if not (isinstance(begin, int) and begin == 0):
        made.fail(
            made.target,
            f"the range of `{name}`, which is on the left side, begins at 0",
            code="notation.range_not_from_zero",
        )


class _Steps:
    """The stages of one recurrence along the index name `time`."""

    def __init__(self, made: Definition, time: str, lag: int) -> None:
        self.made, self.time, self.lag = made, time, lag
        self.others = [axis for axis in made.axes if axis != time]
        self.extent = made.ranges[time][1]
        self.begins = self._beginnings()

    def step_of(self, at: Bound) -> Any:
        """The step at which the element at these indices is computed."""
        return at[self.time]

    def step_read(self, at: Bound) -> Any:
        """The step that an access with these indices reads."""
        return self.step_of(at)

    def places(self, step: Any) -> Bound:
        """The indices of the step."""
        return {self.time: step}

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
            f"say how it begins: `{ast.unparse(made.target)} = ... if {first} else {ast.unparse(made.value)}`", code="notation.read_before_first_value",
        )  # fmt: skip

    def first(self, step: int, others: Any) -> PrimExpr:
        """The value at one of the first steps, `others` being the other indices."""
        bound = {**dict(zip(self.others, others)), **self.places(const(step, "int32"))}
        return self.made.expression(self.begins[step], bound)

    def dtype(self) -> Any:
        """The data type of the states, which that of what is made of them agrees with."""
        made, zeros = self.made, [const(0, "int32")] * len(self.others)
        taken = set(made.scope.made)
        found = self.first(0, zeros).dtype
        for _ in range(2):
            state = te.placeholder(self._shape(), found, name=made.name)
            value = self._later(state, {**self.places(const(self.lag, "int32")), **dict(zip(self.others, zeros))})
            if value.dtype == found:
                break
            found = value.dtype
        else:
            made.fail(
                made.target,
                f"the type of `{made.name}` is that of no value: it becomes wider in every step",
                code="notation.dtype_grows",
            )
        made.scope.made.clear()
        made.scope.made.update(taken)
        return found

    def _later(self, state: Any, bound: Bound) -> PrimExpr:
        return self.made.expression(self.made.value, bound, _Earlier(self, state))

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
        update = made.stage(
            f"{made.name}_update", order, lambda at: self._later(state, {**at, **self.places(at[self.time])})
        )
        first = self._begun(dtype)
        bases = dict.fromkeys(_base(access) for access, _ in made.accesses)
        inputs = [stage_of(made.scope.tensors[name]) for name in bases if name in made.scope.tensors]
        alone = order == made.axes and isinstance(self.extent, int)
        states = te.scan(first, update, state, inputs=inputs, name=made.name if alone else f"{made.name}_scan")
        for stage in (first, states):
            stage.op.span = made.source.span(made.target)
        if alone:
            return states
        made.ranges[self.time] = (0, self.extent)
        return made.stage(
            made.name, made.axes, lambda at: states(self.step_of(at), *[at[axis] for axis in self.others])
        )


class _Table(_Steps):
    """The stages of a recurrence along a row and a column: its steps are the elements, row by row."""

    def __init__(self, made: Definition, row: str, column: str, offsets: list[tuple[int, int]]) -> None:
        self.row, self.column, self.offsets = row, column, offsets
        self.rows, self.columns = made.ranges[row][1], made.ranges[column][1]
        self.inside = self._check_borders(made)
        flat = f"{row}_{column}"
        made.ranges[flat] = (0, self.rows * self.columns)
        super().__init__(made, flat, 1)
        self.others = [axis for axis in made.axes if axis not in (row, column)]

    def step_of(self, at: Bound) -> Any:
        return at[self.row] * self.columns + at[self.column]

    def step_read(self, at: Bound) -> Any:
        """As `step_of`; of an element beside the table, which is not looked for everywhere, one that the operator's own check finds."""
        if self.inside:
            return self.step_of(at)
        column = at[self.column]
        beside = ops.logical_or(ops.less(column, 0), ops.greater_equal(column, self.columns))
        return ops.if_then_else(beside, const(-1, "int32"), self.step_of(at))

    def places(self, step: Any) -> Bound:
        return {self.row: ops.floordiv(step, self.columns), self.column: ops.floormod(step, self.columns)}

    def _beginnings(self) -> list[ast.expr]:
        """The value of the first element, which reads no other."""
        return [self._element_at(self.made, 0, 0)]

    def _element_at(self, made: Definition, row: int, column: int) -> ast.expr:
        ranges = {**made.ranges, self.row: (row, 1), self.column: (column, 1)}
        return _Taken(made, ranges).visit(copy.deepcopy(made.value))

    def _check_borders(self, made: Definition) -> bool:
        """Refuse an access that is taken where it is outside the table; whether all elements at its borders were looked at."""
        rows, columns = (n if isinstance(n, int) else _CHECKED for n in (self.rows, self.columns))
        reach = [max(abs(offset[place]) for offset in self.offsets) for place in (0, 1)]
        points = {(r, c) for r in range(min(reach[0], rows)) for c in range(min(columns, _BORDER))}
        edges = {c for c in range(columns) if c < reach[1] or c >= columns - reach[1]}
        points |= {
            (r, c) for r in range(min(rows, _BORDER)) for c in edges if c < reach[1] or isinstance(self.columns, int)
        }
        for row, column in sorted(points):
            for access in ast.walk(self._element_at(made, row, column)):
                if isinstance(access, ast.Subscript) and _base(access) == made.name:
                    self._check_inside(made, access, row, column, columns)
        return rows is self.rows and columns is self.columns and max(rows, columns) <= _BORDER

    def _check_inside(self, made: Definition, access: ast.Subscript, row: int, column: int, columns: int) -> None:
        up, left = (_offset(made, access, name) or 0 for name in (self.row, self.column))
        if row + up >= 0 and 0 <= column + left < columns:
            return
        outside = [f"{n} < {-o}" if o < -1 else f"{n} == 0" for n, o in ((self.row, up), (self.column, left)) if o < 0]
        last = columns - 1 if isinstance(self.columns, int) else f"{self.columns} - 1"
        outside += [f"{self.column} == {last}" if left == 1 else f"{self.column} + {left} > {last}"] if left > 0 else []
        made.fail(
            access, f"`{ast.unparse(access)}` is read at `{self.row} = {row}` and `{self.column} = {column}`: it is outside `{made.name}`",
            f"say what is there: `{ast.unparse(made.target)} = ... if {' or '.join(outside)} else {ast.unparse(made.value)}`", code="notation.index_out_of_range",
        )  # fmt: skip


def recurrence(made: Definition) -> Any:
    """The tensor of a definition that reads itself.

    Raises
    ------
    NotationError: no index is earlier in all of these accesses, or nothing says how the tensor begins.
    """
    own = [access for access, _ in made.accesses if _base(access) == made.name]
    _Settled(made).visit(made.value)
    found = _earlier(made, own)
    if found is None:
        made.fail(
            own[0].value, f"`{made.name}` is read before it is computed",
            f"one index is earlier by a number wherever `{made.name}` itself is read, as in {EXAMPLE}, or the row or, in the same "
            f"row, the column is", code="notation.read_before_computed",
        )  # fmt: skip
    names, offsets = found
    for name in names:
        _check_zero(made, name)
    if len(names) == 1:
        return _Steps(made, names[0], max(-offset[0] for offset in offsets)).build()
    row, column = names
    return _Table(made, row, column, [(up, left) for up, left in offsets]).build()
