"""Pictures of regions: what stands beside the grid."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tvmagic.notebook.pictures.regions import grid_svg


@pytest.mark.parametrize(
    "shape, labels", [((1, 16), ["5"]), ((2, 300), ["5-6"]), ((4, 4), ["5", "8"]), ((40, 8), ["5", "44"])]
)
def test_the_first_and_the_last_row_are_told_without_overlap(shape: tuple[int, int], labels: list[str]) -> None:
    grid = np.ones(shape, bool)
    svg = grid_svg(grid, grid, (5, 0), "Region", "words")
    found = re.findall(r'<text x="2" y="([\d.]+)"[^>]*>([^<]*)</text>', svg)
    assert [word for _, word in found] == labels
    heights = [float(y) for y, _ in found]
    assert all(b - a >= 12 for a, b in zip(heights, heights[1:]))
