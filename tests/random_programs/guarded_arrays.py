"""Arrays inside larger ones, whose other elements must neither change nor matter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from guard_pages import between_guard_pages

ZONE = 512  # bytes on each side
EDGES = (None, "first", "last")
PATTERN = np.random.default_rng(1).integers(1, 256, 1 << 16, dtype="uint8")


class Guarded:
    """An array with a copy of `values`, in the middle of memory filled with a pattern.

    `strided`: the last dimension takes every second element. `filled` false leaves the pattern in the array, for
    what is to be written. `changes`: whether the array itself may be written. `steps`: from one element to the next, for
    each dimension (backwards if negative); `order`: the dimensions as they lie in memory, the innermost last. `edge`: the end of
    the array, `"first"` or `"last"`, beyond which memory cannot even be read: whoever does dies.
    """

    def __init__(
        self,
        values: np.ndarray[Any, Any],
        strided: bool = False,
        filled: bool = True,
        changes: bool = False,
        order: tuple[int, ...] | None = None,
        steps: tuple[int, ...] | None = None,
        edge: str | None = None,
    ) -> None:
        order = tuple(range(values.ndim)) if order is None else order
        if steps is None:
            steps = (1,) * (values.ndim - 1) + (2 if strided else 1,) if values.ndim else ()
        shape = tuple(values.shape[axis] * abs(steps[axis]) for axis in order)
        size = math.prod(shape) * values.dtype.itemsize
        if edge is None:
            self.memory = np.resize(PATTERN, size + 2 * ZONE + 64)
            start = ZONE + (-(self.memory.ctypes.data + ZONE)) % 64
        else:
            self.memory = between_guard_pages(size + ZONE)
            self.memory[:] = np.resize(PATTERN, self.memory.size)
            start = 0 if edge == "first" else self.memory.size - size
        inner = self.memory[start : start + size].view(values.dtype).reshape(shape)
        self.array = inner[(..., *[slice(None, None, steps[axis]) for axis in order])].transpose(np.argsort(order))
        if filled:
            self.array[...] = values
        elif values.dtype == bool:
            self.array[...] = False  # other bytes are no bool
        self.values = values
        self.changes = changes
        self._before = self.memory.copy()

    def outside_written(self) -> int:
        """How many bytes outside the array (of the whole memory if it may not change) have changed."""
        changed = self.memory != self._before
        if self.changes:
            inside = np.zeros_like(self.memory)
            kind = np.dtype(f"V{self.array.dtype.itemsize}")
            view = np.ndarray(self.array.shape, kind, inside, self._offset(), self.array.strides)
            view[...] = np.array(b"\1" * self.array.dtype.itemsize, view.dtype)
            changed &= inside == 0
        return int(changed.sum())

    def _offset(self) -> int:
        return self.array.ctypes.data - self.memory.ctypes.data


def difference(found: Any, wanted: Any, relative: float, absolute: float) -> str | None:
    """Where `found` is not `wanted`; None if it is everywhere. With tolerances 0 every element is equal."""
    a, b = found.astype("float64"), wanted.astype("float64")
    if found.dtype.kind in "iu":
        same = found == wanted
    elif relative or absolute:
        with np.errstate(invalid="ignore"):
            close = np.abs(a - b) <= absolute + relative * np.abs(b)
        close &= np.isfinite(a) & np.isfinite(b)
        same = close | (a == b) | (np.isnan(a) & np.isnan(b))
    else:
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    if np.all(same):
        return None
    place = tuple(int(p[0]) for p in np.nonzero(np.atleast_1d(~same)))
    where = place if found.ndim else ()
    return f"{int(np.sum(~same))} of {same.size} elements, first {list(where)}: {found[where]}, not {wanted[where]}"
