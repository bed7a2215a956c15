"""What iterations of a loop store and load of a tensor, and whether each loads only what it stored itself.

Such a tensor may have a memory of its own in each iteration, so that the iterations may change places or run at once. A
tensor that takes a value from one iteration to the next may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.arith.presburger import IntegerLogic, TooMuchWork
from tvmagic.arith.region_bounds import estimate_region_lower_bound
from tvmagic.cinn.cinn_form import init_block_of
from tvmagic.cinn.enumeration import reaches_all
from tvmagic.cinn.steps.tree import Leaf, bound_and_first, leaves, only, ranges_of
from tvmagic.ir.query import nodes_of, variables_in
from tvmagic.ir.store_merging import update_term
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError

_COMMUTATIVE = (ir.Add, ir.Mul, ir.Max, ir.Min, ir.And, ir.Or)


def loads_of(leaf: Leaf, buffer: ir.Buffer | None = None) -> list[ir.BufferLoad]:
    """The loads in a block, of one buffer or of all."""
    return _loads(leaf.block.body, buffer)


def _loads(node: ir.Stmt | ir.PrimExpr, buffer: ir.Buffer | None) -> list[ir.BufferLoad]:
    return [load for load in nodes_of(node, ir.BufferLoad) if buffer is None or load.buffer is buffer]


def among(condition: ir.PrimExpr, others: Iterable[ir.PrimExpr]) -> bool:
    """Whether a condition is one of some others."""
    return any(ir.structural_equal(condition, other) for other in others)


def relaxed(
    index: ir.PrimExpr, leaf: Leaf, inside: Iterable[ir.For], analyzer: Analyzer
) -> tuple[ir.PrimExpr, ir.PrimExpr] | None:
    """The least and the greatest value of an index of a block over some of its loops.

    None if there is no such, or if it depends on a variable that has a value inside the block alone.
    """
    found = eval_set(ir.substitute(index, leaf.values), {**ranges_of(inside), **inner_ranges(leaf)})
    if not found.has_lower_bound() or not found.has_upper_bound():
        return None
    ends = analyzer.simplify(found.min()), analyzer.simplify(found.max())
    own = {let.var for let in nodes_of(leaf.block.body, ir.LetStmt, ir.Let)}
    return ends if all(own.isdisjoint(variables_in(end)) for end in ends) else None


def inner_ranges(leaf: Leaf) -> dict[ir.Var, ir.Range]:
    """What the loops inside a block's body run over, in the variables of the loops around the block."""
    ranges = ranges_of(nodes_of(leaf.block.body, ir.For))
    return {
        var: ir.Range.from_min_extent(ir.substitute(dom.min, leaf.values), ir.substitute(dom.extent, leaf.values))
        for var, dom in ranges.items()
    }


def stored_box(
    indices: Sequence[ir.PrimExpr],
    domains: Mapping[ir.Var, ir.Range],
    predicate: ir.PrimExpr | bool,
    analyzer: Analyzer,
) -> list[tuple[ir.PrimExpr, ir.PrimExpr]] | None:
    """The first and the last value of each index, if all elements between them are named; None if that is not known."""
    if not indices:
        return []
    region = [ir.Range.from_min_extent(index, 1) for index in indices]
    box = estimate_region_lower_bound(region, domains, predicate, analyzer)
    return None if box is None else [(found.min(), found.max()) for found in box]


def stored_part(
    leaf: Leaf, store: ir.BufferStore, loops: Iterable[ir.For], conditions: Sequence[ir.PrimExpr], analyzer: Analyzer
) -> list[tuple[ir.PrimExpr, ir.PrimExpr]] | None:
    """The first and the last value of each index of a store while some loops of its block run, under conditions on them.

    None if it is not known that all elements between them are stored.
    """
    inner = {**ranges_of(loops), **inner_ranges(leaf)}
    values = [ir.substitute(index, leaf.values) for index in store.indices]
    moving = [n for n, value in enumerate(values) if set(variables_in(value)) & set(inner)]
    box = stored_box([values[n] for n in moving], inner, all_of(conditions), analyzer)
    if box is None:
        return None
    part = [(value, value) for value in values]
    for n, ends in zip(moving, box):
        part[n] = ends
    return part


def follows(goal: ir.PrimExpr, known: Iterable[ir.PrimExpr], domains: Mapping[ir.Var, ir.Range]) -> bool:
    """Whether a condition is known to hold for all values of some variables for which others hold."""
    logic = IntegerLogic(domains)
    try:
        return logic.implies(logic.both(*[logic.condition(c) for c in known]), logic.condition(goal))
    except TooMuchWork:
        return False


