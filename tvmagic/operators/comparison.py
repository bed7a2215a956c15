"""Whether arrays are what an operator computes, as far as rounding leaves that open.

What is expected are values in float64 (integers exactly) with a bound for each element, which follows from the
operator's expression and the inputs: see `te/error_bound.py` for the method and its sources. An element is right if it is
not farther from its value than the bound, whatever schedule computed it: the bound holds for every order of a sum.

An element that would pass whatever it is has not been judged. `UNJUDGED` lists the reasons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir.views import viewed
from tvmagic.operators.arrays import check_inputs
from tvmagic.operators.verdict import UNJUDGED, VerdictLine, verdict_line
from tvmagic.te.error_bound import FORMATS, Approximate, Value, parts
from tvmagic.te.error_reference import Evaluation, evaluate_with_errors

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator
    from tvmagic.tir.analysis.races import Race

_SLICE = 1 << 20  # elements compared at once
_LOOSE = 1e-3  # share of an output's largest magnitude from which a bound counts as loose
_NUMBERS = {reason: n for n, reason in enumerate(UNJUDGED)}


@viewed("check")
@dataclass(frozen=True)
class CheckResult:
    """How far outputs are from what is expected of them.

    Attributes
    ----------
    ok: False if a value is wrong or iterations race; None if less than half of the values were judged; else True.
    units: the worst error, as a multiple of the bound of its element; infinite if the value has to be exact.
    place: the index of that element, with the output's name; `got`, `expected` and `bound` are its values,
        `absolute` and `relative` its error. Of a wrong result it is the first element that is wrong.
    elements: the number of values; `wrong` those that are not within their bounds; `judged` those that could have been
        found wrong; `unjudged` the others, by reason.
    against: what they are compared with: `numpy` (the cell's expression in NumPy), `function` (one of the user's, named
        `against_name`) or `definition` (the operator's own program, interpreted).
    notes: what is remarkable, such as sums of integers that wrap around.
    races: the races of the version's loops, which make it wrong whatever the values, and the doubts about them (those
        that are not `certain`, which do not count).
    proof: the proof of the version; None if there is none.
    """

    ok: bool | None
    absolute: float
    relative: float
    place: str
    got: float
    expected: float
    elements: int
    units: float = 0.0
    bound: float = 0.0
    wrong: int = 0
    judged: int = 0
    unjudged: dict[str, int] = field(default_factory=dict)
    against: str = "numpy"
    against_name: str = ""
    notes: tuple[str, ...] = ()
    races: tuple[Race, ...] = ()
    proof: Any = None
    reasons: tuple[np.ndarray, ...] = field(
        default=(), repr=False, compare=False
    )  # 0 if judged, else 1 + the reason's number

    def with_races(self, races: tuple[Race, ...]) -> CheckResult:
        """The result with the races that were found; not right if one of them is certain."""
        return replace(self, ok=False if any(r.certain for r in races) else self.ok, races=races)

    def race_lines(self) -> list[str]:
        """What is to be said of races, one sentence each."""
        return [f"{'a race' if r.certain else 'not proved to be free of races'}: {r.text}" for r in self.races]

    @property
    def open(self) -> int:
        """Number of values whose rounding errors have no bound; the name of 0.1.0 for `unjudged["no bound"]`."""
        return self.unjudged.get("no bound", 0)

    @property
    def line(self) -> VerdictLine:
        """The verdict: its state, and its words for text and pages."""
        return verdict_line(self)

    @property
    def verdict(self) -> str:
        """The verdict as text."""
        return self.line.text

    @property
    def word(self) -> str:
        """The first words of the verdict."""
        return self.line.chip

    @property
    def remarks(self) -> list[str]:
        """Further remarks, in sentences."""
        return [*self.line.cautions, *self.notes, *self.race_lines()]

    def __str__(self) -> str:
        return "; ".join([self.verdict, *self.remarks])


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


def compare(
    got: Sequence[Any], expected: Evaluation | Sequence[Value], names: Sequence[str], computed_once: bool = False
) -> CheckResult:
    """Compare arrays with what is expected: values with errors, or arrays that have to be the same.

    `computed_once`: the program computes each element of a stage once, so that copies of it are the same bits.
    """
    if not isinstance(expected, Evaluation):
        expected = Evaluation(list(expected))
    chosen = expected.values if computed_once or expected.recomputed is None else expected.recomputed
    found: list[_Comparison] = []
    for n, (array, value, name) in enumerate(zip(got, chosen, names, strict=True)):
        masks = _Masks(*([m[n] if m else None for m in (expected.decided, expected.empty, expected.unwritten)]))
        found.append(_compare_array(np.asarray(array), value, name, masks))
    result = _result([f.worst for f in found], [f.reasons for f in found])
    return replace(result, notes=tuple(expected.notes))


def combined(first: CheckResult, second: CheckResult) -> CheckResult:
    """Two runs of one version on different inputs as one result: the worse of them, and the remarks of both.

    A value that either of them judges is judged.
    """
    worst = second if _rank(second) > _rank(first) else first
    reasons = tuple([np.where(b == 0, b, a) for a, b in zip(first.reasons, second.reasons, strict=True)])
    notes = tuple(dict.fromkeys([*first.notes, *second.notes]))
    merged = replace(worst, notes=notes, wrong=max(first.wrong, second.wrong), reasons=reasons)
    return _counted(merged)


def _rank(result: CheckResult) -> tuple[bool, float, float]:
    return result.wrong > 0, result.units, result.absolute


def _counted(result: CheckResult) -> CheckResult:
    """A result with its counts of judged values, and whether it is right."""
    counts = np.zeros(len(UNJUDGED) + 1, np.int64)
    for codes in result.reasons:
        counts += np.bincount(codes.reshape(-1), minlength=len(counts))
    unjudged = {reason: int(n) for reason, n in zip(UNJUDGED, counts[1:]) if n}
    ok = False if result.wrong else None if 2 * int(counts[0]) < result.elements or not result.elements else True
    return replace(result, ok=ok, judged=int(counts[0]), unjudged=unjudged)


@dataclass
class _Worst:
    """The worst element so far: its index, value and error; once an element is wrong, the first wrong one."""

    place: str = ""
    units: float = -1.0
    error: float = 0.0
    got: float = 0.0
    expected: float = 0.0
    bound: float = 0.0
    number: int = 0
    wrong: int = 0


@dataclass(frozen=True)
class _Masks:
    """What is known of an output's elements besides their values: see `Evaluation`."""

    decided: np.ndarray | None = None
    empty: np.ndarray | None = None
    unwritten: np.ndarray | None = None


