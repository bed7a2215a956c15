"""Functions, at the place where TVM has them."""

from typing import Any as _Any

from tvmagic._places import neighbour as _neighbour
from tvmagic.arith.index_map import IndexMap
from tvmagic.ir import PrimFunc, TensorIntrin

__all__ = ["IndexMap", "PrimFunc", "TensorIntrin"]


def __getattr__(name: str) -> _Any:
    return _neighbour("tvmagic.tir.function", "tvmagic.tir", name)
