"""The arrays that operators take and give: conversion, checks, symbolic sizes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError, a_thing
from tvmagic.eval.size_equations import Dimension, solve_sizes
from tvmagic.ir import IntImm, PrimExpr, Var
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import variables_in
from tvmagic.runtime.ndarray import aligned_empty

_SMALL = 1 << 26  # bytes that are there in any case
_CHUNK = 1 << 20  # random values that are made at once
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def as_array(value: Any, name: str) -> np.ndarray:
    """`value` as a NumPy array, without a copy where it offers `__dlpack__` or `__array__`.

    Plain numbers and lists are not taken: their dtype would be a guess.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hint = f"fill them, as in `{name}.filled(0)`: an operator reads every element"
        raise TVMagicError(f"`{name}` has masked elements", hint=hint, code="array.masked")
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "__array__"):
            return np.asarray(value)
        if hasattr(value, "numpy") and not hasattr(value, "__dlpack__"):
            return np.asarray(value.numpy())
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except Exception as error:
        text = f"`{name}` is {a_thing(value)} that does not give its array: {type(error).__name__}: {error}"
        raise TVMagicError(text, hint="pass a NumPy array", code="array.not_convertible") from error
    raise TVMagicError(
        f"`{name}` is {a_thing(value)}, not an array",
        hint="pass a NumPy array, for example `numpy.asarray(value, dtype=...)`",
        code="array.not_an_array",
    )


def array_dtype(tensor: Any) -> np.dtype[Any]:
    """The dtype of the arrays of a tensor or a buffer; TVMagicError where NumPy has none."""
    try:
        return numpy_dtype(tensor.dtype)
    except TVMagicError as error:
        raise TVMagicError(
            f"{error.message}, the dtype of `{tensor.name}`", hint=error.hint, code="array.unsupported_dtype"
        ) from None


