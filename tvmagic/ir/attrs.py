"""Attributes of a node that has no class of its own, by name, at the place where TVM has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvmagic.errors import WrongIndexError
from tvmagic.ir.derive import node
from tvmagic.ir.node import Node


@node
class Attrs(Node):
    """Values by name: `attrs["axis"]`, `attrs.axis`."""

    values_by_name: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        values = {} if name.startswith("_") or name in type(self).__slots__ else self.values_by_name
        if name not in values:
            raise AttributeError(f"there is no attribute `{name}`")
        return values[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self.values_by_name:
            raise WrongIndexError(f"there is no attribute `{name}`", code="attributes.unknown_key")
        return self.values_by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values_by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def keys(self) -> list[str]:
        """The names."""
        return list(self.values_by_name)

    def values(self) -> list[Any]:
        """The values."""
        return list(self.values_by_name.values())

    def items(self) -> list[tuple[str, Any]]:
        """The names with their values."""
        return list(self.values_by_name.items())

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name; `default` if there is none."""
        return self.values_by_name.get(name, default)

    def get_int(self, name: str) -> int:
        """The whole number of a name."""
        return int(self[name])

    def get_str(self, name: str) -> str:
        """The text of a name."""
        return str(getattr(self[name], "value", self[name]))

    def get_int_tuple(self, name: str) -> tuple[int, ...]:
        """The whole numbers of a name."""
        return tuple(int(value) for value in self[name])


@node
class DictAttrs(Attrs):
    """Attributes that `make_node("DictAttrs", axis=1)` makes: any names."""