@dataclass(frozen=True)
class _Comparison:
    worst: _Worst
    reasons: np.ndarray


def _result(worst: Sequence[_Worst], reasons: Sequence[np.ndarray]) -> CheckResult:
    elements = sum(r.size for r in reasons)
    most = _Worst()
    for one in worst:  # of several outputs that are wrong the first
        if not most.wrong and (one.wrong or (one.units, one.error) > (most.units, most.error)):
            most = one
    units = max(most.units, 0.0)
    relative = 0.0 if not most.error else most.error / abs(most.expected) if most.expected else np.inf
    result = CheckResult(
        True, most.error, relative, most.place, most.got, most.expected, elements, units, most.bound,
        wrong=sum(w.wrong for w in worst), reasons=tuple(reasons),
    )  # fmt: skip
    return _counted(result)


def _compare_array(array: np.ndarray, value: Value, name: str, masks: _Masks) -> _Comparison:
    wanted, bound = parts(value)
    reasons = np.zeros(array.shape, np.uint8)
    if not array.size:
        return _Comparison(_Worst(), reasons)
    flat, plain, codes = array.ravel(), np.broadcast_to(wanted, array.shape).ravel(), reasons.reshape(-1)
    bounds, decided, empty, unwritten = (
        None if m is None else np.broadcast_to(m, array.shape).ravel()
        for m in (bound, masks.decided, masks.empty, masks.unwritten)
    )
    worst, floor = _Worst(), max(_LOOSE * _largest(plain), _smallest_normal(array.dtype))
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _SLICE):
            at = slice(start, start + _SLICE)
            taken = [None if m is None else m[at] for m in (bounds, decided, empty, unwritten)]
            wrong = _compare_slice(worst, start, flat[at], plain[at], taken[0])
            codes[at] = np.where(wrong, 0, _reasons(plain[at], floor, *taken))
    index = ", ".join(str(int(i)) for i in np.unravel_index(worst.number, array.shape))
    worst.place = f"{name}[{index}]" if array.shape else name
    return _Comparison(worst, reasons)


