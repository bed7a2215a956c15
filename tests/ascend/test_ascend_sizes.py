"""Sizes of axes against fractions: random sums, products, quotients and functions of them, for many values of their variables."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest
from refusals import refuses

from tvmagic.ascend.sizes import Size, ceiling, from_expr, function, parse_size, to_expr
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import IntImm, SizeVar

NAMES = ("s0", "s1", "t")
Value = Callable[[Mapping[str, int]], Fraction]
FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "Ceiling": lambda a: Fraction(math.ceil(a)),
    "Floor": lambda a: Fraction(math.floor(a)),
    "Max": max,
    "Min": min,
    "Mod": lambda a, b: a - math.floor(a / b) * b,
    "Align": lambda a, b: math.ceil(a / b) * b,
}


def drawn(rng: random.Random, depth: int, whole: bool = False) -> tuple[Size, Value]:
    """A random size, and what it is for given variables; without quotients outside of functions if it is to be whole."""
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        if rng.random() < 0.5:
            number = rng.randint(1, 6)
            return Size.of(number), lambda values: Fraction(number)
        name = rng.choice(NAMES)
        return Size.of(name), lambda values: Fraction(values[name])
    if kind < 0.4:
        name = rng.choice(list(FUNCTIONS))
        takes_quotients = name in ("Ceiling", "Floor")
        a, of_a = drawn(rng, depth - 1, not takes_quotients)
        if takes_quotients:
            return function(name, a), lambda values: FUNCTIONS[name](of_a(values))
        number = rng.randint(1, 6)
        return function(name, a, number), lambda values: FUNCTIONS[name](of_a(values), Fraction(number))
    if kind < 0.6 and not whole:
        a, of_a = drawn(rng, depth - 1)
        divisor = rng.choice([*NAMES, 2, 3])
        return a / Size.of(
            divisor
        ), lambda values: of_a(values) / (divisor if isinstance(divisor, int) else values[divisor])
    (a, of_a), (b, of_b) = drawn(rng, depth - 1, whole), drawn(rng, depth - 1, whole)
    if kind < 0.8:
        return a * b, lambda values: of_a(values) * of_b(values)
    return (a + b, lambda values: of_a(values) + of_b(values)) if kind < 0.95 else (a - b, lambda v: of_a(v) - of_b(v))


VALUES = [dict(zip(NAMES, numbers)) for numbers in itertools.product((1, 2, 3, 7), repeat=3)]


@pytest.mark.parametrize("seed", range(12))
def test_random_sizes(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(12):
        size, value = drawn(rng, 3)
        again = parse_size(str(size))
        assert again == size and hash(again) == hash(size) and str(again) == str(size)
        assert size.names() <= set(NAMES) and not Size.of(0) != size - size
        variables = {name: SizeVar(name, "int64") for name in NAMES}
        expression = to_expr(size, variables, "int64")
        for values in rng.sample(VALUES, 8):
            exact = value(values)
            known = size.substitute(values)
            assert size.evaluate(values) == math.ceil(exact), (str(size), values)
            assert known == Size.of(exact) and known.constant == (exact if exact.denominator == 1 else None)
            assert known.is_one == (exact == 1) and ceiling(size).evaluate(values) == math.ceil(exact)
            numbers = {variables[name]: number for name, number in values.items()}
            assert evaluate(expression, numbers) == math.ceil(exact), (str(size), str(expression), values)


def test_a_size_covers_what_is_never_larger() -> None:
    """For all values of the variables from 1 on; what is not known is not said."""
    rng, said = random.Random(3), 0
    for _ in range(300):
        (a, of_a), (b, of_b) = drawn(rng, 2), drawn(rng, 2)
        if a.covers(b):
            said += 1
            assert all(of_a(values) >= of_b(values) for values in VALUES), (str(a), str(b))
    assert said > 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2 +",
        "* 3",
        "s0 s1",
        "(s0",
        "s0)",
        "Max(1, 2",
        "Ceiling 3",
        "Ceiling(1, 2)",
        "Max(3)",
        "Mod(3, 0)",
        "Align(s0, 1) ,",
        "3 / 0",
        "s0 / (s0 + 1)",
        "1.5",
        "()",
        "Min()",
    ],
)
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(TVMagicError):
        parse_size(text)


def test_sizes_and_numbers() -> None:
    s = Size.of("s0")
    assert Size.of(3) == 3 and Size.of(0) == 0 and Size.of(Fraction(1, 2)) != 0 and not s == 1 and s != "s0"
    assert 2 * s == s * 2 == s + s and 1 + s == s + 1 and s - s == 0 and 6 / Size.of(2) == 3 and (12 / s) * s == 12
    assert Size.of(1).is_one and not Size.of(2).is_one and not s.is_one and (s / s).is_one
    assert (
        Size.of(0).terms == ()
        and Size.of(0).names() == set()
        and function("Max", s, "t" and Size.of("t")).names() == {"s0", "t"}
    )
    assert str(to_expr(Size.of(0), {})) == "0" and str(to_expr(Size.of(7), {}, "int64")) == "T.int64(7)"
    assert str(to_expr(s * 2 + 1, {"s0": SizeVar("n", "int32")})) == "1 + 2 * n" and isinstance(
        to_expr(Size.of(1), {}), IntImm
    )
    with pytest.raises(TVMagicError, match="`s0`"):
        to_expr(s, {})
    for missing, said in (
        ({"s1": 1}, "ascend.size.variable_without_value"),
        ({}, "ascend.size.variable_without_value"),
    ):
        with refuses(said):
            (s * Size.of("s1")).evaluate(missing)
    for name in ("Mod", "Align"):
        with refuses("ascend.size.division_by_zero"):
            function(name, 3, 0)
    with pytest.raises(TVMagicError, match="`Floor`"):
        function("Floor", 3, 0)


def test_expression_becomes_the_size_that_its_text_is() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    for expr, text in (
        (n, "n"),
        (n + 1, "n + 1"),
        (n * m - 3, "n * m - 3"),
        ((n + m) * 2 - (m - 5), "(n + m) * 2 - (m - 5)"),
        (IntImm("int64", -4), "-4"),
    ):
        assert from_expr(expr) == parse_size(text)
    for expr in (n // 2, n % 4, n.astype("int32")):
        assert from_expr(expr) is None
