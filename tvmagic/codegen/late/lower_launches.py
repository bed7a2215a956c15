"""Lower launches of threads to serial loops, for processors, where the threads of a launch run one after another."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.codegen.late.common import StatementMutator, late_pass, on_cpus
from tvmagic.codegen.late.iterative_visitor import ChainVisitor
from tvmagic.errors import BuildError
from tvmagic.ir.query import nodes_of, variables_in
from tvmagic.passes import note

# The attributes that launch threads.
LAUNCHES = ("thread_extent", "virtual_thread")


@late_pass("LowerLaunches", when=on_cpus)
def lower_launches(func: ir.PrimFunc) -> ir.PrimFunc:
    """Lower launches of threads to serial loops.

    Raises BuildError if a thread reads shared memory that another thread of the same launch wrote.
    """
    if not any(node.attr_key in LAUNCHES for node in nodes_of(func.body, ir.AttrStmt)):
        return func
    return func.with_body(_Lowerer(func).visit(func.body))


class _Lowerer(StatementMutator):
    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if node.attr_key not in LAUNCHES:
            return super().attribute(node)
        axis = node.node
        if not isinstance(axis, ir.IterVar):
            return self.visit(node.body)
        if node.attr_key == "thread_extent" and axis.thread_tag.startswith("threadIdx"):
            _refuse_shared(node, axis)
        note("late", f"lowered the launch of `{axis.thread_tag or axis.var.name}` to a serial loop", node)
        return ir.For(axis.var, 0, node.value, ir.ForKind.SERIAL, self.visit(node.body), span=node.span)


def _refuse_shared(stmt: ir.AttrStmt, axis: ir.IterVar) -> None:
    """Raise BuildError where a thread reads shared memory that another thread of `axis` wrote.

    Here the threads run one after another, so that what a later one writes is not there yet.
    """
    accesses = _SharedAccesses(axis.var)
    accesses.visit(stmt.body)
    for load in accesses.loads:
        stores = accesses.stores.get(load.buffer.data, ())
        if stores and not any(ir.structural_equal(load.indices, store) for store in stores):
            raise BuildError(
                f"a thread of `{axis.thread_tag}` reads what others write to the shared buffer `{load.buffer.name}`, "
                "at a place that not all of them reach, so that no barrier can be there",
                node=load,
                hint="guard single loads and stores, or build the schedule itself: `tvmagic.build(sch.mod)` runs "
                "thread-bound loops as plain loops",
                code="codegen.gpu.shared_memory_race",
            )


class _SharedAccesses(ChainVisitor):
    """The loads of shared memory, and the indices of stores to it that differ from thread to thread."""

    def __init__(self, thread: ir.Var) -> None:
        self.dependent = {thread}
        self.loads: list[ir.BufferLoad] = []
        self.stores: dict[ir.Var, list[Any]] = {}

    def _differs(self, parts: Any) -> bool:
        return any(var in self.dependent for part in parts for var in variables_in(part))

    @ir.handles(ir.LetStmt)
    def let(self, node: Any) -> None:
        while isinstance(node, ir.LetStmt):
            self.visit(node.value)
            if self._differs([node.value]):
                self.dependent.add(node.var)
            node = node.body
        self.visit(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.visit_children(node)
        if node.buffer.scope().startswith("shared") and self._differs(node.indices):
            self.stores.setdefault(node.buffer.data, []).append(node.indices)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.visit_children(node)
        if node.buffer.scope().startswith("shared"):
            self.loads.append(node)
