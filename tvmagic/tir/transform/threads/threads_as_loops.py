"""ThreadsAsLoops: threads with barriers among them, as loops over the threads between the barriers.

What is between two barriers is one loop over all threads; loops, lets and branches around barriers are the
same for all threads and stand around these loops. A thread's own memory becomes one place for each thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from tvmagic import ir
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.ir.ops import cast, logical_and
from tvmagic.ir.prim_expr import scope_of
from tvmagic.ir.query import is_call, strip_likely
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.use_def import free_vars, loads_memory, used_vars


class _Axis(NamedTuple):
    """A thread axis: its tag, its variable, how many threads it has."""

    tag: str
    var: ir.Var
    extent: ir.PrimExpr


def _is_barrier(node: Any) -> bool:
    return isinstance(node, ir.Evaluate) and is_call(node.value, "tir.tvm_storage_sync")


def _thread_axis(node: ir.Stmt) -> _Axis | None:
    if not isinstance(node, ir.AttrStmt) or node.attr_key != "thread_extent" or not isinstance(node.node, ir.IterVar):
        return None
    tag = node.node.thread_tag
    return _Axis(tag, node.node.var, node.value) if tag.startswith("threadIdx") else None


class _Structure(ir.Visitor):
    """Reads a kernel: its thread axes by tag, and which statements have a barrier or a launch inside."""

    def __init__(self) -> None:
        self.axes: dict[str, _Axis] = {}
        self.waiting: set[ir.Stmt] = set()
        self.around: set[ir.Stmt] = set()
        self.path: list[ir.Stmt] = []
        # whether a thread's own memory is there before and after a launch
        self.kept = False
        # the block axes that are launched inside memory
        self.blocks: dict[ir.Allocate, set[str]] = {}

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> None:
        pass

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        self.path.append(node)
        axis = _thread_axis(node)
        if axis is not None:
            self._add(axis, node)
            self._mark(self.around)
        elif isinstance(node, ir.AttrStmt) and _is_launch(node):
            self._check_blocks(node)
        self.visit_children(node)
        self.path.pop()
        if isinstance(node, ir.Allocate) and node in self.around and scope_of(node.buffer_var).startswith("local"):
            self.kept = True

    def _check_blocks(self, node: ir.AttrStmt) -> None:
        """Blocks run one after the other: what one of them stores is not there any more in a second launch."""
        for stmt in self.path:
            if not isinstance(stmt, ir.Allocate) or scope_of(stmt.buffer_var).split(".")[0] not in ("shared", "local"):
                continue
            tags = self.blocks.setdefault(stmt, set())
            if node.node.thread_tag in tags:
                raise BuildError(
                    f"`{stmt.buffer_var.name}` is memory of a block, and two launches of `{node.node.thread_tag}` use it",
                    node=stmt,
                    hint="compute it inside the blocks that read it, or keep it in global memory",
                    code="tir.kernel.memory_shared_by_launches",
                )
            tags.add(node.node.thread_tag)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        if _is_barrier(node):
            self.path.append(node)
            self._mark(self.waiting)
            self._mark(self.around)
            self.path.pop()

    def _mark(self, marked: set[ir.Stmt]) -> None:
        for stmt in reversed(self.path):
            if stmt in marked:
                break
            marked.add(stmt)

    def _add(self, axis: _Axis, node: ir.Stmt) -> None:
        known = self.axes.setdefault(axis.tag, axis)
        if not ir.structural_equal(known.extent, axis.extent):
            raise TVMagicError(
                f"a kernel launches {known.extent} and {axis.extent} threads of `{axis.tag}`",
                node=node,
                hint="loops that are bound to one thread axis have the same extent",
                code="tir.kernel.extents_differ",
            )


class _Own(ir.Mutator):
    """Accesses of a thread's own memory, in the memory of all threads."""

    def __init__(self) -> None:
        # by pointer of the thread's memory: that of all threads, and the first of the thread's places
        self.moved: dict[ir.Var, tuple[ir.Var, ir.PrimExpr, int]] = {}
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}
        # by variable that a thread computed: where its value is kept
        self.kept: dict[ir.Var, ir.PrimExpr] = {}

    def private(self) -> set[ir.Var]:
        """The memory of all threads in which each has a place of its own."""
        kept = [load.buffer.data for load in self.kept.values() if isinstance(load, ir.BufferLoad)]
        return {data for data, _, _ in self.moved.values()}.union(kept)

    def buffer(self, buffer: ir.Buffer) -> ir.Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            data, _, count = self.moved[buffer.data]
            found = buffer.replace(data=data, shape=(ir.IntImm(buffer.shape[0].dtype, count),))
            self.buffers[buffer] = found
        return found

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> ir.PrimExpr:
        if node in self.moved:
            raise TVMagicError(
                f"a pointer to `{node.name}`, which each thread has of its own, is used across a barrier",
                hint="access the buffer by its indices",
                code="tir.kernel.pointer_across_barrier",
            )
        return self.kept.get(node, node)

    def _shifted_indices(self, node: ir.BufferLoad | ir.BufferStore) -> tuple[ir.PrimExpr, ...]:
        (index,) = node.indices
        index, first = self.visit(index), self.moved[node.buffer.data][1]
        first = cast(index.dtype.with_lanes(1), first)
        if isinstance(index, ir.Ramp):
            return (ir.Ramp(index.base + first, index.stride, index.lanes),)
        return (index + first,)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> ir.PrimExpr:
        if node.buffer.data not in self.moved:
            return self.visit_children(node)
        return node.replace(buffer=self.buffer(node.buffer), indices=self._shifted_indices(node))

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        if node.buffer.data not in self.moved:
            return self.visit_children(node)
        return node.replace(
            buffer=self.buffer(node.buffer), indices=self._shifted_indices(node), value=self.visit(node.value)
        )

    @ir.handles(ir.DeclBuffer)
    def declaration(self, node: ir.DeclBuffer) -> ir.Stmt:
        if node.buffer.data not in self.moved:
            return self.visit_children(node)
        return node.replace(buffer=self.buffer(node.buffer), body=self.visit(node.body))


