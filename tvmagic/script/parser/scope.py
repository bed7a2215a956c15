"""The names that a script can use at a place in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Var

MISSING: Any = object()


class Scope:
    """Names defined in the script, innermost first, then those of the mappings around it.

    A body opens a level; what it defines is gone when the level is closed. Inside one level a name
    is defined once.
    """

    def __init__(self, outer: Sequence[Mapping[str, Any]] = ()) -> None:
        self.values: dict[str, Any] = {}
        self.outer = tuple(outer)
        self.levels: list[dict[str, Any]] = [{}]
        self.held: dict[int, int] = {}

    def push(self) -> None:
        """Open a level."""
        self.levels.append({})

    def pop(self) -> None:
        """Close the innermost level."""
        for name, old in self.levels.pop().items():
            value = self.values[name]
            if isinstance(value, Var):
                self._release(value)
            if old is MISSING:
                del self.values[name]
            else:
                self.values[name] = old

    def _release(self, value: Var) -> None:
        count = self.held[id(value)] - 1
        if count:
            self.held[id(value)] = count
        else:
            del self.held[id(value)]

    def define(self, name: str, value: Any, shadow: bool = False) -> None:
        """Give a name its value in the innermost level."""
        level = self.levels[-1]
        if name in level:
            old = self.values[name]
            if old is value:
                return
            if not shadow:
                raise TVMagicError(
                    f"the name `{name}` is defined twice here",
                    hint="use another name for the second one",
                    code="script.defined_twice",
                )
            if isinstance(old, Var):
                self._release(old)
        else:
            level[name] = self.values.get(name, MISSING)
        self.values[name] = value
        if isinstance(value, Var):
            self.held[id(value)] = self.held.get(id(value), 0) + 1

    def holds(self, value: Any) -> bool:
        """Whether a name of the script stands for this very variable."""
        return id(value) in self.held

    def find(self, name: str) -> Any:
        """The value of a name, or MISSING."""
        value = self.values.get(name, MISSING)
        if value is MISSING:
            for mapping in self.outer:
                value = mapping.get(name, MISSING)
                if value is not MISSING:
                    return value
        return value

    def names(self) -> list[str]:
        """All names that can be used."""
        found = dict.fromkeys(self.values)
        for mapping in self.outer:
            found.update(dict.fromkeys(mapping))
        return list(found)
