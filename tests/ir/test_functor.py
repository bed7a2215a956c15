"""Walks over programs: what a visitor of statements alone goes into."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.script import from_source

FUNC = from_source(
    """# from tvm.script import tir as T
@T.prim_func
def main(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if i < 4:
            A[i] = A[i] + 1"""
)


class Loops(ir.StmtVisitor):
    def __init__(self) -> None:
        self.found: list[Any] = []

    @ir.handles(ir.For, ir.BufferStore, ir.BufferLoad, ir.Var, ir.Add)
    def seen(self, node: Any) -> None:
        self.found.append(type(node))
        self.visit_children(node)


class Without(ir.StmtMutator):
    """Takes conditions away."""

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> ir.Stmt:
        return self.visit(node.then_case)


def test_expressions_are_left_alone() -> None:
    class Statements(ir.StmtVisitor):
        def __init__(self) -> None:
            self.found: list[Any] = []

        @ir.handles(ir.Stmt)
        def seen(self, node: ir.Stmt) -> None:
            self.found.append(type(node))
            self.visit_children(node)

    walk = Statements()
    walk.visit(FUNC.body)
    assert walk.found == [ir.For, ir.IfThenElse, ir.BufferStore]
    new = Without().visit(FUNC.body)
    assert "if" not in str(new) and new.body.value is FUNC.body.body.then_case.value


def test_a_subclass_may_ask_for_some_expressions() -> None:
    loops = Loops()
    loops.visit(FUNC.body)
    # not the condition; the sum and the load are in the store, which asks for its children
    assert loops.found == [ir.For, ir.BufferStore, ir.Add, ir.BufferLoad, ir.Var, ir.Var]
