"""RewriteUnsafeSelect: a `Select` whose values may not both be computed becomes an `if_then_else`."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.tir.transform.declaration import tir_pass


class _UnsafeAccess(Exception):
    pass


class _UnsafeFinder(ir.Visitor):
    """Raises `_UnsafeAccess` at a load or a call with effects.

    An `if_then_else` around it does not make it safe: simplified if the condition of the `Select` is known, the
    `if_then_else` may ask less than the load needs.
    """

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        raise _UnsafeAccess

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = node.op.name if isinstance(node.op, ir.Op) else ""
        if name == "tir.address_of" and isinstance(node.args[0], ir.BufferLoad):
            for index in node.args[0].indices:
                self.visit(index)
        elif isinstance(node.op, ir.Op) and node.op.effect <= ir.CallEffect.PURE:
            self.visit_children(node)
        else:
            raise _UnsafeAccess


def is_unsafe(value: ir.PrimExpr) -> bool:
    """Whether computing `value` may read memory or have an effect."""
    try:
        _UnsafeFinder().visit(value)
    except _UnsafeAccess:
        return True
    return False


class _SelectRewriter(ir.Mutator):
    @ir.handles(ir.Select)
    def select(self, node: ir.Select) -> ir.PrimExpr:
        new = self.visit_children(node)
        if new.condition.dtype.is_scalar and (is_unsafe(new.true_value) or is_unsafe(new.false_value)):
            args = (new.condition, new.true_value, new.false_value)
            return ir.Call(new.dtype, "tir.if_then_else", args, node.span)
        return new


@tir_pass("tir.RewriteUnsafeSelect")
def RewriteUnsafeSelect(func: ir.PrimFunc) -> ir.PrimFunc:
    """Guard the loads in a `Select` by its condition, so that only the load that is taken happens."""
    return func.with_body(_SelectRewriter().visit(func.body))
