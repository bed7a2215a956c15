"""The passes on functions, under TVM's names; all are loaded when the first one is asked for.

A name such as `Simplify` makes the pass: `Simplify()(mod)` runs it. A pass is declared by `@tir_pass`, in any
module below this package.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.passes import PassContext, PrimFuncPass, Sequential, prim_func_pass
from tvmagic.tir.transform.config import FLAGS
from tvmagic.tir.transform.declaration import PASSES

__all__ = ["PassContext", "PrimFuncPass", "Sequential", "all_passes", "prim_func_pass"]

_ENUMS = ("HoistedConditionals", "HoistedLetBindings")


for _key, _text in FLAGS.items():
    PassContext.register_config_option(_key, _text)


@cache
def all_passes() -> dict[str, _Any]:
    """What makes each declared pass, by name."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return PASSES


def __getattr__(name: str) -> _Any:
    if name in _ENUMS:
        return getattr(importlib.import_module(f"{__name__}.loops.hoist_expression"), name)
    if not name.startswith("_") and name in all_passes():
        return PASSES[name]
    return _find_name(__name__, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_ENUMS, *all_passes()])
