"""Methods that a higher module gives to the classes of a lower one.

A node can be compared, hashed, pickled and computed with, and what does this builds nodes itself. So the class declares
the method for type checkers alone, and the module that implements it attaches it. `tvmagic.ir` loads all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])


def method_of(*classes: type, name: str = "") -> Callable[[_F], _F]:
    """Attach the decorated function to each of `classes` as a method, by default under its own name."""

    def attach(function: _F) -> _F:
        for cls in classes:
            setattr(cls, name or function.__name__, function)
        return function

    return attach
