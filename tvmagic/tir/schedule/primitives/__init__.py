"""The primitives of a TensorIR schedule, one file a family."""

from tvmagic.tir.schedule.primitives import (
    annotate,
    blockize,
    cache,
    compute_at,
    get,
    inline,
    layout,
    loops,
    padding,
    partition,
    reduction,
    reindex,
    rfactor,
    storage,
)

__all__ = [
    "annotate",
    "blockize",
    "cache",
    "compute_at",
    "get",
    "inline",
    "layout",
    "loops",
    "padding",
    "partition",
    "reduction",
    "reindex",
    "rfactor",
    "storage",
]
