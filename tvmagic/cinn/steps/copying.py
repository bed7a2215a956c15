"""CopyTransformAndLoopInfo: the loops of one block taken over by another."""

from __future__ import annotations

from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.dependence import check_at_once
from tvmagic.cinn.steps.loops import arguments_of, root_body
from tvmagic.cinn.steps.tree import Edit, Leaf, commit, leaf_of, leaves, nested
from tvmagic.ir import (
    For,
    ForKind,
    IntImm,
    IterVar,
    PrimExpr,
    Var,
    structural_equal,
    substitute,
)
from tvmagic.ir.query import variables_in
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.instruction import BlockRef
from tvmagic.tir.schedule.state import ScheduleState


def _common(leaf: Leaf, other: Leaf) -> int:
    """How many leading dimensions of two blocks have the same number of values and reduce in neither."""
    count = 0
    for a, b in zip(leaf.block.iter_vars, other.block.iter_vars):
        assert a.dom is not None and b.dom is not None
        same = isinstance(a.dom.extent, IntImm) and structural_equal(a.dom.extent, b.dom.extent)
        if not same or IterVar.CommReduce in (a.iter_type, b.iter_type) or not structural_equal(a.dom.min, b.dom.min):
            break
        count += 1
    return count


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
            f"the first dimensions of `{leaf.name}` and `{other.name}` have different sizes, or reduce", block, block_target
        )
    taken = {v for value in other.realize.iter_values[:count] for v in variables_in(value)}
    rest_of_other = {v for value in other.realize.iter_values[count:] for v in variables_in(value)}
    dropped = {v for value in leaf.realize.iter_values[:count] for v in variables_in(value)}
    kept_vars = {v for value in leaf.realize.iter_values[count:] for v in variables_in(value)}
    if taken & rest_of_other or dropped & kept_vars:
        raise ScheduleError(f"a loop of `{leaf.name}` or `{other.name}` is used by several dimensions", block, block_target)
    top = next((n for n in leaf.path if isinstance(n, For)), None)
    if top is None or len(leaves(top)) > 1:
        raise ScheduleError(f"`{leaf.name}` is not alone in its nest", block)
    loops = [n for n in other.loops if n.loop_var in taken]
    own = [n for n in leaf.loops if n.loop_var in kept_vars]
    fresh: dict[Var, PrimExpr] = {n.loop_var: Var(n.loop_var.name, n.loop_var.dtype) for n in loops}
    values = [substitute(v, fresh) for v in other.realize.iter_values[:count]]
    realize = leaf.realize.replace(iter_values=(*values, *leaf.realize.iter_values[count:]))
    conditions = [substitute(c, fresh) for c in other.conditions if set(variables_in(c)) <= taken]
    conditions += [c for c in leaf.conditions if not dropped.intersection(variables_in(c))]
    new = nested([*[n.replace(loop_var=fresh[n.loop_var]) for n in loops], *own], conditions, realize)
    after = Edit({top: new})(body)
    moved = leaf_of(after, leaf.block)
    for loop in moved.loops[: len(loops)]:
        if loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING):
            check_at_once(after, loop, arguments_of(state, block), "copied with its kind")
    commit(state, block, after)

