"""InjectPrefetch and TextureFlatten: the two passes that are before storage is flattened."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.flatten_buffer import from_legacy_te_schedule


class _PrefetchInjector(ir.StmtMutator):
    """Writes a prefetch of what the innermost loop reads some iterations later."""

    def __init__(self) -> None:
        self.loops: list[Any] = []
        self.vectors: dict[Any, Any] = {}

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        from tvmagic.arith.int_set import IntervalSet

        self.loops.append(node.loop_var)
        if node.kind is ir.ForKind.VECTORIZED:
            self.vectors[node.loop_var] = IntervalSet(node.min, node.min + node.extent - 1)
        new = self.visit_children(node)
        self.vectors.pop(node.loop_var, None)
        self.loops.pop()
        return new

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        new = self.visit_children(node)
        if node.attr_key != "prefetch_scope" or not isinstance(node.node, ir.Buffer):
            return new
        if not self.loops:
            raise TVMagicError(
                f"the prefetch of `{node.node.name}` is in no loop",
                node=node,
                hint="prefetch at a loop of its reader",
                code="tir.inject_prefetch.no_loop",
            )
        from tvmagic.arith.domain_touched import domain_touched
        from tvmagic.arith.int_set_eval import eval_set

        region = domain_touched(new.body, node.node, True, False)
        if not region and node.node.shape:
            note("prefetch.unread", f"`{node.node.name}` is not read, so nothing is prefetched", node=node)
            return new.body
        loop = self.loops[-1]
        lanes = {var: domain for var, domain in self.vectors.items() if var is not loop}
        box: list[ir.Range] = []
        for part in region:
            if part is None:
                note("prefetch.unknown", f"what is read of `{node.node.name}` is not known", node=node)
                return new.body
            touched = eval_set(ir.substitute(part, {loop: loop + new.value}), lanes)
            box.append(ir.Range.from_min_extent(touched.min_value, touched.max_value - touched.min_value + 1))
        return ir.SeqStmt.flatten(ir.Prefetch(node.node, box, node.span), new.body)


class _ExternRealizeRemover(ir.StmtMutator):
    """Parameters have memory already: their realizations go."""

    def __init__(self, func: ir.PrimFunc) -> None:
        self.external = set(func.buffer_map.values())

    @ir.handles(ir.BufferRealize)
    def realize(self, node: ir.BufferRealize) -> ir.Stmt:
        return self.visit(node.body) if node.buffer in self.external else self.visit_children(node)


@tir_pass("tir.InjectPrefetch")
def InjectPrefetch(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write the prefetches that a TE schedule asks for."""
    if not from_legacy_te_schedule(func):
        return func
    return func.with_body(_PrefetchInjector().visit(func.body))


@tir_pass("tir.TextureFlatten")
def TextureFlatten(func: ir.PrimFunc) -> ir.PrimFunc:
    """Take away the realizations of parameters; textures do not exist on the targets here."""
    return func.with_body(_ExternRealizeRemover(func).visit(func.body))
