"""Checks of a version against its reference, and times beside NumPy's."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import BoundsError, TVMagicError
from tvmagic.eval.cost import count
from tvmagic.ir.views import viewed
from tvmagic.operators.arrays import empty_outputs, size_values
from tvmagic.operators.comparison import CheckResult, as_list, combined, compare, expected_values
from tvmagic.operators.cpu_contention import Sharing, rest
from tvmagic.operators.index_overflow import wrapping_indices
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.lost_digits import lost_digits
from tvmagic.operators.moving_ranges import has_moving_loops, steps_run
from tvmagic.operators.numpy_code import numpy_code
from tvmagic.operators.races import races_of
from tvmagic.operators.trials import (
    computes_once,
    definition_kind,
    expected_of_function,
    function_name,
    one_sided,
    trial_inputs,
)
from tvmagic.te.error_bound import parts
from tvmagic.te.error_reference import Evaluation
from tvmagic.te.error_ties import Comparison

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator, Version
    from tvmagic.runners.families import Runner

__all__ = [
    "Baseline",
    "Benchmark",
    "CheckResult",
    "Timing",
    "Work",
    "bench",
    "check",
    "measure",
    "numpy_baseline",
    "work_of",
]

_WAKING = 0.01  # seconds above which a first call is not a misleading one
_REST = 0.4  # seconds that other threads get at most to come to rest before a turn


def check(
    version: Version,
    seed: int = 0,
    sizes: Mapping[str, int] | int = 16,
    target: Any = None,
    against: Callable[..., Any] | tuple[str, Callable[..., Any]] | None = None,
    inputs: Any = None,
) -> CheckResult:
    """Run a version on random inputs and compare it with the operator's expression, within the bound of rounding errors;
    look for races in its loops.

    It runs two or three times: on floats from -1 to 1, which tell elements apart; on a few small fractions, whose sums
    are exact, so that a single wrong term of a long sum shows; and on integers over the whole range of their dtype,
    if there are any that are not indices. `inputs`, or the operator's `example_inputs`, replace random inputs (`make_inputs`). The result is the worst of all; a value that one run judges is judged.

    With a `target` (`aarch64-sve`, or a target in full) the version is compiled for it, and run in all ways that
    `tvmagic.runners` has for it. Raises `MissingTool` if what runs it is not installed.

    `against`: a function of the inputs, perhaps with its name, that gives the expected values instead of the operator's
    expression. They may differ from it by the rounding errors of two programs.
    """
    op, names, given = version.operator, [t.name for t in version.operator.outputs], inputs
    here: Calls = [("", lambda *inputs: (as_list(version(*inputs)), None))]
    calls = here if target is None else calls_elsewhere(version, target)
    results: list[CheckResult] = []
    run_by: dict[str, str] = {}
    first: list[np.ndarray] | None = None
    comparisons: list[Comparison] = []
    computed_once = computes_once(version)
    for kind, inputs in trial_inputs(op, seed, sizes, given):
        try:
            with of_random_inputs(op, given):
                expected = expected_values(op, inputs)
                expected = expected if against is None else expected_of_function(op, inputs, expected, against)
            comparisons += expected.comparisons
            outcomes = [(name, *call(*inputs)) for name, call in calls]
        except TVMagicError:
            if kind == "full range":
                continue
            raise
        if first is None:
            first = inputs
        for name, outputs, remark in outcomes:
            run_by[name] = f"{name} ({remark})" if remark else name
            result = compare(outputs, expected, names, computed_once)
            notes = () if kind == "full range" else (*result.notes, *lost_digits(op, inputs, expected, outputs))
            wrong = () if result.ok is not False or not name else (f"NOT equal when run by {name}",)
            results.append(replace(result, notes=(*notes, *wrong)))
    found = functools.reduce(combined, results)
    if found.ok is False:
        found = replace(found, notes=(*found.notes, *wrapping_indices(op, size_values(op.inputs, inputs))))
    if target is not None:
        found = replace(found, notes=(f"run by {'; '.join(run_by.values())}", *found.notes))
    kind, name = ("function", function_name(against)) if against is not None else (definition_kind(op), "")
    found = replace(found, against=kind, against_name=name, notes=(*found.notes, *one_sided(comparisons)))
    if given is None and op.example_inputs is None and first is not None:
        found = replace(found, notes=(*found.notes, *steps_run(op, first)))
    return found.with_races(tuple(races_of(version)))


@contextmanager
def of_random_inputs(op: Operator, given: Any = None) -> Iterator[None]:
    """Say of an index outside that the inputs are random: their elements stay inside if they are indices themselves."""
    try:
        yield
    except BoundsError as error:
        by_data = op.accesses.depend_on_data or has_moving_loops(op)
        if by_data and given is None and op.example_inputs is None:
            error.hint = error.hint or (
                f"the inputs are random: an index that is computed from them may be outside. Give inputs of yours: set "
                f"`{op.name}.example_inputs`, or write `--inputs EXPR`"
            )
        raise


# Ways of running a version: a name, and a function from inputs to outputs and what is to be said of the run, if anything.
Calls = list[tuple[str, Callable[..., tuple[list[np.ndarray], str | None]]]]


def calls_elsewhere(version: Version, target: Any) -> Calls:
    """Each way of running a version as code for a target."""
    from tvmagic.runners import ways
    from tvmagic.target import resolved
    from tvmagic.target.names import target_text

    op, chosen = version.operator, resolved(target_text(target) if isinstance(target, str) else target)
    built = version.build(chosen)

    def caller(run: Runner) -> Callable[..., tuple[list[np.ndarray], str | None]]:
        def call(*inputs: np.ndarray) -> tuple[list[np.ndarray], str | None]:
            outputs = op.fresh_outputs(inputs)
            remark = run(built, op.arguments(inputs, outputs))
            return outputs, remark

        return call

    return [(way.name, caller(way.run)) for way in ways(chosen)]


# ---------------------------------------------------------------------------- times


@dataclass(frozen=True)
class Timing:
    """Seconds a call, and how many calls were measured.

    They were made in runs of several, each timed as a whole: `median` and `best` are the median and the least of
    the runs' means. Other work on the machine only ever adds time, so `best` is the steadier of the two, and
    ratios are made of it; `median` far above it tells of a busy machine. `waited` is the share of the time in which a
    thread was ready and had no processor (0 on systems that do not say).
    """

    median: float
    best: float
    calls: int
    waited: float = field(default=0.0, compare=False)


def measure(call: Callable[[], Any], seconds: float = 0.2, repeats: int = 7) -> Timing:
    """Time `call`: `repeats` runs of as many calls as fit into `seconds`, after one call that is not counted."""
    return measure_in_turns([call], seconds, turns=1, repeats=repeats)[0]


def measure_in_turns(
    calls: Sequence[Callable[[], Any]], seconds: float, turns: int = 7, repeats: int = 4
) -> list[Timing]:
    """Time each of `calls` for about `seconds`, in `turns` of `repeats` runs, so that all meet the same machine.

    Before each turn is a pause until the threads of the one before rest (`cpu_contention.py`): they would take processors from
    what is measured next. A call that is slow is made once a run, and no more after four times `seconds`.
    """
    numbers: list[int] = []
    for call in calls:
        once = _seconds_per_call(call)
        numbers.append(max(1, int(seconds / turns / repeats / once)))
    runs: list[list[float]] = [[] for _ in calls]
    waits = [Sharing() for _ in calls]
    for _ in range(turns):
        for call, number, times, waiting in zip(calls, numbers, runs, waits):
            if sum(times) * number > 4 * seconds:
                continue
            if len(calls) > 1:
                rest(min(_REST, 15 * seconds / turns))
            with waiting:
                times += _turn(call, number, repeats, 4 * seconds / turns)
    return [Timing(statistics.median(t), min(t), n * len(t), w.share) for n, t, w in zip(numbers, runs, waits)]


def _seconds_per_call(call: Callable[[], Any]) -> float:
    """About how many seconds a call takes: of a few, as threads that sleep have to wake for the first."""
    least = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        call()
        least = min(least, max(time.perf_counter() - start, 1e-7))
        if least > _WAKING:
            break
    return least


def _turn(call: Callable[[], Any], number: int, repeats: int, limit: float) -> list[float]:
    """Seconds a call in each of `repeats` runs of `number` calls, or fewer runs where they take longer than `limit`."""
    times: list[float] = []
    while len(times) < repeats and sum(times) * number <= limit:
        start = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - start) / number)
    return times


@dataclass(frozen=True)
class Baseline:
    """What versions are compared with: its name, a call, and what that is in a sentence."""

    name: str
    call: Callable[[], Any]
    words: str
    interpreted: bool = False  # not what one would write, but evaluated from the definition: no speed to compare with


@dataclass(frozen=True)
class Work:
    """What a call of an operator has to do, however it is scheduled.

    Attributes
    ----------
    flops: operations on floats of its plain loops.
    bytes: the size of its arguments.
    bits: those of the widest float among the arguments; 0 without one.
    """

    flops: int
    bytes: int
    bits: int


@viewed("benchmark")
@dataclass
class Benchmark:
    """Times of versions of an operator, then of what they are compared with.

    The last of `baselines` is what ratios are about: NumPy, or the user's own function. `work` is what each row does in
    a call; None if the rows are of different operators.
    """

    operator: Operator
    rows: list[tuple[str, Timing]]
    baselines: list[Baseline]
    notes: list[str] = field(default_factory=list)
    work: Work | None = None

    @property
    def baseline(self) -> Baseline:
        """What ratios are about."""
        return self.baselines[-1]

    @property
    def reference(self) -> Timing:
        """The time of `baseline`."""
        return self.rows[-1][1]

    def ratio(self, name: str) -> float:
        """How many times faster than the baseline a version is, by the best times of both."""
        return self.reference.best / dict(self.rows)[name].best


def numpy_baseline(op: Operator, inputs: Sequence[np.ndarray]) -> Baseline:
    """The operator in NumPy's calls on whole arrays, or the reference, which gets no ratio, if a part has no such call."""
    if op.prim_func is not None:
        words = "the function element by element in Python, no speed to compare with; `--against NAME` compares with a function of yours"
        return Baseline("interpreter", lambda: op.reference(*inputs), words, interpreted=True)
    sizes = size_values(op.inputs, inputs)
    code = numpy_code(op.inputs, op.outputs, sizes)
    outputs = empty_outputs(op.outputs, sizes)

    def call() -> Any:
        with np.errstate(all="ignore"):
            return code.run(*inputs, *outputs)

    if code.elementwise:
        return Baseline("reference", call, f"{code.words}: no speed to compare with", interpreted=True)
    return Baseline("NumPy", call, code.words)


