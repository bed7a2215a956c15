"""LiftThreadBinding: all loops bound to one thread axis become one loop around them."""

from __future__ import annotations

import re
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.errors import TVMagicError
from tvmagic.ir.ops import cast
from tvmagic.tir.transform.declaration import tir_pass


def thread_rank(tag: str) -> tuple[int, int]:
    """The level of a thread axis (0 for blocks, 1 for threads) and its dimension."""
    match = re.fullmatch(r"(blockIdx|threadIdx|vthread)(?:\.([xyz]))?", tag)
    if match is None:
        return (1, 0)
    return (0 if match[1] == "blockIdx" else 1, -1 if match[1] == "vthread" else "xyz".index(match[2] or "x"))


class _LowestCommonLoop(ir.StmtVisitor):
    """For each thread axis the innermost loop around all loops that are bound to it."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.path: list[ir.For] = []
        self.paths: dict[str, list[ir.For]] = {}
        self.axes: dict[str, ir.For] = {}
        self.vars: dict[str, ir.Var] = {}
        self.annotations: dict[str, dict[str, Any]] = {}
        self.renamed: dict[ir.Var, ir.PrimExpr] = {}

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        self.path.append(node)
        self.visit(node.body)
        if node.kind is ir.ForKind.THREAD_BINDING:
            self._update(node)
        self.path.pop()

    def _update(self, node: ir.For) -> None:
        assert node.thread_binding is not None
        tag = node.thread_binding.thread_tag
        self.annotations.setdefault(tag, {}).update(node.annotations)
        if tag not in self.axes:
            self.axes[tag] = node
            self.vars[tag] = node.loop_var.copy_with_name(tag)
            self.paths[tag] = list(self.path)
        else:
            self._check_extent(node, self.axes[tag], tag)
            path = self.paths[tag]
            common = 0
            while common < min(len(path), len(self.path)) and path[common] is self.path[common]:
                common += 1
            del path[common:]
        var = self.vars[tag]
        # thread axes count from 0
        starts_at_zero = isinstance(node.min, ir.IntImm) and node.min.value == 0
        self.renamed[node.loop_var] = var if starts_at_zero else var + node.min

    def _check_extent(self, node: ir.For, first: ir.For, tag: str) -> None:
        one, other = first.extent, node.extent
        if not self.analyzer.can_prove_equal(cast(one.dtype, other), one):
            raise TVMagicError(
                f"two loops of one kernel are bound to `{tag}`, of {one} and of {other} iterations",
                node=node,
                hint="loops that are bound to one thread axis have the same extent",
                code="tir.kernel.extents_differ",
            )

    def loops_at(self) -> dict[ir.For, list[tuple[ir.For, ir.Var, dict[str, Any]]]]:
        """The thread axes to put inside a loop, in the order in which they nest outwards.

        As in TVM the longest tag is the innermost, so that threads come inside blocks; of two as long, the one
        whose first loop ends last.
        """
        result: dict[ir.For, list[tuple[ir.For, ir.Var, dict[str, Any]]]] = {}
        order = {tag: n for n, tag in enumerate(self.axes)}
        for tag in sorted(order, key=lambda tag: (len(tag), order[tag]), reverse=True):
            entry = (self.axes[tag], self.vars[tag], self.annotations[tag])
            result.setdefault(self.paths[tag][-1], []).append(entry)
        return result


class _Lifter(ir.Mutator):
    def __init__(self) -> None:
        self.at: dict[ir.For, list[tuple[ir.For, ir.Var, dict[str, Any]]]] = {}
        self.renamed: dict[ir.Var, ir.PrimExpr] = {}

    @ir.handles(ir.Var)
    def var(self, var: ir.Var) -> ir.PrimExpr:
        return self.renamed.get(var, var)

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> ir.Stmt:
        root = node.kind is ir.ForKind.THREAD_BINDING and not self.at
        if root:
            finder = _LowestCommonLoop()
            finder.visit(node)
            self.at, self.renamed = finder.loops_at(), finder.renamed
        new = self.visit_children(node)
        body = new.body
        for axis, var, facts in self.at.get(node, ()):
            assert axis.thread_binding is not None
            tag = axis.thread_binding.thread_tag
            binding = ir.IterVar(None, ir.Var(tag, var.dtype), ir.IterVar.ThreadIndex, tag)
            body = ir.For(var, 0, axis.extent, ir.ForKind.THREAD_BINDING, body, binding, facts, axis.span)
        if root:
            self.at, self.renamed = {}, {}
        if node.kind is ir.ForKind.THREAD_BINDING:
            return body
        return new.with_(body=body)


@tir_pass("tir.LiftThreadBinding")
def LiftThreadBinding(func: ir.PrimFunc) -> ir.PrimFunc:
    """Unify the loops bound to the same thread axis and lift them around what they hold."""
    return func.with_body(_Lifter().visit(func.body))
