"""Functions known by name: what `T.call_packed` calls and what `get_global_func` finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import TVMagicError

__all__ = ["get_global_func", "list_global_func_names", "register_func", "remove_global_func"]

_functions: dict[str, Callable[..., Any]] = {}


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Make `f` known as `func_name`; a decorator where `f` is left out.

    `@register_func` alone takes the function's own name.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if func_name in _functions and not override:
            raise TVMagicError(f"the function `{func_name}` is registered already", hint="pass override=True")
        _functions[func_name] = function
        return function

    return register(f) if f is not None else register


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The function known as `name`."""
    found = _functions.get(name)
    if found is None and not allow_missing:
        import difflib

        close = difflib.get_close_matches(name, _functions, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "register it with `tvmagic.register_func`"
        raise TVMagicError(f"no function is registered as `{name}`", hint=hint)
    return found


def list_global_func_names() -> list[str]:
    """The names of all registered functions."""
    return sorted(_functions)


def remove_global_func(name: str) -> None:
    """Forget the function known as `name`."""
    _functions.pop(name, None)
