"""Iterator maps: indices as sums of splits of iterators, and what follows from that form."""

from tvmagic.arith.iter_map.detect import (
    detect_iter_map,
    iter_map_simplify,
    iter_map_simplify_with_context,
    normalize_to_iter_sum,
)
from tvmagic.arith.iter_map.expr import (
    IterMapExpr,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
)
from tvmagic.arith.iter_map.inverse import inverse_affine_iter_map, inverse_of_injective
from tvmagic.arith.iter_map.normalize import normalize_iter_map_to_expr
from tvmagic.arith.iter_map.subspace import subspace_divide

__all__ = [
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "detect_iter_map",
    "inverse_affine_iter_map",
    "inverse_of_injective",
    "iter_map_simplify",
    "iter_map_simplify_with_context",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "subspace_divide",
]
