"""Steps that write a block into its consumers or into its producer."""

from __future__ import annotations

from typing import Any

from tvmagic.cinn.conditions import COMPUTE_INLINE, REVERSE_COMPUTE_INLINE, Candidate, Condition, first_failure
from tvmagic.cinn.inliner import BaseInliner, ComputeInliner, LeafBlockRemovalPlan, ReverseComputeInliner
from tvmagic.cinn.steps.declaration import step
from tvmagic.ir import BufferStore
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.instruction import BlockRef
from tvmagic.tir.schedule.state import ScheduleState


def _refuse(candidate: Candidate, failure: tuple[Condition, str]) -> None:
    condition, reason = failure
    raise ScheduleError(
        f"{reason} (`{condition.name}`: {condition.text})", candidate.sref, code="cinn.compute_inline.refused"
    )


def check_compute_inline_validation_and_get_store(candidate: Candidate) -> BufferStore:
    """The one store of a block that may be written into its consumers."""
    failure = first_failure(COMPUTE_INLINE, candidate)
    if failure is not None:
        _refuse(candidate, failure)
    return candidate.store


def check_reverse_compute_inline_validation_and_get_exprs(candidate: Candidate) -> tuple[Any, BufferStore]:
    """The load of its producer and the one store of a block that may be written into its producer."""
    failure = first_failure(REVERSE_COMPUTE_INLINE, candidate)
    if failure is not None:
        _refuse(candidate, failure)
    return candidate.loads_of_tensor[0], candidate.store


def _inline(state: ScheduleState, candidate: Candidate, inliner: BaseInliner) -> None:
    inliner.src_stmt, inliner.tgt_stmt = LeafBlockRemovalPlan(candidate.block)(candidate.root)
    state.replace(state.root_of(candidate.sref), inliner(candidate.root), inliner.reuse)


@step("ComputeInline")
def compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Write a block into all its consumers and take it away.

    Requires: it has exactly one store and is not a reduction; it is the only writer of its tensor under
    the root and does not load it; the indices of the store are distinct plain variables and no other
    variable occurs in it; the tensor is not an output; it is not the only leaf.
    """
    candidate = Candidate(state, block)
    store = check_compute_inline_validation_and_get_store(candidate)
    inliner = ComputeInliner(store.buffer, store)
    if not inliner.body_pattern_allow_inline():
        raise ScheduleError(
            f"the pattern of `{candidate.name}` cannot be inlined", block, code="cinn.compute_inline.unknown_pattern"
        )
    _inline(state, candidate, inliner)


@step("ReverseComputeInline")
def reverse_compute_inline(state: ScheduleState, block: BlockRef) -> None:
    """Write a block into its one producer and take it away.

    Requires: it is the only reader of its producer's tensor, by one load at distinct plain variables,
    and no other variable occurs in its one store; it loads all that the producer stores.
    """
    candidate = Candidate(state, block)
    load, store = check_reverse_compute_inline_validation_and_get_exprs(candidate)
    inliner = ReverseComputeInliner(load.buffer, store, load)
    if not inliner.body_pattern_allow_inline():
        raise ScheduleError(
            f"the pattern of `{candidate.name}` cannot be inlined",
            block,
            code="cinn.reverse_compute_inline.unknown_pattern",
        )
    _inline(state, candidate, inliner)
