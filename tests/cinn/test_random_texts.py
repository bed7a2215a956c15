"""Random texts through the reader and the printer and back; some of them run, before and after."""

from __future__ import annotations

import re

import numpy as np
import pytest
from random_texts import random_text

import tvmagic
from tvmagic.ir import PrimFunc
from tvmagic.script import cinn_text, from_cinn


def there_and_back(seed: int, *, runs: bool) -> None:
    text, known = random_text(seed)
    func = from_cinn(text, known)
    assert cinn_text(func, regions=False, head=False) == text
    printed = cinn_text(func)
    again = from_cinn(printed, known)
    assert cinn_text(again) == printed
    if runs and all(str(b.dtype) != "bfloat16" for b in func.buffer_map.values()):  # which NumPy does not have
        if "if (" in text:  # what a guard leaves unwritten is only known of tensors that are given
            func = from_cinn(text, known, outputs=sorted(set(re.findall(r"T\d+", text))))
            again = from_cinn(cinn_text(func), known)
        for one, two in zip(results(func, seed), results(again, seed)):
            np.testing.assert_array_equal(one.view(np.uint8), two.view(np.uint8))


def results(func: PrimFunc, seed: int) -> list[np.ndarray]:
    """What a function leaves in its arrays."""
    rng = np.random.default_rng(seed)
    arrays = []
    for buffer in (func.buffer_map[p] for p in func.params):
        shape = tuple(int(getattr(n, "value", 6)) for n in buffer.shape)  # a symbolic size is 6
        arrays.append(rng.integers(-4, 5, shape).astype(str(buffer.dtype)))
    tvmagic.build(func)(*arrays)
    return arrays


@pytest.mark.parametrize("seed", range(40))
def test_random_texts(seed: int) -> None:
    there_and_back(seed, runs=seed < 8)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_a_thousand_random_texts(start: int) -> None:
    for seed in range(start, start + 100):
        there_and_back(seed, runs=seed % 5 == 0)
