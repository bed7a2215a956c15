"""Names that code written for TVM uses are at the same places."""

import importlib
import pathlib
import re
from typing import Any

NAMES = pathlib.Path(__file__).parents[1] / "golden" / "tvm_names.txt"
# sections whose names are of objects and frames, tested where those are
ELSEWHERE = {"methods", "attrs"}
MISSING: dict[str, str] = {
    "T.op": "a tensor called T, no name of TVMScript",
    "T.op.axis": "a tensor called T",
    "tvm.script.tir": "the place of the section T",
    "tir.transform.MakePackedAPI": "for TVM's C runtime, which is not here",
    "tir.transform.LowerTVMBuiltin": "for TVM's C runtime, which is not here",
}


def names() -> list[str]:
    found, section = [], ""
    for line in NAMES.read_text().splitlines():
        header = re.fullmatch(r"\[(.+)\]", line)
        if header:
            section = header[1]
        elif section not in ELSEWHERE and not line.startswith("#"):
            found += [name for name, _ in re.findall(r"([\w.]+) (\d+)", line)]
    return found


def resolved(name: str) -> Any:
    place = {"T": "script.tir", "I": "script.ir"}
    first, _, rest = name.partition(".")
    path = f"tvmagic.{place.get(first, first)}" + (f".{rest}" if rest else "")
    parts = path.split(".")
    value = importlib.import_module("tvmagic")
    for part in parts[1:]:
        value = getattr(value, part)
    return value


def test_names_are_where_tvm_has_them() -> None:
    missing = []
    for name in names():
        try:
            resolved(name)
        except (AttributeError, ImportError):
            missing.append(name)
    assert len(names()) > 500 and sorted(missing) == sorted(MISSING)


# What TVM 0.19 offers in these two modules, and why what is absent here is.
PASSES = """
    AnnotateDeviceRegions AnnotateEntryFunc Apply ApplyLayoutTransforms BF16ComputeLegalize BF16StorageLegalize BindTarget
    CoProcSync CombineContextCall CommonSubexprElimTIR CompactBufferAllocation ConvertBlocksToOpaque ConvertForLoopsToSerial
    ConvertSSA DefaultGPUSchedule ExtractPrimFuncConstants FP8ComputeLegalize FP8StorageLegalize Filter FlattenBuffer
    ForceNarrowIndexToInt32 HoistExpression HoistIfThenElse HoistedConditionals HoistedLetBindings InferFragment
    InjectCopyIntrin InjectDoubleBuffer InjectPTXAsyncCopy InjectPTXLDG32 InjectPermutedLayout InjectPrefetch
    InjectRollingBuffer InjectSoftwarePipeline InjectVirtualThread InlinePrivateFunctions InstrumentBoundCheckers
    InstrumentProfileIntrinsics LegalizePackedCalls LiftAttrScope LiftThreadBinding LoopPartition LowerAsyncDMA
    LowerAutoCopy LowerCrossThreadReduction LowerCustomDatatypes LowerDeviceKernelLaunch LowerDeviceStorageAccessInfo
    LowerInitBlock LowerIntrin LowerMatchBuffer LowerOpaqueBlock LowerTVMBuiltin LowerThreadAllreduce LowerWarpMemory
    MakePackedAPI MakeUnpackedAPI ManifestSharedMemoryLocalStage MergeSharedMemoryAllocations NarrowDataType
    PlanAndUpdateBufferAllocationLocation PointerValueTypeRewrite PrimFuncPass ReduceBranchingThroughOvercompute
    RemoveAssume RemoveNoOp RemoveStoreUndef RemoveWeightLayoutRewriteBlock RenormalizeSplitPattern RewriteUnsafeSelect
    Simplify SkipAssert SplitHostDevice StorageFlatten StorageRewrite TextureFlatten ThreadSync TransformMmaBufferLayout
    UnifyThreadBinding UnrollLoop UseAssumeToReduceBranches VectorizeLoop VerifyMemory VerifyVTCMLimit prim_func_pass
"""
ANALYSES = """
    OOBChecker apply_prim_func_arg_and_result_memory_constraints assert_pure_function calculate_allocated_bytes
    calculate_constant_bytes calculate_workspace_bytes detect_buffer_access_lca estimate_tir_flops expr_deep_equal
    find_anchor_block get_block_access_region get_block_read_write_region get_prim_func_arg_and_result_memory_constraints
    get_vtcm_compaction_passes is_pure_function undefined_vars verify_gpu_code verify_memory verify_ssa verify_well_formed
"""
GPU = "for TVM's runtime of GPUs; kernels here are made from the whole function, and use plain memory"
OTHER = "for an accelerator or a memory that has no code here"
RELAY = "for Relay and Relax, which are not here"
RUNTIME = "for TVM's C runtime, which is not here"
ABSENT = {
    **dict.fromkeys(("MakePackedAPI", "MakeUnpackedAPI", "LowerTVMBuiltin", "LegalizePackedCalls"), RUNTIME),
    **dict.fromkeys(("ReduceBranchingThroughOvercompute", "UseAssumeToReduceBranches", "InlinePrivateFunctions",), RELAY),
    **dict.fromkeys(("VerifyMemory",), OTHER),
    **dict.fromkeys(("is_pure_function", "assert_pure_function", "calculate_allocated_bytes", "calculate_constant_bytes", "calculate_workspace_bytes",), RELAY),
    **dict.fromkeys(("verify_gpu_code", "verify_memory",), OTHER),
    **dict.fromkeys(("RemoveWeightLayoutRewriteBlock", "ExtractPrimFuncConstants",), RELAY),
    **dict.fromkeys(("MergeSharedMemoryAllocations", "InjectCopyIntrin", "LowerDeviceStorageAccessInfo", "VerifyVTCMLimit",), OTHER),
    "get_vtcm_compaction_passes": OTHER,
    **dict.fromkeys(("InjectPermutedLayout", "InferFragment", "LowerWarpMemory", "InjectPTXAsyncCopy",), "instructions of NVIDIA's GPUs; threads here use plain memory"),
    **dict.fromkeys(("DefaultGPUSchedule",), "bind loops by a schedule, or let auto.auto do it"),
    **dict.fromkeys(("AnnotateDeviceRegions", "SplitHostDevice", "LowerDeviceKernelLaunch", "CombineContextCall", "LiftAttrScope", "InjectPTXLDG32",), GPU),
    "ForceNarrowIndexToInt32": "NarrowDataType(32) narrows what fits",
    **dict.fromkeys(("TransformMmaBufferLayout",), GPU),
    **dict.fromkeys(
        (
            "CoProcSync", "LowerAsyncDMA", "LowerCustomDatatypes",
        ),
        OTHER,
    ),
    **dict.fromkeys(
        (
            "apply_prim_func_arg_and_result_memory_constraints", "get_prim_func_arg_and_result_memory_constraints",
        ),
        RELAY,
    ),
}  # fmt: skip


def test_passes_and_analyses_of_tvm() -> None:
    """Each is here, or its absence has a reason; one that is added leaves the list."""
    from tvmagic.tir import analysis, transform

    missing = [name for name in PASSES.split() if not hasattr(transform, name)]
    missing += [name for name in ANALYSES.split() if not hasattr(analysis, name)]
    assert sorted(missing) == sorted(ABSENT)
