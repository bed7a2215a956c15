"""InjectDoubleBuffer: a buffer is filled for the next iteration while the last one is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    IntImm,
    Mutator,
    PrimExpr,
    PrimFunc,
    SeqStmt,
    Stmt,
    StmtMutator,
    Var,
    Visitor,
    handles,
    substitute,
)
from tvmagic.ir.ops import div, floormod, less
from tvmagic.passes import IRModule, Pass, PassContext, note, prim_func_pass
from tvmagic.tir.transform.config import pass_options
from tvmagic.tir.transform.convert_ssa import convert_ssa

OPTIONS = {"split_loop": 1}


class _Detector(Visitor):
    """The buffers to double: asked for, and accessed by loads and stores alone."""

    def __init__(self) -> None:
        self.found: set[Var] = set()

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if node.attr_key == "double_buffer_scope" and isinstance(node.node, Var):
            self.found.add(node.node)
        self.visit_children(node)

    @handles(Var)
    def var(self, var: Var) -> None:
        self.found.discard(var)


@dataclass
class _Doubled:
    """One buffer: its size, the loop whose iterations alternate, which half is written and read."""

    size: PrimExpr | None = None
    loop: For | None = None
    write: PrimExpr | None = None
    read: PrimExpr | None = None


class _WriteMarkRemover(StmtMutator):
    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        return self.visit(node.body) if node.attr_key == "double_buffer_write" else self.visit_children(node)


class _Injector(Mutator):
    def __init__(self, doubled: set[Var], split: int) -> None:
        self.doubled = {var: _Doubled() for var in doubled}
        self.split = split
        self.loops: list[For] = []
        self.first_fill: dict[For, list[Stmt]] = {}
        self.allocations: dict[For, list[Callable[[Stmt], Stmt]]] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "double_buffer_scope":
            return self.visit_children(node)
        state = self.doubled.get(node.node)
        if state is None:
            note("double_buffer.skipped", "the buffer is used other than by loads and stores", node=node)
            return self.visit(node.body)
        if not self.loops:
            raise TVMagicError(f"the double buffer `{node.node.name}` stands in no loop", node=node)
        state.loop = loop = self.loops[-1]
        var = loop.loop_var
        later = var + IntImm(var.dtype, 1)
        half = Var(var.name + ".db", var.dtype)
        state.write, state.read = half, floormod(var, IntImm(var.dtype, 2))
        body = self.visit(node.body)
        zero = IntImm(var.dtype, 0)
        self.first_fill.setdefault(loop, []).append(substitute(body, {half: zero, var: zero}))
        body = substitute(body, {half: floormod(later, IntImm(var.dtype, 2)), var: later})
        body = AttrStmt(node.node, "double_buffer_write", 1, body, node.span)
        return IfThenElse(less(later, loop.extent), body, span=node.span)

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
        state = self.doubled.get(node.buffer_var)
        if state is None:
            return self.visit_children(node)
        if len(node.extents) != 1:
            raise TVMagicError(f"the double buffer `{node.buffer_var.name}` is not flat", node=node)
        state.size = node.extents[0]
        new = self.visit_children(node)
        if state.loop is None:
            return new
        nest = self.allocations.setdefault(state.loop, [])
        size = new.extents[0] * IntImm(new.extents[0].dtype, 2)
        nest.append(lambda body: new.replace(extents=(size,), body=body))
        inner = new.body
        if isinstance(inner, DeclBuffer):
            buffer = self._widened(inner.buffer, state)
            nest.append(lambda body: DeclBuffer(buffer, body, inner.span))
            inner = inner.body
        return inner

    def _widened(self, buffer: Buffer, state: _Doubled) -> Buffer:
        new = self.buffers.get(buffer)
        if new is None:
            new = self.buffers[buffer] = buffer.replace(shape=(buffer.shape[0] + state.size,))
        return new

    @handles(BufferLoad, BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        state = self.doubled.get(node.buffer.data)
        if state is None:
            return new
        half = state.write if isinstance(node, BufferStore) else state.read
        if half is None or state.size is None:
            raise TVMagicError(f"the double buffer `{node.buffer.name}` is used outside of its loop", node=node)
        return new.replace(buffer=self._widened(node.buffer, state), indices=(half * state.size + new.indices[0],))

    @handles(For)
    def loop(self, node: For) -> Stmt:
        self.loops.append(node)
        stmt: Stmt = self.visit_children(node)
        self.loops.pop()
        if node in self.first_fill:
            assert isinstance(stmt, For)
            if self.split:
                stmt = self._split(stmt)
            stmt = SeqStmt.flatten(*self.first_fill[node], stmt)
        for wrap in reversed(self.allocations.get(node, ())):
            stmt = wrap(stmt)
        return stmt

    def _split(self, loop: For) -> Stmt:
        """The loop without its last iteration, split, and the rest without a fill for a next one."""
        var, count = loop.loop_var, self.split
        factor = IntImm(var.dtype, count)
        outer_extent = div(loop.extent - IntImm(var.dtype, 1), factor)
        outer = Var(var.name + ".outer", var.dtype)
        parts = [substitute(loop.body, {var: outer * factor + IntImm(var.dtype, i)}) for i in range(count)]
        main = loop.replace(loop_var=outer, extent=outer_extent, body=SeqStmt.flatten(*parts), annotations={})
        last = _WriteMarkRemover().visit(loop.body)
        tail: list[Stmt] = []
        for i in range(count):
            index = outer_extent * factor + IntImm(var.dtype, i)
            tail.append(IfThenElse(less(index, loop.extent), substitute(last, {var: index}), span=loop.span))
        return SeqStmt.flatten(main, *tail)


def InjectDoubleBuffer() -> Pass:
    """Give the buffers that ask for it two halves, one filled while the other is read.

    The option `split_loop` under `tir.InjectDoubleBuffer` is the factor to split the loop by: 0, 1
    or an even number.
    """

    def run(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        split = int(pass_options(context, "tir.InjectDoubleBuffer", OPTIONS)["split_loop"])
        if split != 1 and split % 2:
            raise TVMagicError("`split_loop` of `tir.InjectDoubleBuffer` is 0, 1 or an even number")
        detector = _Detector()
        detector.visit(func.body)
        if not detector.found:
            return func
        return func.with_body(convert_ssa(_Injector(detector.found, split).visit(func.body)))

    return prim_func_pass(run, 0, "tir.InjectDoubleBuffer")
