"""The passes on functions, under TVM's names; each is loaded when it is first asked for.

A name such as `Simplify` makes the pass: `Simplify()(mod)` runs it.
"""

from __future__ import annotations

import importlib
from typing import Any

from tvmagic.passes import PassContext, Sequential, prim_func_pass
from tvmagic.tir.transform.config import register_options

# Where each pass is made.
_PASSES = {
    "AnnotateEntryFunc": "functions",
    "Apply": "functions",
    "ApplyLayoutTransforms": "memory.layout_transforms",
    "BF16ComputeLegalize": "expressions.bf16_legalize",
    "BindTarget": "functions",
    "CommonSubexprElimTIR": "expressions.common_subexpr_elim",
    "CompactBufferAllocation": "blocks.compact_buffer",
    "ConvertBlocksToOpaque": "blocks.convert_blocks_to_opaque",
    "ConvertForLoopsToSerial": "remove_hints",
    "ConvertThreadLoopsToSerial": "remove_hints",
    "ConvertSSA": "expressions.convert_ssa",
    "Filter": "functions",
    "FlattenBuffer": "memory.flatten_buffer",
    "HoistExpression": "loops.hoist_expression",
    "HoistIfThenElse": "loops.hoist_expression",
    "HoistedConditionals": "loops.hoist_expression",
    "HoistedLetBindings": "loops.hoist_expression",
    "InjectDoubleBuffer": "memory.inject_double_buffer",
    "InjectPermutedLayout": "threads.gpu_passes",
    "InjectPrefetch": "memory.inject_prefetch",
    "InjectSoftwarePipeline": "threads.gpu_passes",
    "InjectVirtualThread": "threads.inject_virtual_thread",
    "InstrumentBoundCheckers": "memory.bound_checkers",
    "LiftThreadBinding": "threads.lift_thread_binding",
    "LoopPartition": "loops.loop_partition",
    "LowerAutoCopy": "threads.gpu_passes",
    "LowerCrossThreadReduction": "threads.lower_cross_thread_reduction",
    "LowerInitBlock": "blocks.lower_init_block",
    "LowerIntrin": "expressions.lower_intrin",
    "LowerMatchBuffer": "blocks.lower_match_buffer",
    "LowerOpaqueBlock": "blocks.lower_opaque_block",
    "LowerThreadAllreduce": "threads.lower_thread_allreduce",
    "ManifestSharedMemoryLocalStage": "threads.gpu_passes",
    "NarrowDataType": "expressions.narrow_datatype",
    "PlanAndUpdateBufferAllocationLocation": "blocks.plan_buffer_location",
    "RemoveAssume": "remove_hints",
    "RemoveNoOp": "expressions.remove_no_op",
    "RemoveStoreUndef": "remove_hints",
    "RenormalizeSplitPattern": "expressions.renormalize_split_pattern",
    "RewriteUnsafeSelect": "expressions.rewrite_unsafe_select",
    "Simplify": "expressions.simplify",
    "SkipAssert": "remove_hints",
    "StorageFlatten": "memory.storage_flatten",
    "StorageRewrite": "memory.storage_rewrite",
    "TextureFlatten": "memory.inject_prefetch",
    "ThreadSync": "threads.thread_sync",
    "ThreadsAsLoops": "threads.threads_as_loops",
    "UnifyThreadBinding": "threads.unify_thread_binding",
    "UnrollLoop": "loops.unroll_loop",
    "VectorizeLoop": "loops.vectorize_loop",
}

register_options()


def __getattr__(name: str) -> Any:
    if name in _PASSES:
        value = getattr(importlib.import_module(f"tvmagic.tir.transform.{_PASSES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module `tvmagic.tir.transform` has no name `{name}`")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PASSES])


__all__ = ["PassContext", "Sequential", "prim_func_pass", *_PASSES]  # pyright: ignore[reportUnsupportedDunderAll]
