"""The condition under which a block runs: its parts, and what it says of the block's variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvmagic.arith.affine_form import Sum, Sums
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import uses_var
from tvmagic.arith.iter_map import IterSumExpr, detect_iter_map, inverse_affine_iter_map
from tvmagic.errors import TVMagicError
from tvmagic.ir import GE, GT, LE, LT, And, BlockRealize, BufferLoad, IntImm, PrimExpr, Range, Var, substitute
from tvmagic.ir.ops import logical_and
from tvmagic.ir.query import contains, is_one, operands
from tvmagic.tir.blocks.domains import iter_domains, loop_domains
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef

if TYPE_CHECKING:
    from tvmagic.tir.schedule.state import ScheduleState


def conjuncts(predicate: PrimExpr) -> list[PrimExpr]:
    """The conditions that a predicate joins by `and`, in order."""
    return [c for c in operands(predicate, And) if not (isinstance(c, IntImm) and c.value)]


def all_of(conditions: Sequence[PrimExpr]) -> PrimExpr:
    """The conjunction of the conditions; true if there are none."""
    joined: PrimExpr = IntImm("bool", 1)
    for condition in conditions:
        joined = logical_and(joined, condition)
    return joined


def both(known: PrimExpr, added: PrimExpr) -> PrimExpr:
    """The conjunction of a block's condition and one that comes to it, which is asked first if the block's own loads.

    With six elements in `I`, `I[i] < 8` may be asked if `i < 6` holds.
    """
    if contains(known, BufferLoad) and not contains(added, BufferLoad):
        return logical_and(added, known)
    return logical_and(known, added)


def condition_of_some(predicate: PrimExpr, dropped: Mapping[Var, Range], block: StmtSRef) -> PrimExpr:
    """The condition that `predicate` holds in some iteration of the `dropped` loops, said without them.

    A copy of a block that leaves loops out runs once for all their iterations. Whatever passes must pass in the first
    one too, so that putting the first iteration in says just that; raises if this is not known.
    """
    first = {var: domain.min for var, domain in dropped.items()}
    analyzer = Analyzer({**loop_domains([s for s in reversed(block.ancestors()) if s.is_loop]), **dropped})
    kept: list[PrimExpr] = []
    for condition in conjuncts(predicate):
        if uses_var(condition, dropped):
            at_first = substitute(condition, first)
            if not _follows(at_first, condition, analyzer):
                raise ScheduleError(
                    f"the condition `{condition}` of {block.label} may hold in a later iteration of a loop and not in the "
                    "first one, so it cannot be expressed without the loop",
                    block,
                    hint="call decompose_reduction before the loop is split or fused",
                    code="schedule.condition_of_later_iteration",
                )
            condition = analyzer.simplify(at_first)
        if not is_one(condition):
            kept.append(condition)
    return all_of(kept)


def _follows(weaker: PrimExpr, condition: PrimExpr, analyzer: Analyzer) -> bool:
    """Whether `weaker`, which is `condition` at another iteration, holds whenever `condition` does."""
    if analyzer.can_prove(weaker):
        return True
    if isinstance(condition, (LT, LE, GT, GE)) and isinstance(weaker, type(condition)):
        return _implied(weaker, condition, analyzer)
    with analyzer.constraint_scope(condition):
        return analyzer.can_prove(weaker)


def _implied(weaker: PrimExpr, condition: PrimExpr, analyzer: Analyzer) -> bool:
    """Whether a comparison follows from another one of its kind since its sides are as far apart, or farther."""
    if isinstance(condition, (LT, LE)) and isinstance(weaker, type(condition)):
        return analyzer.can_prove(weaker.a - weaker.b <= condition.a - condition.b)
    if isinstance(condition, (GT, GE)) and isinstance(weaker, type(condition)):
        return analyzer.can_prove(weaker.a - weaker.b >= condition.a - condition.b)
    return False


def conditions_on_variables(state: ScheduleState, block: StmtSRef) -> list[PrimExpr]:
    """The conditions of a block in terms of its variables, without those that hold all over their domains.

    A block that leaves its loops must take them along. Raises if they cannot be expressed without the loops.
    """
    realize = state.realize_of(block)
    if is_one(realize.predicate):
        return []
    loops = loop_domains(state.loops_of(block))
    single = {var: domain.min for var, domain in loops.items() if is_one(domain.extent)}
    conditions = conjuncts(substitute(realize.predicate, single))
    used = {var: domain for var, domain in loops.items() if any(uses_var(v, {var}) for v in realize.iter_values)}
    # loops that bind nothing repeat the block: what their first iteration does is enough
    first = {var: domain.min for var, domain in loops.items() if var not in used}
    missing = _beyond_domains(conditions, realize, loops, first)
    repeats = any(uses_var(c, set(first)) for c in missing)
    if missing and not repeats and runs_everywhere(realize, used, substitute(all_of(conditions), first)):
        missing = [c for c in missing if not uses_var(c, set(loops))]
    values = _loops_by_variables(realize, used) if missing else {}
    analyzer = Analyzer(iter_domains(realize.block.iter_vars))
    found: list[PrimExpr] = []
    for condition in missing:
        said = analyzer.simplify(substitute(condition, values))
        if uses_var(said, set(loops)):
            said = _limit_of_variable(condition, realize, loops) or said
        if uses_var(said, set(loops)):
            raise ScheduleError(
                f"the condition `{condition}` of {block.label} cannot be expressed in its variables, so it would be lost with "
                "the loops",
                block,
                hint="move the block before its loops are split or fused",
                code="schedule.condition_not_of_variables",
            )
        if not analyzer.can_prove(said):
            found.append(said)
    return found


def _beyond_domains(
    conditions: list[PrimExpr], realize: BlockRealize, loops: dict[Var, Range], first: dict[Var, PrimExpr]
) -> list[PrimExpr]:
    """The conditions that do more than keep the variables in their domains, as those of a split do."""
    conditions = _not_by_sums(conditions, realize, loops, first)
    if not conditions:
        return []
    inside: list[PrimExpr] = []
    for domain, value in zip(iter_domains(realize.block.iter_vars).values(), realize.iter_values):
        inside += [value >= domain.min, value < domain.min + domain.extent]
    analyzer = Analyzer(loops)
    beyond = [c for c in conditions if not any(_implied(substitute(c, first), limit, analyzer) for limit in inside)]
    with analyzer.constraint_scope(all_of(inside)):
        return [c for c in beyond if not analyzer.can_prove(substitute(c, first))]


def _not_by_sums(
    conditions: list[PrimExpr], realize: BlockRealize, loops: dict[Var, Range], first: Mapping[Var, PrimExpr]
) -> list[PrimExpr]:
    """The conditions without those that follow from one variable's domain as sums of loops, as that of a split does."""
    sums = Sums(loops)
    room: list[Sum] = []  # each at least 0 inside the domains
    for domain, bound in zip(iter_domains(realize.block.iter_vars).values(), realize.iter_values):
        low, extent, value = sums.of(domain.min), sums.of(domain.extent), sums.of(bound)
        if low is not None and extent is not None and value is not None:
            room += [value.plus(low, -1), low.plus(extent).plus(value, -1).plus(Sum({}, -1))]
    kept: list[PrimExpr] = []
    for condition in conditions:
        spare = _spare(substitute(condition, first) if first else condition, sums)
        if spare is None or not any(_not_negative_with(spare, known, sums) for known in room):
            kept.append(condition)
    return kept


