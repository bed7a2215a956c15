"""The primitives of a TensorIR schedule, one file a family."""

from tvmagic.tir.schedule.primitives import annotate, cache, compute_at, get, inline, layout, loops, reduction, storage

__all__ = ["annotate", "cache", "compute_at", "get", "inline", "layout", "loops", "reduction", "storage"]
