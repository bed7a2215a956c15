"""Services that a package asks for from a higher level, by name.

A package imports only from lower levels. Where one must call a higher level (printing a node, simplifying an extent), it
asks here. `tvmagic/__init__.py` says which module provides a service and loads it when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic import provider
from tvmagic.errors import TVMagicError

_found: dict[str, Callable[..., Any]] = {}


def provided_if(service: str) -> Callable[..., Any] | None:
    """Return the function or class that provides a service, or None if compat would provide it and is not installed."""
    found = _found.get(service)
    if found is None:
        found = provider(service)
        if found is not None:
            _found[service] = found
    return found


def provided(service: str) -> Callable[..., Any]:
    """Return the function or class that provides a service. Raises TVMagicError if it is not installed."""
    found = _found.get(service) or provided_if(service)
    if found is None:
        raise TVMagicError(f"cannot find `{service}`: `tvmagic.compat` is not installed", code="compat.not_installed")
    return found


def provide(service: str, function: Callable[..., Any]) -> None:
    """Let `function` provide a service from now on."""
    _found[service] = function
