"""Whether a reducer may be regrouped or reordered, compared with all values of small reducers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tvmagic import te, tir
from tvmagic.arith.reducer_laws import can_regroup, can_reorder
from tvmagic.ir import CommReducer, Var, convert
from tvmagic.ir.ops import max_value, min_value

INT = "int8"


def reducer(combine: Callable[..., Any], *start: Any) -> CommReducer:
    left, right = ([Var(f"{side}{i}", INT) for i in range(len(start))] for side in "xy")
    return CommReducer(left, right, list(map(convert, combine(left, right))), [te.const(v, INT) for v in start])


def one(combine: Callable[[Any, Any], Any], start: int = 0) -> CommReducer:
    return reducer(lambda x, y: [combine(x[0], y[0])], start)


def better(keys: list[tuple[int, str]], x: Any, y: Any) -> Any:
    """Whether `x` is chosen: the first key at which they differ decides."""
    (place, sign), rest = keys[0], keys[1:]
    first = {"<": x[place] < y[place], ">": x[place] > y[place], ">=": x[place] >= y[place]}[sign]
    return tir.any(first, tir.all(x[place].equal(y[place]), better(rest, x, y))) if rest else first


def chosen(*conditions: list[tuple[int, str]]) -> Callable[[Any, Any], list[Any]]:
    return lambda x, y: [tir.Select(better(c, x, y), x[i], y[i]) for i, c in enumerate(conditions)]


LOW, HIGH = min_value(INT).value, max_value(INT).value
PROVED = {
    "sum": one(lambda x, y: y + x),
    "product": one(lambda x, y: x * y, 1),
    "min": one(lambda x, y: te.min(x, y), HIGH),
    "max from 0": one(lambda x, y: te.max(x, y)),
    "and": one(lambda x, y: x & y, -1),
    "or": one(lambda x, y: x | y),
    "xor": one(lambda x, y: x ^ y),
    "x + y + x*y": one(lambda x, y: x + y + x * y),
    "sum around 1": one(lambda x, y: x + y - te.const(1, INT), 1),
    "greater by select": one(lambda x, y: tir.Select(x < y, y, x), LOW),
    "complex product": reducer(lambda x, y: [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]], 1, 0),
    "sum and max": reducer(lambda x, y: [x[0] + y[0], te.max(x[1], y[1])], 0, LOW),
    "argmax, first place": reducer(chosen([(1, ">"), (0, "<")], [(1, ">")]), HIGH, LOW),
    "argmin by max": reducer(lambda x, y: [tir.Select(x[1] < y[1], x[0], y[0]), te.min(x[1], y[1])], -1, HIGH),
    "argmax, any place": reducer(chosen([(1, ">=")], [(1, ">=")]), -1, LOW),
    "three keys": reducer(chosen([(2, "<"), (1, ">"), (0, ">=")], [(2, "<"), (1, ">")], [(2, "<")]), 0, 0, HIGH),
}
NOT_PROVED = {
    "difference": one(lambda x, y: x - y),
    "sum from 1": one(lambda x, y: x + y, 1),
    "xor from 1": one(lambda x, y: x ^ y, 1),
    "mean": one(lambda x, y: (x + y) // 2),
    "sum of squares": one(lambda x, y: x + y * y),
    "last": one(lambda x, y: y),
    "greater by far": one(lambda x, y: tir.Select(x > y + 1, x, y), LOW),
    "twice": one(lambda x, y: x * 2 + y),
    "place by one value, value by another": reducer(chosen([(1, ">")], [(1, "<")]), 0, LOW),
    "keys in two orders": reducer(chosen([(0, ">"), (1, ">")], [(1, ">"), (0, ">")]), LOW, LOW),
    "key that is a sum": reducer(lambda x, y: [tir.Select(x[1] > y[1], x[0], y[0]), x[1] + y[1]], 0, 0),
}


@pytest.mark.parametrize("name", PROVED)
def test_known_reducers_are_proved(name: str) -> None:
    assert can_regroup(PROVED[name]) and can_reorder(PROVED[name])


@pytest.mark.parametrize("name", NOT_PROVED)
def test_other_reducers_are_not_proved(name: str) -> None:
    assert not can_regroup(NOT_PROVED[name])


def test_differences_may_be_reordered_but_not_regrouped() -> None:
    assert can_reorder(NOT_PROVED["difference"]) and not can_reorder(NOT_PROVED["twice"])


def test_a_declared_reducer_is_believed() -> None:
    seen: list[Any] = []
    mean = te.comm_reducer(lambda x, y: (x + y) // 2, lambda t: te.const(0, t), associative=True)
    k, a = te.reduce_axis((0, 4), "k"), te.placeholder((4,), INT, name="a")
    te.compute((1,), lambda i: seen.append(mean(a[k], axis=k)) or seen[0])
    assert can_regroup(seen[0].combiner)


# ---------------------------------------------------------------------------- soundness

_WRAP = 256


def _value(e: Any, values: dict[Any, int]) -> int:
    """The value of an expression of the random reducers, on Python integers that wrap as int8."""
    kind = type(e).__name__
    if kind == "Var":
        return values[e]
    if kind == "IntImm":
        return e.value
    if kind == "Select":
        return _value(e.true_value if _value(e.condition, values) else e.false_value, values)
    a, b = _value(e.a, values), _value(e.b, values)
    result = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Min": min(a, b), "Max": max(a, b), "LT": a < b, "GT": a > b,
              "GE": a >= b, "EQ": a == b, "And": bool(a and b), "Or": bool(a or b)}[kind]  # fmt: skip
    return result if isinstance(result, bool) else (result + 128) % _WRAP - 128


def _combined(red: CommReducer, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    values = dict(zip([*red.lhs, *red.rhs], [*left, *right]))
    return tuple(_value(r, values) for r in red.result)


def _random_value(rng: random.Random, x: Any, y: Any, place: int) -> Any:
    def leaf() -> Any:
        return rng.choice([x[place], y[place], rng.choice([*x, *y]), te.const(rng.choice([0, 1, 2, -1]), INT)])

    def sides() -> tuple[Any, Any]:
        return rng.choice([(x[place], y[place]), (y[place], x[place])])

    def condition() -> Any:
        keys = [(rng.randrange(len(x)), rng.choice(["<", ">"])) for _ in range(rng.randint(1, 2))]
        return better([*keys[:-1], (keys[-1][0], rng.choice(["<", ">", ">="]))], x, y)

    form = rng.randrange(4)
    if form == 0:
        return rng.choice([te.min, te.max])(*sides())
    if form == 1:
        return tir.Select(condition(), *sides())
    a, b = sides() if form == 2 else (leaf(), leaf())
    result = rng.choice([a + b, a * b, a - b, a + b + a * b])
    return result + leaf() if rng.random() < 0.2 else result


@pytest.mark.parametrize("seed", range(4))
def test_what_is_proved_holds_for_random_reducers(seed: int) -> None:
    """Distinct values of the first component, so that ties do not leave a choice."""
    rng, proved = random.Random(seed), 0
    for _ in range(300):
        width = rng.randint(1, 2)
        start = [rng.choice([0, 1, LOW, HIGH]) for _ in range(width)]
        red = reducer(lambda x, y: [_random_value(rng, x, y, i) for i in range(len(x))], *start)
        if not can_regroup(red):
            continue
        proved += 1
        for _ in range(20):
            pools = [rng.sample(range(-100, 100), 4) for _ in range(width)]
            values = [tuple(pool[n] for pool in pools) for n in range(4)]
            serial = _reduced(red, values)
            for order in itertools.islice(itertools.permutations(values), 0, None, 7):
                parts = [_reduced(red, order[:2]), _reduced(red, order[2:])]
                assert _reduced(red, parts) == serial, str(red)
    assert proved > 10


def _reduced(red: CommReducer, values: Any) -> tuple[int, ...]:
    total = tuple(v.value for v in red.identity_element)
    for value in values:
        total = _combined(red, total, tuple(value))
    return total
