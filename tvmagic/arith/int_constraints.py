"""Systems of integer constraints, and the form that their solutions have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.arith.int_set import as_int_set, is_const, new_analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, IterVar, PrimExpr, Range, Var, expr, exprs, ops, substitute
from tvmagic.ir.ops import make_const
from tvmagic.ir.values import SEQUENCES

__all__ = ["IntConstraints", "IntConstraintsTransform", "IntGroupBounds", "as_conditions"]

# the rules, the canonical form, the rules again
SIMPLIFY_STEPS = 3


class IntGroupBounds:
    """Bounds of `coef * v` for a variable `v`: least and greatest values, and values it equals."""

    __slots__ = ("coef", "equal", "lower", "upper")

    def __init__(self, coef: Any, lower: Sequence[Any], equal: Sequence[Any], upper: Sequence[Any]) -> None:
        self.coef = expr(coef)
        if not (self.coef.dtype.is_int or self.coef.dtype.is_uint):
            raise TVMagicError("the coefficient of `IntGroupBounds` is an integer")
        self.lower, self.equal, self.upper = exprs(list(lower)), exprs(list(equal)), exprs(list(upper))

    def __repr__(self) -> str:
        return (
            f"IntGroupBounds(coef={self.coef}, lower={list(self.lower)}, equal={list(self.equal)}, "
            f"upper={list(self.upper)})"
        )

    @staticmethod
    def from_range(range_: Range) -> IntGroupBounds:
        """The bounds of a variable in `range_`."""
        one = make_const(range_.min.dtype, 1)
        if is_const(range_.extent, 1):
            return IntGroupBounds(one, [], [range_.min], [])
        last = new_analyzer().simplify(range_.min + range_.extent - 1)
        return IntGroupBounds(one, [range_.min], [], [last])

    def __add__(self, range_: Range) -> IntGroupBounds:
        """The bounds together with those of a variable in `range_`."""
        simplify, low = new_analyzer().simplify, range_.min
        if is_const(range_.extent, 1):
            return IntGroupBounds(self.coef, self.lower, [simplify(low * self.coef), *self.equal], self.upper)
        high = simplify((low + range_.extent - 1) * self.coef)
        return IntGroupBounds(self.coef, [simplify(low * self.coef), *self.lower], self.equal, [high, *self.upper])

    def substitute(self, values: Mapping[Any, Any]) -> IntGroupBounds:
        """The bounds with variables replaced."""
        groups = [[substitute(e, values) for e in group] for group in (self.lower, self.equal, self.upper)]
        return IntGroupBounds(substitute(self.coef, values), *groups)

    def find_best_range(self, ranges: Mapping[Any, Range] | None = None) -> Range | None:
        """The smallest range that a pair of a lower and an upper bound gives; None without a pair.

        `ranges`: the ranges of the variables in the bounds.
        """
        domains = dict(ranges or {})
        analyzer = new_analyzer(domains)
        lowers, uppers = [*self.equal, *self.lower], [*self.equal, *self.upper]
        if len(lowers) == 1 and len(uppers) == 1 and is_const(self.coef, 1):
            return Range(analyzer.simplify(lowers[0]), analyzer.simplify(uppers[0] + 1))
        sets = as_int_set(domains)
        best: tuple[PrimExpr, PrimExpr] | None = None
        for low in lowers:
            # the bounds are those of coef * v
            first = analyzer.simplify(ops.floordiv(low + self.coef - 1, self.coef), 3)
            for high in uppers:
                reach: PrimExpr | None = None
                for difference in (
                    ops.floordiv(high - low, self.coef),
                    ops.floordiv(high, self.coef) - first,
                ):
                    values = eval_set(analyzer.simplify(difference, 3), sets)
                    if values.has_upper_bound():
                        reach = _smaller(analyzer, reach, analyzer.simplify(values.max(), 3))
                if reach is not None and (best is None or _smaller(analyzer, best[1], reach) is reach):
                    best = first, reach
        return None if best is None else Range.from_min_extent(best[0], analyzer.simplify(best[1] + 1))


def _smaller(analyzer: Any, known: PrimExpr | None, new: PrimExpr) -> PrimExpr:
    """`new` if there is no other, or it is proved to be the smaller one."""
    return new if known is None or analyzer.can_prove(ops.less(new - known, 0)) else known


class IntConstraints:
    """Relations between integer variables.

    `variables`: those to solve for; `ranges`: where variables (others too) lie; `relations`: the
    equations and inequalities.
    """

    __slots__ = ("ranges", "relations", "variables")

    def __init__(self, variables: Any, ranges: Mapping[Any, Range] | None, relations: Any) -> None:
        self.variables: tuple[Var, ...] = tuple(
            [v.var if isinstance(v, IterVar) else v for v in variables] if variables else ()
        )
        self.ranges: dict[Var, Range] = {(v.var if isinstance(v, IterVar) else v): r for v, r in (ranges or {}).items()}
        self.relations = exprs(list(relations) if isinstance(relations, SEQUENCES) else [relations])
        for var in self.variables:
            if not (var.dtype.is_int or var.dtype.is_uint):
                raise TVMagicError(f"the variable `{var.name}` of a system of integers has the type `{var.dtype}`")

    def __repr__(self) -> str:
        ranges = {v.name: r for v, r in self.ranges.items()}
        return f"IntConstraints({[v.name for v in self.variables]}, {ranges}, {list(self.relations)})"


class IntConstraintsTransform:
    """A system `src` and one `dst` that has the same solutions in other variables.

    `src_to_dst` gives each old variable in terms of new ones, `dst_to_src` the other way.
    """

    __slots__ = ("dst", "dst_to_src", "src", "src_to_dst")

    def __init__(
        self,
        src: IntConstraints,
        dst: IntConstraints,
        src_to_dst: Mapping[Var, PrimExpr],
        dst_to_src: Mapping[Var, PrimExpr],
    ) -> None:
        self.src, self.dst = src, dst
        self.src_to_dst, self.dst_to_src = dict(src_to_dst), dict(dst_to_src)

    def __add__(self, other: IntConstraintsTransform) -> IntConstraintsTransform:
        """This transform and then `other`, whose `src` is this one's `dst`."""
        if other.src is not self.dst:
            raise TVMagicError("the second transform does not start from the system that the first one ends in")
        back = new_analyzer(self.src.ranges)
        forth = new_analyzer(other.dst.ranges)
        return IntConstraintsTransform(
            self.src,
            other.dst,
            {v: forth.simplify(substitute(e, other.src_to_dst)) for v, e in self.src_to_dst.items()},
            {v: back.simplify(substitute(e, self.dst_to_src)) for v, e in other.dst_to_src.items()},
        )

    def __repr__(self) -> str:
        return f"IntConstraintsTransform(\n\t{self.src}\n\t{self.dst}\n\t{self.src_to_dst}\n\t{self.dst_to_src}\n)"


def contradiction() -> IntConstraints:
    """The system without a solution."""
    return IntConstraints((), {}, [IntImm("bool", 0)])


def as_conditions(
    variables: Sequence[Var], bounds: Mapping[Var, IntGroupBounds], relations: Sequence[PrimExpr]
) -> list[PrimExpr]:
    """Bounds and relations as one list of conditions."""
    result: list[PrimExpr] = []
    for var in variables:
        group = bounds[var]
        value = group.coef * var
        result += [ops.equal(value, bound) for bound in group.equal]
        result += [ops.greater_equal(value, bound) for bound in group.lower]
        result += [ops.less_equal(value, bound) for bound in group.upper]
    return [*result, *relations]
