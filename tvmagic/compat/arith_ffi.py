"""Names that TVM's users reach at `arith._ffi_api`."""

from typing import NoReturn as _NoReturn

from tvmagic import advice as _advice
from tvmagic.arith.bound import deduce_bound as DeduceBound
from tvmagic.arith.const_int_bound import ConstIntBound
from tvmagic.arith.domain_touched import DomainTouched
from tvmagic.arith.int_set import IntervalSet, IntSet
from tvmagic.arith.int_set import neg_inf as NegInf
from tvmagic.arith.int_set import pos_inf as PosInf
from tvmagic.arith.int_set import union_lower_bound as UnionLowerBound
from tvmagic.arith.int_set_eval import eval_set as EvalSet
from tvmagic.arith.iter_map import detect_iter_map as DetectIterMap
from tvmagic.arith.linear import detect_clip_bound as DetectClipBound
from tvmagic.arith.linear import detect_linear_equation as DetectLinearEquation
from tvmagic.arith.modular_set import ModularSet
from tvmagic.arith.region_bounds import estimate_region_lower_bound as EstimateRegionLowerBound
from tvmagic.arith.region_bounds import estimate_region_strict_bound as EstimateRegionStrictBound
from tvmagic.arith.region_bounds import estimate_region_upper_bound as EstimateRegionUpperBound

__all__ = [
    "ConstIntBound", "DeduceBound", "DetectClipBound", "DetectIterMap", "DetectLinearEquation", "DomainTouched",
    "EstimateRegionLowerBound", "EstimateRegionStrictBound", "EstimateRegionUpperBound", "EvalSet", "IntSetIsEverything",
    "IntSetIsNothing", "IntervalSet", "ModularSet", "NegInf", "PosInf",
    "UnionLowerBound", "intset_interval", "intset_single_point",
    "intset_vector",
]  # fmt: skip

intset_vector, intset_single_point, intset_interval = IntSet.vector, IntSet.single_point, IntSet.interval
IntSetIsNothing, IntSetIsEverything = IntSet.is_nothing, IntSet.is_everything


def __getattr__(name: str) -> _NoReturn:
    raise AttributeError(
        f"module `tvmagic.arith._ffi_api` has no name `{name}`{_advice('tvmagic.arith._ffi_api', name)}"
    )
