"""What is known of a block that copies, and the nest of loops that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvmagic.errors import TVMagicError
from tvmagic.ir import Buffer, BufferRegion, For, IntImm, Stmt
from tvmagic.ir.memory_scope import MemoryScope, StorageRank


@dataclass
class Copy:
    """A block that copies the region `read` to the region `written`, in the loops `outer`.

    `threads` has the number of threads for each tag; `new_buffers` collects the memory that lowering allocates.
    """

    name: str
    read: BufferRegion
    written: BufferRegion
    outer: Sequence[For]
    threads: dict[str, int]
    vector_bytes: int
    local_stage: bool
    new_buffers: list[Buffer] = field(default_factory=list[Buffer])

    @property
    def data_bits(self) -> int:
        return self.read.buffer.dtype.bits

    def between(self, source: StorageRank, target: StorageRank) -> bool:
        """Whether it copies from memory of one rank to memory of another."""
        return rank_of(self.read.buffer) is source and rank_of(self.written.buffer) is target


def rank_of(buffer: Buffer) -> StorageRank:
    """How widely a buffer's memory is shared."""
    return MemoryScope.of(buffer.scope()).rank


def loops_around(stmt: Stmt) -> tuple[list[For], Stmt]:
    """The loops of a nest, the first outermost, and what is in them."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def size_of(loop: For, copy: Copy) -> int:
    """How often a loop runs. Raises `TVMagicError` if that is not a constant."""
    if isinstance(loop.extent, IntImm):
        return loop.extent.value
    raise TVMagicError(
        f"the copy `{copy.name}` has a loop `{loop.loop_var.name}` of an extent that is not constant",
        node=loop,
        hint="`auto_copy` is for copies of known sizes",
        code="auto_copy.symbolic_extent",
    )
