"""Where a buffer has to be allocated: the innermost loop or block around all its accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic import ir

# A place: the statements around it, outermost first.
_Path = tuple[ir.Stmt, ...]


def _common(a: _Path | None, b: _Path) -> _Path:
    if a is None:
        return b
    count = 0
    for x, y in zip(a, b):
        if x is not y:
            break
        count += 1
    return a[:count]


def _outermost(paths: Sequence[_Path | None]) -> _Path | None:
    """The shortest of some paths; None if there is none."""
    return min([p for p in paths if p is not None], key=len, default=None)


class _AncestorFinder(ir.Visitor):
    def __init__(self, func: ir.PrimFunc) -> None:
        self.path: _Path = ()
        self.found: dict[ir.Buffer, _Path] = {}
        self.parameters = set(func.buffer_map.values())
        self.of_data: dict[ir.Var, ir.Buffer] = {b.data: b for b in func.buffer_map.values()}
        self.loop_paths: dict[ir.Var, _Path] = {}
        # variables of opaque and ordered axes: what surrounds all loops of their bindings
        self.carrying: dict[ir.Var, _Path] = {}
        self.block_axes: list[_Path] = []
        self.matched: set[ir.Buffer] = set()

    def touch(self, buffer: ir.Buffer, path: _Path) -> None:
        if buffer not in self.matched:
            self.found[buffer] = _common(self.found.get(buffer), path)

    def _visit_inside(self, node: ir.Stmt) -> None:
        outer = self.path
        self.path = (*outer, node)
        self.visit_children(node)
        self.path = outer

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.loop_paths[node.loop_var] = self.path
        if node.kind is ir.ForKind.THREAD_BINDING and node.thread_binding is not None:
            if node.thread_binding.thread_tag.startswith("blockIdx"):
                self.block_axes.append((*self.path, node))
        self._visit_inside(node)

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> None:
        block = node.block
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        for buffer in block.alloc_buffers:
            self.of_data.setdefault(buffer.data, buffer)
        for match in block.match_buffers:
            self.touch(match.source.buffer, (*self.path, block))
            self.matched.add(match.buffer)
        # what a reduction writes lives through all iterations of its loops; parameters live anyway
        around: _Path | None = None
        for iter_var, value in zip(block.iter_vars, node.iter_values):
            if iter_var.iter_type == ir.IterVar.CommReduce:
                around = _outermost([*self._paths_of(self.loop_paths, value), around])
            else:
                self._note_carrying(iter_var, value)
        if around is not None:
            for region in block.writes:
                if region.buffer not in self.parameters:
                    self.touch(region.buffer, around)
        for region in (*block.reads, *block.writes):
            self._touch_carried(region.buffer, [part for r in region.region for part in (r.min, r.extent)])
        self._visit_inside(block)

    def _note_carrying(self, iter_var: ir.IterVar, value: ir.PrimExpr) -> None:
        """Remember what surrounds the loops of an axis whose iterations may use each other's values."""
        paths = self._paths_of(self.carrying, value)  # an axis of a block inside one of such an axis
        if iter_var.iter_type != ir.IterVar.DataPar:
            paths += self._paths_of(self.loop_paths, value)
        around = _outermost(paths)
        if around is not None:
            self.carrying[iter_var.var] = around

    def _touch_carried(self, buffer: ir.Buffer, indices: Sequence[ir.PrimExpr]) -> None:
        """What is accessed at an opaque or ordered axis lives through all iterations of its loops."""
        if self.carrying:
            around = _outermost([path for index in indices for path in self._paths_of(self.carrying, index)])
            if around is not None:
                self.touch(buffer, around)

    def _paths_of(self, known: Mapping[ir.Var, _Path], value: ir.PrimExpr) -> list[_Path]:
        """The paths that `known` has for the variables in `value`."""
        paths: list[_Path] = []

        def collect(node: Any) -> None:
            if isinstance(node, ir.Var) and node in known:
                paths.append(known[node])

        ir.post_order_visit(value, collect)
        return paths

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> None:
        self.touch(node.buffer, self.path)
        self._touch_carried(node.buffer, node.indices)
        self.visit_children(node)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        buffer = self.of_data.get(var)
        if buffer is not None:
            self.touch(buffer, self.path)


def detect_buffer_access_lca(func: ir.PrimFunc) -> dict[ir.Buffer, ir.Stmt | None]:
    """For each buffer that `func` accesses the innermost loop or block around all accesses.

    None stands for the function itself. What a reduction block writes counts as accessed around
    the loops of its reduction variables, unless it is a parameter; so does what a block accesses at an opaque or
    ordered variable, around the loops in that variable's binding; global memory in the loops bound to blocks.
    """
    finder = _AncestorFinder(func)
    finder.visit(func.body)
    result: dict[ir.Buffer, ir.Stmt | None] = {}
    for buffer, path in finder.found.items():
        if buffer.scope() == "global":
            for outside in finder.block_axes:
                path = _common(path, outside)
        result[buffer] = path[-1] if path else None
    return result


class _AllocationOrder(ir.Visitor):
    def __init__(self) -> None:
        self.order: dict[ir.Buffer, None] = {}
        self.allocated: set[ir.Buffer] = set()

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        for buffer in node.alloc_buffers:
            self.order.setdefault(buffer)
        self.allocated.update(node.alloc_buffers)
        self.visit_children(node)

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        self.order.setdefault(buffer)


def buffer_order(func: ir.PrimFunc) -> tuple[list[ir.Buffer], set[ir.Buffer]]:
    """The buffers of `func` in the order in which they are declared or first used; those that blocks allocate."""
    visitor = _AllocationOrder()
    for buffer in func.buffer_map.values():
        visitor.order.setdefault(buffer)
    visitor.visit(func.body)
    return list(visitor.order), visitor.allocated
