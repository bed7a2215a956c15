"""Search over schedules of an operator: `tune_operator` measures recorded traces and keeps the best."""

from tvmagic.tune.search import Trial, Tunable, TuneResult, Workload, tune_operator
from tvmagic.tune.space import mutate, random_schedule

__all__ = ["Trial", "Tunable", "TuneResult", "Workload", "mutate", "random_schedule", "tune_operator"]
