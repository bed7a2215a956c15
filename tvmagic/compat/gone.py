"""Names of version 0.1 that were removed: what each did, and why programs here do without it.

`instead` adds the sentence to the message of the `AttributeError`. Whole modules that were removed are in `absent`.
"""

from __future__ import annotations

# sentence: names
_PASSES = {
    "it prepared a function for calls by TVM's C runtime. `build` compiles and calls functions without that runtime":
        "MakePackedAPI MakeUnpackedAPI LowerTVMBuiltin LegalizePackedCalls",
    "it made the host's or the device's half of a program for TVM's runtime of GPUs. `%asm` and `--check --target` make"
    " kernels from the whole function":
        "AnnotateDeviceRegions SplitHostDevice LowerDeviceKernelLaunch CombineContextCall LiftAttrScope InjectPTXLDG32",
    "it bound the loops of each block to threads. `sch.bind` binds a loop, `auto.auto` decides which":
        "DefaultGPUSchedule",
    "it wrote for the tensor cores and the warps of NVIDIA's GPUs. Kernels here use plain memory, and lower"
    " without it":
        "InjectPermutedLayout InferFragment LowerWarpMemory InjectPTXAsyncCopy",
    "it arranged memory for an accelerator or a GPU: shared, special or Hexagon's memory. Kernels here"
    " allocate each buffer":
        "MergeSharedMemoryAllocations InjectCopyIntrin LowerDeviceStorageAccessInfo VerifyVTCMLimit",
    "it gathered constants or weights of networks for Relay. Constants here stay where the function has them":
        "RemoveWeightLayoutRewriteBlock ExtractPrimFuncConstants",
    "it checked that only threads access a GPU's memory. `--check --target` compiles and runs the kernel":
        "VerifyMemory",
    "it rewrote functions that Relay and Relax made of networks. Functions here are written without padding"
    " and calls":
        "ReduceBranchingThroughOvercompute UseAssumeToReduceBranches InlinePrivateFunctions",
    "it counted every index in 32 bits, whether it fits or not. `tir.transform.NarrowDataType(32)` narrows the indices"
    " whose bounds allow it":
        "ForceNarrowIndexToInt32",
}  # fmt: skip
_ANALYSES = {
    "it listed the passes that pack Hexagon's memory. Call `tir.transform.CompactBufferAllocation` and `StorageRewrite`":
        "get_vtcm_compaction_passes",
    "it checked a function against the limits of a GPU. `--check --target` compiles and runs it as OpenCL C"
    " or PTX":
        "verify_gpu_code verify_memory",
    "it told pure functions and counted bytes for planners of networks. `%why` and `--cost` count what a"
    " program does":
        "is_pure_function assert_pure_function calculate_allocated_bytes calculate_constant_bytes calculate_workspace_bytes",
}  # fmt: skip
_SOLVED = (
    "it solved systems of linear equations and inequalities. Programs here ask `arith.detect_iter_map`,"
    " `arith.deduce_bound` and `arith.Analyzer`"
)
_NARROWED = (
    "it removed variables from a condition. The pass that knows the contents of buffers has its own rules, and programs here ask"
    " `arith.Analyzer`"
)
_SOLVERS = {
    _SOLVED:
        "IntConstraints IntConstraintsTransform IntGroupBounds solve_linear_equations solve_linear_inequalities",
    "it counted the computations that occur several times in an expression. The pass `CommonSubexprElimTIR` finds them":
        "detect_common_subexpr",
    _NARROWED:
        "narrow_predicate_expression",
}  # fmt: skip
_SOLVERS_BY_FFI = {
    _SOLVED: "SolveInequalitiesAsCondition SolveLinearEquations",
    _NARROWED: "NarrowPredicateExpression",
}
_CHECKS = {
    "it checked the solution of a system of equations. There are no solvers here": "check_int_constraints_trans_consistency",
}
_OF_MODULE = {
    "tvmagic.arith": _SOLVERS,
    "tvmagic.arith._ffi_api": _SOLVERS_BY_FFI,
    "tvmagic.testing": _CHECKS,
    "tvmagic.tir.analysis": _ANALYSES,
    "tvmagic.tir.transform": _PASSES,
}
GONE: dict[str, dict[str, str]] = {
    module: {name: text for text, names in table.items() for name in names.split()}
    for module, table in _OF_MODULE.items()
}
