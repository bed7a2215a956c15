"""Blocks that are moved or copied though their scope is inside another block, or their variables count down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tvmagic
from tvmagic.errors import ScheduleError
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

PLAIN = """
@T.prim_func
def f(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    B = T.alloc_buffer((12,))
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial(12, i)
            B[vi] = A[vi] * T.float32(2)
    for i in range(12):
        with T.block("C"):
            vi = T.axis.spatial(12, i)
            C[vi] = B[vi] + T.Cast("float32", vi)
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


LAYOUTS: dict[str, Callable[..., object]] = {
    "tiles": lambda i: (i // 4, i % 4),
    "tiles that count down": lambda i: (2 - i // 4, i % 4),
    "tiles, each counting down": lambda i: (i // 4, 3 - i % 4),
    "counting down": lambda i: 11 - i,
    "from the middle": lambda i: (i + 5) % 12,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("forward", [True, False], ids=["compute_at", "reverse_compute_at"])
def test_what_moves_in_another_layout_reads_what_was_written(layout: str, size: int, forward: bool) -> None:
    """A piece of the loop is no box in the layout unless it is whole tiles: then either it is seen, or the call is refused."""

    def steps(sch: Schedule) -> None:
        sch.transform_layout("B", ("write", 0), LAYOUTS[layout])
        moved, to = ("B", "C") if forward else ("C", "B")
        outer, _ = sch.split(sch.get_loops(to)[0], [None, size])
        try:
            (sch.compute_at if forward else sch.reverse_compute_at)(moved, outer)
        except ScheduleError:
            assert layout == "from the middle" or (layout.startswith("tiles") and size not in (4, 8))

    given, made = result(PLAIN, (12,), steps)
    np.testing.assert_array_equal(made, given * 2 + np.arange(12, dtype="float32"))


MIRRORED = """
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    C = T.match_buffer(c, (n,))
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[n - 1 - vi] * T.float32(2)
"""


def test_an_index_from_the_end_of_a_symbolic_size_is_inside() -> None:
    given, made = result(MIRRORED, (7,), lambda s: s.reindex("C", ("read", 0)))
    np.testing.assert_array_equal(made, given[::-1] * 2)


GUARDED = """
@T.prim_func
def f(A: T.Buffer(({padded},), "float32"), C: T.Buffer(({n},), "float32")):
    B = T.alloc_buffer(({padded},))
    for i in range({padded}):
        with T.block("B"):
            v = T.axis.spatial({padded}, i)
            T.where(i < {n})
            B[v] = A[v] + 1.0
    for i in range({n}):
        with T.block("C"):
            v = T.axis.spatial({n}, i)
            C[v] = B[v] * 2.0
"""


@pytest.mark.parametrize("factor", [2, 3, 5])
@pytest.mark.parametrize("inner", [False, True])
def test_a_consumer_moves_to_a_producer_that_runs_where_it_reads(factor: int, inner: bool) -> None:
    """The producer's domain is longer than the part of it that runs."""
    for n in range(3, 18):
        sch = Schedule(from_source(GUARDED.format(n=n, padded=(n + 3) // 4 * 4)))
        loops = sch.split(sch.get_loops("B")[0], [None, factor])
        sch.reverse_compute_at("C", loops[inner])
        if n % 5 == 1:
            a, c = np.arange((n + 3) // 4 * 4, dtype="float32"), np.full(n, np.nan, "float32")
            tvmagic.build(sch.mod)(a, c)
            assert (c == (a[:n] + 1) * 2).all()


def test_a_consumer_that_reads_what_comes_later_is_not_moved_to_a_guarded_producer() -> None:
    sch = Schedule(from_source(GUARDED.format(n=6, padded=8).replace("B[v] * 2.0", "B[5 - v] * 2.0")))
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 2])
    sch.reverse_compute_at("C", outer)
    a, c = np.arange(8, dtype="float32"), np.full(6, np.nan, "float32")
    tvmagic.build(sch.mod)(a, c)
    assert (c == (a[5::-1] + 1) * 2).all()
