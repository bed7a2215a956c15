"""Targets, at the place where TVM has them."""

from tvmagic.codegen.target import Target, default_target
from tvmagic.codegen.target.tags import list_tags
from tvmagic.codegen.target.target import TargetKind
from tvmagic.target import codegen

__all__ = ["Target", "TargetKind", "codegen", "default_target", "list_tags"]
