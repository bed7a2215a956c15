"""Arrays as people have them: views with any strides, read-only, from other packages; and what is no array for a tensor at all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from guarded_arrays import Guarded

STEPS = (1, 1, 2, 3, -1, -2)


def odd_view(rng: random.Random, values: Any, changes: bool = False) -> Guarded:
    """An array with `values`, its dimensions in any order in memory, with gaps, some of them backwards."""
    order = list(range(values.ndim))
    rng.shuffle(order)
    steps = tuple(rng.choice(STEPS) for _ in order)
    return Guarded(values, filled=not changes, changes=changes, order=tuple(order), steps=steps)


def repeated(rng: random.Random, values: Any) -> Any:
    """An array whose elements are the same along some dimensions, with a stride of 0 there."""
    few = values[tuple(slice(0, 1) if rng.random() < 0.5 else slice(None) for _ in values.shape)]
    return np.broadcast_to(few, values.shape) if values.size else values


def overlapping(rng: random.Random, values: Any, result: Any) -> tuple[Any, Any]:
    """An array with `values`, and one for a result that may share memory with it."""
    sizes = values.size, result.size
    starts = rng.randint(0, sizes[1]), rng.randint(0, sizes[0])
    memory = np.zeros(sum(sizes) * 2, values.dtype)
    given, place = (memory[at : at + size] for at, size in zip(starts, sizes))
    given[...] = values.reshape(-1)
    return given.reshape(values.shape), place.reshape(result.shape)


class Other:
    """An array of another package."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Kind(np.ndarray):
    """A class of arrays of the user's own."""


def disguised(rng: random.Random, array: Any) -> Any:
    """The same array as another object that gives it."""
    choice = rng.randrange(4)
    if choice == 0:
        return Other(array)
    if choice == 1:
        return array.view(Kind)
    if choice == 2:
        array.flags.writeable = False
    return array[()] if choice == 3 and not array.ndim else array


def wrong(rng: random.Random, array: Any, fixed: list[int]) -> Iterator[tuple[str, Any]]:
    """What must be refused in place of an array, of which the dimensions `fixed` have a constant size."""
    dtype = array.dtype
    other = np.dtype(rng.choice([d for d in ("int8", "uint8", "int64", "float64", "complex64", "O") if d != dtype]))
    yield "another dtype", np.zeros(array.shape, other)
    if dtype.itemsize > 1 and dtype.byteorder != "|" and dtype.kind in "iuf" and dtype.isbuiltin == 1:
        yield "bytes in another order", array.astype(dtype.newbyteorder())
    if dtype.itemsize > 1 and array.size:
        yield "not aligned", np.frombuffer(bytes(array.nbytes + 1), np.uint8)[1:].view(dtype).reshape(array.shape)
    yield "a dimension more", np.zeros((*array.shape, 1), dtype)
    if array.ndim:
        yield "a dimension less", np.zeros(array.shape[1:], dtype)
        yield "a number", 1
    for axis in fixed:
        size = array.shape[axis] + rng.choice((-1, 1, 5))
        yield "another size", np.zeros((*array.shape[:axis], max(size, 0), *array.shape[axis + 1 :]), dtype)
    yield "no array", rng.choice((None, "text", array.tolist(), {}, object()))
