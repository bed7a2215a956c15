"""Indices of 64 bits where a target has them, and a refusal where it has not."""

from __future__ import annotations

from tvmagic.ir import IRModule
from tvmagic.target import Target
from tvmagic.tir.transform.expressions.widen_index import WidenIndexDataType, refuse_wide_indices


def widen_indices(mod: IRModule, target: Target) -> IRModule:
    """Return the module with indices in int64 where int32 is too small. Pointers of 32 bits, and kernels, have int32 only."""
    if target.has_kernels or not target.family.calls_process:
        refuse_wide_indices(mod, target)
    return mod if target.has_kernels else WidenIndexDataType()(mod)
