"""How counts of a program add up: sequences, loops and branches in one place, for every kind of count."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from tvmagic import ir
from tvmagic.errors import TVMagicError

T = TypeVar("T")


class Tally(ir.Visitor, Generic[T]):
    """Counts a program: `visit(node)` gives the count of one run of `node` with all the loops inside.

    A subclass says what the values are (`zero`, `add`, `times`, `longer`), how often a loop runs, and what it counts
    at operations and accesses; `all_of` counts the parts of a node. Every class of nodes is handled here, an unknown
    one is refused by its name.
    """

    def zero(self) -> T:
        """The count of nothing."""
        raise NotImplementedError

    def add(self, a: T, b: T) -> T:
        """Both counts."""
        raise NotImplementedError

    def times(self, count: T, factor: int) -> T:
        """The count of doing it `factor` times."""
        raise NotImplementedError

    def longer(self, a: T, b: T) -> T:
        """The count of a branch of which either side may run: that of the longer one."""
        raise NotImplementedError

    def iterations(self, loop: ir.For) -> int:
        """How often the body of a loop runs."""
        raise NotImplementedError

    def all_of(self, *nodes: Any) -> T:
        """The counts of several nodes; None counts nothing."""
        total = self.zero()
        for node in nodes:
            if node is not None:
                total = self.add(total, self.visit(node))
        return total

    def repeated(self, node: ir.Stmt, inside: T, factor: int) -> T:
        """The count of a statement whose body, of the count `inside`, runs `factor` times."""
        return self.times(inside, factor)

    # ------------------------------------------------------------------------ expressions

    @ir.handles(ir.Node)
    def unknown(self, node: ir.Node) -> T:
        raise TVMagicError(
            f"what a node `{type(node).__name__}` counts is not known", node=node, code="interpreter.unknown_count"
        )

    @ir.handles(ir.ConstExpr, ir.Var)
    def leaf(self, node: ir.PrimExpr) -> T:
        return self.zero()

    @ir.handles(ir.BinaryOp, ir.CmpOp, ir.LogicalOp)
    def binary(self, node: Any) -> T:
        return self.all_of(node.a, node.b)

    @ir.handles(ir.Not)
    def negation(self, node: ir.Not) -> T:
        return self.visit(node.a)

    @ir.handles(ir.Cast, ir.Broadcast)
    def of_value(self, node: Any) -> T:
        return self.visit(node.value)

    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> T:
        return self.all_of(node.condition, node.true_value, node.false_value)

    @ir.handles(ir.Let)
    def let(self, node: ir.Let) -> T:
        return self.all_of(node.value, node.body)

    @ir.handles(ir.Ramp)
    def ramp(self, node: ir.Ramp) -> T:
        return self.all_of(node.base, node.stride)

    @ir.handles(ir.Shuffle)
    def shuffle(self, node: ir.Shuffle) -> T:
        return self.all_of(*node.vectors, *node.indices)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> T:
        return self.all_of(*(a for a in node.args if isinstance(a, ir.PrimExpr)))

    @ir.handles(ir.BufferLoad, ir.ProducerLoad)
    def load(self, node: Any) -> T:
        return self.all_of(*node.indices)

    @ir.handles(ir.Reduce)
    def reduce(self, node: ir.Reduce) -> T:
        return self.all_of(*node.source)

    # ------------------------------------------------------------------------ statements

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> T:
        return self.visit(node.value)

    @ir.handles(ir.BufferStore, ir.ProducerStore)
    def store(self, node: Any) -> T:
        return self.all_of(node.value, *node.indices)

    @ir.handles(ir.LetStmt)
    def let_stmt(self, node: ir.LetStmt) -> T:
        return self.all_of(node.value, node.body)

    @ir.handles(ir.AssertStmt)
    def assertion(self, node: ir.AssertStmt) -> T:
        return self.all_of(node.condition, node.body)

    @ir.handles(ir.Allocate, ir.AllocateConst, ir.DeclBuffer, ir.BufferRealize, ir.ProducerRealize)
    def allocation(self, node: Any) -> T:
        return self.visit(node.body)

    @ir.handles(ir.Prefetch)
    def prefetch(self, node: ir.Prefetch) -> T:
        return self.zero()

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> T:
        return self.visit(node.body)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> T:
        return self.all_of(*node.seq)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> T:
        then, other = self.visit(node.then_case), self.all_of(node.else_case)
        return self.add(self.visit(node.condition), self.longer(then, other))

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> T:
        return self.repeated(node, self.visit(node.body), self.iterations(node))

    @ir.handles(ir.While)
    def endless(self, node: ir.While) -> T:
        return self.all_of(node.condition, node.body)

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> T:
        return self.visit(node.block)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> T:
        return self.all_of(node.init, node.body)
