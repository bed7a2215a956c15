"""What a program costs, counted from the IR: for each statement and for the whole.

Nothing is measured: arithmetic, bytes touched by kind of memory, vector lanes, parallel width and
allocated bytes follow from the loops around each expression. Both sides of a condition that is not
constant are not added: the dearer one counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.eval.tally import Tally
from tvmagic.ir.query import callee, variables_in

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

    def without(self, part: Cost) -> Cost:
        """What is left when a part of it is left out; never less than nothing."""
        return Cost(
            max(self.arithmetic - part.arithmetic, 0),
            max(self.integer - part.integer, 0),
            {k: max(v - part.loaded.get(k, 0), 0) for k, v in self.loaded.items()},
            {k: max(v - part.stored.get(k, 0), 0) for k, v in self.stored.items()},
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
    """The cost of a function: the total, that of each statement by identity (`own`: without the statements in it), and widths.

    `lanes` is the widest vector, `parallel` the iterations of the outermost parallel loops,
    `allocated` bytes of memory allocated inside, at their most for one iteration.
    """

    total: Cost
    of: dict[int, Cost]
    own: dict[int, Cost]
    lanes: int
    parallel: int
    allocated: int

    def of_statement(self, stmt: ir.Stmt) -> Cost:
        """The cost of one statement over all iterations of the loops around it."""
        return self.of.get(id(stmt), Cost())

    def own_of(self, stmt: ir.Stmt) -> Cost:
        """The same without the statements in it: nothing for a loop, the value alone for a `LetStmt`."""
        return self.own.get(id(stmt), Cost())


def human(number: float, unit: str = "") -> str:
    """`12.3 M`: a count as people read it; with a unit `12.3 MB`, and `64 B`."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    return f"{number:.0f} {unit}".rstrip()


def count(func: ir.PrimFunc, sizes: Mapping[Any, int] | int = 256) -> ProgramCost:
    """Count what a function costs; symbolic sizes are as given, by variable or one number for all."""
    tally = CostTally(sizes)
    total = tally.visit(func.body)
    tally.spread(func.body, 1)
    return ProgramCost(total, tally.of, tally.own, tally.lanes, tally.parallel, tally.allocated)


class CostTally(Tally[Cost]):
    """The cost of one run of each statement; `spread` multiplies by the loops around it."""

    def __init__(self, sizes: Mapping[Any, int] | int) -> None:
        self.sizes = sizes
        self.of: dict[int, Cost] = {}
        self.own: dict[int, Cost] = {}
        self.once: dict[int, Cost] = {}
        self.factors: dict[int, int] = {}  # how often the body of a loop runs
        self.lanes, self.parallel, self.allocated, self.depth = 1, 1, 0, 0

    def number(self, node: ir.PrimExpr) -> int:
        """A size as a number; what is not known of it counts as 1."""
        if isinstance(self.sizes, int):
            known = dict.fromkeys(variables_in(node), self.sizes)
        else:
            known = {v: self.sizes.get(v, 1) for v in variables_in(node)}
        try:
            return int(evaluate(node, known))
        except TVMagicError:
            return 1

    def visit(self, node: Any) -> Cost:
        cost = super().visit(node)
        if isinstance(node, ir.Stmt):
            self.once[id(node)] = cost
        return cost

    def zero(self) -> Cost:
        return Cost()

    def add(self, a: Cost, b: Cost) -> Cost:
        return a + b

    def times(self, count: Cost, factor: int) -> Cost:
        return count.times(factor)

    def longer(self, a: Cost, b: Cost) -> Cost:
        return a if a.weight >= b.weight else b

    def repeated(self, node: ir.Stmt, inside: Cost, factor: int) -> Cost:
        self.factors[id(node)] = factor
        return inside.times(factor)

    def iterations(self, loop: ir.For) -> int:
        return self.number(loop.extent)

    # ------------------------------------------------------------------------ expressions

    @ir.handles(ir.BinaryOp)
    def arithmetic(self, node: Any) -> Cost:
        self.lanes = max(self.lanes, node.dtype.lanes)
        inside = self.all_of(node.a, node.b)
        if node.a.dtype.is_float:
            return inside + Cost(arithmetic=node.a.dtype.lanes)
        return inside + Cost(integer=node.a.dtype.lanes)

    @ir.handles(ir.CmpOp, ir.LogicalOp)
    def comparison(self, node: Any) -> Cost:
        return self.all_of(node.a, node.b) + Cost(integer=node.a.dtype.lanes)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> Cost:
        inside = super().call(node)
        name = callee(node).removeprefix("tir.")
        if name in _FREE_CALLS or not node.dtype.is_float:
            return inside
        return inside + Cost(arithmetic=node.dtype.lanes * (2 if name == "fma" else 1))

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> Cost:
        self.lanes = max(self.lanes, node.dtype.lanes)
        return self.all_of(*node.indices) + Cost(loaded={node.buffer.scope(): node.dtype.bytes})

    # ------------------------------------------------------------------------ statements

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> Cost:
        self.lanes = max(self.lanes, node.value.dtype.lanes)
        inside = self.all_of(node.value, *node.indices)
        return inside + Cost(stored={node.buffer.scope(): node.value.dtype.bytes})

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> Cost:
        extent, is_parallel = self.iterations(node), node.kind == ir.ForKind.PARALLEL
        if is_parallel and not self.depth:
            self.parallel = max(self.parallel, extent)
        if node.kind == ir.ForKind.VECTORIZED:
            self.lanes = max(self.lanes, extent)
        self.depth += is_parallel
        inside = self.visit(node.body)
        self.depth -= is_parallel
        return self.repeated(node, inside, extent)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> Cost:
        inside = self.visit(node.body)
        if node.attr_key in ("thread_extent", "virtual_thread"):
            return self.repeated(node, inside, self.number(node.value))
        return inside

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> Cost:
        for buffer in node.block.alloc_buffers:
            self._allocate(buffer.shape, buffer.dtype)
        return super().realize(node)

    @ir.handles(ir.Allocate)
    def allocate(self, node: ir.Allocate) -> Cost:
        self._allocate(node.extents, node.dtype)
        return self.visit(node.body)

    @ir.handles(ir.BufferRealize)
    def realize_buffer(self, node: ir.BufferRealize) -> Cost:
        self._allocate([bound.extent for bound in node.bounds], node.buffer.dtype)
        return self.visit(node.body)

    def _allocate(self, sizes: Iterable[ir.PrimExpr], dtype: ir.DataType) -> None:
        self.allocated += math.prod(self.number(size) for size in sizes) * dtype.bytes

    def spread(self, stmt: Any, factor: int) -> None:
        """Set the cost of each statement over all iterations around it, with and without the statements in it."""
        pending = [(stmt, factor)]
        while pending:
            node, times = pending.pop()
            whole = self.once.get(id(node), Cost()).times(times)
            times *= self.factors.get(id(node), 1)
            inside = Cost()
            for part in _statements_in(node):
                inside += self.once.get(id(part), Cost()).times(times)
                pending.append((part, times))
            self.of[id(node)], self.own[id(node)] = whole, whole.without(inside)


def _statements_in(node: Any) -> list[ir.Stmt]:
    """The statements right inside a statement, in order."""
    if isinstance(node, ir.BlockRealize):
        return [part for part in (node.block.init, node.block.body) if part is not None]
    found: list[ir.Stmt] = []
    for f in node.FIELDS:
        value: Any = getattr(node, f.name)
        if f.kind.name == "STMT" and value is not None:
            found.append(value)
        elif f.kind.name == "STMTS" and value:
            found += value
    return found
