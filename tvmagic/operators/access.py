"""The order in which a program touches a buffer: its loops run with indices alone, without data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import callee
from tvmagic.ir.semantics import compute

Index = tuple[int, ...]


@dataclass(frozen=True)
class Access:
    """One touch of an element: `write` or a read, and the tensor that the reading statement computes.

    `tensor` is the one touched, `statement` the number in `Trace.statements` of the statement that does it (-1 for a
    condition or a bound), `loops` the values of the loops around that, outermost first.
    """

    write: bool
    index: Index
    consumer: str = ""
    tensor: str = ""
    statement: int = -1
    loops: Index = ()


@dataclass
class Accesses:
    """The touches of a buffer in order. `complete` is False if the limit cut them off."""

    name: str
    shape: list[int]
    events: list[Access] = field(default_factory=list)
    complete: bool = True

    def elements(self, write: bool) -> set[Index]:
        """The distinct elements that are written, or read."""
        return {a.index for a in self.events if a.write == write}


@dataclass
class Trace:
    """The touches of several buffers in order.

    `shapes` and `axes` give of each buffer its sizes and the indices of its first access as texts; `statements` the text
    of each statement and the names of the loops around it. `complete` is False if the program goes on after the last touch.
    """

    shapes: dict[str, list[int]]
    axes: dict[str, list[str]]
    events: list[Access]
    statements: list[tuple[str, tuple[str, ...]]]
    complete: bool

    def of(self, name: str) -> Accesses:
        """The touches of one buffer."""
        return Accesses(name, self.shapes[name], [a for a in self.events if a.tensor == name], self.complete)


class _Done(Exception):
    pass


def trace_accesses(
    stmt: ir.Stmt, name: str, limit: int = 4096, once: bool = False, first_instance: bool = False, size: int = 8
) -> Accesses:
    """Run the loops of a statement and note each touch of the buffer or tensor called `name`.

    Parameters
    ----------
    limit: how many touches to note at most.
    once: run loops that no index depends on one time only; enough where the set of elements counts.
    first_instance: stop where the memory of the tensor is given up for the first time.
    size: the value of symbolic sizes.
    """
    tracer = _Tracer({name}, limit, once, first_instance, size)
    tracer.prepare(stmt)
    if not tracer.relevant:
        raise TVMagicError(f"nothing in the program touches `{name}`", code="operator.no_such_buffer")
    return tracer.trace(stmt).of(name)


def trace_all(stmt: ir.Stmt, names: Iterable[str], limit: int = 4096, size: int = 8) -> Trace:
    """Run the loops of a statement and note each touch of the buffers or tensors called `names`, `limit` at most, with the
    statement and the loops' values."""
    tracer = _Tracer(set(names), limit, False, False, size)
    tracer.prepare(stmt)
    return tracer.trace(stmt)


def _name_of(node: Any) -> str:
    producer = getattr(node, "producer", None)
    return producer.name if producer is not None else node.buffer.name


