"""Statements for bodies of intrinsics and extern operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.ir import For, ForKind, Stmt, Var


def loop(name: str, extent: Any, body: Callable[[Var], Stmt]) -> For:
    """Return a serial loop from 0 to `extent`; `body` makes its body from its variable."""
    variable = Var(name)
    return For(variable, 0, extent, ForKind.SERIAL, body(variable))
