"""Linear equations over the integers, solved by the Smith normal form.

With `S = U A V` diagonal and `U`, `V` invertible over the integers, `A x = y` is
`S (V^-1 x) = U y`, in which each row says one thing of one new variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.arith.int_constraints import IntConstraints, IntConstraintsTransform, contradiction
from tvmagic.arith.int_set import as_int_set, is_const, negate, new_analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.arith.linear import detect_linear_equation
from tvmagic.ir import EQ, IntImm, PrimExpr, Range, Var, ops, substitute
from tvmagic.ir.deep import deep
from tvmagic.ir.fold import truncate_divide
from tvmagic.ir.ops import make_const

__all__ = ["extended_euclidean", "smith_normal_form", "solve_linear_equations"]

Matrix = list[list[int]]


def extended_euclidean(a: int, b: int) -> tuple[int, int, int]:
    """`(g, x, y)` with `a * x + b * y == g`, a greatest common divisor up to its sign."""
    s, old_s = 0, 1
    r, old_r = b, abs(a)
    while r:
        q = truncate_divide(old_r, r)
        old_r, r = r, old_r - q * r
        old_s, s = s, old_s - q * s
    x = old_s if a >= 0 else -old_s
    return old_r, x, (old_r - x * a) // b if b else 1


class _Diagonalizer:
    """Brings a matrix to diagonal form by operations on rows and columns.

    `right` are the right-hand sides, which follow the rows; `basis` is V and `unknowns` V^-1 x,
    which follow the columns.
    """

    def __init__(self, matrix: Matrix, right: list[PrimExpr], unknowns: list[PrimExpr]) -> None:
        self.matrix, self.right, self.unknowns = matrix, right, unknowns
        size = len(unknowns)
        self.basis: Matrix = [[int(i == j) for j in range(size)] for i in range(size)]

    def run(self) -> None:
        rows, columns = len(self.matrix), len(self.unknowns)
        index = 0
        while index < min(rows, columns):
            self._bring_pivot(index)
            if self.matrix[index][index] == 0 or not self._clear(index):
                index += 1

    def _bring_pivot(self, index: int) -> None:
        """Bring the row with the least element of column `index` to the diagonal, or else a column."""
        matrix = self.matrix
        best = index
        for i in range(index, len(matrix)):
            new, old = abs(matrix[i][index]), abs(matrix[best][index])
            if new and (not old or new < old):
                best = i
        matrix[index], matrix[best] = matrix[best], matrix[index]
        self.right[index], self.right[best] = self.right[best], self.right[index]
        if matrix[index][index]:
            return
        j = next((j for j in range(index + 1, len(self.unknowns)) if matrix[index][j]), None)
        if j is not None:
            for row in (*matrix[index:], *self.basis):
                row[index], row[j] = row[j], row[index]
            self.unknowns[index], self.unknowns[j] = self.unknowns[j], self.unknowns[index]

    def _clear(self, index: int) -> bool:
        """Clear column and row of the pivot; whether the pivot's column has to be cleared again."""
        for i in range(index + 1, len(self.matrix)):
            if self.matrix[i][index]:
                self._clear_row(index, i)
        again = False
        for j in range(index + 1, len(self.unknowns)):
            if self.matrix[index][j]:
                again = again or self.matrix[index][j] % self.matrix[index][index] != 0
                self._clear_column(index, j)
        return again

    def _factors(self, pivot: int, other: int) -> tuple[int, int, int, int]:
        """`(a, b, pivot/g, other/g)` with `a*pivot + b*other == g`; the pivot stays where it divides."""
        g, a, b = extended_euclidean(pivot, other) if other % pivot else (pivot, 1, 0)
        return a, b, pivot // g, other // g

    def _clear_row(self, index: int, i: int) -> None:
        a, b, pivot, other = self._factors(self.matrix[index][index], self.matrix[i][index])
        top, row = self.matrix[index], self.matrix[i]
        for j in range(index, len(row)):
            top[j], row[j] = a * top[j] + b * row[j], other * top[j] - pivot * row[j]
        at_top, at_row = self.right[index], self.right[i]
        self.right[index] = _scaled(a, at_top) + _scaled(b, at_row)
        self.right[i] = _scaled(other, at_top) - _scaled(pivot, at_row)

    def _clear_column(self, index: int, j: int) -> None:
        a, b, pivot, other = self._factors(self.matrix[index][index], self.matrix[index][j])
        for row in (*self.matrix[index:], *self.basis):
            row[index], row[j] = a * row[index] + b * row[j], other * row[index] - pivot * row[j]
        x, y = self.unknowns[index], self.unknowns[j]
        self.unknowns[index] = _scaled(pivot, x) + _scaled(other, y)
        self.unknowns[j] = _scaled(b, x) - _scaled(a, y)


def _scaled(factor: int, value: PrimExpr) -> PrimExpr:
    return make_const(value.dtype, factor) * value


