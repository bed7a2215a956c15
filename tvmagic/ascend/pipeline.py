"""When one core of an NPU copies in, computes and copies out each of its tiles: with one buffer a queue and with two.

The three units work at the same time, each on one tile after the other. A tile is copied in once a buffer of the queue is
free, computed once it is there and a buffer of the next queue is free, copied out once it is computed. What is only copied
stays in its buffer until it is copied out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmagic.ascend.autoschedule import ImplGraph
from tvmagic.ascend.machine import NPUS, AnyMachine, Npu
from tvmagic.ascend.npu import NpuModel

STAGES = ("copy in", "compute", "copy out")


@dataclass(frozen=True)
class Stage:
    """What a unit (0 copies in, 1 computes, 2 copies out) does with a tile, in nanoseconds from the start."""

    unit: int
    tile: int
    start: float
    end: float


def stage_times(
    impl: ImplGraph, sizes: Mapping[str, int], values: Mapping[str, int], machine: AnyMachine
) -> tuple[float, float, float]:
    """Nanoseconds of the three units for one tile, with the assumed speeds of an NPU; for this machine those of `atlas_a2`."""
    npu = machine if isinstance(machine, Npu) else NPUS["atlas_a2"]
    return NpuModel(impl, values, npu).stages(sizes)


def pipeline(times: Sequence[float], tiles: int, buffers: int) -> list[Stage]:
    """What one core does when, with `buffers` in each of its queues."""
    done: list[tuple[Stage, Stage, Stage]] = []
    for tile in range(tiles):
        previous = done[-1] if done else None
        freed = done[tile - buffers] if tile >= buffers else None  # whose buffers this tile takes
        first = max(previous[0].end if previous else 0.0, freed[1 if times[1] else 2].end if freed else 0.0)
        came = Stage(0, tile, first, first + times[0])
        start = max(came.end, previous[1].end if previous else 0.0, freed[2].end if freed else 0.0)
        computed = Stage(1, tile, start, start + times[1])
        out = max(computed.end, previous[2].end if previous else 0.0)
        done.append((came, computed, Stage(2, tile, out, out + times[2])))
    return [stage for tile in done for stage in tile]
