"""ManifestSharedMemoryLocalStage: what goes to shared memory is loaded into registers first."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import is_zero
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass

_KEY = "tir.manifest_shared_memory_local_stage"


@tir_pass("tir.ManifestSharedMemoryLocalStage")
def ManifestSharedMemoryLocalStage(func: ir.PrimFunc) -> ir.PrimFunc:
    """Divide copies into shared memory in two: all loads into registers, then all stores.

    They are the blocks with the annotation `tir.manifest_shared_memory_local_stage`; the loads of a thread are then in
    flight at one time. Blocks bind no variables (ConvertBlocksToOpaque), and such a block is one store. Raises
    `TVMagicError` for others.
    """
    stages = _Stages()
    body = stages.visit(func.body)
    if stages.pending:
        missing = stages.pending[0][0].name
        raise TVMagicError(
            f"no block around the copy allocates `{missing}`",
            hint="only memory of a block is staged",
            code="tir.local_stage.no_allocation",
        )
    return func.with_body(body)


class _Stages(ir.StmtMutator):
    def __init__(self) -> None:
        self.loops: list[ir.For] = []  # around the statement at hand: those that no block or thread is between
        self.loading: list[ir.Stmt] = []  # the first halves, which go in front of these loops
        self.pending: list[
            tuple[ir.Buffer, ir.Buffer]
        ] = []  # buffers and their registers, which no block allocates yet

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        if node.kind is ir.ForKind.THREAD_BINDING:
            return self._visit_alone(node)
        self.loops.append(node)
        new = self.visit_children(node)
        self.loops.pop()
        return self._with_loads(new)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.Stmt:
        if node.block.annotations.get(_KEY) is None:
            return self._visit_alone(node)
        note("stage", f"the block `{node.block.name_hint}` loads before it stores", node=node)
        return self._with_loads(self._divided(node))

    def _visit_alone(self, node: ir.Stmt) -> ir.Stmt:
        loops, self.loops = self.loops, []
        new = self.visit_children(node)
        self.loops = loops
        return new

    def _with_loads(self, stmt: ir.Stmt) -> ir.Stmt:
        """The statement behind what was loaded for it, unless more loops are around both."""
        if self.loops or not self.loading:
            return stmt
        loading, self.loading = self.loading, []
        return ir.SeqStmt.flatten(*loading, stmt)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        new = self.visit_children(node)
        registers = [own for target, own in self.pending if any(target is b for b in node.alloc_buffers)]
        if not registers:
            return new
        self.pending = [(target, own) for target, own in self.pending if own not in registers]
        return new.replace(alloc_buffers=(*new.alloc_buffers, *registers))

    def _divided(self, node: ir.BlockRealize) -> ir.Stmt:
        """The block with its value taken from registers; its first half is kept for the place before the loops."""
        block, store = node.block, node.block.body
        if node.iter_values or not isinstance(store, ir.BufferStore):
            wrong = "binds variables" if node.iter_values else "is not one store"
            raise TVMagicError(
                f"the block `{block.name_hint}` is to load before it stores, but {wrong}",
                node=node,
                hint="run ConvertBlocksToOpaque before" if node.iter_values else "annotate a copy",
                code="tir.local_stage.not_divisible",
            )
        own = ir.decl_buffer(
            [loop.extent for loop in self.loops], store.buffer.dtype, f"{store.buffer.name}_local", scope="local"
        )
        self.pending.append((store.buffer, own))
        place: tuple[ir.PrimExpr, ...] = tuple(
            loop.loop_var if is_zero(loop.min) else loop.loop_var - loop.min for loop in self.loops
        )
        point = ir.BufferRegion(own, tuple(ir.Range.from_min_extent(index, 1) for index in place))
        load = ir.Block((), block.reads, (point,), "", ir.BufferStore(own, store.value, place))
        self.loading.append(self._repeated(node.replace(block=load)))
        left = {key: value for key, value in block.annotations.items() if key != _KEY}
        body = store.replace(value=ir.BufferLoad(own, place))
        return node.replace(block=block.replace(reads=(point,), body=body, annotations=left))

    def _repeated(self, stmt: ir.Stmt) -> ir.Stmt:
        """The statement in loops of its own like those around."""
        for loop in reversed(self.loops):
            var = ir.Var(loop.loop_var.name, loop.loop_var.dtype)
            stmt = loop.replace(loop_var=var, body=ir.substitute(stmt, {loop.loop_var: var}))
        return stmt
