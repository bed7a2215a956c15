"""The unknown dimension."""

from __future__ import annotations

from tvmagic.ir.derive import node
from tvmagic.ir.prim_expr import INT32, PrimExpr


@node
class Any(PrimExpr):
    """A dimension that is not known, an int32: two of them are not known to be equal."""

    def check(self) -> None:
        self.dtype = INT32
