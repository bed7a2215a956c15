"""UnifyThreadBinding: in a kernel, all loops and launches of one thread axis use one variable."""

from __future__ import annotations

from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast
from tvmagic.ir.query import launches_thread
from tvmagic.tir.transform.declaration import tir_pass
from tvmagic.tir.transform.memory.flatten_buffer import from_legacy_te_schedule


class _Unifier(ir.Mutator):
    """`axes` has the variable and the domain of each thread axis of the kernel at hand, the outermost first."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.axes: dict[str, tuple[ir.Var, ir.Range]] = {}
        self.renamed: dict[ir.Var, ir.PrimExpr] = {}
        self.in_kernel = False

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        return self.renamed.get(var, var)

    @ir.handles(ir.AttrStmt)
    def launch(self, node: ir.AttrStmt) -> ir.Stmt:
        if not launches_thread(node):
            return self.visit_children(node)
        domain = ir.Range.from_min_extent(ir.IntImm(node.value.dtype, 0), node.value)
        return self._unify(node, node.node.var, node.node.thread_tag, domain)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        if node.kind is not ir.ForKind.THREAD_BINDING:
            return self.visit_children(node)
        assert node.thread_binding is not None
        domain = ir.Range.from_min_extent(node.min, node.extent)
        result = self._unify(node, node.loop_var, node.thread_binding.thread_tag, domain)
        if not node.annotations:
            return result
        if isinstance(result, ir.For):
            return result.replace(annotations=node.annotations)
        # the loop is gone: one of a single iteration carries what was said of it
        dtype = node.loop_var.dtype
        return ir.For(
            ir.Var("var", dtype), 0, ir.IntImm(dtype, 1), ir.ForKind.SERIAL, result, None, node.annotations, node.span
        )

    def _unify(self, node: Any, var: ir.Var, tag: str, domain: ir.Range) -> ir.Stmt:
        """The body of the loop or launch `node`; of the outermost one, within the loops of its whole kernel."""
        outermost = not self.in_kernel
        if outermost:
            self.axes = {}
        known = self.axes.get(tag)
        if known is None:
            known = self.axes[tag] = ir.Var(tag, domain.extent.dtype), domain
        elif not self._is_equal(domain, known[1]):
            raise TVMagicError(
                f"two loops of one kernel are bound to `{tag}`, of {known[1].extent} and of {domain.extent} iterations",
                node=node,
                hint="loops that are bound to one thread axis have the same extent",
                code="tir.kernel.extents_differ",
            )
        self.renamed[var] = known[0] if known[0].dtype is var.dtype else cast(var.dtype, known[0])
        self.in_kernel = True
        body = self.visit(node.body)
        if outermost:
            self.in_kernel = False
            for axis, (axis_var, bounds) in reversed(self.axes.items()):
                binding = ir.IterVar(None, ir.Var("", axis_var.dtype), ir.IterVar.ThreadIndex, axis)
                body = ir.For(
                    axis_var, bounds.min, bounds.extent, ir.ForKind.THREAD_BINDING, body, binding, {}, node.span
                )
        return body

    def _is_equal(self, one: ir.Range, other: ir.Range) -> bool:
        return all(
            self.analyzer.can_prove_equal(a if a.dtype is b.dtype else cast(b.dtype, a), b)
            for a, b in ((one.min, other.min), (one.extent, other.extent))
        )


@tir_pass("tir.UnifyThreadBinding")
def UnifyThreadBinding(func: ir.PrimFunc) -> ir.PrimFunc:
    """Bind all loops of one thread axis in a kernel to one variable, and launch the axes around the kernel.

    A kernel is what the outermost thread-bound loop holds. A function made from a TE schedule stays as it is.
    Raises `TVMagicError` where two loops of one axis differ in extent.
    """
    return func if from_legacy_te_schedule(func) else func.with_body(_Unifier().visit(func.body))
