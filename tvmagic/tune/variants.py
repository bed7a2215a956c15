"""Variants of the instant schedule: what its rules decide for a machine that is described a little differently.

The rules follow the description of the machine: its registers, caches, cores, vectors. Another description makes another
schedule whose sizes belong together: a tile of other rows and columns with panels that are as wide, other cache blocks,
vectors of two registers. So the decisions are changed, not the calls that came of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from tvmagic.auto import decide_for
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.target.machine import Machine
from tvmagic.tir.schedule import Schedule

_SIZES = (0.25, 0.5, 1.0, 1.0, 2.0, 4.0)  # times a cache
_CORES = (1, 1, 2, 4, 8)  # times the cores, each of which gets a part of a parallel loop
_LINES = (1, 1, 2, 4)  # times a cache line
_WORSE = 2.0  # times the model's cycles for an element that a tile may take


@dataclass(frozen=True)
class _OneTile(Machine):
    """A machine whose registers are used for one tile of sums alone."""

    only: tuple[int, int] = (1, 1)

    def tiles(self) -> list[tuple[int, int]]:
        """The one tile."""
        return [self.only]


def variant(program: PrimFunc | IRModule, machine: Machine, seed: int) -> Schedule:
    """The schedule that the rules decide on for a machine like `machine`, drawn from `seed`.

    Raises TVMagicError if the rules do not fit the program.
    """
    draw = random.Random(seed)
    return decide_for(program, _described(machine, draw)).schedule


def _described(machine: Machine, draw: random.Random) -> Machine:
    """Another description: some of the numbers changed, and last the tile, which depends on them."""
    changes: list[Any] = [_vectors, _caches, _cores, _line]
    chosen = draw.sample(changes, draw.choice((0, 1, 1, 2, 3)))
    for change in [c for c in changes if c in chosen]:
        machine = change(machine, draw)
    return _tile(machine, draw) if not chosen or draw.random() < 0.5 else machine


def _tile(machine: Machine, draw: random.Random) -> Machine:
    """One of the tiles that the model finds not much slower than the best, a good one the likelier."""

    def cost(shape: tuple[int, int]) -> float:
        return machine.tile_cost(*shape) / (shape[0] * shape[1])

    ranked = sorted(machine.tiles(), key=cost)
    ranked = [t for t in ranked if cost(t) <= _WORSE * cost(ranked[0])]
    only = ranked[min(int(draw.expovariate(0.12)), len(ranked) - 1)]
    return _OneTile(**vars(machine), only=only)


def _caches(machine: Machine, draw: random.Random) -> Machine:
    sizes = [replace(c, size=max(int(c.size * draw.choice(_SIZES)), 1 << 10)) for c in machine.caches]
    return replace(machine, caches=tuple(sizes))


def _cores(machine: Machine, draw: random.Random) -> Machine:
    return replace(machine, cores=machine.cores * draw.choice(_CORES))


def _line(machine: Machine, draw: random.Random) -> Machine:
    return replace(machine, line=machine.line * draw.choice(_LINES) // draw.choice((1, 2)))


def _vectors(machine: Machine, draw: random.Random) -> Machine:
    """Vectors of half a register, or of several, whose operations do not wait for one another."""
    factor = draw.choice((0.5, 2, 2, 4))
    bits, registers = int(machine.vector_bits * factor), int(machine.vector_registers / factor)
    return machine if bits < 64 or registers < 4 else replace(machine, vector_bits=bits, vector_registers=registers)