class _Kernel:
    """Divides the statements of one kernel at their barriers."""

    def __init__(self, kernel: ir.Stmt, structure: _Structure) -> None:
        self.kernel = kernel
        self.waiting, self.around = structure.waiting, structure.around
        self.axes = structure.axes
        self.own = _Own()
        # what differs from thread to thread: thread indices, what was computed from them, own memory
        self.differing: set[ir.Var] = {axis.var for axis in self.axes.values()}
        # lets of index computations, put in again where they are used
        self.lets: dict[ir.Var, ir.LetStmt] = {}
        self.order: dict[ir.Var, int] = {}

    def place(self, size: int = 1) -> tuple[ir.PrimExpr, int]:
        """Where the memory of a thread begins, `size` elements for each, and how many there are for all."""
        number: ir.PrimExpr = ir.IntImm("int32", 0)
        count = 1
        for _, axis in sorted(self.axes.items()):
            if not isinstance(axis.extent, ir.IntImm):
                raise TVMagicError(
                    f"threads that wait for each other need a constant extent, not `{axis.extent}` of `{axis.tag}`",
                    node=self.kernel,
                    code="tir.kernel.symbolic_extent",
                )
            if axis.extent.value > 1:
                number = number + cast("int32", axis.var) * (count * size)
            count *= axis.extent.value
        return number, count * size

    # ------------------------------------------------------------------ what is the same for all threads

    def _differs(self, value: ir.PrimExpr) -> bool:
        return any(var in self.differing for var in used_vars(value))

    # ------------------------------------------------------------------ loops over the threads

    def phase(self, stmts: Sequence[ir.Stmt], threads: Sequence[_Axis]) -> ir.Stmt:
        """`stmts`, which have no barrier inside, run by all threads."""
        body = self.own.visit(_Launches().visit(ir.SeqStmt.flatten(*stmts)))
        wanted, needed = self._needed(free_vars(body))
        for let in needed:
            body = let.replace(body=body)
        tags = {axis.tag for axis in threads}
        beside = {tag for tag, axis in self.axes.items() if tag not in tags and axis.var in wanted}
        if beside:
            once = _Once([self.axes[tag].var for tag in sorted(beside)], self.own.private())
            body = once.guarded(body)
            tags |= beside if once.own else set()
        for tag, axis in sorted(self.axes.items()):  # x innermost
            if tag in tags:
                body = _thread_loop(axis, body)
        return body

    def _needed(self, variables: Sequence[ir.Var]) -> tuple[set[ir.Var], list[ir.LetStmt]]:
        """All variables that `variables` are computed from, and the lets in which they are, the inner ones first."""
        wanted, pending = set(variables), list(variables)
        needed: dict[ir.Var, ir.LetStmt] = {}
        while pending:
            var = pending.pop()
            if var in self.lets and var not in needed:
                let = self.lets[var]
                needed[var] = let.replace(value=self.own.visit(let.value))
                fresh = [v for v in used_vars(needed[var].value) if v not in wanted]
                wanted.update(fresh)
                pending += fresh
        return wanted, sorted(needed.values(), key=lambda let: self.order[let.var], reverse=True)

    # ------------------------------------------------------------------ statements

    def divide(self, stmt: ir.Stmt, threads: tuple[_Axis, ...] = ()) -> ir.Stmt:
        """`stmt` run by `threads`, as a sequence of loops over them."""
        handler = self._DIVIDE.get(type(stmt))
        if stmt not in self.around:
            return self.phase([stmt], threads)
        if handler is None:
            raise TVMagicError(
                f"threads wait for each other inside a `{type(stmt).__name__}`",
                node=stmt,
                hint="lower the function before it is built",
                code="tir.kernel.barrier_in_branch",
            )
        return handler(self, stmt, threads)

    def _sequence(self, stmt: ir.SeqStmt, threads: tuple[_Axis, ...]) -> ir.Stmt:
        parts: list[ir.Stmt] = []
        together: list[ir.Stmt] = []
        for part in stmt.seq:
            if part not in self.around:
                together.append(part)
                continue
            if together:
                parts.append(self.phase(together, threads))
                together = []
            parts.append(self.divide(part, threads))
        if together:
            parts.append(self.phase(together, threads))
        return ir.SeqStmt.flatten(*parts)

    def _barrier(self, stmt: ir.Evaluate, threads: tuple[_Axis, ...]) -> ir.Stmt:
        return ir.Evaluate(0, stmt.span)

    def _common(self, stmt: ir.For | ir.While | ir.IfThenElse, threads: tuple[_Axis, ...]) -> ir.Stmt:
        """A loop or branch that all threads take together; one without a barrier each may take for itself."""
        for value in (stmt.min, stmt.extent) if isinstance(stmt, ir.For) else (stmt.condition,):
            if not self._differs(value):
                continue
            if stmt not in self.waiting:
                return self.phase([stmt], threads)
            raise TVMagicError(
                f"whether threads reach this barrier depends on `{value}`, which differs from thread to thread",
                node=stmt,
                hint="let all threads reach the barrier, and guard what they store",
                code="tir.kernel.barrier_depends_on_thread",
            )
        if isinstance(stmt, ir.IfThenElse):
            other = None if stmt.else_case is None else self.divide(stmt.else_case, threads)
            return stmt.replace(then_case=self.divide(stmt.then_case, threads), else_case=other)
        body = self.divide(stmt.body, threads)
        return stmt.replace(body=body, kind=ir.ForKind.SERIAL) if isinstance(stmt, ir.For) else stmt.replace(body=body)

    def _let(self, stmt: ir.LetStmt, threads: tuple[_Axis, ...]) -> ir.Stmt:
        """A value that all threads share stays; one of indices is computed again, one of memory is kept."""
        if not self._differs(stmt.value):
            return stmt.replace(body=self.divide(stmt.body, threads))
        self.differing.add(stmt.var)
        if not loads_memory(stmt.value):
            self.lets[stmt.var] = stmt
            self.order[stmt.var] = len(self.order)
            result = self.divide(stmt.body, threads)
            del self.lets[stmt.var]
            return result
        number, count = self.place()
        kept = ir.decl_buffer([count], stmt.var.dtype, stmt.var.name, scope="local")
        self.own.kept[stmt.var] = ir.BufferLoad(kept, (number,))
        store = self.phase([ir.BufferStore(kept, stmt.value, (number,), span=stmt.span)], threads)
        body = ir.SeqStmt.flatten(store, self.divide(stmt.body, threads))
        return ir.Allocate(kept.data, kept.dtype, kept.shape, True, body, span=stmt.span)

    def _allocate(self, stmt: ir.Allocate, threads: tuple[_Axis, ...]) -> ir.Stmt:
        """Memory that the threads share stays; of a thread's own there is a part for each."""
        scope = scope_of(stmt.buffer_var)
        if scope.startswith(("warp", "wmma")):
            raise TVMagicError(
                f"`{stmt.buffer_var.name}` is in `{scope}` memory, which only a GPU has",
                node=stmt,
                hint="use shared memory, or build the schedule itself: `tvmagic.build(sch.mod)`",
                code="tir.kernel.gpu_memory",
            )
        if not scope.startswith("local"):
            return stmt.replace(body=self.divide(stmt.body, threads))
        if len(stmt.extents) != 1 or not isinstance(stmt.extents[0], ir.IntImm):
            raise TVMagicError(
                f"`{stmt.buffer_var.name}` needs one constant size for each thread",
                node=stmt,
                code="tir.kernel.symbolic_thread_memory",
            )
        first, count = self.place(stmt.extents[0].value)
        data = ir.Var(stmt.buffer_var.name, stmt.buffer_var.type_annotation)
        self.own.moved[stmt.buffer_var] = (data, first, count)
        self.differing.add(stmt.buffer_var)
        extents = (ir.IntImm(stmt.extents[0].dtype, count),)
        return stmt.replace(buffer_var=data, extents=extents, body=self.divide(stmt.body, threads))

    def _declare(self, stmt: ir.DeclBuffer, threads: tuple[_Axis, ...]) -> ir.Stmt:
        moved = stmt.buffer.data in self.own.moved
        buffer = self.own.buffer(stmt.buffer) if moved else stmt.buffer
        return stmt.replace(buffer=buffer, body=self.divide(stmt.body, threads))

    def _attribute(self, stmt: ir.AttrStmt, threads: tuple[_Axis, ...]) -> ir.Stmt:
        axis = _thread_axis(stmt)
        if axis is None:
            return stmt.replace(body=self.divide(stmt.body, threads))
        first = self.axes[axis.tag]
        if axis.var is not first.var:
            self.own.kept[axis.var] = cast(axis.var.dtype, first.var)
            self.differing.add(axis.var)
        return self.divide(stmt.body, threads if first in threads else (*threads, first))

    def _assert(self, stmt: ir.AssertStmt, threads: tuple[_Axis, ...]) -> ir.Stmt:
        check = self.phase([stmt.replace(body=ir.Evaluate(0))], threads)
        return ir.SeqStmt.flatten(check, self.divide(stmt.body, threads))

    _DIVIDE: ClassVar[dict[type, Callable[[_Kernel, Any, tuple[_Axis, ...]], ir.Stmt]]] = {
        ir.SeqStmt: _sequence,
        ir.Evaluate: _barrier,
        ir.For: _common,
        ir.While: _common,
        ir.IfThenElse: _common,
        ir.LetStmt: _let,
        ir.Allocate: _allocate,
        ir.DeclBuffer: _declare,
        ir.AttrStmt: _attribute,
        ir.AssertStmt: _assert,
    }


