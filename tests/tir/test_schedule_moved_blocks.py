"""Blocks that are moved or copied though their scope is inside another block, or their variables count down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tvmagic
from tvmagic.script import from_source
from tvmagic.tir import Schedule

NESTED = """
@T.prim_func
def f(A: T.Buffer((16, 8), "float32"), D: T.Buffer((16, 8), "float32")):
    for i0 in range(4):
        with T.block("outer"):
            vo = T.axis.spatial(4, i0)
            B = T.alloc_buffer((16, 8))
            C = T.alloc_buffer((4, 8))
            for i, j in T.grid(4, 8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vo * 4 + vi, vj] = A[vo * 4 + vi, vj] + T.float32(1)
            for i, j in T.grid(4, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vo * 4 + vi, vj] * T.float32(3)
            for i, j in T.grid(4, 8):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vo * 4 + vi, vj] = C[vi, vj] + C[3 - vi, vj]
"""

FALLING = """
@T.prim_func
def f(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
    B = T.alloc_buffer((6,))
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, 5 - i)
            C[5 - vi] = B[vi] + T.float32(1)
"""

Steps = Callable[[Schedule], object]


def result(text: str, shape: tuple[int, ...], steps: Steps) -> tuple[np.ndarray, np.ndarray]:
    """An array, and what the scheduled function makes of it."""
    sch = Schedule(from_source(text))
    steps(sch)
    given = np.random.default_rng(0).random(shape, "float32")
    made = np.zeros(shape, "float32")
    tvmagic.build(sch.mod)(given, made)
    return given, made


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        lambda s: (s.compute_at("C", s.get_loops("D")[0]), s.compute_at("B", s.get_loops("D")[0])),
        lambda s: s.compute_at("C", s.split(s.get_loops("D")[0], [None, 3])[0]),
    ],
    ids=["consumer at its producer", "producers at a loop", "producer at a split loop"],
)
def test_blocks_move_inside_a_block_on_whose_variables_their_places_depend(steps: Steps) -> None:
    given, made = result(NESTED, (16, 8), steps)
    tripled = ((given + 1) * 3).reshape(4, 4, 8)
    np.testing.assert_allclose(made, (tripled + tripled[:, ::-1]).reshape(16, 8), rtol=1e-6)


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        lambda s: s.cache_write("C", 0, "global"),
        lambda s: s.reindex("C", ("write", 0)),
    ],
    ids=["reverse_compute_at", "cache_write", "reindex"],
)
def test_a_variable_that_counts_down_takes_all_values(steps: Steps) -> None:
    given, made = result(FALLING, (6,), steps)
    np.testing.assert_array_equal(made, given[::-1] * 2 + 1)
