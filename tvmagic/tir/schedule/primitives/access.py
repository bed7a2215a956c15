"""Primitives that change what a block declares to access, and the mark for postprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.index_map import IndexMap
from tvmagic.ir import BufferRegion, PrimExpr, Range, attr_value, expr
from tvmagic.tir.blocks.error import ScheduleError
from tvmagic.tir.schedule.guards import is_row, is_tuple
from tvmagic.tir.schedule.instruction import BlockRef, primitive
from tvmagic.tir.schedule.primitives.layout import index_dtype_of
from tvmagic.tir.schedule.requirements import region_at
from tvmagic.tir.schedule.state import ScheduleState


def _side(buf_type: str) -> str:
    if buf_type not in ("read", "write"):
        raise ScheduleError(
            f"`{buf_type}` is not a side of a block",
            hint="write `read` or `write`",
            code="annotate_buffer_access.unknown_buffer_side",
        )
    return buf_type + "s"


@primitive("EnterPostproc")
def enter_postproc(state: ScheduleState) -> None:
    """Mark that what follows is postprocessing, which a trace can leave out.

    Example
    -------
    >>> sch.parallel(sch.get_loops("B")[0])
    >>> sch.enter_postproc()
    >>> sch.annotate(sch.get_block("B"), "checked", True)
    >>> print(sch.trace.simplified(remove_postproc=True))
    # from tvm import tir
    def apply_trace(sch: tir.Schedule) -> None:
      b0 = sch.get_block(name="B", func_name="main")
      l1, l2 = sch.get_loops(block=b0)
      sch.parallel(loop=l1)
    """


@primitive("UnsafeHideBufferAccess")
def unsafe_hide_buffer_access(state: ScheduleState, block: BlockRef, buf_type: str, buf_index_array: list[int]) -> None:
    """Take regions out of what a block declares to read or write.

    Dependences through them are no longer seen, so what follows may give wrong results.

    Example
    -------
    `sch.unsafe_hide_buffer_access("B", "read", [0])` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                T.reads()
                T.writes(B[v])
                B[v] = A[v] + T.float32(1.0)
    """
    side = _side(buf_type)
    regions = getattr(block.block, side)
    hidden = {int(i) for i in buf_index_array}
    for index in hidden:
        region_at(block, index, side)
    new = block.block.replace(**{side: tuple([r for i, r in enumerate(regions) if i not in hidden])})
    state.replace(block, new, {block.block: new})


def _prepare_ranges(state: ScheduleState, values: Mapping[str, Any]) -> dict[str, Any]:
    """The function of the block's variables as a map to begins and ends."""
    given, block = values["gen_new_ranges"], values["block"].block
    if isinstance(given, IndexMap):
        return {}
    region = region_at(values["block"], values["buffer_index"], _side(values["buf_type"]))

    def ends(*variables: Any) -> list[PrimExpr]:
        result: list[PrimExpr] = []
        parts = list(given(*variables))
        if len(parts) == 2 * len(region.region) and not any(is_row(p) for p in parts):
            return [expr(p) for p in parts]  # the ends in a row, as a trace has them
        for part in parts:
            low, high = part if is_row(part) else (part, expr(part) + 1)
            result += [expr(low), expr(high)]
        return result

    return {"gen_new_ranges": IndexMap.from_func(ends, ndim=len(block.iter_vars), index_dtype=index_dtype_of(block))}


@primitive("AnnotateBufferAccess", prepare=_prepare_ranges)
def annotate_buffer_access(
    state: ScheduleState, block: BlockRef, buffer_index: int, buf_type: str, gen_new_ranges: Any
) -> None:
    """Declare the region that a block reads or writes of a buffer, if it cannot be found from its body.

    `gen_new_ranges` takes the block's variables and gives for each dimension an index or a pair (begin,
    end). A region that is too small gives wrong programs.

    Example
    -------
    `sch.annotate_buffer_access("B", 0, "read", lambda v: ((v, v + 2),))` makes of

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                B[v] = A[v] + 1.0

    this:

        for i in range(16):
            with T.block("B"):
                v = T.axis.spatial(16, i)
                T.reads(A[v:v + 2])
                T.writes(B[v])
                T.block_attr({"explicit_read_region": [0]})
                B[v] = A[v] + T.float32(1.0)
    """
    side = _side(buf_type)
    region = region_at(block, buffer_index, side)
    variables = [v.var for v in block.block.iter_vars]
    ends = gen_new_ranges.map_indices(variables)
    if len(ends) != 2 * len(region.region):
        raise ScheduleError(
            f"buffer `{region.buffer.name}` has {len(region.region)} dimensions",
            block,
            code="annotate_buffer_access.wrong_dimensions",
        )
    analyzer = Analyzer()
    sides = [Range.from_min_extent(low, analyzer.simplify(high - low)) for low, high in zip(ends[0::2], ends[1::2])]
    regions = list(getattr(block.block, side))
    regions[buffer_index] = BufferRegion(region.buffer, sides)
    key = f"explicit_{buf_type}_region"
    known = block.block.annotations
    marked = known.get(key)
    places = [] if marked is None else [int(i) for i in (marked if is_tuple(marked) else (marked,))]
    if buffer_index not in places:
        places.append(buffer_index)
    new = block.block.replace(**{side: tuple(regions)}, annotations={**known, key: attr_value(places)})
    state.replace(block, new, {block.block: new})
