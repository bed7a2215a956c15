"""Expressions, at the place where TVM has them."""

from typing import Any as _Any

from tvmagic._places import neighbour as _neighbour
from tvmagic.ir.expr import *  # noqa: F403


def __getattr__(name: str) -> _Any:
    return _neighbour("tvmagic.tir.expr", "tvmagic.tir", name)
