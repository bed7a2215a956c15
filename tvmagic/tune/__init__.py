"""Schedules found for the user: `auto` by rules and a model of the machine, `tune_operator` by a search that measures."""

from tvmagic.tune.instant import Instant, auto, decide
from tvmagic.tune.search import Trial, Tunable, TuneResult, Workload, tune_operator
from tvmagic.tune.space import mutate, random_schedule

__all__ = [
    "Instant",
    "Trial",
    "Tunable",
    "TuneResult",
    "Workload",
    "auto",
    "decide",
    "mutate",
    "random_schedule",
    "tune_operator",
]
