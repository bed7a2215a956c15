"""The inputs of checks, timings and searches: those that the user gives, and random ones that satisfy the cell's assertions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import BoundsError, PreconditionError, TVMagicError, a_thing, did_you_mean
from tvmagic.operators.arrays import (
    array_dtype,
    as_array,
    check_inputs,
    chosen_sizes,
    random_array,
    random_inputs,
    require_memory,
    shapes_of,
    size_values,
)
from tvmagic.operators.asserted_values import AssertedArray, Window

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

_DRAWS = 20  # after which no random input is expected to satisfy the assertions


@dataclass(frozen=True)
class Inputs:
    """Inputs that the user gives, and the name of the argument that they are given by, for errors."""

    value: Any
    origin: str


def make_inputs(
    op: Operator, seed: int = 0, sizes: Mapping[str, int] | int = 16, inputs: Any = None, coarse: bool = False
) -> list[np.ndarray]:
    """The inputs of one trial of an operator: `inputs`, or its `example_inputs`, else random ones.

    Parameters
    ----------
    sizes: values of symbolic sizes that do not follow from given arrays.
    inputs: a dict of arrays by name (what is missing is random), a tuple of them in the order of the inputs, or a function of
        a `np.random.Generator` that returns either; it is called anew for each trial.
    coarse: floats that are not given have few bits.

    Raises a TVMagicError that names the argument if inputs raise, contradict the shapes or violate an assertion.
    """
    given = _given(op, inputs)
    if given is None:
        return random_inputs_of(op, seed, sizes, coarse)
    named = _named(op, given, np.random.default_rng([seed, int(coarse)]))
    try:
        arrays = {t: as_array(named[t.name], t.name) for t in op.inputs if t.name in named}
        values = check_inputs(op.name, list(arrays), list(arrays.values()))
        if len(values) < len(op.inputs):
            return random_inputs_of(op, seed, sizes, coarse, given=arrays)
        op.test_preconditions(values)
    except TVMagicError as error:
        raise _at_argument(error, given.origin) from error
    return values


def _given(op: Operator, inputs: Any) -> Inputs | None:
    """Return the inputs that the user gives, or None."""
    if inputs is None and op.example_inputs is not None:
        return Inputs(op.example_inputs, f"{op.name}.example_inputs")
    return inputs if inputs is None or isinstance(inputs, Inputs) else Inputs(inputs, "inputs")


def is_fixed(op: Operator, inputs: Any) -> bool:
    """Whether each trial has the same inputs: arrays for all of them are given, and no function."""
    given = _given(op, inputs)
    if given is None or callable(given.value):
        return False
    return not isinstance(given.value, Mapping) or all(t.name in given.value for t in op.inputs)


def _at_argument(error: TVMagicError, origin: str) -> TVMagicError:
    kind = PreconditionError if isinstance(error, PreconditionError) else TVMagicError
    return kind(f"cannot use `{origin}`: {error.message}", span=error.span, hint=error.hint, code=error.code)


def _named(op: Operator, given: Inputs, generator: np.random.Generator) -> dict[str, Any]:
    """The values that are given, by the names of inputs."""
    value, names = given.value, [t.name for t in op.inputs]
    if callable(value) and not hasattr(value, "__array__"):
        try:
            value = value(generator)
        except Exception as error:
            text = error.message if isinstance(error, TVMagicError) else f"{type(error).__name__}: {error}"
            raise TVMagicError(
                f"cannot use `{given.origin}`: it raised {text}",
                hint="it is called with a `numpy.random.Generator`, once for each trial",
                code="inputs.function_raised",
            ) from error
    if isinstance(value, Mapping):
        strange = next((n for n in value if n not in names), None)
        if strange is not None:
            hint = did_you_mean(str(strange), names) or "its inputs are " + ", ".join(f"`{n}`" for n in names)
            raise TVMagicError(
                f"cannot use `{given.origin}`: `{op.name}` has no input `{strange}`",
                hint=hint,
                code="inputs.unknown_input",
            )
        return dict(value)
    if not isinstance(value, (tuple, list)):
        if len(names) != 1 or not hasattr(value, "__array__"):
            raise TVMagicError(
                f"cannot use `{given.origin}`: it gives {a_thing(value)}",
                hint="give a dict of arrays by name, a tuple of them, or a function of a `numpy.random.Generator` that returns one",
                code="inputs.wrong_type",
            )
        value = (value,)
    if len(value) != len(names):
        raise TVMagicError(
            f"cannot use `{given.origin}`: it has {len(value)} arrays, and `{op.name}` takes {len(names)}",
            hint="its inputs are " + ", ".join(f"`{n}`" for n in names),
            code="inputs.wrong_count",
        )
    return dict(zip(names, value))


# ---------------------------------------------------------------------------- random inputs


def random_inputs_of(
    op: Operator,
    seed: int,
    sizes: Mapping[str, int] | int,
    coarse: bool = False,
    full_range: Sequence[Any] = (),
    given: Mapping[Any, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """Random inputs that satisfy the assertions of an operator, beside those that are `given` by tensor.

    Raises a TVMagicError if none is found.
    """
    if not op.assertions and not given:
        return random_inputs(op.inputs, seed, sizes, op.accesses.limit, coarse, full_range)
    given = given or {}
    values = {**chosen_sizes(op.inputs, sizes), **size_values(list(given), list(given.values()))}
    shapes = dict(zip(op.inputs, shapes_of(op.inputs, values)))
    require_memory(sum(math.prod(s) * array_dtype(t).itemsize for t, s in shapes.items()), "the inputs")
    generator = np.random.default_rng(seed)
    failed: TVMagicError | None = None
    for _ in range(_DRAWS):
        arrays = {t: np.asarray(a) for t, a in given.items()}
        try:
            for tensor in op.inputs:
                if tensor not in arrays:
                    whole = any(tensor is other for other in full_range)
                    arrays[tensor] = _drawn(op, tensor, shapes[tensor], generator, arrays, values, coarse, whole)
            ordered = check_inputs(op.name, op.inputs, [arrays[t] for t in op.inputs])
            op.test_assertions(ordered)
            return ordered
        except BoundsError as error:
            failed = error
            if isinstance(error, PreconditionError) and all(t in given for t in error.tensors):
                raise  # no draw changes that
    assert failed is not None
    line = f"line {failed.span.line}" if failed.span is not None else "the assertions"
    raise TVMagicError(
        f"no random input satisfies {line}: set `{op.name}.example_inputs`", span=failed.span,
        hint=f"in the last of {_DRAWS} draws {failed.message}", code="inputs.assertions_not_satisfied",
    )  # fmt: skip


def _drawn(
    op: Operator, tensor: Any, shape: tuple[int, ...], generator: np.random.Generator, arrays: Mapping[Any, np.ndarray],
    sizes: Mapping[Any, int], coarse: bool, whole: bool,
) -> np.ndarray:  # fmt: skip
    """A random array for one input."""
    dtype, limit = array_dtype(tensor), op.accesses.limit(tensor, sizes)
    asserted = AssertedArray(tensor, shape, dtype, _window(dtype, limit, coarse, whole), arrays, sizes)
    array = random_array(tensor, shape, generator, limit, coarse, sizes, whole)
    if asserted.take(op.assertions):
        array[...] = asserted.draw(generator).reshape(shape)
    return array


def _window(dtype: np.dtype[Any], limit: int | None, coarse: bool, whole: bool) -> Window:
    """The values of an array of which nothing is asserted."""
    if dtype.kind not in "iub":
        return Window(-1.0, 1.0, (2 if dtype.itemsize == 2 else 4) if coarse else 0)
    if dtype.kind == "b":
        return Window(0, 1)
    if limit is not None:
        return Window(0, max(min(limit, int(np.iinfo(dtype).max)) - 1, 0))
    if whole:
        info = np.iinfo(dtype)
        return Window(int(info.min), min(int(info.max), int(np.iinfo(np.int64).max) - 1))
    return Window(-8 if dtype.kind == "i" else 0, 7)
