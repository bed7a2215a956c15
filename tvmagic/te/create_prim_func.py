"""From tensor expressions to a TensorIR function: one block for each operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.block_regions import block_read_write_regions
from tvmagic.errors import TVMagicError, WrongTypeError
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.index_dtype import with_index_dtype
from tvmagic.te.nested_domains import axis_levels, nested_blocks
from tvmagic.te.reduction import combine
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.te.schedule.relations import is_const
from tvmagic.te.tensor import ComputeOp, ConstantOp, ExternOp, PlaceholderOp, Tensor

__all__ = ["create_prim_func"]

_TRUE = ir.IntImm("bool", 1)


@deep
def create_prim_func(ops: Any, index_dtype_override: Any = None) -> ir.PrimFunc:
    """The TensorIR function that computes what is among `ops` from what is given there.

    Parameters
    ----------
    ops: tensors and variables, in the order of the function's parameters. A tensor that they
        need and that is not among them is allocated inside.
    index_dtype_override: the integer type of all loop variables, sizes and indices, such as `int64`;
        by default each has the type that it was given.
    """
    args = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    for arg in args:
        if not isinstance(arg, (Tensor, ir.Var)):
            raise TVMagicError(
                f"`{arg!r}` cannot be a parameter",
                hint="give tensors and variables",
                code="create_prim_func.wrong_parameter",
            )
    tensors = [a for a in args if isinstance(a, Tensor)]
    roots = [t.op for t in tensors]
    order = post_dfs_order(roots, create_read_graph(roots))
    for op in order:
        if type(op) not in _MAKE:
            raise WrongTypeError(
                f"Unsupported Operation: {type(op).__name__}. `{op.name}` has no TensorIR function",
                span=op.span,
                code="create_prim_func.unsupported_operation",
            )
    maker = _Maker(tensors)
    statements: list[ir.Stmt] = []
    for op in order:  # what an extern reads has the buffers that its statement names
        if isinstance(op, ExternOp):
            maker.buffers.update(zip(op.inputs, op.input_placeholders))
    for op in order:
        statement = _MAKE[type(op)](maker, op)
        if statement is not None:
            statements.append(statement)
    func = maker.function(args, statements)
    return func if index_dtype_override is None else with_index_dtype(func, index_dtype_override)


class _LoadBuffers(ir.Mutator):
    """Loads from tensors become loads from their buffers."""

    def __init__(self, buffers: dict[Tensor, ir.Buffer]) -> None:
        self.buffers = buffers

    @ir.handles(ir.ProducerLoad)
    def load(self, node: ir.ProducerLoad) -> Any:
        node = self.visit_children(node)
        return ir.BufferLoad(self.buffers[node.producer], node.indices, span=node.span)


class _Maker:
    """The buffers, names and statements of the function while it is made."""

    def __init__(self, args: Sequence[Tensor]) -> None:
        self.args = set(args)
        self.buffers: dict[Tensor, ir.Buffer] = {}
        self.allocated: list[ir.Buffer] = []
        self.names: set[str] = set()
        self.analyzer = Analyzer()
        self.loads = _LoadBuffers(self.buffers)

    def fresh_name(self, name: str) -> str:
        """`name`, with a number where it is taken."""
        result, count = name, 0
        while result in self.names:
            count += 1
            result = f"{name}_{count}"
        self.names.add(result)
        return result

    def define(self, tensor: Tensor, buffer: ir.Buffer | None = None) -> ir.Buffer:
        """The buffer of a tensor that is computed here."""
        if buffer is None:
            buffer = self.buffers.get(tensor)
        if buffer is None:
            buffer = ir.decl_buffer(tensor.shape, tensor.dtype, tensor.name, scope="global", span=tensor.span)
        self.buffers[tensor] = buffer
        if tensor not in self.args:
            self.allocated.append(buffer)
        return buffer

    def value(self, value: ir.PrimExpr, values: dict[ir.Var, ir.PrimExpr]) -> ir.PrimExpr:
        """An expression on tensors as one on buffers and block variables."""
        return ir.substitute(self.loads.visit(value), values)

    def simplified(self, value: ir.PrimExpr, values: dict[ir.Var, ir.PrimExpr]) -> ir.PrimExpr:
        return self.analyzer.simplify(self.value(value, values))

    def function(self, args: Sequence[Any], statements: Sequence[ir.Stmt]) -> ir.PrimFunc:
        """The function with a root block around the statements, and all access regions found."""
        params: list[ir.Var] = []
        buffer_map: dict[ir.Var, ir.Buffer] = {}
        for arg in args:
            if isinstance(arg, ir.Var):
                params.append(arg)
                continue
            handle = ir.Var("var_" + arg.name, ir.PrimType("handle"))
            params.append(handle)
            buffer_map[handle] = self.buffers[arg]
        body = ir.SeqStmt.flatten(*statements)
        outside = {b.data: b for b in (*buffer_map.values(), *self.allocated)}
        body = _CompleteRegions(outside).visit(body)
        if not isinstance(body, ir.BlockRealize) or body.block.iter_vars or self.allocated:
            root = ir.Block((), (), (), "root", body, alloc_buffers=self.allocated)
            body = ir.BlockRealize((), _TRUE, root)
        attrs: dict[str, Any] = {"global_symbol": "main", "tir.noalias": True}
        free, body = _layout_free(body, [buffer_map.get(p) for p in params])
        if free:
            attrs["layout_free_buffers"] = free
        return ir.PrimFunc(params, body, buffer_map=buffer_map, attrs=attrs)


_LAYOUT_FREE = "layout_free_placeholders"


class _LayoutFree(ir.Mutator):
    """Takes the parameters whose layout is free out of the annotations of blocks; what blocks compute stays there."""

    def __init__(self, places: dict[ir.Buffer, int]) -> None:
        self.places = places
        self.found: set[int] = set()

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        new = self.visit_children(node)
        if _LAYOUT_FREE not in node.annotations:
            return new
        given = node.annotations[_LAYOUT_FREE]
        self.found |= {self.places[buffer] for buffer in given if buffer in self.places}
        rest = tuple([buffer for buffer in given if buffer not in self.places])
        others = {key: value for key, value in new.annotations.items() if key != _LAYOUT_FREE}
        return new.replace(annotations={**others, _LAYOUT_FREE: rest} if rest else others)


def _layout_free(body: ir.Stmt, buffers: Sequence[ir.Buffer | None]) -> tuple[list[int], ir.Stmt]:
    """The places of the parameters whose layout is free, and the body without naming them."""
    finder = _LayoutFree({buffer: place for place, buffer in enumerate(buffers) if buffer is not None})
    body = finder.visit(body)
    return sorted(finder.found), body


class _CompleteRegions(ir.Mutator):
    """Gives each block that names no regions those that its body accesses."""

    def __init__(self, outside: dict[ir.Var, ir.Buffer]) -> None:
        self.outside = outside

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> Any:
        node = self.visit_children(node)
        if node.reads or node.writes:
            return node
        reads, writes = block_read_write_regions(node, self.outside)
        return node.replace(reads=tuple(reads), writes=tuple(writes))


def _make_placeholder(maker: _Maker, op: PlaceholderOp) -> None:
    tensor = op.output(0)
    if tensor not in maker.args:
        raise TVMagicError(
            f"placeholder `{op.name}` is needed but is not among the parameters",
            span=op.span,
            hint="add it to the list of tensors",
            code="create_prim_func.missing_parameter",
        )
    if tensor not in maker.buffers:
        maker.buffers[tensor] = ir.decl_buffer(op.shape, op.dtype, op.name, scope="global", span=op.span)


def _make_compute(maker: _Maker, op: ComputeOp) -> ir.Stmt:
    axes = op.root_iter_vars()
    levels = axis_levels(axes, maker.analyzer)
    if len(levels) > 1:
        return _make_nested(maker, op, levels)
    loops = [ir.Var(iv.var.name, iv.dtype) for iv in axes]
    if isinstance(op.body[0], ir.Reduce):
        blocks = [_compute_block(maker, op, op.outputs, op.body[0], loops)]
    else:
        blocks = [_compute_block(maker, op, (t,), b, loops) for t, b in zip(op.outputs, op.body)]
    body = ir.SeqStmt.flatten(*blocks)
    simplify = maker.analyzer.simplify
    for iv, loop in zip(reversed(axes), reversed(loops)):
        assert iv.dom is not None
        body = ir.For(loop, simplify(iv.dom.min), simplify(iv.dom.extent), ir.ForKind.SERIAL, body, span=op.span)
    return body


def _compute_block(
    maker: _Maker, op: ComputeOp, tensors: Sequence[Tensor], value: ir.PrimExpr, loops: Sequence[ir.Var]
) -> ir.BlockRealize:
    """The block that computes one element of `tensors`."""
    simplify = maker.analyzer.simplify
    iter_vars: list[ir.IterVar] = []
    values: dict[ir.Var, ir.PrimExpr] = {}
    for iv in op.root_iter_vars():
        assert iv.dom is not None
        var = ir.Var("v_" + iv.var.name, iv.dtype)
        values[iv.var] = var
        domain = ir.Range.from_min_extent(simplify(iv.dom.min), simplify(iv.dom.extent))
        iter_vars.append(ir.IterVar(domain, var, iv.iter_type, iv.thread_tag, iv.span))
    buffers = [maker.define(t) for t in tensors]
    indices = [values[iv.var] for iv in op.axis]
    init: ir.Stmt | None = None
    if isinstance(value, ir.Reduce):
        name = maker.fresh_name(op.name)
        init, body = _reduction(maker, op, value, buffers, indices, values)
    else:
        name = maker.fresh_name(tensors[0].name)
        body = ir.BufferStore(buffers[0], maker.simplified(value, values), indices, span=op.span)
    bindings: list[Any] = list(loops)
    if not iter_vars:
        iter_vars.append(ir.IterVar(ir.Range.from_min_extent(0, 1), ir.Var("vi", "int32"), ir.IterVar.DataPar))
        bindings.append(0)
    annotations = {k: _on_buffers(maker, v) for k, v in op.attrs.items()}
    block = ir.Block(iter_vars, (), (), name, body, init, annotations=annotations, span=op.span)
    return ir.BlockRealize(bindings, _TRUE, block, op.span)


def _make_nested(maker: _Maker, op: ComputeOp, levels: Sequence[Sequence[ir.IterVar]]) -> ir.Stmt:
    """The blocks of a reduction some of whose axes depend on others."""
    reduce = op.body[0]
    assert isinstance(reduce, ir.Reduce)  # the size of a result does not depend on its own axes
    buffers = [maker.define(t) for t in op.outputs]

    def reduction(values: dict[ir.Var, ir.PrimExpr]) -> tuple[ir.Stmt, ir.Stmt]:
        return _reduction(maker, op, reduce, buffers, [values[iv.var] for iv in op.axis], values)

    annotations = {k: _on_buffers(maker, v) for k, v in op.attrs.items()}
    return nested_blocks(levels, maker.analyzer, reduction, lambda: maker.fresh_name(op.name), annotations, op.span)


def _on_buffers(maker: _Maker, value: Any) -> Any:
    """An attribute with buffers in the place of tensors."""
    if isinstance(value, (list, tuple)):
        return tuple([_on_buffers(maker, v) for v in value])
    return maker.buffers[value] if isinstance(value, Tensor) else value


def _reduction(
    maker: _Maker,
    op: ComputeOp,
    reduce: ir.Reduce,
    buffers: Sequence[ir.Buffer],
    indices: Sequence[ir.PrimExpr],
    values: dict[ir.Var, ir.PrimExpr],
) -> tuple[ir.Stmt, ir.Stmt]:
    """The initialization and the update of a reduction.

    Several values are bound before any is stored, because each may depend on all.
    """
    combiner = reduce.combiner
    before = [ir.BufferLoad(b, indices, span=op.span) for b in buffers]
    combined = combine(combiner, before, [maker.simplified(s, values) for s in reduce.source])
    start = [maker.value(e, values) for e in (reduce.init or combiner.identity_element)]
    init = ir.SeqStmt.flatten(*[ir.BufferStore(b, v, indices, span=op.span) for b, v in zip(buffers, start)])
    if len(buffers) == 1:
        body: ir.Stmt = ir.BufferStore(buffers[0], combined[0], indices, span=op.span)
    else:
        kept = [ir.Var("v_" + b.name, ir.PrimType(b.dtype)) for b in buffers]
        body = ir.SeqStmt.flatten(*[ir.BufferStore(b, v, indices, span=op.span) for b, v in zip(buffers, kept)])
        for var, value in zip(reversed(kept), reversed(combined)):
            body = ir.LetStmt(var, value, body, op.span)
    if not is_const(reduce.condition, 1):
        body = ir.IfThenElse(maker.simplified(reduce.condition, values), body, span=op.span)
    return init, body


def _make_extern(maker: _Maker, op: ExternOp) -> ir.Stmt:
    values: dict[ir.Var, ir.PrimExpr] = {}
    for tensor, placeholder in zip(op.inputs, op.input_placeholders):
        values[placeholder.data] = maker.buffers[tensor].data
    outputs = [maker.define(t, b) for t, b in zip(op.outputs, op.output_placeholders)]
    reads = [_full_region(maker.buffers[t]) for t in op.inputs]
    body = ir.substitute(op.body, values)
    block = ir.Block(
        (), reads, [_full_region(b) for b in outputs], maker.fresh_name(op.name), body, annotations=op.attrs
    )
    return ir.BlockRealize((), _TRUE, block, op.span)


def _full_region(buffer: ir.Buffer) -> ir.BufferRegion:
    return ir.BufferRegion(buffer, [ir.Range.from_min_extent(ir.IntImm(s.dtype, 0), s) for s in buffer.shape])


_MAKE: dict[type, Callable[[_Maker, Any], ir.Stmt | None]] = {
    PlaceholderOp: _make_placeholder,
    ComputeOp: _make_compute,
    ExternOp: _make_extern,
    ConstantOp: _make_extern,
}
