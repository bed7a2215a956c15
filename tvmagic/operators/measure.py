"""Checks of a version against its reference, and times beside NumPy's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic.operators.operator import Operator, Version

__all__ = ["Benchmark", "CheckResult", "Timing", "bench", "check", "measure", "numpy_call"]


@dataclass(frozen=True)
class CheckResult:
    """How far a version's output is from its reference on random inputs.

    `absolute` and `relative` are the largest errors, `place` the index of the largest absolute one
    (with the output's name), `got` and `expected` the two values there. `ok` is whether every value
    is within the tolerance of its dtype.
    """

    ok: bool
    absolute: float
    relative: float
    place: str
    got: float
    expected: float
    elements: int

    def __str__(self) -> str:
        word = "equal to NumPy" if self.ok else "NOT equal to NumPy"
        if self.absolute == 0:
            return f"{word}: {self.elements} values, all the same"
        return (
            f"{word}: {self.elements} values, largest absolute error {self.absolute:.3g}, relative {self.relative:.3g}, "
            f"at {self.place} (got {self.got:.8g}, expected {self.expected:.8g})"
        )


def tolerance(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The relative and the absolute error that rounding may cause in a result of `dtype`."""
    if dtype.kind != "f" and dtype.name != "bfloat16":
        return 0.0, 0.0
    return {2: (2e-2, 2e-2), 4: (2e-4, 2e-5), 8: (1e-10, 1e-12)}[dtype.itemsize]


def compare(got: Sequence[np.ndarray], expected: Sequence[np.ndarray], names: Sequence[str]) -> CheckResult:
    """How far arrays are from those expected."""
    worst = CheckResult(True, 0.0, 0.0, "", 0.0, 0.0, 0)
    elements, ok, relative = 0, True, 0.0
    for array, wanted, name in zip(got, expected, names):
        a, b = np.asarray(array, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
        elements += a.size
        if not a.size:
            continue
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        error = np.where(same, 0.0, np.abs(a - b))
        error = np.where(np.isnan(error), np.inf, error)
        rel_limit, abs_limit = tolerance(np.asarray(array).dtype)
        ok = ok and bool(np.all(error <= abs_limit + rel_limit * np.abs(b)))
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = max(relative, float(np.nanmax(np.where(error == 0, 0.0, error / np.abs(b)))))
        at = np.unravel_index(int(np.argmax(error)), error.shape)
        if error[at] >= worst.absolute:
            place = f"{name}[{', '.join(str(int(i)) for i in at)}]"
            worst = CheckResult(ok, float(error[at]), relative, place, float(a[at]), float(b[at]), elements)
    return CheckResult(ok, worst.absolute, relative, worst.place, worst.got, worst.expected, elements)


def check(version: Version, seed: int = 0, sizes: Mapping[str, int] | int = 16) -> CheckResult:
    """Run a version on random inputs and compare it with the operator's reference."""
    op = version.operator
    inputs = op.random_inputs(seed, sizes)
    got, expected = version(*inputs), op.reference(*inputs)
    as_list = lambda value: list(value) if isinstance(value, tuple) else [value]  # noqa: E731
    return compare(as_list(got), as_list(expected), [t.name for t in op.outputs])


# ---------------------------------------------------------------------------- times


@dataclass(frozen=True)
class Timing:
    """Seconds a call: the median, the least, and how many calls were measured."""

    median: float
    best: float
    calls: int


def measure(call: Callable[[], Any], seconds: float = 0.2, repeats: int = 7) -> Timing:
    """Time `call`: `repeats` runs of as many calls as fit, after one call that is not counted."""
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    number = max(1, int(seconds / repeats / once))
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - start) / number)
        if sum(times) * number > 4 * seconds:
            break
    return Timing(statistics.median(times), min(times), number * len(times))


@dataclass
class Benchmark:
    """Times of versions of an operator beside its reference by NumPy."""

    operator: Operator
    rows: list[tuple[str, Timing]]

    @property
    def reference(self) -> Timing:
        return dict(self.rows)["NumPy"]

    def ratio(self, name: str) -> float:
        """How many times faster than NumPy a version is."""
        return self.reference.median / dict(self.rows)[name].median


def numpy_call(op: Operator, inputs: Sequence[np.ndarray]) -> Callable[[], Any]:
    """The reference as one call, prepared where that can be done beforehand."""
    return lambda: op.reference(*inputs)


def bench(
    op: Operator,
    versions: Sequence[Version] | None = None,
    seconds: float = 0.2,
    sizes: Mapping[str, int] | int = 256,
    seed: int = 0,
) -> Benchmark:
    """Time versions (all of them unless told) and NumPy on the same random inputs, in one process."""
    chosen = list(versions) if versions is not None else [*op.versions.values()] or [op.current]
    inputs = op.random_inputs(seed, sizes)
    rows: list[tuple[str, Timing]] = []
    for version in chosen:
        output = version(*inputs)
        rows.append((version.name, measure(lambda v=version, o=output: v(*inputs, out=o), seconds)))
    rows.append(("NumPy", measure(numpy_call(op, inputs), seconds)))
    return Benchmark(op, rows)
