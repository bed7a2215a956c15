"""Which dimensions of a scan's state stay apart: only those can be computed in part."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import IntImm, IterVar, ProducerLoad, Var, post_order_visit
from tvmagic.te.schedule.graph import scan_get_body
from tvmagic.te.tensor import ComputeOp, Operation, ScanOp, Tensor

Dimension = tuple[Tensor, int]


def scan_fix_point_analysis(scan_op: Operation) -> dict[IterVar, bool]:
    """For each spatial axis of a scan, whether every step reads it at the same place only.

    Then a part of the axis follows from the same part one step before.
    """
    assert isinstance(scan_op, ScanOp)
    reach: dict[Dimension, IterVar] = {}
    failed: set[IterVar] = set()
    for i, state in enumerate(scan_op.state_placeholder):
        for k, iv in enumerate(scan_op.spatial_axes(i)):
            reach[(state, k + 1)] = iv
    for op in scan_get_body(scan_op):
        _reach_through(op, reach, failed)
    result: dict[IterVar, bool] = {}
    for i, update in enumerate(scan_op.update):
        for k, iv in enumerate(scan_op.spatial_axes(i)):
            result[iv] = iv not in failed and reach.get((update, k + 1)) is iv
    return result


def ScanFixPointAnalysis(scan_op: Operation) -> dict[IterVar, IntImm]:
    """As `scan_fix_point_analysis`, with 1 for true and 0 for false."""
    return {iv: IntImm("int32", int(apart)) for iv, apart in scan_fix_point_analysis(scan_op).items()}


def _reach_through(op: Operation, reach: dict[Dimension, IterVar], failed: set[IterVar]) -> None:
    """Follow the axes of the state from the inputs of `op` to its outputs."""
    if not isinstance(op, ComputeOp):
        for tensor in op.input_tensors:  # an unknown use reads any place
            failed.update(reach[(tensor, k)] for k in range(len(tensor.shape)) if (tensor, k) in reach)
        return
    place = {iv.var: k for k, iv in enumerate(op.axis)}

    def look(node: Any) -> None:
        if not isinstance(node, ProducerLoad):
            return
        for k, index in enumerate(node.indices):
            source = reach.get((node.producer, k))
            if source is None:
                continue
            if not isinstance(index, Var) or index not in place:
                failed.add(source)
                continue
            for tensor in op.outputs:
                known = reach.setdefault((tensor, place[index]), source)
                if known is not source:
                    failed.update((known, source))

    for value in op.body:
        post_order_visit(value, look)
