"""Whether arrays are what an operator computes, as far as rounding leaves that open.

What is expected are values in float64 (integers exactly) with a bound for each element, which follows from the
operator's expression and the inputs: see `te/error_bound.py` for the method and its sources. An element is right if it is
not farther from its value than the bound, whatever schedule computed it: the bound holds for every order of a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.operators.arrays import check_inputs
from tvmagic.te.error_bound import Approximate, Value, parts
from tvmagic.te.error_reference import Evaluation, evaluate_with_errors

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator
    from tvmagic.tir.analysis.races import Race

__all__ = ["CheckResult", "as_list", "compare", "expected_values", "worse"]

_PART = 1 << 20  # elements compared at once


@dataclass(frozen=True)
class CheckResult:
    """How far outputs are from what is expected of them.

    Attributes
    ----------
    ok: whether every value is within its bound.
    units: the worst error, as a multiple of the bound of its element; infinite if the value has to be exact.
    place: the index of that element, with the output's name; `got`, `expected` and `bound` are its values,
        `absolute` and `relative` its error.
    elements: how many values there are; `wrong` how many are not within their bounds; `open` of how many nothing is
        known, such as what is divided by a sum that may be zero: these pass whatever they are.
    notes: what is remarkable, such as sums of integers that wrap around.
    races: the races of the version's loops, which make it wrong whatever the values, and the doubts about them (those
        that are not `certain`, which do not count).
    """

    ok: bool
    absolute: float
    relative: float
    place: str
    got: float
    expected: float
    elements: int
    units: float = 0.0
    bound: float = 0.0
    wrong: int = 0
    open: int = 0
    notes: tuple[str, ...] = ()
    races: tuple[Race, ...] = ()

    def with_races(self, races: tuple[Race, ...]) -> CheckResult:
        """The result with the races that were found; not right if one of them is certain."""
        return replace(self, ok=self.ok and not any(r.certain for r in races), races=races)

    def race_lines(self) -> list[str]:
        """What is to be said of races, one sentence each."""
        return [f"{'a race' if r.certain else 'not proved to be free of races'}: {r.text}" for r in self.races]

    def __str__(self) -> str:
        return "; ".join([self.verdict, *self.remarks])

    @property
    def remarks(self) -> list[str]:
        """What else is to be said, in sentences."""
        unknown = f"nothing is known of {self.open} values, whose rounding errors have no bound"
        return [*([unknown] if self.open else []), *self.notes, *self.race_lines()]

    @property
    def word(self) -> str:
        """Whether the values are right, in a few words."""
        if any(r.certain for r in self.races):
            return "NOT right: iterations race"
        return "equal to NumPy" if self.ok else "NOT equal to NumPy"

    @property
    def verdict(self) -> str:
        """Whether the values are right, and the worst of them."""
        if self.absolute == 0:
            return f"{self.word}: {self.elements} values, all the same"
        values = f"{self.elements} values" if not self.wrong else f"{self.wrong} of {self.elements} values wrong"
        worst = f"{self.units:.2g} of the rounding bound" if self.bound else f"{self.absolute:.3g}, no rounding"
        return (
            f"{self.word}: {values}, worst error {worst}, "
            f"at {self.place} (got {self.got:.8g}, expected {self.expected:.8g}, bound {self.bound:.3g})"
        )


def as_list(value: Any) -> list[Any]:
    """The arrays of a result, which is one array or several."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


# ---------------------------------------------------------------------------- what is expected


def expected_values(op: Operator, inputs: Sequence[np.ndarray]) -> Evaluation:
    """The values of an operator's outputs with the bounds of their rounding errors."""
    inputs = check_inputs(op.name, op.inputs, inputs)
    if op.prim_func is None:
        return evaluate_with_errors(op.outputs, dict(zip(op.inputs, inputs)))
    from tvmagic.operators.error_interpreter import run_with_errors

    try:
        return run_with_errors(op, inputs)
    except TVMagicError as error:
        values = [_with_tolerance(np.asarray(v)) for v in as_list(op.reference(*inputs))]
        return Evaluation(values, [f"judged by a fixed tolerance, as no bound follows: {error.message}"])


