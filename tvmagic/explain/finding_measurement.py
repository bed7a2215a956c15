"""Measure the calls of findings: the version against the version with the call, on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.explain.explanation import Explanation, Finding
from tvmagic.explain.trial import tried
from tvmagic.operators import Version
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.measure import measure_in_turns

NO_HELP = 0.9  # times as fast, from which on downwards a call is not proposed
_EACH, _AGAIN = 0.04, 0.2  # seconds for each of the two, and if the call seems not to help


def measure_calls(
    explanation: Explanation, version: Version, size: int = 256, seconds: float = 2.0, inputs: Any = None
) -> None:
    """Measure the calls of an explanation's findings, in its order: `measured` is set, and findings whose call is no help are taken
    out, with a note that says so.

    Parameters
    ----------
    version: what was explained, compiled for this machine.
    size: the value of symbolic sizes.
    inputs: what is measured on; see `make_inputs`.
    seconds: no other call is begun after this time.
    """
    end, kept, out = time.monotonic() + seconds, list[Finding](), list[Finding]()
    arrays = make_inputs(version.operator, 0, size, inputs)
    for finding in explanation.findings:
        gain = _gain(version, finding, arrays) if finding.call and time.monotonic() < end else 0.0
        (out if 0 < gain < NO_HELP else kept).append(replace(finding, measured=round(gain, 2)))
    explanation.findings[:] = kept
    for finding in out:
        explanation.notes.append(
            f"`{finding.code}` is left out: with its call it was measured to be {finding.measured:.2g} times as fast, not "
            f"{finding.gain:.3g} as by the model"
        )


def _gain(version: Version, finding: Finding, inputs: Any) -> float:
    """How many times as fast a version is with a finding's call; 0 if it cannot be run."""
    try:
        calls = [_runner(v, inputs) for v in (version, tried(version, finding.cell))]
    except TVMagicError:
        return 0.0
    for seconds in (_EACH, _AGAIN):
        before, after = measure_in_turns(calls, seconds, turns=3)
        gain = before.best / max(after.best, 1e-9)
        if gain >= NO_HELP:
            break
    return gain


def _runner(version: Version, inputs: Any) -> Callable[[], Any]:
    outputs = version(*inputs)
    return lambda: version(*inputs, out=outputs)
