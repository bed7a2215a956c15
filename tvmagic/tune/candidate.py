"""A schedule as it travels to a worker: the trace of its calls as JSON, or what was made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvmagic.driver import lower, with_checks
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc, load_json, save_json
from tvmagic.operators.operator import Version
from tvmagic.tir.schedule import Schedule, Trace
from tvmagic.tune.mutate import changed
from tvmagic.tune.space import random_schedule
from tvmagic.tune.variants import variant

if TYPE_CHECKING:
    from tvmagic.tune.problem import Problem


class Candidate:
    """A schedule as JSON, in one of several forms; `text` tells candidates apart.

    `{"trace": [instructions, decisions]}`; `{"lowered": JSON}`, a module for what has no trace; or what a worker makes
    the trace of: `{"random": seed, "width": bytes of a vector}`, a new structure; `{"variant": seed}`, the instant schedule
    for another description of the machine; `{"change": seed, "of": trace}`, a trace with changes that fit the program.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.text = json.dumps(self.data, sort_keys=True)
        self.schedule: Schedule | None = None  # of the trace, if it was made here

    @staticmethod
    def of_trace(trace: Any) -> Candidate:
        """The candidate of a trace, or of its JSON."""
        return Candidate({"trace": trace.as_json() if hasattr(trace, "as_json") else trace})

    @staticmethod
    def of_seed(seed: int, width: int) -> Candidate:
        """A schedule by the rules, made by the worker that looks at it first."""
        return Candidate({"random": seed, "width": width})

    @staticmethod
    def of_variant(seed: int) -> Candidate:
        """A variant of the instant schedule, made by the worker that looks at it first."""
        return Candidate({"variant": seed})

    @staticmethod
    def of_change(trace: Any, seed: int) -> Candidate:
        """A trace with changes, which the worker that looks at it first draws until they fit."""
        return Candidate({"change": seed, "of": trace})

    @staticmethod
    def of_version(version: Version) -> Candidate:
        """A version of an operator as it is: by its trace, if it has one."""
        schedule = version.schedule
        if isinstance(schedule, Schedule) and schedule.trace.insts:
            return Candidate.of_trace(schedule.trace)
        with with_checks(version.operator.checks_accesses):
            return Candidate({"lowered": save_json(version.operator.lower(schedule))})

    @property
    def trace(self) -> Any:
        """The JSON of its trace; None if it has none, or before a worker made it."""
        return self.data.get("trace")

    @property
    def is_seed(self) -> bool:
        """Whether a worker has to make its trace, which may turn out to be one that is known."""
        return "trace" not in self.data and "lowered" not in self.data

    def made(self, problem: Problem) -> Candidate:
        """The candidate with its trace; `TVMagicError` if none can be made."""
        if not self.is_seed:
            return self
        module = problem.module()
        if "random" in self.data:
            schedule = random_schedule(module, self.data["random"], self.data["width"])
        elif "variant" in self.data:
            schedule = variant(module, problem.code_target.machine, self.data["variant"])
        else:
            schedule = changed(self.data["of"], self.data["change"], lambda trace: replay(module, trace))
        made = Candidate.of_trace(schedule.trace.simplified(remove_postproc=False))
        made.schedule = schedule
        return made

    def lower(self, problem: Problem) -> IRModule:
        """Its lowered module; `TVMagicError` if a call is refused or a pass fails."""
        if "lowered" in self.data:
            return load_json(self.data["lowered"])
        with with_checks(problem.check_bounds):
            schedule = self.schedule or replay(problem.module(), self.trace)
            return lower(schedule.mod, name=problem.name)


def replay(func: PrimFunc | IRModule, trace: Any) -> Schedule:
    """A fresh schedule of a program with the JSON of a trace applied; `TVMagicError` if it does not fit."""
    sch = Schedule(func, seed=1, error_render_level="none")
    try:
        Trace.apply_json_to_schedule(trace, sch)
    except TVMagicError:
        raise
    except Exception as error:  # a trace from a file may hold anything
        raise TVMagicError(
            f"the trace does not fit: {type(error).__name__}: {error}", code="tune.trace_does_not_fit"
        ) from error
    return sch
