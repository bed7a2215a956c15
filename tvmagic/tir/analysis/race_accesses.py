"""The accesses of a program, each with the loops, conditions and allocations around it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tvmagic import ir
from tvmagic.arith.scalable import most_lanes
from tvmagic.errors import TVMagicError
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import is_call, launches_thread, strip_likely

_READ, _WRITE = 1, 2  # bits of an access pointer's mask
_MEMORY_ONLY = frozenset({"tir.prefetch"})  # calls that get an address and read at most


@dataclass(frozen=True, eq=False)
class Domain:
    """The values of a variable: `extent` integers from `begin` on.

    `loop` is the For or the AttrStmt that runs over them, None of a variable that stands for the
    elements of a region. `tag` is that of a thread axis.
    """

    var: ir.Var
    begin: ir.PrimExpr
    extent: ir.PrimExpr
    loop: Any = None
    tag: str = ""

    @property
    def kind(self) -> str:
        """What runs the iterations at the same time: `parallel`, `vectorized`, a thread axis; else empty."""
        if self.tag:
            return self.tag
        kind = getattr(self.loop, "kind", None)
        return {ir.ForKind.PARALLEL: "parallel", ir.ForKind.VECTORIZED: "vectorized"}.get(kind, "")  # type: ignore[call-overload]


@dataclass(frozen=True, eq=False)
class Step:
    """A statement around an access, with which of its parts the access is in (of a sequence)."""

    stmt: ir.Stmt
    part: int = 0


@dataclass(frozen=True, eq=False)
class Place:
    """What is around a statement, from the function inwards.

    `known` is whether nothing else decides whether the statement runs, such as a `while`.
    """

    domains: tuple[Domain, ...] = ()
    guards: tuple[tuple[ir.PrimExpr, int], ...] = ()  # each with the number of domains around it
    path: tuple[Step, ...] = ()
    known: bool = True


@dataclass(frozen=True, eq=False)
class Access:
    """An access to an element of a buffer, for all values of the variables around it.

    indices: one for each dimension, or the number of the element behind the pointer if `flat`; None for a
        pointer that is handed on, behind which anything may be touched.
    value: what is stored.
    exact: whether every element that the indices name is touched; False of all but the first of a region.
    depth: how many of the domains are around the buffer's allocation.
    statement: the innermost statement.
    """

    buffer: ir.Buffer
    indices: tuple[ir.PrimExpr, ...] | None
    write: bool
    node: Any
    statement: ir.Stmt
    place: Place
    depth: int
    flat: bool = False
    exact: bool = True
    value: ir.PrimExpr | None = None
    own: tuple[Domain, ...] = ()

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The variables around it, those of its own region last."""
        return (*self.place.domains, *self.own)


class _Lane(ir.Mutator):
    """The index of one lane of a vector of indices."""

    def __init__(self, lane: ir.Var) -> None:
        self.lane = lane

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> ir.PrimExpr:
        return node.base + self.lane.astype(node.base.dtype) * node.stride

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> ir.PrimExpr:
        return node.value


@dataclass
class _Memory:
    """What is known of a pointer: a buffer behind it, and the number of domains around its allocation."""

    buffer: ir.Buffer | None
    depth: int


class Program:
    """All accesses of a function.

    combined: pointers to what reductions over threads give to all threads.
    data: variables that stand for what was read from memory.
    """

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self.combined: set[ir.Var] = set()
        self.data: set[ir.Var] = set()


