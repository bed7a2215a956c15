"""Paths from a node to a part of it, such as `<root>.body.seq[0].value`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tvmagic.errors import WrongIndexError

__all__ = [
    "ArrayIndexPath",
    "AttributeAccessPath",
    "MapValuePath",
    "MissingArrayElementPath",
    "MissingMapEntryPath",
    "ObjectPath",
    "RootPath",
    "UnknownAttributeAccessPath",
    "follow",
]


class ObjectPath:
    """The way from a root to a part of it, one step after the other. The class of a path says what its last step is.

    Steps: `attr(name)`, `array_index(i)`, `map_value(key)`, and, for a part that one of two
    compared programs lacks, `missing_array_element(i)` and `missing_map_entry()`.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[tuple[str, Any], ...] = ()) -> None:
        self.steps = steps

    @staticmethod
    def root(name: str | None = None) -> ObjectPath:
        """The path to the root itself, which is printed as `name`."""
        return RootPath(() if name is None else (("root", name),))

    def then(self, kind: str, key: Any) -> ObjectPath:
        """On by one step, of a kind that `_CLASSES` has."""
        return _CLASSES[kind]((*self.steps, (kind, key)))

    def attr(self, attr_key: str | None) -> ObjectPath:
        """On to the field `attr_key`; to some field if that is None."""
        return self.then("unknown attr" if attr_key is None else "attr", attr_key)

    def array_index(self, index: int) -> ObjectPath:
        """On to element `index` of a list."""
        return self.then("index", int(index))

    def missing_array_element(self, index: int) -> ObjectPath:
        """On to where a list would have element `index`."""
        return self.then("missing index", int(index))

    def map_value(self, key: Any) -> ObjectPath:
        """On to the value of `key` in a mapping."""
        return self.then("key", key)

    def missing_map_entry(self) -> ObjectPath:
        """On to where a mapping would have an entry."""
        return self.then("missing key", None)

    @property
    def name(self) -> str | None:
        """The name of the root."""
        return self.steps[0][1] if self.steps and self.steps[0][0] == "root" else None

    @property
    def _places(self) -> tuple[tuple[str, Any], ...]:
        """The steps behind the root."""
        return self.steps if self.name is None else self.steps[1:]

    @property
    def parent(self) -> ObjectPath | None:
        """The path without its last step; None at the root."""
        return self.get_prefix(len(self) - 1) if len(self) > 1 else None

    def __len__(self) -> int:
        return len(self._places) + 1

    def get_prefix(self, length: int) -> ObjectPath:
        """The first `length` places of the path; the root counts as one."""
        if not 1 <= length <= len(self):
            raise WrongIndexError(
                f"a prefix has a length from 1 to {len(self)}, that of the path, not {length}",
                code="object_path.wrong_prefix_length",
            )
        steps = self.steps[: len(self.steps) - len(self) + length]
        return (RootPath if length == 1 else _CLASSES[steps[-1][0]])(steps)

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether `other` begins with this path."""
        return len(self) <= len(other) and self == other.get_prefix(len(self))

    def __eq__(self, other: object) -> bool:
        """Whether both take the same steps; an unknown field is not the same as any."""
        known = ("unknown attr", None) not in self.steps
        return isinstance(other, ObjectPath) and known and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(tuple([(kind, str(key)) for kind, key in self.steps]))

    def __str__(self) -> str:
        return (self.name or "<root>") + "".join([_TEXT[kind](key) for kind, key in self._places])

    __repr__ = __str__


class RootPath(ObjectPath):
    """The path to the root."""

    __slots__ = ()


class AttributeAccessPath(ObjectPath):
    """A path to the field `attr_key`."""

    __slots__ = ()

    @property
    def attr_key(self) -> str:
        """The field's name."""
        return self.steps[-1][1]


class UnknownAttributeAccessPath(ObjectPath):
    """A path to some field."""

    __slots__ = ()


class ArrayIndexPath(ObjectPath):
    """A path to element `index` of a list."""

    __slots__ = ()

    @property
    def index(self) -> int:
        """The place in the list."""
        return self.steps[-1][1]


class MissingArrayElementPath(ArrayIndexPath):
    """A path to where a list would have element `index`."""

    __slots__ = ()


class MapValuePath(ObjectPath):
    """A path to the value of `key` in a mapping."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        """The key."""
        return self.steps[-1][1]


class MissingMapEntryPath(ObjectPath):
    """A path to where a mapping would have an entry."""

    __slots__ = ()


_CLASSES: Mapping[str, type[ObjectPath]] = {
    "attr": AttributeAccessPath,
    "unknown attr": UnknownAttributeAccessPath,
    "index": ArrayIndexPath,
    "missing index": MissingArrayElementPath,
    "key": MapValuePath,
    "missing key": MissingMapEntryPath,
}
_TEXT: Mapping[str, Callable[[Any], str]] = {
    "attr": lambda key: f".{key}",
    "unknown attr": lambda key: ".<unknown attribute>",
    "index": lambda key: f"[{key}]",
    "missing index": lambda key: f"[<missing element #{key}>]",
    "key": lambda key: f"[{json.dumps(key)}]" if isinstance(key, str) else f"[{key}]",
    "missing key": lambda key: "[<missing entry>]",
}


def follow(root: Any, path: ObjectPath) -> list[Any]:
    """The parts that a path goes through, the root first; it ends before a part that is missing."""
    parts = [root]
    for kind, key in path.steps:
        part = parts[-1]
        try:
            if kind == "attr":
                parts.append(getattr(part, key))
            elif kind in ("index", "key"):
                parts.append(part[key])
            else:
                break
        except (AttributeError, LookupError, TypeError):
            break
    return parts
