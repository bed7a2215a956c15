"""Which computations an expression holds several times."""

import pytest

from tvmagic import tir
from tvmagic.arith import detect_common_subexpr
from tvmagic.errors import WrongValueError

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


def test_a_threshold_is_positive() -> None:
    with pytest.raises(WrongValueError, match="once or more"):
        detect_common_subexpr(x + y, 0)
