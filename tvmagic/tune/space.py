"""The schedules that are searched: rules that arrange any function, and changes of their decisions.

`random_schedule` applies the rules with samples of their sizes, so that its trace replays on the
same function with other decisions; `mutate` changes one decision of a trace. A rule that a function
does not allow leaves it as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, IterVar
from tvmagic.tir.schedule import Schedule, Trace

__all__ = ["mutate", "random_schedule"]

_VECTOR = 64  # elements of the innermost loop at most
_ROWS = 8  # of other innermost spatial loops: what registers hold
_DEPTH = 16  # of the innermost reduction
_UNROLL = [0, 16, 64]


def random_schedule(func: Any, seed: int) -> Schedule:
    """A schedule of `func` (a `PrimFunc` or an `IRModule`) by the rules, its choices drawn from `seed`."""
    sch: Any = Schedule(func, seed=seed + 1, error_render_level="none")
    _Rules(sch, random.Random(seed)).apply()
    return sch


class _Rules:
    """One application of the rules to a fresh schedule; `draw` chooses between structures."""

    def __init__(self, sch: Any, draw: random.Random) -> None:
        self.sch, self.draw = sch, draw

    def apply(self) -> None:
        for block in self._blocks():
            if self._spatial(block) and self.draw.random() < 0.8:
                self._try(self.sch.compute_inline, block)
        for block in self._blocks():
            if not self._spatial(block):
                self._reduction(block)
        for block in self._blocks():
            if self._spatial(block) and not self._placed(block):
                self._elementwise(block)

    def _try(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The result of a schedule call, or None where it is not legal here."""
        try:
            return call(*args, **options)
        except TVMagicError:
            return None

    def _blocks(self) -> list[Any]:
        root = self._try(self.sch.get_block, "root")
        return [] if root is None else list(self.sch.get_child_blocks(root))

    def _spatial(self, block: Any) -> bool:
        return all(iv.iter_type == IterVar.DataPar for iv in self.sch.get(block).iter_vars)

    def _placed(self, block: Any) -> bool:
        """Whether a rule has arranged the loops around a block already."""
        return len(self.sch.get_loops(block)) != len(self.sch.get(block).iter_vars) or any(
            self.sch.get(loop).kind != 0 for loop in self.sch.get_loops(block)
        )

    # ------------------------------------------------------------------------ reductions

    def _reduction(self, block: Any) -> None:
        """Tiles `outer spatial, middle spatial, outer reduction, inner reduction, inner spatial`."""
        sch, loops = self.sch, list(self.sch.get_loops(block))
        kinds = [iv.iter_type for iv in sch.get(block).iter_vars]
        if len(kinds) != len(loops) or set(kinds) != {IterVar.DataPar, IterVar.CommReduce}:
            return
        consumers = [c for c in sch.get_consumers(block) if self._spatial(c)]
        cached = not consumers and self.draw.random() < 0.5
        stored = self._try(sch.cache_write, block, 0, "local") if cached else None
        spatial = [loop for loop, kind in zip(loops, kinds) if kind == IterVar.DataPar]
        reduced = [loop for loop, kind in zip(loops, kinds) if kind == IterVar.CommReduce]
        outer, middle, inner = self._levels(spatial, 3, [_ROWS] * (len(spatial) - 1) + [_VECTOR])
        reduce_outer, reduce_inner = self._levels(reduced, 2, [_DEPTH] * len(reduced))
        sch.reorder(*outer, *middle, *reduce_outer, *reduce_inner, *inner)
        # What reads (or stores) the result joins it tile by tile, in cache still.
        place = self.draw.choice([outer[-1], middle[-1]])
        for reader in [stored] if stored is not None else consumers[:1]:
            self._try(sch.reverse_compute_at, reader, place)
            if self._placed(reader):
                self._vectorize(reader)
        step = self.draw.choice(_UNROLL)
        if step:
            self._try(sch.annotate, outer[0], "pragma_auto_unroll_max_step", step)
        self._vectorize(block)
        self._parallel(outer)
        # Last, as the two halves are no longer one reduction, whose loops may be parallel.
        first = self._try(sch.decompose_reduction, block, reduce_outer[0])
        if first is not None:
            self._vectorize(first)

    def _levels(self, loops: Sequence[Any], count: int, most: Sequence[int]) -> list[list[Any]]:
        """Each loop split into `count` ones; the result holds a list of loops for each level."""
        parts: list[list[Any]] = []
        for loop, limit in zip(loops, most):
            if isinstance(self.sch.get(loop).extent, IntImm):
                factors = self.sch.sample_perfect_tile(loop, count, limit)
            else:
                factors = [None, *[1] * (count - 1)]
            parts.append(list(self.sch.split(loop, factors)))
        return [list(level) for level in zip(*parts)]

    # ------------------------------------------------------------------------ elementwise

    def _elementwise(self, block: Any) -> None:
        loops = list(self.sch.get_loops(block))
        if not loops:
            return
        if isinstance(self.sch.get(loops[-1]).extent, IntImm):
            loops[-1:] = self.sch.split(loops[-1], self.sch.sample_perfect_tile(loops[-1], 2, _VECTOR))
            self._try(self.sch.vectorize, loops[-1])
            loops.pop()
        self._parallel(loops)

    # ------------------------------------------------------------------------ kinds of loops

    def _vectorize(self, block: Any) -> None:
        loops = self.sch.get_loops(block)
        if loops and self.draw.random() < 0.9:
            self._try(self.sch.vectorize, loops[-1])

    def _parallel(self, loops: Sequence[Any]) -> None:
        """The outermost loops as one parallel loop: some of them, all, or none."""
        count = self.draw.randint(0, len(loops))
        if count:
            whole = loops[0] if count == 1 else self._try(self.sch.fuse, *loops[:count])
            self._try(self.sch.parallel, whole if whole is not None else loops[0])


# ---------------------------------------------------------------------------- other decisions


def mutate(trace: Trace, draw: random.Random) -> Trace | None:
    """The trace with another decision at one instruction that samples; None where there is none."""
    choices = [(inst, new) for inst in trace.insts if (new := _other(inst, trace.get_decision(inst), draw)) is not None]
    return trace.with_decision(*draw.choice(choices)) if choices else None


def _other(inst: Any, decision: Any, draw: random.Random) -> Any:
    """A decision that differs from the present one in one step."""
    if inst.kind.method == "sample_perfect_tile":
        return _other_tile([int(d) for d in decision], int(inst.attrs[1]), draw)
    if inst.kind.method == "sample_categorical":
        others = [i for i in range(len(inst.attrs[0])) if i != int(decision)]
        return draw.choice(others) if others else None
    return None


def _other_tile(sizes: list[int], most: int, draw: random.Random) -> list[int] | None:
    """A factor of one tile size given to another; the innermost one stays at most `most`."""
    moves: list[list[int]] = []
    for source, size in enumerate(sizes):
        for factor in range(2, min(size, 64) + 1):
            for target in range(len(sizes)):
                fits = target != len(sizes) - 1 or sizes[target] * factor <= most
                if size % factor or target == source or not fits:
                    continue
                new = list(sizes)
                new[source] //= factor
                new[target] *= factor
                moves.append(new)
    return draw.choice(moves) if moves else None
