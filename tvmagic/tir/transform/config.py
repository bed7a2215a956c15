"""The options of schedules and passes, by the keys that `PassContext(config=...)` takes; those of TVM by its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.passes import PassContext

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
    "tir.merge_static_smem": "merge allocations of shared memory",
    "tir.add_lower_pass": "pairs (phase, pass) of passes to run at the end of phases 0 to 3",
    "tir.UnrollLoop": "options of UnrollLoop by name",
    "tir.LoopPartition": "options of LoopPartition by name",
    "tir.Simplify": "options of Simplify by name",
    "tir.RemoveNoOp": "options of RemoveNoOp by name",
    "tir.InjectDoubleBuffer": "options of InjectDoubleBuffer by name",
    "tir.HoistIfThenElse": "options of HoistIfThenElse by name",
    "tir.HoistExpression": "options of HoistExpression by name",
}


def register_options() -> None:
    """Make the options known to `PassContext`."""
    for key, text in FLAGS.items():
        PassContext.register_config_option(key, text)


def pass_options(context: PassContext, key: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one pass: those given under `key` in the context, else `defaults`.

    Raises `TVMagicError` for an option that the pass does not have.
    """
    given: Mapping[str, Any] = context.config.get(key) or {}
    unknown = [name for name in given if name not in defaults]
    if unknown:
        raise TVMagicError(
            f"`{key}` has no option `{unknown[0]}`", hint="its options are " + ", ".join(f"`{d}`" for d in defaults)
        )
    return {name: getattr(given.get(name, value), "value", given.get(name, value)) for name, value in defaults.items()}