def is_implied(
    condition: ir.PrimExpr, places: Iterable[tuple[ir.PrimExpr, ir.Range]], domains: Mapping[ir.Var, ir.Range]
) -> bool:
    """Whether a condition holds wherever some values are inside their ranges."""
    inside = [
        limit
        for value, range_ in places
        for limit in (ir.GE(value, range_.min), ir.LT(value, range_.min + range_.extent))
    ]
    return follows(condition, inside, domains)


# ---------------------------------------------------------------------------- what adds up


def is_update(store: ir.Stmt) -> bool:
    """Whether a store adds to the element that it loads: sum, product, least, greatest, all, any."""
    if not isinstance(store, ir.BufferStore):
        return False
    added = update_term(store, *_COMMUTATIVE)
    return added is not None and not _loads(added, store.buffer)


def is_extreme(leaf: Leaf) -> bool:
    """Whether a block takes the greatest, or the least, of values that it does not change.

    The greatest of some values is the same however often each is taken, and in whatever order: `max` is associative,
    commutative and idempotent, also with NaN, which it hands on. So such a block may run more often than once.
    """
    return bool(leaf.stores) and all(is_update(s) and isinstance(s.value, (ir.Max, ir.Min)) for s in leaf.stores)


# ---------------------------------------------------------------------------- what one iteration needs of others


def loads_what_it_stored(inside: ir.For, buffer: ir.Buffer) -> bool:
    """Whether each iteration of a loop is known to load of a tensor only what it stored before."""
    order = leaves(inside)
    for number, reader in enumerate(order):
        if any(_loads(part, buffer) for part in (*reader.conditions, *reader.realize.iter_values)):
            return False
        stores = [(writer, only(writer.block.body)) for writer in order[:number]]
        for load in loads_of(reader, buffer):
            if not any(_stores(s, buffer) and _covers(writer, s, reader, load) for writer, s in stores):
                return False
    return True


def _stores(stmt: ir.Stmt, buffer: ir.Buffer) -> TypeGuard[ir.BufferStore]:
    return isinstance(stmt, ir.BufferStore) and stmt.buffer is buffer


def _covers(writer: Leaf, store: ir.BufferStore, reader: Leaf, load: ir.BufferLoad) -> bool:
    """Whether a store has stored all that a load names, in the same iteration of the innermost loop around both."""
    shared = [n for n in writer.path if n in reader.path]
    depth = max(n for n, node in enumerate(shared) if isinstance(node, ir.For))
    domains = {**ranges_of([*writer.loops, *reader.loops]), **inner_ranges(reader)}
    own = [node for node in writer.path if isinstance(node, ir.IfThenElse) and node not in shared]
    if any(node.else_case is not None for node in own):
        return False
    places = [
        (ir.substitute(index, writer.values), ir.Range.from_min_extent(0, extent))
        for index, extent in zip(store.indices, store.buffer.shape)
    ]
    limits = [
        c for c in (n.condition for n in own) if not among(c, reader.conditions) and not is_implied(c, places, domains)
    ]
    inner = [loop for loop in writer.loops if loop not in shared[: depth + 1]]
    if not {v for c in limits for v in variables_in(c)} <= {loop.loop_var for loop in inner}:
        return False
    part = stored_part(writer, store, inner, limits, Analyzer(domains))
    if part is None:
        return False
    loaded = [ir.substitute(index, reader.values) for index in load.indices]
    return all(
        follows(ir.And(ir.LE(first, at), ir.LE(at, last)), reader.conditions, domains)
        for at, (first, last) in zip(loaded, part)
    )


# ---------------------------------------------------------------------------- what changes while loops run


def changing_input(leaf: Leaf, every: Iterable[Leaf], around: Iterable[ir.For]) -> tuple[ir.Buffer, ir.For] | None:
    """A tensor that a block loads, with a loop in whose iterations an element of it has different values.

    It is a loop that is around the block and a writer of the tensor, and not among those `around` the block's new place:
    there the block would load what the last iteration left. A writer that stores at all its variables leaves the same
    value at an element whenever it does so; one that adds up leaves its parts in the loops that reduce.
    """
    left = [loop for loop in leaf.loops if loop not in set(around)]
    if not left:
        return None
    inputs = {load.buffer for load in loads_of(leaf)} - {store.buffer for store in leaf.stores}
    for writer in every:
        for store in writer.stores if writer.block is not leaf.block else ():
            if store.buffer in inputs:
                shared = [loop for loop in left if loop in writer.loops]
                bad = [
                    loop
                    for loop in shared
                    if loop.loop_var in writer.reducing or not _names_its_variables(writer, store)
                ]
                if bad:
                    return store.buffer, bad[0]
    return None


