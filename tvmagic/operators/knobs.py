"""Knobs: numbers in a schedule cell that can be turned, `knob(32, [8, 16, 32, 64])`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.notation.source import Source


@dataclass(frozen=True)
class Knob:
    """One call of `knob` in a cell: its name, its first value, the values to choose from."""

    name: str
    default: Any
    choices: tuple[Any, ...]


def plain_knob(default: Any, choices: Sequence[Any] | None = None, name: str | None = None) -> Any:
    """The value of a knob if nothing turns it: its default."""
    return default


@dataclass
class Knobs:
    """The knobs of a cell and the values they are set to. `knob` is the function that the cell calls.

    `any_value`: a knob takes values that are not among its choices as well.
    """

    source: Source
    values: dict[str, Any] = field(default_factory=dict)
    found: dict[str, Knob] = field(default_factory=dict)
    any_value: bool = False

    def __post_init__(self) -> None:
        self._names = _names_of_calls(self.source)

    def knob(self, default: Any, choices: Sequence[Any] | None = None, name: str | None = None) -> Any:
        """A value that can be chosen; `choices` hold the default, or it is put first."""
        options = tuple(choices) if choices is not None else (default,)
        if not options:
            raise TVMagicError(
                "a knob needs at least one value", hint="write `knob(32, [8, 16, 32, 64])`", code="knob.no_values"
            )
        if default not in options:
            options = (default, *options)
        frame = sys._getframe(1)
        name = name or self._names.get(frame.f_lineno)
        key, number = name or f"knob at line {frame.f_lineno}", 2
        while key in self.found:
            key = f"{name} {number}" if name else f"knob {number} at line {frame.f_lineno}"
            number += 1
        self.found[key] = Knob(key, default, options)
        return self.value(key)

    def begin(self) -> None:
        """Called before each run of the cell, so that knobs are found and numbered afresh."""
        self.found = {}

    def value(self, name: str) -> Any:
        """What a knob is set to: the value given to it if that is one of its choices, else its default."""
        knob = self.found[name]
        value = self.values.get(name, knob.default)
        return value if self.any_value or value in knob.choices else knob.default

    def chosen(self) -> Mapping[str, Any]:
        """The value of every knob that the last run met."""
        return {name: self.value(name) for name in self.found}


def _names_of_calls(source: Source) -> dict[int, str]:
    """For each line with a call of `knob` the name it is assigned to."""
    names: dict[int, str] = {}
    try:
        tree = source.parse()
    except SyntaxError:
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "knob":
                    names[call.lineno] = node.targets[0].id
    return names
