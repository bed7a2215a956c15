"""Functions that build expressions, at the place where TVM has them."""

from typing import Any as _Any

from tvmagic._places import neighbour as _neighbour
from tvmagic.ir.op import Op
from tvmagic.ir.ops import *  # noqa: F403
from tvmagic.ir.ops import maximum as max
from tvmagic.ir.ops import minimum as min

__all__ = ["Op", "max", "min", *(name for name in dir() if not name.startswith("_"))]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    from tvmagic.script.ir_builder.tir.intrin import OPERATORS

    if name in OPERATORS:  # operators that are mostly written in scripts
        return OPERATORS[name]
    return _neighbour("tvmagic.tir.op", "tvmagic.tir", name)
