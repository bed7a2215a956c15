"""What passes share that give values another dtype: variables follow the values they are bound to."""

from __future__ import annotations

from typing import Any

from tvmagic import ir


class Retyper(ir.Mutator):
    """A mutator that changes dtypes; `vars` has the new variable of each whose dtype has changed.

    A subclass reads `vars` where it handles `Var`.
    """

    def __init__(self) -> None:
        self.vars: dict[ir.Var, ir.Var] = {}

    def bound_value(self, value: ir.PrimExpr) -> ir.PrimExpr:
        """What a variable is bound to in the place of `value`."""
        return self.visit(value)

    @ir.handles(ir.Let, ir.LetStmt)
    def let(self, node: Any) -> Any:
        value, var = self.bound_value(node.value), node.var
        if value.dtype is not node.value.dtype:
            self.vars[node.var] = var = var.copy_with_dtype(value.dtype)
        body = self.visit(node.body)
        return node.with_(var=var, value=value, body=body)
