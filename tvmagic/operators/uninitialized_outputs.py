"""Outputs of a TensorIR function that may have elements without a value, as after a scatter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvmagic import ir
from tvmagic.arith import Analyzer
from tvmagic.arith.region_bounds import estimate_region_lower_bound
from tvmagic.errors import TVMagicError
from tvmagic.ir.query import launches_thread, variables_in
from tvmagic.operators.analysis import without_views
from tvmagic.tir.blocks.conditions import all_of


def left_unwritten(func: ir.PrimFunc | None, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[bool, ...]:
    """For each of the buffers `outputs`, whether some of its elements may never get a value.

    False if it is an input as well, if one store of `func` is proved to reach all elements, and without a `func`.
    """
    if func is None:
        return (False,) * len(outputs)
    stores = _Stores()
    stores.visit(without_views(func).body)
    return tuple([b.data not in stores.whole and all(b is not i for i in inputs) for b in outputs])


class _Stores(ir.Visitor):
    """The memory of which one store, with the loops and conditions around it, writes every element."""

    def __init__(self) -> None:
        self.whole: set[Any] = set()
        self.domains: dict[ir.Var, ir.Range] = {}
        self.bound: dict[ir.Var, ir.PrimExpr] = {}
        self.conditions: list[ir.PrimExpr] = []
        self.certain = True

    @contextmanager
    def _uncertain(self) -> Iterator[None]:
        certain, self.certain = self.certain, False
        yield
        self.certain = certain

    @contextmanager
    def _where(self, condition: ir.PrimExpr) -> Iterator[None]:
        self.conditions.append(ir.substitute(condition, self.bound))
        yield
        self.conditions.pop()

    @contextmanager
    def _over(self, var: ir.Var, begin: ir.PrimExpr, extent: ir.PrimExpr) -> Iterator[None]:
        """Inside a loop; one whose range depends on another loop is not understood."""
        certain = self.certain
        self.certain &= not any(v in self.domains or v in self.bound for e in (begin, extent) for v in variables_in(e))
        self.domains[var] = ir.Range.from_min_extent(begin, extent)
        yield
        del self.domains[var]
        self.certain = certain

    @ir.handles(ir.For)
    def loop(self, node: ir.For) -> None:
        with self._over(node.loop_var, node.min, node.extent):
            self.visit(node.body)

    @ir.handles(ir.AttrStmt)
    def attribute(self, node: ir.AttrStmt) -> None:
        if not launches_thread(node) or node.node.var in self.domains:
            self.visit(node.body)
            return
        with self._over(node.node.var, ir.IntImm(node.value.dtype, 0), node.value):
            self.visit(node.body)

    @ir.handles(ir.LetStmt)
    def let(self, node: ir.LetStmt) -> None:
        self.bound[node.var] = ir.substitute(node.value, self.bound)
        self.visit(node.body)

    @ir.handles(ir.BlockRealize)
    def block(self, node: ir.BlockRealize) -> None:
        for iv, value in zip(node.block.iter_vars, node.iter_values):
            self.bound[iv.var] = ir.substitute(value, self.bound)
        with self._where(node.predicate):
            self.visit(node.block.body)
            if node.block.init is not None:  # not in every iteration
                with self._uncertain():
                    self.visit(node.block.init)

    @ir.handles(ir.IfThenElse)
    def branch(self, node: ir.IfThenElse) -> None:
        with self._where(node.condition):
            self.visit(node.then_case)
        if node.else_case is not None:
            with self._uncertain():
                self.visit(node.else_case)

    @ir.handles(ir.While)
    def repeat(self, node: ir.While) -> None:
        with self._uncertain():
            self.visit(node.body)

    @ir.handles(ir.PrimExpr)
    def expression(self, node: ir.PrimExpr) -> None:
        """Nothing is stored inside."""

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        if self.certain and node.predicate is None and self._reaches_all(node):
            self.whole.add(node.buffer.data)

    def _reaches_all(self, node: ir.BufferStore) -> bool:
        indices = [ir.substitute(i, self.bound) for i in node.indices]
        conditions = [c for c in self.conditions if not (isinstance(c, ir.IntImm) and c.value)]
        used = {v for e in (*indices, *conditions) for v in variables_in(e)}
        analyzer = Analyzer()
        for var, domain in self.domains.items():
            if var not in used and not analyzer.can_prove(domain.extent > 0):
                return False
        try:
            domains = {v: d for v, d in self.domains.items() if v in used}
            moving = [n for n, i in enumerate(indices) if variables_in(i)]
            region = [ir.Range.from_min_extent(indices[n], 1) for n in moving]
            reached = estimate_region_lower_bound(region, domains, all_of(conditions), analyzer) if region else []
        except TVMagicError:
            return False
        if reached is None:
            return False
        ends = [(i, i) for i in indices]
        for n, found in zip(moving, reached):
            ends[n] = (found.min(), found.max())
        return all(
            analyzer.can_prove_equal(first, 0) and analyzer.can_prove_equal(last + 1, size)
            for (first, last), size in zip(ends, node.buffer.shape)
        )