def _thread_loop(axis: _Axis, body: ir.Stmt) -> ir.Stmt:
    """`body` for each thread of an axis; for the first ones only, if it is a branch that the others skip."""
    extent = axis.extent
    if isinstance(body, ir.IfThenElse) and body.else_case is None and isinstance(extent, ir.IntImm):
        condition, active = strip_likely(body.condition), 0
        if isinstance(condition, (ir.LT, ir.EQ)) and condition.a is axis.var and isinstance(condition.b, ir.IntImm):
            active = condition.b.value if isinstance(condition, ir.LT) else int(condition.b.value == 0)
        if 0 < active <= extent.value:
            extent, body = ir.IntImm(extent.dtype, active), body.then_case
    return ir.For(axis.var, ir.IntImm(axis.var.dtype, 0), extent, ir.ForKind.SERIAL, body, span=body.span)


class _Once(ir.Mutator):
    """What is outside the launch of `axes`, and reads what each of these threads has of its own.

    All of them do the same there: each writes its own memory, the first writes what they share.
    """

    def __init__(self, axes: Sequence[ir.Var], private: set[ir.Var]) -> None:
        self.private = private
        self.first = functools.reduce(logical_and, [axis.equal(0) for axis in axes])
        self.zeros = {axis: ir.IntImm(axis.dtype, 0) for axis in axes}
        self.own = False

    def guarded(self, body: ir.Stmt) -> ir.Stmt:
        """`body` with guards; as the first thread runs it if it writes nothing that these threads have of their own."""
        guarded = self.visit(body)
        return guarded if self.own else ir.substitute(body, self.zeros)

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        if node.buffer.data in self.private:
            self.own = True
            return node
        return ir.IfThenElse(self.first, node, span=node.span)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        return node if isinstance(node.value, ir.IntImm) else ir.IfThenElse(self.first, node, span=node.span)


