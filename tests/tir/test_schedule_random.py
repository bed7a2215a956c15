"""Random schedules of random functions compute what the functions compute."""

import pathlib

import pytest
from schedule_random import check
from schedule_soak import failing


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_schedules(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 10)) > 20


@pytest.mark.parametrize("seed", [5297])
def test_random_schedules_that_were_wrong(seed: int) -> None:
    """5297: a buffer of cached indices, whose strides are fewer than its dimensions, in the loops of `read_at`."""
    check(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(60, 5_060, 500))
def test_many_random_schedules(first: int) -> None:
    assert failing(first, first + 500) == {}


def test_a_crash_costs_one_seed_and_names_it(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import os, signal, sys

for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    print("start", seed, flush=True)
    if seed == 3:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed == 5:
        print("wrong", seed, "AssertionError not equal", flush=True)
    if seed == 6:
        sys.exit(4)
""")
    assert failing(0, 8, str(program)) == {
        3: "the process died: SIGSEGV",
        5: "AssertionError not equal",
        6: "the process died: exit code 4",
    }
