"""Moving a block under a loop of its producers."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.cinn_form import init_block_of, listed, parts_of
from tvmagic.cinn.steps.compute_at import (
    Span,
    check_movable,
    conditions_on,
    is_guard,
    nest_of,
    one_plain_store,
    spanned,
)
from tvmagic.cinn.steps.coverage import (
    among,
    check_adds_once,
    check_inputs_stay,
    is_implied,
    loads_of,
    relaxed,
    stored_box,
    stored_part,
)
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.loops import root_body
from tvmagic.cinn.steps.tree import (
    Edit,
    Leaf,
    bound_and_first,
    check_runs_for_all,
    commit,
    leaf_of,
    leaves,
    only,
    path_to,
    ranges_of,
    runs_for_all,
    twin_of,
)
from tvmagic.ir.query import variables_in
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop
from tvmagic.tir.schedule.state import ScheduleState


@step("ReverseComputeAt")
def reverse_compute_at(state: ScheduleState, block: BlockRef, loop: Loop, keep_unit_loops: bool) -> None:
    """Move a consumer to the end of a loop's body; it uses there what its producers stored in one iteration.

    If the loop's body is a condition that decides whether anything is stored, the consumer goes to the end of that.

    Requires: the loop is not around the block; some of its producers are under the loop, and have stored all of an
    element when an iteration ends; the block loads what they store at plain variables, the same ones in all loads; what
    one iteration stores is a box without gaps, and all iterations together store all that the block loads; a
    reduction finds all that it adds up there; no other block comes between that depends on the move.
    """
    body = root_body(state, block)
    leaf = leaf_of(body, block.block)
    check_movable(leaf, loop)
    twin = twin_of(body, leaf) if not init_block_of(leaf.block) else None
    one_plain_store(leaf)
    check_runs_for_all(leaf)
    every = leaves(body)
    check_adds_once(leaf, every)
    outer = [n for n in path_to(body, loop.loop) if isinstance(n, ir.For)]
    producers = _check_consumer(every, leaf, twin, loop, outer)
    check_inputs_stay(leaf, every, outer)
    analyzer = Analyzer(ranges_of([*outer, *{n for p in producers for n in p.loops}]))
    spans = _given(leaf, producers, loop.loop, analyzer)
    guard = _guard_to_enter(leaf, producers, spans, loop.loop, outer)
    held = [] if guard is None else [guard.condition]
    new = nest_of(state, leaf, twin, spans, keep_unit_loops, "reverse_compute_at_extra_var", held)
    if guard is None:
        changed: ir.Stmt = listed(*parts_of(loop.loop.body), *new)
    else:
        changed = guard.replace(then_case=listed(*parts_of(guard.then_case), *new))
    changes: dict[ir.Stmt, ir.Stmt | None] = {
        found.realize: None for found in ([leaf] if twin is None else [twin, leaf])
    }
    changes[loop.loop] = loop.loop.replace(body=changed)
    commit(state, block, Edit(changes)(body))


# ---------------------------------------------------------------------------- the producers


def _check_consumer(
    every: Sequence[Leaf], leaf: Leaf, twin: Leaf | None, loop: StmtSRef, outer: Sequence[ir.For]
) -> list[Leaf]:
    """The producers of a block that is to be moved under a loop of theirs."""
    own = {leaf.block} if twin is None else {leaf.block, twin.block}
    order = {found.block: place for place, found in enumerate(every)}
    inside = {found.block for found in leaves(loop.loop)}
    out = leaf.stores[0].buffer
    inputs = {load.buffer for load in loads_of(leaf)} - {out}
    producers = [f for f in every if f.block in inside and inputs & {s.buffer for s in f.stores}]
    if not producers:
        raise ScheduleError(
            f"no block under {loop.label} stores what `{leaf.name}` loads",
            loop,
            leaf.block,
            code="cinn.reverse_compute_at.no_producer",
        )
    first, last = min(order[found.block] for found in leaves(outer[0])), order[leaf.block]
    given = {s.buffer for p in producers for s in p.stores}
    for place, found in enumerate(every):
        if found.block in own:
            continue
        stored = {s.buffer for s in found.stores}
        if found.block not in inside and stored & given and place >= first:
            raise ScheduleError(
                f"`{found.name}` stores what `{leaf.name}` loads too, and is not under {loop.label}",
                loop,
                code="cinn.reverse_compute_at.producer_outside",
            )
        other_input = stored & inputs and found not in producers
        if first <= place < last and (other_input or out in stored | {load.buffer for load in loads_of(found)}):
            raise ScheduleError(
                f"`{found.name}` comes before `{leaf.name}` and depends on the move",
                found.block,
                code="cinn.reverse_compute_at.dependent_block_between",
            )
        if place > last and found.block in inside:
            raise ScheduleError(
                f"`{leaf.name}` comes before {loop.label}",
                leaf.block,
                code="cinn.reverse_compute_at.consumer_before_loop",
            )
    _check_complete(producers, outer, loop)
    return producers


def _check_complete(producers: Sequence[Leaf], outer: Sequence[ir.For], loop: StmtSRef) -> None:
    """Raise if a producer has not added up all of an element in one iteration of the loops `outer`."""
    for producer in producers:
        bad = next((n for n in outer if n.loop_var in producer.reducing), None)
        if bad is not None:
            raise ScheduleError(
                f"`{producer.name}` adds up over loop `{bad.loop_var.name}`, so its elements are not complete under it",
                loop,
                producer.block,
                code="cinn.reverse_compute_at.producer_incomplete",
            )


# ---------------------------------------------------------------------------- what an iteration gives


def _pairs(leaf: Leaf, producer: Leaf) -> list[tuple[ir.BufferStore, ir.BufferLoad]]:
    """The stores of a producer, each with the loads of the block that read from its tensor."""
    return [(store, load) for store in producer.stores for load in loads_of(leaf, store.buffer)]


def _inner_loops(producer: Leaf, loop: ir.For) -> list[ir.For]:
    return producer.loops[producer.loops.index(loop) + 1 :]


def _given(leaf: Leaf, producers: Sequence[Leaf], loop: ir.For, analyzer: Analyzer) -> dict[ir.Var, Span]:
    """What each variable of the block runs over: where its producers have stored in one iteration."""
    spans: dict[ir.Var, Span] = {}
    domains = _domains(leaf)
    for producer in producers:
        for store, load in _pairs(leaf, producer):
            for index, ends in zip(load.indices, _index_bounds(producer, store, loop, analyzer)):
                _give(leaf, spans, domains, index, ends, analyzer)
    for axis in leaf.block.iter_vars:
        assert axis.dom is not None
        span = spans.setdefault(axis.var, Span(axis.dom.min, axis.dom.extent))
        if axis.iter_type == ir.IterVar.CommReduce and not ir.structural_equal(span.extent, axis.dom.extent):
            raise ScheduleError(
                f"`{leaf.name}` adds up over `{axis.var.name}`, of which one iteration of the loop gives a part",
                leaf.block,
                code="cinn.reverse_compute_at.consumer_reduces_part",
            )
    for producer in producers:
        for store, load in _pairs(leaf, producer):
            _check_box(leaf, producer, store, load, spans, loop, analyzer)
            _check_all_stored(leaf, producer, store, load)
    return spans


def _own_conditions(producer: Leaf, store: ir.BufferStore, loop: ir.For, analyzer: Analyzer) -> list[ir.PrimExpr]:
    """The conditions under a loop that say which elements each of its iterations stores, if these are a box without gaps."""
    inside = _inner_loops(producer, loop)
    moving = {v for i in store.indices for v in variables_in(ir.substitute(i, producer.values))} & set(
        ranges_of(inside)
    )
    own = [c for c in _conditions_under(producer, loop) if moving.issuperset(variables_in(c))]
    return own if stored_part(producer, store, inside, own, analyzer) is not None else []


def _index_bounds(
    producer: Leaf, store: ir.BufferStore, loop: ir.For, analyzer: Analyzer
) -> Sequence[tuple[ir.PrimExpr, ir.PrimExpr] | None]:
    """The first and the last value of each index at which one iteration of a loop may store."""
    own = _own_conditions(producer, store, loop, analyzer)
    part = stored_part(producer, store, _inner_loops(producer, loop), own, analyzer) if own else None
    return part or [relaxed(at, producer, _inner_loops(producer, loop), analyzer) for at in store.indices]


def _domains(leaf: Leaf) -> dict[ir.Var, ir.Range]:
    """What each variable of a block runs over in all."""
    return {axis.var: axis.dom for axis in leaf.block.iter_vars if axis.dom is not None}


def _give(
    leaf: Leaf,
    spans: dict[ir.Var, Span],
    domains: dict[ir.Var, ir.Range],
    index: ir.PrimExpr,
    ends: tuple[ir.PrimExpr, ir.PrimExpr] | None,
    analyzer: Analyzer,
) -> None:
    """Note what an index of a load runs over, given the ends of what is stored there."""
    if isinstance(index, ir.IntImm):
        if ends is None or not all(analyzer.can_prove_equal(e, index) for e in ends):
            raise ScheduleError(
                f"`{leaf.name}` loads the place {index.value}, which one iteration need not store",
                leaf.block,
                code="cinn.reverse_compute_at.index_not_stored",
            )
        return
    if not isinstance(index, ir.Var) or index not in domains or ends is None:
        raise ScheduleError(
            f"`{leaf.name}` does not load at its plain variables what is stored under the loop",
            leaf.block,
            code="cinn.reverse_compute_at.load_not_at_variables",
        )
    span = spanned([ends], domains[index], analyzer)
    known = spans.get(index)
    if known is not None and not (
        analyzer.can_prove_equal(known.low, span.low) and ir.structural_equal(known.extent, span.extent)
    ):
        raise ScheduleError(
            f"`{leaf.name}` loads at `{index.name}` what different iterations store",
            leaf.block,
            code="cinn.reverse_compute_at.loads_other_iterations",
        )
    spans[index] = span


def _check_box(
    leaf: Leaf,
    producer: Leaf,
    store: ir.BufferStore,
    load: ir.BufferLoad,
    spans: dict[ir.Var, Span],
    loop: ir.For,
    analyzer: Analyzer,
) -> None:
    """Raise unless one iteration stores each element of the spans, the conditions in it aside."""
    own = _own_conditions(producer, store, loop, analyzer)
    part = stored_part(producer, store, _inner_loops(producer, loop), own, analyzer)
    pairs = [(spans[index], ends) for index, ends in zip(load.indices, part or ()) if isinstance(index, ir.Var)]
    if part is None or not all(
        analyzer.can_prove(first <= span.low) and analyzer.can_prove(span.low + span.extent - 1 <= last)
        for span, (first, last) in pairs
    ):
        raise ScheduleError(
            f"one iteration of loop `{loop.loop_var.name}` is not known to store all that `{leaf.name}` would load",
            leaf.block,
            loop,
            hint="choose a loop under which the producer stores an interval of each dimension",
            code="cinn.reverse_compute_at.stores_not_proved",
        )


def _check_all_stored(leaf: Leaf, producer: Leaf, store: ir.BufferStore, load: ir.BufferLoad) -> None:
    """Raise unless all iterations together store all that the block loads: it runs for nothing else afterwards."""
    domains, own = _domains(leaf), _domains(producer)
    wanted = [(at, domains[index]) for index, at in zip(load.indices, store.indices) if isinstance(index, ir.Var)]
    if runs_for_all(producer):  # then the producer's variables are what has to be asked
        loops, predicate, indices = own, True, [at for at, _ in wanted]
    else:
        loops, predicate = ranges_of(producer.loops), all_of(producer.conditions)
        indices = [ir.substitute(at, producer.values) for at, _ in wanted]
    analyzer = Analyzer(loops)
    stored = stored_box(indices, loops, predicate, analyzer)
    if stored is None or not all(
        analyzer.can_prove(first <= dom.min) and analyzer.can_prove(dom.min + dom.extent - 1 <= last)
        for (first, last), (_, dom) in zip(stored, wanted)
    ):
        raise ScheduleError(
            f"`{leaf.name}` loads more than what is stored under the loop",
            leaf.block,
            code="cinn.reverse_compute_at.loads_too_much",
        )


# ---------------------------------------------------------------------------- conditions around the producers


def _guard_to_enter(
    leaf: Leaf, producers: Sequence[Leaf], spans: dict[ir.Var, Span], loop: ir.For, outer: Sequence[ir.For]
) -> ir.IfThenElse | None:
    """The condition that is all of the loop's body, if the block goes inside it; None if it goes after it.

    If no variable leaves its domain the conditions must hold, or else nothing may have been stored.
    """
    body = only(loop.body)
    guard = body if is_guard(body) else None
    open_conditions = [c for p in producers for c in _open_conditions(leaf, p, loop, outer)]
    if any(guard is None or not ir.structural_equal(c, guard.condition) for c in open_conditions):
        raise ScheduleError(
            f"whether one iteration of loop `{loop.loop_var.name}` stores what `{leaf.name}` would load depends on "
            f"`{open_conditions[0]}`",
            leaf.block,
            loop,
            code="cinn.reverse_compute_at.condition_not_affine",
        )
    if guard is None:
        return None
    wanted = [c for span in spans.values() for c in conditions_on(span.low, span)]
    return guard if open_conditions or (len(wanted) == 1 and among(guard.condition, wanted)) else None


def _open_conditions(leaf: Leaf, producer: Leaf, loop: ir.For, outer: Sequence[ir.For]) -> list[ir.PrimExpr]:
    """The conditions under a loop of which it is not known that they hold wherever the block loads what is stored."""
    analyzer = Analyzer(ranges_of([*outer, *producer.loops]))
    own = [_own_conditions(producer, store, loop, analyzer) for store, _ in _pairs(leaf, producer)]
    under = _conditions_under(producer, loop)
    return [c for c in under if not all(among(c, o) for o in own) and not _implied(c, leaf, producer, loop, outer)]


def _conditions_under(producer: Leaf, loop: ir.For) -> list[ir.PrimExpr]:
    path = producer.path[producer.path.index(loop) + 1 :]
    return [n.condition for n in path if isinstance(n, ir.IfThenElse)]


def _implied(condition: ir.PrimExpr, leaf: Leaf, producer: Leaf, loop: ir.For, outer: Sequence[ir.For]) -> bool:
    """Whether a condition under the target holds where what the producer stores is in the domains of the block's variables.

    What the producer adds up is inside its own domains, all of which its loops under the target go through. Of loops that
    repeat the producer there the first iteration is enough.
    """
    domains, (_, first) = _domains(leaf), bound_and_first(producer)
    axes = [pair for store, load in _pairs(leaf, producer) for pair in zip(load.indices, store.indices)]
    inside = [(ir.substitute(at, producer.values), domains[index]) for index, at in axes if isinstance(index, ir.Var)]
    added = [
        (value, axis.dom) for axis, value in producer.bindings if axis.iter_type == ir.IterVar.CommReduce and axis.dom
    ]
    under = {n.loop_var: first[n.loop_var] for n in _inner_loops(producer, loop) if n.loop_var in first}
    return is_implied(ir.substitute(condition, under), [*inside, *added], ranges_of([*outer, *producer.loops]))
