"""ConvertBlocksToOpaque: block variables replaced by what they are bound to."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast
from tvmagic.ir.query import variables_in
from tvmagic.tir.transform.declaration import tir_pass


class _OpaqueConverter(ir.BufferRemapper):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[ir.Var, ir.PrimExpr] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        value = self.values.get(var)
        if value is None:
            return var
        return value if value.dtype is var.dtype else cast(var.dtype, value)

    def visit_buffer_use(self, buffer: Any) -> Any:
        return buffer

    visit_buffer_def = visit_buffer_use

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> ir.Stmt:
        block = node.block
        if block.init is not None:
            raise TVMagicError(
                f"block `{block.name_hint}` still has an `init`",
                node=block,
                hint="run LowerInitBlock first",
                code="tir.convert_blocks_to_opaque.init_left",
            )
        own = {iter_var.var for iter_var in block.iter_vars}
        used = [var for var in variables_in(node.predicate) if var in own]
        if used:
            raise TVMagicError(
                f"the predicate of block `{block.name_hint}` uses `{used[0].name}`, a variable of the block itself, which "
                "is not in scope there",
                node=node,
                hint="write the condition on the loops' variables",
                code="tir.convert_blocks_to_opaque.predicate_uses_own_variable",
            )
        predicate = self.visit(node.predicate)
        for iter_var, value in zip(block.iter_vars, node.iter_values):
            self.values[iter_var.var] = self.visit(value)
        if block.iter_vars:
            block = block.replace(iter_vars=())
        new = self.visit_children(block)
        if new is node.block and predicate is node.predicate:
            return node
        return node.replace(iter_values=(), predicate=predicate, block=new)


@tir_pass("tir.ConvertBlocksToOpaque")
def ConvertBlocksToOpaque(func: ir.PrimFunc) -> ir.PrimFunc:
    """Replace the variables of blocks by their values; the blocks have none then."""
    return func.with_body(_OpaqueConverter().visit(func.body))
