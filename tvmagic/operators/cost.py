"""What a program costs, counted from the IR: for each statement and for the whole.

Nothing is measured: arithmetic, bytes touched by kind of memory, vector lanes, parallel width and
allocated bytes follow from the loops around each expression. Both sides of a condition that is not
constant are not added: the dearer one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BinaryOp,
    BlockRealize,
    Broadcast,
    BufferLoad,
    BufferRealize,
    BufferStore,
    Call,
    Cast,
    CmpOp,
    ConstExpr,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Let,
    LetStmt,
    LogicalOp,
    Node,
    Not,
    Prefetch,
    PrimExpr,
    PrimFunc,
    ProducerLoad,
    ProducerRealize,
    ProducerStore,
    Ramp,
    Reduce,
    Select,
    SeqStmt,
    Shuffle,
    Stmt,
    Var,
    Visitor,
    While,
    handles,
)

__all__ = ["Cost", "ProgramCost", "count"]

# Calls that are arithmetic, each counted as one operation of its lanes.
_FREE_CALLS = {"likely", "if_then_else", "assume", "ret", "type_annotation", "reinterpret", "address_of", "undef"}


@dataclass(frozen=True)
class Cost:
    """Totals over all iterations.

    `arithmetic`: operations on floats, a vector counted by its lanes; `integer`: those on integers,
    such as addresses; `loaded` and `stored`: bytes by kind of memory (`global`, `local`, ...).
    """

    arithmetic: int = 0
    integer: int = 0
    loaded: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.arithmetic + other.arithmetic,
            self.integer + other.integer,
            _merged(self.loaded, other.loaded),
            _merged(self.stored, other.stored),
        )

    def times(self, factor: int) -> Cost:
        """The cost of doing it `factor` times."""
        scale = lambda table: {k: v * factor for k, v in table.items()}  # noqa: E731
        return Cost(self.arithmetic * factor, self.integer * factor, scale(self.loaded), scale(self.stored))

    @property
    def touched(self) -> int:
        """Bytes loaded and stored, in all kinds of memory."""
        return sum(self.loaded.values()) + sum(self.stored.values())

    @property
    def weight(self) -> int:
        """One number for bars: operations plus elements of four bytes touched."""
        return self.arithmetic + self.touched // 4


def _merged(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {k: a.get(k, 0) + b.get(k, 0) for k in (*a, *(k for k in b if k not in a))}


@dataclass
class ProgramCost:
    """The cost of a function: the total, that of each statement by identity, and widths.

    `lanes` is the widest vector, `parallel` the iterations of the outermost parallel loops,
    `allocated` bytes of memory allocated inside, at their most for one iteration.
    """

    total: Cost
    of: dict[int, Cost]
    lanes: int
    parallel: int
    allocated: int

    def of_statement(self, stmt: Stmt) -> Cost:
        """The cost of one statement over all iterations of the loops around it."""
        return self.of.get(id(stmt), Cost())


def count(func: PrimFunc, sizes: Mapping[Any, int] | int = 256) -> ProgramCost:
    """Count what a function costs; symbolic sizes are as given, by variable or one number for all."""
    counter = _Counter(sizes)
    total = counter.visit(func.body)
    counter.spread(func.body, 1)
    return ProgramCost(total, counter.of, counter.lanes, counter.parallel, counter.allocated)


class _Counter(Visitor):
    """The cost of one run of each statement; `spread` multiplies by the loops around it."""

    def __init__(self, sizes: Mapping[Any, int] | int) -> None:
        self.sizes = sizes
        self.of: dict[int, Cost] = {}
        self.once: dict[int, Cost] = {}
        self.factors: dict[int, int] = {}  # how often the body of a loop runs
        self.lanes, self.parallel, self.allocated, self.depth = 1, 1, 0, 0

    def number(self, node: PrimExpr) -> int:
        """A size as a number; 1 where nothing is known of it."""
        if isinstance(node, IntImm):
            return node.value
        if isinstance(node, Var):
            return self.sizes if isinstance(self.sizes, int) else self.sizes.get(node, 1)
        from tvmagic.arith.analyzer import Analyzer
        from tvmagic.ir import substitute
        from tvmagic.te import const

        default = self.sizes if isinstance(self.sizes, int) else 1
        known = substitute(node, lambda v: const(default, str(v.dtype)) if not v.dtype.is_handle else None)
        result = Analyzer().simplify(known)
        return result.value if isinstance(result, IntImm) else 1

    def visit(self, node: Any) -> Cost:
        result = super().visit(node)
        cost = result if isinstance(result, Cost) else Cost()
        if isinstance(node, Stmt):
            self.once[id(node)] = cost
        return cost

    def visit_all(self, *nodes: Any) -> Cost:
        cost = Cost()
        for node in nodes:
            if node is not None:
                cost = cost + self.visit(node)
        return cost

    @handles(Node)
    def unknown(self, node: Node) -> Cost:
        raise TVMagicError(f"what a node `{type(node).__name__}` costs is not known", node=node)

    @handles(LetStmt, AssertStmt, Evaluate, ProducerStore, ProducerRealize, Prefetch, AllocateConst, DeclBuffer, While)
    def statement(self, node: Stmt) -> Cost:
        return self.visit_all(*(getattr(node, f.name, None) for f in node.FIELDS if f.kind.name in ("STMT", "EXPR")))

    @handles(ConstExpr, Var)
    def leaf(self, node: PrimExpr) -> Cost:
        return Cost()

    @handles(Not, Cast, Select, Let, Ramp, Broadcast, Shuffle, ProducerLoad, Reduce)
    def expression(self, node: Any) -> Cost:
        cost = Cost()
        for f in node.FIELDS:
            value: Any = getattr(node, f.name)
            if f.kind.name == "EXPR" and value is not None:
                cost = cost + self.visit(value)
            elif f.kind.name == "EXPRS" and value:
                cost = cost + self.visit_all(*(v for v in value if isinstance(v, PrimExpr)))
        return cost

    @handles(BinaryOp)
    def binary(self, node: Any) -> Cost:
        self.lanes = max(self.lanes, node.dtype.lanes)
        inside = self.visit_all(node.a, node.b)
        if node.a.dtype.is_float:
            return inside + Cost(arithmetic=node.a.dtype.lanes)
        return inside + Cost(integer=node.a.dtype.lanes)

    @handles(CmpOp, LogicalOp)
    def comparison(self, node: Any) -> Cost:
        return self.visit_all(node.a, node.b) + Cost(integer=node.a.dtype.lanes)

    @handles(Call)
    def call(self, node: Call) -> Cost:
        inside = self.visit_all(*(a for a in node.args if isinstance(a, PrimExpr)))
        name = getattr(node.op, "name", "").removeprefix("tir.")
        if name in _FREE_CALLS or not node.dtype.is_float:
            return inside
        return inside + Cost(arithmetic=node.dtype.lanes * (2 if name == "fma" else 1))

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> Cost:
        self.lanes = max(self.lanes, node.dtype.lanes)
        return self.visit_all(*node.indices) + Cost(loaded={node.buffer.scope(): node.dtype.bytes})

    @handles(BufferStore)
    def store(self, node: BufferStore) -> Cost:
        self.lanes = max(self.lanes, node.value.dtype.lanes)
        inside = self.visit_all(node.value, *node.indices)
        return inside + Cost(stored={node.buffer.scope(): node.value.dtype.bytes})

    @handles(For)
    def loop(self, node: For) -> Cost:
        extent = self.number(node.extent)
        if node.kind == ForKind.PARALLEL and not self.depth:
            self.parallel = max(self.parallel, extent)
        if node.kind == ForKind.VECTORIZED:
            self.lanes = max(self.lanes, extent)
        self.depth += node.kind == ForKind.PARALLEL
        inside = self.visit(node.body)
        self.depth -= node.kind == ForKind.PARALLEL
        return self.repeated(node, inside, extent)

    def repeated(self, node: Stmt, inside: Cost, times: int) -> Cost:
        """The cost of a statement whose body, of cost `inside`, runs `times` times."""
        self.factors[id(node)] = times
        return inside.times(times)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> Cost:
        if node.attr_key in ("thread_extent", "virtual_thread"):
            return self.repeated(node, self.visit(node.body), self.number(node.value))
        return self.visit(node.body)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> Cost:
        then = self.visit(node.then_case)
        other = self.visit(node.else_case) if node.else_case is not None else Cost()
        return self.visit(node.condition) + (then if then.weight >= other.weight else other)

    @handles(BlockRealize)
    def block(self, node: BlockRealize) -> Cost:
        for buffer in node.block.alloc_buffers:
            elements = 1
            for size in buffer.shape:
                elements *= self.number(size)
            self.allocated += elements * buffer.dtype.bytes
        return self.visit_all(node.block.init, node.block.body)

    @handles(Allocate)
    def allocate(self, node: Allocate) -> Cost:
        elements = 1
        for size in node.extents:
            elements *= self.number(size)
        self.allocated += elements * node.dtype.bytes
        return self.visit(node.body)

    @handles(BufferRealize)
    def realize(self, node: BufferRealize) -> Cost:
        elements = 1
        for bound in node.bounds:
            elements *= self.number(bound.extent)
        self.allocated += elements * node.buffer.dtype.bytes
        return self.visit(node.body)

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> Cost:
        return self.visit_all(*node.seq)

    def spread(self, stmt: Any, factor: int) -> None:
        """Set the cost of each statement over all iterations around it."""
        pending = [(stmt, factor)]
        while pending:
            node, times = pending.pop()
            self.of[id(node)] = self.once.get(id(node), Cost()).times(times)
            times *= self.factors.get(id(node), 1)
            if isinstance(node, BlockRealize):
                pending += [(part, times) for part in (node.block.init, node.block.body) if part is not None]
            else:
                for f in node.FIELDS:
                    value: Any = getattr(node, f.name)
                    if f.kind.name == "STMT" and value is not None:
                        pending.append((value, times))
                    elif f.kind.name == "STMTS" and value:
                        pending += [(part, times) for part in value]
