"""InjectVirtualThread: virtual threads become loops around what depends on them.

The loop over a virtual thread is as deep inside as it can be: around each statement that depends
on the thread. Memory that differs between threads gets a part for each.
"""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import div, multiply
from tvmagic.ir.query import is_access_ptr, is_call
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import convert_ssa

MAX_UNROLLED = 16


class _Reads(ir.Visitor):
    """The variables and pointers that an expression reads, and the pointers it writes through."""

    def __init__(self) -> None:
        self.read: dict[ir.Var, None] = {}
        self.written: dict[ir.Var, None] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.read[var] = None

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.read[node.buffer.data] = None
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if not is_access_ptr(node):
            self.visit_children(node)
            return
        mask = int(node.args[4])
        if mask & 1:
            self.read[node.args[1]] = None
        if mask & 2:
            self.written[node.args[1]] = None
        self.visit(node.args[2])


class _Dependents(ir.StmtVisitor):
    """Which variables and buffers get their value from which others.

    What decides whether a statement runs, or how often, runs it once for each thread. That makes no difference to memory
    that is set; what is added to has to be the thread's own.
    """

    def __init__(self, thread: ir.Var) -> None:
        self.thread = thread
        self.feeds: dict[ir.Var, list[ir.Var]] = {}
        self.inside: set[ir.Var] = set()  # memory that is allocated here
        self.control: list[ir.PrimExpr] = []

    def _record(self, target: ir.Var, *sources: ir.PrimExpr) -> None:
        reads = _Reads()
        for source in sources:
            reads.visit(source)
        if target in reads.read and target in self.inside:
            for source in self.control:
                reads.visit(source)
        for var in reads.read:
            if var is not target:
                self.feeds.setdefault(var, []).append(target)

    def _under(self, body: ir.Stmt, *control: ir.PrimExpr) -> None:
        count = len(self.control)
        self.control += control
        self.visit(body)
        del self.control[count:]

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        self._record(node.var, node.value)
        self.visit(node.body)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self._record(node.buffer.data, node.value, *node.indices)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self._record(node.loop_var, node.min, node.extent)
        self._under(node.body, node.min, node.extent)

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> None:
        self._under(node.body, self.thread)  # the whole loop runs once a thread

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self._under(node.then_case, node.condition)
        if node.else_case is not None:
            self._under(node.else_case, node.condition)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        self._record(node.buffer_var, *node.extents, node.condition)
        self.inside.add(node.buffer_var)
        self.visit(node.body)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        reads = _Reads()
        reads.visit(node.value)
        for target in reads.written:
            self._record(target, node.value)


def dependents(stmt: ir.Stmt, var: ir.Var) -> set[ir.Var]:
    """`var` and the variables and pointers whose values depend on it in `stmt`."""
    visitor = _Dependents(var)
    visitor.visit(stmt)
    found, pending = {var}, [var]
    while pending:
        for target in visitor.feeds.get(pending.pop(), ()):
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


