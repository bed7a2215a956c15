"""Memory and lanes of the interpreter: many iterations of a loop at once, each a lane of NumPy arrays.

Iterations run as lanes only while no lane touches what another wrote, or writes what another
read. Each access checks that; if it fails the memory goes back to what it was before the loop,
and the loop runs one iteration after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvmagic.errors import BoundsError

Array = Any


class Conflict(Exception):
    """Two lanes touch one element and one of them writes: the loop does not run as lanes."""


class OutOfRange(BoundsError):
    """An access outside the memory of a buffer, found while a program was interpreted."""


@dataclass
class Storage:
    """Memory: `data` has the shape (lanes of its level, elements).

    `level` is the number of lane contexts around its allocation; `mins` and `extents` are the
    region that it holds, by dimension (one for flat memory).
    """

    name: str
    data: np.ndarray
    level: int
    mins: list[Array]
    extents: list[int]


@dataclass
class _Shadow:
    """Per element: the lane that wrote it and the lane that read it; -1 none, -2 several readers."""

    writer: np.ndarray
    reader: np.ndarray


@dataclass
class Context:
    """A loop nest that runs as `count` lanes.

    `owner[d]` gives for each lane the lane of context d around it (the last is the lane itself).
    """

    count: int
    owner: list[np.ndarray]
    shadows: dict[int, _Shadow] = field(default_factory=dict)
    saved: dict[int, tuple[Storage, np.ndarray]] = field(default_factory=dict)

    def _shadow(self, storage: Storage) -> _Shadow:
        found = self.shadows.get(id(storage.data))
        if found is None:
            shape = storage.data.shape
            found = _Shadow(np.full(shape, -1, np.int32), np.full(shape, -1, np.int32))
            self.shadows[id(storage.data)] = found
        return found

    def read(self, storage: Storage, place: tuple[Array, Array], lane: Array) -> None:
        """Note that lanes read elements; a Conflict where another lane wrote one of them."""
        shadow = self._shadow(storage)
        writer = shadow.writer[place]
        if np.any((writer != -1) & (writer != lane)):
            raise Conflict
        before = shadow.reader[place]
        shadow.reader[place] = np.where((before == -1) | (before == lane), lane, -2)
        after = shadow.reader[place]
        if np.any(after != lane):
            shadow.reader[place] = -2

    def write(self, storage: Storage, place: tuple[Array, Array], lane: Array) -> None:
        """Note that lanes write elements; a Conflict where another lane touched one of them."""
        shadow = self._shadow(storage)
        for array in (shadow.writer, shadow.reader):
            before = array[place]
            if np.any((before != -1) & (before != lane)):
                raise Conflict
        shadow.writer[place] = lane
        if np.any(shadow.writer[place] != lane):
            raise Conflict

    def save(self, storage: Storage) -> None:
        """Keep what a storage held when the lanes began, for `restore`."""
        if id(storage.data) not in self.saved:
            self.saved[id(storage.data)] = (storage, storage.data.copy())

    def restore(self) -> None:
        """Put back what every storage held when the lanes began."""
        for storage, data in self.saved.values():
            storage.data[...] = data
