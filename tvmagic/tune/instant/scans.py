"""The rule for scans such as `cumsum`: stretches of the other axes run the whole scan each, and in parallel.

A scan has no TensorIR function, so that the schedule is one of TE. The steps of a scan follow each other; what is computed
for one place of its other axes is apart from what is for another, if no step reads its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvmagic.codegen.target.machine import Machine
from tvmagic.ir import IterVar, ProducerLoad, Reduce, Var, post_order_visit
from tvmagic.notation.source import Source
from tvmagic.operators import Operator
from tvmagic.operators.scheduling import schedule_from_cell
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.te.schedule.scan import scan_fix_point_analysis
from tvmagic.te.tensor import ComputeOp, Operation, ScanOp
from tvmagic.tune.instant.plainly import ENOUGH
from tvmagic.tune.instant.program import constant

__all__ = ["has_scan", "schedule_scans"]

_STRETCH = 64  # elements of the last axis that run a scan together, in vectors


@dataclass(frozen=True)
class _Reader:
    """The stage that reads a scan: `number` is the scan's among its inputs, `along` the axis that the scan runs over."""

    op: ComputeOp
    number: int
    along: IterVar

    @property
    def free(self) -> list[IterVar]:
        """The other axes, in order."""
        return [iv for iv in self.op.axis if iv is not self.along]


def has_scan(op: Operator) -> bool:
    """Whether an operator's expression has a scan in it."""
    return op.prim_func is None and any(isinstance(o, ScanOp) for o in _operations(op))


def schedule_scans(op: Operator, machine: Machine) -> tuple[Any, str, list[str]]:
    """The TE schedule of an operator with scans, the text of its cell, and a sentence for each decision.

    What is neither a scan, nor computed for one or from one, keeps its plain loops.
    """
    order = _operations(op)
    lines: list[str] = []
    texts: list[str] = []
    done: set[Operation] = set()
    for scan in order:
        if not isinstance(scan, ScanOp):
            continue
        reader = _reader(scan, order, op)
        if reader is None or reader.op in done:
            text, calls = (
                f"{scan.name}: its steps follow each other, and no loop around them is found: its plain loops",
                [],
            )
        else:
            done.add(reader.op)
            text, calls = _arranged(reader, scan, op, machine)
        texts.append(text)
        lines += [f"# {text}", *calls]
    cell = "\n".join([*lines, "s  # the schedule"])
    made = schedule_from_cell(op, Source(f"auto {op.name}", f"%%schedule {op.name}\n{cell}"), "auto", {})
    return made.schedule, cell, texts


def _operations(op: Operator) -> list[Operation]:
    roots = [t.op for t in op.outputs]
    return list(post_dfs_order(roots, create_read_graph(roots)))


def _reader(scan: ScanOp, order: list[Operation], op: Operator) -> _Reader | None:
    """The one stage that reads a scan element by element, if the cell has a name for it; None if there is none."""
    readers = [o for o in order if o is not scan and any(t.op is scan for t in o.input_tensors)]
    if len(readers) != 1 or len(scan.outputs) != 1 or not all(scan_fix_point_analysis(scan).values()):
        return None
    (found,) = readers
    if not isinstance(found, ComputeOp) or op.tensors.get(found.name) not in found.outputs:
        return None
    loads: list[ProducerLoad] = []
    for value in found.body:
        if isinstance(value, Reduce):
            return None
        post_order_visit(value, lambda n: loads.append(n) if isinstance(n, ProducerLoad) else None)
    indices = {tuple(n.indices) for n in loads if n.producer.op is scan}
    axes = {iv.var: iv for iv in found.axis}
    at = next(iter(indices))
    if len(indices) > 1 or len(at) != len(axes) or {v for v in at if isinstance(v, Var)} != set(axes):
        return None
    number = next(n for n, t in enumerate(found.input_tensors) if t.op is scan)
    return _Reader(found, number, axes[at[0]])


def _arranged(reader: _Reader, scan: ScanOp, op: Operator, machine: Machine) -> tuple[str, list[str]]:
    """A sentence on how a scan and its reader are computed, and the calls."""
    name, axes = reader.op.name, list(reader.op.axis)
    names = {iv: f"{name}_{n}" for n, iv in enumerate(axes)}
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
    calls.append(f"scan = {name}.op.input_tensors[{reader.number}]")
    calls += _inlined(scan, op)
    if not loops:
        return text, calls
    if len(axes) > 1:
        calls.append(f"s[{name}].reorder({', '.join([*loops, *inside])})")
    calls.append(f"s[scan].compute_at(s[{name}], {loops[-1]})")
    if machine.cores > 1 and math.prod(constant(iv.dom.extent) or 256 for iv in axes if iv.dom is not None) >= ENOUGH:
        calls.append(f"s[{name}].parallel({loops[0]})")
        text += f"; {reader.free[0].var.name} in parallel on {machine.cores} cores"
    return text, calls


def _inlined(scan: ScanOp, op: Operator) -> list[str]:
    """What a scan adds up is computed in its steps, if the cell has no name for it and it is no reduction."""
    terms = [t for first in scan.init for t in first.op.input_tensors]
    if len(terms) != 1 or not isinstance(terms[0].op, ComputeOp) or terms[0] in op.tensors.values():
        return []
    if any(isinstance(value, Reduce) for value in terms[0].op.body):
        return []
    return ["s[scan.op.init[0].op.input_tensors[0]].compute_inline()"]