def check_inputs(name: str, tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays, after a check of rank, dtype, and shape against the tensors.

    Symbolic sizes take the value that their first use has; every other use must agree.
    """
    sizes: dict[int, tuple[int, str]] = {}
    for tensor, array in zip(tensors, arrays):
        if array.dtype != array_dtype(tensor):
            raise TVMagicError(
                f"`{tensor.name}` of `{name}` is of dtype `{tensor.dtype}`, the array is `{array.dtype}`",
                hint=f"convert it by `.astype('{tensor.dtype}')`",
                code="array.wrong_dtype",
            )
        if array.ndim != len(tensor.shape):
            raise TVMagicError(
                f"`{tensor.name}` of `{name}` has {len(tensor.shape)} dimensions, the array has {array.ndim}",
                hint=f"it is declared as `{tensor.name}: {tensor.dtype}[{', '.join(map(str, tensor.shape))}]`",
                code="array.wrong_rank",
            )
        for axis, (size, given) in enumerate(zip(tensor.shape, array.shape)):
            _check_size(name, tensor, axis, size, given, sizes)
    _check_expressions(name, tensors, arrays)
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
        raise TVMagicError(
            f"dimension {axis} of `{tensor.name}` of `{name}` is {expected}{why}, the array has {given}",
            code="array.wrong_size",
        )


def _check_expressions(name: str, tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> None:
    """Refuse arrays for which a dimension such as `2 * n` has no integer solution, or another one than elsewhere."""
    found = [d for t, a in zip(tensors, arrays) for d in zip(t.shape, a.shape) if not isinstance(d[0], (IntImm, Var))]
    if not found:
        return
    values: dict[Any, int] = {}
    failed = _solve(tensors, arrays, values)
    for tensor, array in zip(tensors, arrays) if failed is not None else ():
        for axis, size in enumerate(tensor.shape):
            if failed is not None and size is failed.size and array.shape[axis] == failed.extent:
                what = (
                    f"`{tensor.name}` of `{name}`"
                    if array.ndim == 1
                    else f"dimension {axis} of `{tensor.name}` of `{name}`"
                )
                given = " and ".join(
                    f"`{v.name}` = {values[v]}" for v in dict.fromkeys(variables_in(size)) if v in values
                )
                elements = f"{failed.extent} element{'' if failed.extent == 1 else 's'}"
                raise TVMagicError(
                    f"{what} has {elements}, which is not `{_as_written(size)}`" + (f" for {given}" if given else ""),
                    hint=f"it is declared as `{tensor.name}: {tensor.dtype}[{', '.join(map(_as_written, tensor.shape))}]`",
                    code="array.size_mismatch",
                )


def _as_written(size: Any) -> str:
    """The text of a size, with numbers before symbols, as people write it: `2 * n`."""
    return re.sub(r"\b([A-Za-z_]\w*) \* (\d+)\b", r"\2 * \1", str(size))


def _solve(tensors: Sequence[Any], arrays: Sequence[np.ndarray], values: dict[Any, int]) -> Dimension | None:
    """Add the sizes that the arrays' shapes determine to `values`. Return a dimension that contradicts them, or None."""
    return solve_sizes(
        [Dimension(s, int(n)) for t, a in zip(tensors, arrays) for s, n in zip(t.shape, a.shape)], values
    )


def size_values(tensors: Sequence[Any], arrays: Sequence[np.ndarray]) -> dict[Any, int]:
    """The values of the symbolic sizes, from the shapes of the arrays."""
    values: dict[Any, int] = {}
    _solve(tensors, arrays, values)
    return values


def symbols_of(tensors: Sequence[Any]) -> list[Var]:
    """The symbolic sizes, in the order in which the tensors have them."""
    return list(dict.fromkeys(v for t in tensors for s in t.shape if isinstance(s, PrimExpr) for v in variables_in(s)))


def chosen_sizes(tensors: Sequence[Any], sizes: Mapping[str, int] | int) -> dict[Any, int]:
    """The values of the symbolic sizes of inputs: `sizes` by name (16 for others), or one number for all."""
    return {size: sizes if isinstance(sizes, int) else sizes.get(size.name, 16) for size in symbols_of(tensors)}


def evaluate_size(size: Any, values: Mapping[Any, int]) -> int:
    """A dimension as a number."""
    if isinstance(size, IntImm):
        return size.value
    if isinstance(size, Var) and size in values:
        return values[size]
    from tvmagic.arith.analyzer import Analyzer
    from tvmagic.ir import substitute

    result = Analyzer().simplify(substitute(size, values))
    if not isinstance(result, IntImm):
        raise TVMagicError(
            f"the size `{size}` does not follow from the shapes of the inputs", code="array.size_not_determined"
        )
    return result.value


def empty_outputs(tensors: Sequence[Any], values: Mapping[Any, int]) -> list[np.ndarray]:
    """Fresh arrays without content for tensors such as the outputs, aligned to 64 bytes."""
    return [laid_out(t, shape, values, array_dtype(t)) for t, shape in zip(tensors, shapes_of(tensors, values))]


def laid_out(tensor: Any, shape: tuple[int, ...], values: Mapping[Any, int], dtype: np.dtype[Any]) -> np.ndarray:
    """An array without content for a tensor, with the strides that a buffer asks for."""
    try:
        strides = [evaluate_size(s, values) for s in getattr(tensor, "strides", ())]
    except TVMagicError:  # any stride is right: it is a variable that nothing else says
        strides = []
    return _allocate(shape, dtype, strides)


def shapes_of(tensors: Sequence[Any], values: Mapping[Any, int]) -> list[tuple[int, ...]]:
    """The shapes of the tensors for these sizes. TVMagicError if a size is below 0: the inputs are too small."""
    shapes = [tuple([evaluate_size(s, values) for s in t.shape]) for t in tensors]
    for tensor, shape in zip(tensors, shapes):
        if shape and min(shape) < 0:
            axis = shape.index(min(shape))
            given = " and ".join(f"`{size.name}` = {value}" for size, value in values.items())
            raise TVMagicError(
                f"dimension {axis} of `{tensor.name}`, `{tensor.shape[axis]}`, would be {shape[axis]} for {given}",
                hint="pass larger arrays",
                code="array.wrong_shape",
            )
    return shapes


def share_memory(values: Sequence[np.ndarray], outputs: Sequence[Any]) -> bool:
    """Whether some array of `outputs` may be on the memory of one of `values`."""
    arrays = [o for o in outputs if isinstance(o, np.ndarray)]
    return any(np.may_share_memory(a, b) for a in arrays for b in values)


def _allocate(shape: tuple[int, ...], dtype: np.dtype[Any], strides: Sequence[int] = ()) -> np.ndarray:
    """An array without content, aligned; TVMagicError if it is larger than the memory that is free."""
    size = math.prod(shape) * dtype.itemsize
    if size >= _SMALL:
        require_memory(size, f"an array of shape ({', '.join(map(str, shape))}) and dtype `{dtype}`")
    return aligned_empty(shape, dtype, strides)


def require_memory(size: int, what: str) -> None:
    """Raise `TVMagicError` where `what`, of `size` bytes, is more than the memory that is free.

    Linux gives more than there is, and ends the process when it is used.
    """
    if size < _SMALL:
        return
    free = _free_memory()
    if size > (sys.maxsize // 4 if free is None else free):
        have = f", {_bytes(free)} are free" if free is not None else ""
        raise TVMagicError(
            f"{_bytes(size)} of memory are needed for {what}{have}",
            hint="take smaller sizes",
            code="array.out_of_memory",
        )


def _free_memory() -> int | None:
    """Bytes that can be used without ending the process; None if the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        free = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable:")]
    except (OSError, ValueError):
        return None
    group = Path("/sys/fs/cgroup")
    for most, used in (
        (group / "memory.max", group / "memory.current"),
        (group / "memory/memory.limit_in_bytes", group / "memory/memory.usage_in_bytes"),
    ):
        try:
            free.append(int(most.read_text()) - int(used.read_text()))
        except (OSError, ValueError):
            continue
    return max(min(free), 0) if free else None


def _bytes(count: int) -> str:
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / (1 << 10 * power):.3g} {_UNITS[power]}"


def random_inputs(
    tensors: Sequence[Any],
    seed: int,
    sizes: Mapping[str, int] | int,
    limit: Callable[[Any, Mapping[Any, int]], int | None] = lambda tensor, sizes: None,
    coarse: bool = False,
    full_range: Sequence[Any] = (),
) -> list[np.ndarray]:
    """Random arrays for tensors: floats from -1 to 1, integers from a small range, bools.

    `sizes` gives symbolic sizes by name, or one number for all. `limit` says of a tensor, for the values of these, what
    its whole numbers are below, if they are indices.
    `coarse`: the floats are quarters (halves, in 16 bits), so that their products and long sums are exact.
    `full_range`: the tensors of integers that get values from the whole range of their dtype, its minimum and maximum among
    them.
    """
    generator = np.random.default_rng(seed)
    values = chosen_sizes(tensors, sizes)
    shapes = shapes_of(tensors, values)
    total = sum(math.prod(shape) * array_dtype(t).itemsize for t, shape in zip(tensors, shapes))
    require_memory(total, "the inputs")
    arrays: list[np.ndarray] = []
    for tensor, shape in zip(tensors, shapes):
        whole = any(tensor is other for other in full_range)
        arrays.append(random_array(tensor, shape, generator, limit(tensor, values), coarse, values, whole))
    return arrays


def random_array(
    tensor: Any,
    shape: tuple[int, ...],
    generator: np.random.Generator,
    limit: int | None,
    coarse: bool,
    values: Mapping[Any, int],
    full_range: bool = False,
) -> np.ndarray:
    """A random array for one tensor; see `random_inputs`."""
    dtype = array_dtype(tensor)
    result = _allocate(shape, dtype)
    flat = result.reshape(-1)
    least, end = -8 if dtype.kind == "i" else 0, 8
    if limit is not None and dtype.kind in "iu":
        least, end = 0, min(limit, int(np.iinfo(dtype).max))
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        if dtype.kind == "b":
            part[...] = generator.random(part.size) < 0.5
        elif dtype.kind in "iu" and full_range:
            part[...] = generator.integers(*_bounds(dtype), part.size, dtype, endpoint=True)
        elif dtype.kind in "iu":
            part[...] = generator.integers(least, end, part.size)
        elif coarse:
            steps = 2 if dtype.itemsize == 2 else 4
            part[...] = (generator.integers(-steps, steps + 1, part.size) / steps).astype(dtype)
        else:
            part[...] = generator.uniform(-1, 1, part.size).astype(dtype)
    if full_range and flat.size > 1:
        flat[generator.choice(flat.size, 2, replace=False)] = _bounds(dtype)
    if getattr(tensor, "strides", ()):
        placed = laid_out(tensor, shape, values, dtype)
        placed[...] = result
        return placed
    return result


def _bounds(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The minimum and the maximum of an integer dtype."""
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
