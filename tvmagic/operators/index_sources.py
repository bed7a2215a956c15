"""Integer inputs whose elements decide where or how often a program runs.

Indices, loop bounds, sizes and shift amounts make sense for few integers only. All other integer inputs can be
tried over the whole range of their dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tvmagic import ir, te
from tvmagic.ir.query import callee
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

_SHIFTS = ("tir.shift_left", "tir.shift_right")


def index_sources(op: Operator) -> list[Any]:
    """Return the inputs of `op` whose elements reach an index, a loop bound, a size or a shift amount."""
    flows: dict[Any, set[Any]] = {}
    sources: set[Any] = set()
    for target, node in _programs(op):
        if target is not None:
            flows.setdefault(target, set()).update(_loaded(node))
        _collect(node, flows, sources)
    pending = list(sources)
    while pending:
        new = flows.get(pending.pop(), set()) - sources
        sources |= new
        pending += new
    return [tensor for tensor in op.inputs if _key(tensor) in sources]


def _key(tensor: Any) -> Any:
    """A tensor by its operation, a buffer by its memory."""
    return tensor.op if isinstance(tensor, te.Tensor) else tensor.data


def _programs(op: Operator) -> Iterator[tuple[Any, Any]]:
    """The expressions and statements of an operator, each with the operation whose value it is."""
    if op.prim_func is not None:
        yield None, op.prim_func.body
        return
    roots = [t.op for t in op.outputs]
    for operation in post_dfs_order(roots, create_read_graph(roots)):
        if isinstance(operation, te.ComputeOp):
            yield from ((operation, value) for value in operation.body)
        elif isinstance(operation, te.ExternOp):
            yield None, operation.body
            for tensor, buffer in zip(operation.inputs, operation.input_placeholders):
                yield buffer.data, tensor
            for buffer in operation.output_placeholders:
                yield operation, buffer
        elif isinstance(operation, te.ScanOp):
            for first, step, state in zip(operation.init, operation.update, operation.state_placeholder):
                yield from ((state.op, first), (state.op, step), (operation, state))
        elif isinstance(operation, te.TensorComputeOp):
            yield from ((operation, tensor) for tensor in operation.inputs)


def _loaded(node: Any) -> set[Any]:
    """What an expression reads; a tensor or a buffer is read itself."""
    if isinstance(node, (ir.Buffer, te.Tensor)):
        return {_key(node)}
    found: set[Any] = set()

    def look(inner: ir.Node) -> None:
        if isinstance(inner, ir.ProducerLoad):
            found.add(inner.producer.op)
        elif isinstance(inner, ir.BufferLoad):
            found.add(inner.buffer.data)

    ir.post_order_visit(node, look)
    return found


def _collect(node: Any, flows: dict[Any, set[Any]], sources: set[Any]) -> None:
    """Add what is read in indices, bounds and shift amounts to `sources`, and what each store reads to `flows`."""

    def look(inner: ir.Node) -> None:
        if isinstance(inner, ir.BufferStore):
            flows.setdefault(inner.buffer.data, set()).update(_loaded(inner.value))
        for value in _deciding(inner):
            sources.update(_loaded(value))

    if not isinstance(node, (ir.Buffer, te.Tensor)):
        ir.post_order_visit(node, look)


def _deciding(node: ir.Node) -> list[Any]:
    """The operands of a node that are indices, bounds or shift amounts, or may become ones by a variable."""
    if isinstance(node, (ir.ProducerLoad, ir.BufferLoad, ir.BufferStore)):
        return list(node.indices)
    if isinstance(node, ir.For):
        return [node.min, node.extent]
    if isinstance(node, ir.While):
        return [node.condition]
    if isinstance(node, ir.Allocate):
        return list(node.extents)
    if isinstance(node, ir.BlockRealize):
        return list(node.iter_values)
    if isinstance(node, (ir.Let, ir.LetStmt)):
        return [] if node.value.dtype.is_float else [node.value]
    return [node.args[1]] if isinstance(node, ir.Call) and callee(node) in _SHIFTS else []
