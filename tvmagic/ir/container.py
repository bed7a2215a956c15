"""What holds several values, at the place where TVM has it: sequences are tuples and maps are dicts."""

from __future__ import annotations

from typing import Any

Array = tuple
Map = dict

__all__ = ["Array", "JoinedTuple", "Map"]


class JoinedTuple(tuple[Any, ...]):
    """A tuple that is joined with lists, too: in TVM a part of an array is a list, as in `op.axis[:-1] + [inner]`."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return self._concatenate(self, other) if isinstance(other, (list, tuple)) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return self._concatenate(other, self) if isinstance(other, (list, tuple)) else NotImplemented

    @staticmethod
    def _concatenate(first: Any, second: Any) -> JoinedTuple:
        return JoinedTuple([*first, *second])

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return JoinedTuple(found) if isinstance(key, slice) else found
