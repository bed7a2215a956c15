"""What is known at a place of a program: `Facts`, which visitors and mutators share, tells it to an Analyzer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tvmagic import ir
from tvmagic.arith.analyzer import Analyzer
from tvmagic.ir.effects import side_effect
from tvmagic.ir.query import launches_thread


class Facts:
    """Tells `analyzer` what is known at a place: what a variable lies in or is equal to, and which conditions hold.

    A class that keeps the domains or the conditions itself, too, overrides `known_domain` or `holds`.
    """

    analyzer: Analyzer

    def known_domain(self, var: ir.Var, domain: ir.Range) -> None:
        """`var` lies in `domain`."""
        self.analyzer.bind(var, domain, True)

    def known_value(self, var: ir.Var, value: ir.PrimExpr) -> None:
        """`var` is `value`; a proof gets it if it is an integer or a condition, computed from variables alone."""
        self.analyzer.wraps.define(var, value)
        dtype = value.dtype
        if (dtype.is_int or dtype.is_uint) and side_effect(value) <= ir.CallEffect.PURE:
            self.analyzer.bind(var, value, True)

    def known_loop(self, node: ir.For) -> None:
        """A loop's variable lies in its bounds."""
        self.known_domain(node.loop_var, ir.Range.from_min_extent(node.min, node.extent))

    def known_thread(self, node: ir.AttrStmt) -> None:
        """The variable of a thread that an attribute launches lies below its extent; other attributes say nothing."""
        if launches_thread(node):
            self.known_domain(node.node.var, ir.Range.from_min_extent(ir.IntImm(node.value.dtype, 0), node.value))

    def known_block(self, node: ir.Block) -> None:
        """The variables of a block lie in their domains."""
        for iter_var in node.iter_vars:
            if iter_var.dom is not None:
                self.known_domain(iter_var.var, iter_var.dom)

    def holds(self, condition: ir.PrimExpr) -> AbstractContextManager[Any]:
        """While the context is open, `condition` holds."""
        return self.analyzer.constraint_scope(condition)

    def fails(self, condition: ir.PrimExpr) -> AbstractContextManager[Any]:
        """While the context is open, `condition` does not hold."""
        return self.holds(self.analyzer.rewrite_simplify(ir.Not(condition)))