def own_baseline(op: Operator, inputs: Sequence[np.ndarray], name: str, function: Callable[..., Any]) -> Baseline:
    """A function of the user, called with the inputs in order."""

    def call() -> Any:
        try:
            return function(*inputs)
        except Exception as error:
            taken = ", ".join(t.name for t in op.inputs)
            raise TVMagicError(
                f"`{name}({taken})` failed: {type(error).__name__}: {str(error).split(chr(10))[0]}",
                hint=f"it is called with the inputs of `{op.name}` as NumPy arrays",
                code="operator.call_failed",
            ) from error

    return Baseline(name, call, f"`{name}` called with the inputs as NumPy arrays")


def bench(
    op: Operator,
    versions: Sequence[Version] | None = None,
    seconds: float = 0.2,
    sizes: Mapping[str, int] | int = 256,
    seed: int = 0,
    against: tuple[str, Callable[..., Any]] | None = None,
    inputs: Any = None,
) -> Benchmark:
    """Time versions (all of them by default) and NumPy on the same inputs, in one process, interleaved.

    Parameters
    ----------
    seconds: how long each is measured, all runs together.
    against: a name and a function of the inputs that the versions are compared with besides.
    inputs: the inputs, by default the operator's `example_inputs`, else random ones; see `make_inputs`.
    """
    chosen = list(versions) if versions is not None else [*op.versions.values()] or [op.current]
    given, inputs = inputs, make_inputs(op, seed, sizes, inputs)
    with of_random_inputs(op, given):
        outputs = {version.name: version(*inputs) for version in chosen}
    calls: list[tuple[str, Callable[[], Any]]] = [
        (version.name, lambda v=version, o=outputs[version.name]: v(*inputs, out=o)) for version in chosen
    ]
    baselines = [numpy_baseline(op, inputs)]
    if against is not None:
        baselines.append(own_baseline(op, inputs, *against))
    calls += [(baseline.name, baseline.call) for baseline in baselines]
    others = {b.name: b.call() for b in baselines if op.prim_func is None or b is not baselines[0]}
    notes = [f"{b.name}: {b.words}" for b in baselines] + _checked(op)
    notes += _differences(op, expected_values(op, inputs), outputs, others)
    timings = measure_in_turns([call for _, call in calls], seconds)
    rows = [(name, timing) for (name, _), timing in zip(calls, timings)]
    return Benchmark(op, rows, baselines, notes, work_of(op, inputs))


