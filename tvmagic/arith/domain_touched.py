"""The box of a buffer that a statement reads or writes."""

from __future__ import annotations

from tvmagic.arith.int_set import IntSet, new_analyzer, union
from tvmagic.arith.int_set_eval import IntSetAnalyzer, uses_var
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    For,
    IfThenElse,
    Let,
    LetStmt,
    Not,
    PrimExpr,
    Range,
    Select,
    Stmt,
    Var,
    Visitor,
    handles,
)
from tvmagic.ir.query import is_call, launches_thread, strip_likely


class _Touches(Visitor):
    """Collects for each axis of one buffer the sets of the indices it is accessed at."""

    def __init__(self, buffer: Buffer, loads: bool, stores: bool) -> None:
        self.buffer, self.loads, self.stores = buffer, loads, stores
        self.analyzer = new_analyzer()
        self.sets = IntSetAnalyzer(self.analyzer)
        self.axes: list[list[IntSet]] = [[] for _ in buffer.shape]
        self.own: set[Var] = set()  # the variables of the statement, which nobody knows outside

    def touch(self, indices: tuple[PrimExpr, ...]) -> None:
        for axis, index in zip(self.axes, indices):
            axis.append(self.sets(index))

    def ranges(self) -> tuple[Range | None, ...]:
        """For each axis the range of its sets; None if an end is not known outside the statement."""
        found = [union(sets).as_range() for sets in self.axes]
        return tuple([None if r is None or uses_var(r.min + r.extent, self.own) else r for r in found])

    def bind(self, var: Var, value: object) -> None:
        self.own.add(var)
        self.analyzer.bind(var, value, True)
        self.sets.bind(var, value)

    def visit_under(self, condition: PrimExpr, node: object) -> None:
        with self.analyzer.constraint_scope(condition):
            leave = self.sets.enter_constraint(condition)
            self.visit(node)
            leave()

    @handles(For)
    def loop(self, node: For) -> None:
        self.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        self.visit_children(node)

    @handles(LetStmt, Let)
    def let(self, node: LetStmt | Let) -> None:
        self.own.add(node.var)
        if node.value.dtype.is_index:
            self.bind(node.var, node.value)
        self.visit_children(node)

    @handles(AttrStmt)
    def attr(self, node: AttrStmt) -> None:
        if launches_thread(node):
            self.bind(node.node.var, Range(0, node.value))
        self.visit_children(node)

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.visit(node.condition)
        condition = strip_likely(node.condition)
        self.visit_under(condition, node.then_case)
        if node.else_case is not None:
            self.visit_under(self.analyzer.rewrite_simplify(Not(condition)), node.else_case)

    @handles(Select)
    def select(self, node: Select) -> None:
        self._choose(node.condition, node.true_value, node.false_value)

    @handles(Call)
    def call(self, node: Call) -> None:
        if is_call(node, "tir.if_then_else"):
            self._choose(*node.args)
        else:
            self.visit_children(node)

    def _choose(self, condition: PrimExpr, true_value: PrimExpr, false_value: PrimExpr) -> None:
        self.visit(condition)
        condition = strip_likely(condition)
        self.visit_under(condition, true_value)
        self.visit_under(self.analyzer.rewrite_simplify(Not(condition)), false_value)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if self.loads and node.buffer is self.buffer:
            self.touch(node.indices)
        self.visit_children(node)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        if self.stores and node.buffer is self.buffer:
            self.touch(node.indices)
        self.visit_children(node)


def domain_touched(
    stmt: Stmt, buffer: Buffer, consider_loads: bool = True, consider_stores: bool = True
) -> tuple[Range | None, ...]:
    """For each axis of `buffer` the range of the indices that `stmt` accesses it at.

    An axis whose indices have no bound gives None; a buffer that is not accessed an empty tuple.
    """
    if not (consider_loads or consider_stores):
        raise TVMagicError(
            "`DomainTouched` considers loads, stores or both, not neither", code="domain_touched.no_access_kind"
        )
    touches = _Touches(buffer, consider_loads, consider_stores)
    touches.visit(stmt)
    if not any(touches.axes):
        return ()
    return touches.ranges()


DomainTouched = domain_touched
