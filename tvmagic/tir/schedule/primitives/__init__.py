"""The primitives of a TensorIR schedule, one file a family."""

from tvmagic.tir.schedule.primitives import annotate, cache, get, inline, loops, reduction, storage

__all__ = ["annotate", "cache", "get", "inline", "loops", "reduction", "storage"]
