"""Rules that are functions: over all small numbers they keep the value, and fire as often, with the same texts, as before."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from arith_evaluate import evaluate
from arith_random import mark

from tvmagic import ir
from tvmagic.arith import ConstIntBound, ModularSet
from tvmagic.arith.analyzer import Analyzer
from tvmagic.arith.rewrite.procedural_rules import STEPS

X, Y = ir.Var("x"), ir.Var("y")
LEAST, MOST = -8, 16  # of a variable without bounds
CONSTANTS = (-4, -3, -2, -1, 1, 2, 3, 4, 6)


def number(value: int, dtype: str = "int32") -> ir.IntImm:
    return ir.IntImm(dtype, value)


class Case:
    """A node for a step, with what is known of x and y: the ends and the modular set of each."""

    def __init__(self, e: Any, **known: tuple[int, int, int, int]) -> None:
        self.e = e
        self.analyzer = Analyzer()
        self.values = []
        for var in (X, Y):
            low, high, coeff, base = known.get(var.name, (LEAST, MOST, 1, 0))
            if (low, high) != (LEAST, MOST):
                self.analyzer.update(var, ConstIntBound(low, high))
            if coeff != 1:
                self.analyzer.update(var, ModularSet(coeff, base))
            values = [v for v in range(low, high + 1) if (v - base) % coeff == 0]
            self.values.append(values[:: len(values) // 8 + 1] + values[-1:])

    def result(self, step: str) -> Any:
        """What the step makes of it; the same value for all x and y."""
        found = STEPS[step](self.analyzer.rewriter, self.e)
        for x, y in itertools.product(*self.values) if found is not None else ():
            try:
                before = evaluate(self.e, {X: x, Y: y})
            except ZeroDivisionError:
                continue
            assert evaluate(found, {X: x, Y: y}) == before, (str(self.e), str(found), x, y)
        return found


MULTIPLES = [(coeff, base) for coeff in (2, 3, 4, 6, 8) for base in (0, 1, 3) if base < coeff]


def sums_over_constants() -> Iterator[Case]:
    for c1, c2 in itertools.product((*CONSTANTS, 5, 8, 0), (*CONSTANTS, 8, 0)):
        for low, high in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (-1, 1), (2, 5), (4, 5)):
            product = ir.Mul(X, number(c1))
            for a in (ir.Add(product, Y), ir.Add(Y, product)):
                yield Case(ir.FloorDiv(a, number(c2)), x=(-3, 3, 1, 0), y=(low, high, 1, 0))
        yield Case(ir.FloorDiv(ir.Mul(X, number(c1)), number(c2)), x=(-3, 3, 1, 0))
        yield Case(ir.FloorDiv(ir.Mul(X, number(c1)), number(c2)), x=(0, 1, 1, 0))
        yield Case(ir.FloorDiv(ir.Add(X, Y), number(c2)))


def remainders(kind: Any) -> Iterator[Case]:
    for divisor in (-2, -1, 0, 1, 2, 3, 4, 6, 8, 12):
        for coeff, base in ((1, 0), *MULTIPLES):
            yield Case(kind(X, number(divisor)), x=(LEAST, MOST, coeff, base))
            yield Case(kind(X, number(divisor)), x=(0, 30, coeff, base))
        for low, high in itertools.product((-1, 0, 1), (1, 2, 3, 4, 7)):
            yield Case(kind(X, number(divisor)), x=(low, high, 1, 0))
        yield Case(kind(X, Y))


def ramps(kind: Any) -> Iterator[Case]:
    for stride, divisor, lanes in itertools.product((-4, -1, 0, 1, 2, 4, 8), (-4, 2, 3, 4, 8), (2, 4)):
        for coeff, base in ((1, 0), (2, 1), (4, 0), (4, 3), (8, 0), (8, 5), (3, 2)):
            for low, high in ((LEAST, MOST), (0, 24), (-9, 0)):
                e = kind(ir.Ramp(X, number(stride), lanes), ir.Broadcast(number(divisor), lanes))
                yield Case(e, x=(low, high, coeff, base))
    yield Case(kind(ir.Ramp(X, Y, 4), ir.Broadcast(number(2), 4)))
    yield Case(kind(ir.Broadcast(X, 4), ir.Broadcast(number(2), 4)))
    yield Case(kind(ir.Ramp(X, number(2), 4), ir.Broadcast(Y, 4)))


def pairs(kind: Any) -> Iterator[Case]:
    spans = [(low, high) for low in range(-2, 3) for high in range(low, 3)]
    for x, y in itertools.product(spans, spans):
        yield Case(kind(X, Y), x=(*x, 1, 0), y=(*y, 1, 0))


def offsets() -> Iterator[Case]:
    for a, b in itertools.product(range(-3, 4), repeat=2):
        sides = [
            (ir.Add(X, number(a)), ir.Sub(X, number(a))),
            (ir.Add(Y, number(b)), ir.Sub(Y, number(b)), Y),
        ]
        for left, right in itertools.product(*sides):
            yield Case(ir.LT(left, right), x=(-4, 4, 1, 0), y=(-4, 4, 1, 0))
        yield Case(ir.LT(X, sides[1][0]), x=(-4, 4, 1, 0), y=(-4, 4, 1, 0))


def multiples() -> Iterator[Case]:
    for (c1, b1), (c2, b2) in itertools.product(((1, 0), *MULTIPLES), repeat=2):
        yield Case(ir.LT(X, Y), x=(LEAST, MOST, c1, b1), y=(LEAST, MOST, c2, b2))
    for coeff, constant in itertools.product((2, 3, 4), (-4, -3, 0, 2, 6, 9)):
        yield Case(ir.LT(ir.Mul(X, number(coeff)), number(constant)))
        yield Case(ir.LT(number(constant), ir.Mul(X, number(coeff))))


CASES: list[tuple[str, Any, int, int]] = [
    ("split_multiple", sums_over_constants, 1154, 713310201),
    ("known_truncmod", lambda: remainders(ir.Mod), 52, 1024202928),
    ("known_floormod", lambda: remainders(ir.FloorMod), 139, 2634337391),
    ("ramp_quotient", lambda: ramps(ir.Div), 262, 1884829851),
    ("ramp_remainder", lambda: ramps(ir.Mod), 286, 1173162182),
    ("ramp_floordiv", lambda: ramps(ir.FloorDiv), 801, 268550211),
    ("ramp_floormod", lambda: ramps(ir.FloorMod), 993, 707056140),
    ("smaller_by_bounds", lambda: pairs(ir.Min), 135, 781604411),
    ("larger_by_bounds", lambda: pairs(ir.Max), 135, 3615539891),
    ("equal_by_bounds", lambda: pairs(ir.EQ), 75, 3264956535),
    ("less_by_bounds", lambda: pairs(ir.LT), 105, 4098065368),
    ("merge_offsets", offsets, 242, 3777378905),
    ("divide_by_common_factor", multiples, 48, 1172184974),
]


@pytest.mark.parametrize(("step", "cases", "fired", "texts"), CASES, ids=[c[0] for c in CASES])
def test_a_step_keeps_the_value(step: str, cases: Any, fired: int, texts: int) -> None:
    found = [case.result(step) for case in cases()]
    assert (sum(f is not None for f in found), mark(*found)) == (fired, texts)


@pytest.mark.parametrize(
    ("step", "kind", "decides"),
    [
        ("smaller_by_bounds", ir.Min, lambda x, y: max(x) <= min(y) or max(y) <= min(x)),
        ("larger_by_bounds", ir.Max, lambda x, y: max(x) <= min(y) or max(y) <= min(x)),
        ("equal_by_bounds", ir.EQ, lambda x, y: len({a == b for a in x for b in y}) == 1),
        ("less_by_bounds", ir.LT, lambda x, y: len({a < b for a in x for b in y}) == 1),
    ],
)
def test_bounds_tell_all_that_they_can(step: str, kind: Any, decides: Any) -> None:
    for case in pairs(kind):
        x, y = case.values
        assert (case.result(step) is not None) == decides(x, y), (x, y)


def exact(values: Iterable[float], dtype: str) -> dict[float, str]:
    """What a division by each number becomes."""
    f, found = ir.Var("f", dtype), {}
    for value in values:
        result: Any = STEPS["reciprocal"](Analyzer().rewriter, ir.Div(f, ir.FloatImm(dtype, value)))
        found[value] = "" if result is None else str(getattr(getattr(result, "b", result), "value", result))
    return found


def test_divisions_by_powers_of_two_are_products() -> None:
    assert exact((2.0, -4.0, 0.5, 1.0, 3.0, 0.0, 1.5, 0.75), "float32") == {
        2.0: "0.5",
        -4.0: "-0.25",
        0.5: "2.0",
        1.0: "f",
        3.0: "",
        0.0: "",
        1.5: "",
        0.75: "",
    }
    assert exact((2.0**127, 2.0**-126, 2.0**-127, 2.0**-128), "float32") == {
        2.0**127: str(2.0**-127),
        2.0**-126: str(2.0**126),
        2.0**-127: str(2.0**127),
        2.0**-128: "",
    }
    assert exact((2.0**15, 2.0**-15, 2.0**-16), "float16") == {
        2.0**15: str(2.0**-15),
        2.0**-15: str(2.0**15),
        2.0**-16: "",
    }
    fast = Analyzer(fast_math=True)
    f = ir.Var("f", "float32")
    third = STEPS["reciprocal"](fast.rewriter, ir.Div(f, ir.FloatImm("float32", 3.0)))
    assert third is not None and STEPS["reciprocal"](fast.rewriter, ir.Div(f, ir.FloatImm("float32", 0.0))) is None
    assert STEPS["reciprocal"](fast.rewriter, ir.Div(f, f)) is None
