"""Vectorized memory and loops against counting lanes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from pass_checks import module, script

from tvmagic.arith import Analyzer
from tvmagic.eval.integers import evaluate
from tvmagic.eval.machine import run_function
from tvmagic.ir import BufferLoad, IntImm, Var, decl_buffer
from tvmagic.tir import transform
from tvmagic.tir.transform.loops.lanes import LaneStorage


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("step", [1, 2])
def test_widened_memory_has_adjacent_lanes(shape: tuple[int, ...], lanes: int, step: int) -> None:
    """In strided memory too: the strides of rows are those of as many rows."""
    strides = [step]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size + 1)
    lane, buffer = Var("lane", "int32"), decl_buffer(shape, "int32", "B", strides=strides)
    storage = LaneStorage(buffer.data, lane, IntImm("int32", lanes), Analyzer())
    for given in (buffer, buffer.replace(strides=())):
        places: dict[int, tuple[Any, ...]] = {}
        for index in itertools.product(*map(range, shape)):
            load = storage.visit(BufferLoad(given, index))
            (flat,), (before,) = (b.offset_of(i) for b, i in ((load.buffer, load.indices), (given, index)))
            for number in range(lanes):
                place = evaluate(flat, {lane: number})
                factor = step if given.strides else 1
                assert place == evaluate(before, {}) * lanes + number * factor
                assert places.setdefault(place, (index, number)) == (index, number)


def values(mod: Any) -> np.ndarray:
    func = mod["main"]
    (buffer,) = func.buffer_map.values()
    out = np.full([int(n) for n in buffer.shape], -1, "int32")
    run_function(func, [out])
    return out


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8])
@pytest.mark.parametrize(
    "body", ["A[0, i] = i * 3 + 1", "A[0, i] = A[0, {last} - i] + i", "A[0, i] = T.Select(i < 1, 5, i)"]
)
def test_vectorized_loop_runs_each_lane_once(lanes: int, body: str) -> None:
    """A loop of one iteration is its body; lanes read before they write."""
    text = f"def main(A: T.Buffer((1, {lanes}), 'int32')):\n    for i in T.vectorized({lanes}):\n        {body.format(last=lanes - 1)}"
    after = transform.VectorizeLoop()(module(text))
    array = np.full(lanes, -1)
    numbers = np.arange(lanes)
    expected = {
        "A[0, i] = i": numbers * 3 + 1,
        "A[0, i] = A": array + numbers,
        "A[0, i] = T": np.where(numbers < 1, 5, numbers),
    }
    np.testing.assert_array_equal(values(after)[0], expected[body[:11]])
    assert f"x{lanes}" in script(after) or ":" in script(after).split("main")[1].split("):")[1] or lanes == 1
