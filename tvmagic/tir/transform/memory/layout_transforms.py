"""ApplyLayoutTransforms: buffers of a TE schedule stored in another order of their elements."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.prim_expr import TUPLES
from tvmagic.tir.transform.declaration import tir_pass

ATTRIBUTE = "layout_transform_map"


class _LayoutTransformer(ir.Mutator):
    def __init__(self, maps: dict[ir.Buffer, Any]) -> None:
        self.maps = maps
        self.buffers: dict[ir.Buffer, ir.Buffer] = {}

    def transformed(self, buffer: ir.Buffer) -> ir.Buffer:
        new = self.buffers.get(buffer)
        if new is None:
            shape: Any = buffer.shape
            for index_map in self.maps.get(buffer, ()):
                shape = index_map.map_shape(shape)
            new = buffer if shape is buffer.shape else buffer.replace(shape=tuple(shape))
            if new.strides and len(new.strides) != len(shape):  # of an argument: one for each new dimension
                new = new.replace(strides=tuple([ir.Var("stride", size.dtype) for size in shape]))
            self.buffers[buffer] = new
        return new

    def visit_buffer_use(self, buffer: ir.Buffer) -> ir.Buffer:
        return self.transformed(buffer)

    visit_buffer_def = visit_buffer_use

    def _indices(self, node: Any) -> tuple[ir.PrimExpr, ...]:
        indices = node.indices
        for index_map in self.maps.get(node.buffer, ()):
            indices = index_map.map_indices(indices)
        return tuple(indices)

    @ir.handles(ir.BufferLoad, ir.BufferStore)
    def access(self, node: Any) -> Any:
        if node.buffer not in self.maps:
            return self.visit_children(node)
        node = node.replace(indices=self._indices(node), buffer=self.transformed(node.buffer))
        return super().visit_children(node)

    @ir.handles(ir.AttrStmt)
    def fact(self, node: ir.AttrStmt) -> ir.Stmt:
        """What is said of a buffer is said of the transformed one; an intrinsic knows the old order of the indices."""
        new = self.visit_children(node)
        bound: tuple[Any, ...] = node.node if isinstance(node.node, TUPLES) else ()
        if any(part in self.maps for part in bound if isinstance(part, ir.Buffer)):
            raise TVMagicError(
                f"`{bound[1].name}`, whose layout is transformed, is bound to the buffer of an intrinsic or extern call",
                node=node,
                hint="leave its layout as it is, or copy it with cache_read or cache_write",
                code="tir.layout_transform.bound_buffer",
            )
        if not isinstance(node.node, ir.Buffer) or node.attr_key == "buffer_dim_align":  # of an axis that is no more
            return new
        return new.replace(node=self.transformed(node.node))

    @ir.handles(ir.Prefetch)
    def prefetch(self, node: ir.Prefetch) -> ir.Stmt:
        bounds = node.bounds
        for index_map in self.maps.get(node.buffer, ()):
            bounds = _mapped_box(index_map, bounds)
        new = self.visit_children(node.replace(bounds=tuple(bounds)))
        return new.replace(buffer=self.transformed(node.buffer))

    @ir.handles(ir.BufferRealize)
    def realize(self, node: ir.BufferRealize) -> ir.Stmt:
        new = self.visit_children(node)
        if node.buffer not in self.maps:
            return new
        return new.replace(bounds=tuple([ir.Range(0, size) for size in new.buffer.shape]))


def _mapped_box(index_map: Any, bounds: Any) -> list[ir.Range]:
    """The box around where the elements inside `bounds` are stored."""
    from tvmagic.arith.int_set import IntSet
    from tvmagic.arith.int_set_eval import eval_set

    sets = {var: IntSet.from_range(part) for var, part in zip(index_map.initial_indices, bounds)}
    sizes = index_map.map_shape([part.min + part.extent for part in bounds])
    return [eval_set(i, sets).cover_range(ir.Range(0, n)) for i, n in zip(index_map.final_indices, sizes)]


def apply_layout_transforms(func: ir.PrimFunc) -> ir.PrimFunc:
    """`func` with the index maps of its attribute `layout_transform_map` applied to its buffers."""
    maps = func.attrs.get(ATTRIBUTE)
    if not maps:
        return func.without_attr(ATTRIBUTE) if maps is not None else func
    transformer = _LayoutTransformer(dict(maps))
    body = transformer.visit(func.body)
    buffer_map = {var: transformer.transformed(buffer) for var, buffer in func.buffer_map.items()}
    return func.replace(body=body, buffer_map=buffer_map).without_attr(ATTRIBUTE)


@tir_pass("tir.ApplyLayoutTransforms")
def ApplyLayoutTransforms(func: ir.PrimFunc) -> ir.PrimFunc:
    """Store buffers in the order that `transform_layout` of a TE stage asks for."""
    return apply_layout_transforms(func)
