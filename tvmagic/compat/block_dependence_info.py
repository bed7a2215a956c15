"""The dependencies between the blocks of a program, without a schedule."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.tir.blocks.scope import BlockScope
from tvmagic.tir.blocks.sref import StmtSRef

__all__ = ["BlockDependenceInfo"]


class BlockDependenceInfo(ir.Identified):
    """The blocks of a module, each with the scope that it is.

    `stmt2ref` gives for each block its reference, `sref2scope` for each reference the child blocks and the
    dependencies between them. Loops have no references here: the parent of a block is the block around it.
    """

    def __init__(self, mod: Any) -> None:
        if isinstance(mod, ir.PrimFunc):
            mod = ir.IRModule({"main": mod})
        if not isinstance(mod, ir.IRModule):
            raise TVMagicError(
                f"blocks are those of a PrimFunc or an IRModule, not of {type(mod).__name__}",
                code="block_dependence_info.not_a_program",
            )
        self.mod = mod
        self.stmt2ref: dict[ir.Block, StmtSRef] = {}
        self.sref2scope: dict[StmtSRef, BlockScope] = {}
        for function in mod.functions.values():
            if isinstance(function.body, ir.BlockRealize):
                self._add(function.body.block)

    def _add(self, root: ir.Block) -> None:
        """Refer to a block and all blocks inside it."""
        self.stmt2ref[root] = top = StmtSRef(root)
        stack = [top]
        while stack:
            sref = stack.pop()
            children = [StmtSRef(block, sref) for block in _blocks_directly_in(sref.block)]
            self.stmt2ref.update({child.block: child for child in children})
            self.sref2scope[sref] = BlockScope(children)
            stack += children

    def get_sref(self, block: ir.Block) -> StmtSRef | None:
        """The reference to a block, or None if the module has no such block."""
        return self.stmt2ref.get(block)

    def get_block_scope(self, block_sref: StmtSRef) -> BlockScope:
        """The child blocks of a block and the dependencies between them."""
        scope = self.sref2scope.get(block_sref)
        if scope is None:
            raise TVMagicError(
                f"{block_sref.label} is not a block of this module", code="block_dependence_info.unknown_block"
            )
        return scope


def _blocks_directly_in(block: ir.Block) -> list[ir.Block]:
    """The blocks inside a block and inside no other, in program order."""
    found: list[ir.Block] = []

    def look(node: object) -> bool:
        if not isinstance(node, ir.Block) or node is block:
            return True
        found.append(node)
        return False

    ir.pre_order_visit(block, look)
    return found
