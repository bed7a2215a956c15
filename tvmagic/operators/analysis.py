"""Facts on functions that operators need."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import callee, contains, is_call
from tvmagic.operators.arrays import evaluate_size
from tvmagic.te.schedule.graph import create_read_graph, post_dfs_order
from tvmagic.tir.transform.blocks.lower_match_buffer import MatchLower

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator


def iterations(op: Operator, sizes: Mapping[Any, int]) -> Iterator[int]:
    """How many elements each argument has, and how many iterations each stage, with these values of symbolic sizes.

    What does not follow from them is left out.
    """
    extents = [list(t.shape) for t in op.args]
    if op.prim_func is None:
        roots = [t.op for t in op.outputs]
        stages = post_dfs_order(roots, create_read_graph(roots))
        extents += [[iv.dom.extent for iv in stage.root_iter_vars() if iv.dom is not None] for stage in stages]
    for factors in extents:
        try:
            yield math.prod(evaluate_size(f, sizes) for f in factors)
        except TVMagicError:
            continue


def check_loops_end(func: ir.PrimFunc) -> None:
    """Raise a TVMagicError for a `while` that never ends once it begins: nothing in its condition is read from memory."""

    def check(node: Any) -> None:
        if not isinstance(node, ir.While) or (isinstance(node.condition, ir.IntImm) and not node.condition.value):
            return
        if not contains(node.condition, ir.BufferLoad, ir.Call):
            raise TVMagicError(
                f"`while {node.condition}` never ends: nothing changes its condition",
                node=node,
                hint='a name keeps its value; what changes is kept in a buffer, as in `i = T.alloc_buffer((1,), "int32")`',
                code="operator.endless_loop",
            )

    ir.post_order_visit(func.body, check)


def without_views(func: ir.PrimFunc) -> ir.PrimFunc:
    """A function whose accesses of buffers that blocks match are accesses of what they are views of.

    Raises a TVMagicError for a view that cannot be one, as of another dtype.
    """
    return func.with_body(MatchLower(func).visit(func.body))


class _Writes(ir.Visitor):
    """The buffers that are stored into, and those whose pointers calls get and may store behind."""

    def __init__(self, params: set[Any]) -> None:
        self.params = params
        self.stored: set[Any] = set()
        self.handed: set[Any] = set()

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stored.add(node.buffer.data)
        self.visit_children(node)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        name = callee(node)
        if name == "tir.tvm_access_ptr":
            mask = node.args[4]
            if not isinstance(mask, ir.IntImm) or mask.value & ir.Buffer.WRITE:
                self.stored.add(node.args[1])
        elif name == "tir.address_of" and isinstance(node.args[0], ir.BufferLoad):
            self.handed.add(node.args[0].buffer.data)
        else:
            self.handed.update(a for a in node.args if isinstance(a, ir.Var) and a in self.params)
        self.visit_children(node)


def written_buffers(func: ir.PrimFunc) -> list[Any]:
    """The parameters' buffers that the function writes, in the order of its parameters.

    What a call does behind a pointer is not known: in a function without stores it writes all that it gets.
    """
    buffers = [b for p in func.params if (b := func.buffer_map.get(p)) is not None]
    writes = _Writes({b.data for b in buffers})
    writes.visit(func.body)
    found = [b for b in buffers if b.data in writes.stored]
    return found or [b for b in buffers if b.data in writes.handed]


class _Order(ir.Visitor):
    """Which buffers are stored into, and which are read before any store; a call reads behind what it gets."""

    def __init__(self) -> None:
        self.stored: set[Any] = set()
        self.early: set[Any] = set()

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.visit_children(node)
        self.stored.add(node.buffer.data)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.visit_children(node)
        self._read(node.buffer.data)

    @ir.handles(ir.Call)
    def call(self, node: ir.Call) -> None:
        if is_call(node, "tir.tvm_access_ptr"):
            mask = node.args[4]
            if not isinstance(mask, ir.IntImm) or mask.value & ir.Buffer.READ:
                self._read(node.args[1])
            self.stored.add(node.args[1])
        self.visit_children(node)
        for arg in node.args:
            if isinstance(arg, ir.Var) and arg.dtype.is_handle:
                self._read(arg)

    def _read(self, data: Any) -> None:
        if data not in self.stored:
            self.early.add(data)


def read_before_written(func: ir.PrimFunc, outputs: list[Any]) -> list[Any]:
    """The outputs that are read before all stores into them: what is read is the caller's."""
    order = _Order()
    order.visit(func.body)
    return [b for b in outputs if b.data in order.early]
