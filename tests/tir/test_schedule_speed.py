"""Primitives do work for what they change, not for the whole function again; counted in calls of functions."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest

from tvmagic.errors import TVMagicError
from tvmagic.tir import Schedule

primitives = pytest.importorskip("benchmarks.tir_primitives", reason="the benchmarks are in the repository only")
Count = Callable[[Callable[[], Any]], int]


def test_a_primitive_on_a_hundred_blocks(calls: Count) -> None:
    """The median over primitives, each on a fresh schedule; 10,000 calls take about 2 ms."""
    function = primitives.chain(100)
    counts: dict[str, int] = {}
    for name, run in primitives.PRIMITIVES.items():
        schedules = [Schedule(function), Schedule(function)]
        run(schedules[0])  # what is known of the function's own nodes is kept
        counts[name] = calls(lambda s=schedules[1], r=run: r(s))
    assert statistics.median(counts.values()) < 19_000, counts
    trials = counts.pop("sample_compute_location")  # moves the block to each place once
    assert max(counts.values()) < 71_000 and trials < 100_000, counts


def test_the_matmul_trace(cpu_seconds: Callable[..., float]) -> None:
    schedule = primitives.matmul_schedule()
    assert len(schedule.trace.insts) >= 20
    assert cpu_seconds(primitives.matmul_schedule, repeat=3) < 0.15


def test_many_primitives_on_one_function(calls: Count) -> None:
    function = primitives.chain(100)
    few, many = (calls(lambda n=n: primitives.annotate_many(Schedule(function), n)) for n in (50, 200))
    assert many < 4.4 * few


def test_compute_at_keeps_what_is_known(calls: Count) -> None:
    """A block that joins others under a loop costs so much for each of them, not as their square."""

    def last_call(blocks: int) -> int:
        sch = Schedule(primitives.chain(blocks))
        loop = sch.get_loops(f"B{blocks - 1}")[0]
        for i in reversed(range(1, blocks - 1)):
            sch.compute_at(f"B{i}", loop)
        return calls(lambda: sch.compute_at("B0", loop))

    assert last_call(96) - last_call(24) < 160 * 72


def test_a_condition_that_doubles_with_each_step_is_refused() -> None:
    """Splits that do not divide, each fused again: the condition is not simplified, as in TVM."""
    sch = Schedule(primitives.chain(1))
    loop = sch.get_loops("B0")[0]
    with pytest.raises(TVMagicError, match="`B0`") as caught:
        for _ in range(20):
            loop = sch.fuse(*sch.split(loop, [None, 3]))
    assert caught.value.hint and "divide" in caught.value.hint
