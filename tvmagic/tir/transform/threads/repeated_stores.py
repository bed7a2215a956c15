"""GuardRepeatedStores: what several threads would store to one place, the first of them stores.

A stage in shared memory that is computed below a launch, and not bound to its threads, is computed by each of them.
They store the same values to the same places, which does no harm until they read in between what they store, as
the updates of a reduction do: each of them would add the same term.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmagic import ir
from tvmagic.ir.memory_scope import is_of_threads
from tvmagic.ir.ops import logical_and
from tvmagic.ir.query import nodes_of
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.threads.kernel_threads import is_launch
from tvmagic.tir.transform.use_def import used_vars


@tir_pass("tir.GuardRepeatedStores")
class GuardRepeatedStores(ir.Mutator):
    """Let one thread store what several would store to the same place. Not a pass of TVM's; it comes before ThreadSync."""

    def __init__(self) -> None:
        self.axes: dict[str, ir.Var] = {}  # of the launches around, by tag
        # by variable: the thread axes, by tag, that its value depends on
        self.depends: dict[ir.Var, frozenset[str]] = {}
        self.around: list[frozenset[str]] = []  # of the conditions and loops around

    def _tags(self, *exprs: ir.PrimExpr) -> frozenset[str]:
        """The axes that the values of expressions depend on: all, if they load what each thread has of its own."""
        found = frozenset[str]()
        for expr in exprs:
            if _loads_own(expr):
                return frozenset(self.axes)
            found = found.union(*(self.depends.get(var, frozenset()) for var in used_vars(expr)))
        return found

    @ir.handles(ir.PrimExpr)
    def leaf(self, node: ir.PrimExpr) -> ir.PrimExpr:
        return node

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> ir.Stmt:
        if not is_launch(node) or not node.node.thread_tag.startswith("threadIdx"):
            return self.visit_children(node)
        tag, var = node.node.thread_tag, node.node.var
        self.depends[var] = frozenset((tag,))
        known = tag in self.axes
        if not known and not (isinstance(node.value, ir.IntImm) and node.value.value == 1):
            self.axes[tag] = var
        result = self.visit_children(node)
        if not known:
            self.axes.pop(tag, None)
        return result

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> ir.Stmt:
        self.depends[node.var] = self._tags(node.value)
        return self.visit_children(node)

    @ir.handles(ir.For, ir.While, ir.IfThenElse)
    def nest(self, node: ir.For | ir.While | ir.IfThenElse) -> ir.Stmt:
        tags = self._tags(*((node.min, node.extent) if isinstance(node, ir.For) else (node.condition,)))
        if isinstance(node, ir.For):
            self.depends[node.loop_var] = tags
        self.around.append(tags)
        result = self.visit_children(node)
        self.around.pop()
        return result

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> ir.Stmt:
        if not self.axes or is_of_threads(node.buffer.scope()):
            return node
        own = self._tags(*node.indices, *((node.predicate,) if node.predicate is not None else ()))
        own = own.union(*self.around, self._named(node.value))
        return _by_first(node, [var for tag, var in self.axes.items() if tag not in own])

    def _named(self, value: ir.PrimExpr) -> frozenset[str]:
        return frozenset[str]().union(*(self.depends.get(var, frozenset()) for var in used_vars(value)))


def _by_first(node: ir.BufferStore, axes: Iterable[ir.Var]) -> ir.Stmt:
    """A store by the first thread of the axes."""
    condition: ir.PrimExpr | None = None
    for var in axes:
        first = var.equal(0)
        condition = first if condition is None else logical_and(condition, first)
    return node if condition is None else ir.IfThenElse(condition, node, span=node.span)


def _loads_own(expr: ir.PrimExpr) -> bool:
    return any(is_of_threads(load.buffer.scope()) for load in nodes_of(expr, ir.BufferLoad))
