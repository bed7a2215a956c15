"""Steps of several primitives."""

from __future__ import annotations

from typing import Any

from tvmagic.ir import IntImm, TensorIntrin
from tvmagic.tir.schedule.analysis import get_tensorize_loop_mapping
from tvmagic.tir.schedule.instruction import BlockRV, LoopRV
from tvmagic.tir.schedule.schedule import Schedule


def tile_with_tensor_intrin(
    sch: Schedule, block: BlockRV | str, intrin_name: str, allow_padding: bool = False
) -> LoopRV | None:
    """Tile the loops of a block so that `tensorize` fits below the loop that is the result.

    None if the block does not compute what the intrinsic does. `allow_padding`: extents that are not a multiple
    of the intrinsic's are padded by `pad_einsum` first.
    """
    intrin = TensorIntrin.get(intrin_name)
    assert intrin is not None
    if isinstance(block, str):
        block = sch.get_block(block)
    info = get_tensorize_loop_mapping(sch, block, intrin.desc, allow_padding)
    if info is None:
        return None
    if info.block_iter_paddings is not None:
        sch.pad_einsum(block, info.block_iter_paddings)
    by_sref = {sch.get_sref(loop): loop for loop in sch.get_loops(block)}
    order = {loop.loop_var: place for place, loop in enumerate(info.desc_loops)}
    inner: dict[int, Any] = {}
    outer: list[Any] = []
    for sref, desc_loop in info.loop_map.items():
        loop = by_sref[sref]
        assert isinstance(desc_loop.extent, IntImm)
        extent = desc_loop.extent.value
        first, last = sch.split(loop, [None, extent])
        outer.append(first)
        inner[order[desc_loop.loop_var]] = last
    tiles = [inner[place] for place in sorted(inner)]
    reordered = {id(sch.get_sref(rv)) for rv in (*outer, *tiles)}
    loops = sch.get_loops(block)
    first_tiled = next(i for i, rv in enumerate(loops) if id(sch.get_sref(rv)) in reordered)
    tile_srefs = {id(sch.get_sref(rv)) for rv in tiles}
    rest = [rv for rv in loops[first_tiled:] if id(sch.get_sref(rv)) not in tile_srefs]
    sch.reorder(*rest, *tiles)
    return tiles[0]
