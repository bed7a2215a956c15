"""Build functions and modules statement by statement, as TVM's `script.ir_builder` does."""

from tvmagic.script.ir_builder import ir, tir
from tvmagic.script.ir_builder.base import IRBuilder, IRBuilderFrame

__all__ = ["IRBuilder", "IRBuilderFrame", "ir", "tir"]
