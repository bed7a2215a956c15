"""SimpleComputeAt: a block under the loops of a nest that runs like its own."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.cinn_form import listed, parts_of
from tvmagic.cinn.enumeration import reaches_all
from tvmagic.cinn.steps.compute_at import check_movable, leaf_loops
from tvmagic.cinn.steps.coverage import among, check_inputs_stay, loads_of
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.dependence import check_free_order, private_buffers
from tvmagic.cinn.steps.loops import arguments_of, root_body
from tvmagic.cinn.steps.tree import (
    Edit,
    Leaf,
    commit,
    leaf_of,
    leaves,
    loop_names,
    only,
    path_to,
    ranges_of,
    rebound,
    unused,
)
from tvmagic.ir.query import is_zero
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockRef, Loop
from tvmagic.tir.schedule.state import ScheduleState


@step("SimpleComputeAt")
def simple_compute_at(state: ScheduleState, block: BlockRef, loop: Loop) -> None:
    """Move a block under a loop whose nest runs like the block's own outermost loops.

    The outermost loops of the block become those down to `loop`; deeper ones come along. A condition that is on both
    sides is written once. The block comes first in the loop's body if it came before the loop, else last.

    Requires: the outer loops of the block have, one by one, the extents of those down to `loop`, an outermost one
    of extent 1 on one side aside; it is under the conditions around `loop` already; no access depends on the order in
    which the iterations of both now run.
    """
    body = root_body(state, block)
    leaf = leaf_of(body, block.block)
    check_movable(leaf, loop)
    chain = [n for n in path_to(body, loop.loop) if isinstance(n, ir.For)]
    own, others = _aligned(leaf, chain, loop)
    values: dict[ir.Var, ir.PrimExpr] = {a.loop_var: b.loop_var for a, b in zip(own, others)}
    values.update({n.loop_var: n.min for n in leaf.loops[: leaf.loops.index(own[0])]})
    taken = {n.loop_var.name for n in chain} | loop_names(loop.loop.body)
    inner = _own_part(leaf, own, taken)
    around = ranges_of([*leaf.loops, *chain])
    moved = rebound(inner, values, around)
    guards = [ir.substitute(c, values) for c in _guards_above(leaf, own)]
    held = _conditions_around(body, loop.loop)
    _check_held(leaf, loop, held, [ir.substitute(c, values) for c in leaf.conditions], Analyzer(around))
    order = [found.block for found in leaves(body)]
    before = order.index(leaf.block) < min(order.index(found.block) for found in leaves(loop.loop))
    changes: dict[ir.Stmt, ir.Stmt | None] = {
        leaf.realize: None,
        loop.loop: loop.loop.replace(body=_merge_body(loop.loop.body, moved, guards, held, before)),
    }
    _check_passed(leaves(body), leaf, loop, before)
    check_inputs_stay(leaf, leaves(body), chain)
    _check_added_once(leaf, leaves(body), chain)
    after = _with_threads(Edit(changes)(body), own, others)
    new_chain = leaf_loops(after, leaf.name)[: len(chain)]
    without = private_buffers(after, new_chain[-1], arguments_of(state, block))
    check_free_order(after, new_chain, without, f"moving `{leaf.name}`")
    commit(state, block, after)


def _aligned(leaf: Leaf, chain: Sequence[ir.For], loop: StmtSRef) -> tuple[list[ir.For], list[ir.For]]:
    """The block's outer loops and the loops down to the target, one for one."""
    own, others = list(leaf.loops), list(chain)
    if own and others and _is_one(own[0]) != _is_one(others[0]):
        own, others = (own[1:], others) if _is_one(own[0]) else (own, others[1:])
    own = own[: len(others)]
    same = len(own) == len(others) and all(ir.structural_equal(a.extent, b.extent) for a, b in zip(own, others))
    if not same or not others:
        raise ScheduleError(
            f"the outer loops of `{leaf.name}` do not have, one by one, the extents of the loops down to {loop.label}",
            leaf.block,
            loop,
            hint="use compute_at, which finds the extents that are needed",
            code="cinn.simple_compute_at.extents_differ",
        )
    if not all(is_zero(n.min) for n in (*own, *others)):
        raise ScheduleError("the loops do not begin at 0", loop, code="cinn.simple_compute_at.loop_not_from_zero")
    return own, others


def _is_one(loop: ir.For) -> bool:
    return isinstance(loop.extent, ir.IntImm) and loop.extent.value == 1


def _own_part(leaf: Leaf, own: Sequence[ir.For], taken: set[str]) -> ir.Stmt:
    """The block in its loops and conditions inside the last of `own`, without what is beside it.

    A loop gets a variable of its own if its name is taken at the new place, or if it stays for others too.
    """
    inner = leaf.path[leaf.path.index(own[-1]) + 1 :]
    domains = ranges_of(leaf.loops)
    names = [n.loop_var.name for n in inner if isinstance(n, ir.For)]
    result: ir.Stmt = leaf.realize
    for node in reversed(inner):
        if isinstance(node, ir.For):
            name = node.loop_var.name
            if name in taken or _has_other_blocks(node, leaf):
                name = unused(name, {*taken, *names} - {name}) if name not in taken else unused(name, {*taken, *names})
                names.append(name)
                var = ir.Var(name, node.loop_var.dtype)
                result = rebound(result, {node.loop_var: var}, {**domains, **ranges_of([node.replace(loop_var=var)])})
                node = node.replace(loop_var=var)
            result = node.replace(body=result)
        elif isinstance(node, ir.IfThenElse):
            result = ir.IfThenElse(node.condition, listed(result), None)
    return result


