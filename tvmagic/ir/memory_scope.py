"""Memories: a rank, which says how widely one is shared, and a tag, which tells special memories of a device apart.

`local.L0A` is the memory `.L0A` of rank `local`. What is known of a memory is registered as a function
`tvm.info.mem.<scope>` that gives a `MemoryInfo`.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.ir.derive import node
from tvmagic.ir.expr import PrimExpr
from tvmagic.ir.node import Node
from tvmagic.ir.registry import get_global_func


class StorageRank(enum.IntEnum):
    """How widely a memory is shared (the numbers are TVM's)."""

    GLOBAL = 0
    SHARED = 1
    WARP = 2
    LOCAL = 3
    WMMA_A = 4
    WMMA_B = 5
    WMMA_ACC = 6
    TEXTURE = 7
    AMX_TMM = 8
    MMA_A = 9
    MMA_B = 10
    MMA_C = 11
    METAL_SIMDGROUP = 12


# By the beginning of a scope's name, the first that fits; what follows is its tag.
_RANKS = {
    "global.texture": StorageRank.TEXTURE,
    "global": StorageRank.GLOBAL,
    "shared": StorageRank.SHARED,
    "warp": StorageRank.WARP,
    "local": StorageRank.LOCAL,
    "wmma.matrix_a": StorageRank.WMMA_A,
    "wmma.matrix_b": StorageRank.WMMA_B,
    "wmma.accumulator": StorageRank.WMMA_ACC,
    "texture": StorageRank.TEXTURE,
    "amx.tmm": StorageRank.AMX_TMM,
    "m16n8k8.matrixA": StorageRank.MMA_A,
    "m16n8k8.matrixB": StorageRank.MMA_B,
    "m16n8k8.matrixC": StorageRank.MMA_C,
    "metal.simdgroup": StorageRank.METAL_SIMDGROUP,
}
_ORDINARY = frozenset({"", ".dyn", ".workspace", ".vtcm"})


def is_of_threads(scope: str) -> bool:
    """Whether each thread, or each warp, has a memory of its own of this name."""
    return scope.startswith(("local", "warp", "wmma"))


class MemoryScope(NamedTuple):
    """`local.UB` is rank `LOCAL` with the tag `.UB`."""

    rank: StorageRank
    tag: str

    @staticmethod
    def of(name: str) -> MemoryScope:
        """The scope that a text names; the empty one is global memory. Raises `TVMagicError` if it begins with no rank."""
        for prefix, rank in _RANKS.items():
            if name.startswith(prefix):
                return MemoryScope(rank, name[len(prefix) :])
        if name == "":
            return MemoryScope(StorageRank.GLOBAL, "")
        raise TVMagicError(
            f"there is no memory scope `{name}`",
            hint="scopes are global, shared, warp, local, texture, wmma.matrix_a, wmma.matrix_b, wmma.accumulator, "
            "m16n8k8.matrixA, matrixB and matrixC, with any tag after it (`local.L0A`)",
            code="memory_scope.unknown",
        )

    @property
    def is_special(self) -> bool:
        """Whether the tag names a special memory of a device, of which there is one."""
        return self.tag not in _ORDINARY

    @property
    def in_registers(self) -> bool:
        """Whether a compiler keeps it in registers."""
        return self.rank >= StorageRank.WARP and not self.tag


@node
class MemoryInfo(Node):
    """What is known of a special memory: the bits of an addressed unit, of the widest vector (which buffers are aligned to)
    and of all of it, and the address where it begins, if it has one."""

    unit_bits: int
    max_simd_bits: int
    max_num_bits: int
    head_address: PrimExpr | None


def memory_info(scope: str) -> MemoryInfo | None:
    """What `tvm.info.mem.<scope>` gives; None if no such function is registered."""
    function = get_global_func(f"tvm.info.mem.{scope}", allow_missing=True)
    found = None if function is None else function()
    if found is not None and not isinstance(found, MemoryInfo):
        raise TVMagicError(
            f"the function `tvm.info.mem.{scope}` gives `{type(found).__name__}`, not a MemoryInfo",
            code="memory_scope.wrong_memory_info",
        )
    return found
