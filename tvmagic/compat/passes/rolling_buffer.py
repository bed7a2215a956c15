"""InjectRollingBuffer: a buffer that is filled for each iteration of a loop keeps what iterations have in common.

`rolling_buffer` marks it. Along one axis it is as large as one iteration needs, and used as a ring; along
the others it is whole. It is allocated around the loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tvmagic import ir
from tvmagic.arith import detect_linear_equation
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import floormod, greater_equal, less, logical_or
from tvmagic.ir.query import variables_in
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass

MARK = "rolling_buffer_scope"


class _Axis(NamedTuple):
    """One axis of what an iteration needs: the loop that moves it (None: it stays), and how much the next one needs too."""

    loop: ir.For | None
    first: ir.PrimExpr
    overlap: int


class _Rolling(NamedTuple):
    """A rolling buffer: its axes, which of them rolls, in what extent, and around which loop it lives."""

    realize: ir.BufferRealize
    axes: list[_Axis]
    axis: int
    extent: ir.IntImm
    loop: ir.For


class _Marked(ir.Visitor):
    """Finds the marked buffers with the loops around their allocation."""

    def __init__(self) -> None:
        self.loops: list[ir.For] = []
        self.allocated: dict[ir.Buffer, tuple[ir.BufferRealize, list[ir.For]]] = {}
        self.marked: dict[ir.Buffer, None] = {}
        self.outside: dict[ir.Buffer, list[ir.AttrStmt]] = {}  # what is said of a buffer in front of its allocation

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.loops.append(node)
        self.visit(node.body)
        self.loops.pop()

    @ir.handles(ir.BufferRealize)
    def realize(self, node: ir.BufferRealize) -> None:
        self.allocated[node.buffer] = (node, list(self.loops))
        self.visit(node.body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if isinstance(node.node, ir.Buffer):
            if node.attr_key == MARK:
                self.marked[node.node] = None
            elif node.node not in self.allocated:
                self.outside.setdefault(node.node, []).append(node)
        self.visit(node.body)


def _axis_of(buffer: ir.Buffer, bound: ir.Range, loops: list[ir.For], analyzer: Analyzer) -> _Axis:
    first, divisor = analyzer.simplify(bound.min), 1
    moved = first
    if isinstance(moved, ir.FloorDiv) and isinstance(moved.b, ir.IntImm):
        moved, divisor = moved.a, moved.b.value  # a fraction of an element for each iteration
    around = [loop for loop in loops if loop.loop_var in variables_in(moved)]
    if not around:
        return _Axis(None, first, 0)
    loop = around[-1]
    parts = detect_linear_equation(moved, [loop.loop_var])
    step: Any = parts[0] if parts else None
    if len(around) > 1 or not isinstance(step, ir.IntImm) or step.value <= 0 or not isinstance(bound.extent, ir.IntImm):
        raise TVMagicError(
            f"buffer `{buffer.name}` cannot be a rolling buffer: what an iteration needs of it, `{bound.min}` and the "
            f"next {bound.extent} elements, does not move by a constant step with one loop",
            node=bound.min,
            code="tir.rolling_buffer.no_overlap",
        )
    return _Axis(loop, first, bound.extent.value + (-step.value // divisor))


def _rolling(node: ir.BufferRealize, loops: list[ir.For]) -> _Rolling | None:
    """How a marked buffer rolls: along the axis that the outermost loop moves. None if no loop does."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, ir.Range.from_min_extent(loop.min, loop.extent))
    axes = [_axis_of(node.buffer, bound, loops, analyzer) for bound in node.bounds]
    movers = [axis.loop for axis in axes if axis.loop is not None]
    for loop in movers:
        if loop.kind not in (ir.ForKind.SERIAL, ir.ForKind.UNROLLED):
            raise TVMagicError(
                f"buffer `{node.buffer.name}` cannot be a rolling buffer: the iterations of loop "
                f"`{loop.loop_var.name}`, which use what earlier ones computed, do not run in order",
                node=loop,
                code="tir.rolling_buffer.iterations_not_in_order",
            )
    for loop in loops:
        if loop in movers:
            axis = next(k for k, a in enumerate(axes) if a.loop is loop)
            extent = node.bounds[axis].extent
            assert isinstance(extent, ir.IntImm)
            return _Rolling(node, axes, axis, extent, loop)
    return None


