"""How much of what a schedule computes is used.

The statement of ScheduleOps is counted, not run: loops become axes of NumPy arrays, and a guard
is an array over the loops that it depends on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import strip_likely
from tvmagic.te.exact.required_regions import needed_elements
from tvmagic.te.numpy_eval import ArrayEvaluator
from tvmagic.te.schedule.stage import AttachType
from tvmagic.te.tensor import BaseComputeOp, Tensor

if TYPE_CHECKING:
    from tvmagic.te.schedule.schedule import Schedule

LIMIT = 1 << 20  # elements of a guard's array
MAX_DEPTH = 31  # loops, each a dimension of NumPy's arrays


@dataclass(frozen=True)
class StageWaste:
    """What one stage computes: `computed` elements, counted each time, of which `used` are needed.

    Each is None if it is not known: symbolic sizes, or consumers that are not expressions.
    """

    stage: str
    computed: int | None
    used: int | None

    def __str__(self) -> str:
        if self.computed is None or self.used is None:
            return f"`{self.stage}`: not known"
        share = f", {100 * self.used / self.computed:.0f}%" if self.computed else ""
        return f"`{self.stage}` computes {self.computed} elements, {self.used} are used{share}"


def stage_waste(sch: Schedule, stmt: ir.Stmt, ranges: Mapping[ir.IterVar, ir.Range]) -> list[StageWaste]:
    """For each stage that a normalized schedule computes, elements computed in `stmt` against elements used."""
    counter = _Counter()
    counter.visit(stmt)
    demand = needed_elements(sch, ranges)
    report: list[StageWaste] = []
    for stage in sch.stages:
        if stage.attach_type == AttachType.INLINED_ALREADY or not isinstance(stage.op, BaseComputeOp):
            continue
        computed = counter.of(stage.origin_op.output(0), stage.op)
        union = demand.get(stage)
        report.append(StageWaste(stage.name, computed, union.count() if union is not None and union.exact else None))
    return report


class _Counter(ir.Visitor):
    """Counts how often each store runs; `stores` holds the counts of a tensor's stores in order."""

    def __init__(self) -> None:
        self.stores: dict[Tensor, list[int | None]] = {}
        self.loops: list[tuple[ir.Var, int]] = []
        self.axes: dict[ir.Var, frozenset[int]] = {}  # the loops that a variable depends on, by their depth
        self.lets: dict[ir.Var, np.ndarray] = {}
        self.guards: list[np.ndarray] = []
        self.unknown = 0

    def of(self, tensor: Tensor, op: BaseComputeOp) -> int | None:
        """How many elements of `tensor` are computed, by the last of its stores: the update of a reduction."""
        counts = self.stores.get(tensor)
        if not counts or any(c is None for c in counts):
            return None
        known = [c for c in counts if c is not None]
        if not op.reduce_axis:
            return sum(known)
        work = 1
        for iv in op.reduce_axis:
            if iv.dom is None or not isinstance(iv.dom.extent, ir.IntImm):
                return None
            work *= iv.dom.extent.value
        half = len(known) // 2  # initializations and updates are in pairs
        return sum(known[half:] if len(known) == 2 else known[1::2]) // work if work else None

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        axis = len(self.loops)
        extent, guard = self._extent(node, axis)
        if extent is None or axis >= MAX_DEPTH:
            self.unknown += 1
            self.visit(node.body)
            self.unknown -= 1
            return
        self.loops.append((node.loop_var, extent))
        self.axes[node.loop_var] = frozenset([axis])
        if guard is not None:
            self.guards.append(guard)
        self.visit(node.body)
        if guard is not None:
            self.guards.pop()
        self.loops.pop()

    def _extent(self, node: ir.For, axis: int) -> tuple[int | None, Any]:
        """The largest extent of a loop, and where that differs the guard that stands for it."""
        if isinstance(node.extent, ir.IntImm):
            return max(node.extent.value, 0), None
        value = self._value(node.extent)
        if value is None:
            return None, None
        largest = max(int(value.max(initial=0)), 0)
        if largest * value.size > LIMIT:
            return None, None
        return largest, _steps(largest, axis) < value

    def _value(self, value: Any) -> Any:
        """An expression as an array over the loops that it depends on; None if it has no value or too many."""
        variables: dict[ir.Var, None] = {}
        ir.post_order_visit(value, lambda node: variables.setdefault(node) if isinstance(node, ir.Var) else None)
        used = [v for v in variables if v in self.axes]
        if math.prod(self.loops[a][1] for a in frozenset().union(*(self.axes[v] for v in used))) > LIMIT:
            return None
        env = {v: self.lets[v] if v in self.lets else self._loop_values(v) for v in used}
        try:
            return np.asarray(ArrayEvaluator(env).visit(value))
        except TVMagicError:  # what has no value in NumPy is not known
            return None

    def _loop_values(self, var: ir.Var) -> np.ndarray:
        (axis,) = self.axes[var]
        return _steps(self.loops[axis][1], axis)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        guard = self._value(strip_likely(node.condition))
        if guard is None:
            self.unknown += 1
        else:
            self.guards.append(guard)
        self.visit(node.then_case)
        if guard is None:
            self.unknown -= 1
        else:
            self.guards.pop()

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        value = self._value(node.value)
        if value is not None:
            self.lets[node.var] = value
            self.axes[node.var] = frozenset(a for a in range(value.ndim) if value.shape[value.ndim - 1 - a] > 1)
        self.visit(node.body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        self.visit(node.body)

    @ir.handles(ir.ProducerStore)
    def store(self, node: ir.ProducerStore) -> None:
        self.stores.setdefault(node.producer, []).append(None if self.unknown else self._count())

    def _count(self) -> int | None:
        """In how many iterations of the loops all guards hold.

        Guards that depend on different loops are counted apart.
        """
        extents = [extent for _, extent in reversed(self.loops)]
        groups: list[tuple[set[int], list[np.ndarray]]] = []
        for guard in self.guards:
            guard = guard.reshape((1,) * (len(extents) - guard.ndim) + guard.shape)
            axes, members = {a for a, size in enumerate(guard.shape) if size > 1}, [guard]
            if not axes and not guard.all():
                return 0
            apart = [g for g in groups if not g[0] & axes]
            for known in groups:
                if known[0] & axes:
                    axes, members = axes | known[0], members + known[1]
            groups = [*apart, (axes, members)]
        total = math.prod(e for a, e in enumerate(extents) if not any(a in g[0] for g in groups))
        for axes, members in groups:
            if math.prod(extents[a] for a in axes) > LIMIT:
                return None
            holds = members[0]
            for guard in members[1:]:
                holds = np.logical_and(holds, guard)
            total *= int(np.count_nonzero(holds))
        return total if all(extents) else 0


def _steps(extent: int, axis: int) -> np.ndarray:
    """The values of the loop at depth `axis`; outer loops are the last dimensions, so that arrays broadcast as they are."""
    return np.arange(extent, dtype=np.int64).reshape([extent] + [1] * axis)
