"""Of many cases, those that the normal tests run; the rest has the mark `soak` and is run by `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], normal: Iterable[Any]) -> list[Any]:
    """All cases as parameters; those of `normal` are in the normal tests."""
    chosen = list(normal)
    rows = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [pytest.param(*row, marks=() if case in chosen else pytest.mark.soak) for case, row in rows]


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """All cases as parameters; the first of each `step` is in the normal tests."""
    whole = list(cases)
    return some(whole, whole[::step])
