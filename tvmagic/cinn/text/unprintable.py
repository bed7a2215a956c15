"""What CINN's text does not say of a program."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.cinn.cinn_form import FOR_TYPE, VECTOR_LENGTH
from tvmagic.ir.deep_recursion import deep

_OF_LOOPS = {FOR_TYPE, VECTOR_LENGTH}  # annotations that the word in front of `for` says


class _LeftOut(ir.Visitor):
    """Looks for what a text of loops, blocks and stores has no words for."""

    def __init__(self) -> None:
        self.found = ""
        self.arrays: dict[ir.Var, ir.Buffer] = {}  # by memory, the array that is accessed in it

    def say(self, what: str) -> None:
        self.found = self.found or what

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: ir.BufferLoad | ir.BufferStore) -> None:
        buffer = node.buffer
        known = self.arrays.setdefault(buffer.data, buffer)
        if known is buffer or (known.name, len(known.shape)) == (buffer.name, len(buffer.shape)):
            pass
        elif known.name != buffer.name:
            self.say(f"that `{buffer.name}` is in the memory of `{known.name}`")
        else:
            self.say(f"that `{buffer.name}` is the memory of an array of {len(known.shape)} dimensions")
        self.visit_children(node)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        for key in node.annotations.keys() - _OF_LOOPS:
            self.say(f"the annotation `{key}` of a loop")
        self.visit_children(node)

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        if node.match_buffers:
            self.say("which part of an array a block works on (`match_buffer`)")
        if not node.name_hint:  # made by a pass to hold memory
            self.say("where in the program an array lives")
        self.visit_children(node)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        self.say(f"the attribute `{node.attr_key}`")
        self.visit_children(node)

    @ir.handles(ir.AllocateConst)
    def constant(self, node: ir.AllocateConst) -> None:
        self.say("the values of constant arrays")
        self.visit_children(node)

    @ir.handles(ir.BufferRealize, ir.ProducerRealize)
    def realize(self, node: ir.BufferRealize | ir.ProducerRealize) -> None:
        self.say("where in the program an array lives")
        self.visit_children(node)


@deep
def left_out(node: Any) -> str:
    """The first thing in a function, module or statement that CINN's text does not say; empty if it says all.

    Arrays that share memory, attributes, views and the like come with lowering; schedule blocks have none of them.
    """
    look = _LeftOut()
    functions = list(node.functions.values()) if isinstance(node, ir.IRModule) else [node]
    for function in functions:
        if isinstance(function, ir.PrimFunc):
            look.arrays.update({buffer.data: buffer for buffer in function.buffer_map.values()})
        look.visit(function.body if isinstance(function, ir.PrimFunc) else function)
    return look.found
