"""The names of TVM's `tir.op` that `tir` does not have, or has for something else: `max` of two values."""

from typing import Any as _Any

from tvmagic.ir.op import Op
from tvmagic.ir.ops import *  # noqa: F403
from tvmagic.ir.ops import maximum as max
from tvmagic.ir.ops import minimum as min

__all__ = ["Op", "max", "min", *(name for name in dir() if not name.startswith("_"))]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    from tvmagic.script.ir_builder.tir.intrin import OPERATORS

    if name in OPERATORS:  # operators that are mostly written in scripts
        return OPERATORS[name]
    raise AttributeError(f"module `tvmagic.tir.op` has no name `{name}`")
