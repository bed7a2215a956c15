"""Control-flow blocks of a statement, with the edges between them and the accesses in them.

A block starts after each store and each assumption about a buffer, at the start of a loop's body and behind a loop, at
the start of each branch and behind the branches. So at most one thing in a block changes what is known, and it is
the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.constraint import extract_constraints, normalize_boolean
from tvmagic.errors import TVMagicError
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import is_call, strip_likely, variables_in


@dataclass(eq=False)
class Loop:
    """A loop around a block: its variable, first and last value."""

    var: ir.Var
    first: ir.PrimExpr
    last: ir.PrimExpr


@dataclass(eq=False)
class Touch:
    """An access of a buffer. `value`: what is stored or assumed; None if nothing is known of it."""

    kind: Literal["read", "write", "assume"]
    buffer: ir.Buffer
    indices: tuple[ir.PrimExpr, ...]
    value: ir.PrimExpr | None
    conditions: tuple[ir.PrimExpr, ...]  # under which an assumption holds
    masked: bool  # by a predicate: it may touch fewer elements


@dataclass(eq=False)
class Step:
    """What one of the searches does along an edge: variables replaced, then conditions added."""

    values: Mapping[ir.Var, ir.PrimExpr]
    conditions: tuple[ir.PrimExpr, ...] = ()
    tells: bool = False  # whether the conditions tell this edge from the other one into the same block


@dataclass(eq=False)
class Edge:
    """The flow from one block to another."""

    source: int
    target: int
    forward: Step
    backward: Step


@dataclass(eq=False)
class FlowBlock:
    """A piece of straight code."""

    number: int
    loops: tuple[Loop, ...]
    scope: tuple[ir.PrimExpr, ...]  # conditions around it that load nothing
    touches: list[Touch] = field(default_factory=list[Touch])
    before: list[Edge] = field(default_factory=list[Edge])
    after: list[Edge] = field(default_factory=list[Edge])
    # the blocks that the first sweep takes for the one before and the one behind, instead of those of the edges
    guess_before: int | None = None
    guess_after: int | None = None


@dataclass(eq=False)
class Place:
    """Where a statement begins: its block, and the values of the lets around it."""

    block: int
    values: Mapping[ir.Var, ir.PrimExpr]


@dataclass(eq=False)
class Graph:
    """The blocks in program order, and what the searches need to know beside them.

    `hidden`: buffers of which nothing is known, since they are reached by other ways than plain accesses.
    `unknown`: variables that stand for what memory held.
    """

    blocks: list[FlowBlock] = field(default_factory=list[FlowBlock])
    places: dict[int, Place | None] = field(default_factory=dict[int, "Place | None"])
    ranges: dict[ir.Var, ir.Range] = field(default_factory=dict[ir.Var, ir.Range])
    assumptions: list[tuple[tuple[ir.PrimExpr, ...], ir.PrimExpr]] = field(
        default_factory=list[tuple[tuple[ir.PrimExpr, ...], ir.PrimExpr]]
    )
    hidden: set[ir.Buffer] = field(default_factory=set[ir.Buffer])
    unknown: set[ir.Var] = field(default_factory=set[ir.Var])
    supported: bool = True
    nodes: list[ir.Stmt] = field(default_factory=list[ir.Stmt])  # keeps the identities in `places`

    def is_pure(self, e: ir.PrimExpr) -> bool:
        """Whether `e` is computed from variables alone, and not from what memory held."""
        return side_effect(e) <= ir.CallEffect.PURE and self.unknown.isdisjoint(variables_in(e))


def build_graph(stmt: ir.Stmt) -> Graph:
    """The control-flow graph of a statement."""
    builder = _Builder()
    builder.visit(stmt)
    graph = builder.graph
    uses = _BufferUses()
    uses.visit(stmt)
    graph.hidden = uses.hidden()
    return graph


class _BufferUses(ir.Visitor):
    """Finds buffers of one memory, and memory that is reached by its pointer."""

    def __init__(self) -> None:
        self.of_data: dict[ir.Var, set[ir.Buffer]] = {}
        self.escaped: set[ir.Var] = set()

    def hidden(self) -> set[ir.Buffer]:
        """The buffers that one cannot follow by their accesses."""
        return {
            buffer
            for data, buffers in self.of_data.items()
            for buffer in buffers
            if len(buffers) > 1 or data in self.escaped or not buffer.dtype.is_scalar
        }

    def visit_buffer_use(self, buffer: ir.Buffer) -> None:
        self.of_data.setdefault(buffer.data, set()).add(buffer)

    @ir.handles(ir.DeclBuffer, ir.BufferRealize)
    def declaration(self, node: Any) -> None:
        self.visit(node.body)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        for match in node.match_buffers:
            self.escaped |= {match.buffer.data, match.source.buffer.data}
        for part in (node.init, node.body):
            if part is not None:
                self.visit(part)

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> None:
        if var.dtype.is_handle:
            self.escaped.add(var)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.address_of") and isinstance(node.args[0], ir.BufferLoad):
            self.escaped.add(node.args[0].buffer.data)
        self.visit_children(node)


class _Builder(ir.Visitor):
    def __init__(self) -> None:
        self.graph = Graph()
        self.loops: tuple[Loop, ...] = ()
        self.scope: tuple[ir.PrimExpr, ...] = ()
        self.values: Mapping[ir.Var, ir.PrimExpr] = {}
        self.analyzer = Analyzer()
        self.block = self._new_block()

    # ------------------------------------------------------------------ blocks and edges

    def _new_block(self) -> FlowBlock:
        block = FlowBlock(len(self.graph.blocks), self.loops, self.scope)
        self.graph.blocks.append(block)
        return block

    def _edge(self, source: FlowBlock, target: FlowBlock, forward: Step, backward: Step) -> None:
        edge = Edge(source.number, target.number, forward, backward)
        source.after.append(edge)
        target.before.append(edge)

    def _next_block(self) -> None:
        """Begin the next block of straight code."""
        old, self.block = self.block, self._new_block()
        self._edge(old, self.block, Step({}), Step({}))

    def visit(self, node: Any) -> Any:
        if isinstance(node, ir.Stmt):
            shared = id(node) in self.graph.places  # one statement in two places
            self.graph.places[id(node)] = None if shared else Place(self.block.number, self.values)
            self.graph.nodes.append(node)
        return super().visit(node)

    def _inlined(self, e: ir.PrimExpr) -> ir.PrimExpr:
        """`e` with the values of pure lets in the place of their variables."""
        return ir.substitute(e, self.values) if self.values else e

    # ------------------------------------------------------------------ loops

    def _define(self, var: ir.Var, range_: ir.Range) -> None:
        if var in self.graph.ranges:
            self.graph.supported = False  # one variable in two loops
        self.graph.ranges[var] = range_

    @ir.handles(ir.For)
    def for_loop(self, node: ir.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        if node.kind is ir.ForKind.THREAD_BINDING:
            self.graph.supported = False  # what other threads store is not followed
        first, extent = self._inlined(node.min), self._inlined(node.extent)
        if not (self.graph.is_pure(first) and self.graph.is_pure(extent)):
            self.graph.unknown.add(node.loop_var)
            return self._unknown_loop(node, None)
        var, last = node.loop_var, self.analyzer.simplify(first + extent - 1)
        self._define(var, ir.Range.from_min_extent(first, extent))
        runs = () if isinstance(extent, ir.IntImm) and extent.value > 0 else (extent > 0,)
        before, outer = self.block, self.loops
        self.loops = (*outer, Loop(var, first, last))
        start = self.block = self._new_block()
        self.visit(node.body)
        end = self.block
        self.loops = outer
        behind = self.block = self._new_block()
        self._edge(before, start, Step({}, (var.equal(first),), True), Step({var: first}, runs, True))
        self._edge(end, behind, Step({var: last}, runs, True), Step({}, (var.equal(last),), True))
        if runs:  # it may not run at all
            self._edge(before, behind, Step({}, (extent <= 0,), True), Step({}, (extent <= 0,), True))
        self._edge(end, start, Step({var: var - 1}, (var > first,), True), Step({var: var + 1}, (var < last,), True))
        return None

    def _unknown_loop(self, node: ir.For | ir.While, condition: ir.PrimExpr | None) -> None:
        """A loop of which nobody knows how often it runs; `condition` is computed before each iteration."""
        self._next_block()
        head = self.block
        if condition is not None:
            if self.graph.places[id(node)] is not None:
                self.graph.places[id(node)] = Place(head.number, self.values)
            self.visit(condition)
        self.block = self._new_block()
        self._edge(head, self.block, Step({}), Step({}))
        self.visit(node.body)
        self._edge(self.block, head, Step({}), Step({}))
        self.block = self._new_block()
        self._edge(head, self.block, Step({}), Step({}))

    @ir.handles(ir.While)
    def while_loop(self, node: ir.While) -> None:
        self._unknown_loop(node, node.condition)

    # ------------------------------------------------------------------ branches

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        self.visit(node.condition)
        condition = self._inlined(strip_likely(node.condition))
        self._branch(condition, node.then_case, node.else_case)

    def _branch(self, condition: ir.PrimExpr | None, then_case: ir.Stmt, else_case: ir.Stmt | None) -> None:
        pure = condition is not None and self.graph.is_pure(condition)
        opposite = None if condition is None else normalize_boolean(ir.Not(condition))
        self._next_block()
        split, starts, ends = self.block, list[FlowBlock](), list[FlowBlock]()
        for fact, case in ((condition, then_case), (opposite, else_case)):
            outer = self.scope
            parts = [] if fact is None else extract_constraints(fact, keep_composite=False)
            known = tuple([p for p in parts if self.graph.is_pure(p)])
            self.scope = (*outer, *known)
            self.block = self._new_block()
            starts.append(self.block)
            self._edge(split, self.block, Step({}), Step({}, known, True) if pure else Step({}))
            for part in parts:
                if not self.graph.is_pure(part):
                    self._assume(part, from_user=False)
            if case is not None:
                self.visit(case)
            ends.append(self.block)
            self.scope = outer
        self.block = self._new_block()
        for end, fact in zip(ends, (condition, opposite)):
            known = (fact,) if pure and fact is not None else ()
            self._edge(end, self.block, Step({}, known, pure), Step({}))
        if pure:
            self._guess_one_after_another(split, starts, ends)

    def _guess_one_after_another(self, split: FlowBlock, starts: list[FlowBlock], ends: list[FlowBlock]) -> None:
        """Let the first sweep see the two branches as straight code.

        It takes together what all iterations of the loops do, each under its own condition, and so both branches.
        """
        (then_start, else_start), (then_end, else_end) = starts, ends
        else_start.guess_before, self.block.guess_before = then_end.number, else_end.number
        then_end.guess_after, split.guess_after = else_start.number, then_start.number

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> None:
        outer = self.values
        for iter_var, value in zip(node.block.iter_vars, node.iter_values):
            self.visit(value)
            self._let(iter_var.var, value)
        self.visit(node.predicate)
        predicate = self._inlined(node.predicate)
        if isinstance(predicate, ir.IntImm) and predicate.value:
            self._block_body(node.block)
        else:
            self._branch(predicate, node.block, None)
        self.values = outer

    @ir.handles(ir.Block)
    def _block_body(self, node: ir.Block) -> None:
        if node.init is not None:
            self._branch(None, node.init, None)
        self.visit(node.body)

    # ------------------------------------------------------------------ lets and facts

    def _let(self, var: ir.Var, value: ir.PrimExpr) -> None:
        value = self._inlined(value)
        if self.graph.is_pure(value):
            self.values = {**self.values, var: value}
        else:
            self.graph.unknown.add(var)

    @ir.handles(ir.LetStmt, ir.Let)
    def let(self, node: ir.LetStmt | ir.Let) -> None:
        self.visit(node.value)
        outer = self.values
        self._let(node.var, node.value)
        self.visit(node.body)
        self.values = outer

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if node.attr_key in ("thread_extent", "virtual_thread", "volatile_scope"):
            self.graph.supported = False
        self.visit_children(node)

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> None:
        call = node.value
        if is_call(call, "tir.assume"):
            for part in extract_constraints(self._inlined(call.args[0]), keep_composite=False):
                self._assume(part, from_user=True)
        else:
            self.visit(call)

    def _assume(self, fact: ir.PrimExpr, from_user: bool) -> None:
        """Add one fact: without a load for the whole program, else as what an element of a buffer holds."""
        loads: list[ir.PrimExpr] = []
        conditions: list[ir.PrimExpr] = []
        for part in _alternatives(fact):
            if self.graph.is_pure(part):
                conditions.append(normalize_boolean(ir.Not(part)))
            else:
                loads.append(part)
        if not loads:
            self.graph.assumptions.append((self.scope, fact))
            return
        found = _element_and_value(loads[0], self.graph) if len(loads) == 1 else None
        if found is None:
            if from_user:
                raise TVMagicError(_refusal(loads), node=fact, code="assume.wrong_loads")
            return
        load, value = found
        self._touch("assume", load, value, tuple(conditions))
        self._next_block()

    # ------------------------------------------------------------------ accesses

    def _touch(self, kind: Any, node: Any, value: ir.PrimExpr | None, conditions: tuple[ir.PrimExpr, ...] = ()) -> None:
        masked = node.predicate is not None
        indices = tuple([self._inlined(i) for i in node.indices])
        if value is not None:
            value = self._inlined(value)
            if masked or not self.graph.unknown.isdisjoint(variables_in(value)):
                value = None
        self.block.touches.append(Touch(kind, node.buffer, indices, value, conditions, masked))

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.visit_children(node)
        self._touch("read", node, None)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.visit_children(node)
        self._touch("write", node, node.value)
        self._next_block()


def _alternatives(fact: ir.PrimExpr) -> list[ir.PrimExpr]:
    """The terms of a disjunction."""
    fact = normalize_boolean(fact)
    return [*_alternatives(fact.a), *_alternatives(fact.b)] if isinstance(fact, ir.Or) else [fact]


def _element_and_value(fact: ir.PrimExpr, graph: Graph) -> tuple[ir.BufferLoad, ir.PrimExpr] | None:
    """The load and the value of `load == value`, with a value that loads nothing."""
    if isinstance(fact, ir.EQ):
        for load, value in ((fact.a, fact.b), (fact.b, fact.a)):
            if isinstance(load, ir.BufferLoad) and graph.is_pure(value):
                return load, value
    return None


def _refusal(loads: list[ir.PrimExpr]) -> str:
    if len(loads) > 1:
        return "T.assume must contain only a single buffer expression"
    return f"T.assume buffer constraint must be of the form 'buffer[indices] == value', but received {loads[0]}"