def work_of(op: Operator, inputs: Sequence[np.ndarray]) -> Work:
    """What a call with these inputs has to do."""
    plain = next(iter(op.version("plain").lower().functions.values()))
    flops = count(plain, size_values(op.inputs, inputs)).total.arithmetic
    arrays = [*inputs, *op.fresh_outputs(inputs)]
    floats = [a.dtype.itemsize * 8 for a in arrays if a.dtype.kind == "f"]
    return Work(flops, sum(a.nbytes for a in arrays), max(floats, default=0))


def _checked(op: Operator) -> list[str]:
    """That accesses are checked in what is measured, which takes time, and how it is left out."""
    if not op.check_bounds:
        return []
    if not op.checks_accesses:
        return [f"assertions are tested in each call; `{op.name}.check_bounds = False` leaves the tests out"]
    why = f", as nothing bounds `{op.accesses.open[0]}`" if op.accesses.open else ""
    return [f"accesses are checked while it runs{why}; `{op.name}.check_bounds = False` leaves the checks out"]


def _differences(
    op: Operator, expected: Evaluation, versions: Mapping[str, Any], others: Mapping[str, Any]
) -> list[str]:
    """Which versions, and which of what they are compared with, give other values than the operator's expression."""
    found = [(name, _difference(op, as_list(value), expected)) for name, value in (*versions.items(), *others.items())]
    return [f"{name} {text}" for name, text in found if text]


def _difference(op: Operator, got: Sequence[Any], expected: Evaluation) -> str:
    """How values differ from what is expected; empty if they do not."""
    try:
        arrays = [np.asarray(a) for a in got]
    except ValueError:
        return "gives what is not an array"
    if [a.shape for a in arrays] != [np.shape(parts(v)[0]) for v in expected.values]:
        shapes = ", ".join(str(a.shape) for a in arrays)
        return f"gives arrays of other shapes: {shapes}"
    result = compare(arrays, expected, [t.name for t in op.outputs])
    if result.ok:
        return ""
    if result.ok is None:
        return f"is {result.verdict.removeprefix('? ')}"
    units = f", {result.units:.2g} of the rounding bound," if result.bound else ""
    return f"gives other values: worst error {result.absolute:.3g}{units} at {result.place}"
