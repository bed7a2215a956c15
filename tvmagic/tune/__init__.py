"""Search over schedules of an operator: `tune_operator` measures recorded traces and keeps the best; `load` finds them again."""

from tvmagic.tune.database import Database, Entry
from tvmagic.tune.loading import load
from tvmagic.tune.model import CostModel, rank_correlation
from tvmagic.tune.mutate import mutate
from tvmagic.tune.search import Trial, TuneResult, tune_operator
from tvmagic.tune.space import random_schedule

__all__ = [
    "CostModel", "Database", "Entry", "Trial", "TuneResult", "load", "mutate", "random_schedule", "rank_correlation",
    "tune_operator",
]  # fmt: skip
