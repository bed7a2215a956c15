"""Dependencies between the blocks of one scope."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from tvmagic.ir import Buffer, BufferRegion, Identified
from tvmagic.tir.blocks.regions import effective_regions
from tvmagic.tir.blocks.sref import StmtSRef

__all__ = ["BlockScope", "DepKind", "Dependency"]


class DepKind(enum.IntEnum):
    """Why one block must run before another."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


class Dependency(NamedTuple):
    """`dst` must run after `src`."""

    src: StmtSRef
    dst: StmtSRef
    kind: DepKind


class BlockScope(Identified):
    """The child blocks of a block in program order, and the dependencies between them.

    `buffer_writers` gives for each buffer the children that write it, in order. With `declared`, what
    the children declare counts alone, as in TVM; else also what their bodies touch besides. `covered` is what
    the flags found for the places where the scope stood.
    """

    def __init__(self, children: list[StmtSRef], declared: bool = False) -> None:
        self.children = children
        self.src2deps: dict[StmtSRef, list[Dependency]] = {}
        self.dst2deps: dict[StmtSRef, list[Dependency]] = {}
        self.buffer_writers: dict[Buffer, list[StmtSRef]] = {}
        self.covered: dict[tuple[Any, ...], set[StmtSRef]] = {}
        self._known: set[Dependency] = set()
        readers: dict[Buffer, list[StmtSRef]] = {}
        for child in children:
            block = child.block
            touched = (block.reads, block.writes) if declared else effective_regions(block)
            reads, writes = _buffers(touched[0]), _buffers(touched[1])
            for buffer in reads:
                for writer in self.buffer_writers.get(buffer, ()):
                    self._add(writer, child, DepKind.RAW)
            for buffer in writes:
                for writer in self.buffer_writers.get(buffer, ()):
                    self._add(writer, child, DepKind.WAW)
                for reader in readers.get(buffer, ()):
                    self._add(reader, child, DepKind.WAR)
            for buffer in reads:
                readers.setdefault(buffer, []).append(child)
            for buffer in writes:
                self.buffer_writers.setdefault(buffer, []).append(child)

    def _add(self, src: StmtSRef, dst: StmtSRef, kind: DepKind) -> None:
        dep = Dependency(src, dst, kind)
        if src is dst or dep in self._known:
            return
        self._known.add(dep)
        self.src2deps.setdefault(src, []).append(dep)
        self.dst2deps.setdefault(dst, []).append(dep)

    def get_deps_by_src(self, block: StmtSRef) -> list[Dependency]:
        """The dependencies that begin at `block`."""
        return list(self.src2deps.get(block, ()))

    def get_deps_by_dst(self, block: StmtSRef) -> list[Dependency]:
        """The dependencies that end at `block`."""
        return list(self.dst2deps.get(block, ()))

    @property
    def has_overwriters(self) -> bool:
        """Whether some child writes what one before it reads."""
        return any(d.kind is DepKind.WAR for found in self.dst2deps.values() for d in found)

    def producers(self, block: StmtSRef) -> list[StmtSRef]:
        """The children whose results `block` reads, each once."""
        return _unique([d.src for d in self.dst2deps.get(block, ()) if d.kind is DepKind.RAW])

    def overwriters(self, block: StmtSRef) -> list[StmtSRef]:
        """The children that write what `block` reads before, each once."""
        return _unique([d.dst for d in self.src2deps.get(block, ()) if d.kind is DepKind.WAR])

    def consumers(self, block: StmtSRef) -> list[StmtSRef]:
        """The children that read what `block` writes, each once."""
        return _unique([d.dst for d in self.src2deps.get(block, ()) if d.kind is DepKind.RAW])


def _buffers(regions: Sequence[BufferRegion]) -> list[Buffer]:
    return list(dict.fromkeys([region.buffer for region in regions]))


def _unique(srefs: list[StmtSRef]) -> list[StmtSRef]:
    return list(dict.fromkeys(srefs))
