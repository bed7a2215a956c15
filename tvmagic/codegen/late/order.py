"""The order of the late passes."""

from __future__ import annotations

from functools import partial

from tvmagic.codegen.late.annotate_loops import annotate_loops
from tvmagic.codegen.late.keep_scalar_loops import keep_scalar_loops
from tvmagic.codegen.late.legalize_masks import legalize_masks
from tvmagic.codegen.late.lower_bool_max import lower_bool_max
from tvmagic.codegen.late.lower_identity_elements import lower_identity_elements
from tvmagic.codegen.late.lower_launches import lower_launches
from tvmagic.codegen.late.narrow_integers import narrow_integers
from tvmagic.codegen.late.place_allocations import place_allocations
from tvmagic.codegen.late.promote_min_max import promote_min_max
from tvmagic.codegen.late.share_strided_loads import share_strided_loads
from tvmagic.codegen.late.simplify_arg_reduce import simplify_arg_reduce
from tvmagic.codegen.late.speculate_loads import speculate_loads
from tvmagic.codegen.late.split_index_set import split_index_set
from tvmagic.codegen.late.split_kernels import split_kernels
from tvmagic.codegen.late.split_vectors import split_vectors
from tvmagic.codegen.late.strip_mine_for_interrupt import strip_mine_for_interrupt
from tvmagic.codegen.late.vectorize_interleaved_stores import vectorize_interleaved_stores
from tvmagic.codegen.late.version_guarded_loops import version_guarded_loops
from tvmagic.passes import Pass
from tvmagic.target import Target

_ORDER = (
    split_kernels,
    lower_launches,
    simplify_arg_reduce,
    promote_min_max,
    keep_scalar_loops,
    strip_mine_for_interrupt,
    vectorize_interleaved_stores,
    split_index_set,
    version_guarded_loops,
    partial(vectorize_interleaved_stores, made_by="SplitIndexSet"),
    partial(vectorize_interleaved_stores, made_by="VersionGuardedLoops"),
    annotate_loops,
    narrow_integers,
    legalize_masks,
    split_vectors,
    share_strided_loads,
    lower_bool_max,
    speculate_loads,
    lower_identity_elements,
    place_allocations,
)


def late_passes(target: Target, check_bounds: bool = False) -> list[Pass]:
    """Return the passes that prepare a lowered module for code of `target`, in order."""
    return [make(target, check_bounds) for make in _ORDER]