def smith_normal_form(
    matrix: Matrix, right: Sequence[PrimExpr], unknowns: Sequence[PrimExpr]
) -> tuple[Matrix, Matrix, list[PrimExpr], list[PrimExpr]]:
    """`(S, V, V^-1 x, U y)` for the system `matrix x = right` over `unknowns`."""
    work = _Diagonalizer([list(row) for row in matrix], list(right), list(unknowns))
    work.run()
    return work.matrix, work.basis, work.unknowns, work.right


def _rows(system: IntConstraints, simplify: Any) -> tuple[Matrix, list[PrimExpr], list[PrimExpr]]:
    """The equations as rows with right-hand sides, and the relations that are not equations."""
    matrix: Matrix = []
    right: list[PrimExpr] = []
    rest: list[PrimExpr] = []
    for relation in system.relations:
        coefficients: list[PrimExpr] = []
        if isinstance(relation, EQ):
            coefficients = detect_linear_equation(simplify(relation.a - relation.b), system.variables)
        row = [c.value for c in coefficients[:-1] if isinstance(c, IntImm)]
        if row and len(row) == len(coefficients) - 1:
            matrix.append(row)
            right.append(negate(coefficients[-1]))
        else:
            rest.append(relation)
    return matrix, right, rest


def _solvability(matrix: Matrix, right: Sequence[PrimExpr], simplify: Any) -> list[PrimExpr] | None:
    """The conditions under which each row has a solution; None if one never does."""
    conditions: list[PrimExpr] = []
    for i, row in enumerate(matrix):
        pivot = row[i] if i < len(row) else 0
        value = ops.floormod(right[i], abs(pivot)) if pivot else right[i]
        condition = simplify(ops.equal(value, 0))
        if is_const(condition, 0):
            return None
        if not is_const(condition, 1):
            conditions.append(condition)
    return conditions


def _quotient(right: PrimExpr, pivot: int) -> PrimExpr:
    """`right // pivot` with a divisor that is positive."""
    if pivot < 0:
        right, pivot = negate(right), -pivot
    return ops.floordiv(right, make_const(right.dtype, pivot))


def _infer_ranges(
    new_vars: Mapping[Var, PrimExpr], old_vars: Sequence[Var], ranges: Mapping[Var, Range]
) -> dict[Var, Range]:
    result = {v: r for v, r in ranges.items() if v not in old_vars}
    sets = as_int_set(ranges)
    for var, value in new_vars.items():
        values = eval_set(value, sets)
        if values.has_lower_bound() and values.has_upper_bound():
            result[var] = values.cover_range(Range(0, 0))
    return result


def _range_relations(
    system: IntConstraints, values: Mapping[Var, PrimExpr], ranges: Mapping[Var, Range]
) -> list[PrimExpr]:
    """The ranges of the old variables as conditions on the new ones, as far as they do not follow."""
    analyzer = new_analyzer(ranges)
    result: list[PrimExpr] = []
    for var in system.variables:
        domain = system.ranges.get(var)
        if domain is None:
            continue
        for condition in (
            ops.less_equal(domain.min, values[var]),
            ops.less(values[var], domain.min + domain.extent),
        ):
            condition = analyzer.simplify(condition)
            if not is_const(condition, 1):
                result.append(condition)
    return result


@deep
def solve_linear_equations(equations: Any, variables: Any = None, ranges: Any = None) -> IntConstraintsTransform:
    """Solve a system of linear equations for integers.

    Parameters
    ----------
    equations: the system as `IntConstraints`, or its relations.
    variables: the variables to solve for.
    ranges: the ranges of variables.

    Returns
    -------
    A system in as many new variables as stay free, with the old ones in terms of them; the
    relation false if there is no solution.
    """
    system = equations if isinstance(equations, IntConstraints) else IntConstraints(variables, ranges, equations)
    analyzer = new_analyzer(system.ranges)
    simplify = analyzer.simplify
    matrix, right, rest = _rows(system, simplify)
    matrix, basis, unknowns, right = smith_normal_form(matrix, right, system.variables)
    relations = _solvability(matrix, right, simplify)
    if relations is None:
        return IntConstraintsTransform(system, contradiction(), {}, {})
    new_to_old: dict[Var, PrimExpr] = {}
    solved: list[PrimExpr] = []
    for j, unknown in enumerate(unknowns):
        if j < len(matrix) and matrix[j][j]:
            solved.append(simplify(_quotient(right[j], matrix[j][j])))
            continue
        old = simplify(unknown)
        suffix = f"_{old.name}" if isinstance(old, Var) else ""
        free = Var(f"n{len(new_to_old)}{suffix}", unknown.dtype)
        solved.append(free)
        new_to_old[free] = old
    old_to_new: dict[Var, PrimExpr] = {}
    for var, row in zip(system.variables, basis):
        total: PrimExpr = make_const(var.dtype, 0)
        for factor, value in zip(row, solved):
            total = total + make_const(var.dtype, factor) * value
        old_to_new[var] = simplify(total)
    new_ranges = _infer_ranges(new_to_old, system.variables, system.ranges)
    relations += _range_relations(system, old_to_new, new_ranges)
    relations += [substitute(relation, old_to_new) for relation in rest]
    solution = IntConstraints(list(new_to_old), new_ranges, relations)
    return IntConstraintsTransform(system, solution, old_to_new, new_to_old)
