"""Loops that write a few neighbours in each iteration, as the vectors that code has for them (`codegen/short_rows.py`)."""

from __future__ import annotations

from typing import NamedTuple

from tvmagic.codegen.short_rows import short_rows_as_vectors
from tvmagic.codegen.target.machine import Machine
from tvmagic.ir import Allocate, AllocateConst, For, ForKind, PrimFunc, Var, post_order_visit, substitute

__all__ = ["InVectors", "Rows"]


class InVectors(NamedTuple):
    """A loop over vectors, and one with the iterations that fill none."""

    vectors: For
    rest: For


class Rows:
    """Finds such loops in a lowered function, for a machine."""

    def __init__(self, func: PrimFunc, machine: Machine) -> None:
        self.machine = machine
        noalias = bool(func.attrs.get("tir.noalias", False))
        self.memory: dict[Var, object] = {b.data: b.data if noalias else "parameters" for b in func.buffer_map.values()}
        post_order_visit(func.body, self._allocated)

    def _allocated(self, node: object) -> None:
        if isinstance(node, (Allocate, AllocateConst)):
            self.memory[node.buffer_var] = node.buffer_var

    def __call__(self, loop: For) -> InVectors | None:
        """The loop in vectors; None if it is of another kind."""
        if loop.kind is ForKind.SERIAL:
            made = short_rows_as_vectors(loop, self.machine, self._apart)
            return None if made is None else InVectors(*made)
        return self._of_threads(loop) if loop.kind is ForKind.PARALLEL else None

    def _of_threads(self, loop: For) -> InVectors | None:
        """A parallel loop, of which each thread takes some iterations that are known while it runs alone."""
        begin, count = (Var(name, loop.loop_var.dtype) for name in ("begin", "count"))
        part = loop.with_(min=loop.min + begin, extent=count, kind=ForKind.SERIAL)
        made = short_rows_as_vectors(part, self.machine, self._apart)
        if made is None:
            return None
        vectors, rest = made
        return InVectors(
            vectors.with_(extent=substitute(vectors.extent, {count: loop.extent}), kind=loop.kind),
            rest,
        )

    def _apart(self, a: Var, b: Var) -> bool:
        """Whether two pointers are to different memory."""
        return a in self.memory and b in self.memory and self.memory[a] != self.memory[b]
