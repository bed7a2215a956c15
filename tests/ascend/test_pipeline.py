"""When a core copies in, computes and copies out, with one buffer a queue and with two."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tvmagic import ascend
from tvmagic.ascend import AscGraph, ops
from tvmagic.ascend.pipeline import pipeline, stage_times


def ends(times: tuple[float, float, float], tiles: int, buffers: int) -> float:
    return max(stage.end for stage in pipeline(times, tiles, buffers))


@pytest.mark.parametrize(
    ("times", "one", "two"),
    [
        ((1, 1, 1), 9, 6),  # two buffers: in all the units work at once
        ((2, 1, 1), 13, 10),  # copying in decides
        ((1, 5, 1), 25, 22),  # computing decides
        ((0, 3, 0), 12, 12),  # nothing to hide
        ((2, 0, 2), 16, 10),  # a copy
    ],
)
def test_two_buffers_let_the_units_overlap(times: tuple[float, float, float], one: float, two: float) -> None:
    assert (ends(times, 4, 1), ends(times, 4, 2)) == (one, two)


def test_each_unit_and_each_buffer_has_one_tile_at_a_time() -> None:
    times = (2.0, 3.0, 1.5)
    for buffers in (1, 2):
        stages = pipeline(times, 6, buffers)
        for unit in range(3):
            mine = [s for s in stages if s.unit == unit]
            assert all(a.end <= b.start for a, b in zip(mine, mine[1:], strict=False))
        by = {(s.unit, s.tile): s for s in stages}
        for tile in range(6):
            assert by[0, tile].end <= by[1, tile].start and by[1, tile].end <= by[2, tile].start
            if tile >= buffers:
                assert by[1, tile - buffers].end <= by[0, tile].start and by[2, tile - buffers].end <= by[1, tile].start


def test_the_times_of_a_tile_are_those_of_its_calls() -> None:
    graph = AscGraph("add")
    graph.create_axis("z0", 10**6)
    x, y = ops.Load(ops.Data(graph, "x")), ops.Load(ops.Data(graph, "y"))
    ops.Output(ops.Store(ops.Add(x, y)), "z")
    (choice,) = ascend.auto_tiling(ascend.auto_schedule(graph), machine="atlas_a2").choices
    came, computed, went = stage_times(choice.impl, choice.sizes, {}, ascend.NPUS["atlas_a2"])
    npu = ascend.NPUS["atlas_a2"]
    tiles = -(-(10**6) // choice.sizes["z0t_size"])
    assert went == pytest.approx(npu.start + 10**6 / tiles * 4 / npu.move) and came == pytest.approx(2 * went)
    assert computed == pytest.approx(npu.start + 10**6 / tiles * 4 / npu.vector)


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("times", [(3.0, 2.0, 1.0), (1.0, 5.0, 1.0), (2.0, 0.0, 4.0), (0.0, 1.0, 0.0)])
def test_core_processes_tiles_in_order(times: tuple[float, float, float], buffers: int) -> None:
    """Each unit does one tile after the other; a tile goes from unit to unit, and into a queue that has a free buffer."""
    stages = pipeline(times, 7, buffers)
    by_unit = [[s for s in stages if s.unit == unit] for unit in range(3)]
    assert [[s.tile for s in unit] for unit in by_unit] == [list(range(7))] * 3
    for unit, time in zip(by_unit, times):
        assert all(s.end - s.start == time for s in unit) and all(a.end <= b.start for a, b in pairwise(unit))
    came, computed, went = by_unit
    for tile in range(7):
        assert came[tile].end <= computed[tile].start and computed[tile].end <= went[tile].start
        if tile >= buffers:
            assert (
                came[tile].start >= (computed if times[1] else went)[tile - buffers].end
                and computed[tile].start >= went[tile - buffers].end
            )
        # nothing waits without a reason
        reasons = [0.0, *(s.end for s in (*came[:tile], *computed[: max(0, tile)], *went[: max(0, tile)]))]
        assert came[tile].start in reasons and (
            computed[tile].start in reasons or computed[tile].start == came[tile].end
        )
    assert pipeline(times, 0, 2) == []
