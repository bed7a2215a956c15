"""InjectDoubleBuffer: a buffer is filled for the next iteration while the last one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import div, floormod, less
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import convert_ssa
from tvmagic.tir.transform.use_def import mentions

OPTIONS = {"split_loop": 1}


@dataclass(eq=False)
class _Fill:
    """A statement that fills double buffers, all of them in one go, in each iteration of `loop`."""

    buffers: tuple[ir.Var, ...]
    body: ir.Stmt
    loop: ir.For | None
    # what lies between the loop and the statement: whether it runs in each iteration, whether threads are launched
    guarded: bool = False
    launched: bool = False
    refusal: str | None = None


def _fill_of(node: ir.AttrStmt) -> tuple[tuple[ir.Var, ...], ir.Stmt]:
    """The buffers that nested marks ask to double, and the statement that fills them."""
    buffers: list[ir.Var] = []
    body: ir.Stmt = node
    while isinstance(body, ir.AttrStmt) and body.attr_key == "double_buffer_scope" and isinstance(body.node, ir.Var):
        buffers.append(body.node)
        body = body.body
    return tuple(buffers), body


class _Uses(ir.Visitor):
    """The variables, loads and stores of a statement; what it defines; leaves `skip` out."""

    def __init__(self, skip: ir.Stmt | None = None) -> None:
        self.skip = skip
        self.variables: set[ir.Var] = set()
        self.defined: set[ir.Var] = set()
        self.loaded: set[ir.Var] = set()
        self.stored: set[ir.Var] = set()

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        if node is not self.skip:
            self.visit_children(node)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.variables.add(var)

    def visit_var_def(self, var: ir.Var) -> ir.Var:
        self.defined.add(var)
        return var

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loaded.add(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        if node is not self.skip:
            self.stored.add(node.buffer.data)
            self.visit_children(node)


class _Detector(ir.Visitor):
    """The buffers to double: asked for, accessed by loads and stores alone, and possible to fill ahead."""

    def __init__(self) -> None:
        self.fills: list[_Fill] = []
        self.pointers: set[ir.Var] = set()
        self.sizes: dict[ir.Var, ir.PrimExpr] = {}
        self.loops: dict[ir.Var, ir.For | None] = {}  # by buffer: the loop around its allocation
        self.loop_around: ir.For | None = None
        self.guarded = self.launched = False

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        outer = self.loop_around, self.guarded, self.launched
        self.loop_around, self.guarded, self.launched = node, False, False
        self.visit_children(node)
        self.loop_around, self.guarded, self.launched = outer

    @ir.handles(ir.IfThenElse, ir.While)
    def branch(self, node: ir.Stmt) -> None:
        outer, self.guarded = self.guarded, True
        self.visit_children(node)
        self.guarded = outer

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> None:
        self.sizes[node.buffer_var] = node.extents[0]
        self.loops[node.buffer_var] = self.loop_around
        self.visit_children(node)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key != "double_buffer_scope" or not isinstance(node.node, ir.Var):
            outer = self.launched
            self.launched = outer or node.attr_key in ("thread_extent", "virtual_thread")
            self.visit_children(node)
            self.launched = outer
            return
        buffers, body = _fill_of(node)
        self.fills.append(_Fill(buffers, body, self.loop_around, self.guarded, self.launched))
        self.visit(body)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        self.pointers.add(var)

    def found(self) -> dict[ir.Var, _Fill]:
        """The buffers to double, each with what fills it; what cannot be doubled says why in a note."""
        result: dict[ir.Var, _Fill] = {}
        for fill in self.fills:
            reason = self._refusal(fill)
            if reason is None:
                result.update(dict.fromkeys(fill.buffers, fill))
            else:
                names = ", ".join(f"`{b.name}`" for b in fill.buffers)
                note("double_buffer.skipped", f"{names} is not doubled: {reason}", node=fill.body)
        return result

    def _refusal(self, fill: _Fill) -> str | None:
        """Why the buffers cannot be filled one iteration ahead; None if they can."""
        if any(b in self.pointers for b in fill.buffers):
            return "it is used other than by loads and stores"
        loop = fill.loop
        if loop is None:
            return None
        if any(self.loops.get(b, loop) is not loop for b in fill.buffers):
            return f"it is allocated outside loop `{loop.loop_var.name}`, whose iterations fill it"
        if fill.guarded:
            return "not every iteration fills it"
        if fill.launched:
            return f"the threads that fill it are launched inside loop `{loop.loop_var.name}`"
        if loop.kind in (ir.ForKind.PARALLEL, ir.ForKind.VECTORIZED, ir.ForKind.THREAD_BINDING):
            return f"the iterations of `{loop.loop_var.name}` do not run one after the other"
        if not (isinstance(loop.min, ir.IntImm) and loop.min.value == 0):
            return f"loop `{loop.loop_var.name}` does not begin at 0"
        inside, rest = _Uses(), _Uses(fill.body)
        inside.visit(fill.body)
        rest.visit(loop.body)
        own = {loop.loop_var} | rest.defined
        for buffer in fill.buffers:
            if mentions(self.sizes.get(buffer, loop.extent), own):
                return "its size differs from iteration to iteration"
        if inside.variables & (rest.defined - set(fill.buffers)) or inside.loaded & rest.defined:
            return "what fills it needs what the iteration computes before"
        own_stores = inside.stored - inside.defined
        accessed = inside.loaded | own_stores
        if (
            accessed & (rest.stored | rest.variables)
            or inside.variables & rest.stored
            or own_stores - set(fill.buffers)
        ):
            return "what fills it depends on what the iteration stores"
        return None


@dataclass
class _Doubled:
    """One buffer: its size, the loop whose iterations alternate, which half is written and read."""

    size: ir.PrimExpr | None = None
    loop: ir.For | None = None
    write: ir.PrimExpr | None = None
    read: ir.PrimExpr | None = None


class _WriteMarkRemover(ir.StmtMutator):
    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        return self.visit(node.body) if node.attr_key == "double_buffer_write" else self.visit_children(node)


class _Injector(ir.Mutator):
    def __init__(self, doubled: Iterable[ir.Var], split: int) -> None:
        self.doubled = {var: _Doubled() for var in doubled}
        self.analyzer = Analyzer()
        self.split = split
        self.loops: list[ir.For] = []
        self.first_fill: dict[ir.For, list[ir.Stmt]] = {}
        self.allocations: dict[ir.For, list[Callable[[ir.Stmt], ir.Stmt]]] = {}
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key != "double_buffer_scope":
            return self.visit_children(node)
        buffers, fill = _fill_of(node)
        if buffers[0] not in self.doubled:
            return self.visit(fill)
        if not self.loops:
            raise TVMagicError(
                f"the double buffer `{buffers[0].name}` is in no loop",
                node=node,
                hint="compute it at a loop of its reader: one half is filled as the other is read",
                code="tir.double_buffer.no_loop",
            )
        loop = self.loops[-1]
        var = loop.loop_var
        later = var + ir.IntImm(var.dtype, 1)
        half = ir.Var(var.name + ".db", var.dtype)
        for buffer in buffers:
            state = self.doubled[buffer]
            state.loop, state.write, state.read = loop, half, floormod(var, ir.IntImm(var.dtype, 2))
        body = self.visit(fill)
        zero = ir.IntImm(var.dtype, 0)
        self.first_fill.setdefault(loop, []).append(ir.substitute(body, {half: zero, var: zero}))
        body = ir.substitute(body, {half: floormod(later, ir.IntImm(var.dtype, 2)), var: later})
        for buffer in reversed(buffers):
            body = ir.AttrStmt(buffer, "double_buffer_write", 1, body, node.span)
        return ir.IfThenElse(less(later, loop.extent), body, span=node.span)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        state = self.doubled.get(node.buffer_var)
        if state is None:
            return self.visit_children(node)
        if len(node.extents) != 1:
            raise TVMagicError(
                f"the double buffer `{node.buffer_var.name}` is not flat", node=node, code="tir.double_buffer.not_flat"
            )
        state.size = node.extents[0]
        new = self.visit_children(node)
        if state.loop is None:
            return new
        nest = self.allocations.setdefault(state.loop, [])
        size = new.extents[0] * ir.IntImm(new.extents[0].dtype, 2)
        nest.append(lambda body: new.replace(extents=(size,), body=body))
        inner = new.body
        if isinstance(inner, ir.DeclBuffer):
            buffer = self._widened(inner.buffer, state)
            nest.append(lambda body: ir.DeclBuffer(buffer, body, inner.span))
            inner = inner.body
        return inner

    def _widened(self, buffer: ir.Buffer, state: _Doubled) -> ir.Buffer:
        new = self.buffers.get(buffer)
        if new is None:
            new = self.buffers[buffer] = buffer.replace(shape=(buffer.shape[0] + state.size,))
        return new

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        new = self.visit_children(node)
        state = self.doubled.get(node.buffer.data)
        if state is None:
            return new
        half = state.write if isinstance(node, ir.BufferStore) else state.read
        if half is None or state.size is None:
            raise TVMagicError(
                f"the double buffer `{node.buffer.name}` is used outside its loop",
                node=node,
                code="tir.double_buffer.used_outside_loop",
            )
        return new.replace(buffer=self._widened(node.buffer, state), indices=(half * state.size + new.indices[0],))

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        self.loops.append(node)
        stmt: ir.Stmt = self.visit_children(node)
        self.loops.pop()
        if node in self.first_fill:
            assert isinstance(stmt, ir.For)
            whole = self._split(stmt) if self.split else stmt
            whole = ir.SeqStmt.flatten(*self.first_fill[node], whole)
            # the first fill and the last iteration are there once, if there is an iteration
            runs = less(ir.IntImm(node.extent.dtype, 0), node.extent)
            stmt = whole if self.analyzer.can_prove(runs) else ir.IfThenElse(runs, whole, span=node.span)
        for wrap in reversed(self.allocations.get(node, ())):
            stmt = wrap(stmt)
        return stmt

    def _split(self, loop: ir.For) -> ir.Stmt:
        """The loop without its last iteration, split, and the rest without a fill for a next one."""
        var, count = loop.loop_var, self.split
        factor = ir.IntImm(var.dtype, count)
        outer_extent = div(loop.extent - ir.IntImm(var.dtype, 1), factor)
        outer = ir.Var(var.name + ".outer", var.dtype)
        parts = [ir.substitute(loop.body, {var: outer * factor + ir.IntImm(var.dtype, i)}) for i in range(count)]
        main = loop.replace(loop_var=outer, extent=outer_extent, body=ir.SeqStmt.flatten(*parts), annotations={})
        last = _WriteMarkRemover().visit(loop.body)
        tail: list[ir.Stmt] = []
        for i in range(count):
            index = outer_extent * factor + ir.IntImm(var.dtype, i)
            tail.append(ir.IfThenElse(less(index, loop.extent), ir.substitute(last, {var: index}), span=loop.span))
        return ir.SeqStmt.flatten(main, *tail)


@tir_pass("tir.InjectDoubleBuffer", OPTIONS)
def InjectDoubleBuffer(func: ir.PrimFunc, *, options: dict[str, Any]) -> ir.PrimFunc:
    """Give the buffers that ask for it two halves, one filled while the other is read.

    The option `split_loop` under `tir.InjectDoubleBuffer` is the factor to split the loop by: 0, 1
    or an even number.
    """
    split = int(options["split_loop"])
    if split != 1 and split % 2:
        raise TVMagicError(
            "`split_loop` of `tir.InjectDoubleBuffer` is 0, 1 or an even number",
            code="tir.double_buffer.wrong_split_loop",
        )
    detector = _Detector()
    detector.visit(func.body)
    if not detector.fills:
        return func
    return func.with_body(convert_ssa(_Injector(detector.found(), split).visit(func.body)))
