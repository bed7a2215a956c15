"""The regions of buffers that a block reads and writes, in the form that TVM gives them."""

from __future__ import annotations

from collections.abc import Mapping

from tvmagic.arith.block_regions import block_access_regions, block_read_write_regions
from tvmagic.ir import Block, Buffer, BufferRegion, Var


def get_block_access_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """What `block` reads, writes, and uses in ways that are not known, of the buffers given."""
    return [list(regions) for regions in block_access_regions(block, buffer_var_map)]


def get_block_read_write_region(block: Block, buffer_var_map: Mapping[Var, Buffer]) -> list[list[BufferRegion]]:
    """What `block` reads and writes; what it uses in unknown ways counts as both."""
    return [list(regions) for regions in block_read_write_regions(block, buffer_var_map)]
