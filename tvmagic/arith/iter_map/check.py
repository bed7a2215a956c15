"""Whether the splits of the iterators of a map are independent, and cover what they must."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvmagic.arith.iter_map.expr import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr, int_const, is_const
from tvmagic.arith.iter_map.normalize import Prover
from tvmagic.arith.iter_map.rewriter import IterMapRewriter
from tvmagic.ir import PrimExpr, ops


class MarkSplits:
    """The splits that a map uses of each of its iterators."""

    def __init__(self, sums: Iterable[IterSumExpr]) -> None:
        self.splits: dict[IterMark, list[IterSplitExpr]] = {}
        for total in sums:
            self._add(total)

    def _add(self, total: IterSumExpr) -> None:
        for split in total.args:
            mark = split.source
            if mark not in self.splits:
                self.splits[mark] = []
                if isinstance(mark.source, IterSumExpr):
                    self._add(mark.source)
            self.splits[mark].append(split)


def check_mapping(rewriter: IterMapRewriter, sums: Sequence[IterSumExpr], level: IterMapLevel) -> bool:
    """Whether the map fulfils what `level` asks of it; notes why it does not."""
    used = MarkSplits(sums).splits
    # a bound on what the indices do not hold as a whole may take values from them
    if not all(mark in used for mark in rewriter.fuser.constrained_marks()):
        rewriter.takes_all_values = False
    for mark, splits in used.items():
        if not _splits_fit(rewriter, mark, splits, level):
            return False
    if level is IterMapLevel.Bijective:
        return all(mark in used or is_const(mark.extent, 1) for mark in rewriter.input_marks)
    return True


def _skip_lower_factor(prover: Prover, splits: list[IterSplitExpr], expected: PrimExpr) -> int | None:
    """The split of the least lower factor, if `expected` divides those of all splits."""
    best: int | None = None
    for i, split in enumerate(splits):
        if not prover.divisible(split.lower_factor, expected):
            return None
        if best is None or prover.divisible(splits[best].lower_factor, split.lower_factor):
            best = i
    return best


def _covered_extent(
    prover: Prover, mark: IterMark, splits: list[IterSplitExpr], level: IterMapLevel
) -> PrimExpr | None:
    """The product up to which the splits, taken from the innermost on, cover `mark`."""
    rest = list(splits)
    expected: PrimExpr = int_const(mark.source.dtype, 1)
    while rest:
        index = next((i for i, s in enumerate(rest) if prover.equal(s.lower_factor, expected)), None)
        if index is None:
            # a part may be left out unless the map must be a bijection
            if level is IterMapLevel.Bijective:
                return None
            index = _skip_lower_factor(prover, rest, expected)
            if index is None:
                return None
        split = rest.pop(index)
        expected = split.lower_factor * split.extent
    return expected


def _splits_fit(rewriter: IterMapRewriter, mark: IterMark, splits: list[IterSplitExpr], level: IterMapLevel) -> bool:
    prover, report = rewriter.prover, rewriter.report
    covered = _covered_extent(prover, mark, splits, level)
    if covered is None:
        return False
    origin = rewriter.padder.origin(mark)
    full = prover.equal(covered, mark.extent)
    divides = full or prover.divisible(mark.extent, covered)
    problem: str | None = None
    if level is IterMapLevel.Bijective:
        if origin is not None:
            problem = "Bijectvie mapping should not take iter paddings"
        elif not full:
            problem = "The iterations do not traverse full iter space"
    elif origin is None:
        if not divides:
            problem = "The lower factor is not divisible by the full iter space extent"
    elif level is IterMapLevel.Surjective:
        problem = _padded_problem(prover, origin[0], splits, covered, full, divides)
        if full and problem is None:
            rewriter.takes_all_values &= _takes_all_values(prover, *origin, splits[0])
    if problem is not None:
        report.add(problem)
    return problem is None


def _padded_problem(
    prover: Prover, origin: IterMark, splits: list[IterSplitExpr], covered: PrimExpr, full: bool, divides: bool
) -> str | None:
    """What keeps splits of a padded iterator from being surjective on the padded one."""
    reaches = ops.greater_equal(origin.extent, covered)
    if full:
        if len(splits) != 1:
            return "Dependent iterations on padding iter space"
        if prover.equal(splits[0].extent, covered) and not prover.analyzer.can_prove(reaches):
            return (
                "Split on padding iteration is not surjective if the split extent equals to the full iter space extent"
            )
        return None
    if not divides:
        return "The lower factor is not divisible by the full iter space extent"
    return None if prover.analyzer.can_prove(reaches) else "The extent before padding is less than lower factor"


def _takes_all_values(prover: Prover, origin: IterMark, left: PrimExpr, split: IterSplitExpr) -> bool:
    """Whether the first and the last value of a split come from what is not padding."""
    last = (split.extent - 1) * split.lower_factor
    prove = prover.analyzer.can_prove
    return prove(ops.less(left, split.lower_factor)) and prove(ops.greater(left + origin.extent, last))
