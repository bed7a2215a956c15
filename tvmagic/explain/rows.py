"""Loops that write a few neighbours in each iteration, as the vectors that code has for them (`codegen/short_rows.py`)."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from tvmagic.codegen.late.vectorize_interleaved_stores import short_rows_as_vectors
from tvmagic.codegen.memory import are_apart, memory_groups
from tvmagic.ir import For, ForKind, PrimFunc, Var, substitute
from tvmagic.target.machine import Machine

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
        arguments = [buffer.data for buffer in func.buffer_map.values()]
        self.apart = partial(are_apart, memory_groups(arguments, noalias, func.body))

    def __call__(self, loop: For) -> InVectors | None:
        """The loop in vectors; None if it is of another kind."""
        if loop.kind is ForKind.SERIAL:
            made = short_rows_as_vectors(loop, self.machine, self.apart)
            return None if made is None else InVectors(*made)
        return self._of_threads(loop) if loop.kind is ForKind.PARALLEL else None

    def _of_threads(self, loop: For) -> InVectors | None:
        """A parallel loop, of which each thread takes some iterations that are known while it runs alone."""
        begin, count = (Var(name, loop.loop_var.dtype) for name in ("begin", "count"))
        part = loop.with_(min=loop.min + begin, extent=count, kind=ForKind.SERIAL)
        made = short_rows_as_vectors(part, self.machine, self.apart)
        if made is None:
            return None
        vectors, rest = made
        return InVectors(
            vectors.with_(extent=substitute(vectors.extent, {count: loop.extent}), kind=loop.kind),
            rest,
        )