def _not_negative_with(spare: Sum, known: Sum, sums: Sums) -> bool:
    """Whether `spare` is at least 0 wherever `known` is: `known` is at most `times * spare`, or more by less than `times`.

    So `43 - k >= 0` follows from `257 - (k * 6 + i) >= 0` for `i` in 0 to 5.
    """
    times = next((known.terms[t] // n for t, n in spare.terms.items() if known.terms.get(t, 0) // n > 0), 1)
    return sums.below(known, Sum({}, times - 1).plus(spare, times))


def _spare(condition: PrimExpr, sums: Sums) -> Sum | None:
    """What is at least 0 where a comparison of sums holds, and only there."""
    if not isinstance(condition, (LT, LE, GT, GE)):
        return None
    a, b = sums.of(condition.a), sums.of(condition.b)
    if a is None or b is None:
        return None
    difference = b.plus(a, -1) if isinstance(condition, (LT, LE)) else a.plus(b, -1)
    return difference.plus(Sum({}, -1)) if isinstance(condition, (LT, GT)) else difference


def partial_condition(
    realize: BlockRealize, loops: dict[Var, Range], first: dict[Var, PrimExpr] | None = None
) -> PrimExpr:
    """What the condition of a block does besides keeping its variables in their domains; true if that is all.

    first: values of some loops, at which the condition is taken.
    """
    if is_one(realize.predicate):
        return realize.predicate
    values = first or {}
    return substitute(all_of(_beyond_domains(conjuncts(realize.predicate), realize, loops, values)), values)


def runs_everywhere(realize: BlockRealize, loops: dict[Var, Range], predicate: PrimExpr) -> bool:
    """Whether the loops, under the predicate, bring the variables to all of their domains."""
    found = detect_iter_map(realize.iter_values, loops, predicate)
    domains = iter_domains(realize.block.iter_vars).values()
    return found.takes_all_values and all(_fills(total, domain) for total, domain in zip(found.indices, domains))


def _fills(total: IterSumExpr, domain: Range) -> bool:
    values, analyzer = interval_of(total), Analyzer()
    if values is None:
        return False
    return analyzer.can_prove_equal(values.min, domain.min) and analyzer.can_prove_equal(values.extent, domain.extent)


def interval_of(total: IterSumExpr) -> Range | None:
    """The interval that a sum of iterators takes all values of, rising or falling; None if it may have gaps."""
    if not total.args:
        return Range.from_min_extent(total.base, IntImm(total.base.dtype, 1))
    iterator, analyzer = total.args[0], Analyzer()
    if len(total.args) == 1 and analyzer.can_prove_equal(iterator.scale, 1):
        return Range.from_min_extent(total.base, iterator.extent)
    if len(total.args) == 1 and analyzer.can_prove_equal(iterator.scale, -1):
        return Range.from_min_extent(analyzer.simplify(total.base + 1 - iterator.extent), iterator.extent)
    return None


def _limit_of_variable(condition: PrimExpr, realize: BlockRealize, loops: dict[Var, Range]) -> PrimExpr | None:
    """Return a comparison of a variable's binding with a number as one of the variable, or None if it is not such."""
    sums = Sums(loops)
    spare = _spare(condition, sums)
    for variable, bound in zip(realize.block.iter_vars, realize.iter_values):
        value = sums.of(bound)
        if spare is None or value is None or not value.terms:
            continue
        for factor in (1, -1):
            rest = spare.plus(value, -factor)
            if not rest.terms:
                return variable.var >= -rest.constant if factor == 1 else variable.var <= rest.constant
    return None


def _loops_by_variables(realize: BlockRealize, loops: dict[Var, Range]) -> dict[Var, PrimExpr]:
    """The loops as expressions of the block's variables; none if the variables do not tell them."""
    found = detect_iter_map(realize.iter_values, loops, check_level="bijective")
    if not found.indices:
        return {}
    try:
        return inverse_affine_iter_map(found.indices, [v.var for v in realize.block.iter_vars])
    except TVMagicError:
        return {}
