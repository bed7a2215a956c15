"""Functions, at the place where TVM has them."""

from tvmagic.arith.index_map import IndexMap
from tvmagic.ir import PrimFunc, TensorIntrin

__all__ = ["IndexMap", "PrimFunc", "TensorIntrin"]
