"""ThreadSync: barriers where a thread reads or writes what another thread of its block may have touched.

A body is a sequence of statements with the accesses of each; a barrier comes before a statement that
reads what was written, or writes what was read, since the last barrier. A loop counts as one statement for what is
around it, and its body is gone through a second time for what one iteration leaves to the next.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

from tvmagic import ir
from tvmagic.arith.iter_map import detect_iter_map
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import callee
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.use_def import mentions

READ, WRITE, SYNC = "read", "write", "sync"


@dataclass(frozen=True)
class _Access:
    """One access of memory that threads share, at `indices` or, by a pointer, anywhere. A barrier is one, too."""

    kind: str
    data: ir.Var | None = None
    indices: tuple[ir.PrimExpr, ...] | None = None
    to_other_half: bool = False  # a write to the half of a double buffer that is read after the next barrier


@dataclass
class _Step:
    """A statement of a sequence, with what it touches."""

    stmt: ir.Stmt
    accesses: list[_Access]


_BARRIER = _Access(SYNC)
_MEETS = {READ: WRITE, WRITE: READ}


class _Pending:
    """The accesses since the last barrier, by what they do and to which memory.

    Of accesses at one place the first is kept, and of places two: whatever comes next is elsewhere than one of them.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, dict[ir.Var | None, list[_Access]]] = {READ: {}, WRITE: {}}

    def __bool__(self) -> bool:
        return any(self.kinds.values())

    def add(self, access: _Access) -> None:
        places = self.kinds[access.kind].setdefault(access.data, [])
        alike = [known for known in places if known.to_other_half is access.to_other_half]
        if len(alike) < 2 and not any(_same_place(known, access) for known in alike):
            places.append(access)

    def opposed(self, access: _Access) -> list[_Access]:
        """Those of the same memory that must not meet `access`; a read of a double buffer is of the half before."""
        return [known for known in self.kinds[_MEETS[access.kind]].get(access.data, []) if not known.to_other_half]

    def opposed_elsewhere(self, access: _Access) -> bool:
        """Whether there are such of other memory."""
        return any(data is not access.data for data in self.kinds[_MEETS[access.kind]])


def _same_place(one: _Access, other: _Access) -> bool:
    return one.indices is not None and ir.structural_equal(one.indices, other.indices)


def _if_at_all(accesses: list[_Access]) -> list[_Access]:
    """The accesses of what may not run: its barriers do not count for what is around it."""
    return [access for access in accesses if access.kind != SYNC]


