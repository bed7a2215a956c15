"""Random schedules of random functions compute what the functions compute."""

import pytest
from schedule_random import check


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_schedules(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + 10)) > 20


@pytest.mark.parametrize("seed", [57, 108, 159])
def test_schedules_that_were_wrong(seed: int) -> None:
    """A writer hidden in partitions; indices made by a loop inside; a loop's variable used without a binding."""
    check(seed)


@pytest.mark.soak
def test_many_random_schedules() -> None:
    for seed in range(60, 5_060):
        check(seed)
