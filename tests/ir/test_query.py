"""Questions about a part of a program."""

from tvmagic.ir import Add, BufferLoad, IntImm, Var, decl_buffer
from tvmagic.ir.query import contains, nodes_of


def test_nodes_of_a_class_are_listed_operands_first_and_contained():
    i = Var("i", "int32")
    table = decl_buffer((8,), "int32", "B")
    inner = BufferLoad(table, [i])
    outer = BufferLoad(table, [inner])
    expr = Add(outer, IntImm("int32", 1))
    loads = nodes_of(expr, BufferLoad)
    assert len(loads) == 2 and loads[0] is inner and loads[1] is outer
    assert contains(expr, BufferLoad)
    plain = Add(i, IntImm("int32", 1))
    assert not contains(plain, BufferLoad) and nodes_of(plain, BufferLoad) == []
