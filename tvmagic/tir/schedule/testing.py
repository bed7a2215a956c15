"""Checks for tests of schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc, assert_structural_equal
from tvmagic.tir.schedule.schedule import Schedule
from tvmagic.tir.schedule.trace import Trace


def assert_structural_equal_ignore_global_symbol(func1: PrimFunc, func2: PrimFunc, *args: Any, **kwargs: Any) -> None:
    """Raise unless two functions are equal but for their global symbols."""
    assert_structural_equal(
        func1.with_attr("global_symbol", "main"), func2.with_attr("global_symbol", "main"), *args, **kwargs
    )


def _replay_python(trace: Trace, sch: Schedule) -> None:
    from tvmagic import script, tir

    names = {name: getattr(tir, name) for name in tir.__all__ if hasattr(tir, name)}
    scope: dict[str, Any] = {**names, "tir": tir, "T": script.tir}
    exec("\n".join(trace.as_python()), {**scope, "sch": sch})  # one scope: functions in it see the variables


_REPLAY: dict[str, Callable[[Trace, Schedule], None]] = {
    "python": _replay_python,
    "json": lambda trace, sch: Trace.apply_json_to_schedule(trace.as_json(), sch),
}


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Replay the trace of `sch` on `mod` through its text, and raise unless it gives the same program and trace.

    `text_format`: `python`, `json`, or several. The result is the schedule of the last replay.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    new = sch
    for name in formats:
        if name not in _REPLAY:
            raise TVMagicError(
                f"`{name}` is not a form of a trace", hint="write `python` or `json`", code="trace.unknown_form"
            )
        new = Schedule(mod, debug_mask=debug_mask)
        _REPLAY[name](sch.trace, new)
        assert_structural_equal(new.mod, sch.mod)
        if new.trace.as_python() != sch.trace.as_python():
            raise TVMagicError(f"the trace replayed from {name} reads differently", code="trace.replay_differs")
    return new
