"""Sums and decisions of Ascend's graphs that few graphs come to."""

from __future__ import annotations

import pytest

from tvmagic.ascend import AscGraph
from tvmagic.ascend.rules import _spanned
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.transforms import are_neighbours


@pytest.mark.parametrize(
    ("repeats", "strides", "elements"),
    [
        ([], [], 1),
        ([1], [7], 1),
        ([8], [1], 8),
        ([8], [2], 15),
        ([3, 4], [4, 1], 12),
        ([3, 4], [10, 2], 27),
        ([5, 1], [0, 1], 1),
    ],
)
def test_how_far_a_tensor_reaches(repeats: list[int], strides: list[int], elements: int) -> None:
    assert _spanned([Size.of(n) for n in repeats], [Size.of(n) for n in strides]) == elements


def test_which_axes_are_neighbours() -> None:
    graph = AscGraph("axes")
    a, b, c = (graph.create_axis(f"z{n}", 4 + n) for n in range(3))
    assert (
        are_neighbours([a, b, c], [a, b]) and are_neighbours([a, b, c], [b, c]) and are_neighbours([a, b, c], [a, b, c])
    )
    assert not are_neighbours([a, b, c], [a, c]) and not are_neighbours([a, b, c], [b, a])
    assert not are_neighbours([a, b], [b, c]) and not are_neighbours([a, b], [c]) and not are_neighbours([a, b], [])
