"""Moving a block under a loop of its consumers, and what moving a block either way needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.cinn_form import in_order, init_block_of, listed, parts_of
from tvmagic.cinn.steps.coverage import among, check_adds_once, check_inputs_stay, loads_of, relaxed
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.dependence import check_free_order
from tvmagic.cinn.steps.loops import arguments_of, root_body
from tvmagic.cinn.steps.tree import (
    Edit,
    Leaf,
    before_and_after,
    check_runs_for_all,
    commit,
    leaf_of,
    leaves,
    names_of,
    nested,
    only,
    path_to,
    ranges_of,
    twin_of,
)
from tvmagic.ir.ops import maximum, minimum
from tvmagic.ir.query import is_zero
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop
from tvmagic.tir.schedule.state import ScheduleState


@dataclass(frozen=True)
class Span:
    """What an axis runs over: `extent` values from `low` on, and the conditions that keep it inside its domain."""

    low: ir.PrimExpr
    extent: ir.PrimExpr
    above: ir.PrimExpr | None = None  # the values must be below this
    below: ir.PrimExpr | None = None  # the values must be at least this


def _outermost(
    values: Sequence[ir.PrimExpr],
    analyzer: Analyzer,
    before: Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr],
    of_two: Callable[[ir.PrimExpr, ir.PrimExpr], ir.PrimExpr],
) -> ir.PrimExpr:
    """The value that comes first by `before`; an expression of several by `of_two` if it is not known which."""
    found = values[0]
    for other in values[1:]:
        if not analyzer.can_prove(before(found, other)):
            found = other if analyzer.can_prove(before(other, found)) else of_two(found, other)
    return found


def spanned(ends: Sequence[tuple[ir.PrimExpr, ir.PrimExpr] | None], dom: ir.Range, analyzer: Analyzer) -> Span:
    """What covers all the given intervals inside a domain; the domain itself if no number of values is known to."""
    whole = Span(dom.min, dom.extent)
    if not ends or any(e is None for e in ends):
        return whole
    lows, highs = zip(*[e for e in ends if e is not None])
    low = _outermost(lows, analyzer, lambda a, b: a <= b, minimum)
    high = _outermost(highs, analyzer, lambda a, b: a >= b, maximum)
    last = analyzer.simplify(dom.min + dom.extent - 1)
    if isinstance(low, ir.IntImm) and isinstance(dom.min, ir.IntImm):
        low = low if low.value >= dom.min.value else dom.min
    if isinstance(high, ir.IntImm) and isinstance(last, ir.IntImm):
        high = high if high.value <= last.value else last
    extent = analyzer.simplify(high - low + 1)
    if not isinstance(extent, ir.IntImm):
        return whole
    if isinstance(dom.extent, ir.IntImm) and extent.value >= dom.extent.value:
        return whole
    above = None if analyzer.can_prove(high <= last) else analyzer.simplify(last + 1)
    below = None if analyzer.can_prove(low >= dom.min) else dom.min
    return Span(in_order(low), extent, above, below)


# ---------------------------------------------------------------------------- the nest at the new place


@dataclass
class _Nest:
    """The loops that are made around a moved block, and what its variables are bound to in them."""

    state: ScheduleState
    keep_unit_loops: bool

    def __post_init__(self) -> None:
        self.made: list[str] = []
        self.count = 0

    def axis(self, span: Span) -> tuple[ir.For | None, ir.PrimExpr, list[ir.PrimExpr]]:
        """The loop over a span (None if it runs once), the bound value, and the conditions on it."""
        one = isinstance(span.extent, ir.IntImm) and span.extent.value == 1
        if one and not self.keep_unit_loops:
            return None, span.low, conditions_on(span.low, span)
        var = ir.Var(names_of(self.state).take(f"ax{self.count}"), span.extent.dtype)
        self.count += 1
        self.made.append(var.name)
        value = ir.Add(span.low, var)
        checked = var if is_zero(span.low) else in_order(value)
        loop = ir.For(var, 0, span.extent, ir.ForKind.SERIAL, listed())
        return loop, value, conditions_on(checked, span)


def conditions_on(value: ir.PrimExpr, span: Span) -> list[ir.PrimExpr]:
    found: list[ir.PrimExpr] = []
    if span.below is not None:
        found.append(ir.GE(value, span.below))
    if span.above is not None:
        found.append(ir.LT(value, span.above))
    return found


def _wrapped(body: ir.Stmt, loops: Sequence[ir.For | None], conditions: Sequence[ir.PrimExpr]) -> ir.Stmt:
    return nested([loop for loop in loops if loop is not None], conditions, body)


def nest_of(
    state: ScheduleState,
    leaf: Leaf,
    twin: Leaf | None,
    spans: dict[ir.Var, Span],
    keep: bool,
    key: str,
    drop: Sequence[ir.PrimExpr] = (),
) -> list[ir.Stmt]:
    """The statements that compute a block over the spans: its first values, then the block in its loops that reduce."""
    nest = _Nest(state, keep)
    spatial = [axis for axis in leaf.block.iter_vars if axis.iter_type != ir.IterVar.CommReduce]
    reducing = [axis for axis in leaf.block.iter_vars if axis.iter_type == ir.IterVar.CommReduce]
    made = {axis.var: nest.axis(spans[axis.var]) for axis in (*spatial, *reducing)}
    values = [made[axis.var][1] for axis in leaf.block.iter_vars]
    block = leaf.block
    if key not in block.annotations:
        block = block.replace(annotations={**block.annotations, key: ",".join(nest.made)})
    conditions = {axis.var: [c for c in made[axis.var][2] if not among(c, drop)] for axis in leaf.block.iter_vars}
    inner = leaf.realize.replace(iter_values=tuple(values), block=block)
    body = _wrapped(inner, [made[a.var][0] for a in reducing], [c for a in reducing for c in conditions[a.var]])
    parts: list[ir.Stmt] = [body]
    if twin is not None:
        bound = [made[_same_place(twin, axis.var, leaf)][1] for axis in twin.block.iter_vars]
        parts.insert(0, twin.realize.replace(iter_values=tuple(bound)))
    loops = [made[a.var][0] for a in spatial]
    guards = [c for a in spatial for c in conditions[a.var]]
    if not guards and all(loop is None for loop in loops):
        return parts
    return [_wrapped(listed(*parts) if len(parts) > 1 else parts[0], loops, guards)]


def _same_place(twin: Leaf, var: ir.Var, leaf: Leaf) -> ir.Var:
    """The variable of a block at the place of an index of its first values."""
    place = next((n for n, index in enumerate(twin.stores[0].indices) if index is var), None)
    index = None if place is None else leaf.stores[0].indices[place]
    if not isinstance(index, ir.Var):
        raise ScheduleError(
            f"block `{twin.name}` does not store at the plain variables of `{leaf.name}`",
            twin.block,
            code="cinn.compute_at.store_not_at_variables",
        )
    return index


def one_plain_store(leaf: Leaf) -> ir.Buffer:
    stores = leaf.stores
    if len(stores) != 1:
        raise ScheduleError(
            f"block `{leaf.name}` has {len(stores)} stores, not one", leaf.block, code="cinn.compute_at.several_stores"
        )
    plain = [i for i in stores[0].indices if isinstance(i, ir.Var)]
    rest = [i for i in stores[0].indices if not isinstance(i, (ir.Var, ir.IntImm))]
    spatial = [axis.var for axis in leaf.block.iter_vars if axis.iter_type != ir.IterVar.CommReduce]
    if rest or len(plain) != len(set(plain)) or set(plain) != set(spatial):
        raise ScheduleError(
            f"block `{leaf.name}` does not store at its distinct plain variables",
            leaf.block,
            code="cinn.compute_at.store_not_at_variables",
        )
    return stores[0].buffer


def check_movable(leaf: Leaf, loop: StmtSRef) -> None:
    if loop.loop in leaf.path:
        raise ScheduleError(
            f"{loop.label} is around block `{leaf.name}` already",
            leaf.block,
            loop,
            code="cinn.compute_at.already_inside",
        )
    if any(isinstance(n, ir.IfThenElse) and n.else_case is not None for n in leaf.path):
        raise ScheduleError(
            f"block `{leaf.name}` is in a condition with an else",
            leaf.block,
            code="cinn.compute_at.condition_with_else",
        )
    if leaf.stores and any(isinstance(n, ir.For) for n in (leaf.block.body,)):
        raise ScheduleError(f"block `{leaf.name}` holds loops", leaf.block, code="cinn.compute_at.loops_inside")


# ---------------------------------------------------------------------------- compute_at


@step("ComputeAt")
def compute_at(state: ScheduleState, block: BlockRef, loop: Loop, keep_unit_loops: bool) -> None:
    """Move a producer to the front of a loop's body; it computes there what its consumers read in one iteration.

    The ranges that they read become loops `ax0`, `ax1`, ...; a range of one makes no loop unless `keep_unit_loops`. A
    reduction takes `X__reduce_init` along. The block gets the attribute `compute_at_extra_var`.

    Requires: the loop is not around the block; the block has one store, at its distinct plain variables, to a tensor
    that lives inside the function and that no other block writes; all readers are under the loop, after the block;
    nothing writes what the block loads after it.
    """
    body = root_body(state, block)
    leaf = leaf_of(body, block.block)
    check_movable(leaf, loop)
    twin = twin_of(body, leaf) if not init_block_of(leaf.block) else None
    buffer = one_plain_store(leaf)
    check_runs_for_all(leaf)
    every = leaves(body)
    check_adds_once(leaf, every)
    if buffer in arguments_of(state, block):
        raise ScheduleError(
            f"`{buffer.name}` is an output of the function; its block cannot be a producer",
            block,
            code="cinn.compute_at.output_block",
        )
    moved = [leaf] if twin is None else [twin, leaf]
    consumers = _check_producer(every, moved, buffer, loop)
    outer = [n for n in path_to(body, loop.loop) if isinstance(n, ir.For)]
    for found in moved:
        check_inputs_stay(found, every, outer)
    spans = _needed(leaf, buffer, consumers, outer, loop.loop)
    held = [n.condition for n in (*path_to(body, loop.loop), only(loop.loop.body)) if is_guard(n)]
    new = nest_of(state, leaf, twin, spans, keep_unit_loops, "compute_at_extra_var", held)
    changes: dict[ir.Stmt, ir.Stmt | None] = {found.realize: None for found in moved}
    changes[loop.loop] = loop.loop.replace(body=_in_front(loop.loop.body, new))
    after = Edit(changes)(body)
    if init_block_of(leaf.block):
        _check_first_values(after, leaf, buffer, loop, consumers)
    commit(state, block, after)


def is_guard(node: ir.Stmt) -> TypeGuard[ir.IfThenElse]:
    return isinstance(node, ir.IfThenElse) and node.else_case is None


def _in_front(body: ir.Stmt, new: Sequence[ir.Stmt]) -> ir.Stmt:
    """`new` before the statements of a body; inside the condition with which the body begins."""
    inner = only(body)
    if is_guard(inner):
        return inner.replace(then_case=listed(*new, *parts_of(inner.then_case)))
    return listed(*new, *parts_of(body))


def _check_producer(every: Sequence[Leaf], moved: Sequence[Leaf], buffer: ir.Buffer, loop: StmtSRef) -> list[Leaf]:
    """The consumers of a block that is to be moved under a loop of theirs."""
    leaf, blocks = moved[-1], {found.block for found in moved}
    others = [found for found in every if found.block not in blocks]
    first_values = bool(init_block_of(leaf.block))
    consumers = [found for found in others if loads_of(found, buffer)]
    if first_values:  # they are for what adds to them; who reads the result comes later
        consumers = [found for found in consumers if any(s.buffer is buffer for s in found.stores)]
    if not consumers:
        raise ScheduleError(
            f"no block reads `{buffer.name}`, so `{leaf.name}` has no consumer",
            leaf.block,
            code="cinn.compute_at.no_consumer",
        )
    for found in others:
        if any(s.buffer is buffer for s in found.stores) and not first_values:
            raise ScheduleError(
                f"`{buffer.name}` is stored by `{found.name}` too",
                leaf.block,
                found.block,
                code="cinn.compute_at.several_writers",
            )
    before, after = before_and_after(every, leaf.block)
    _check_readers(consumers, before, leaf, buffer, loop)
    inputs = {load.buffer for m in moved for load in loads_of(m)} - {buffer}
    for found in after:
        if inputs & {s.buffer for s in found.stores}:
            raise ScheduleError(
                f"`{found.name}` stores what `{leaf.name}` loads, after it",
                found.block,
                code="cinn.compute_at.stores_input_of_block",
            )
    return consumers


def _check_readers(
    readers: Sequence[Leaf], before: Sequence[Leaf], leaf: Leaf, buffer: ir.Buffer, loop: StmtSRef
) -> None:
    """Those who read what a block stores are all under the loop, and come after it."""
    inside = {found.block for found in leaves(loop.loop)}
    for found in readers:
        if found.block not in inside:
            raise ScheduleError(
                f"all readers of `{buffer.name}` must be under {loop.label}, but `{found.name}` is not",
                loop,
                found.block,
                hint="choose a loop that holds all of them, or move the others first",
                code="cinn.compute_at.not_covered",
            )
        if found in before:
            raise ScheduleError(
                f"`{found.name}` comes before `{leaf.name}`, which it reads",
                found.block,
                code="cinn.compute_at.reader_before_producer",
            )


def _needed(
    leaf: Leaf, buffer: ir.Buffer, consumers: Sequence[Leaf], outer: Sequence[ir.For], loop: ir.For
) -> dict[ir.Var, Span]:
    """What each variable of the block runs over in one iteration of the loop."""
    every = {n for c in consumers for n in c.loops}
    analyzer = Analyzer(ranges_of([*outer, *every]))
    domains = {axis.var: axis.dom for axis in leaf.block.iter_vars}
    spans: dict[ir.Var, Span] = {}
    for place, index in enumerate(leaf.stores[0].indices):
        if isinstance(index, ir.Var):
            dom = domains[index]
            assert dom is not None
            ends = [
                relaxed(load.indices[place], c, c.loops[c.loops.index(loop) + 1 :], analyzer)
                for c in consumers
                for load in loads_of(c, buffer)
            ]
            spans[index] = spanned(ends, dom, analyzer)
    for axis in leaf.block.iter_vars:
        if axis.var not in spans and axis.dom is not None:
            spans[axis.var] = Span(axis.dom.min, axis.dom.extent)
    return spans


def _check_first_values(after: ir.Stmt, leaf: Leaf, buffer: ir.Buffer, loop: StmtSRef, updates: Sequence[Leaf]) -> None:
    """First values that move alone must still be stored once for each element, before anything is added to it."""
    around = [n for n in path_to(after, next(n for n in leaf_loops(after, leaf.name) if n.loop_var is loop.loop.loop_var))
              if isinstance(n, ir.For)]  # fmt: skip
    reducing = {v for found in updates for v in found.reducing}
    bad = next((n for n in around if n.loop_var in reducing), None)
    if bad is not None:
        raise ScheduleError(
            f"loop `{bad.loop_var.name}` reduces: `{leaf.name}` would store in each of its iterations",
            loop,
            code="cinn.compute_at.loop_reduces",
        )
    without = {n.buffer for found in leaves(after) for n in (*loads_of(found), *found.stores)} - {buffer}
    check_free_order(after, around, without, f"moving `{leaf.name}`")


def leaf_loops(body: ir.Stmt, name: str) -> list[ir.For]:
    """The loops around the block of a name."""
    return next(found for found in leaves(body) if found.name == name).loops
