"""The graph of operations: who reads what, in which order, and which loops enclose a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tvmagic.errors import TVMagicError
from tvmagic.ir import IterVar
from tvmagic.te.tensor import Operation, ScanOp, Tensor

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule
    from tvmagic.te.schedule.stage import Stage

ReadGraph = dict[Operation, tuple[Tensor, ...]]


def create_read_graph(roots: Sequence[Operation]) -> ReadGraph:
    """For each operation that `roots` need, the tensors it reads."""
    graph: ReadGraph = {}
    stack = list(reversed(roots))
    while stack:
        op = stack.pop()
        if op in graph:
            continue
        graph[op] = op.input_tensors
        stack += [t.op for t in reversed(op.input_tensors) if t.op not in graph]
    return graph


def post_dfs_order(roots: Sequence[Operation], graph: Mapping[Operation, Sequence[Tensor]]) -> list[Operation]:
    """The operations of `graph`, in an order in which each comes after what it reads."""
    order: list[Operation] = []
    seen: set[Operation] = set()
    for root in roots:
        stack: list[tuple[Operation, int]] = [(root, 0)]
        if root in seen:
            continue
        seen.add(root)
        while stack:
            op, position = stack.pop()
            inputs = graph[op]
            while position < len(inputs) and (inputs[position].op in seen or inputs[position].op not in graph):
                position += 1
            if position == len(inputs):
                order.append(op)
                continue
            stack.append((op, position + 1))
            seen.add(inputs[position].op)
            stack.append((inputs[position].op, 0))
    return order


def create_feed_graph(graph: Mapping[Operation, Sequence[Tensor]]) -> dict[Tensor, list[Operation]]:
    """For each tensor the operations that read it."""
    feeds: dict[Tensor, list[Operation]] = {}
    for op, inputs in graph.items():
        for tensor in inputs:
            feeds.setdefault(tensor, []).append(op)
    return feeds


def get_sub_graph(outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> list[Operation]:
    """The operations between `inputs` and `outputs`, producers first.

    An operation counts where a path from an input to it exists; those of the inputs themselves
    only with `include_inputs`.
    """
    bound = {t.op for t in inputs}
    reached: dict[Operation, bool] = {}
    order: list[Operation] = []
    for root in outputs:
        stack: list[tuple[Operation, bool]] = [(root.op, False)]
        while stack:
            op, done = stack.pop()
            if done:
                reached[op] = any(reached.get(t.op, False) for t in op.input_tensors)
                if reached[op]:
                    order.append(op)
            elif op not in reached:
                if op in bound:
                    reached[op] = True
                    if include_inputs:
                        order.append(op)
                    continue
                reached[op] = False
                stack.append((op, True))
                stack += [(t.op, False) for t in reversed(op.input_tensors) if t.op not in reached]
    return order


def scan_get_body(scan_op: Operation) -> list[Operation]:
    """The operations that one step of a scan runs: between its states and inputs, and its updates."""
    assert isinstance(scan_op, ScanOp)
    return get_sub_graph(scan_op.update, [*scan_op.state_placeholder, *scan_op.inputs], False)


def create_attach_path(sch: Schedule) -> dict[Operation, tuple[IterVar, ...]]:
    """For each operation the loops that enclose its stage, innermost first.

    What begins a scan runs just in front of the scan's steps, inside the same loops.
    """
    paths: dict[Operation, tuple[IterVar, ...]] = {}
    known: dict[Stage, tuple[IterVar, ...]] = {}
    stage_of = {stage.op: stage for stage in sch.stages}
    for stage in sch.stages:
        for tensor in stage.op.init if isinstance(stage.op, ScanOp) else ():
            first = stage_of[tensor.op]
            if not first.get_attach_spec().is_attached:
                known[first] = attach_path_of(stage, known)
    for stage in sch.stages:
        if stage.op not in paths:
            paths[stage.op] = attach_path_of(stage, known)
    return paths


def attach_path_of(stage: Stage, known: dict[Stage, tuple[IterVar, ...]]) -> tuple[IterVar, ...]:
    """The loops that enclose `stage`, innermost first; `known` keeps those found before."""
    pending: list[tuple[Stage, tuple[IterVar, ...]]] = []
    visited: set[Stage] = set()
    current = stage
    path: tuple[IterVar, ...] = ()
    while True:
        if current in known:
            path = known[current]
            break
        if current in visited:
            raise TVMagicError(
                f"stage `{stage.name}` is computed at a loop that is computed inside stage `{stage.name}`",
                span=stage.span,
                hint="call compute_root on one of the stages of the cycle",
                code="te.compute_at.cyclic",
            )
        visited.add(current)
        spec = current.get_attach_spec()
        if not spec.is_attached:
            known[current] = ()
            break
        assert spec.attach_stage is not None
        pending.append((current, _loops_around(current, spec, spec.attach_stage)))
        current = spec.attach_stage
    for inner, loops in reversed(pending):
        path = loops + path
        known[inner] = path
    return path


def _loops_around(stage: Stage, spec: Stage, parent: Stage) -> tuple[IterVar, ...]:
    """The loops of `parent` around the place where `spec` is attached, innermost first."""
    leaves = parent.leaf_iter_vars
    if spec.attach_ivar is None:  # a scan's update runs inside all loops of the scan
        return tuple(reversed(leaves))
    for position, iv in enumerate(leaves):
        if iv is spec.attach_ivar:
            return tuple(reversed(leaves[: position + 1]))
    raise TVMagicError(
        f"stage `{stage.name}` is computed at `{spec.attach_ivar.var.name}`, which is not a loop of stage "
        f"`{parent.name}` any more",
        span=stage.span,
        code="te.compute_at.stale_loop",
    )
