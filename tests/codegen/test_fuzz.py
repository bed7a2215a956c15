"""A few of the random programs of `fuzz.py`; `make soak` runs many."""

import pytest
from fuzz import run_one


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_give_what_numpy_gives(seed):
    assert run_one(seed) is None


@pytest.mark.soak
def test_many_random_programs():
    wrong = {seed: problem for seed in range(3000) if (problem := run_one(seed)) is not None}
    assert not wrong
