"""LowerInitBlock: the `init` of a reduction becomes a branch on its first iteration."""

from __future__ import annotations

from tvmagic import ir
from tvmagic.ir.ops import all as all_of
from tvmagic.ir.ops import equal
from tvmagic.tir.transform.declaration import tir_pass


class _InitLower(ir.StmtMutator):
    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Stmt:
        body = self.visit(node.body)
        if node.init is None:
            return node.with_(body=body)
        first = [
            equal(iter_var.var, iter_var.dom.min)
            for iter_var in node.iter_vars
            if iter_var.iter_type == ir.IterVar.CommReduce and iter_var.dom is not None
        ]
        init = ir.IfThenElse(all_of(*first), node.init, span=node.init.span) if first else node.init
        return node.replace(init=None, body=ir.SeqStmt.flatten(init, body))


@tir_pass("tir.LowerInitBlock")
def LowerInitBlock(func: ir.PrimFunc) -> ir.PrimFunc:
    """Write the `init` of each block as `if` on the first values of its reduction variables."""
    return func.with_body(_InitLower().visit(func.body))
