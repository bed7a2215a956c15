"""Which computations an expression holds several times."""

import random

import pytest
from arith_random import mark

from tvmagic import tir
from tvmagic.arith import detect_common_subexpr
from tvmagic.errors import WrongValueError
from tvmagic.ir import post_order_visit
from tvmagic.ir.deep_equal import expr_deep_equal

x, y, z = (tir.Var(name, "int32") for name in "xyz")
a = tir.decl_buffer((8,), "int32", name="a")
TABLE = [
    (x + y * z + y * z, 2, {"y * z": 2}),
    ((x + y) * (x + y) + tir.floor((x + y).astype("float32")).astype("int32"), 2, {"x + y": 3}),
    ((x + y) * z + (x + y) * z, 2, {"(x + y) * z": 2}),  # the largest alone
    ((x + y) * z - (x + y) * z - (x + y), 3, {"x + y": 3}),  # too rare themselves, they add to their parts
    (a[x + y] + a[x + y], 2, {"x + y": 2}),  # what reads memory is none
    (x + y, 1, {"x + y": 1}),
    (x, 1, {}),
]


@pytest.mark.parametrize(("expr", "threshold", "expected"), TABLE, ids=lambda value: str(value))
def test_common_subexpressions(expr: tir.PrimExpr, threshold: int, expected: dict[str, int]) -> None:
    assert {str(part): count for part, count in detect_common_subexpr(expr, threshold).items()} == expected


def test_random_common_subexpressions() -> None:
    """What is found is there as often as it is said, or more often inside something else that is found."""
    texts = 0
    for seed in range(60):
        draw = random.Random(seed)

        def build(depth: int) -> tir.PrimExpr:
            if depth == 0:
                return draw.choice(
                    [x, y, z, tir.const(2), a[x + y], tir.Cast("int32", tir.floor(tir.Cast("float32", x)))]
                )
            kind = draw.choice([tir.Add, tir.Sub, tir.Mul, tir.Max])
            return kind(build(depth - 1), build(draw.randrange(depth)))

        e, threshold = build(draw.randint(2, 4)), draw.randint(1, 3)
        found = detect_common_subexpr(e, threshold)
        parts: list[tir.PrimExpr] = []
        post_order_visit(e, parts.append)
        for part, count in found.items():
            assert threshold <= count <= sum(expr_deep_equal(part, other) for other in parts), (seed, str(e))
        texts += mark(*[(str(part), count) for part, count in found.items()])
    assert texts == 83219095386


def test_a_threshold_is_positive() -> None:
    with pytest.raises(WrongValueError, match="once or more"):
        detect_common_subexpr(x + y, 0)
