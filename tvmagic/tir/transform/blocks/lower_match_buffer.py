"""LowerMatchBuffer: views that blocks match become accesses of what they are views of."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import variables_in
from tvmagic.tir.analysis.facts import Facts
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.bind_buffer import bind_view
from tvmagic.tir.transform.memory.checked_indices import checked_indices, checks_wanted


class MatchLower(Facts, ir.Mutator):
    """Rewrites a function's statements to ones without views."""

    def __init__(self, func: ir.PrimFunc) -> None:
        self.analyzer = Analyzer()
        self.checks = checks_wanted()
        self.sources: dict[ir.Buffer, ir.BufferRegion] = {}
        self.values: dict[ir.Var, ir.PrimExpr] = {p: p for p in func.params if not p.dtype.is_handle}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        return self.values.get(var, var)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.known_loop(node)
        return self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        pointers = {id(var) for var in variables_in(node.body)} if node.match_buffers else set[int]()
        for match in node.match_buffers:
            self.match(match, id(match.buffer.data) in pointers)
        if node.match_buffers:
            node = node.replace(match_buffers=())
        return self.visit_children(node)

    def match(self, node: ir.MatchBufferRegion, by_pointer: bool) -> None:
        """Note that `node.buffer` is a view of `node.source`, and what its variables are.

        by_pointer: whether the view is used by its pointer, too, and not by indices alone.
        """
        view, source = node.buffer, self.visit(node.source)
        target = source.buffer
        if view.scope() != target.scope() or view.dtype is not target.dtype:
            raise TVMagicError(
                f"buffer `{view.name}` of {view.dtype} in {view.scope()} matches `{target.name}` of {target.dtype} "
                f"in {target.scope()}",
                node=node,
                code="tir.lower_match_buffer.regions_differ",
            )
        begins = tuple([r.min for r in source.region])
        extents = tuple([r.extent for r in source.region])
        self.sources[view] = source
        for condition, message in bind_view(view, target, begins, extents, self.values, self.analyzer, by_pointer):
            raise TVMagicError(
                f"{message}: `{condition}` is not proved", node=node, code="tir.lower_match_buffer.not_proved"
            )

    def _indices(self, indices: tuple[ir.PrimExpr, ...], source: ir.BufferRegion) -> tuple[ir.PrimExpr, ...]:
        missing = len(source.region) - len(indices)
        zeros = tuple([ir.IntImm(r.min.dtype, 0) for r in source.region[:missing]])
        return tuple([r.min + i for r, i in zip(source.region, (*zeros, *indices))])

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        source = self.sources.get(node.buffer)
        if source is None:
            return new
        indices = new.indices
        if self.checks:
            shape = tuple([self.visit(size) for size in node.buffer.shape])
            indices = checked_indices(node.buffer, indices, shape, self.analyzer, node)
        return new.replace(buffer=source.buffer, indices=self._indices(indices, source))

    @ir.handles(ir.BufferRegion)
    def region(self, node: ir.BufferRegion) -> ir.BufferRegion:
        new = self.visit_children(node)
        source = self.sources.get(node.buffer)
        if source is None:
            return new
        begins = self._indices(tuple([r.min for r in new.region]), source)
        missing = len(source.region) - len(new.region)
        extents = (*[ir.IntImm(r.min.dtype, 1) for r in source.region[:missing]], *[r.extent for r in new.region])
        return ir.BufferRegion(
            source.buffer, [ir.Range.from_min_extent(b, e) for b, e in zip(begins, extents)], node.span
        )


@tir_pass("tir.LowerMatchBuffer")
def LowerMatchBuffer(func: ir.PrimFunc) -> ir.PrimFunc:
    """Replace the buffers that blocks match by what they match, and their variables by values."""
    return func.with_body(MatchLower(func).visit(func.body))
