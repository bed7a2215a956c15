"""Structures of schedules: rules that arrange any function, with choices drawn at random.

The rules follow MetaSchedule's for processors (Shao et al. 2022): elementwise blocks are inlined or computed inside
what reads them; a reduction is tiled in several levels with its sums kept in registers and its operands packed, or cut
into partial sums (rfactor); what is left is cut into chunks; outer loops run in parallel, inner ones as vectors. The
sizes are numbers in the trace, which `mutate` changes. A rule that a function does not allow leaves it as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import IntImm, IterVar
from tvmagic.tir.schedule import Schedule

_ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16)  # of a tile in registers
_BLOCKS = (1, 1, 1, 2, 4, 8, 16)  # tiles of a block that stays in a cache
_DEPTHS = (1, 1, 4, 8, 16, 32, 64, 128, 256)  # of the inner reduction
_CHUNKS = (1, 2, 4, 8, 16, 32, 64, 128)  # vectors of a chunk
_STEPS = (0, 0, 16, 64, 256)  # pragma_auto_unroll_max_step
_REGISTERS = 32  # vectors that a tile may hold
_UNROLLED = 16  # iterations that are written out


def random_schedule(func: Any, seed: int, width: int = 64) -> Schedule:
    """A schedule of `func` (a `PrimFunc` or an `IRModule`) by the rules, its choices drawn from `seed`.

    `width`: bytes of a vector register.
    """
    sch: Any = Schedule(func, seed=seed + 1, error_render_level="none")
    _Rules(sch, random.Random(seed), width).apply()
    return sch


class _Rules:
    """One application of the rules to a fresh schedule; `draw` chooses."""

    def __init__(self, sch: Any, draw: random.Random, width: int) -> None:
        self.sch, self.draw, self.width = sch, draw, width

    def apply(self) -> None:
        for block in self._blocks():
            if self._spatial(block) and self.draw.random() < 0.8:
                self._try(self.sch.compute_inline, block)
        for block in reversed(self._blocks()):
            if not self._spatial(block) and not self._arranged(block):
                self._try(self._reduction, block)
        for block in reversed(self._blocks()):
            if self._spatial(block) and not self._arranged(block):
                self._try(self._elementwise, block)
        for block in reversed(self._blocks()):  # consumers have their loops: producers may be computed in them
            if self.draw.random() < 0.4:
                self._try(self._compute_inside, block)

    # ------------------------------------------------------------------ what is there

    def _try(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The result of a schedule call, or None if it is not legal here; of a rule, which then ends with what it did."""
        try:
            return call(*args, **options)
        except TVMagicError:
            return None

    def _blocks(self) -> list[Any]:
        """The blocks of the program by their names, which a trace with a step less finds as well."""
        root = self._try(self.sch.get_block, "root")
        names = [] if root is None else [self.sch.get(b).name_hint for b in self.sch.get_child_blocks(root)]
        return [block for name in names if (block := self._try(self.sch.get_block, name)) is not None]

    def _spatial(self, block: Any) -> bool:
        return all(iv.iter_type == IterVar.DataPar for iv in self.sch.get(block).iter_vars)

    def _arranged(self, block: Any) -> bool:
        """Whether a rule has arranged the loops around a block already."""
        loops = self.sch.get_loops(block)
        return len(loops) != len(self.sch.get(block).iter_vars) or any(self.sch.get(loop).kind != 0 for loop in loops)

    def _extent(self, loop: Any) -> int | None:
        extent = self.sch.get(loop).extent
        return extent.value if isinstance(extent, IntImm) else None

    def _lanes(self, block: Any) -> int:
        """Numbers in a vector register, of the type that a block writes."""
        return max(self.width // self.sch.get(block).writes[0].buffer.dtype.bytes, 1)

    def _pick(self, loop: Any, options: Sequence[int]) -> int:
        """One of `options` that is no more than the loop has; mostly one that divides it."""
        extent = self._extent(loop)
        if extent is None:
            return self.draw.choice(options)
        fitting = [n for n in options if n <= extent] or [1]
        whole = [n for n in fitting if extent % n == 0]
        return self.draw.choice(whole if len(whole) > 1 and self.draw.random() < 0.8 else fitting)

    # ------------------------------------------------------------------ reductions

    def _reduction(self, block: Any) -> None:
        loops = list(self.sch.get_loops(block))
        kinds = [iv.iter_type for iv in self.sch.get(block).iter_vars]
        if len(kinds) != len(loops) or not set(kinds) <= {IterVar.DataPar, IterVar.CommReduce}:
            return
        spatial = [loop for loop, kind in zip(loops, kinds) if kind == IterVar.DataPar]
        reduced = [loop for loop, kind in zip(loops, kinds) if kind == IterVar.CommReduce]
        if self.draw.random() < (0.6 if len(spatial) < 2 else 0.1) and self._partial(block, reduced):
            return
        if spatial:
            self._tiled(block, spatial, reduced)

    def _tiled(self, block: Any, spatial: list[Any], reduced: list[Any]) -> None:
        """Outer tiles in parallel, tiles that a cache holds, the reduction, and a tile in registers as vectors."""
        sch = self.sch
        if self.draw.random() < 0.4:
            self._pack(block)
        consumers = [c for c in sch.get_consumers(block) if self._spatial(c)]
        stored = self._try(sch.cache_write, block, 0, "local") if not consumers and self.draw.random() < 0.8 else None
        outer, middle, inner = self._tile(block, spatial)
        deep = [self._pick(loop, _DEPTHS) for loop in reduced]
        halves = [sch.split(loop, [None, n]) if n > 1 else [loop] for loop, n in zip(reduced, deep)]
        first, second = [h[0] for h in halves], [h[1] for h in halves if len(h) > 1]
        in_registers = self.draw.random() < 0.8
        order = (
            [*outer, *middle, *first, *second, *inner] if in_registers else [*outer, *first, *middle, *second, *inner]
        )
        sch.reorder(*order)
        self._epilogue(stored, consumers, outer, middle)
        for loop in inner[:-1]:
            if (self._extent(loop) or _UNROLLED + 1) <= _UNROLLED:
                self._try(sch.unroll, loop)
        self._try(sch.vectorize, inner[-1])
        whole, step = self._parallel(outer), self.draw.choice(_STEPS)
        if step:
            self._try(sch.annotate, whole, "pragma_auto_unroll_max_step", step)
        # Last, as the two halves are no longer one reduction, whose loops may be parallel.
        self._try(sch.decompose_reduction, block, first[0] if in_registers else next(iter([*first, *middle])))

    def _tile(self, block: Any, spatial: list[Any]) -> list[list[Any]]:
        """The spatial loops in three levels. The innermost is a tile of vectors that registers hold."""
        lanes = self._lanes(block)
        vectors = self._pick(spatial[-1], [lanes, 2 * lanes, 3 * lanes, 4 * lanes, max(lanes // 2, 1)])
        left = max(_REGISTERS * lanes // vectors, 1)
        sizes = [vectors]
        for loop in reversed(spatial[:-1]):
            rows = self._pick(loop, [n for n in _ROWS if n <= left] or [1]) if len(sizes) < 3 else 1
            left = max(left // rows, 1)
            sizes.append(rows)
        levels: list[list[Any]] = []
        for loop, size in zip(spatial, reversed(sizes)):
            levels.append(list(self.sch.split(loop, [None, self.draw.choice(_BLOCKS), size])))
        return [list(level) for level in zip(*levels)]

    def _epilogue(self, stored: Any, consumers: list[Any], outer: list[Any], middle: list[Any]) -> None:
        """What stores or reads the result joins it tile by tile, while it is in registers or a cache."""
        place = self.draw.choice([middle[-1], middle[-1], outer[-1]])
        for reader in [stored] if stored is not None else consumers[:1]:
            self._try(self.sch.reverse_compute_at, reader, place)
            if self._arranged(reader):
                self._try(self.sch.vectorize, self.sch.get_loops(reader)[-1])

    def _pack(self, block: Any) -> None:
        """One operand copied first, so that the elements that are read together are beside each other."""
        sch, node = self.sch, self.sch.get(block)
        reads = [
            n for n, r in enumerate(node.reads) if len(r.buffer.shape) > 1 and r.buffer is not node.writes[0].buffer
        ]
        if not reads:
            return
        index = self.draw.choice(reads)
        shape = [s.value if isinstance(s, IntImm) else None for s in node.reads[index].buffer.shape]
        width = self.draw.choice([1, 2, 4]) * self._lanes(block)
        if None in shape or shape[-1] is None or shape[-1] % width:
            return
        copy = self._try(sch.cache_read, block, index, "global")
        if copy is None:
            return
        panels = lambda *at: [at[-1] // width, *at[:-1], at[-1] % width]  # noqa: E731
        self._try(sch.transform_layout, block, ("read", index), panels)
        loops = list(sch.get_loops(copy))
        column, lane = sch.split(loops[-1], [None, width])
        sch.reorder(column, *loops[:-1], lane)
        self._try(sch.vectorize, lane)
        self._try(sch.parallel, column)

    def _partial(self, block: Any, reduced: list[Any]) -> bool:
        """Partial sums beside each other, as vectors, which are added at the end."""
        sch, lanes = self.sch, self._lanes(block)
        width = lanes * self.draw.choice([1, 2, 4])
        loop = reduced[-1]
        extent = self._extent(loop)
        if extent is None or extent < width:
            return False
        _, lane = sch.split(loop, [None, width])
        partial = self._try(sch.rfactor, lane, 0)
        if partial is None:
            return False
        spatial = [
            rv for rv, iv in zip(sch.get_loops(block), sch.get(block).iter_vars) if iv.iter_type == IterVar.DataPar
        ]
        self._try(sch.reorder, *[r for r in sch.get_loops(partial) if sch.get(r) is not sch.get(lane)], lane)
        if spatial:
            self._try(sch.compute_at, partial, spatial[-1])
        self._try(sch.vectorize, sch.get_loops(partial)[-1])
        if spatial:
            self._parallel(spatial)
        self._try(sch.decompose_reduction, partial, sch.get_loops(partial)[-2])
        return True

    # ------------------------------------------------------------------ elementwise

    def _elementwise(self, block: Any) -> None:
        sch, loops = self.sch, list(self.sch.get_loops(block))
        if not loops:
            return
        lanes = self._lanes(block)
        if len(loops) > 1 and self.draw.random() < 0.4:
            fused = self._try(sch.fuse, *loops)  # one long row
            loops = [fused] if fused is not None else loops
        if len(loops) > 1 and self.draw.random() < 0.5:
            self._square(loops, lanes)
            return
        vectors = self._pick(loops[-1], [lanes, 2 * lanes, 4 * lanes])
        outer, middle, inner = sch.split(loops[-1], [None, self.draw.choice(_CHUNKS), vectors])
        self._try(sch.vectorize, inner)
        self._parallel([*loops[:-1], outer])

    def _square(self, loops: list[Any], lanes: int) -> None:
        """Tiles of rows and columns, for what reads across rows and for what is computed inside a tile."""
        row, column = loops[-2:]
        row_outer, row_inner = self.sch.split(row, [None, self._pick(row, [1, 2, 4, 8, 16, 32, 64])])
        vectors = self._pick(column, [lanes, 2 * lanes])
        column_outer, column_inner, lane = self.sch.split(column, [None, self.draw.choice(_CHUNKS), vectors])
        self.sch.reorder(row_outer, column_outer, row_inner, column_inner, lane)
        self._try(self.sch.vectorize, lane)
        self._parallel([*loops[:-2], row_outer, column_outer])

    def _compute_inside(self, block: Any) -> None:
        """A producer computed in a loop of what reads it."""
        consumers = self._try(self.sch.get_consumers, block) or []
        if len(consumers) != 1:
            return
        loops = list(self.sch.get_loops(consumers[0]))
        if loops and not any(self.sch.get(loop).kind == 1 for loop in self.sch.get_loops(block)):
            self._try(self.sch.compute_at, block, self.draw.choice(loops))
            inner = self.sch.get_loops(block)
            if inner:
                self._try(self.sch.vectorize, inner[-1])

    def _parallel(self, loops: Sequence[Any]) -> Any:
        """The outermost loops as one parallel loop: some of them, or all; seldom none. The outermost loop then."""
        count = self.draw.randint(0 if self.draw.random() < 0.2 else 1, len(loops))
        fused = self._try(self.sch.fuse, *loops[:count]) if count > 1 else None
        whole = loops[0] if fused is None else fused
        if count:
            self._try(self.sch.parallel, whole)
        return whole
