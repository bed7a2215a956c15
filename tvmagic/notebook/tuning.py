"""`%tune`: the search over schedules, shown."""

from __future__ import annotations

from typing import Any

from tvmagic.operators import Operator

__all__ = ["tune"]


def tune(op: Operator, trials: int = 64) -> Any:
    """Search for a fast schedule of an operator, measuring at most `trials` of them."""
    from tvmagic.errors import TVMagicError

    try:
        from tvmagic.tune import tune_operator
    except ImportError:
        raise TVMagicError("this installation has no search over schedules yet") from None
    return tune_operator(op, trials)
