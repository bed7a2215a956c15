"""transform_layout: the result of a stage stored, and computed, in another order of its indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, IterVar
from tvmagic.te.schedule.relations import Transform
from tvmagic.te.schedule.stage_state import StageState
from tvmagic.te.tensor import ComputeOp, ScanOp


def transform_layout(stage: StageState, mapping_function: Callable[..., Any]) -> list[IterVar] | None:
    """Store element `(i, j, ...)` of a stage at the indices that `mapping_function` gives.

    The loops of a compute stage become loops over the new indices, which are returned. They must
    not be split, fused or reordered yet. No two elements may share a place.
    """
    op = stage.op
    _check_memory(stage)
    shape = op.output(0).shape
    index_map, separators = IndexMap.from_func_with_separators(mapping_function, ndim=len(shape))
    try:
        for known in stage.layout_transforms:
            shape = known.map_shape(shape)
        index_map.check_injective(shape)
        _check_no_padding(index_map, shape, index_map.map_shape(shape))
    except TVMagicError as error:
        raise stage.error(
            f"transform_layout: {error.message}", error.hint, code="te.transform_layout.wrong_index_map"
        ) from None
    loops: list[IterVar] | None = None
    if isinstance(op, ComputeOp):
        loops = _new_loops(stage, op, index_map)
    stage.layout_transforms.append(index_map)
    stage.axis_separators = [IntImm("int32", s) for s in separators]
    return loops


def _check_no_padding(index_map: IndexMap, shape: Sequence[Any], new_shape: Sequence[Any]) -> None:
    """The new indices must all be taken: nothing would fill what is between the elements.

    Only constant sizes are judged; a symbolic size may turn out to be a multiple of what it is divided by.
    """
    sizes = [n.value for n in (*shape, *new_shape) if isinstance(n, IntImm)]
    if len(sizes) == len(shape) + len(new_shape) and math.prod(sizes[len(shape) :]) > math.prod(sizes[: len(shape)]):
        text = ", ".join(map(str, shape))
        raise TVMagicError(
            f"`{index_map}` is not bijective over the shape [{text}], it would need padding",
            hint="a TensorIR schedule can pad, by pad_value",
            code="te.transform_layout.needs_padding",
        )


def _check_memory(stage: StageState) -> None:
    """The parts of a scan are stored in the scan's memory: they have no layout of their own."""
    stages = stage.schedule.stages if stage.schedule is not None else ()
    for scan in (s.op for s in stages if isinstance(s.op, ScanOp)):
        if any(t.op is stage.op for t in (*scan.init, *scan.update, *scan.state_placeholder)):
            raise stage.error(
                f"transform_layout of what is stored in the memory of scan `{scan.name}`",
                f"transform the layout of `{scan.name}`",
                code="te.transform_layout.scan_memory",
            )


def _new_loops(stage: StageState, op: ComputeOp, index_map: IndexMap) -> list[IterVar]:
    if len(index_map.initial_indices) != len(op.axis):
        raise stage.error(
            f"transform_layout takes {len(index_map.initial_indices)} indices, it has {len(op.axis)}",
            code="te.transform_layout.wrong_index_count",
        )
    positions = sorted(stage.leaf_position(iv, "transform_layout") for iv in op.axis)
    first, last = positions[0], positions[-1]
    if last - first + 1 != len(positions):
        raise stage.error(
            "transform_layout after the loops were reordered",
            "call it first",
            code="te.transform_layout.loops_reordered",
        )
    ranges = [iv.dom for iv in op.axis]
    assert all(r is not None for r in ranges)
    analyzer = Analyzer()
    inverse, _ = index_map.non_surjective_inverse([r.extent for r in ranges])  # type: ignore[union-attr]
    new_ranges = index_map.map_ranges(ranges, analyzer)  # type: ignore[arg-type]
    loops = [IterVar(r, v, IterVar.DataPar) for r, v in zip(new_ranges, inverse.initial_indices)]
    stage.all_iter_vars += loops
    stage.leaf_iter_vars[first : last + 1] = loops
    stage.relations.append(Transform(op.axis, loops, index_map, inverse))
    return loops
