"""The name `tvmagic.target.Target`."""

from tvmagic.codegen.target import Target

__all__ = ["Target"]