def _largest(values: np.ndarray) -> float:
    """The largest finite magnitude."""
    most = 0.0
    for start in range(0, values.size, _SLICE):
        wide = np.abs(values[start : start + _SLICE].astype(np.float64, copy=False))
        most = max(most, float(np.max(wide, where=np.isfinite(wide), initial=0.0)))
    return most


def _smallest_normal(dtype: np.dtype[Any]) -> float:
    """The smallest normal number of a dtype of floats, 0 for others: a smaller error is underflow."""
    return float(FORMATS[dtype.name].tiny * 2.0 ** (FORMATS[dtype.name].digits - 1)) if dtype.name in FORMATS else 0.0


def _reasons(
    wanted: np.ndarray,
    floor: float,
    bounds: np.ndarray | None,
    decided: np.ndarray | None,
    empty: np.ndarray | None,
    unwritten: np.ndarray | None,
) -> np.ndarray:
    """For each element why it would pass whatever it is: 1 + the number in `UNJUDGED`; 0 if it would not.

    A bound below `floor` is about a single value near 0, not about the program. Of a comparison either side passes if
    the bound is considerable, and considerably smaller once all comparisons are decided.
    """
    size = np.abs(wanted.astype(np.float64, copy=False))
    cases: list[tuple[str, Any]] = [("unwritten", unwritten), ("empty", empty), ("nan", np.isnan(size))]
    if bounds is not None:
        considerable = (bounds > 0) & (bounds >= floor)
        without = np.zeros_like(bounds) if decided is None else decided
        tied = considerable & (bounds > 2 * without)
        cases += [("tie", tied if decided is not None else None), ("no bound", np.isinf(bounds))]
        cases += [("loose", considerable & (bounds >= size))]
    codes = np.zeros(size.shape, np.uint8)
    for reason, mask in reversed(cases):
        if mask is not None:
            codes[mask] = 1 + _NUMBERS[reason]
    return codes


def _compare_slice(
    worst: _Worst, start: int, got: np.ndarray, wanted: np.ndarray, bounds: np.ndarray | None
) -> np.ndarray:
    """Compare some elements, note the worst of them, and return which are wrong."""
    if got.dtype.kind in "iub":  # exact, also beyond 53 bits
        same = got == wanted
    else:
        got, wanted = got.astype(np.float64, copy=False), wanted.astype(np.float64, copy=False)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    a, b = got.astype(np.float64, copy=False), wanted.astype(np.float64, copy=False)
    apart = np.abs(a - b)
    error = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, np.maximum(apart, np.finfo(np.float64).tiny)))
    bound = np.zeros_like(error) if bounds is None else bounds
    error = np.where(np.isinf(bound), 0.0, error)
    units = np.where(error == 0, 0.0, error / bound)
    wrong = units > 1
    if worst.wrong:
        at = None
    elif wrong.any():
        at = int(np.argmax(wrong))
    else:
        candidates = np.flatnonzero(units == units.max())  # of those that have no bound the one that is farthest off
        at = int(candidates[np.argmax(error[candidates])])
        at = at if (float(units[at]), float(error[at])) > (worst.units, worst.error) else None
    worst.wrong += int(np.count_nonzero(wrong))
    if at is not None:
        worst.units, worst.error, worst.number = float(units[at]), float(error[at]), start + at
        worst.got, worst.expected, worst.bound = float(a[at]), float(b[at]), float(bound[at])
    return wrong