def _has_other_blocks(node: ir.For, leaf: Leaf) -> bool:
    """Whether a loop holds other blocks, so that it stays where it is too."""
    return any(found.block is not leaf.block for found in leaves(node))


def _guards_above(leaf: Leaf, own: Sequence[ir.For]) -> list[ir.PrimExpr]:
    above = leaf.path[: leaf.path.index(own[-1])]
    return [n.condition for n in above if isinstance(n, ir.IfThenElse)]


def _conditions_around(body: ir.Stmt, loop: ir.For) -> list[ir.PrimExpr]:
    """The conditions around a loop, which hold in it."""
    return [n.condition for n in path_to(body, loop) if isinstance(n, ir.IfThenElse) and n.else_case is None]


def _check_held(
    leaf: Leaf, loop: StmtSRef, held: Sequence[ir.PrimExpr], own: Sequence[ir.PrimExpr], analyzer: Analyzer
) -> None:
    """Raise if a condition around the target would leave out iterations of the block."""
    for condition in held:
        if not among(condition, own) and not analyzer.can_prove(condition):
            raise ScheduleError(
                f"{loop.label} is under the condition `{condition}`, which `{leaf.name}` is not under",
                leaf.block,
                loop,
                hint="choose a loop outside the condition",
                code="cinn.simple_compute_at.other_condition",
            )


def _merge_body(
    body: ir.Stmt, moved: ir.Stmt, guards: Sequence[ir.PrimExpr], held: Sequence[ir.PrimExpr], before: bool
) -> ir.Stmt:
    """A loop's body with the moved statement; a condition that is on both sides is written once, around both.

    `guards` are those of the moved statement; those that are in `held` are around the loop already.
    """
    there = only(body)
    conditions = list(guards)
    inner: ir.Stmt = moved
    while isinstance(inner, ir.IfThenElse) and inner.else_case is None:
        conditions.append(inner.condition)
        inner = only(inner.then_case)
    conditions = [c for c in conditions if not among(c, held)]
    if isinstance(there, ir.IfThenElse) and there.else_case is None and among(there.condition, conditions):
        rest = [c for c in conditions if not ir.structural_equal(c, there.condition)]
        return there.replace(then_case=_beside_each(there.then_case, _under(inner, rest), before))
    return _beside_each(body, _under(inner, conditions), before)


def _under(stmt: ir.Stmt, conditions: Sequence[ir.PrimExpr]) -> ir.Stmt:
    for condition in reversed(conditions):
        stmt = ir.IfThenElse(condition, listed(stmt), None)
    return stmt


def _beside_each(body: ir.Stmt, moved: ir.Stmt, before: bool) -> ir.Stmt:
    return listed(moved, *parts_of(body)) if before else listed(*parts_of(body), moved)


def _check_passed(every: Sequence[Leaf], leaf: Leaf, loop: StmtSRef, before: bool) -> None:
    """No block that the moved one passes on its way may depend on it."""
    order = {found.block: place for place, found in enumerate(every)}
    inside = [order[found.block] for found in leaves(loop.loop)]
    own = order[leaf.block]
    passed = range(own + 1, min(inside)) if before else range(max(inside) + 1, own)
    mine = {s.buffer for s in leaf.stores}
    touched = mine | {load.buffer for load in loads_of(leaf)}
    for found in (every[place] for place in passed):
        stored = {s.buffer for s in found.stores}
        if stored & touched or mine & {load.buffer for load in loads_of(found)}:
            raise ScheduleError(
                f"`{found.name}` is between `{leaf.name}` and {loop.label} and depends on it", found.block,
                hint=f"move `{found.name}` there first", code="cinn.simple_compute_at.dependent_block_between",
            )  # fmt: skip


def _check_added_once(leaf: Leaf, every: Sequence[Leaf], around: Sequence[ir.For]) -> None:
    """Raise if a block adds again to what the moved one stored, in a loop that this leaves: it would store it once."""
    stored = {s.buffer for s in leaf.stores}
    left = [loop for loop in leaf.loops if loop not in around]
    for found in every:
        adds = found.block is not leaf.block and stored & {s.buffer for s in found.stores} & {
            x.buffer for x in loads_of(found)
        }
        if not adds or not any(loop in found.loops for loop in left):
            continue
        if not reaches_all(found.bindings, ranges_of(found.loops), all_of(found.conditions), once=True):
            raise ScheduleError(
                f"`{found.name}` adds to what `{leaf.name}` stores in more than one iteration of a loop around both",
                leaf.block,
                found.block,
                code="cinn.simple_compute_at.adds_repeatedly",
            )


def _with_threads(body: ir.Stmt, own: Sequence[ir.For], others: Sequence[ir.For]) -> ir.Stmt:
    """The loops down to the target bound to threads as the block's own loops were."""
    for mine, other in zip(own, others):
        if mine.kind is ir.ForKind.THREAD_BINDING and other.kind is ir.ForKind.SERIAL:
            now = next(n for found in leaves(body) for n in found.loops if n.loop_var is other.loop_var)
            bound = now.replace(kind=mine.kind, thread_binding=mine.thread_binding)
            body = Edit({now: bound})(body)
    return body
