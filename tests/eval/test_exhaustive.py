"""Every visitor that gives a program a meaning handles every class of nodes, or refuses it by name."""

from __future__ import annotations

import pytest

import tvmagic.ir as ir
from tvmagic.cinn.text.printer import CinnPrinter
from tvmagic.codegen.emit.statements import FunctionEmitter
from tvmagic.codegen.gpu.opencl.statements import KernelWriter
from tvmagic.errors import TVMagicError
from tvmagic.eval.cost import CostTally
from tvmagic.eval.machine import Machine
from tvmagic.ir.derive import node
from tvmagic.script.printer.classic_text import ClassicPrinter
from tvmagic.script.printer.core import HANDLERS
from tvmagic.te.numpy_eval import ArrayEvaluator
from tvmagic.te.numpy_stmt import StatementRunner

# bases of other classes, and `Any`, the size of a shape that is not known, which no program computes with
ABSTRACT = {"Any", "ConstExpr", "BinaryOp", "CmpOp", "LogicalOp", "PrimExpr", "Stmt"}
NODES = {
    name: cls
    for name, cls in vars(ir).items()
    if isinstance(cls, type) and issubclass(cls, (ir.PrimExpr, ir.Stmt)) and name not in ABSTRACT
}
BLOCKS = {"Block", "BlockRealize"}
TENSORS = {"ProducerLoad", "ProducerStore", "ProducerRealize", "Prefetch", "BufferRealize", "Reduce"}
VECTORS = {"Ramp", "Broadcast", "Shuffle"}
NOT_IN_CINN = {"Prefetch", "Shuffle"}
# What each visitor refuses: nodes that programs at its place do not have.
VISITORS = {
    "the interpreter": (
        Machine,
        {"Reduce", "Block"},
    ),  # ScheduleOps writes Reduce out; a Block comes in its realize
    "the cost": (CostTally, set()),
    "machine code": (FunctionEmitter, BLOCKS | TENSORS),  # lowered before
    "OpenCL C": (KernelWriter, BLOCKS | TENSORS),
    "arrays of a tensor expression": (
        ArrayEvaluator,
        {n for n, c in NODES.items() if issubclass(c, ir.Stmt)} | VECTORS | {"BufferLoad", "Reduce", "StringImm"},
    ),
    "statements on arrays": (StatementRunner, BLOCKS | TENSORS - {"ProducerLoad"} | VECTORS | {"StringImm"}),
}


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("visitor", VISITORS)
def test_each_visitor_handles_each_node(visitor: str, name: str) -> None:
    functor, refused = VISITORS[visitor]
    handler = functor.handler_of(NODES[name])
    unknown = functor.handler_of(ir.Node)
    assert (handler is unknown) == (name in refused), f"{visitor}, {name}: {getattr(handler, '__name__', handler)}"


@pytest.mark.parametrize("name", NODES)
def test_each_notation_prints_each_node(name: str) -> None:
    cls = NODES[name]
    assert any(base.__name__ in HANDLERS.by_name for base in cls.__mro__)
    assert any(base in ClassicPrinter.HANDLERS for base in cls.__mro__)
    assert any(base in CinnPrinter.HANDLERS for base in cls.__mro__) == (name not in NOT_IN_CINN)


def test_a_node_that_nobody_knows_is_refused_by_its_name() -> None:
    @node
    class Repeat(ir.Stmt):
        """`body`, `times` times over."""

        times: ir.PrimExpr
        body: ir.Stmt

    program = Repeat(ir.IntImm("int32", 2), ir.Evaluate(0))
    for functor, _ in VISITORS.values():
        with pytest.raises(TVMagicError, match="`Repeat`"):
            functor.handler_of(Repeat)(functor.__new__(functor), program)
    for printer in (ClassicPrinter(2, None), CinnPrinter(False, False)):
        with pytest.raises(TVMagicError, match="`Repeat`"):
            printer.stmt(program)
