"""A visitor that follows statements that end in another one without recursion.

A body may be thousands of `LetStmt` deep, deeper than Python's stack.
"""

from __future__ import annotations

from typing import Any

from tvmagic.ir import Allocate, AllocateConst, AssertStmt, AttrStmt, DeclBuffer, LetStmt
from tvmagic.ir.functor import Visitor, handles

# What such a statement holds besides its body.
_PARTS: dict[type, tuple[str, ...]] = {
    LetStmt: ("value",),
    AttrStmt: ("value",),
    AssertStmt: ("condition",),
    Allocate: ("condition",),
    AllocateConst: (),
    DeclBuffer: (),
}


class ChainVisitor(Visitor):
    """A visitor whose subclasses see every part of a body, however long its chains are."""

    @handles(LetStmt, AttrStmt, AssertStmt, Allocate, AllocateConst, DeclBuffer)
    def chain(self, node: Any) -> None:
        while (parts := _PARTS.get(type(node))) is not None:
            for name in parts:
                self.visit(getattr(node, name))
            for extent in getattr(node, "extents", ()):
                self.visit(extent)
            node = node.body
        self.visit(node)
