"""Which registers hold the elements that a thread copies: their places, by counting what an index takes."""

from __future__ import annotations

import itertools

import pytest

from tvmagic.eval.integers import evaluate
from tvmagic.ir import BufferLoad, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var, decl_buffer
from tvmagic.tir.transform.auto_copy.stage import _contiguous, _Parts

X, Y = Var("x", "int32"), Var("y", "int32")
OPERATORS = (Mul, FloorDiv, FloorMod)


def parts_of(index: PrimExpr, extent: int) -> _Parts:
    parts = _Parts({X: extent})
    parts.visit(index)
    return parts


def nested(steps: tuple[tuple[type, int], ...]) -> PrimExpr:
    index: PrimExpr = X
    for operator, by in steps:
        index = operator(index, IntImm("int32", by))
    return index


def test_each_value_of_an_index_has_a_place_of_its_own() -> None:
    """Of all that products, quotients and remainders make of a variable, as many are followed as before."""
    steps = list(itertools.product(OPERATORS, (1, 2, 3, 4, 6)))
    followed = 0
    for extent, count in ((1, 1), (2, 2), (6, 2), (8, 2), (12, 1)):
        for chosen in itertools.product(steps, repeat=count):
            index = nested(chosen)
            parts = parts_of(index, extent)
            if parts.failed:
                continue
            followed += 1
            size, place = parts.found[0] if parts.found else (1, IntImm("int32", 0))
            pairs = {(evaluate(index, {X: x}), evaluate(place, {X: x})) for x in range(extent)}
            values, places = ({pair[n] for pair in pairs} for n in (0, 1))
            assert len(values) == len(places) == len(pairs) and places == set(range(size)), (extent, str(index))
    assert followed == 580


@pytest.mark.parametrize("steps", [((FloorDiv, 0),), ((FloorMod, 0),), ((FloorDiv, -2),), ((FloorMod, -2),), ((FloorMod, 8), (FloorDiv, 3)), ((Mul, 2), (FloorMod, 3)), ((Mul, 3), (FloorDiv, 2))])  # fmt: skip
def test_indices_that_are_not_followed(steps: tuple[tuple[type, int], ...]) -> None:
    assert parts_of(nested(steps), 8).failed
    assert not parts_of(nested(steps) + X, 8).found


def test_what_has_one_value_needs_no_place() -> None:
    for index in (IntImm("int32", 3), Y * 4, X // 8, X % 1, X * 8 % 8, X % 1 * 6 // 4):
        parts = parts_of(index, 8)
        assert not parts.found and not parts.failed
    assert not parts_of(X, 1).found and parts_of(X * Y, 8).failed


@pytest.mark.parametrize(
    "index", [X * 5 + Y, Y * 3 + X, X * 40 + Y * 2, X * 16 + Y % 3 * 4, X + 7, Y * 2 + 1 + X // 2 * 16, X % 1]
)
def test_an_index_of_two_variables_has_a_dimension_of_the_size_of_both(index: PrimExpr) -> None:
    a = decl_buffer((100, 100), "float32", "A")
    found = _contiguous(BufferLoad(a, [index, Y]), {X: 4, Y: 5})
    assert found is not None
    points = [{X: x, Y: y} for x in range(4) for y in range(5)]
    for (size, place), part in zip(zip(*found, strict=True), (index, Y), strict=True):
        pairs = {(evaluate(part, point), evaluate(place, point)) for point in points}
        assert {p for _, p in pairs} == set(range(evaluate(size, {}))) and len(pairs) == evaluate(size, {})
    assert _contiguous(index, {X: 4, Y: 5}) is None and _contiguous(BufferLoad(a, [index, X * Y]), {X: 4, Y: 5}) is None
