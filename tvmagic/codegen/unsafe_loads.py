"""Which loads a vector `Select` may do only in the lanes that take them.

A scalar `Select` that reads memory became a branch (`RewriteUnsafeSelect`); lanes cannot branch. A load that stays inside its buffer in every lane is done for all of them, which costs less than a mask.
"""

from __future__ import annotations

from tvmagic.codegen.intervals import Intervals
from tvmagic.ir import BufferLoad, IntImm, PrimExpr, Visitor, handles, structural_equal

__all__ = ["needs_mask"]


def needs_mask(side: PrimExpr, condition: PrimExpr, intervals: Intervals) -> bool:
    """Whether `side`, taken in the lanes of `condition`, has a load that may be outside its buffer in other lanes."""
    finder = _Unsafe(condition.dtype.lane_code, intervals)
    finder.visit(side)
    if not finder.unsafe:
        return False
    done = _Done()
    done.visit(condition)
    return not all(any(structural_equal(load, other) for other in done.loads) for load in finder.unsafe)


class _Unsafe(Visitor):
    """Collects the loads of lanes that are not provably inside their buffers."""

    def __init__(self, lanes: int, intervals: Intervals) -> None:
        self.lanes, self.intervals = lanes, intervals
        self.unsafe: list[BufferLoad] = []

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.visit_children(node)
        lanes = node.indices[-1].dtype.lane_code if node.indices else 1
        if lanes in (1, self.lanes) and not all(map(self._inside, node.indices, node.buffer.shape)):
            self.unsafe.append(node)

    def _inside(self, index: PrimExpr, size: PrimExpr) -> bool:
        low, high = self.intervals.of(index)
        return isinstance(size, IntImm) and 0 <= low and high < size.value


class _Done(Visitor):
    """Collects the loads that a condition does in every lane."""

    def __init__(self) -> None:
        self.loads: list[BufferLoad] = []

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.loads.append(node)
        self.visit_children(node)
