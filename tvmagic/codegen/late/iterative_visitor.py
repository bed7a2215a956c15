"""A visitor that follows statements that end in another one without recursion.

A body may be thousands of `LetStmt` deep, deeper than Python's stack.
"""

from __future__ import annotations

from typing import Any

from tvmagic import ir

# What such a statement holds besides its body.
_PARTS: dict[type, tuple[str, ...]] = {
    ir.LetStmt: ("value",),
    ir.AttrStmt: ("value",),
    ir.AssertStmt: ("condition",),
    ir.Allocate: ("condition",),
    ir.AllocateConst: (),
    ir.DeclBuffer: (),
}


class ChainVisitor(ir.Visitor):
    """A visitor whose subclasses see every part of a body, however long its chains are."""

    @ir.handles(ir.LetStmt, ir.AttrStmt, ir.AssertStmt, ir.Allocate, ir.AllocateConst, ir.DeclBuffer)
    def chain(self, node: Any) -> None:
        while (parts := _PARTS.get(type(node))) is not None:
            for name in parts:
                self.visit(getattr(node, name))
            for extent in getattr(node, "extents", ()):
                self.visit(extent)
            node = node.body
        self.visit(node)
