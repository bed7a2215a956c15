"""Simplification by rules."""

from tvmagic.arith.rewrite.simplifier import RewriteSimplifier

__all__ = ["RewriteSimplifier"]
