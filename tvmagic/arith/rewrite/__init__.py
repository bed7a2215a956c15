"""Simplification by rules."""

from tvmagic.arith.rewrite.simplifier import RULES, RewriteSimplifier, observe_rules

__all__ = ["RULES", "RewriteSimplifier", "observe_rules"]
