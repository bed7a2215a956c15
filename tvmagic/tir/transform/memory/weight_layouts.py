"""RemoveWeightLayoutRewriteBlock: weights that are given in the layout that a program wants need no block to copy them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError
from tvmagic.ir import (
    AllocateConst,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    IntImm,
    Mutator,
    PrimExpr,
    PrimFunc,
    Stmt,
    StmtMutator,
    Var,
    handles,
)
from tvmagic.ir.hooks import provided
from tvmagic.ir.query import is_one
from tvmagic.tir.schedule.buffers import BufferReplacer
from tvmagic.tir.transform.declaration import tir_pass

_KEY = "meta_schedule.layout_rewrite_preproc"


@tir_pass("tir.RemoveWeightLayoutRewriteBlock")
def RemoveWeightLayoutRewriteBlock(func: PrimFunc, skip_ndarray_rewrite: bool = False) -> PrimFunc:
    """Empty the blocks with `meta_schedule.layout_rewrite_preproc`, which copy a weight to another layout.

    A parameter that such a block reads is then given in the new layout; a constant array is rewritten (with
    `skip_ndarray_rewrite`, only its shape is). Raises `TVMagicError` if such a block is not one plain copy.
    """
    copies = _Copies()
    body = copies.visit(func.body)
    if not copies.found:
        return func
    constants = _Constants(copies.found, skip_ndarray_rewrite)
    body = constants.visit(body)
    if constants.rewritten:
        body = BufferReplacer(constants.rewritten).visit(body)
    buffer_map = {
        param: copies.found[buffer].target if buffer in copies.found else buffer
        for param, buffer in func.buffer_map.items()
    }
    return func.replace(body=body, buffer_map=buffer_map)


class _Rewrite:
    """What becomes of a weight: the buffer `target`, and where `layout` puts each element."""

    def __init__(self, target: Buffer, layout: IndexMap) -> None:
        self.target, self.layout = target, layout


class _Copies(StmtMutator):
    """Empties the blocks that copy, and finds what they copy; what they wrote is no longer allocated."""

    def __init__(self) -> None:
        self.found: dict[Buffer, _Rewrite] = {}

    @handles(Block)
    def block(self, node: Block) -> Stmt:
        new: Block = self.visit_children(node)
        if not is_one(node.annotations.get(_KEY)):
            written = [rewrite.target for rewrite in self.found.values()]
            kept = tuple(b for b in new.alloc_buffers if not any(b is w for w in written))
            return new if len(kept) == len(new.alloc_buffers) else new.replace(alloc_buffers=kept)
        store = node.body
        load = store.value if isinstance(store, BufferStore) else None
        if (
            not isinstance(store, BufferStore)
            or not isinstance(load, BufferLoad)
            or node.alloc_buffers
            or node.match_buffers
            or len(variables := [index for index in load.indices if isinstance(index, Var)]) < len(load.indices)
        ):
            raise TVMagicError(
                f"the block `{node.name_hint}` that rewrites a layout is not one copy of `B[...] = A[i, j, ...]`",
                node=node,
            )
        self.found[load.buffer] = _Rewrite(store.buffer, IndexMap(variables, store.indices))
        return new.replace(body=Evaluate(0), reads=(), writes=())


class _Constants(Mutator):
    """Rewrites the constant arrays among the weights; their buffers become those of `rewritten`."""

    def __init__(self, found: dict[Buffer, _Rewrite], skip: bool) -> None:
        self.by_data = {buffer.data: rewrite for buffer, rewrite in found.items()}
        self.skip = skip
        self.rewritten: dict[Buffer, Buffer] = {}

    @handles(AllocateConst)
    def allocation(self, node: AllocateConst) -> Stmt:
        rewrite = self.by_data.get(node.buffer_var)
        if rewrite is None:
            return self.visit_children(node)
        target = rewrite.target
        self.rewritten[target] = target.replace(data=node.buffer_var, name=node.buffer_var.name)
        data, shape = _rewritten(node.data, rewrite, self.skip), [IntImm("int32", int(s)) for s in _sizes(target.shape)]
        return node.replace(data=data, extents=tuple(shape), body=self.visit(node.body))


def _sizes(shape: tuple[PrimExpr, ...]) -> list[int]:
    if not all(isinstance(size, IntImm) for size in shape):
        raise TVMagicError("a constant array that is rewritten to another layout has a known shape")
    return [size.value for size in shape if isinstance(size, IntImm)]


def _rewritten(data: Any, rewrite: _Rewrite, skip: bool) -> Any:
    if skip:  # whoever asks for it only measures how fast the program is
        return provided("array")(np.reshape(data.numpy(), _sizes(rewrite.target.shape)))
    return rewrite.layout.map_ndarray(data)
