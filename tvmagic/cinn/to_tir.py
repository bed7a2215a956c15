"""The pass that takes a function in CINN's form to what the pipeline of passes lowers."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.cinn.cinn_form import FOR_TYPE, VECTOR_LENGTH, is_cinn_form
from tvmagic.cinn.steps.coverage import loads_of
from tvmagic.cinn.steps.dependence import takes_values_on
from tvmagic.cinn.steps.tree import leaves
from tvmagic.cinn.text.printer import memory_statement
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import make_zero
from tvmagic.ir.query import is_call, nodes_of
from tvmagic.passes import Pass, note, prim_func_pass
from tvmagic.tir.transform.expressions.remove_no_op import is_no_op

_OWN_KEYS = ("compute_at_extra_var", "reverse_compute_at_extra_var", "auto_unroll_max_step", "cooperative_process")
_MOST_UNROLLED = 50


class _Plain(ir.Mutator):
    """Lists of one as their statement, loops by vectors of n elements split, barriers and marks left out."""

    def __init__(self, unrolled: int) -> None:
        self.unrolled, self.parallel = unrolled, False

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> ir.Stmt:
        parts = [self.visit(s) for s in node.seq]
        return ir.SeqStmt.flatten(*([p for p in parts if not is_no_op(p)] or parts[:1]))

    @ir.handles(ir.Evaluate)
    def evaluate(self, node: ir.Evaluate) -> ir.Stmt:
        barrier = is_call(node.value, "tir.tvm_storage_sync")
        return ir.Evaluate(0) if barrier or memory_statement(node.value) else node

    @ir.handles(ir.LetStmt)
    def variable(self, node: ir.LetStmt) -> ir.Stmt:
        node = self.visit_children(node)
        empty = is_call(node.value, "tir.undef")
        return node.replace(value=make_zero(node.var.dtype)) if empty else node  # it begins as zero

    @ir.handles(ir.Reduce)
    def reduction(self, node: ir.Reduce) -> ir.Stmt:
        raise TVMagicError(
            "`Reduce(...)` does not name its axes, so that it can be read and printed, not run",
            hint="write the reduction as a block `B` and its first values as a block `B__reduce_init`",
            code="cinn.to_tir.reduction_without_axes",
        )

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> ir.Block:
        kept = {key: value for key, value in node.annotations.items() if key not in _OWN_KEYS}
        outer, self.unrolled = self.unrolled, _unroll_step(node, self.unrolled)
        body = self.visit(node.body)
        self.unrolled = outer
        return node.replace(body=body, annotations=kept)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        length = node.annotations.get(VECTOR_LENGTH)
        vector = node.kind is ir.ForKind.VECTORIZED
        kept = {key: value for key, value in node.annotations.items() if key not in (VECTOR_LENGTH, FOR_TYPE)}
        outer, self.parallel = self.parallel, self.parallel or node.kind is ir.ForKind.PARALLEL
        body = self.visit(node.body)
        self.parallel = outer
        node = node.replace(body=body, annotations=kept)
        if outer and node.kind is ir.ForKind.PARALLEL:  # the threads are busy with the loop around it
            return node.replace(kind=ir.ForKind.SERIAL)
        if vector and _holds_vectors(body):  # of nested vectorized loops the inner one runs by vectors
            return node.replace(kind=ir.ForKind.SERIAL)
        if vector and isinstance(length, ir.IntImm) and isinstance(node.extent, ir.IntImm):
            return _by_vectors(node, length.value, node.extent.value)
        if node.kind is ir.ForKind.SERIAL and isinstance(node.extent, ir.IntImm):
            steps = node.extent.value * _statements(body)
            if node.extent.value <= _MOST_UNROLLED and steps <= self.unrolled:
                return node.replace(kind=ir.ForKind.UNROLLED)
        return node


def _unroll_step(block: ir.Block, before: int) -> int:
    value = block.annotations.get("auto_unroll_max_step")
    return before if value is None else int(getattr(value, "value", value))


def _holds_vectors(body: ir.Stmt) -> bool:
    return any(loop.kind is ir.ForKind.VECTORIZED for loop in nodes_of(body, ir.For))


def _statements(body: ir.Stmt) -> int:
    """How many statements a body has when its unrolled loops are written out."""
    if isinstance(body, ir.SeqStmt):
        return sum(_statements(part) for part in body.seq)
    if isinstance(body, ir.For):
        times = body.extent.value if body.kind is ir.ForKind.UNROLLED and isinstance(body.extent, ir.IntImm) else 1
        return times * _statements(body.body)
    if isinstance(body, ir.BlockRealize):
        return _statements(body.block.body)
    return 1 if isinstance(body, (ir.BufferStore, ir.Evaluate)) else 2


def _by_vectors(loop: ir.For, length: int, extent: int) -> ir.Stmt:
    """A loop as one over vectors of `length` elements with a vectorized one inside, and the rest as a serial loop."""
    whole, rest = divmod(extent, length)
    if length == 1 or whole == 0:
        return loop.replace(kind=ir.ForKind.SERIAL)
    note("cinn.vectorize", f"`{loop.loop_var.name}` runs by vectors of {length}: {whole} of them, {rest} elements rest")
    if whole == 1 and not rest:
        return loop
    parts = [_vectors(loop, length, whole)]
    if rest:
        var = ir.Var(f"{loop.loop_var.name}_rest", loop.loop_var.dtype)
        body = ir.substitute(loop.body, {loop.loop_var: loop.min + whole * length + var})
        parts.append(
            loop.replace(
                kind=ir.ForKind.SERIAL, loop_var=var, min=loop.min * 0, extent=ir.IntImm(var.dtype, rest), body=body
            )
        )
    return ir.SeqStmt.flatten(*parts)


def _vectors(loop: ir.For, length: int, whole: int) -> ir.Stmt:
    outer = ir.Var(loop.loop_var.name, loop.loop_var.dtype)
    inner = ir.Var(f"{loop.loop_var.name}_lane", loop.loop_var.dtype)
    body = ir.substitute(loop.body, {loop.loop_var: loop.min + outer * length + inner})
    domain = ir.Range.from_min_extent(ir.IntImm(inner.dtype, 0), ir.IntImm(inner.dtype, length))
    vectors = loop.replace(loop_var=inner, min=domain.min, extent=domain.extent, body=body)
    if whole == 1:
        return ir.substitute(vectors, {outer: ir.IntImm(outer.dtype, 0)})
    return ir.For(outer, 0, whole, ir.ForKind.SERIAL, vectors, span=loop.span)


def _allocated_at_the_root(realize: ir.BlockRealize) -> ir.BlockRealize:
    """The root with tensors that take values from one iteration of their loops to the next in memory of their own.

    Other tensors are allocated later inside the loops around all their accesses, in the size that one iteration needs.
    """
    root, every = realize.block, leaves(realize.block.body)
    for buffer in root.alloc_buffers:
        users = [
            leaf.loops
            for leaf in every
            if buffer in (*[s.buffer for s in leaf.stores], *[n.buffer for n in loads_of(leaf)])
        ]
        around = [loop for loop in users[0] if all(loop in other for other in users)] if users else []
        if around and takes_values_on(realize.block.body, around[-1], buffer):
            note(
                "cinn.carried",
                f"`{buffer.name}` takes values from one iteration of `{around[-1].loop_var.name}` to the next",
            )
            inside = ir.DeclBuffer(buffer, root.body)
            kept = tuple(b for b in root.alloc_buffers if b is not buffer)
            root = root.replace(
                body=ir.Allocate(buffer.data, buffer.dtype, buffer.shape, True, inside, {}), alloc_buffers=kept
            )
    return realize.replace(block=root)


def _lowered(function: ir.PrimFunc, mod: ir.IRModule, context: Any) -> ir.PrimFunc:
    if not is_cinn_form(function):
        return function
    assert isinstance(function.body, ir.BlockRealize)
    attrs = {key: value for key, value in function.attrs.items() if not key.startswith("cinn.")}
    return function.replace(body=_Plain(0).visit(_allocated_at_the_root(function.body)), attrs=attrs)


def lower_schedule_blocks() -> Pass:
    """The pass `cinn.LowerScheduleBlocks`.

    A loop `vectorize[n]` is split into vectors of n elements and a rest, loops are unrolled as the root's
    `auto_unroll_max_step` says, lists of one become their statement, and barriers, which do nothing on a CPU, go.
    Functions that are not in CINN's form stay as they are.
    """
    made = prim_func_pass(_lowered, 0, "cinn.LowerScheduleBlocks")
    made.__doc__ = lower_schedule_blocks.__doc__
    return made
