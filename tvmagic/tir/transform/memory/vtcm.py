"""VerifyVTCMLimit: Hexagon's small fast memory, and the passes that show how much of it a program needs."""

from __future__ import annotations

import importlib
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.passes import Pass, PassContext
from tvmagic.tir.transform.declaration import PASSES, tir_pass

_SCOPE = "global.vtcm"
_COMPACTION = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "CompactBufferAllocation",
    "LowerMatchBuffer",
    "InjectSoftwarePipeline",
    "LowerOpaqueBlock",
    "FlattenBuffer",
    "Simplify",
    "VectorizeLoop",
    "StorageRewrite",
)


@tir_pass("tir.VerifyVTCMLimit")
def VerifyVTCMLimit(mod: IRModule, context: PassContext, default_target: Any = None) -> IRModule:
    """Refuse functions that allocate more memory `global.vtcm` at one time than there is.

    How much there is says the option `vtcm-capacity` of the function's target (or of `default_target`), in bytes, or
    `tir.vtcm_capacity` in the context; 0 for no limit. Raises `TVMagicError`.
    """
    for var, func in mod.functions.items():
        limit = _limit(func, default_target, context)
        allocated = _allocated(func) if limit > 0 else 0
        if allocated > limit:
            raise TVMagicError(
                f"The {_SCOPE} memory allocation limit has been exceeded in `{var.name_hint}` "
                f"(allocated: {allocated}, limit: {limit})",
                hint="compute in smaller tiles",
            )
    return mod


def _limit(func: PrimFunc, default_target: Any, context: PassContext) -> int:
    target = func.attrs.get("target", default_target)
    if target is None:
        return 0
    return int(getattr(target, "attrs", {}).get("vtcm-capacity", 0)) or int(context.option("tir.vtcm_capacity", 0))


def _allocated(func: PrimFunc) -> int:
    from tvmagic.tir.analysis.purity import calculate_allocated_bytes

    return int(calculate_allocated_bytes(func)["main"].get(_SCOPE, 0))


def get_vtcm_compaction_passes() -> list[Pass]:
    """The passes behind which `calculate_allocated_bytes` finds how much memory a TensorIR function needs at one time."""
    importlib.import_module("tvmagic.tir.transform").all_passes()
    return [PASSES[name]() for name in _COMPACTION]
