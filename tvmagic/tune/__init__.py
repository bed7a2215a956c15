"""Search for schedules: `tune_operator` measures candidates, `load` returns the results of earlier searches."""

from tvmagic.auto import Instant, auto, decide  # names of 0.1.0
from tvmagic.tune.database import Database, Entry
from tvmagic.tune.loading import load
from tvmagic.tune.model import CostModel, rank_correlation
from tvmagic.tune.mutate import mutate
from tvmagic.tune.search import Trial, TuneResult, tune_operator
from tvmagic.tune.space import random_schedule

__all__ = [
    "CostModel", "Database", "Entry", "Instant", "Trial", "TuneResult", "auto", "decide", "load", "mutate",
    "random_schedule", "rank_correlation", "tune_operator",
]  # fmt: skip
