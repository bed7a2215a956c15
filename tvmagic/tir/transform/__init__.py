"""The passes on functions, under TVM's names; each is loaded when it is first asked for.

A name such as `Simplify` makes the pass: `Simplify()(mod)` runs it.
"""

from __future__ import annotations

import importlib
from typing import Any

from tvmagic.passes import PassContext, Sequential, prim_func_pass
from tvmagic.tir.transform import config

# Where each pass is made: one file a pass.
_PASSES = {
    "ApplyLayoutTransforms": "layout_transforms",
    "BF16ComputeLegalize": "bf16_legalize",
    "CommonSubexprElimTIR": "common_subexpr_elim",
    "CompactBufferAllocation": "compact_buffer",
    "ConvertBlocksToOpaque": "convert_blocks_to_opaque",
    "ConvertSSA": "convert_ssa",
    "FlattenBuffer": "flatten_buffer",
    "HoistExpression": "hoist_expression",
    "HoistIfThenElse": "hoist_expression",
    "HoistedConditionals": "hoist_expression",
    "HoistedLetBindings": "hoist_expression",
    "InjectDoubleBuffer": "inject_double_buffer",
    "InjectPrefetch": "inject_prefetch",
    "InjectVirtualThread": "inject_virtual_thread",
    "InstrumentBoundCheckers": "bound_checkers",
    "LiftThreadBinding": "lift_thread_binding",
    "LoopPartition": "loop_partition",
    "LowerInitBlock": "lower_init_block",
    "LowerMatchBuffer": "lower_match_buffer",
    "LowerOpaqueBlock": "lower_opaque_block",
    "NarrowDataType": "narrow_datatype",
    "PlanAndUpdateBufferAllocationLocation": "plan_buffer_location",
    "RemoveNoOp": "remove_no_op",
    "RenormalizeSplitPattern": "renormalize_split_pattern",
    "RewriteUnsafeSelect": "rewrite_unsafe_select",
    "Simplify": "simplify",
    "StorageFlatten": "storage_flatten",
    "StorageRewrite": "storage_rewrite",
    "TextureFlatten": "inject_prefetch",
    "UnrollLoop": "unroll_loop",
    "VectorizeLoop": "vectorize_loop",
}


def __getattr__(name: str) -> Any:
    if name in _PASSES:
        value = getattr(importlib.import_module(f"tvmagic.tir.transform.{_PASSES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module `tvmagic.tir.transform` has no name `{name}`")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PASSES])


__all__ = ["PassContext", "Sequential", "prim_func_pass", *_PASSES]
