"""Passes for memory and threads of GPUs: what they do on the CPU's path.

Their annotations ask for speed, not for another result: here they are taken away, with a note.
"""

from __future__ import annotations

from typing import Any

from tvmagic.ir import Block, For, PrimFunc, Stmt, StmtMutator, handles
from tvmagic.passes import note
from tvmagic.tir.transform.declaration import tir_pass


class _AnnotationRemover(StmtMutator):
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    @handles(For, Block)
    def annotated(self, node: Any) -> Stmt:
        new = self.visit_children(node)
        kept = {k: v for k, v in new.annotations.items() if not k.startswith(self.prefix)}
        if len(kept) == len(new.annotations):
            return new
        note("ignored", f"`{self.prefix}` asks for what the CPU's path does not do", node=node)
        return new.replace(annotations=kept)


def _without(func: PrimFunc, prefix: str) -> PrimFunc:
    return func.with_body(_AnnotationRemover(prefix).visit(func.body))


@tir_pass("tir.InjectPermutedLayout")
def InjectPermutedLayout(func: PrimFunc) -> PrimFunc:
    """Take away the wish to permute shared memory against bank conflicts."""
    return _without(func, "permuted_layout")
