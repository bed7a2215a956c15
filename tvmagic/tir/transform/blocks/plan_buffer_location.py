"""PlanAndUpdateBufferAllocationLocation: buffers allocated as far inside as their accesses let them."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.arith.block_regions import block_read_write_regions
from tvmagic.errors import TVMagicError
from tvmagic.passes import is_recording, note
from tvmagic.tir.analysis.buffer_lca import buffer_order, detect_buffer_access_lca
from tvmagic.tir.transform.declaration import tir_pass


class _Locator(ir.StmtMutator):
    def __init__(self, func: ir.PrimFunc) -> None:
        self.in_scope: dict[ir.Var, ir.Buffer] = {b.data: b for b in func.buffer_map.values()}
        self.at: dict[ir.Stmt, list[ir.Buffer]] = {}
        order, allocated = buffer_order(func)
        if not allocated:
            return
        places = detect_buffer_access_lca(func)
        for buffer in order:
            place = places.get(buffer)
            if buffer in allocated and place is not None:
                self.at.setdefault(place, []).append(buffer)
            elif place is not None:
                self.in_scope.setdefault(buffer.data, buffer)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        buffers = self.at.get(node)
        if buffers is None:
            return self.visit_children(node)
        self.in_scope.update({b.data: b for b in buffers})
        new = self.visit_children(node)
        for buffer in buffers:
            del self.in_scope[buffer.data]
        if is_recording():
            names = ", ".join(f"`{b.name}`" for b in buffers)
            note("plan.location", f"{names} is allocated inside loop `{node.loop_var.name}`", node=node)
        return new.replace(body=self._block_around(new.body, buffers))

    def _block_around(self, body: ir.Stmt, buffers: list[ir.Buffer]) -> ir.Stmt:
        block = ir.Block((), (), (), "", body, alloc_buffers=buffers, span=body.span)
        reads, writes = block_read_write_regions(block, self.in_scope)
        return ir.BlockRealize((), True, block.replace(reads=tuple(reads), writes=tuple(writes)), body.span)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        if node.init is not None:
            raise TVMagicError(
                f"block `{node.name_hint}` still has an `init`",
                node=node,
                hint="run LowerInitBlock first",
                code="tir.plan_buffer_location.init_left",
            )
        buffers = self.at.get(node, [])
        self.in_scope.update({b.data: b for b in buffers})
        self.in_scope.update({m.buffer.data: m.buffer for m in node.match_buffers})
        new = self.visit_children(node)
        for buffer in (*[m.buffer for m in node.match_buffers], *buffers):
            self.in_scope.pop(buffer.data, None)
        reads, writes = self._outer(new.reads), self._outer(new.writes)
        same = len(buffers) == len(node.alloc_buffers) and all(a is b for a, b in zip(buffers, node.alloc_buffers))
        if same and len(reads) == len(new.reads) and len(writes) == len(new.writes):
            return new
        return new.replace(alloc_buffers=tuple(buffers), reads=reads, writes=writes)

    def _outer(self, regions: tuple[ir.BufferRegion, ...]) -> tuple[ir.BufferRegion, ...]:
        """The regions of buffers that live outside the block."""
        return tuple([r for r in regions if r.buffer.data in self.in_scope])


@tir_pass("tir.PlanAndUpdateBufferAllocationLocation")
def PlanAndUpdateBufferAllocationLocation(func: ir.PrimFunc) -> ir.PrimFunc:
    """Allocate each buffer in the innermost loop or block around its accesses.

    A loop that gets a buffer gets a block without a name around its body.
    """
    locator = _Locator(func)
    return func.with_body(locator.visit(func.body)) if locator.at else func
