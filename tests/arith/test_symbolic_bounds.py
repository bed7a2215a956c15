"""Bounds over symbolic sizes: those that others imply are left out."""

from __future__ import annotations

import random

import pytest
from arith_evaluate import evaluate

from tvmagic import te
from tvmagic.arith.symbolic_bounds import Bound, Term, Terms


def random_bound(terms: Terms, sizes: list[Bound], rng: random.Random, depth: int = 3) -> Bound:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*sizes, rng.randint(-4, 70)])
    a, b = (random_bound(terms, sizes, rng, depth - 1) for _ in range(2))
    kind = rng.choice((terms.add, terms.subtract, terms.multiply, terms.minimum, terms.maximum))
    return terms.divide(a, rng.randint(1, 8)) if rng.random() < 0.2 else kind(a, b)


@pytest.mark.parametrize("seed", range(30))
def test_bounds_that_are_left_out_are_at_most_a_kept_one(seed: int) -> None:
    rng, terms = random.Random(seed), Terms()
    variables = [te.var(name) for name in "nmk"]
    sizes: list[Bound] = [terms.size(var, var is not variables[2]) for var in variables]
    bounds = list(dict.fromkeys(random_bound(terms, sizes, rng) for _ in range(12)))
    kept = terms.largest(bounds)
    for _ in range(30):
        values = {var: rng.choice((0, 1, 2, 5, 63, 1000)) for var in variables}
        values[variables[2]] *= rng.choice((-1, 1))
        numbers = {bound: evaluate(terms.expression(bound), values) for bound in bounds}
        assert max(numbers[bound] for bound in bounds) == max(numbers[bound] for bound in kept)


def test_terms_of_products_and_sums_are_left_out() -> None:
    terms = Terms()
    n, m = (terms.size(te.var(name), True) for name in "nm")
    rows = terms.multiply(terms.add(n, -1), m)
    last = terms.add(terms.multiply(n, m), m)
    assert terms.largest([n, rows, last, terms.multiply(n, m)]) in ([last, n], [n, last])
    assert all(isinstance(bound, Term) for bound in terms.largest([n, m]))
