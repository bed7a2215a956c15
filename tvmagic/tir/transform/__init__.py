"""The passes on functions, under TVM's names; each is loaded when it is first asked for.

A name such as `Simplify` makes the pass: `Simplify()(mod)` runs it.
"""

from __future__ import annotations

import importlib
from typing import Any as _Any

from tvmagic.passes import PassContext, Sequential, prim_func_pass
from tvmagic.tir.transform.config import register_options

# Where each pass is made.
_PASSES = {
    "AnnotateEntryFunc": "functions",
    "Apply": "functions",
    "ApplyLayoutTransforms": "layout_transforms",
    "BF16ComputeLegalize": "bf16_legalize",
    "BindTarget": "functions",
    "CommonSubexprElimTIR": "common_subexpr_elim",
    "CompactBufferAllocation": "compact_buffer",
    "ConvertBlocksToOpaque": "convert_blocks_to_opaque",
    "ConvertForLoopsToSerial": "remove_hints",
    "ConvertThreadLoopsToSerial": "remove_hints",
    "ConvertSSA": "convert_ssa",
    "Filter": "functions",
    "FlattenBuffer": "flatten_buffer",
    "HoistExpression": "hoist_expression",
    "HoistIfThenElse": "hoist_expression",
    "HoistedConditionals": "hoist_expression",
    "HoistedLetBindings": "hoist_expression",
    "InjectDoubleBuffer": "inject_double_buffer",
    "InjectPermutedLayout": "gpu_passes",
    "InjectPrefetch": "inject_prefetch",
    "InjectSoftwarePipeline": "gpu_passes",
    "InjectVirtualThread": "inject_virtual_thread",
    "InstrumentBoundCheckers": "bound_checkers",
    "LiftThreadBinding": "lift_thread_binding",
    "LoopPartition": "loop_partition",
    "LowerAutoCopy": "gpu_passes",
    "LowerCrossThreadReduction": "lower_cross_thread_reduction",
    "LowerInitBlock": "lower_init_block",
    "LowerIntrin": "lower_intrin",
    "LowerMatchBuffer": "lower_match_buffer",
    "LowerOpaqueBlock": "lower_opaque_block",
    "LowerThreadAllreduce": "lower_thread_allreduce",
    "ManifestSharedMemoryLocalStage": "gpu_passes",
    "NarrowDataType": "narrow_datatype",
    "PlanAndUpdateBufferAllocationLocation": "plan_buffer_location",
    "RemoveAssume": "remove_hints",
    "RemoveNoOp": "remove_no_op",
    "RemoveStoreUndef": "remove_hints",
    "RenormalizeSplitPattern": "renormalize_split_pattern",
    "RewriteUnsafeSelect": "rewrite_unsafe_select",
    "Simplify": "simplify",
    "SkipAssert": "remove_hints",
    "StorageFlatten": "storage_flatten",
    "StorageRewrite": "storage_rewrite",
    "TextureFlatten": "inject_prefetch",
    "ThreadSync": "thread_sync",
    "ThreadsAsLoops": "threads_as_loops",
    "UnifyThreadBinding": "unify_thread_binding",
    "UnrollLoop": "unroll_loop",
    "VectorizeLoop": "vectorize_loop",
}

register_options()


def __getattr__(name: str) -> _Any:
    if name in _PASSES:
        value = getattr(importlib.import_module(f"tvmagic.tir.transform.{_PASSES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module `tvmagic.tir.transform` has no name `{name}`")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PASSES])


__all__ = ["PassContext", "Sequential", "prim_func_pass", *_PASSES]  # pyright: ignore[reportUnsupportedDunderAll]
