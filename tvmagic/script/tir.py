"""The names of TensorIR in scripts: `from tvmagic.script import tir as T`."""

from __future__ import annotations

from typing import Any as _Any

from tvmagic.script.ir_builder import tir as _tir
from tvmagic.script.parser.decorators import macro, prim_func

NAMES: dict[str, _Any] = {**_tir.NAMES, "prim_func": prim_func, "macro": macro}
globals().update(NAMES)
__all__ = list(NAMES)


def __getattr__(name: str) -> _Any:
    try:
        return getattr(_tir, name)
    except AttributeError:
        raise AttributeError(f"there is no `T.{name}`") from None
