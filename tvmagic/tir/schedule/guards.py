"""Questions on values that users and traces give; the type checker learns what follows from the answer."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether it is a list, of whatever."""
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether it is a tuple, of whatever."""
    return isinstance(value, tuple)


def is_row(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether it is a list or a tuple, of whatever."""
    return isinstance(value, (list, tuple))


def is_mapping(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether it is a dictionary, of whatever."""
    return isinstance(value, dict)
