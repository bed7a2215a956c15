"""Buffers, at the place where TVM has them."""

from typing import Any as _Any

from tvmagic._places import neighbour as _neighbour
from tvmagic.ir import Buffer, DataProducer, decl_buffer

__all__ = ["Buffer", "DataProducer", "decl_buffer"]


def __getattr__(name: str) -> _Any:
    return _neighbour("tvmagic.tir.buffer", "tvmagic.tir", name)
