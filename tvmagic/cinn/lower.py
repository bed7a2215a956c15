"""Tensor expressions as the schedule blocks that CINN makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmagic import ir, te
from tvmagic.cinn.cinn_form import to_cinn
from tvmagic.ir.query import variables_in
from tvmagic.tir.blocks.regions import with_detected_regions

__all__ = ["lower"]

_AXES = "ijkabcdefghlmnopqrstuvwxyz"


class _CinnNames(ir.Mutator):
    """Spatial loops are `i`, `j`, `k`, `a`, ... by their dimension, loops that reduce have their axes' names, block
    variables are `i0`, `i1`, ...; a loop that runs once stays, and what is bound to it is 0."""

    def __init__(self) -> None:
        self.names: dict[ir.Var, ir.PrimExpr] = {}
        self.taken: list[str] = []

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        reducing = node.loop_var in _reducing(node)
        name = node.loop_var.name if reducing else self.spatial_name()
        while name in self.taken:
            name = f"{name}_0"
        var = ir.Var(name, node.loop_var.dtype)
        once = isinstance(node.extent, ir.IntImm) and node.extent.value == 1 and not node.annotations
        self.names[node.loop_var] = node.min if once else var
        self.taken.append(name)
        body = self.visit(node.body)
        self.taken.pop()
        return node.replace(loop_var=var, body=body)

    def spatial_name(self) -> str:
        depth = len(self.taken)
        return _AXES[depth] if depth < len(_AXES) else f"i_{depth}"

    @ir.handles(ir.BlockRealize)
    def realize(self, node: ir.BlockRealize) -> ir.BlockRealize:
        values = tuple([ir.substitute(v, self.names) for v in node.iter_values])
        node = node.replace(iter_values=values, predicate=ir.substitute(node.predicate, self.names))
        block = node.block
        if not block.iter_vars:
            return node.replace(block=block.replace(body=self.visit(block.body)))
        fresh = [ir.Var(f"i{place}", axis.var.dtype) for place, axis in enumerate(block.iter_vars)]
        return node.replace(block=_renamed(block, fresh))


def _reducing(loop: ir.For) -> set[ir.Var]:
    """The variables over which the blocks in a loop add up."""
    found: set[ir.Var] = set()

    def look(node: Any) -> None:
        if isinstance(node, ir.BlockRealize):
            for axis, value in zip(node.block.iter_vars, node.iter_values):
                found.update(variables_in(value) if axis.iter_type == ir.IterVar.CommReduce else ())

    ir.post_order_visit(loop, look)
    return found


def _renamed(block: ir.Block, names: Sequence[ir.Var]) -> ir.Block:
    values = {axis.var: var for axis, var in zip(block.iter_vars, names)}
    axes = [axis.replace(var=var) for axis, var in zip(block.iter_vars, names)]
    init = None if block.init is None else ir.substitute(block.init, values)
    body = ir.substitute(block.body, values)
    return with_detected_regions(block.replace(iter_vars=tuple(axes), body=body, init=init))


def lower(tensors: Sequence[Any], name: str = "main") -> ir.PrimFunc:
    """The function that computes tensors, with the loops and names that CINN gives.

    Parameters
    ----------
    tensors: inputs and outputs, in the order of the parameters.
    name: what the function is called.

    A spatial loop is called `i`, `j`, `k`, `a`, ... by its dimension, a loop that reduces as its axis is. Loops that run
    once are kept, and 0 is bound. The first values of a reduction `B` are the block `B__reduce_init`.
    """
    function = te.create_prim_func(list(tensors))
    return to_cinn(_CinnNames().visit(function).with_attr("global_symbol", name))
