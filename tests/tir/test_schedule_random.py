"""Random choices of schedules against definitions of their own: the engine, factors, decisions, tables of what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from refusals import refuses

from tvmagic import tir
from tvmagic.script import from_source
from tvmagic.tir.schedule import ScheduleError
from tvmagic.tir.schedule.primitives import sampling
from tvmagic.tir.schedule.random import LinearCongruentialEngine

M = 2**31 - 1
STATES = [1, 2, 48271, 123_456_789, M // 2, M - 2, M - 1]


def stream(seed: int) -> Any:
    """The numbers after a seed: powers of the multiplier."""
    return (seed * pow(48271, n, M) % M for n in itertools.count(1))


@pytest.mark.parametrize(("seed", "state"), [(0, 1), (1, 1), (5, 5), (M - 1, M - 1), (M, 0), (M + 7, 7)])
def test_seeds(seed: int, state: int) -> None:
    assert LinearCongruentialEngine(seed).state == state


def test_seeds_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    below: list[int] = []
    monkeypatch.setattr("secrets.randbelow", lambda limit: below.append(limit) or 41)
    engine = LinearCongruentialEngine(9)
    assert not below
    for seed in (None, -1):
        engine.seed(seed)
        assert engine.state == 42
    assert below == [M - 1, M - 1]  # with the 1 that is added: every state but 0
    for seed in (-2, -M):
        with refuses("schedule.wrong_seed"):
            engine.seed(seed)


@pytest.mark.parametrize("seed", STATES)
@pytest.mark.parametrize(
    ("low", "high"), [(0, 2), (0, 7), (-3, 5), (10, 1000), (0, M - 1), (0, M // 2), (0, M // 2 + 1)]
)
def test_integers(seed: int, low: int, high: int) -> None:
    """The first number of the stream that is in a whole bucket says which: there are as many as integers."""
    size = high - low
    bucket = (M - 1) // size
    wanted = next(x for x in stream(seed) if x // bucket < size)
    assert LinearCongruentialEngine(seed).integer(low, high) == low + wanted // bucket


@pytest.mark.parametrize(("low", "high"), [(3, 4), (3, 3), (3, 1)])
def test_one_integer_draws_nothing(low: int, high: int) -> None:
    engine = LinearCongruentialEngine(5)
    assert engine.integer(low, high) == low and engine.state == 5


@pytest.mark.parametrize("seed", STATES)
def test_reals(seed: int) -> None:
    numbers = stream(seed)
    wanted = Fraction(next(numbers) + next(numbers) * M, M * M)
    drawn = LinearCongruentialEngine(seed).real()
    assert 0 <= drawn < 1 and abs(Fraction(drawn) - wanted) < Fraction(1, 2**51)


def test_a_real_is_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LinearCongruentialEngine(1)
    monkeypatch.setattr(engine, "next", lambda: M)
    assert engine.real() == math.nextafter(1.0, 0.0)


@pytest.mark.parametrize(
    ("weights", "real", "index"),
    [
        ([1.0], 0.5, 0),
        ([], 0.5, 0),
        ([1.0, 1.0], 0.0, 0),
        ([1.0, 1.0], 0.49, 0),
        ([1.0, 1.0], 0.51, 1),
        ([1.0, 3.0], 0.3, 1),
        ([1.0, 3.0], 0.2, 0),
        ([0.25, 0.25, 0.5], 0.4, 1),
        ([0.0, 1.0], 0.2, 1),
        ([1.0, 0.0], 0.999, 0),
        ([2.0, 2.0, 4.0], 0.6, 2),
        ([1.0, 1.0], 0.999, 1),
    ],
)
def test_weighted_choices(weights: list[float], real: float, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LinearCongruentialEngine(1)
    monkeypatch.setattr(engine, "real", lambda: real)
    assert engine.weighted(weights) == index


@pytest.mark.parametrize(("size", "count"), [(5, 0), (5, 1), (5, 2), (2, 2), (5, 3), (5, 5), (9, 4)])
def test_distinct_integers(size: int, count: int) -> None:
    """Every list of different numbers comes, about as often as the others."""
    engine = LinearCongruentialEngine(77)
    lists = math.perm(size, count)
    draws = [tuple(engine.distinct(size, count)) for _ in range(lists * 12)]
    assert all(len(set(d)) == count and set(d) <= set(range(size)) for d in draws)
    if lists < 200:
        assert len(set(draws)) == lists and max(map(draws.count, set(draws))) < 40 or lists == 1


def test_prime_powers() -> None:
    for number in range(1, 700):
        found = sampling.prime_powers(number)
        assert math.prod(p**k for p, k in found) == number
        assert all(k > 0 and all(p % d for d in range(2, p)) for p, k in found)
        assert [p for p, _ in found] == sorted({p for p, _ in found})
    # primes from 65,536 on, and products of them, are one factor
    assert sampling.prime_powers(65521 * 65521) == [(65521, 2)]
    assert sampling.prime_powers(65537 * 65537 * 4) == [(2, 2), (65537 * 65537, 1)]
    assert sampling.prime_powers(65521 * 65537) == [(65521, 1), (65537, 1)]


@pytest.mark.parametrize("extent", [1, 2, 12, 30, 64, 97, 3 * 65537])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_sampled_tiles(extent: int, parts: int) -> None:
    engine = LinearCongruentialEngine(3)
    tiles = {tuple(sampling.sample_tile(engine, extent, parts)) for _ in range(200)}
    assert all(len(t) == parts and math.prod(t) == extent for t in tiles)
    ways = math.prod(math.comb(k + parts - 1, parts - 1) for _, k in sampling.prime_powers(extent))
    assert len(tiles) == ways or (ways > 20 and len(tiles) > ways // 5)


def test_a_prime_is_drawn_as_one_place_and_a_power_as_bars() -> None:
    """How many numbers a tile takes from the stream: one for a prime, one for a pair, two bars, three bars."""
    for extent, parts, draws in [
        (7, 3, 1),
        (64, 2, 1),
        (64, 3, 2),
        (64, 4, 3),
        (65537, 2, 1),
        (6, 2, 2),
        (12, 3, 3),
        (1, 3, 0),
        (64, 1, 0),
    ]:
        engine = LinearCongruentialEngine(1000)
        sampling.sample_tile(engine, extent, parts)
        numbers = [1000, *itertools.islice(stream(1000), draws)]
        assert engine.state == numbers[-1], (extent, parts)


SIZES = """from tvm.script import tir as T
@T.prim_func
def main(a: T.handle, C: T.Buffer((64,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    for i in range(n):
        with T.block("A"):
            vi = T.axis.spatial(n, i)
            A[vi] = T.float32(1)
    for i in range(64):
        with T.block("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = T.float32(1)
"""


def loop(name: str) -> tuple[tir.Schedule, Any]:
    sch = tir.Schedule(from_source(SIZES), seed=4)
    return sch, sch.get_loops(name)[0]


def values(sch: tir.Schedule, factors: Any) -> list[Any]:
    return [None if f is None else sch.get(f) for f in factors]


@pytest.mark.parametrize(
    ("call", "fine"),
    [
        ("sample_perfect_tile(loop, 1)", True),
        ("sample_perfect_tile(loop, 0)", False),
        ("sample_perfect_tile(loop, 1024)", True),
        ("sample_perfect_tile(loop, 1025)", False),
        ("sample_perfect_tile(loop, 2, 0)", False),
        ("sample_perfect_tile(loop, 2, -1)", True),
        ("sample_perfect_tile(loop, 2, -2)", False),
        ("sample_perfect_tile(loop, 2, 1)", True),
        ("sample_perfect_tile(loop, 2, 16, [8, 8])", True),
        ("sample_perfect_tile(loop, 2, 16, [8, 8, 1])", False),
        ("sample_partitioned_tile(loop, 2, -1)", False),
        ("sample_partitioned_tile(loop, 2, 0)", True),
        ("sample_partitioned_tile(loop, 2, 1)", True),
        ("sample_partitioned_tile(loop, 2, 2)", False),
        ("sample_partitioned_tile(loop, 2, 0, 0)", False),
        ("sample_partitioned_tile(loop, 2, 0, 1)", True),
        ("sample_partitioned_tile(loop, 2, 0, 1, [8])", False),
        ("sample_partitioned_tile(loop, 2, 0, 1, [8, 8])", True),
        ("sample_categorical([1, 2], [0.5])", False),
        ("sample_categorical([], [])", False),
        ("sample_categorical([3], [1.0])", True),
        ("sample_categorical([1, 2], [0.5, 0.5], 2)", False),
        ("sample_categorical([1, 2], [0.5, 0.5], 1)", True),
        ("sample_categorical([1, 2], [0.5, 0.5], 0)", True),
        ("sample_categorical([1, 2], [0.5, 0.5], -1)", False),
    ],
)
def test_what_may_be_asked_for(call: str, fine: bool) -> None:
    sch, known = loop("C")
    if fine:
        eval("sch." + call, {"sch": sch, "loop": known})
    else:
        with pytest.raises(ScheduleError):
            eval("sch." + call, {"sch": sch, "loop": known})


def test_what_is_drawn_is_within_its_bounds() -> None:
    sch, known = loop("C")
    for most in (1, 2, 16):
        innermost = {values(sch, sch.sample_perfect_tile(known, 2, most))[-1] for _ in range(30)}
        assert max(innermost) == most  # the largest that is allowed comes too
    assert values(sch, sch.sample_perfect_tile(known, 1, 16)) == [64]
    assert values(sch, sch.sample_partitioned_tile(known, 3, 1, 24)) == [64, 1, 1]  # 24 does not divide 64
    assert values(sch, sch.sample_partitioned_tile(known, 2, 1, 8, decision=[2, 32])) == [2, 32]
    assert values(sch, sch.sample_partitioned_tile(known, 2, 1, 8, decision=[16, 4])) == [8, 8]
    assert values(sch, sch.sample_partitioned_tile(known, 2, 0, 8, decision=[4, 4])) == [16, 4]
    assert [sch.get(sch.sample_categorical([5, 6, 7], [1.0, 1.0, 1.0], place)) for place in range(3)] == [5, 6, 7]
    assert {sch.get(sch.sample_categorical([5, 6, 7], [0.0, 1.0, 0.0])) for _ in range(8)} == {6}
