"""Into which parts choices cut an axis: random ones, against the value that each index chooses."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tvmagic import ascend, te
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.te_accesses import Part, pieces, shifted
from tvmagic.eval.machine import Machine
from tvmagic.ir import EQ, And, Call, IntImm, Not, PrimExpr, Select, Var

I = Var("i", "int32")
COMPARISONS: list[Callable[[PrimExpr, PrimExpr], PrimExpr]] = [
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
    EQ,
]


def value_at(node: PrimExpr, index: int) -> int:
    machine = Machine(None)
    machine.values[I] = np.asarray(index, "int32")
    return int(machine.value(node))


def condition(rng: random.Random, depth: int) -> PrimExpr:
    kind = rng.random()
    if depth and kind < 0.25:
        return And(condition(rng, depth - 1), condition(rng, depth - 1))
    if depth and kind < 0.4:
        return Not(condition(rng, depth - 1))
    if depth and kind < 0.5:
        return Call("bool", "tir.likely", [condition(rng, depth - 1)])
    side, number = (
        rng.choice([I, I, I + rng.randint(1, 3), I - rng.randint(1, 3), rng.randint(1, 3) + I]),
        rng.randint(-2, 12),
    )
    a, b = side, IntImm("int32", number)
    return rng.choice(COMPARISONS)(*((a, b) if rng.random() < 0.6 else (b, a)))


def chosen(rng: random.Random, depth: int, numbers: list[int]) -> PrimExpr:
    """Choices in choices, whose values are numbers of their own."""
    if depth == 0 or rng.random() < 0.3:
        numbers.append(len(numbers) + 100)
        return IntImm("int32", numbers[-1])
    given = condition(rng, 1), chosen(rng, depth - 1, numbers), chosen(rng, depth - 1, numbers)
    return Select(*given) if rng.random() < 0.5 else Call("int32", "tir.if_then_else", given)


@pytest.mark.parametrize("seed", range(8))
def test_parts_hold_what_each_index_chooses(seed: int) -> None:
    rng, cut = random.Random(seed), 0
    for _ in range(60):
        first, last = rng.choice([(0, 10), (0, 10), (3, 9), (0, 1)])
        node = Select(condition(rng, 2), chosen(rng, 2, []), chosen(rng, 2, [1] * 50))
        found = pieces(node, {I: Part(Size.of(first), Size.of(last - first))})
        if found is None:
            continue
        cut += 1
        var, parts = found
        assert var is I
        place = first
        for part, value in parts:
            assert part.start == place and part.size.evaluate({}) > 0
            for index in range(place, part.end.evaluate({})):
                assert value_at(value, index) == value_at(node, index), (str(node), index)
            place = part.end.evaluate({})
        assert place == last
    assert cut > 25


def test_choices_that_cut_nothing() -> None:
    j, n = Var("j", "int32"), Var("n", "int32")
    parts = {I: Part(Size.of(0), Size.of(8)), j: Part(Size.of(0), Size.of("n"))}
    one, two = IntImm("int32", 1), IntImm("int32", 2)
    assert (
        pieces(I + 1, parts) is None
        and pieces(Select(I < j, one, two), parts) is None
        and pieces(Select(n < 3, one, two), parts) is None
    )
    assert (
        pieces(Select(I * 2 < 5, one, two), parts) is None and pieces(Select(j < 3, one, two), parts) is None
    )  # n may be less
    found = pieces(Select(j < n - 3, one, two), {j: Part(Size.of(0), Size.of("n") + 3)})
    assert found is None or [str(p.size) for p, _ in found[1]] == []
    found = pieces(Select(j < n, one, two), {j: Part(Size.of(0), Size.of("n") * 2)})
    assert found is not None and [(str(p.start), str(p.size)) for p, _ in found[1]] == [("0", "n"), ("n", "n")]
    assert pieces(Select(Not(And(I > 2, I < 5)), one, two), parts) is None  # both ends, with a gap between them


@pytest.mark.parametrize(
    ("index", "added"),
    [
        (I, 0),
        (I + 3, 3),
        (3 + I, 3),
        (I - 2, -2),
        (I + 3 - 1, 2),
        ((I - 2) + 5, 3),
        (IntImm("int32", 4) - I, None),
        (I * 2, None),
        (IntImm("int32", 3), None),
        (I + Var("n", "int32"), "n"),
        (I - Var("n", "int32"), "-1 * n"),
    ],
)
def test_what_is_added_to_a_variable(index: PrimExpr, added: int | str | None) -> None:
    found = shifted(index)
    if added is None:
        assert found is None
    else:
        assert found is not None and found[0] is I and str(found[1]).strip("()") == str(added)


@pytest.mark.parametrize(("first", "held"), [(12, False), (10, False), (0, True), (-3, True)])
def test_a_choice_that_holds_for_all_or_no_index(first: int, held: bool) -> None:
    a = te.placeholder((10,), name="A")
    y = te.compute((10,), lambda i: Call("float32", "tir.if_then_else", [i >= first, a[i] + 1.0, a[i] * 2.0]), name="Y")
    given = np.arange(10, dtype="float32")
    (found,) = ascend.evaluate(ascend.hint_graph([y]), [given])
    np.testing.assert_array_equal(found, given + 1 if held else given * 2)
