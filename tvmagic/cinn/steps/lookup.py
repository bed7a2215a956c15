"""Steps that find blocks and loops, draw samples, and add facts to blocks."""

from __future__ import annotations

import warnings
from typing import Any

from tvmagic.cinn.steps.declaration import step
from tvmagic.cinn.steps.tree import Edit, commit, leaf_of, leaves, loop_ref
from tvmagic.errors import did_you_mean
from tvmagic.ir import For, ForKind, Var, attr_value
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.blocks.sref import StmtSRef
from tvmagic.tir.schedule.instruction import BlockOrLoop, BlockRef, Blocks, Loop, Loops, Size, Sizes
from tvmagic.tir.schedule.primitives.sampling import sample_categorical as draw_one
from tvmagic.tir.schedule.primitives.sampling import sample_perfect_tile as draw_tile
from tvmagic.tir.schedule.random import LinearCongruentialEngine
from tvmagic.tir.schedule.state import ScheduleState


def found_block(state: ScheduleState, name: str) -> StmtSRef:
    """The block of a name; raises if there is none, with the names there are, or if there are two."""
    blocks = [s for s in state.srefs.values() if s.is_block]
    found = [s for s in blocks if s.block.name_hint == name]
    if len(found) > 1:
        raise ScheduleError(
            f"{len(found)} blocks are called `{name}`; a block's name is its own",
            *found[1:],
            code="cinn.schedule.ambiguous_block",
        )
    if not found:
        roots = list(state.functions)
        names = [s.block.name_hint for s in roots]
        names += [leaf.name for root in roots for leaf in leaves(root.block.body)]
        known = ", ".join(f"`{n}`" for n in names)
        raise ScheduleError(
            f"there is no block `{name}`: there are {known}",
            hint=did_you_mean(name, names),
            code="cinn.schedule.unknown_block",
        )
    return found[0]


@step("GetBlock", pure=True)
def get_block(state: ScheduleState, name: str) -> BlockRef:
    """The block of a name. Requires: there is exactly one."""
    return found_block(state, name)


@step("GetAllBlocks", pure=True)
def get_all_blocks(state: ScheduleState) -> Blocks:
    """All blocks in program order, without the roots. Blocks inside blocks do not count."""
    return [state.sref_of(leaf.block) for root in state.functions for leaf in leaves(root.block.body)]


@step("GetChildBlocks", pure=True)
def get_child_blocks(state: ScheduleState, node: BlockOrLoop) -> Blocks:
    """The blocks below a block or a loop, in program order; of a root all of them."""
    assert node.stmt is not None
    return [state.sref_of(leaf.block) for leaf in leaves(node.stmt.body)]


@step("GetRootBlock", pure=True)
def get_root_block(state: ScheduleState, node: BlockOrLoop) -> BlockRef:
    """The root above a block or a loop."""
    return state.root_of(node)


def loops_of_block(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """The loops around a block, outermost first; a block without loops gets one, `ix`, of one iteration."""
    if block.parent is None:
        raise ScheduleError("a root has no loops around it", block, code="cinn.schedule.root_without_loops")
    body = state.root_of(block).block.body
    leaf = leaf_of(body, block.block)
    if leaf.loops:
        return [state.sref_of(loop) for loop in leaf.loops]
    loop = For(Var("ix", "int32"), 0, 1, ForKind.SERIAL, leaf.realize)
    commit(state, block, Edit({leaf.realize: loop})(body))
    return [loop_ref(state, loop.loop_var)]


@step("GetLoops")
def get_loops(state: ScheduleState, block: BlockRef) -> Loops:
    """The loops around a block, outermost first. A block without loops gets one, `ix`, of one iteration."""
    return loops_of_block(state, block)


@step("GetLoopsWithName")
def get_loops_with_name(state: ScheduleState, block_name: str) -> Loops:
    """The loops around the block of a name, outermost first."""
    return loops_of_block(state, found_block(state, block_name))


# ---------------------------------------------------------------------------- samples


@step("SamplePerfectTile", pure=True)
def sample_perfect_tile(
    state: ScheduleState,
    random: LinearCongruentialEngine,
    loop: Loop,
    n: int,
    max_innermost_factor: int,
    decision: list[int] | None = None,
) -> tuple[Sizes, Any]:
    """`n` factors whose product is the loop's extent, the last at most `max_innermost_factor`.

    Requires: n >= 2, the extent is a number. A decision is returned as it is.
    """
    if decision:
        return [int(f) for f in decision], [int(f) for f in decision]
    if n < 2:
        raise ScheduleError(
            f"a tile has two factors or more, not {n}", loop, code="cinn.sample_perfect_tile.too_few_factors"
        )
    if getattr(loop.loop.extent, "value", None) is None:
        raise ScheduleError(
            "the extent of the loop is not a number, so it has no factors",
            loop,
            code="cinn.sample_perfect_tile.symbolic_extent",
        )
    if max_innermost_factor < 1:
        raise ScheduleError(
            f"the limit of the last factor is at least 1, not {max_innermost_factor}",
            loop,
            code="cinn.sample_perfect_tile.wrong_limit",
        )
    return draw_tile(state, random, loop, n, max_innermost_factor)


@step("SampleCategorical", pure=True)
def sample_categorical(
    state: ScheduleState,
    random: LinearCongruentialEngine,
    candidates: list[int],
    probs: list[float],
    decision: list[int] | None = None,
) -> tuple[Size, Any]:
    """One of `candidates`, each as likely as its number in `probs`; a decision is the candidate's place, in a list."""
    value, place = draw_one(state, random, candidates, probs, decision[0] if decision else None)
    return value, [place]


# ---------------------------------------------------------------------------- facts


def _annotate(state: ScheduleState, block: StmtSRef, key: str, value: Any) -> None:
    if not key:
        raise ScheduleError("the key of an attribute is a word", block, code="cinn.annotate.wrong_key")
    known = block.block.annotations
    if key in known:  # as CINN's map: what is there stays
        return
    new = block.block.replace(annotations={**known, key: attr_value(value)})
    state.replace(block, new, {block.block: new})


@step("AnnotateIntAttr")
def annotate_int(state: ScheduleState, block: BlockRef, key: str, value: int) -> None:
    """Add an annotation to a block; a key that is there keeps its value."""
    _annotate(state, block, key, value)


@step("AnnotateBoolAttr")
def annotate_bool(state: ScheduleState, block: BlockRef, key: str, value: bool) -> None:
    """Add an annotation to a block; a key that is there keeps its value."""
    _annotate(state, block, key, bool(value))


@step("AnnotateFloatAttr")
def annotate_float(state: ScheduleState, block: BlockRef, key: str, value: float) -> None:
    """Add an annotation to a block; a key that is there keeps its value."""
    _annotate(state, block, key, float(value))


@step("AnnotateStringAttr")
def annotate_string(state: ScheduleState, block: BlockRef, key: str, value: str) -> None:
    """Add an annotation to a block; a key that is there keeps its value."""
    _annotate(state, block, key, value)


@step("Unannotate")
def unannotate(state: ScheduleState, block: BlockRef, key: str) -> None:
    """Remove an annotation of a block; a missing key is a warning."""
    known = block.block.annotations
    if key not in known:
        warnings.warn(f"block `{block.block.name_hint}` has no attribute `{key}`", UserWarning, stacklevel=2)
        return
    new = block.block.replace(annotations={k: v for k, v in known.items() if k != key})
    state.replace(block, new, {block.block: new})


@step("TagPostSchedule")
def tag_post_schedule(state: ScheduleState) -> None:
    """A step in the trace alone: what follows is post processing, and a replay may stop there."""
