"""The options of lowering by the keys that `PassContext(config=...)` takes; `@tir_pass` adds those of single passes."""

from __future__ import annotations

FLAGS = {
    "te.tight_split": "end inner loops of splits that do not divide where the parent ends, without a guard",
    "te.exact_unions": "stages at the root compute only the elements that are read, not the box around them",
    "te.keep_schedule_record": "schedules of tensor expressions keep their calls",
    "tir.disable_vectorize": "leave vectorized loops as serial loops",
    "tir.disable_storage_rewrite": "leave out StorageRewrite",
    "tir.disable_assert": "leave assertions out of the compiled code",
    "tir.disable_cse_tir": "leave out CommonSubexprElimTIR",
    "tir.enable_equiv_terms_in_cse_tir": "find terms that are equal after simplification, too",
    "tir.enable_buffer_level_predication": "mask loads and stores in place of a loop over the lanes",
    "tir.instrument_bound_checkers": "check every access against the bounds of its buffer",
    "tir.check_bounds": "check each index that is not proved to be inside its dimension",
    "tir.debug_keep_trivial_loop": "keep loops of one iteration that a TE schedule asks for",
    "tir.noalias": "promise that no two arguments overlap",
    "tir.lwp_disable_func_prof": "InstrumentProfileIntrinsics leaves whole functions unmarked",
    "tir.lwp_max_depth": "the depth down to which it marks all loops, if `tir.instr_siblings` is off",
    "tir.lwp_min_height": "the least number of nested loops in a loop that it marks",
    "tir.instr_siblings": "it marks only loops beside others",
    "tir.reset_start_id": "it numbers functions and loops from 0",
    "tir.instrument_lwp": "put InstrumentProfileIntrinsics at the end of lowering",
    "tir.merge_static_smem": "StorageRewrite shares no memory between buffers",
    "tir.add_lower_pass": "pairs (phase, pass) of passes to run at the end of phases 0 to 3",
}
