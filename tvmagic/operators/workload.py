"""An operator on given inputs, as a search over its schedules needs it: checked, timed, kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.operators.comparison import as_list, compare, expected_values
from tvmagic.operators.measure import measure, numpy_baseline
from tvmagic.operators.operator import Operator, Version
from tvmagic.passes import Record

__all__ = ["OperatorWorkload"]

_BASELINE_SECONDS = 0.1  # how long NumPy is measured


class OperatorWorkload:
    """The schedules of an operator, tried on the same random inputs and timed on the first of them.

    `func` is the module without a schedule; `seed` draws the inputs, in which symbolic sizes are `sizes`.
    """

    def __init__(self, op: Operator, seed: int = 0, sizes: Mapping[str, int] | int = 256) -> None:
        self.op, self.func = op, op.schedule().mod
        self.inputs = op.random_inputs(seed, sizes)
        tried = [self.inputs, op.random_inputs(seed, sizes, coarse=True)]  # as a check does
        self.expected = [(inputs, expected_values(op, inputs)) for inputs in tried]

    def seconds(self, schedule: Any) -> float:
        """Seconds a call, the arguments ready; `TVMagicError` where the result is not the reference's."""
        version, names = Version(self.op, schedule, "trial"), [t.name for t in self.op.outputs]
        for inputs, expected in self.expected:
            result = compare(as_list(version(*inputs)), expected, names)
            if not result.ok:
                raise TVMagicError(result.verdict)
        return self._time(version)

    def plain_seconds(self) -> float:
        """Seconds a call of the plain loops."""
        return self._time(self.op.version("plain"))

    def reference(self) -> tuple[float, str]:
        """Seconds a call of NumPy, and what is called there."""
        numpy = numpy_baseline(self.op, self.inputs)
        return measure(numpy.call, seconds=_BASELINE_SECONDS).median, numpy.words

    def keep(self, schedule: Any, name: str, record: Record) -> Version:
        """Make a schedule the operator's version `name`."""
        version = Version(self.op, schedule, name, record)
        self.op.add_version(version)
        return version

    def _time(self, version: Version) -> float:
        outputs = version(*self.inputs)
        if any(map(self.op.is_input, self.op.outputs)):  # each call starts from the same values
            return measure(lambda: version(*self.inputs, out=outputs), seconds=0.05, repeats=5).best
        arrays = self.op.arguments(self.inputs, as_list(outputs))
        module = version.build()
        return measure(lambda: module(*arrays), seconds=0.05, repeats=5).best
