"""Sums of splits brought to one iterator: combining, fusing, and the constraints on sums.

A sum such as `i*4 + j`, `j` below 4, counts through the values of one new iterator. A `Fuser`
keeps for each flat sum it met the mark that stands for it, so that the same sum has the same mark.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from tvmagic.arith.int_set import max_of, min_of
from tvmagic.arith.iter_map.expr import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    Report,
    int_const,
    is_const,
    structure_key,
)
from tvmagic.arith.iter_map.normalize import Prover, mul_and_normalize, normalize_iter_map_to_expr
from tvmagic.ir import IntImm, Mul, PrimExpr, ops
from tvmagic.ir.deep_equal import deep_equal
from tvmagic.ir.query import operands


def split_equal(a: IterSplitExpr, b: IterSplitExpr, check_scale: bool = True) -> bool:
    """Whether two splits are the same part of the same iterator."""
    return (
        a.source is b.source
        and deep_equal(a.lower_factor, b.lower_factor)
        and (not check_scale or deep_equal(a.scale, b.scale))
        and deep_equal(a.extent, b.extent)
    )


def _sum_key(total: IterSumExpr) -> tuple[object, ...]:
    parts = [
        (id(a.source), structure_key(a.lower_factor), structure_key(a.scale), structure_key(a.extent))
        for a in total.args
    ]
    return (structure_key(total.base), *parts)


class _Pool:
    """The splits of a sum that were not taken yet.

    Searches run from the last to the first, since the smallest scale is usually last.
    """

    def __init__(self, args: Sequence[IterSplitExpr], prover: Prover) -> None:
        self.args = args
        self.prover = prover
        self.taken = [False] * len(args)
        # one of extent 1 has precedence over others of its scale, for it leaves the scale as it is
        self.first_trivial = next((i for i, a in enumerate(args) if is_const(a.extent, 1)), len(args))

    def _free(self, source: IterMark | None) -> list[int]:
        places = reversed(range(len(self.args)))
        return [i for i in places if not self.taken[i] and (source is None or self.args[i].source is source)]

    def base(self, source: IterMark | None = None) -> int | None:
        """The split of the smallest scale; the one of the fewest factors if none is constant."""
        free = self._free(source)
        best: int | None = None
        for i in free:
            scale = self.args[i].scale
            if not isinstance(scale, IntImm):
                continue
            if best is None or scale.value < self.args[best].scale.value:  # type: ignore[attr-defined]
                best = i
            elif scale.value == self.args[best].scale.value:  # type: ignore[attr-defined]
                if is_const(self.args[i].extent, 1) and not is_const(self.args[best].extent, 1):
                    best = i
        if best is not None or not free:
            return best
        return min(free, key=lambda i: len(operands(self.args[i].scale, Mul)))

    def of_scale(self, scale: PrimExpr, source: IterMark | None = None) -> int | None:
        """The split whose scale is `scale`."""
        found: int | None = None
        for i in self._free(source):
            arg = self.args[i]
            if not self.prover.equal(arg.scale, scale):
                continue
            if is_const(arg.extent, 1):
                return i
            if found is None:
                found = i
            if i <= self.first_trivial:
                return found
        return found

    def closest_below(self, scale: PrimExpr) -> int | None:
        """The split of the largest scale that is not above `scale`."""
        analyzer = self.prover.analyzer
        best: int | None = None
        for i in self._free(None):
            own = self.args[i].scale
            if not (analyzer.can_prove_greater_equal(scale - own, 0) and analyzer.can_prove_greater_equal(own, 0)):
                continue
            if best is None or analyzer.can_prove_less(self.args[best].scale - own, 0):
                best = i
        return best


class _Fusion:
    """A sum while it is being fused: what was taken, from the innermost split outwards."""

    def __init__(self, total: IterSumExpr, pool: _Pool, base_scale: PrimExpr) -> None:
        self.total, self.pool, self.base_scale = total, pool, base_scale
        self.flattened: list[IterSplitExpr] = []
        self.grouped: list[IterSplitExpr] = []
        self.extra_base: PrimExpr = int_const(total.dtype, 0)
        self.tail_extent: PrimExpr = int_const(total.dtype, 0)
        self.expected_scale = base_scale

    def form(self, inner_first: list[IterSplitExpr]) -> IterSumExpr:
        return self.total.replace(args=tuple(reversed(inner_first)), base=int_const(self.total.dtype, 0))


class Fuser:
    """Fuses sums of splits; knows the marks that were made so far and the constraints on them."""

    def __init__(self, prover: Prover, level: IterMapLevel, report: Report) -> None:
        self.prover, self.level, self.report = prover, level, report
        self.analyzer = prover.analyzer
        # flat sum -> (mark, offset): the sum less offset runs through the mark from 0 on
        self._marks: dict[object, tuple[IterMark, PrimExpr]] = {}
        self._flat_forms: dict[object, IterSumExpr] = {}
        self.constrained: list[IterSumExpr] = []

    # ------------------------------------------------------------------ combining

    def combine_same_source(self, total: IterSumExpr) -> IterSumExpr | None:
        """`total` with neighbouring splits of one iterator joined; None if it has no two of one.

        `(x // (c*s)) % m * (s*t) + (x // c) % s * t` is `(x // c) % (m*s) * t`.
        """
        args = total.args
        count = Counter([id(a.source) for a in args])
        if len(count) == len(args):
            return None
        pool = _Pool(args, self.prover)
        inner_first: list[IterSplitExpr] = []
        last = len(args) - 1
        while last >= 0:
            if pool.taken[last]:
                last -= 1
            elif count[id(args[last].source)] == 1:
                inner_first.append(args[last])
                pool.taken[last] = True
            else:
                inner_first.append(self._combine_from(pool, args[last].source))
        return total.replace(args=tuple(reversed(inner_first)))

    def _combine_from(self, pool: _Pool, source: IterMark) -> IterSplitExpr:
        index = pool.base(source)
        assert index is not None
        pool.taken[index] = True
        inner = pool.args[index]
        while True:
            index = pool.of_scale(mul_and_normalize(inner.extent, inner.scale), source)
            if index is None:
                return inner
            outer = pool.args[index]
            if not self.prover.equal(outer.lower_factor, mul_and_normalize(inner.lower_factor, inner.extent)):
                return inner
            pool.taken[index] = True
            inner = inner.replace(extent=mul_and_normalize(outer.extent, inner.extent))

    # ------------------------------------------------------------------ fusing

    def fuse(self, total: IterSumExpr, allow_early_skip: bool) -> IterSumExpr | None:
        """`total` as one split of one (new) iterator plus a base; None if it is not one.

        `allow_early_skip`: a sum that combines to a single split stays as it is.
        """
        combined = self.combine_same_source(total)
        if combined is not None:
            total = combined
            if len(total.args) <= 1 and allow_early_skip:
                return total
        pool = _Pool(total.args, self.prover)
        base_index = pool.base()
        if base_index is not None and is_const(total.args[base_index].scale, 0):
            # parts that cancelled out
            kept = tuple([a for a in total.args if not is_const(a.scale, 0)])
            total = total.replace(args=kept)
            return self.fuse(total, allow_early_skip) if kept else total
        if base_index is None:
            return None
        fusion = _Fusion(total, pool, total.args[base_index].scale)
        while len(fusion.flattened) < len(total.args):
            if not self._take_next(fusion, base_index if not fusion.flattened else None):
                return None
        return self._finish(fusion)

    def _take_next(self, fusion: _Fusion, index: int | None) -> bool:
        """Take the split (or the constrained sum) of the scale that comes next."""
        pool, scale = fusion.pool, fusion.expected_scale
        if index is None:
            index = pool.of_scale(scale)
        exact = index is not None
        if index is None:
            # overlapping or padded: the closest one below still leaves a surjective map
            if self.level is IterMapLevel.Bijective or not is_const(fusion.base_scale, 1):
                return False
            index = pool.closest_below(scale)
            if index is None:
                return False
            scale = pool.args[index].scale
        constraint = self._longest_constraint(pool.args[index])
        if constraint is None:
            extent = self._take_split(fusion, index)
        else:
            taken = self._take_constrained(fusion, constraint, scale)
            if taken is None:
                return False
            extent = taken
        if not exact:
            fusion.tail_extent = fusion.tail_extent + (fusion.expected_scale - scale)
        fusion.expected_scale = mul_and_normalize(extent, scale)
        return True

    def _longest_constraint(self, innermost: IterSplitExpr) -> IterSumExpr | None:
        """The constrained sum with the most splits that begins at `innermost`."""
        best: IterSumExpr | None = None
        for flat in self.constrained:
            if split_equal(innermost, flat.args[-1], check_scale=False):
                if best is None or len(best.args) < len(flat.args):
                    best = flat
        return best

    def _take_split(self, fusion: _Fusion, index: int) -> PrimExpr:
        fusion.pool.taken[index] = True
        arg = fusion.pool.args[index]
        part = arg.replace(scale=self.prover.simplify(ops.floordiv(arg.scale, fusion.base_scale)))
        fusion.flattened.append(part)
        fusion.grouped.append(part)
        return arg.extent

    def _take_constrained(self, fusion: _Fusion, constraint: IterSumExpr, scale: PrimExpr) -> PrimExpr | None:
        """Take all splits of a constrained sum; None if one is missing."""
        pool = fusion.pool
        for part in reversed(constraint.args):
            for i, arg in enumerate(pool.args):
                if not pool.taken[i] and split_equal(arg, part, check_scale=False):
                    if self.prover.equal(part.scale * scale, arg.scale):
                        break
            else:
                return None
            pool.taken[i] = True
            fusion.flattened.append(pool.args[i])
        mark, offset = self._marks[_sum_key(constraint)]
        fusion.grouped.append(IterSplitExpr(mark, scale=ops.floordiv(scale, fusion.base_scale)))
        fusion.extra_base = fusion.extra_base + offset * scale
        return mark.extent

    def _finish(self, fusion: _Fusion) -> IterSumExpr | None:
        """The fused sum, over the mark that its flat form has or gets."""
        flat, structured = fusion.form(fusion.flattened), fusion.form(fusion.grouped)
        key, scale = _sum_key(flat), fusion.base_scale
        known = self._marks.get(key)
        if known is None:
            extent = ops.div(fusion.expected_scale, scale) + fusion.tail_extent
            mark = IterMark(structured, extent)
            self._marks[key] = (mark, fusion.extra_base)
            self._flat_forms[_sum_key(structured)] = flat
        else:
            mark, offset = known
            if not self.prover.equal(fusion.extra_base, offset * scale):
                return None
        return IterSumExpr((IterSplitExpr(mark, scale=scale),), fusion.total.base + fusion.extra_base)

    # ------------------------------------------------------------------ normal forms

    def with_offset(self, total: IterSumExpr) -> IterSumExpr:
        """`total` as one iterator plus a base."""
        if not total.args:
            return total
        fused = self.fuse(total, True)
        if fused is None:
            self.report.add("Could not normalize iterators")
            return total
        return fused

    def constrain(self, total: IterSumExpr, low: PrimExpr | None, high: PrimExpr | None) -> None:
        """Let `low <= total < high` hold from now on, for each end that is given."""
        low = low if low is None or is_const(total.base, 0) else low - total.base
        high = high if high is None or is_const(total.base, 0) else high - total.base
        if not is_const(total.base, 0):
            total = total.replace(base=int_const(total.dtype, 0))
        fused = self.fuse(total, False)
        if fused is None or not fused.args or not is_const(fused.args[0].scale, 1):
            self.report.add("Could not normalize iterators using the constraints given.")
            return
        structured = fused.args[0].source.source
        assert isinstance(structured, IterSumExpr)
        flat = self._flat_forms[_sum_key(structured)]
        mark, first = self._marks[_sum_key(flat)]
        last: PrimExpr = first + mark.extent
        if low is not None:
            start = max_of(low, first)
            shift, first = start - first, start
            if not is_const(shift, 0):
                # marks start at 0
                del self._flat_forms[_sum_key(structured)]
                structured = structured.replace(base=structured.base - shift)
                self._flat_forms[_sum_key(structured)] = flat
        if high is not None:
            # most predicates cut something off: prefer their bound where it can be proved
            last = high if self.analyzer.can_prove(ops.less_equal(high, last)) else min_of(high, last)
        self._marks[_sum_key(flat)] = (IterMark(structured, last - first), first)
        self.constrained.append(flat)

    def constrained_marks(self) -> list[IterMark]:
        """The marks that stand for the constrained sums."""
        return [self._marks[_sum_key(flat)][0] for flat in self.constrained]

    def constraints_consistent(self) -> bool:
        """Whether every two constrained sums are disjoint, or the shorter is part of the longer."""
        for i, inner in enumerate(self.constrained):
            for outer in self.constrained[i + 1 :]:
                found = [any(split_equal(a, b) for b in outer.args) for a in inner.args]
                if len(set(found)) > 1:
                    return False
        return True

    def as_sorted_sum(self, total: IterSumExpr) -> IterSumExpr:
        """`total` with each scale as symbols times a constant, by falling constant, then symbols."""
        if not total.args:
            return total
        combined = self.combine_same_source(total)
        if combined is not None:
            total = combined
        items: list[tuple[tuple[int, int], IterSplitExpr]] = []
        for split in total.args:
            factors = operands(split.scale, Mul)
            scale = mul_and_normalize(split.scale, int_const(split.dtype, 1))
            constant = math.prod([f.value for f in factors if isinstance(f, IntImm)])
            symbols = sum(not isinstance(f, IntImm) for f in factors)
            items.append(((-constant, -symbols), split.replace(scale=scale)))
        items.sort(key=lambda item: item[0])
        return total.replace(args=tuple([s for _, s in items]), base=normalize_iter_map_to_expr(total.base))
