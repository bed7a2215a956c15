"""`%tune`: the search over schedules, shown."""

from __future__ import annotations

import importlib
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.operators import Operator

__all__ = ["tune"]


def tune(op: Operator, trials: int = 64) -> Any:
    """Search for a fast schedule of an operator, measuring at most `trials` of them."""
    try:
        search = importlib.import_module("tvmagic.tune").tune_operator
    except (ImportError, AttributeError):
        raise TVMagicError("this installation has no search over schedules") from None
    return search(op, trials)
