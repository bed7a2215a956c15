"""Schedule scans such as `cumsum`: chunks of the other axes each run the entire scan, in parallel.

A scan has no TensorIR function, so that the schedule is one of TE. The steps of a scan follow each other; what is computed
for one place of its other axes is apart from what is for another, if no step reads its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.auto.fallback import ENOUGH
from tvmagic.auto.program import constant
from tvmagic.auto.te_cell import named, schedule_by_calls
from tvmagic.operators import Operator
from tvmagic.target.machine import Machine
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.te.schedule.scan import scan_fix_point_analysis
from tvmagic.te.tensor import ComputeOp, Operation, ScanOp, Tensor

_STRETCH = 64  # elements of the last axis that run a scan together, in vectors


@dataclass(frozen=True)
class _Reader:
    """The stage that reads scans element by element; `along` is its axis that they run over."""

    op: ComputeOp
    along: ir.IterVar

    @property
    def free(self) -> list[ir.IterVar]:
        """The other axes, in order."""
        return [iv for iv in self.op.axis if iv is not self.along]


def has_scan(op: Operator) -> bool:
    """Whether an operator's expression has a scan in it."""
    return op.prim_func is None and any(isinstance(o, ScanOp) for o in _operations(op))


def schedule_scans(op: Operator, machine: Machine) -> tuple[Any, str, list[str]]:
    """The TE schedule of an operator with scans, the text of its cell, and a sentence for each decision.

    What is neither a scan, nor computed for one or from one, keeps its plain loops.
    """
    groups: dict[_Reader, list[ScanOp]] = {}
    plain: list[tuple[str, list[str]]] = []
    order = _operations(op)
    for scan in order:
        if isinstance(scan, ScanOp):
            reader = _reader(scan, op, order)
            if reader is not None and all(r == reader or r.op is not reader.op for r in groups):
                groups.setdefault(reader, []).append(scan)
            else:
                plain.append((f"{scan.name}: its steps follow each other, in plain loops", []))
    kept = {reader.op for reader in groups}
    arranged = [_arranged(reader, scans, op, order, machine, kept) for reader, scans in groups.items()]
    return schedule_by_calls(op, [*plain, *arranged])


def _operations(op: Operator) -> list[Operation]:
    roots = [t.op for t in op.outputs]
    return list(post_dfs_order(roots, create_read_graph(roots)))


def _readers(tensor: Tensor, order: list[Operation]) -> list[Operation]:
    return [o for o in order if any(t is tensor for t in o.input_tensors)]


def _reader(scan: ScanOp, op: Operator, order: list[Operation]) -> _Reader | None:
    """The one stage that reads a scan element by element, if its places stay apart; None if there is none."""
    if len(scan.outputs) != 1 or not all(scan_fix_point_analysis(scan).values()):
        return None
    readers = _readers(scan.outputs[0], order)
    if len(readers) != 1 or not isinstance(found := readers[0], ComputeOp):
        return None
    if len(found.outputs) != 1 or not named(op, found.outputs[0], scan.outputs[0]):
        return None
    loads: list[ir.ProducerLoad] = []
    for value in found.body:
        if isinstance(value, ir.Reduce):
            return None
        ir.post_order_visit(value, lambda n: loads.append(n) if isinstance(n, ir.ProducerLoad) else None)
    indices = {tuple(n.indices) for n in loads if n.producer.op is scan}
    axes = {iv.var: iv for iv in found.axis}
    at = [v for v in next(iter(indices)) if isinstance(v, ir.Var)]
    if len(indices) > 1 or len(scan.outputs[0].shape) != len(axes) or set(at) != set(axes):
        return None
    return _Reader(found, axes[at[0]])


def _arranged(
    reader: _Reader,
    scans: list[ScanOp],
    op: Operator,
    order: list[Operation],
    machine: Machine,
    kept: Container[Operation],
) -> tuple[str, list[str]]:
    """A sentence on how scans and their reader are computed, and the calls. Stages that are `kept` have scans inside their loops."""
    name, axes = reader.op.name, list(reader.op.axis)
    stem = name
    while any(f"{stem}_{n}{end}" in op.tensors for n in range(len(axes)) for end in ("", "_o", "_i")):
        stem += "_"
    names = {iv: f"{stem}_{n}" for n, iv in enumerate(axes)}
    calls = [f"{', '.join(names.values())}{',' * (len(axes) == 1)} = {name}.op.axis"]
    loops, inside = [names[iv] for iv in reader.free], [names[reader.along]]
    text = f"{name}: a row of the scan along {reader.along.var.name} at a time"
    last = axes[-1]
    if last is not reader.along:  # neighbours of the last axis run together
        extent = constant(last.dom.extent) if last.dom is not None else None
        own = loops.pop()
        inside.append(own)
        if extent is None or extent > _STRETCH:
            calls.append(f"{own}_o, {own}_i = s[{name}].split({own}, {_STRETCH})")
            loops.append(f"{own}_o")
            inside[-1] = f"{own}_i"
        size = _STRETCH if extent is None else min(_STRETCH, extent)
        text = f"{name}: {size} elements of {last.var.name} run the scan along {reader.along.var.name} together, in vectors"
    apart: list[str] = []  # what is computed before the steps, not in them
    for scan in scans:
        for term in _terms(scan, op, order):
            if term.op in kept:
                continue
            if last is reader.along and _on_the_chain(scan, term):
                apart.append(term.op.name)
            else:
                calls.append(f"s[{term.op.name}].compute_inline()")
    if not loops:
        return f"{name}: the steps of its scan follow each other, in plain loops", calls[1:]
    if len(axes) > 1:
        calls.append(f"s[{name}].reorder({', '.join([*loops, *inside])})")
    calls += [f"s[{moved}].compute_at(s[{name}], {loops[-1]})" for moved in (*[scan.name for scan in scans], *apart)]
    if machine.cores > 1 and math.prod(constant(iv.dom.extent) or 256 for iv in axes if iv.dom is not None) >= ENOUGH:
        calls.append(f"s[{name}].parallel({loops[0]})")
        text += f"; {reader.free[0].var.name} in parallel on {machine.cores} cores"
    return text, calls


def _terms(scan: ScanOp, op: Operator, order: list[Operation]) -> list[Tensor]:
    """What a scan takes in, if nothing else reads it and it is not a reduction."""
    taken = [t for first in scan.init for t in first.op.input_tensors]
    steps = {t.op for t in (*scan.init, *scan.update)}
    return [
        t
        for t in taken
        if isinstance(t.op, ComputeOp)
        and named(op, t)
        and not any(t is output for output in op.outputs)
        and set(_readers(t, order)) <= steps
        and not any(isinstance(value, ir.Reduce) for value in t.op.body)
    ]


def _on_the_chain(scan: ScanOp, term: Tensor) -> bool:
    """Whether each step would wait for a multiplication: of floats, it becomes one operation with the addition to the step before."""
    updates = [value for t in scan.update if isinstance(t.op, ComputeOp) for value in t.op.body]
    product = isinstance(term.op, ComputeOp) and isinstance(term.op.body[term.value_index], ir.Mul)
    return product and term.dtype.is_float and any(isinstance(value, (ir.Add, ir.Sub)) for value in updates)
