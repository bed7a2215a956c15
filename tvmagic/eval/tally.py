"""How counts of a program add up: sequences, loops and branches in one place, for every kind of count."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BinaryOp,
    Block,
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
    IfThenElse,
    Let,
    LetStmt,
    LogicalOp,
    Node,
    Not,
    Prefetch,
    PrimExpr,
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

T = TypeVar("T")


class Tally(Visitor, Generic[T]):
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

    def iterations(self, loop: For) -> int:
        """How often the body of a loop runs."""
        raise NotImplementedError

    def all_of(self, *nodes: Any) -> T:
        """The counts of several nodes; None counts nothing."""
        total = self.zero()
        for node in nodes:
            if node is not None:
                total = self.add(total, self.visit(node))
        return total

    def repeated(self, node: Stmt, inside: T, factor: int) -> T:
        """The count of a statement whose body, of the count `inside`, runs `factor` times."""
        return self.times(inside, factor)

    # ------------------------------------------------------------------------ expressions

    @handles(Node)
    def unknown(self, node: Node) -> T:
        raise TVMagicError(
            f"what a node `{type(node).__name__}` counts is not known", node=node, code="interpreter.unknown_count"
        )

    @handles(ConstExpr, Var)
    def leaf(self, node: PrimExpr) -> T:
        return self.zero()

    @handles(BinaryOp, CmpOp, LogicalOp)
    def binary(self, node: Any) -> T:
        return self.all_of(node.a, node.b)

    @handles(Not)
    def negation(self, node: Not) -> T:
        return self.visit(node.a)

    @handles(Cast, Broadcast)
    def of_value(self, node: Any) -> T:
        return self.visit(node.value)

    @handles(Select)
    def select(self, node: Select) -> T:
        return self.all_of(node.condition, node.true_value, node.false_value)

    @handles(Let)
    def let(self, node: Let) -> T:
        return self.all_of(node.value, node.body)

    @handles(Ramp)
    def ramp(self, node: Ramp) -> T:
        return self.all_of(node.base, node.stride)

    @handles(Shuffle)
    def shuffle(self, node: Shuffle) -> T:
        return self.all_of(*node.vectors, *node.indices)

    @handles(Call)
    def call(self, node: Call) -> T:
        return self.all_of(*(a for a in node.args if isinstance(a, PrimExpr)))

    @handles(BufferLoad, ProducerLoad)
    def load(self, node: Any) -> T:
        return self.all_of(*node.indices)

    @handles(Reduce)
    def reduce(self, node: Reduce) -> T:
        return self.all_of(*node.source)

    # ------------------------------------------------------------------------ statements

    @handles(Evaluate)
    def evaluate(self, node: Evaluate) -> T:
        return self.visit(node.value)

    @handles(BufferStore, ProducerStore)
    def store(self, node: Any) -> T:
        return self.all_of(node.value, *node.indices)

    @handles(LetStmt)
    def let_stmt(self, node: LetStmt) -> T:
        return self.all_of(node.value, node.body)

    @handles(AssertStmt)
    def assertion(self, node: AssertStmt) -> T:
        return self.all_of(node.condition, node.body)

    @handles(Allocate, AllocateConst, DeclBuffer, BufferRealize, ProducerRealize)
    def allocation(self, node: Any) -> T:
        return self.visit(node.body)

    @handles(Prefetch)
    def prefetch(self, node: Prefetch) -> T:
        return self.zero()

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> T:
        return self.visit(node.body)

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> T:
        return self.all_of(*node.seq)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> T:
        then, other = self.visit(node.then_case), self.all_of(node.else_case)
        return self.add(self.visit(node.condition), self.longer(then, other))

    @handles(For)
    def loop(self, node: For) -> T:
        return self.repeated(node, self.visit(node.body), self.iterations(node))

    @handles(While)
    def endless(self, node: While) -> T:
        return self.all_of(node.condition, node.body)

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> T:
        return self.visit(node.block)

    @handles(Block)
    def block(self, node: Block) -> T:
        return self.all_of(node.init, node.body)
