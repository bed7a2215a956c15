"""Targets, at the place where TVM has them."""

from tvmagic.codegen.target import Target
from tvmagic.codegen.target.tags import list_tags
from tvmagic.codegen.target.target import TargetKind

__all__ = ["Target", "TargetKind", "list_tags"]
