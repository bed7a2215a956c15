"""What a program costs, by statement."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.eval.cost import count


def test_a_cost_without_the_statements_inside() -> None:
    """The multiply-add carries the cost, whatever loops and variables are around it."""
    a = ir.decl_buffer((64,), "float32", "A")
    i, k = ir.Var("i", "int32"), ir.Var("k", "int32")
    store = ir.BufferStore(a, ir.BufferLoad(a, [k]) * 2.0 + 1.0, [k])
    scalar = ir.BufferStore(a, 3.0, [i])
    let = ir.LetStmt(k, i * 2, ir.SeqStmt([store, scalar]))
    loop = ir.For(i, 0, 64, 0, let)
    cost = count(ir.PrimFunc([], loop))
    assert cost.of_statement(loop) == cost.of_statement(let) == cost.total
    assert cost.own_of(loop).weight == cost.own_of(let).weight == 0
    assert cost.own_of(let).integer == 64 and cost.own_of(store).arithmetic == 128
    assert cost.own_of(store).weight + cost.own_of(scalar).weight == cost.total.weight
