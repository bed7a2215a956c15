"""TVM's place for modules."""

from tvmagic.ir.function import IRModule

__all__ = ["IRModule"]
