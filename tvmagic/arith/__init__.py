"""What can be proved: bounds, modular sets, simplification, integer sets, iterator maps.

Names are loaded when they are first used; see `_EXPORTS`.
"""

from __future__ import annotations

import importlib
from typing import Any

# where each public name is defined
_EXPORTS: dict[str, str] = {
    "Analyzer": "analyzer",
    "ConstraintScope": "analyzer",
    "Extension": "analyzer",
    "ProofStrength": "analyzer",
    "ConstIntBound": "const_int_bound",
    "ModularSet": "modular_set",
}


def __getattr__(name: str) -> Any:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module `tvmagic.arith` has no name `{name}`")
    value = getattr(importlib.import_module(f"tvmagic.arith.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
