"""Tensor expressions as the schedule blocks that CINN makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import te
from tvmagic.ir import Block, BlockRealize, For, IntImm, Mutator, PrimFunc, Stmt, Var, handles, substitute
from tvmagic.tir.blocks.regions import with_detected_regions

__all__ = ["lower"]

_AXES = "ijkabcdefghlmnopqrstuvwxyz"


class _CinnNames(Mutator):
    """Loops are `i`, `j`, `k`, `a`, ... by their depth, block variables `i0`, `i1`, ...; a loop that
    runs once is left out."""

    def __init__(self) -> None:
        self.depth = 0

    @handles(For)
    def loop(self, node: For) -> Stmt:
        depth = self.depth
        self.depth += 1
        body = self.visit(node.body)
        self.depth = depth
        if isinstance(node.extent, IntImm) and node.extent.value == 1 and not node.annotations:
            return substitute(body, {node.loop_var: node.min})
        name = _AXES[depth] if depth < len(_AXES) else f"i_{depth}"
        var = Var(name, node.loop_var.dtype)
        return node.replace(loop_var=var, body=substitute(body, {node.loop_var: var}))

    @handles(BlockRealize)
    def realize(self, node: BlockRealize) -> BlockRealize:
        block = node.block
        if not block.iter_vars:
            return node.replace(block=block.replace(body=self.visit(block.body)))
        fresh = [Var(f"i{place}", axis.var.dtype) for place, axis in enumerate(block.iter_vars)]
        return node.replace(block=_renamed(block, fresh))


def _renamed(block: Block, names: Sequence[Var]) -> Block:
    values = {axis.var: var for axis, var in zip(block.iter_vars, names)}
    axes = [axis.replace(var=var) for axis, var in zip(block.iter_vars, names)]
    init = None if block.init is None else substitute(block.init, values)
    body = substitute(block.body, values)
    return with_detected_regions(block.replace(iter_vars=tuple(axes), body=body, init=init))


def lower(tensors: Sequence[Any], name: str = "main") -> PrimFunc:
    """The function that computes tensors, with the loops and names that CINN gives.

    Parameters
    ----------
    tensors: inputs and outputs, in the order of the parameters.
    name: what the function is called.

    A loop that runs once is left out and its variable bound to 0; loops are called `i`, `j`, `k`, `a`,
    ... by the axis they stand for.
    """
    function = te.create_prim_func(list(tensors))
    return _CinnNames().visit(function).with_attr("global_symbol", name)
