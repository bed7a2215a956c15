"""The block that a program is about."""

from __future__ import annotations

from tvmagic.compat.analysis.flops import estimate_tir_flops
from tvmagic.ir import Block, IRModule, PrimFunc, post_order_visit


def find_anchor_block(mod: IRModule | PrimFunc) -> Block | None:
    """The reduction (block with an init) that does the most arithmetic; None if there is none."""
    functions = [mod] if isinstance(mod, PrimFunc) else list(mod.functions.values())
    found: list[tuple[float, Block]] = []

    def look(node: object) -> None:
        if isinstance(node, Block) and node.init is not None:
            instances = 1.0
            for var in node.iter_vars:
                assert var.dom is not None  # as of every variable of a block
                instances *= getattr(var.dom.extent, "value", 1)
            found.append((instances * estimate_tir_flops(node.body), node))

    for function in functions:
        post_order_visit(function.body, look)
    return max(found, key=lambda pair: pair[0])[1] if found else None