class _Injector(ir.Mutator):
    def __init__(self, rolling: dict[ir.Buffer, _Rolling], outside: dict[ir.Buffer, list[ir.AttrStmt]]) -> None:
        self.rolling, self.outside = rolling, outside
        self.analyzer = Analyzer()

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        new: ir.Stmt = self.visit_children(node)
        for buffer, roll in self.rolling.items():
            if roll.loop is node:
                bounds = [ir.Range.from_min_extent(0, size) for size in buffer.shape]
                bounds[roll.axis] = ir.Range.from_min_extent(0, roll.extent)
                new = ir.BufferRealize(buffer, bounds, roll.realize.condition, new, roll.realize.span)
                for attribute in reversed(self.outside.get(buffer, ())):
                    new = attribute.replace(body=new)
                note("rolling buffer", f"`{buffer.name}` keeps {roll.extent} of {buffer.shape[roll.axis]}", node=node)
        return new

    @ir.handles(ir.BufferRealize)
    def realize(self, node: ir.BufferRealize) -> ir.Stmt:
        return self.visit(node.body) if node.buffer in self.rolling else self.visit_children(node)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        moved = node.node in self.rolling and node in self.outside.get(node.node, ())
        return self.visit(node.body) if moved or node.attr_key == MARK else self.visit_children(node)

    def _rolled_indices(self, access: Any, roll: _Rolling) -> tuple[ir.PrimExpr, ...]:
        indices = list(access.indices)
        indices[roll.axis] = floormod(indices[roll.axis], roll.extent)
        return tuple(indices)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        new, roll = self.visit_children(node), self.rolling.get(node.buffer)
        return new if roll is None else new.replace(indices=self._rolled_indices(new, roll))

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        roll, new = self.rolling.get(node.buffer), self.visit_children(node)
        if roll is None:
            return new
        stored: ir.Stmt = new.replace(indices=self._rolled_indices(new, roll))
        for index, axis in zip(new.indices, roll.axes):
            if axis.loop is not None and axis.overlap > 0:
                stored = ir.IfThenElse(self._is_new(index, axis.loop, axis), stored, None)
        return stored

    def _is_new(self, index: ir.PrimExpr, loop: ir.For, axis: _Axis) -> ir.PrimExpr:
        """Whether no earlier iteration computed an element: in the first one, and behind what both need."""
        start = {loop.loop_var: loop.min}
        distance = self.analyzer.simplify(ir.substitute(index - axis.first, start))
        return logical_or(
            less(loop.loop_var, self.analyzer.simplify(loop.min + 1)), greater_equal(distance, axis.overlap)
        )


@tir_pass("tir.InjectRollingBuffer")
def InjectRollingBuffer(func: ir.PrimFunc) -> ir.PrimFunc:
    """Let buffers marked by `rolling_buffer` keep what the next iteration needs of this one, and compute only the rest.

    It belongs in front of StorageFlatten: `PassContext(config={"tir.add_lower_pass": [(0, InjectRollingBuffer())]})`.
    Without it a mark has no effect. Raises `TVMagicError` if what iterations need does not move by a constant step, or
    if they do not run in order.
    """
    found = _Marked()
    found.visit(func.body)
    rolling: dict[ir.Buffer, _Rolling] = {}
    for buffer in found.marked:
        if buffer in found.allocated and (roll := _rolling(*found.allocated[buffer])) is not None:
            rolling[buffer] = roll
    return func.with_body(_Injector(rolling, found.outside).visit(func.body))
