"""The names `tvmagic.target.Target` and `tvmagic.target.default_target`."""

from tvmagic.codegen.target import Target, default_target

__all__ = ["Target", "default_target"]
