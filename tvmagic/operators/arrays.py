"""The arrays that operators take and give: conversion, checks, symbolic sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, Var
from tvmagic.te.numpy_ops import numpy_dtype

__all__ = ["as_array", "check_inputs", "empty_outputs", "evaluate_size", "random_inputs", "size_values"]


def as_array(value: Any, name: str) -> np.ndarray:
    """`value` as a NumPy array, without a copy where it offers `__dlpack__` or `__array__`.

    Plain numbers and lists are not taken: their dtype would be a guess.
    """
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "numpy") and not hasattr(value, "__dlpack__"):
        return np.asarray(value.numpy())
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    raise TVMagicError(
        f"`{name}` is a {type(value).__name__}, not an array",
        hint="pass a NumPy array, for example `numpy.asarray(value, dtype=...)`",
    )


def check_inputs(name: str, tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, after a check of rank, dtype, and shape against the tensors.

    Symbolic sizes take the value that their first use has; every other use must agree.
    """
    sizes: dict[int, tuple[int, str]] = {}
    for tensor, array in zip(tensors, arrays):
        if array.dtype != numpy_dtype(tensor.dtype):
            raise TVMagicError(
                f"`{tensor.name}` of `{name}` is of dtype `{tensor.dtype}`, the array is `{array.dtype}`",
                hint=f"convert it by `.astype('{tensor.dtype}')`",
            )
        if array.ndim != len(tensor.shape):
            raise TVMagicError(
                f"`{tensor.name}` of `{name}` has {len(tensor.shape)} dimensions, the array has {array.ndim}"
            )
        for axis, (size, given) in enumerate(zip(tensor.shape, array.shape)):
            _check_size(name, tensor, axis, size, given, sizes)
    return list(arrays)


def _check_size(name: str, tensor: Any, axis: int, size: Any, given: int, sizes: dict[int, tuple[int, str]]) -> None:
    if isinstance(size, IntImm):
        expected, why = size.value, ""
    elif isinstance(size, Var):
        place = f"dimension {axis} of `{tensor.name}`"
        expected, first = sizes.setdefault(id(size), (given, place))
        why = f" (`{size.name}` is {expected} by {first})"
    else:
        return
    if given != expected:
        raise TVMagicError(f"dimension {axis} of `{tensor.name}` of `{name}` is {expected}{why}, the array has {given}")


def size_values(tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> dict[Any, int]:
    """The values of the symbolic sizes, from the shapes of the arrays."""
    values: dict[Any, int] = {}
    for tensor, array in zip(tensors, arrays):
        for size, given in zip(tensor.shape, array.shape):
            if isinstance(size, Var):
                values[size] = int(given)
    return values


def evaluate_size(size: Any, values: Mapping[Any, int]) -> int:
    """A dimension as a number."""
    if isinstance(size, IntImm):
        return size.value
    from tvmagic.arith import Analyzer
    from tvmagic.ir import substitute

    result = Analyzer().simplify(substitute(size, values))
    if not isinstance(result, IntImm):
        raise TVMagicError(f"the size `{size}` does not follow from the shapes of the inputs")
    return result.value


def empty_outputs(tensors: Sequence[Any], values: Mapping[Any, int]) -> list[np.ndarray]:
    """Fresh arrays for the outputs, aligned to 64 bytes."""
    return [aligned_empty([evaluate_size(s, values) for s in t.shape], numpy_dtype(t.dtype)) for t in tensors]


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any], alignment: int = 64) -> np.ndarray:
    """An array without content that begins at a multiple of `alignment` bytes."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(size + alignment, dtype=np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size].view(dtype).reshape(tuple(shape))


def random_inputs(
    tensors: Sequence[Any], seed: int, sizes: Mapping[str, int] | int, limits: Sequence[int | None] | None = None
) -> list[np.ndarray]:
    """Random arrays for tensors: floats from -1 to 1, whole numbers from a small range, bools.

    `sizes` gives symbolic sizes by name, or one number for all; whole numbers with a limit are from 0 to below it.
    """
    generator = np.random.default_rng(seed)
    values: dict[Any, int] = {}
    for tensor in tensors:
        for size in tensor.shape:
            if isinstance(size, Var):
                values[size] = sizes if isinstance(sizes, int) else sizes.get(size.name, 16)
    shapes = [[evaluate_size(s, values) for s in t.shape] for t in tensors]
    return [_random_array(t, s, generator, n) for t, s, n in zip(tensors, shapes, limits or [None] * len(shapes))]


def _random_array(tensor: Any, shape: Sequence[int], generator: np.random.Generator, limit: int | None) -> np.ndarray:
    dtype = numpy_dtype(tensor.dtype)
    result = aligned_empty(shape, dtype)
    if dtype.kind == "b":
        result[...] = generator.random(shape) < 0.5
    elif dtype.kind in "iu":
        least, end = (0, min(limit, np.iinfo(dtype).max)) if limit else (-8 if dtype.kind == "i" else 0, 8)
        result[...] = generator.integers(least, end, shape)
    else:
        result[...] = generator.uniform(-1, 1, shape).astype(dtype)
    return result
