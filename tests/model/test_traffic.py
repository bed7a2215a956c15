"""What memory moves by the model, where loops share a cache with others, and what waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic.codegen import last_program
from tvmagic.model.footprints import footprint, patterns, touched
from tvmagic.model.nests import nests_of
from tvmagic.model.program_model import model
from tvmagic.model.traffic import Traffic
from tvmagic.operators import Version, operator
from tvmagic.operators.scheduling import schedule
from tvmagic.target import resolved

WIDE, NARROW = "llvm -mcpu=skylake-avx512", "llvm -mcpu=haswell"  # with second caches of 1 MB and of 256 KB


def func(version: Version, target: str = WIDE) -> Any:
    """The first function of a version's last program."""
    return next(iter(last_program(version.lower(), target).functions.values()))


def moved(version: Version, target: str, buffer: str, level: int) -> list[int]:
    """Bytes of a buffer that each nest with it moves into the cache of a level."""
    nests, top, _ = nests_of(func(version, target))
    traffic = Traffic(nests, top, resolved(target).machine)
    return [traffic.moved(n, p, level) for n in nests for p in patterns(n.accesses) if p.access.name == buffer]


ROWS = "X: float32[66, 2048]\nH: float32[66, 2048]\nH[i, j] = X[i, j] * 2 + 1\nY: float32[64, 2048]\nY[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]"


def test_rows_that_another_loop_pushes_out_come_again() -> None:
    """Three rows of H are stored and read in each row of Y, beside three of X: more than the first cache holds."""
    inside = schedule(operator("rows", ROWS), "s[H].compute_at(s[Y], Y.op.axis[0])", "inside")
    stored, read = moved(inside, WIDE, "H", 1)
    assert stored == read == 64 * 3 * 2048 * 4
    assert moved(inside, WIDE, "H", 2) == [0, 0]


def test_what_is_a_little_larger_than_a_cache_is_partly_there_at_the_next_call() -> None:
    text = "X: float32[{}, 768]\nY[i, j] = X[i, j] + 1"
    size = 768 * 4
    for rows, least, most in ((100, 0.0, 0.0), (220, 0.3, 0.6), (256, 0.5, 0.7), (1000, 0.95, 1.0)):  # 0.6 to 6 MB
        for count in moved(operator("plus", text.format(rows)).version("plain"), WIDE, "Y", 2):
            assert least <= count / (rows * size) <= most


def test_a_sum_in_memory_goes_back_to_it() -> None:
    """What is loaded and stored at one place is one pattern, which moves both ways."""
    text = "A: float32[4, 3000000]\nS[j] += A[i, j]"
    added = schedule(operator("added", text), "s[S].reorder(s[S].op.reduce_axis[0], S.op.axis[0])", "added")
    (nest,) = [n for n in nests_of(func(added))[0] if any(s.accumulates for s in n.statements)]
    (pattern,) = [p for p in patterns(nest.accesses) if p.access.name == "S"]
    assert pattern.stored and not pattern.access.store
    assert moved(added, NARROW, "S", 3)[-1] == 2 * 4 * touched(pattern, 0, 64)


def test_accesses_of_copies_of_a_loop_are_one_pattern() -> None:
    cell = "yo, yi = s[Y].split(Y.op.axis[0], 2)\ns[Y].unroll(yi)"
    nests = nests_of(func(schedule(operator("plus", "X: float32[8, 64]\nY[i, j] = X[i, j] + 1"), cell, "two")))[0]
    every = [a for nest in nests for a in nest.accesses]
    assert len(nests) == 2 and [len(p.offsets) for p in patterns(every)] == [2, 2]
    assert footprint(every, 0, 64) == 2 * 8 * 64 * 4


@pytest.mark.parametrize("target", [WIDE, NARROW])
@pytest.mark.parametrize(("step", "least", "most"), [(1, 0.0, 0.3), (2, 0.9, 2.5), (3, 0.9, 2.5)])
def test_lanes_that_are_apart_are_loaded_one_by_one(target: str, step: int, least: float, most: float) -> None:
    """LLVM makes vectors of such a loop, and puts each together from single loads."""
    picked = operator("picked", f"X: float32[60, {400 * step}]\nD: float32[60, 400]\nD[i, j] = X[i, {step} * j] + 1")
    body = func(picked.version("plain"), target)
    told = {n.inner.node: True for n in nests_of(body)[0]}
    (made,) = model(body, resolved(target).machine, vectorized=told).nests
    assert made.vectorized and least <= made.core / (60 * 400) <= most
