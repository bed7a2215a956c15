"""The rewrite simplifier: children first, then constants, then the first rule that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.arith.pattern import deep_equal
from tvmagic.errors import TVMagicError
from tvmagic.ir import BinaryOp, Mutator, PrimExpr, Var, handles
from tvmagic.ir.fold import FOLDERS

__all__ = ["RewriteSimplifier"]


class RewriteSimplifier(Mutator):
    """Simplifies expressions by rules, knowing the values of some variables."""

    extensions: Any = 0

    def __init__(self, parent: Any) -> None:
        self.parent = parent
        self.values: dict[Var, PrimExpr] = {}

    def __call__(self, e: PrimExpr) -> PrimExpr:
        return self.visit(e)

    def update(self, var: Var, value: PrimExpr, allow_override: bool = False) -> None:
        """Let `var` have the value of an expression."""
        old = self.values.get(var)
        if old is not None and not allow_override and not deep_equal(old, value):
            raise TVMagicError(f"`{var.name}` is bound to another value already")
        self.values[var] = value

    def enter_constraint(self, condition: PrimExpr) -> Callable[[], None] | None:
        """Let `condition` hold until the returned function is called."""
        return None

    @handles(Var)
    def var(self, e: Var) -> PrimExpr:
        return self.values.get(e, e)

    @handles(BinaryOp)
    def binary(self, e: BinaryOp) -> PrimExpr:
        e = self.visit_children(e)
        folded = FOLDERS[type(e)](e.a, e.b)
        return e if folded is None else folded
