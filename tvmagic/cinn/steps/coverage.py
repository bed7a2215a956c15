"""What iterations of a loop store and load of a tensor, and whether each loads only what it stored itself.

Such a tensor may have a memory of its own in each iteration, so that the iterations may change places or run at once. A
tensor that takes a value from one iteration to the next may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.int_set_eval import eval_set
from tvmagic.arith.region_bounds import estimate_region_lower_bound
from tvmagic.cinn.steps.tree import Leaf, leaves, only, ranges_of
from tvmagic.ir import (
    GE,
    LT,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    PrimExpr,
    Range,
    Stmt,
    Var,
    post_order_visit,
    structural_equal,
    substitute,
)
from tvmagic.ir.query import variables_in
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError

__all__ = [
    "among",
    "changing_input",
    "check_inputs_stay",
    "is_implied",
    "loads_of",
    "loads_what_it_stored",
    "relaxed",
    "stored_box",
]


def loads_of(leaf: Leaf, buffer: Buffer | None = None) -> list[BufferLoad]:
    """The loads in a block, of one buffer or of all."""
    return _loads(leaf.block.body, buffer)


def _loads(node: Stmt | PrimExpr, buffer: Buffer | None) -> list[BufferLoad]:
    found: list[BufferLoad] = []

    def look(node: object) -> None:
        if isinstance(node, BufferLoad) and (buffer is None or node.buffer is buffer):
            found.append(node)

    post_order_visit(node, look)
    return found


def among(condition: PrimExpr, others: Iterable[PrimExpr]) -> bool:
    """Whether a condition is one of some others."""
    return any(structural_equal(condition, other) for other in others)


def relaxed(index: PrimExpr, leaf: Leaf, inside: Iterable[For], analyzer: Analyzer) -> tuple[PrimExpr, PrimExpr] | None:
    """The least and the greatest value of an index of a block over some of its loops; None if there is no such."""
    bound = substitute(index, leaf.values)
    found = eval_set(bound, {**ranges_of(inside), **ranges_of(_inner_loops(leaf))})
    if not found.has_lower_bound() or not found.has_upper_bound():
        return None
    return analyzer.simplify(found.min()), analyzer.simplify(found.max())


def _inner_loops(leaf: Leaf) -> list[For]:
    """The loops inside the block's body."""
    found: list[For] = []
    post_order_visit(leaf.block.body, lambda n: found.append(n) if isinstance(n, For) else None)
    return found


def stored_box(
    indices: Sequence[PrimExpr], domains: Mapping[Var, Range], predicate: PrimExpr | bool, analyzer: Analyzer
) -> list[tuple[PrimExpr, PrimExpr]] | None:
    """The first and the last value of each index, if all elements between them are named; None if that is not known."""
    region = [Range.from_min_extent(index, 1) for index in indices]
    box = estimate_region_lower_bound(region, domains, predicate, analyzer)
    return None if box is None else [(found.min(), found.max()) for found in box]


def is_implied(condition: PrimExpr, ranges: Iterable[tuple[PrimExpr, PrimExpr, PrimExpr]], analyzer: Analyzer) -> bool:
    """Whether a condition holds wherever some values are inside their ranges: (value, first, number of values)."""
    known: list[PrimExpr] = []
    for value, first, extent in ranges:
        value = analyzer.simplify(value)
        known += [GE(value, first), LT(value, analyzer.simplify(first + extent))]
    with analyzer.constraint_scope(all_of(known)):
        return analyzer.can_prove(condition)


# ---------------------------------------------------------------------------- what one iteration needs of others


def loads_what_it_stored(inside: For, buffer: Buffer) -> bool:
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


def _stores(stmt: Stmt, buffer: Buffer) -> TypeGuard[BufferStore]:
    return isinstance(stmt, BufferStore) and stmt.buffer is buffer


def _covers(writer: Leaf, store: BufferStore, reader: Leaf, load: BufferLoad) -> bool:
    """Whether a store has stored all that a load names, in the same iteration of the innermost loop around both."""
    shared = [n for n in writer.path if n in reader.path]
    depth = max(n for n, node in enumerate(shared) if isinstance(node, For))
    analyzer = Analyzer(ranges_of([*writer.loops, *reader.loops]))
    values = [substitute(index, writer.values) for index in store.indices]
    places = [(value, value * 0, extent) for value, extent in zip(values, store.buffer.shape)]
    for node in writer.path:
        if isinstance(node, IfThenElse) and node not in shared:
            known = among(node.condition, reader.conditions) or is_implied(node.condition, places, analyzer)
            if node.else_case is not None or not known:
                return False
    inner = ranges_of(loop for loop in writer.loops if loop not in shared[: depth + 1])
    moving = [n for n, value in enumerate(values) if set(variables_in(value)) & set(inner)]
    box = stored_box([values[n] for n in moving], inner, True, analyzer)
    if box is None:
        return False
    stored = [(value, value) for value in values]
    for n, ends in zip(moving, box):
        stored[n] = ends
    readers = [loop for loop in reader.loops if loop not in shared[: depth + 1]]
    return all(
        _within(relaxed(at, reader, readers, analyzer), ends, analyzer) for at, ends in zip(load.indices, stored)
    )


def _within(part: tuple[PrimExpr, PrimExpr] | None, whole: tuple[PrimExpr, PrimExpr], analyzer: Analyzer) -> bool:
    return part is not None and analyzer.can_prove(whole[0] <= part[0]) and analyzer.can_prove(part[1] <= whole[1])


# ---------------------------------------------------------------------------- what changes while loops run


def changing_input(leaf: Leaf, every: Iterable[Leaf], around: Iterable[For]) -> tuple[Buffer, For] | None:
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


def check_inputs_stay(leaf: Leaf, every: Iterable[Leaf], around: Iterable[For]) -> None:
    """Raise if a block would load other values at a place inside the loops `around`."""
    found = changing_input(leaf, every, around)
    if found is not None:
        buffer, loop = found
        raise ScheduleError(
            f"`{leaf.name}` loads what one iteration of loop `{loop.loop_var.name}` leaves in `{buffer.name}`; outside the "
            f"loop it would load what the last one leaves",
            leaf.block,
            loop,
        )


def _names_its_variables(leaf: Leaf, store: BufferStore) -> bool:
    """Whether a block stores at all of its variables that do not reduce, so that each element is of one instance."""
    spatial = {axis.var for axis in leaf.block.iter_vars if axis.iter_type != IterVar.CommReduce}
    return spatial <= {index for index in store.indices if isinstance(index, Var)}