class _Collector(ir.Visitor):
    def __init__(self, func: ir.PrimFunc) -> None:
        self.found = Program()
        self.place = Place()
        self.statement: ir.Stmt = func.body
        self.values: dict[ir.Var, ir.PrimExpr] = {}
        self.axes: dict[str, Domain] = {}
        self.memory = {b.data: _Memory(b, 0) for b in func.buffer_map.values()}

    # ------------------------------------------------------------------------ what is around

    def visit(self, node: Any) -> None:
        if not isinstance(node, ir.Stmt):
            super().visit(node)
            return
        before, outer = self.place, self.statement
        self.statement = node
        self.place = replace(before, path=(*before.path, Step(node)))
        super().visit(node)
        self.place, self.statement = before, outer

    def _expr(self, node: ir.PrimExpr) -> ir.PrimExpr:
        """`node` without variables that stand for other expressions."""
        return ir.substitute(node, self.values) if self.values else node

    @contextmanager
    def _nested(self, **changes: Any) -> Generator[None]:
        before = self.place
        self.place = replace(before, **changes)
        yield
        self.place = before

    def _under(self, condition: ir.PrimExpr, node: Any, holds: bool = True) -> None:
        condition = strip_likely(self._expr(condition))
        guard = condition if holds else ir.Not(condition)
        with self._nested(guards=(*self.place.guards, (guard, len(self.place.domains)))):
            self.visit(node)

    def _over(self, domain: Domain, body: ir.Stmt) -> None:
        with self._nested(domains=(*self.place.domains, domain)):
            self.visit(body)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        path = self.place.path[:-1]
        for number, part in enumerate(node.seq):
            with self._nested(path=(*path, Step(node, number))):
                self.visit(part)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        bound = node.thread_binding if node.kind is ir.ForKind.THREAD_BINDING else None
        tag = "" if bound is None else bound.thread_tag
        self._over(Domain(node.loop_var, self._expr(node.min), self._expr(node.extent), node, tag), node.body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        self.visit(node.value)
        if not launches_thread(node):
            self.visit(node.body)
            return
        tag = node.node.thread_tag if node.attr_key == "thread_extent" else ""
        known = self.axes.get(tag) if tag else None
        if known is not None and known in self.place.domains:  # the same threads, under another name
            if node.node.var is not known.var:
                self.values[node.node.var] = known.var.astype(node.node.var.dtype)
            self.visit(node.body)
            return
        zero = ir.IntImm(node.node.var.dtype, 0)
        domain = Domain(node.node.var, zero, self._expr(node.value), node, tag)
        if tag:
            self.axes[tag] = domain
        self._over(domain, node.body)

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> None:
        with self._nested(known=False):
            self.visit(node.condition)
            self.visit(node.body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self.visit(node.condition)
        self._under(node.condition, node.then_case)
        if node.else_case is not None:
            self._under(node.condition, node.else_case, False)

    @ir.handles(ir.LetStmt, ir.Let)
    def let(self, node: Any) -> None:
        self.visit(node.value)
        if side_effect(node.value) > ir.CallEffect.PURE:
            self.found.data.add(node.var)
        else:
            self.values[node.var] = self._expr(node.value)
        self.visit(node.body)

    @ir.handles(ir.BlockRealize)
    def block(self, node: ir.BlockRealize) -> None:
        raise TVMagicError(
            "races are looked for in loops, the function still has blocks",
            node=node,
            hint="lower it first: `tvmagic.lower(func)`",
            code="race_check.blocks_left",
        )

    # ------------------------------------------------------------------------ memory

    def _allocated(self, data: ir.Var, buffer: ir.Buffer | None) -> None:
        self.memory[data] = _Memory(buffer, len(self.place.domains))

    @ir.handles(ir.Allocate, ir.AllocateConst)
    def allocate(self, node: Any) -> None:
        self._allocated(node.buffer_var, None)
        self.visit_children(node)

    @ir.handles(ir.BufferRealize)
    def realize(self, node: ir.BufferRealize) -> None:
        if node.buffer.data not in self.memory:  # an argument's is there already
            self._allocated(node.buffer.data, node.buffer)
        self.visit(node.body)

    @ir.handles(ir.DeclBuffer)
    def declare(self, node: ir.DeclBuffer) -> None:
        known = self.memory.get(node.buffer.data)
        if known is not None:
            known.buffer = known.buffer or node.buffer
        self.visit(node.body)

    # ------------------------------------------------------------------------ accesses

    def _add(
        self, buffer: ir.Buffer, indices: Iterable[ir.PrimExpr] | None, write: bool, node: Any, **more: Any
    ) -> None:
        depth = self.memory[buffer.data].depth if buffer.data in self.memory else 0
        exprs = None if indices is None else tuple(self._expr(i) for i in indices)
        own: tuple[Domain, ...] = more.pop("own", ())
        lanes = max((most_lanes(i.dtype) for i in exprs), default=1) if exprs else 1
        if exprs and lanes > 1:
            lane = ir.Var("lane", "int32")
            exprs = tuple(_Lane(lane).visit(i) for i in exprs)
            own = (*own, Domain(lane, ir.IntImm("int32", 0), ir.IntImm("int32", lanes)))
        self.found.accesses.append(
            Access(buffer, exprs, write, node, self.statement, self.place, depth, own=own, **more)
        )

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        for index in node.indices:
            self.visit(index)
        with self._nested(known=self.place.known and node.predicate is None):
            self._add(node.buffer, node.indices, False, node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        for index in node.indices:
            self.visit(index)
        self.visit(node.value)
        with self._nested(known=self.place.known and node.predicate is None):
            self._add(node.buffer, node.indices, True, node, value=self._expr(node.value))

    @ir.handles(ir.And, ir.Or)
    def connective(self, node: Any) -> None:
        self.visit(node.a)
        with self._nested(known=False):
            self.visit(node.b)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        if name == "tir.if_then_else":
            self.visit(node.args[0])
            self._under(node.args[0], node.args[1])
            self._under(node.args[0], node.args[2], False)
        elif name == "tir.tvm_access_ptr":
            self._pointer(node)
        elif name == "tir.tvm_thread_allreduce":
            self._combine(node)
        else:
            for arg in node.args:
                self._argument(arg, name)

    def _argument(self, arg: Any, call: str) -> None:
        """An argument of a call: behind an address that it gets, a call may read and write."""
        address = is_call(arg, "tir.address_of")
        if address and isinstance(arg.args[0], ir.BufferLoad):
            for index in arg.args[0].indices:
                self.visit(index)
            self._add(arg.args[0].buffer, None, call not in _MEMORY_ONLY, arg)
        elif isinstance(arg, ir.Var) and arg in self.memory:
            buffer = self.memory[arg].buffer
            if buffer is not None:
                self._add(buffer, None, call not in _MEMORY_ONLY, arg)
        elif isinstance(arg, ir.PrimExpr):
            self.visit(arg)

    def _combine(self, node: ir.Call) -> None:
        """A reduction over threads: it reads values, and gives all threads the result."""
        assert isinstance(node.args[0], ir.IntImm)
        count = node.args[0].value
        for value in node.args[1 : 2 + count]:
            self.visit(value)
        for target in node.args[2 + count : 2 + 2 * count]:
            data = target.buffer.data if isinstance(target, ir.BufferLoad) else target
            if isinstance(data, ir.Var):
                self.found.combined.add(data)

    def _pointer(self, node: ir.Call) -> None:
        """An access pointer names what is touched behind it; its first element is in any case."""
        _, data, offset, extent, mask = node.args
        self.visit(offset)
        known = self.memory.get(data) if isinstance(data, ir.Var) else None
        if known is None or known.buffer is None:
            return
        lane = ir.Var("element", extent.dtype)
        own = (Domain(lane, ir.IntImm(extent.dtype, 0), self._expr(extent)),)
        bits = mask.value if isinstance(mask, ir.IntImm) else _READ | _WRITE
        for bit, write in ((_READ, False), (_WRITE, True)):
            if bits & bit:
                self._add(known.buffer, [offset], write, node, flat=True)
                self._add(known.buffer, [offset + lane], write, node, flat=True, exact=False, own=own)


def collect(func: ir.PrimFunc) -> Program:
    """All accesses of a function without blocks, in the order of the text.

    Raises `TVMagicError` if it has blocks.
    """
    collector = _Collector(func)
    collector.visit(func.body)
    return collector.found
