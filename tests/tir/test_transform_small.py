"""Small passes: hints taken away, intrinsics."""

import numpy as np
import pytest
from pass_checks import check, module, script

import tvmagic
from tvmagic.tir import transform

HEAD = 'def main(A: T.Buffer((8,), "int32"), x: T.int32):\n    '


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("RemoveAssume", "T.evaluate(T.assume(x < 3))\n    A[0] = x", "A[0] = x"),
        ("RemoveAssume", "T.evaluate(T.assume(x < 3))", "T.evaluate(0)"),
        ("RemoveStoreUndef", "A[0] = T.undef()\n    A[1] = x", "A[1] = x"),
        ("SkipAssert", 'assert x < 3, "small"\n    A[0] = x', "A[0] = x"),
        (
            "ConvertForLoopsToSerial",
            "for i in T.parallel(8):\n        A[i] = x",
            "for i in range(8):\n        A[i] = x",
        ),
    ],
)
def test_hints_go(name: str, before: str, after: str) -> None:
    check(getattr(transform, name)(), HEAD + before, HEAD + after)


@pytest.mark.parametrize(
    "expression", ["x // 4", "x % 4", "x // 3", "x % 3", "x // (0 - 3)", "x % (0 - 3)", "x // A[1]", "x % A[1]"]
)
@pytest.mark.parametrize("divisor", [5, -5])
def test_lowered_divisions_round_down(expression: str, divisor: int) -> None:
    mod = transform.LowerIntrin()(module(HEAD + f"A[0] = {expression}"))
    assert "//" not in script(mod) and "%" not in script(mod)
    built = tvmagic.build(mod)
    for x in (-9, -8, -1, 0, 1, 7, 8):
        a = np.zeros(8, "int32")
        a[1] = divisor
        expected = eval(expression, {"x": x, "A": a.tolist()})
        built(a, x)
        assert a[0] == expected, x


def test_divisions_of_what_is_not_negative_are_plain() -> None:
    text = script(transform.LowerIntrin()(module(HEAD + "for i in range(8):\n        A[i // 3] = i % 3")))
    assert "Select" not in text and "T.Div(i, 3)" in text and "T.truncmod(i, 3)" in text


def test_names_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="`tvmagic.tir.transform`.*`Simplyfy`"):
        transform.Simplyfy
    assert "Simplify" in dir(transform)
