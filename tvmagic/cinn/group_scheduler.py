"""`StaticShapeGroupScheduler`: what CINN does to the blocks of one fused group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvmagic import passes
from tvmagic.cinn.accesses import scope
from tvmagic.cinn.auto_inline import AutoInline
from tvmagic.cinn.block_graph import ScheduleBlockGraph, ScheduleBlockNode
from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.ir import IRModule, PrimFunc

_EXTERN_CALLS = frozenset(
    f"tir.{name}" for name in ("call_extern", "call_pure_extern", "tvm_call_packed", "tvm_call_cpacked")
)


def is_prohibit_schedule_extern_call_block(ir_schedule: IRSchedule, block: Any) -> bool:
    """Whether a block calls external functions, so that it is left alone."""
    found = ir_schedule.candidate(block).found
    return any(name in _EXTERN_CALLS or "." not in name for name in found.calls)


class StaticShapeGroupScheduler:
    """Schedules the blocks of a group. Extents may be symbols as well as numbers.

    Parameters
    ----------
    ir_schedule: the schedule to work on, or a function, a module or CINN's text to make one of.
    output_tensor_names: the tensors that must stay; by default those that the function's callers see.
    """

    def __init__(
        self,
        ir_schedule: IRSchedule | PrimFunc | IRModule | str,
        output_tensor_names: Iterable[str] | None = None,
        target: Any = None,
    ) -> None:
        self.ir_schedule = ir_schedule if isinstance(ir_schedule, IRSchedule) else IRSchedule(ir_schedule)
        self.target = target
        self._outputs = None if output_tensor_names is None else frozenset(output_tensor_names)
        self.schedule_block_graph = ScheduleBlockGraph(self.ir_schedule)

    def output_tensor_names(self) -> frozenset[str]:
        """The names of the tensors that must not be inlined."""
        if self._outputs is not None:
            return self._outputs
        func = self.ir_schedule.func
        seen = set(func.buffer_map.values())
        root = self.ir_schedule.root
        return frozenset(s.buffer.name for f in scope(root).leaves for s in f.stores if s.buffer in seen)

    def do_compute_inline(self) -> list[str]:
        """Write every block that may be inlined into its consumers; the names of those, in order.

        The walk tries producers before consumers, each block once; a block that calls external functions
        is skipped. The record has a note for each block tried.
        """
        inlined: list[str] = []
        inliner = AutoInline(self.target, self.output_tensor_names())

        def inline(node: ScheduleBlockNode) -> None:
            if is_prohibit_schedule_extern_call_block(self.ir_schedule, node.rv):
                passes.note(
                    "cinn.auto_inline",
                    f"`{node.id}` stays: it calls an external function",
                    node.block(),
                    block=node.id,
                    inlined=False,
                    condition="no_extern_call",
                    reason="it calls an external function",
                )
            elif inliner.apply(self.ir_schedule, node.rv):
                inlined.append(node.id)

        def run() -> None:
            self.schedule_block_graph.dfs_topo_walk(inline)
            self.schedule_block_graph.update(self.ir_schedule)

        passes.run_step(
            "DoComputeInline", run, before=self.ir_schedule.mod, after=lambda _: self.ir_schedule.mod, kind="schedule"
        )
        return inlined