def _with_tolerance(value: np.ndarray) -> Value:
    """A value with a usual error of its dtype, for programs that have no bound."""
    if value.dtype.kind in "biu":
        return value
    relative, absolute = {2: (2e-2, 2e-2), 4: (2e-4, 2e-5), 8: (1e-10, 1e-12)}[value.dtype.itemsize]
    wide = value.astype(np.float64)
    return Approximate(wide, np.where(np.isfinite(wide), absolute + relative * np.abs(wide), 0.0))


# ---------------------------------------------------------------------------- comparison


def compare(got: Sequence[Any], expected: Evaluation | Sequence[Value], names: Sequence[str]) -> CheckResult:
    """How far arrays are from what is expected: values with errors, or arrays that have to be the same."""
    values, notes = (expected.values, expected.notes) if isinstance(expected, Evaluation) else (expected, [])
    worst = CheckResult(True, 0.0, 0.0, "", 0.0, 0.0, 0)
    elements = wrong = unknown = 0
    for array, value, name in zip(got, values, names, strict=True):
        one = _compare_array(np.asarray(array), value, name)
        elements, wrong, unknown = elements + one.elements, wrong + one.wrong, unknown + one.open
        worst = one if _is_worse(one, worst) else worst
    return replace(worst, ok=not wrong, elements=elements, wrong=wrong, open=unknown, notes=tuple(notes))


def worse(first: CheckResult, second: CheckResult) -> CheckResult:
    """Two checks of one version on different inputs as one: the worse of them, and the remarks of both."""
    chosen = second if _is_worse(second, first) else first
    notes = tuple(dict.fromkeys([*first.notes, *second.notes]))
    return replace(
        chosen,
        ok=first.ok and second.ok,
        wrong=max(first.wrong, second.wrong),
        open=max(first.open, second.open),
        notes=notes,
    )


def _is_worse(one: CheckResult, other: CheckResult) -> bool:
    return (one.units, one.absolute) > (other.units, other.absolute)


@dataclass
class _Worst:
    """The worst element so far: its number, value and error."""

    units: float = -1.0
    error: float = 0.0
    number: int = 0
    got: float = 0.0
    expected: float = 0.0
    bound: float = 0.0
    wrong: int = 0
    open: int = 0


def _compare_array(array: np.ndarray, value: Value, name: str) -> CheckResult:
    wanted, bound = parts(value)
    flat, plain = array.ravel(), np.broadcast_to(wanted, array.shape).ravel()
    bounds = None if bound is None else np.broadcast_to(bound, array.shape).ravel()
    worst = _Worst()
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _PART):
            part = slice(start, start + _PART)
            _compare_part(worst, start, flat[part], plain[part], None if bounds is None else bounds[part])
    if not flat.size:
        return CheckResult(True, 0.0, 0.0, "", 0.0, 0.0, 0)
    index = ", ".join(str(int(i)) for i in np.unravel_index(worst.number, array.shape))
    place = f"{name}[{index}]" if array.shape else name
    relative = 0.0 if not worst.error else worst.error / abs(worst.expected) if worst.expected else np.inf
    return CheckResult(
        not worst.wrong, worst.error, relative, place, worst.got, worst.expected, flat.size,
        worst.units, worst.bound, worst.wrong, worst.open,
    )  # fmt: skip


def _compare_part(worst: _Worst, start: int, got: np.ndarray, wanted: np.ndarray, bounds: np.ndarray | None) -> None:
    if got.dtype.kind in "iub":  # exact, also beyond 53 bits
        same = got == wanted
    else:
        got, wanted = got.astype(np.float64, copy=False), wanted.astype(np.float64, copy=False)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    a, b = got.astype(np.float64, copy=False), wanted.astype(np.float64, copy=False)
    apart = np.abs(a - b)
    error = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, np.maximum(apart, np.finfo(np.float64).tiny)))
    bound = np.zeros_like(error) if bounds is None else bounds
    unknown = np.isinf(bound)
    error = np.where(unknown, 0.0, error)
    units = np.where(error == 0, 0.0, error / bound)
    worst.wrong += int(np.count_nonzero(units > 1))
    worst.open += int(np.count_nonzero(unknown))
    most = float(units.max())
    candidates = np.flatnonzero(units == most)  # of those that have no bound the one that is farthest off
    at = int(candidates[np.argmax(error[candidates])])
    if (most, float(error[at])) > (worst.units, worst.error):
        worst.units, worst.error, worst.number = most, float(error[at]), start + at
        worst.got, worst.expected, worst.bound = float(a[at]), float(b[at]), float(bound[at])
