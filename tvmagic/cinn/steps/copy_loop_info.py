"""CopyTransformAndLoopInfo: the loops of one block taken over by another."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.cinn.enumeration import reaches_all
from tvmagic.cinn.steps.coverage import is_extreme, loads_of
from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.dependence import check_at_once
from tvmagic.cinn.steps.loops import arguments_of, root_body
from tvmagic.cinn.steps.tree import Edit, Leaf, commit, leaf_of, leaves, nested, ranges_of, unused
from tvmagic.ir.query import is_one, variables_in
from tvmagic.tir.blocks.conditions import all_of
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.instruction import BlockRef
from tvmagic.tir.schedule.state import ScheduleState


def _common(leaf: Leaf, other: Leaf) -> int:
    """How many leading dimensions of two blocks have the same number of values and reduce in neither."""
    count = 0
    for a, b in zip(leaf.block.iter_vars, other.block.iter_vars):
        assert a.dom is not None and b.dom is not None
        same = isinstance(a.dom.extent, ir.IntImm) and ir.structural_equal(a.dom.extent, b.dom.extent)
        if (
            not same
            or ir.IterVar.CommReduce in (a.iter_type, b.iter_type)
            or not ir.structural_equal(a.dom.min, b.dom.min)
        ):
            break
        count += 1
    return count


def _end(axis: ir.IterVar) -> ir.PrimExpr:
    assert axis.dom is not None
    return Analyzer().simplify(axis.dom.min + axis.dom.extent)


def _domain_conditions(leaf: Leaf, count: int, loops: list[ir.For]) -> list[ir.PrimExpr]:
    """The conditions that keep the leading dimensions of a block inside their domains."""
    analyzer = Analyzer(ranges_of(loops))
    pairs = [(value, _end(axis)) for axis, value in leaf.bindings[:count]]
    return [ir.LT(value, end) for value, end in pairs if not analyzer.can_prove(value < end)]


def _check_conditions(leaf: Leaf, count: int, dropped: set[ir.Var]) -> None:
    """The loops that go may have no other conditions than those that keep a dimension inside its domain."""
    keeping = [ir.LT(value, _end(axis)) for axis, value in leaf.bindings[:count]]
    used = dropped | {v for _, value in leaf.bindings for v in variables_in(value)}
    for condition in leaf.conditions:
        mixed = dropped.intersection(variables_in(condition))
        foreign = not used.issuperset(variables_in(condition))
        if foreign or (mixed and not any(ir.structural_equal(condition, c) for c in keeping)):
            raise ScheduleError(
                f"`{leaf.name}` is under the condition `{condition}`, which its loops would lose",
                leaf.block,
                code="cinn.copy_transform_and_loop_info.condition_lost",
            )
    idle = [n for n in leaf.loops if n.loop_var not in used and not is_one(n.extent)]
    if idle:
        raise ScheduleError(
            f"`{leaf.name}` does not use its loop `{idle[0].loop_var.name}`",
            leaf.block,
            code="cinn.copy_transform_and_loop_info.unused_loop",
        )


def _check_reaches_all(leaf: Leaf, other: Leaf, count: int, loops: list[ir.For]) -> None:
    """The loops taken over from `other` must reach each value of the dimensions; each once if `leaf` adds up."""
    first = other.bindings[:count]
    adds = bool({load.buffer for load in loads_of(leaf)} & {store.buffer for store in leaf.stores})
    once = adds and not is_extreme(leaf)
    condition = all_of(_domain_conditions(other, count, loops))
    moving = any(variables_in(value) for _, value in first)
    if moving and not reaches_all(first, ranges_of(loops), condition, once=once):
        raise ScheduleError(
            f"it is not known that the loops of `{other.name}` reach all its elements{', each once' if once else ''}",
            leaf.block,
            code="cinn.copy_transform_and_loop_info.elements_not_reached",
        )


def _variables(values: Sequence[ir.PrimExpr], count: int) -> tuple[set[ir.Var], set[ir.Var]]:
    """The variables in the first `count` values, and in the others."""
    first, rest = ({v for value in part for v in variables_in(value)} for part in (values[:count], values[count:]))
    return first, rest


@step("CopyTransformAndLoopInfo")
def copy_transform_and_loop_info(state: ScheduleState, block: BlockRef, block_target: BlockRef) -> None:
    """Give a block the loops of another one, as far as their leading dimensions have the same constant sizes.

    Over these dimensions it takes the other's bindings and the loops that they use, with their kinds and names; from the
    first dimension that differs it keeps its own loops, inside.

    Requires: the first sizes are equal; the block is alone in its nest; the other's loops over these dimensions are not
    used by its other dimensions, nor the block's own.
    """
    body = root_body(state, block)
    leaf, other = leaf_of(body, block.block), leaf_of(body, block_target.block)
    count = _common(leaf, other)
    if count == 0:
        raise ScheduleError(
            f"the first dimensions of `{leaf.name}` and `{other.name}` have different sizes, or reduce",
            block,
            block_target,
            code="cinn.copy_transform_and_loop_info.sizes_differ",
        )
    taken, rest_of_other = _variables(other.realize.iter_values, count)
    dropped, kept_vars = _variables(leaf.realize.iter_values, count)
    if taken & rest_of_other or dropped & kept_vars:
        raise ScheduleError(
            f"a loop of `{leaf.name}` or `{other.name}` is used by several dimensions",
            block,
            block_target,
            code="cinn.copy_transform_and_loop_info.loop_used_twice",
        )
    top = next((n for n in leaf.path if isinstance(n, ir.For)), None)
    if top is None or len(leaves(top)) > 1:
        raise ScheduleError(
            f"`{leaf.name}` is not alone in its nest", block, code="cinn.copy_transform_and_loop_info.nest_shared"
        )
    loops = [n for n in other.loops if n.loop_var in taken]
    own = [n for n in leaf.loops if n.loop_var in kept_vars]
    _check_conditions(leaf, count, dropped)
    _check_reaches_all(leaf, other, count, loops)
    taken_names = [n.loop_var.name for n in own]
    fresh: dict[ir.Var, ir.PrimExpr] = {
        n.loop_var: ir.Var(unused(n.loop_var.name, taken_names), n.loop_var.dtype) for n in loops
    }
    values = [ir.substitute(v, fresh) for v in other.realize.iter_values[:count]]
    realize = leaf.realize.replace(iter_values=(*values, *leaf.realize.iter_values[count:]))
    conditions = [ir.substitute(c, fresh) for c in _domain_conditions(other, count, loops)]
    conditions += [c for c in leaf.conditions if kept_vars.intersection(variables_in(c))]
    new = nested([*[n.replace(loop_var=fresh[n.loop_var]) for n in loops], *own], conditions, realize)
    after = Edit({top: new})(body)
    moved = leaf_of(after, leaf.block)
    for loop in moved.loops[: len(loops)]:
        if loop.kind in (ir.ForKind.PARALLEL, ir.ForKind.VECTORIZED, ir.ForKind.THREAD_BINDING):
            check_at_once(after, loop, arguments_of(state, block), "copied with its kind")
    commit(state, block, after)