class _Launches(ir.Mutator):
    """Launches of threads become loops."""

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        axis = _thread_axis(node)
        return self.visit_children(node) if axis is None else _thread_loop(axis, self.visit(node.body))


def _is_launch(node: ir.AttrStmt) -> bool:
    return node.attr_key == "thread_extent" and isinstance(node.node, ir.IterVar)


class _Outside(ir.Visitor):
    """The memory that is accessed outside kernels."""

    def __init__(self) -> None:
        self.found: set[ir.Var] = set()

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if not _is_launch(node):
            self.visit_children(node)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        self.found.add(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> None:
        self.found.add(node)


class _Kernels(ir.Mutator):
    """Finds the kernels of a function: what its outermost launches hold.

    `outside` is the memory that is accessed around them, which no thread has of its own.
    """

    def __init__(self, outside: set[ir.Var]) -> None:
        self.outside = outside
        # memory of threads that is allocated around a kernel, and the kernel that uses it
        self.own: dict[ir.Var, ir.Allocate] = {}
        self.users: dict[ir.Var, ir.Stmt] = {}

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> ir.Stmt:
        if scope_of(node.buffer_var).startswith("local") and node.buffer_var not in self.outside:
            self.own[node.buffer_var] = node
        return self.visit_children(node)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if not _is_launch(node):
            return self.visit_children(node)
        structure = _Structure()
        structure.visit(node)
        around = [var for var in free_vars(node) if var in self.own] if structure.axes else []
        for var in around:
            if self.users.setdefault(var, node) is not node:
                raise BuildError(
                    f"`{var.name}` is memory that each thread has of its own, and two kernels use it: it ends with the first",
                    node=self.own[var],
                    hint="compute it inside the threads that read it, or keep it in global memory",
                    code="tir.kernel.memory_shared_by_kernels",
                )
        if not structure.waiting and not structure.kept:
            return node
        names = ", ".join(f"`{tag}`" for tag in sorted(structure.axes))
        note("threads", f"the threads of {names} run in turn from barrier to barrier", node=node)
        kernel: ir.Stmt = node
        for var in around:
            kernel = self.own[var].replace(body=kernel)
            structure.waiting.add(kernel)
            structure.around.add(kernel)
        return _Kernel(node, structure).divide(kernel)


@tir_pass("tir.ThreadsAsLoops")
def ThreadsAsLoops(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write kernels whose threads wait for each other as loops over the threads from barrier to barrier.

    Not a pass of TVM's: it lets this machine run what is meant for a GPU. It comes after ThreadSync and
    LowerThreadAllreduce. Kernels without barriers stay as they are. Raises `TVMagicError` where not all threads
    come to a barrier, `BuildError` where a thread or block would read memory of its own that is gone.
    """
    outside = _Outside()
    outside.visit(func.body)
    return func.with_body(_Kernels(outside.found).visit(func.body))
