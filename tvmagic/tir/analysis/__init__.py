"""Questions about programs, under TVM's names; each is loaded when it is first asked for."""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name

_NAMES = {
    "detect_buffer_access_lca": "tvmagic.tir.analysis.buffer_lca",
    "Race": "tvmagic.tir.analysis.races",
    "expr_deep_equal": "tvmagic.ir.deep_equal",
    "find_races": "tvmagic.tir.analysis.races",
    "side_effect": "tvmagic.ir.effects",
    "undefined_vars": "tvmagic.tir.analysis.ssa",
    "verify_ssa": "tvmagic.tir.analysis.ssa",
    "verify_well_formed": "tvmagic.ir.wellformed",
}


def __getattr__(name: str) -> _Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
        globals()[name] = value
        return value
    return _find_name("tvmagic.tir.analysis", name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
