"""What can be proved: bounds, modular sets, simplification, integer sets, iterator maps.

Names are loaded when they are first used; see `_EXPORTS`.
"""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic import find_name as _find_name
from tvmagic.arith import int_set_eval as _int_set_eval  # it attaches methods  # pyright: ignore[reportUnusedImport]

# where each public name is defined
_EXPORTS: dict[str, str] = {
    "Analyzer": "tvm_analyzer",
    "CompareResult": "transitive",
    "ConstraintScope": "analyzer",
    "Extension": "extension",
    "ProofStrength": "extension",
    "ConstIntBound": "const_int_bound",
    "ModularSet": "modular_set",
    "observe_rules": "rewrite",
}

# integer sets, iterator maps, index maps
_SETS_AND_MAPS: dict[str, str] = {
    "int_set": "IntSet IntervalSet SymbolicLimits as_int_set intersect neg_inf pos_inf union union_lower_bound"
    " union_region union_region_lower_bound",
    "int_set_eval": "eval_set eval_set_for_each_sub_expr eval_sets",
    "domain_touched": "DomainTouched",
    "iter_map": "IterMapExpr IterMapLevel IterMapResult IterMark IterSplitExpr IterSumExpr detect_iter_map"
    " inverse_affine_iter_map iter_map_simplify iter_map_simplify_with_context normalize_iter_map_to_expr"
    " normalize_to_iter_sum subspace_divide",
    "index_map": "IndexMap",
    "linear": "detect_clip_bound detect_linear_equation",
    "bound": "deduce_bound",
    "strided_sets": "BoxUnion StrideSet eval_stride_set exact_union",
    "region_bounds": "estimate_region_lower_bound estimate_region_strict_bound estimate_region_upper_bound",
}
_EXPORTS.update({name: module for module, names in _SETS_AND_MAPS.items() for name in names.split()})
_SUBMODULES = frozenset(("analyzer", "int_set"))


def __getattr__(name: str) -> _Any:
    module = _EXPORTS.get(name)
    if name in _SUBMODULES:
        return importlib.import_module(f"tvmagic.arith.{name}")
    if module is None:
        return _find_name("tvmagic.arith", name)
    value = getattr(importlib.import_module(f"tvmagic.arith.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