def check_inputs_stay(leaf: Leaf, every: Iterable[Leaf], around: Iterable[ir.For]) -> None:
    """Raise if a block would load other values at a place inside the loops `around`."""
    found = changing_input(leaf, every, around)
    if found is not None:
        buffer, loop = found
        raise ScheduleError(
            f"`{leaf.name}` loads what one iteration of loop `{loop.loop_var.name}` leaves in `{buffer.name}`; outside the "
            f"loop it would load what the last one leaves",
            leaf.block,
            loop,
            code="cinn.schedule.loads_iteration_result",
        )


def _names_its_variables(leaf: Leaf, store: ir.BufferStore) -> bool:
    """Whether a block stores at all of its variables that do not reduce, so that each element is of one instance."""
    spatial = {axis.var for axis in leaf.block.iter_vars if axis.iter_type != ir.IterVar.CommReduce}
    return spatial <= {index for index in store.indices if isinstance(index, ir.Var)}


# ---------------------------------------------------------------------------- what runs more than once


def check_adds_once(leaf: Leaf, every: Iterable[Leaf]) -> None:
    """Raise if a block may add to an element more often than once for all values of its variables.

    Loops that are made for the variables run once for each value, so that they would not repeat it. The greatest and the
    least value do not change by that, if the values are the same each time and nobody sees the element in between.
    """
    if not any(load.buffer is store.buffer for store in leaf.stores for load in loads_of(leaf, store.buffer)):
        return
    loops, first = bound_and_first(leaf)
    known = leaf.conditions
    again = _starts_again(leaf, set(first), every)
    if again is not None:
        raise ScheduleError(
            f"`{again.name}` stores to `{leaf.name}` again in a loop that repeats it under a condition",
            leaf.block,
            code="cinn.schedule.conditional_repeated_store",
        )
    repeats = [var for var, at in first.items() if not follows(ir.EQ(var, at), known, ranges_of(leaf.loops))]
    free = is_extreme(leaf) and _repeats_the_same(leaf, set(repeats), every)
    condition = ir.substitute(all_of(known), first)
    if (repeats and not free) or not reaches_all(leaf.bindings, ranges_of(loops), condition, once=not free):
        by = f"loop `{repeats[0].name}`" if repeats else "its loops"
        raise ScheduleError(
            f"{by} may repeat `{leaf.name}`, which adds up; loops made for its variables would not",
            leaf.block,
            code="cinn.schedule.reduction_may_repeat",
        )


def _in_loops(leaf: Leaf, loops: set[ir.Var], every: Iterable[Leaf]) -> list[Leaf]:
    """The other blocks in some loops of a block."""
    return [o for o in every if o.block is not leaf.block and any(loop.loop_var in loops for loop in o.loops)]


def _starts_again(leaf: Leaf, idle: set[ir.Var], every: Iterable[Leaf]) -> Leaf | None:
    """A block that stores to the same tensor in each iteration of an idle loop, in some of which the block does not run."""
    if not any(idle & set(variables_in(c)) for c in leaf.conditions):
        return None
    stored = {store.buffer for store in leaf.stores}
    return next((o for o in _in_loops(leaf, idle, every) if stored & {s.buffer for s in o.stores}), None)


def _repeats_the_same(leaf: Leaf, repeats: set[ir.Var], every: Iterable[Leaf]) -> bool:
    """Whether some loops repeat a block with the same values each time, and without effect on others.

    Each time it runs in full or not at all, and in these loops nobody else stores what it loads or loads what it stores.
    """
    stored, placing = {store.buffer for store in leaf.stores}, _loaded_to_place(leaf)
    inputs = ({load.buffer for load in loads_of(leaf)} - stored) | placing
    conditions = [used for c in leaf.conditions if repeats & (used := set(variables_in(c)))]
    if stored & placing or any(used - repeats for used in conditions):
        return False
    for other in _in_loops(leaf, repeats, every):
        outputs = {store.buffer for store in other.stores}
        if outputs & inputs or stored & ({load.buffer for load in loads_of(other)} | _loaded_to_place(other)):
            return False
        if outputs & stored and not init_block_of(other.block):
            return False
    return True


def _loaded_to_place(leaf: Leaf) -> set[ir.Buffer]:
    """The tensors on whose elements it depends whether, and for which values of its variables, a block runs."""
    return {load.buffer for part in (*leaf.conditions, *leaf.realize.iter_values) for load in _loads(part, None)}
