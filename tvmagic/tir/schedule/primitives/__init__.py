"""The primitives of a TensorIR schedule, one file a family."""

from tvmagic.tir.schedule.primitives import (
    access,
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
    sampling,
    storage,
)

__all__ = [
    "access",
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
    "sampling",
    "storage",
]
