"""Which iterations read a given element: equations of indices, solved for axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tvmagic.arith import Analyzer, detect_iter_map, detect_linear_equation, inverse_affine_iter_map
from tvmagic.errors import TVMagicError
from tvmagic.ir import FloorDiv, FloorMod, IntImm, PrimExpr, Range, Var, expr, ops, substitute
from tvmagic.ir.query import contains, variables_in


class Solution(NamedTuple):
    """The iterations for which the indices have wanted values.

    values: axes by the wanted values and by the axes that are left; left: the axes that may have any value;
    conditions: what of both has to hold.
    """

    values: dict[Var, PrimExpr]
    left: list[Var]
    conditions: list[PrimExpr]


class _Candidate(NamedTuple):
    """An equation that can be solved for a variable: its number, the variable, its factor, and the rest of the index."""

    equation: int
    var: Var
    factor: int
    rest: PrimExpr


def solved(
    indices: Sequence[PrimExpr], wanted: Sequence[PrimExpr], shape: Sequence[PrimExpr], domains: Mapping[Var, Range]
) -> Solution:
    """Solve `indices[k] == wanted[k]` for as many variables of `domains` as possible.

    wanted: expressions between 0 and `shape`.

        [i + k], [x] with i in 0..8, k in 0..3:  i = x - k where 0 <= x - k < 8, for each k
        [i // 4, i % 4], [x, y]:                 i = x * 4 + y
    """
    analyzer = Analyzer()
    for place, size in zip(wanted, shape):
        if isinstance(place, Var):
            analyzer.bind(place, Range.from_min_extent(0, size))
    for var, domain in domains.items():
        analyzer.bind(var, domain)
    solver = _Solver(list(indices), list(wanted), dict(domains), analyzer)
    if not solver.invert():
        solver.eliminate()
    return solver.solution()


class _Solver:
    def __init__(
        self, indices: list[PrimExpr], wanted: list[PrimExpr], domains: dict[Var, Range], analyzer: Analyzer
    ) -> None:
        self.indices, self.wanted, self.domains, self.analyzer = indices, wanted, domains, analyzer
        self.plain = Analyzer()  # keeps an axis of one iteration, which is to be solved for
        for var, domain in domains.items():
            if not (isinstance(domain.extent, IntImm) and domain.extent.value == 1):
                self.plain.bind(var, domain)
        self.values: dict[Var, PrimExpr] = {}
        self.conditions: list[PrimExpr] = []
        self.left = list(domains)

    def invert(self) -> bool:
        """Solve for all variables of the indices at once, if these only rearrange them by quotients and remainders."""
        if not any(contains(index, FloorDiv, FloorMod) for index in self.indices):
            return False
        used = {v: self.domains[v] for v in self.left if any(v in variables_in(index) for index in self.indices)}
        found = detect_iter_map(self.indices, used, check_level="bijective")
        if not found.indices:
            return False
        try:
            inverse = inverse_affine_iter_map(found.indices, self.wanted)
        except TVMagicError:  # the map has gaps
            return False
        if set(inverse) != set(used):
            return False
        for var, value in inverse.items():
            self.set(var, value)
        return True

    def eliminate(self) -> None:
        """Solve one equation after the other for a variable with a constant factor, those of large domains first."""
        self.indices = [self.plain.simplify(index) for index in self.indices]
        while True:
            candidates = [
                c for k in range(len(self.indices)) for v in self.left if (c := self.candidate(k, v)) is not None
            ]
            if not candidates:
                return
            number, var, factor, rest = max(candidates, key=self.preference)
            value = self.wanted[number] - rest
            if factor < 0:
                value, factor = -value, -factor
            if factor != 1:
                self.require(ops.floormod(value, factor).equal(0))
                value = ops.floordiv(value, factor)
            del self.indices[number], self.wanted[number]
            self.set(var, value)

    def candidate(self, number: int, var: Var) -> _Candidate | None:
        index = self.indices[number]
        if var not in variables_in(index):
            return None
        found = detect_linear_equation(index, [var])
        if not found or not isinstance(found[0], IntImm) or not found[0].value:
            return None
        return _Candidate(number, var, found[0].value, found[1])

    def preference(self, candidate: _Candidate) -> tuple[float, bool, int]:
        """More to save, no division, the first."""
        extent = self.domains[candidate.var].extent
        size = float(extent.value) if isinstance(extent, IntImm) else float("inf")
        return size, abs(candidate.factor) == 1, -candidate.equation

    def set(self, var: Var, value: PrimExpr) -> None:
        """Let the variable have the value, within its domain."""
        value = self.analyzer.simplify(expr(value).astype(var.dtype))
        domain = self.domains[var]
        self.left.remove(var)
        self.values = {v: substitute(old, {var: value}) for v, old in self.values.items()}
        self.conditions = [substitute(c, {var: value}) for c in self.conditions]
        self.indices = [self.plain.simplify(substitute(index, {var: value})) for index in self.indices]
        self.values[var] = value
        self.require(value >= domain.min)
        self.require(value < domain.min + domain.extent)

    def require(self, condition: PrimExpr) -> None:
        """A condition, if it cannot be proved."""
        simple = self.analyzer.simplify(condition)
        if not (isinstance(simple, IntImm) and simple.value):
            self.conditions.append(simple)

    def solution(self) -> Solution:
        """What was found; what remains of the equations are conditions."""
        for index, place in zip(self.indices, self.wanted):
            self.require(index.equal(place))
        return Solution(self.values, self.left, self.conditions)
