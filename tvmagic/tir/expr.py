"""Expressions, at the place where TVM has them."""

from tvmagic.ir.expr import *  # noqa: F403
