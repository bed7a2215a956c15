"""Whose memory a stage is kept in: one for all threads, or one for each of them."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.ir import IterVar
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.schedule.thread import StorageRank, ThreadScope


def bound_thread(stage: Stage, iv: IterVar) -> IterVar | None:
    """The thread axis that a loop of a reduction is bound to."""
    attr = stage.iter_var_attrs.get(iv)
    return attr.bind_thread if iv.iter_type == IterVar.CommReduce and attr is not None else None


def is_serial_reduction(stage: Stage, iv: IterVar) -> bool:
    """Whether a loop is of a reduction and not bound, so that it goes inside those that are bound."""
    return iv.iter_type == IterVar.CommReduce and bound_thread(stage, iv) is None


def threads_around_reduction(stage: Stage) -> list[ThreadScope]:
    """The threads that go around the other loops of a reduction over threads, whatever their order; else none."""
    if all(bound_thread(stage, iv) is None for iv in stage.leaf_iter_vars):
        return []
    bound = [attr.bind_thread for attr in stage.iter_var_attrs.values() if attr.bind_thread is not None]
    return [ThreadScope.of(axis.thread_tag) for axis in bound if axis.thread_tag not in ("", "pipeline")]


def has_memory_of_its_own(stage: Stage, iv: IterVar, axis: IterVar, ranks: Mapping[Stage, int]) -> bool:
    """Whether each thread (block) of `axis`, which loop `iv` is bound to, has memory of its own for what `stage` computes."""
    if iv.iter_type == IterVar.CommReduce or stage not in ranks:
        return False
    rank, thread = ranks[stage], ThreadScope.of(axis.thread_tag)
    warp = rank == StorageRank.WARP and thread == ThreadScope(1, 0)
    return rank > thread.rank and not warp


def computed_by_each_thread(stage: Stage, iv: IterVar, axis: IterVar, ranks: Mapping[Stage, int]) -> bool:
    """Whether loop `iv` is not a loop: each thread of `axis` computes the one iteration that it reads itself.

    Virtual threads are loops, and so are the steps of a pipeline.
    """
    return ThreadScope.launched(axis.thread_tag) and has_memory_of_its_own(stage, iv, axis, ranks)
