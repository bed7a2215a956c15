"""Paths from a node to a part of it, such as `<root>.body.seq[0].value`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["ObjectPath", "follow"]


class ObjectPath:
    """The way from a root to a part of it, one step after the other.

    Steps: `attr(name)`, `array_index(i)`, `map_value(key)`, and, for a part that one of two
    compared programs lacks, `missing_array_element(i)` and `missing_map_entry()`.
    """

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[tuple[str, Any], ...] = ()) -> None:
        self.steps = steps

    @staticmethod
    def root(name: str | None = None) -> ObjectPath:
        """The path to the root itself."""
        return ObjectPath(() if name is None else (("root", name),))

    def _then(self, kind: str, key: Any) -> ObjectPath:
        return ObjectPath((*self.steps, (kind, key)))

    def attr(self, attr_key: str) -> ObjectPath:
        """On to the field `attr_key`."""
        return self._then("attr", attr_key)

    def array_index(self, index: int) -> ObjectPath:
        """On to element `index` of a list."""
        return self._then("index", int(index))

    def missing_array_element(self, index: int) -> ObjectPath:
        """On to where a list would have element `index`."""
        return self._then("missing index", int(index))

    def map_value(self, key: Any) -> ObjectPath:
        """On to the value of `key` in a mapping."""
        return self._then("key", key)

    def missing_map_entry(self) -> ObjectPath:
        """On to where a mapping would have an entry."""
        return self._then("missing key", None)

    @property
    def parent(self) -> ObjectPath | None:
        """The path without its last step; None at the root."""
        return ObjectPath(self.steps[:-1]) if self.steps else None

    def __len__(self) -> int:
        return len(self.steps) + 1

    def get_prefix(self, length: int) -> ObjectPath:
        """The first `length` places of the path; the root counts as one."""
        return ObjectPath(self.steps[: length - 1])

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether `other` begins with this path."""
        return other.steps[: len(self.steps)] == self.steps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(tuple([(kind, str(key)) for kind, key in self.steps]))

    def __str__(self) -> str:
        return "<root>" + "".join([_TEXT[kind](key) for kind, key in self.steps])

    __repr__ = __str__


_TEXT: Mapping[str, Callable[[Any], str]] = {
    "root": lambda key: f"<{key}>",
    "attr": lambda key: f".{key}",
    "index": lambda key: f"[{key}]",
    "missing index": lambda key: f"[<missing element #{key}>]",
    "key": lambda key: f"[{key!r}]" if isinstance(key, str) else f"[{key}]",
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
