"""What the variables of a block run over at the loop that it is moved to: solved from what is needed of it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set import IntSet, intersect, same_ends, union, union_region
from tvmagic.arith.int_set_eval import eval_set, uses_var
from tvmagic.ir.ops import floordiv, maximum
from tvmagic.tir.blocks.domains import analyzer_at, iter_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef

if TYPE_CHECKING:
    from tvmagic.arith.iter_map import IterSumExpr

Regions = dict[ir.Buffer, list[list[IntSet]]]


@dataclass
class Domain:
    """What a block variable runs over: `dom` as asked for, `bound` where it must stay inside."""

    dom: IntSet = field(default_factory=IntSet.nothing)
    bound: IntSet = field(default_factory=IntSet.nothing)

    def join(self, dom: IntSet, bound: IntSet) -> None:
        """Run over `dom` too."""
        self.dom = union([self.dom, dom])
        self.bound = union([self.bound, bound])

    def settle(self, whole: ir.Range, analyzer: Analyzer) -> None:
        """Simplify, and drop the bound where the domain is known to stay inside it."""
        limits = IntSet.from_range(whole)
        self.bound = limits if self.bound.is_nothing() else intersect([self.bound, limits])
        if self.dom.is_nothing():
            self.dom = _simplified(self.bound, analyzer)
            self.bound = IntSet.nothing()
            return
        self.dom, self.bound = _simplified(self.dom, analyzer), _simplified(self.bound, analyzer)
        both = _simplified(intersect([self.dom, self.bound]), analyzer)
        if isinstance(both.min(), ir.IntImm) and isinstance(both.max(), ir.IntImm):
            self.dom, self.bound = both, IntSet.nothing()
            return
        if same_ends(self.dom, both, analyzer):
            self.bound = IntSet.nothing()
        elif same_ends(self.bound, both, analyzer):
            self.dom, self.bound = self.bound, IntSet.nothing()


def _simplified(interval: IntSet, analyzer: Analyzer) -> IntSet:
    low = analyzer.simplify(interval.min()) if interval.has_lower_bound() else interval.min()
    high = analyzer.simplify(interval.max()) if interval.has_upper_bound() else interval.max()
    return IntSet.interval(low, high)


def provided_regions(regions: Sequence[ir.BufferRegion]) -> Regions:
    found: Regions = {}
    for region in regions:
        found.setdefault(region.buffer, []).append([IntSet.from_range(r) for r in region.region])
    return found


def variable_domains(
    iter_vars: Sequence[ir.IterVar],
    provided: Regions,
    needed: Regions,
    analyzer: Analyzer,
    block: StmtSRef,
    loop: StmtSRef,
    reverse: bool,
) -> list[Domain]:
    domains = {v.var: Domain() for v in iter_vars}
    for buffer, boxes in provided.items():
        if not needed.get(buffer):
            continue
        gives, wants = union_region(boxes), union_region(needed[buffer])
        if not _solve_affine(buffer, iter_vars, gives, wants, analyzer, domains):
            _solve_by_dimension(buffer, gives, wants, analyzer, domains, block)
    known = analyzer_at(loop) if reverse else analyzer
    for v in iter_vars:
        assert v.dom is not None
        if reverse:
            _check_all_needed(v, domains[v.var], known, block)
        domains[v.var].settle(v.dom, analyzer)
    return [domains[v.var] for v in iter_vars]


def _check_all_needed(var: ir.IterVar, domain: Domain, analyzer: Analyzer, block: StmtSRef) -> None:
    """A consumer may have no part that needs nothing of its producers: it would never run (padding, mostly)."""
    assert var.dom is not None
    if domain.bound.is_nothing():
        return
    low, high = domain.bound.min(), domain.bound.max()
    last = var.dom.min + var.dom.extent - 1
    if not (analyzer.can_prove(low <= var.dom.min) and analyzer.can_prove(last <= high)):
        raise ScheduleError(
            f"{block.label} runs over `{var.var.name}` in [{var.dom.min}, {last}], and what its producers give reaches "
            f"[{low}, {high}] alone; the rest would be lost",
            block,
            hint="split the padding off by decompose_padding first",
            code="compute_at.values_not_produced",
        )


def _last(size: ir.PrimExpr) -> ir.PrimExpr:
    return maximum(size - 1, ir.IntImm(size.dtype, 0)) if isinstance(size, ir.IntImm) else size - 1


def _ordered(low: ir.PrimExpr, high: ir.PrimExpr, analyzer: Analyzer) -> IntSet:
    """The interval between two ends, which are given from the upper one if the index falls as the variable rises."""
    low, high = analyzer.simplify(low), analyzer.simplify(high)
    return IntSet.interval(high, low) if analyzer.can_prove(high < low) else IntSet.interval(low, high)


def _solve_affine(
    buffer: ir.Buffer,
    iter_vars: Sequence[ir.IterVar],
    gives: list[IntSet],
    wants: list[IntSet],
    analyzer: Analyzer,
    domains: dict[ir.Var, Domain],
) -> bool:
    """Invert the indices as one affine map, if they are points and a bijection."""
    from tvmagic.arith.iter_map import detect_iter_map, inverse_affine_iter_map

    if not all(s.can_prove_single_point(analyzer) for s in gives):
        return False
    if not all(s.has_lower_bound() and s.has_upper_bound() for s in wants):
        return False
    own = iter_domains(iter_vars)
    if variables := _as_variables(gives, own):  # each is its own inverse
        for var, want, size in zip(variables, wants, buffer.shape):
            bound = IntSet.interval(ir.IntImm(size.dtype, 0), _last(size))
            domains[var].join(_ordered(want.min(), want.max(), analyzer), bound)
        return True
    known = Analyzer(own)
    indices = [known.simplify(s.min()) for s in gives]
    # an index that is the same all over the domain says nothing of a variable
    told = [i for i, (index, want) in enumerate(zip(indices, wants)) if not _is_place(index, want, analyzer)]
    sizes, wants = [buffer.shape[i] for i in told], [wants[i] for i in told]
    used = {var: domain for var, domain in own.items() if any(uses_var(indices[i], {var}) for i in told)}
    found = detect_iter_map(
        [indices[i] for i in told],
        own if len(told) == len(indices) else used,
        check_level="bijective",
        analyzer=analyzer,
        simplify_trivial_iterators=False,
    )
    if not found.indices:
        return False
    zero = [ir.IntImm(s.dtype, 0) for s in sizes]
    if _counts_down(found.indices):
        ends = [IntSet.interval(first, _last(size)) for first, size in zip(zero, sizes)]
        doms, bounds = _values_back(found.indices, wants, analyzer), _values_back(found.indices, ends, analyzer)
        for var, dom in doms.items():
            domains[var].join(dom, bounds[var])
        return True
    low = inverse_affine_iter_map(found.indices, [s.min() for s in wants])
    high = inverse_affine_iter_map(found.indices, [s.max() for s in wants])
    first = inverse_affine_iter_map(found.indices, zero)
    last = inverse_affine_iter_map(found.indices, [_last(s) for s in sizes])
    for var in low:
        dom, bound = _ordered(low[var], high[var], analyzer), _ordered(first[var], last[var], analyzer)
        domains[var].join(dom, bound)
    return True


def _counts_down(sums: Sequence[IterSumExpr]) -> bool:
    """Whether some iterator falls while its index rises."""
    return any(isinstance(split.scale, ir.IntImm) and split.scale.value < 0 for total in sums for split in total.args)


def _values_back(sums: Sequence[IterSumExpr], wants: Sequence[IntSet], analyzer: Analyzer) -> dict[ir.Var, IntSet]:
    """The values of the iterators while each index takes those that are wanted, whichever way each counts."""
    from tvmagic.arith.iter_map import inverse_affine_iter_map

    places = {ir.Var(f"index{i}", want.min().dtype): want for i, want in enumerate(wants)}
    back = inverse_affine_iter_map(sums, list(places))
    found = {var: eval_set(analyzer.simplify(value), places) for var, value in back.items()}
    return {var: IntSet.interval(analyzer.simplify(s.min()), analyzer.simplify(s.max())) for var, s in found.items()}


def _as_variables(gives: list[IntSet], own: dict[ir.Var, ir.Range]) -> list[ir.Var]:
    """The points as the variables of a block, if they are all of them, each once; else nothing."""
    found = [p for s in gives if isinstance(p := s.min(), ir.Var) and p in own]
    return found if len(set(found)) == len(found) == len(gives) == len(own) else []


def _is_place(index: ir.PrimExpr, want: IntSet, analyzer: Analyzer) -> bool:
    """Whether an index is the constant that is wanted."""
    return (
        isinstance(index, ir.IntImm)
        and want.can_prove_single_point(analyzer)
        and analyzer.can_prove_equal(index, want.min())
    )


def _solve_by_dimension(
    buffer: ir.Buffer,
    gives: list[IntSet],
    wants: list[IntSet],
    analyzer: Analyzer,
    domains: dict[ir.Var, Domain],
    block: StmtSRef,
) -> None:
    for size, give, want in zip(buffer.shape, gives, wants):
        if give.can_prove_single_point(analyzer) and isinstance(give.min(), ir.IntImm):
            if not analyzer.can_prove_equal(give.min(), want.min()):
                raise ScheduleError(
                    f"{block.label} does not give what is needed of buffer `{buffer.name}`",
                    block,
                    code="compute_at.region_not_produced",
                )
            continue
        if not any(uses_var(end, domains) for end in (give.min(), give.max())):
            continue  # always the same part: whether it holds what is needed is seen where the block is then
        var, dom, bound = _solve_dimension(give, want, _last(size), analyzer, buffer, block)
        if var in domains and dom is not None and bound is not None:
            domains[var].join(dom, bound)


def _solve_dimension(
    give: IntSet, want: IntSet, last: ir.PrimExpr, analyzer: Analyzer, buffer: ir.Buffer, block: StmtSRef
) -> tuple[ir.Var, IntSet | None, IntSet | None]:
    """The variable that an index names, what it must run over, and where it must stay.

    The index is a variable, its multiple, quotient or remainder; None if it says nothing.
    """
    first, end = analyzer.simplify(give.min()), analyzer.simplify(give.max())
    low, high = analyzer.simplify(want.min()), analyzer.simplify(want.max())
    zero = ir.IntImm(last.dtype, 0)
    if isinstance(first, ir.Mul):
        var, factor = (first.a, first.b) if isinstance(first.a, ir.Var) else (first.b, first.a)
        if isinstance(var, ir.Var):
            span = IntSet.interval(floordiv(low, factor), floordiv(high, factor))
            return var, span, IntSet.interval(zero, floordiv(last, factor))
    elif analyzer.can_prove_equal(first, end):
        if isinstance(first, ir.Var):
            return first, IntSet.interval(low, high), IntSet.interval(zero, last)
        if isinstance(first, ir.Sub) and isinstance(first.b, ir.Var) and isinstance(first.a, ir.IntImm):
            return first.b, _below(first.a, low, high, analyzer), _below(first.a, zero, last, analyzer)
        if isinstance(first, ir.FloorDiv) and isinstance(first.a, ir.Var):
            factor = first.b
            if analyzer.can_prove_greater_equal(factor, 1):
                span = IntSet.interval(low * factor, analyzer.simplify(high * factor + factor - 1))
                return first.a, span, IntSet.interval(zero, analyzer.simplify(last * factor + factor - 1))
        if isinstance(first, ir.FloorMod) and isinstance(first.a, ir.Var):
            return first.a, None, None
    raise ScheduleError(
        f"the index `{first}` of buffer `{buffer.name}` in {block.label} cannot be solved for a variable",
        block,
        code="compute_at.index_not_solvable",
    )


def _below(top: ir.IntImm, low: ir.PrimExpr, high: ir.PrimExpr, analyzer: Analyzer) -> IntSet:
    """How far the values from `low` to `high` are below a number."""
    return IntSet.interval(analyzer.simplify(top - high), analyzer.simplify(top - low))
