"""What bounds inference knows of a whole schedule: who reads what, the loops around stages, and their memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvmagic.errors import ScheduleError
from tvmagic.ir import IterVar, Range
from tvmagic.lazy import cached_property
from tvmagic.te.schedule.graph import create_attach_path, create_feed_graph, create_read_graph
from tvmagic.te.schedule.relations import is_const
from tvmagic.te.schedule.stage import Stage
from tvmagic.te.schedule.thread import VIRTUAL, ThreadScope, default_storage_rank, storage_rank
from tvmagic.te.schedule.thread_memory import is_serial_reduction, threads_around_reduction
from tvmagic.te.tensor import Operation, ScanOp

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule


class BoundContext:
    """What bounds inference knows of the whole schedule.

    `ranges`: the result so far; `readers`: who reads a tensor; `paths`: the loops around a stage;
    `threads`: the thread axis that a loop is bound to.
    """

    def __init__(self, sch: Schedule) -> None:
        roots = [sch.stage_map[op].op for op in sch.outputs]
        self.readers = create_feed_graph(create_read_graph(roots))
        self.stage_of: dict[Operation, Stage] = {s.op: s for s in sch.stages}
        self.position = {s: i for i, s in enumerate(sch.stages)}
        self.paths = create_attach_path(sch)
        self.stages = list(sch.stages)
        self.ranges: dict[IterVar, Range] = {}
        self.threads: dict[IterVar, IterVar] = {}
        for stage in sch.stages:
            for iv, attr in stage.iter_var_attrs.items():
                if attr.bind_thread is not None:
                    self.threads[iv] = attr.bind_thread

    def consumers(self, stage: Stage) -> list[Stage]:
        """The stages that read an output of `stage`, in the order of the schedule."""
        found = {self.stage_of[op] for t in stage.op.outputs for op in self.readers.get(t, ())}
        return sorted(found, key=self.position.__getitem__)

    def storage_ranks(self, stage: Stage) -> tuple[int, int]:
        """The rank of the memory that `stage` is kept in, as set, or after the threads around it: as threads that are
        launched see it, and as virtual ones do.

        Virtual threads have memory of their own, but launch nothing: what is allocated in one is shared by all threads that
        are launched inside.
        """
        if stage.scope:
            rank = storage_rank(stage.scope)
            return rank, rank
        tags = [self.thread_tag(iv) for iv in self.paths[stage.op]]
        self._check_innermost_thread(stage)
        ranks = {t: ThreadScope.of(t).rank for t in tags if t and t != "pipeline"}
        launched = [rank for tag, rank in ranks.items() if tag not in VIRTUAL]
        return default_storage_rank(max(launched, default=-1)), default_storage_rank(max(ranks.values(), default=-1))

    def _check_innermost_thread(self, stage: Stage) -> None:
        """Blocks are launched outside threads: memory without a scope is that of the innermost thread axis around it.

        With the blocks inside, the threads of a block would share the memory, and each writes there what it reads.
        """
        launched: dict[str, IterVar] = {}  # from outside; launched again inside, the same threads go on
        for iv in reversed(self.paths[stage.op]):
            if ThreadScope.launched(self.thread_tag(iv)):
                launched.setdefault(self.thread_tag(iv), iv)
        shared_by = [t for t, iv in launched.items() if ThreadScope.of(t).rank == 1 and not self._runs_once(iv)]
        if not shared_by or ThreadScope.of(block := list(launched)[-1]).rank == 1:
            return
        thread = shared_by[-1]
        raise ScheduleError(
            f"stage `{stage.origin_op.name}`: it is computed inside `{block}`, which is inside `{thread}`; its memory would "
            f"be the block's, but each `{thread}` writes there what it alone reads",
            span=stage.span,
            hint=f'bind `{block}` to a loop outside that of `{thread}`, or give each thread its own: set_scope("local")',
            code="te.bind.memory_shared_by_threads",
        )

    def _runs_once(self, iv: IterVar) -> bool:
        range_ = self.ranges.get(iv, iv.dom)
        return range_ is not None and is_const(range_.extent, 1)

    @cached_property
    def memory_ranks(self) -> dict[Stage, int]:
        """The memory of the stages that have loops bound to threads; an output's is not listed, as all share it."""
        scans = {t.op: s for s in self.stages if isinstance(s.op, ScanOp) for t in (*s.op.init, *s.op.update)}
        bound = [s for s in self.stages if any(attr.bind_thread is not None for attr in s.iter_var_attrs.values())]
        stored = {s: scans.get(s.op, s) for s in bound}  # the parts of a scan are stored in its memory
        if all(memory.is_output for memory in stored.values()):
            return {}
        ranks = {s: self.storage_ranks(memory)[0] for s, memory in stored.items() if not memory.is_output}
        for reduction in self.stages:
            threads = threads_around_reduction(reduction)
            loops = {iv for iv in reduction.leaf_iter_vars if threads and is_serial_reduction(reduction, iv)}
            for stage in ranks:
                if loops.intersection(self.paths[stored[stage].op]) and not stored[stage].scope:
                    ranks[stage] = max(ranks[stage], default_storage_rank(max(t.rank for t in threads)))
        return ranks

    def thread_tag(self, iv: IterVar) -> str:
        bound = self.threads.get(iv)
        return bound.thread_tag if bound is not None else iv.thread_tag
