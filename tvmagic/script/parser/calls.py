"""What is wrong with a call: how many arguments a function takes, and which names they have."""

from __future__ import annotations

import inspect
from typing import Any

from tvmagic.errors import did_you_mean


def explain_call(
    shown: str, function: Any, args: list[Any], kwargs: dict[str, Any], error: TypeError
) -> tuple[str, str | None]:
    """One sentence on a call that raised a TypeError, and a hint; `shown` is the function's name."""
    if not callable(function):
        return f"`{shown}` is not a function", None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return f"`{shown}`: {error}", None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as mismatch:
        names = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
        unknown = next((k for k in kwargs if k not in signature.parameters), None)
        hint = did_you_mean(unknown, names) if unknown is not None else None
        listed = ", ".join(_shown_parameter(p) for p in signature.parameters.values())
        return f"`{shown}` does not take these arguments: {mismatch}", hint or f"it is called as `{shown}({listed})`"
    return f"`{shown}`: {error}", None


def _shown_parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    if parameter.default is parameter.empty:
        return parameter.name
    return f"{parameter.name}={parameter.default!r}"