class _Planner(ir.Visitor):
    """`before` are the statements that need a barrier before them."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.domains: dict[ir.Var, ir.Range] = {}
        self.before: set[ir.Stmt] = set()
        self.steps: list[_Step] = []
        self.accesses: list[_Access] = []
        self.threads: list[ir.Var] = []
        self.in_kernel = False
        self.conditions = 0

    # ------------------------------------------------------------------ accesses

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.visit_children(node)
        self._access(READ, node.buffer, node.indices)

    def _access(self, kind: str, buffer: Any, indices: tuple[ir.PrimExpr, ...]) -> None:
        if self.in_kernel and buffer.scope() == self.scope:
            self.accesses.append(_Access(kind, buffer.data, indices))

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = callee(node)
        if name == "tir.tvm_storage_sync":
            if isinstance(node.args[0], ir.StringImm) and node.args[0].value == self.scope:
                self.accesses.append(_BARRIER)
        elif name == "tir.tvm_access_ptr":
            self._pointer(node.args[1], int(node.args[4]))
            self.visit_children(node)
        elif name == "tir.address_of" and isinstance(node.args[0], ir.BufferLoad):
            self._pointer(node.args[0].buffer.data, 3)
        else:
            self.visit_children(node)

    def _pointer(self, data: Any, mask: int) -> None:
        if not self.in_kernel or getattr(data.type_annotation, "storage_scope", "") != self.scope:
            return
        for bit, kind in ((1, READ), (2, WRITE)):
            if mask & bit:
                self.accesses.append(_Access(kind, data))

    # ------------------------------------------------------------------ statements

    def _take(self) -> list[_Access]:
        taken, self.accesses = self.accesses, []
        return taken

    def _step(self, stmt: ir.Stmt, accesses: list[_Access]) -> None:
        if accesses:
            self.steps.append(_Step(stmt, accesses))

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.visit_children(node)
        self._access(WRITE, node.buffer, node.indices)
        self._step(node, self._take())

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        self.visit(node.value)
        self._step(node, self._take())

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        self.visit(node.value)
        self._step(node, self._take())
        self.visit(node.body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key == "double_buffer_write":
            found = self._take() + self._plan_body(node.body, None)
            halves = [a.data is node.node and a.kind == WRITE for a in found]
            self._step(node, [replace(a, to_other_half=True) if half else a for a, half in zip(found, halves)])
            return
        if node.attr_key != "thread_extent" or not isinstance(node.node, ir.IterVar):
            self.visit_children(node)
            return
        self.domains[node.node.var] = ir.Range.from_min_extent(ir.IntImm(node.value.dtype, 0), node.value)
        if node.node.thread_tag.startswith("threadIdx"):
            self.threads.append(node.node.var)
        outermost, self.in_kernel = not self.in_kernel, True
        if outermost:
            self._plan_body(node.body, None)  # the end of a kernel is a barrier itself
            self.in_kernel = False
            self.threads = []
        else:
            self.visit(node.body)

    def _plan_body(self, body: ir.Stmt, loop: ir.For | ir.While | None) -> list[_Access]:
        """Plan the sequence of `body`; what it leaves visible around it."""
        outer, self.steps = self.steps, []
        self.visit(body)
        found, self.steps = self._plan(self.steps, loop), outer
        return found

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        self.domains[node.loop_var] = ir.Range.from_min_extent(node.min, node.extent)
        # behind the loop the half that its last iteration wrote is read
        inside = [replace(a, to_other_half=False) if a.to_other_half else a for a in self._plan_body(node.body, node)]
        self._step(node, self._take() + inside)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self.visit(node.condition)
        found = self._take()
        self.conditions += 1
        for side in (node.then_case, node.else_case):
            if side is not None:
                found += self._plan_body(side, None)
        self.conditions -= 1
        self._step(node, _if_at_all(found))

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> None:
        self.visit(node.condition)
        found = self._take()
        self.conditions += 1
        found += self._plan_body(node.body, node)
        self.conditions -= 1
        self._step(node, _if_at_all(found))

    # ------------------------------------------------------------------ barriers

    def _plan(self, steps: list[_Step], loop: ir.For | ir.While | None) -> list[_Access]:
        pending = self._pass_over(steps, _Pending(), None)
        if loop is not None and pending:
            self._pass_over(steps, pending, loop)
        return self._visible(steps)

    def _pass_over(self, steps: list[_Step], pending: _Pending, loop: ir.For | ir.While | None) -> _Pending:
        """Go through `steps` with the accesses since the last barrier; of a `loop`, for a second time."""
        carried = loop is not None
        for step in steps:
            if carried and (step.stmt in self.before or not pending):
                break  # from here on the next iteration is as the first was
            first = itertools.takewhile(lambda access: access.kind != SYNC, step.accesses)
            if step.stmt not in self.before and any(self._conflicts(pending, a, loop) for a in first):
                self._insert(step.stmt)
            if step.stmt in self.before:
                pending = _Pending()
                if carried:
                    break
            for access in step.accesses:
                if access.kind == SYNC:
                    pending = _Pending()
                elif not carried:
                    pending.add(access)
        return pending

    def _insert(self, stmt: ir.Stmt) -> None:
        if self.conditions:
            raise TVMagicError(
                "threads need a barrier inside a branch or a `while`, which not all of them may come to",
                node=stmt,
                hint="let all threads of the block run the statement, and guard what it stores",
                code="tir.kernel.barrier_in_branch",
            )
        note("barrier", f"threads wait before this statement for what others did in `{self.scope}` memory", node=stmt)
        self.before.add(stmt)

    def _visible(self, steps: list[_Step]) -> list[_Access]:
        """What comes before the first barrier, and what after the last."""
        head: list[_Access] = []
        tail: list[_Access] | None = None
        for step in steps:
            if step.stmt in self.before:
                tail = []
            for access in step.accesses:
                if access.kind == SYNC:
                    tail = []
                else:
                    (head if tail is None else tail).append(access)
        return head if tail is None else [*head, _BARRIER, *tail]

    def _conflicts(self, pending: _Pending, access: _Access, loop: ir.For | ir.While | None) -> bool:
        if self.scope == "shared.dyn" and pending.opposed_elsewhere(access):
            return True  # those will be one allocation
        return any(self._may_meet(known, access, loop) for known in pending.opposed(access))

    def _may_meet(self, one: _Access, other: _Access, loop: ir.For | ir.While | None) -> bool:
        """Whether two threads may come to the same place of a buffer, in one iteration or in two of `loop`.

        As in TVM, equal indices are the only ground to say no: each thread has its place then.
        """
        if one.indices is None or not _same_place(one, other):
            return True
        if not self.threads or not all(any(mentions(i, (t,)) for i in one.indices) for t in self.threads):
            return True  # the place is not each thread's own
        carried = isinstance(loop, ir.For) and any(mentions(i, (loop.loop_var,)) for i in one.indices)
        return carried and not self._is_injective(one.indices)

    def _is_injective(self, indices: tuple[ir.PrimExpr, ...]) -> bool:
        """Whether no two threads or iterations have the same indices."""
        iters = {var: box for var, box in self.domains.items() if any(mentions(i, (var,)) for i in indices)}
        return bool(detect_iter_map(indices, iters, check_level="bijective").indices)


class _Inserter(ir.StmtMutator):
    def __init__(self, scope: str, before: set[ir.Stmt]) -> None:
        self.scope, self.before = scope, before

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        return self.visit_children(node)

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> ir.Stmt:
        new = self.visit_children(node)
        if node not in self.before:
            return new
        barrier = ir.Evaluate(ir.Call("int32", "tir.tvm_storage_sync", [ir.StringImm(self.scope)]), node.span)
        return ir.SeqStmt.flatten(barrier, new)


@tir_pass("tir.ThreadSync")
def ThreadSync(func: ir.PrimFunc, storage_scope: str) -> ir.PrimFunc:
    """Put barriers `T.tvm_storage_sync(storage_scope)` where threads share memory of that scope.

    For lowered functions with launched threads: what a thread of a block wrote is read by another after a
    barrier only. Raises `TVMagicError` where a barrier would be in a branch.
    """
    planner = _Planner(storage_scope)
    planner.visit(func.body)
    if not planner.before:
        return func
    return func.with_body(_Inserter(storage_scope, planner.before).visit(func.body))
