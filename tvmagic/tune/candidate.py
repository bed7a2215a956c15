"""A schedule as it travels to a worker: the trace of its calls as JSON, or a module as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmagic.driver import lower, with_checks
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc, load_json, save_json
from tvmagic.tir.schedule import Schedule

if TYPE_CHECKING:
    from tvmagic.tune.problem import Problem

__all__ = ["Candidate", "replay"]


class Candidate:
    """`{"trace": [instructions, decisions]}`, `{"module": JSON}` or `{"lowered": JSON}`; `text` tells candidates apart."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.text = json.dumps(self.data, sort_keys=True)

    @staticmethod
    def of_trace(trace: Any) -> Candidate:
        """The candidate of a trace, or of its JSON."""
        return Candidate({"trace": trace.as_json() if hasattr(trace, "as_json") else trace})

    @staticmethod
    def of_module(mod: IRModule, lowered: bool = False) -> Candidate:
        """The candidate of a scheduled module, which may be lowered already."""
        return Candidate({"lowered" if lowered else "module": save_json(mod)})

    @property
    def trace(self) -> Any:
        """The JSON of its trace; None if it is a module."""
        return self.data.get("trace")

    def lower(self, problem: Problem) -> IRModule:
        """Its lowered module; `TVMagicError` if a call is refused or a pass fails."""
        if "lowered" in self.data:
            return load_json(self.data["lowered"])
        module = load_json(self.data["module"]) if "module" in self.data else replay(problem.module(), self.trace).mod
        with with_checks(problem.check_bounds):
            return lower(module, name=problem.name)


def replay(func: PrimFunc | IRModule, trace: Any) -> Schedule:
    """A fresh schedule of a program with the JSON of a trace applied; `TVMagicError` if it does not fit."""
    sch = Schedule(func, seed=1, error_render_level="none")
    try:
        from tvmagic.tir.schedule import Trace

        Trace.apply_json_to_schedule(trace, sch)
    except TVMagicError:
        raise
    except Exception as error:  # a trace from a file may hold anything
        raise TVMagicError(f"the trace does not fit: {type(error).__name__}: {error}") from error
    return sch
