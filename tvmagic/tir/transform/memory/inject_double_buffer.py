"""InjectDoubleBuffer: a buffer is filled for the next iteration while the last one is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
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
    While,
    handles,
    substitute,
)
from tvmagic.ir.ops import div, floormod, less
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.expressions.convert_ssa import convert_ssa
from tvmagic.tir.transform.use_def import mentions

OPTIONS = {"split_loop": 1}


@dataclass(eq=False)
class _Fill:
    """A statement that fills double buffers, all of them in one go, in each iteration of `loop`."""

    buffers: tuple[Var, ...]
    body: Stmt
    loop: For | None
    # what lies between the loop and the statement: whether it runs in each iteration, whether threads are launched
    guarded: bool = False
    launched: bool = False
    refusal: str | None = None


def _fill_of(node: AttrStmt) -> tuple[tuple[Var, ...], Stmt]:
    """The buffers that nested marks ask to double, and the statement that fills them."""
    buffers: list[Var] = []
    body: Stmt = node
    while isinstance(body, AttrStmt) and body.attr_key == "double_buffer_scope" and isinstance(body.node, Var):
        buffers.append(body.node)
        body = body.body
    return tuple(buffers), body


class _Uses(Visitor):
    """The variables, loads and stores of a statement; what it defines; leaves `skip` out."""

    def __init__(self, skip: Stmt | None = None) -> None:
        self.skip = skip
        self.variables: set[Var] = set()
        self.defined: set[Var] = set()
        self.loaded: set[Var] = set()
        self.stored: set[Var] = set()

    @handles(Stmt)
    def statement(self, node: Stmt) -> None:
        if node is not self.skip:
            self.visit_children(node)

    @handles(Var)
    def var(self, var: Var) -> None:
        self.variables.add(var)

    def visit_var_def(self, var: Var) -> Var:
        self.defined.add(var)
        return var

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.loaded.add(node.buffer.data)
        self.visit_children(node)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        if node is not self.skip:
            self.stored.add(node.buffer.data)
            self.visit_children(node)


class _Detector(Visitor):
    """The buffers to double: asked for, accessed by loads and stores alone, and possible to fill ahead."""

    def __init__(self) -> None:
        self.fills: list[_Fill] = []
        self.pointers: set[Var] = set()
        self.sizes: dict[Var, PrimExpr] = {}
        self.loops: dict[Var, For | None] = {}  # by buffer: the loop around its allocation
        self.loop_around: For | None = None
        self.guarded = self.launched = False

    @handles(For)
    def loop(self, node: For) -> None:
        outer = self.loop_around, self.guarded, self.launched
        self.loop_around, self.guarded, self.launched = node, False, False
        self.visit_children(node)
        self.loop_around, self.guarded, self.launched = outer

    @handles(IfThenElse, While)
    def branch(self, node: Stmt) -> None:
        outer, self.guarded = self.guarded, True
        self.visit_children(node)
        self.guarded = outer

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        self.sizes[node.buffer_var] = node.extents[0]
        self.loops[node.buffer_var] = self.loop_around
        self.visit_children(node)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        if node.attr_key != "double_buffer_scope" or not isinstance(node.node, Var):
            outer = self.launched
            self.launched = outer or node.attr_key in ("thread_extent", "virtual_thread")
            self.visit_children(node)
            self.launched = outer
            return
        buffers, body = _fill_of(node)
        self.fills.append(_Fill(buffers, body, self.loop_around, self.guarded, self.launched))
        self.visit(body)

    @handles(Var)
    def var(self, var: Var) -> None:
        self.pointers.add(var)

    def found(self) -> dict[Var, _Fill]:
        """The buffers to double, each with what fills it; what cannot be doubled says why in a note."""
        result: dict[Var, _Fill] = {}
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
        if loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING):
            return f"the iterations of `{loop.loop_var.name}` do not run one after the other"
        if not (isinstance(loop.min, IntImm) and loop.min.value == 0):
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

    size: PrimExpr | None = None
    loop: For | None = None
    write: PrimExpr | None = None
    read: PrimExpr | None = None


class _WriteMarkRemover(StmtMutator):
    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
        return self.visit(node.body) if node.attr_key == "double_buffer_write" else self.visit_children(node)


class _Injector(Mutator):
    def __init__(self, doubled: Iterable[Var], split: int) -> None:
        self.doubled = {var: _Doubled() for var in doubled}
        self.analyzer = Analyzer()
        self.split = split
        self.loops: list[For] = []
        self.first_fill: dict[For, list[Stmt]] = {}
        self.allocations: dict[For, list[Callable[[Stmt], Stmt]]] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Stmt:
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
        later = var + IntImm(var.dtype, 1)
        half = Var(var.name + ".db", var.dtype)
        for buffer in buffers:
            state = self.doubled[buffer]
            state.loop, state.write, state.read = loop, half, floormod(var, IntImm(var.dtype, 2))
        body = self.visit(fill)
        zero = IntImm(var.dtype, 0)
        self.first_fill.setdefault(loop, []).append(substitute(body, {half: zero, var: zero}))
        body = substitute(body, {half: floormod(later, IntImm(var.dtype, 2)), var: later})
        for buffer in reversed(buffers):
            body = AttrStmt(buffer, "double_buffer_write", 1, body, node.span)
        return IfThenElse(less(later, loop.extent), body, span=node.span)

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Stmt:
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
            raise TVMagicError(
                f"the double buffer `{node.buffer.name}` is used outside its loop",
                node=node,
                code="tir.double_buffer.used_outside_loop",
            )
        return new.replace(buffer=self._widened(node.buffer, state), indices=(half * state.size + new.indices[0],))

    @handles(For)
    def loop(self, node: For) -> Stmt:
        self.loops.append(node)
        stmt: Stmt = self.visit_children(node)
        self.loops.pop()
        if node in self.first_fill:
            assert isinstance(stmt, For)
            whole = self._split(stmt) if self.split else stmt
            whole = SeqStmt.flatten(*self.first_fill[node], whole)
            # the first fill and the last iteration are there once, if there is an iteration
            runs = less(IntImm(node.extent.dtype, 0), node.extent)
            stmt = whole if self.analyzer.can_prove(runs) else IfThenElse(runs, whole, span=node.span)
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


@tir_pass("tir.InjectDoubleBuffer", OPTIONS)
def InjectDoubleBuffer(func: PrimFunc, *, options: dict[str, Any]) -> PrimFunc:
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