class _Uses(ir.Visitor):
    """The statements that have a touch of the buffer inside, and the variables that choose elements."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.above: list[Any] = []
        self.relevant: set[int] = set()
        self.variables: set[ir.Var] = set()
        self.bound: dict[ir.Var, Any] = {}
        self.sizes: dict[str, list[Any]] = {}
        self.axes: dict[str, list[str]] = {}

    @ir.handles(ir.Node)
    def every(self, node: ir.Node) -> None:
        self.above.append(node)
        if (
            isinstance(node, (ir.BufferLoad, ir.BufferStore, ir.ProducerLoad, ir.ProducerStore))
            and _name_of(node) in self.names
        ):
            self.relevant.update(id(n) for n in self.above)
            self.note(node.indices)
            self.note((getattr(node, "predicate", None),))
            touched: Any = node
            owner = touched.producer if hasattr(touched, "producer") else touched.buffer
            self.sizes[_name_of(node)] = list(owner.shape)
            self.axes.setdefault(_name_of(node), [str(i) for i in node.indices])
        if isinstance(node, ir.IfThenElse):
            self.note((node.condition,))
        if isinstance(node, (ir.LetStmt, ir.Let)):
            self.bound[node.var] = node.value
        if isinstance(node, ir.BlockRealize):
            self.note((node.predicate,))
            self.bound.update((iv.var, v) for iv, v in zip(node.block.iter_vars, node.iter_values))
        self.visit_children(node)
        self.above.pop()

    def note(self, nodes: Any) -> None:
        pending = list(nodes)
        while pending:
            node = pending.pop()
            if isinstance(node, ir.Var):
                if node not in self.variables:
                    self.variables.add(node)
                    pending.append(self.bound.get(node))
            elif isinstance(node, ir.Node):
                for f in node.FIELDS:
                    value = getattr(node, f.name)
                    pending.extend(value if isinstance(value, tuple) else (value,))


class _Tracer(ir.Visitor):
    def __init__(self, names: set[str], limit: int, once: bool, first_instance: bool, size: int) -> None:
        self.names, self.limit, self.once, self.first_instance, self.size = names, limit, once, first_instance, size
        self.events: list[Access] = []
        self.values: dict[ir.Var, Any] = {}
        self.relevant: set[int] = set()
        self.variables: set[ir.Var] = set()
        self.shapes: dict[str, list[int]] = {}
        self.axes: dict[str, list[str]] = {}
        self.complete = True
        self.consumer = ""
        self.loops: list[ir.Var] = []
        self.statements: list[tuple[str, tuple[str, ...]]] = []
        self.number_of: dict[int, int] = {}
        self.statement_now = -1

    def prepare(self, stmt: ir.Stmt) -> None:
        uses = _Uses(self.names)
        uses.visit(stmt)
        self.relevant, self.variables, self.axes = uses.relevant, uses.variables, uses.axes
        self.shapes = {name: [self.number(s) for s in sizes] for name, sizes in uses.sizes.items()}

    def trace(self, stmt: ir.Stmt) -> Trace:
        """Run the statement."""
        try:
            self.visit(stmt)
        except _Done:
            pass
        return Trace(self.shapes, self.axes, self.events, self.statements, self.complete)

    def number(self, node: ir.PrimExpr) -> int:
        value = self.visit(node)
        return value[0] if isinstance(value, tuple) else int(value)

    def touch(self, node: Any, write: bool) -> None:
        """Note the elements of a load or a store, after what their indices and its predicate read."""
        indices = [self.visit(i) for i in node.indices]
        predicate = getattr(node, "predicate", None)
        on = True if predicate is None else self.visit(predicate)
        if _name_of(node) not in self.names:
            return
        lanes = max((len(i) for i in indices if isinstance(i, tuple)), default=1)
        consumer, tensor, now = "" if write else self.consumer, _name_of(node), self.statement_now
        loops = tuple(self.values[v] for v in self.loops) if now >= 0 else ()
        for lane in range(lanes):
            if not (on[lane] if isinstance(on, tuple) else on):
                continue
            if len(self.events) >= self.limit:
                self.complete = False
                raise _Done
            index = tuple(i[lane] if isinstance(i, tuple) else int(i) for i in indices)
            self.events.append(Access(write, index, consumer, tensor, now, loops))

    # ------------------------------------------------------------------------ statements

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        for f in node.FIELDS:
            value = getattr(node, f.name)
            if f.kind.name == "STMT" and value is not None:
                self.run(value)

    def run(self, stmt: ir.Stmt) -> None:
        if id(stmt) in self.relevant:
            self.visit(stmt)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        for part in node.seq:
            self.run(part)

    @ir.handles(ir.BufferStore, ir.ProducerStore)
    def store(self, node: Any) -> None:
        self.consumer, self.statement_now = _name_of(node), self.numbered(node)
        self.visit(node.value)
        self.touch(node, True)
        self.statement_now = -1

    def numbered(self, node: Any) -> int:
        """The number of a statement, which gets one when it first runs."""
        number = self.number_of.get(id(node))
        if number is None:
            number = self.number_of[id(node)] = len(self.statements)
            indices = ", ".join(map(str, node.indices))
            self.statements.append((f"{_name_of(node)}[{indices}] = {node.value}", tuple(v.name for v in self.loops)))
        return number

    @ir.handles(ir.ProducerRealize)
    def realize(self, node: ir.ProducerRealize) -> None:
        self.run(node.body)
        if self.first_instance and node.producer.name in self.names:
            raise _Done

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        begin, extent = self.number(node.min), self.number(node.extent)
        if self.once and node.loop_var not in self.variables:
            extent = min(extent, 1)
        self.loops.append(node.loop_var)
        for step in range(extent):
            self.values[node.loop_var] = begin + step
            self.run(node.body)
        self.loops.pop()

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key == "thread_extent" and isinstance(node.node, ir.IterVar) and node.node.var not in self.values:
            self.loops.append(node.node.var)
            for step in range(self.number(node.value)):
                self.values[node.node.var] = step
                self.run(node.body)
            self.loops.pop()
            del self.values[node.node.var]
            return
        self.run(node.body)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        chosen = node.then_case if self.visit(node.condition) else node.else_case
        if chosen is not None:
            self.run(chosen)

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> None:
        self.values[node.var] = self.visit(node.value)
        self.run(node.body)

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> None:
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.values[iv.var] = self.visit(value)
        if self.visit(node.predicate):
            self.block(node.block)

    def block(self, block: ir.Block) -> None:
        starts = (
            self.values[iv.var] == self.number(iv.dom.min)
            for iv in block.iter_vars
            if iv.iter_type == ir.IterVar.CommReduce and iv.dom is not None
        )
        if block.init is not None and all(starts):
            self.run(block.init)
        self.run(block.body)

    # ------------------------------------------------------------------------ expressions

    @ir.handles(ir.ConstExpr)
    def constant(self, node: Any) -> Any:
        return node.value

    @ir.handles(ir.Var)
    def var(self, node: ir.Var) -> Any:
        return self.values.get(node, self.size)

    @ir.handles(ir.BinaryOp)
    def operation(self, node: ir.BinaryOp) -> Any:
        return _lanewise(node, self.visit(node.a), self.visit(node.b))

    @ir.handles(ir.Shuffle)
    def shuffle(self, node: ir.Shuffle) -> Any:
        lanes: list[Any] = []
        for vector in node.vectors:
            value = self.visit(vector)
            lanes += value if isinstance(value, tuple) else (value,) * vector.dtype.lanes
        picked = [lanes[self.number(index)] for index in node.indices]
        return tuple(picked) if len(picked) > 1 else picked[0]

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> Any:
        base, stride = self.number(node.base), self.number(node.stride)
        return tuple(base + stride * i for i in range(node.dtype.lanes))

    @ir.handles(ir.Broadcast)
    def broadcast(self, node: ir.Broadcast) -> Any:
        return (self.visit(node.value),) * node.dtype.lanes

    @ir.handles(ir.Cast)
    def cast(self, node: ir.Cast) -> Any:
        return self.visit(node.value)

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> Any:
        return not self.visit(node.a)

    @ir.handles(ir.And, ir.Or)
    def logical(self, node: Any) -> Any:
        first = self.visit(node.a)
        if isinstance(first, tuple):
            return _lanewise(node, first, self.visit(node.b))
        return self.visit(node.b) if bool(first) == isinstance(node, ir.And) else first

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> Any:
        return self.visit(node.true_value if self.visit(node.condition) else node.false_value)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> Any:
        self.values[node.var] = self.visit(node.value)
        return self.visit(node.body)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Any:
        name = callee(node)
        if name == "tir.if_then_else":
            return self.visit(node.args[1] if self.visit(node.args[0]) else node.args[2])
        values = [self.visit(a) for a in node.args]
        return values[0] if name == "tir.likely" else 0

    @ir.handles(ir.BufferLoad, ir.ProducerLoad)
    def load(self, node: Any) -> Any:
        self.touch(node, False)
        return 0


def _lanewise(node: ir.BinaryOp, a: Any, b: Any) -> Any:
    """The value of an operator for those of its operands; tuples have one for each lane."""
    op, dtype = type(node), node.a.dtype.element_of
    if isinstance(a, tuple) or isinstance(b, tuple):
        lanes = len(a) if isinstance(a, tuple) else len(b)
        left = a if isinstance(a, tuple) else (a,) * lanes
        right = b if isinstance(b, tuple) else (b,) * lanes
        return tuple(compute(op, x, y, dtype) for x, y in zip(left, right))
    return compute(op, a, b, dtype)
