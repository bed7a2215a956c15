"""LowerOpaqueBlock: blocks become allocations and branches, thread loops launches, unit loops nothing."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast, ceildiv, floordiv, floormod
from tvmagic.ir.query import is_zero, nodes_of
from tvmagic.tir.analysis.ssa import undefined_vars
from tvmagic.tir.transform.declaration import tir_pass

_VIRTUAL_TAGS = frozenset({"vthread", "vthread.x", "vthread.y", "vthread.z"})


class _Alignments(ir.StmtVisitor):
    """The `buffer_dim_align` annotations by the pointer of the buffer that they speak of."""

    def __init__(self) -> None:
        self.found: dict[ir.Var, Any] = {}

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        for entry in node.annotations.get("buffer_dim_align", ()):
            if int(entry[0]) >= len(node.writes):  # nobody reads the buffer, so it is not an output any more
                continue
            data = node.writes[int(entry[0])].buffer.data
            # the first number names a buffer of the block, which is gone now
            self.found[data] = (*self.found.get(data, ()), (ir.IntImm("int32", -1), *entry[1:]))
        self.visit_children(node)


def launch_thread(low: ir.PrimExpr, extent: ir.PrimExpr, var: ir.Var, tag: str, body: ir.Stmt, span: Any) -> ir.Stmt:
    """`body` for each thread of the axis `tag`."""
    axis = ir.IterVar(ir.Range.from_min_extent(low, extent), var, ir.IterVar.ThreadIndex, tag)
    return ir.AttrStmt(axis, "virtual_thread" if tag in _VIRTUAL_TAGS else "thread_extent", extent, body, span)


def allocation_shape(buffer: ir.Buffer) -> tuple[ir.PrimExpr, ...]:
    """The extents to allocate for `buffer`: its shape, rows and elements padded as its strides ask, its offset before them."""
    shape = list(buffer.shape)
    analyzer = Analyzer()
    for axis in range(len(buffer.strides) - 1, 0, -1):
        row, step = buffer.strides[axis - 1], buffer.strides[axis]
        # a row may end within a padded element
        divides = analyzer.can_prove_equal(floormod(row, step), 0)
        shape[axis] = floordiv(row, step) if divides else ceildiv(row, step)
    if buffer.strides:
        shape[-1] = shape[-1] * buffer.strides[-1]
    if is_zero(buffer.elem_offset):
        return tuple(shape)
    rows = ceildiv(buffer.elem_offset, reduce(mul, shape[1:], ir.IntImm(buffer.elem_offset.dtype, 1)))
    return (analyzer.simplify((shape[0] if shape else 1) + rows), *shape[1:])


class _BlockLower(ir.Mutator):
    def __init__(self, alignments: dict[ir.Var, Any]) -> None:
        self.alignments = alignments
        self.unit_loops: dict[ir.Var, ir.PrimExpr] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        value = self.unit_loops.get(var)
        if value is None:
            return var
        return value if value.dtype is var.dtype else cast(var.dtype, value)

    @ir.handles(ir.BlockRealize)
    def block_realize(self, node: ir.BlockRealize) -> ir.Stmt:
        block = node.block
        if node.block.match_buffers:
            raise TVMagicError(
                f"the block `{node.block.name_hint}` has a matched buffer, `{node.block.match_buffers[0].buffer.name}`",
                node=node,
                hint="run LowerMatchBuffer before",
                code="tir.lower_opaque_block.matched_buffer",
            )
        if node.iter_values:
            raise TVMagicError(
                f"block `{block.name_hint}` still binds variables",
                node=block,
                hint="run ConvertBlocksToOpaque first",
                code="tir.lower_opaque_block.variables_left",
            )
        body, predicate = self.visit(block.body), self.visit(node.predicate)
        if not (isinstance(predicate, ir.IntImm) and predicate.value == 1):
            body = ir.IfThenElse(predicate, body, span=node.span)
        for buffer in reversed(block.alloc_buffers):
            annotations: dict[str, Any] = {}
            if buffer.data in self.alignments:
                annotations["buffer_dim_align"] = self.alignments[buffer.data]
            body = ir.DeclBuffer(buffer, body, node.span)
            extents = tuple([self.visit(e) for e in allocation_shape(buffer)])
            body = ir.Allocate(buffer.data, buffer.dtype, extents, True, body, annotations, node.span)
        for key in sorted(block.annotations, reverse=True):
            if key.startswith("pragma_"):
                value = _attr_expr(key, block.annotations[key])
                body = ir.AttrStmt(ir.IntImm("int32", 0), key, value, body, node.span)
        return body

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        unit = isinstance(extent, ir.IntImm) and extent.value == 1 and not node.annotations
        if unit:
            self.unit_loops[node.loop_var] = low
        body = self.visit(node.body)
        if node.kind is ir.ForKind.THREAD_BINDING:
            assert node.thread_binding is not None
            body = launch_thread(low, extent, node.loop_var, node.thread_binding.thread_tag, body, node.span)
        elif unit:
            return body
        else:
            kept = {k: v for k, v in node.annotations.items() if not k.startswith("pragma_")}
            same = (
                low is node.min and extent is node.extent and body is node.body and len(kept) == len(node.annotations)
            )
            body = node if same else node.replace(min=low, extent=extent, body=body, annotations=kept)
        for key in sorted(node.annotations, reverse=True):
            if key.startswith("pragma_"):
                body = ir.AttrStmt(node.loop_var, key, _attr_expr(key, node.annotations[key]), body, node.span)
        return body


def _attr_expr(key: str, value: Any) -> ir.PrimExpr:
    if isinstance(value, ir.PrimExpr):
        return value
    if isinstance(value, str):
        return ir.StringImm(value)
    raise TVMagicError(
        f"the value of `{key}` is neither an expression nor a text", code="tir.lower_opaque_block.wrong_annotation"
    )


@tir_pass("tir.LowerOpaqueBlock")
def LowerOpaqueBlock(func: ir.PrimFunc) -> ir.PrimFunc:
    """Take the blocks away: allocations, predicates and pragmas stay as statements.

    The blocks have no variables (ConvertBlocksToOpaque). Loops of one iteration are replaced by
    their first value, loops bound to threads by launches.
    """
    alignments = _Alignments()
    alignments.visit(func.body)
    return func.with_body(_BlockLower(alignments.found).visit(_without_open_offsets(func)))


def _without_open_offsets(func: ir.PrimFunc) -> ir.Stmt:
    """The body of a function, in which buffers begin where their memory does if they are allocated with an offset that nothing defines.

    The outputs of `te.extern` have such offsets.
    """
    allocated = [buffer for block in nodes_of(func.body, ir.Block) for buffer in block.alloc_buffers]
    offsets = {b.elem_offset for b in allocated if isinstance(b.elem_offset, ir.Var)}
    if not offsets:
        return func.body
    given = [*func.params, *[b.elem_offset for b in func.buffer_map.values() if isinstance(b.elem_offset, ir.Var)]]
    nothing = {var: ir.IntImm(var.dtype, 0) for var in undefined_vars(func.body, given) if var in offsets}
    return ir.substitute(func.body, nothing)