class _ThreadInjector(ir.Mutator):
    """Puts the loop over one virtual thread around the statements that depend on it."""

    def __init__(self, var: ir.Var, threads: int, touched: set[ir.Var], share: bool) -> None:
        self.thread, self.threads, self.touched, self.share = var, threads, touched, share
        self.injected = False  # inside the loop over the threads
        self.depends = False  # the expression just visited depends on the thread
        self.effect = False  # a statement with an effect was visited, which runs once a thread
        self.has_loop = False  # whether there is a loop in what was visited last
        self.strides: dict[ir.Var, ir.PrimExpr] = {}
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}
        self.analyzer = Analyzer()

    def visit(self, node: Any) -> Any:
        new = super().visit(node)
        if isinstance(node, ir.Stmt) and (self.depends or self.effect) and not self.injected:
            return self._for_each_thread(new)
        return new

    def inject(self, stmt: ir.Stmt) -> ir.Stmt:
        """The loop over the threads around a statement that is not visited yet."""
        self.injected = True
        new = self.visit(stmt)
        self.injected = False
        return self._for_each_thread(new)

    def _for_each_thread(self, stmt: ir.Stmt) -> ir.Stmt:
        self.depends = self.effect = False
        if not self.has_loop and self.threads < MAX_UNROLLED:
            values = [ir.IntImm(self.thread.dtype, i) for i in range(self.threads)]
            return ir.SeqStmt.flatten(*[ir.substitute(stmt, {self.thread: value}) for value in values])
        var = ir.Var(self.thread.name + ".s", self.thread.dtype)
        body = ir.substitute(stmt, {self.thread: var})
        return ir.For(var, 0, ir.IntImm(var.dtype, self.threads), ir.ForKind.SERIAL, body, span=stmt.span)

    def _must_inject(self) -> bool:
        return self.depends and not self.injected

    # ------------------------------------------------------------------ expressions

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.Var:
        if var in self.touched:
            self.depends = True
        return var

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> ir.PrimExpr:
        if is_call(node, "tir.tvm_context_id"):
            return node if self.share else self.thread
        if not is_access_ptr(node) or node.args[1] not in self.strides:
            return self.visit_children(node)
        self.depends = True
        kind, pointer, offset, extent, mask = node.args
        stride = div(self.strides[pointer], ir.IntImm(offset.dtype, kind.dtype.lanes))
        offset = stride * self.thread + self.visit(offset)
        return node.replace(args=(kind, pointer, offset, self.visit(extent), mask))

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        data = node.buffer.data
        if data in self.touched:
            self.depends = True
        if isinstance(node, ir.BufferStore):
            self.effect = not self.share
        stride = self.strides.get(data)
        if stride is None:
            return new
        last = self._shifted(new.indices[-1], self.thread * stride)
        return new.replace(buffer=self._widened(node.buffer), indices=(*new.indices[:-1], last))

    def _shifted(self, index: ir.PrimExpr, by: ir.PrimExpr) -> ir.PrimExpr:
        """`index + by`, simplified: a dense vector stays one."""
        return self.analyzer.simplify(index + by)

    def _widened(self, buffer: ir.Buffer) -> ir.Buffer:
        new = self.buffers.get(buffer)
        if new is None:
            shape = (*buffer.shape[:-1], multiply(buffer.shape[-1], self.threads))
            new = self.buffers[buffer] = buffer.replace(shape=shape)
        return new

    # ------------------------------------------------------------------ statements

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        self.effect = not self.share
        return self.visit_children(node)

    @ir.handles(ir.AttrStmt, ir.LetStmt)
    def around(self, node: Any) -> ir.Stmt:
        value = self.visit(node.value)
        if self._must_inject():
            return self.inject(node)
        body = self.visit(node.body)
        return node.with_(value=value, body=body)

    @ir.handles(ir.AssertStmt)
    def assertion(self, node: ir.AssertStmt) -> ir.Stmt:
        condition = self.visit(node.condition)
        if self._must_inject():
            return self.inject(node)
        return node.with_(condition=condition, body=self.visit(node.body))

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        body = self.visit(node.body)
        buffer = self._widened(node.buffer) if node.buffer.data in self.strides else node.buffer
        return node.with_(buffer=buffer, body=body)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        if self._must_inject():
            return self.inject(node)
        body = self.visit(node.body)
        self.has_loop = True
        return node.with_(min=low, extent=extent, body=body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(node.condition)
        if self._must_inject():
            return self.inject(node)
        then_case = self._visit_apart(node.then_case)
        else_case = None if node.else_case is None else self._visit_apart(node.else_case)
        return node.with_(condition=condition, then_case=then_case, else_case=else_case)

    def _visit_apart(self, node: ir.Stmt) -> ir.Stmt:
        before, self.has_loop = self.has_loop, False
        new = self.visit(node)
        self.has_loop |= before
        return new

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        parts = ir.mutate_all(self._visit_apart, node.seq)
        return node if parts is node.seq else ir.SeqStmt.flatten(*parts)

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> ir.Stmt:
        # its condition may read what the threads write: the whole loop runs once a thread
        if not self.injected:
            return self.inject(node)
        self.has_loop = True
        return self.visit_children(node)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        condition, extents = self.visit(node.condition), ir.mutate_all(self.visit, node.extents)
        if self._must_inject():
            return self.inject(node)
        if node.buffer_var in self.touched or not self.share:
            if len(extents) != 1:
                raise TVMagicError(
                    f"`{node.buffer_var.name}` differs between virtual threads and is not flat",
                    node=node,
                    hint="run StorageFlatten or FlattenBuffer first",
                    code="tir.virtual_thread.not_flat",
                )
            self.strides[node.buffer_var] = extents[0]
            extents = (multiply(extents[0], self.threads),)
        body = self.visit(node.body)
        return node.with_(condition=condition, extents=extents, body=body)


class _VirtualThreads(ir.StmtMutator):
    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        new = self.visit_children(node)
        if node.attr_key != "virtual_thread" or not isinstance(node.node, ir.IterVar):
            return new
        if not isinstance(new.value, ir.IntImm):
            raise TVMagicError(
                f"virtual thread `{node.node.var.name}` has no constant extent",
                node=node,
                code="tir.virtual_thread.symbolic_extent",
            )
        var = node.node.var
        share = node.node.thread_tag.startswith("vthread")
        injector = _ThreadInjector(var, new.value.value, dependents(new.body, var), share)
        return injector.visit(new.body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        new = self.visit_children(node)
        if not isinstance(new.condition, ir.IntImm):
            return new
        taken = new.then_case if new.condition.value else new.else_case
        return taken if taken is not None else ir.Evaluate(0, node.span)


@tir_pass("tir.InjectVirtualThread")
def InjectVirtualThread(func: ir.PrimFunc) -> ir.PrimFunc:
    """Run virtual threads one after the other: in a loop, or written out where they are few."""
    body = _VirtualThreads().visit(func.body)
    return func if body is func.body else func.with_body(convert_ssa(body))
