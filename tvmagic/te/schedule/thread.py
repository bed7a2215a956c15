"""Thread axes and memories: their ranks, from the whole device down to one thread."""

from __future__ import annotations

from typing import NamedTuple

from tvmagic.errors import TVMagicError
from tvmagic.ir.memory_scope import MemoryScope, StorageRank

VIRTUAL = ("vthread", "cthread")  # the tags of loops that InjectVirtualThread takes apart


def storage_rank(scope: str) -> int:
    """The rank of the memory named `scope`."""
    return MemoryScope.of(scope).rank


def default_storage_rank(thread_rank: int) -> int:
    """The memory of what threads of a rank compute: -1 none, 0 blocks, 1 threads."""
    return {-1: StorageRank.GLOBAL, 0: StorageRank.SHARED}.get(thread_rank, StorageRank.LOCAL)


class ThreadScope(NamedTuple):
    """`rank` 0 for blocks and 1 for threads; `dim_index` 0, 1, 2 for x, y, z, -1 for a virtual one."""

    rank: int
    dim_index: int

    @staticmethod
    def launched(tag: str) -> bool:
        """Whether the tag is one of a block or thread that the device launches, not of a virtual one."""
        return tag.startswith(("blockIdx.", "threadIdx."))

    @staticmethod
    def of(tag: str) -> ThreadScope:
        """The scope of a tag such as `threadIdx.x`, `blockIdx.y`, `vthread`."""
        if tag == "cthread" or tag.startswith("vthread"):
            return ThreadScope(1, -1)
        for prefix, rank in (("blockIdx.", 0), ("threadIdx.", 1)):
            if tag.startswith(prefix) and tag[len(prefix) :] in ("x", "y", "z"):
                return ThreadScope(rank, "xyz".index(tag[len(prefix)]))
        raise TVMagicError(
            f"there is no thread axis `{tag}`",
            hint="tags are blockIdx.x, threadIdx.x, vthread",
            code="te.thread_axis.unknown_thread",
        )
