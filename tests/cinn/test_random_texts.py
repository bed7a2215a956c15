"""Random texts through the reader and the printer and back; some of them run, before and after."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from random_steps import random_calls
from random_texts import random_text
from text_meaning import run

import tvmagic
from tvmagic.cinn import IRSchedule
from tvmagic.ir import IntImm, PrimFunc
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


MEANT = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")


def as_it_is_read(seed: int) -> bool:
    """Whether a random text could be compared: what it leaves in its arrays with what its lines say.

    Not compared are texts of symbolic sizes.
    """
    text, known = random_text(seed)
    dtype = next((dtype for _, dtype in known.values()), "")
    if dtype not in MEANT:
        return False
    outputs = sorted(set(re.findall(r"T\d+", text))) if "if (" in text else []
    func = from_cinn(text, known, outputs=outputs)
    buffers = [func.buffer_map[p] for p in func.params]
    if not all(isinstance(size, IntImm) for b in buffers for size in b.shape):
        return False
    rng, names = np.random.default_rng(seed), [b.name for b in buffers]
    arrays = [rng.integers(-4, 5, tuple(int(n) for n in b.shape)).astype(dtype) for b in buffers]
    meant = {name: array.copy() for name, array in zip(names, arrays)}
    run(text, meant)
    tvmagic.build(func)(*arrays)
    bound = 2e-2 if dtype == "float16" else 2e-4 if "float" in dtype else 0
    for name, array in zip(names, arrays):
        np.testing.assert_allclose(
            array.astype("float64"), meant[name].astype("float64"), bound, bound, err_msg=f"seed {seed}"
        )
    return True


def test_random_texts_compute_what_their_lines_say() -> None:
    assert sum(as_it_is_read(seed) for seed in (2687, *range(30))) > 18


@pytest.mark.soak
def test_a_thousand_random_texts_compute_what_their_lines_say() -> None:
    assert sum(as_it_is_read(seed) for seed in range(10_000, 11_000)) > 600


def steps_hold(seed: int) -> bool:
    """Whether a random text could take random steps, which leave what it computes, to the bit."""
    text, known = random_text(seed)
    if text.count("ScheduleBlock(") < 4 or not known or "bfloat16" in text:
        return False
    seen = seed % 2 or "if (" in text  # what a guard leaves unwritten is only known of tensors that are given
    func = from_cinn(text, known, outputs=sorted(set(re.findall(r"\b[TR]\d+", text))) if seen else [])
    schedule = random_calls(IRSchedule(func), random.Random(seed), 16).schedule
    before, after = by_name(func, seed), by_name(schedule.func, seed)
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=f"seed {seed}: {name}")
    return True


def by_name(func: PrimFunc, seed: int) -> dict[str, np.ndarray]:
    """What a function leaves in its arrays, by name."""
    rng = np.random.default_rng(seed)
    buffers = {func.buffer_map[p].name: func.buffer_map[p] for p in func.params}
    arrays = {
        name: rng.integers(-4, 5, tuple(int(str(n)) for n in b.shape)).astype(str(b.dtype))
        for name, b in sorted(buffers.items())
    }
    tvmagic.build(func)(*[arrays[name] for name in buffers])
    return arrays


def test_random_steps_on_random_texts() -> None:
    assert sum(steps_hold(seed) for seed in range(400, 412)) > 3


@pytest.mark.soak
def test_a_thousand_random_steps_on_random_texts() -> None:
    assert sum(steps_hold(seed) for seed in range(1000, 2000)) > 300


@pytest.mark.parametrize("seed", range(40))
def test_random_texts(seed: int) -> None:
    there_and_back(seed, runs=seed < 8)


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 1000, 100))
def test_a_thousand_random_texts(start: int) -> None:
    for seed in range(start, start + 100):
        there_and_back(seed, runs=seed % 5 == 0)
