"""Golden schedules: functions, calls on them, and what TVM 0.19 answers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from golden import known, rows

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.script import from_source
from tvmagic.tir import Schedule

KNOWN: dict[str, dict[str, Any]] = known("tir")


def cases() -> list[dict[str, Any]]:
    """The cases that TVM gave an answer to."""
    return [row for row in rows("tir") if "steps" in row]


def parse(text: str) -> PrimFunc:
    return from_source("# from tvm.script import tir as T\n" + text)


def text_of(sch: Schedule) -> str:
    return re.sub(r"^(# from tvm.*\n)+\n?", "", sch.mod["main"].script(show_meta=False)).strip()


def differences(case: dict[str, Any], *, debug: str = "none") -> list[str]:
    """Where ours differs from the case: a text, a call refused or accepted, the trace."""
    sch = Schedule(parse(case["before"]), debug_mask=debug)
    if text_of(sch) != case["before"].strip():
        return ["before"]
    for step in case["steps"]:
        before, attempt = text_of(sch), sch.copy()
        error: Exception | None = None
        try:
            exec(step["call"], {"sch": attempt})
        except Exception as raised:
            error = raised
        if "error" in step:
            if step["error"] == "ScheduleError" and type(error).__name__ != "ScheduleError":
                return [f"accepted: {step['call']}" if error is None else f"{type(error).__name__}: {step['call']}"]
            assert error is None or "Error" in type(error).__name__
            continue
        if error is not None:
            return [f"refused: {step['call']}: {error.args[0] if error.args else error}"]
        sch = attempt
        if text_of(sch) != (step["after"] or before).strip():
            return [f"after: {step['call']}"]
    if isinstance(case["trace"], list):
        lines = [line.strip() for line in str(sch.trace).split("\n") if "sch." in line]
        if lines != case["trace"]:
            return ["trace"]
    return []


def scheduled(case: dict[str, Any]) -> tuple[PrimFunc, PrimFunc, list[str]]:
    """The function before and after all calls that are accepted, and those calls."""
    before = parse(case["before"])
    sch = Schedule(before)
    done: list[str] = []
    for step in case["steps"]:
        attempt = sch.copy()
        try:
            exec(step["call"], {"sch": attempt})
        except (tvmagic.TVMagicError, IndexError):  # an index: the loop that a refused call would have made
            continue
        sch = attempt
        done.append(step["call"])
    return before, sch.mod["main"], done


def random_arguments(function: PrimFunc, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for param in function.params:
        buffer = function.buffer_map[param]
        shape, dtype = [int(s) for s in buffer.shape], str(buffer.dtype)
        if dtype.startswith("float"):
            arrays.append(rng.standard_normal(shape).astype(dtype))
        else:
            arrays.append(rng.integers(0 if dtype == "bool" else -4, 2 if dtype == "bool" else 5, shape).astype(dtype))
    return arrays


def check_results(case: dict[str, Any]) -> bool:
    """Run the function before and after its schedule; False if it cannot be compared.

    A new layout of a parameter changes what callers pass, so such a case only has to compile.
    """
    before, after, calls = scheduled(case)
    given = random_arguments(before)
    expected, got = [a.copy() for a in given], [a.copy() for a in given]
    tvmagic.build(before)(*expected)
    kernel = tvmagic.build(after)
    outputs = {b.name for b in before.buffer_map.values()}
    layouts = [c for c in calls if "transform_layout" in c or "set_axis" in c]
    if layouts and any(
        str(before.buffer_map[p].shape) != str(after.buffer_map[q].shape) or "(j, i)" in str(layouts)
        for p, q in zip(before.params, after.params)
    ):
        return False
    kernel(*got)
    lossy = any("set_dtype" in c for c in calls) or any(a.dtype == np.float16 for a in given)
    tolerance = 5e-2 if lossy else 1e-4
    for name, want, have in zip(sorted(outputs), expected, got):
        np.testing.assert_allclose(
            have.astype("float64"), want.astype("float64"), tolerance, tolerance, err_msg=f"{name} of {case['id']}"
        )
    return True
