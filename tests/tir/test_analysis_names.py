"""Questions about programs at TVM's places."""

import pytest
from pass_checks import module, parse

from tvmagic.errors import TVMagicError
from tvmagic.ir import For, IRModule, SeqStmt, Var
from tvmagic.tir import analysis

HEAD = 'def main(A: T.Buffer((8,), "int32"), x: T.int32):\n    '


def test_ssa() -> None:
    func = parse(HEAD + "for i in range(8):\n        A[i] = x")
    assert analysis.verify_ssa(func)
    assert not analysis.verify_ssa(func.with_body(SeqStmt([func.body, func.body])))


def test_undefined_vars() -> None:
    func = parse(HEAD + "for i in range(8):\n        A[i] = x")
    buffer = next(iter(func.buffer_map.values()))
    assert analysis.undefined_vars(func.body) == [buffer.data, func.params[1]]
    assert analysis.undefined_vars(func.body, [buffer.data, func.params[1]]) == []


def test_expressions_are_equal_as_they_stand() -> None:
    x, y = Var("x"), Var("y")
    assert analysis.expr_deep_equal(x + y * 2, x + y * 2)
    assert not analysis.expr_deep_equal(x + y, y + x)
    assert not analysis.expr_deep_equal(x, Var("x"))


def test_operations_are_counted() -> None:
    def flops(body: str) -> float:
        return analysis.estimate_tir_flops(parse(HEAD + body))

    assert flops("for i in range(8):\n        A[i] = A[(i + 1) % 8] * 2 + x") == 16  # indices cost nothing
    assert flops("for i in range(8):\n        A[i] = T.Select(x < 3 and x > 1, x + 1, x * 2 - 1)") == 8 * 4
    assert flops("if x < 3:\n        A[0] = x + 1\n    else:\n        A[0] = x * x + x") == 3
    assert flops("A[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)] + A[T.Ramp(0, 1, 4)]") == 1
    assert flops("A[0] = T.Cast('int32', T.if_then_else(x > 1, x, x + 1))") == 2
    text = """for i in range(8):
        with T.block("b"):
            vi = T.axis.reduce(8, i)
            with T.init():
                A[0] = x * 3
            A[0] = A[0] + A[vi]"""
    assert flops(text) == 8
    func = parse(HEAD + "A[0] = x + 1")
    assert analysis.estimate_tir_flops(module(f"{HEAD}A[0] = x + 1").with_functions({})) == 1
    assert analysis.estimate_tir_flops(IRModule({"a": func, "b": func.with_attr("estimated_flops", 40)})) == 41


def test_where_a_buffer_is_used() -> None:
    func = parse(HEAD + "for i in range(8):\n        A[i] = x")
    (place,) = analysis.detect_buffer_access_lca(func).values()
    assert isinstance(place, For) and place is func.body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in range(9):\n        A[i] = x", "goes from 0 to 8"),
        ("for i in range(8):\n        A[i - 1] = x", "goes from -1 to 6"),
        ("A[0] = A[8]", "goes from 8 to 8"),
        ("for i in range(9):\n        if T.likely(i >= 8):\n            A[i] = x", "goes from 8 to 8"),
        ("for i in range(9):\n        A[0] = T.Select(1 <= i, A[i - 1], 0)", "goes from -1 to 7"),
    ],
)
def test_accesses_outside_are_refused(body: str, message: str) -> None:
    with pytest.raises(TVMagicError, match="an index of buffer A is outside it") as caught:
        analysis.OOBChecker()(module(HEAD + body))
    assert message in caught.value.message


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(8):\n        A[i] = x",
        "for i in range(9):\n        if i < 8:\n            A[i] = x",
        "for i in range(9):\n        A[0] = T.if_then_else(1 <= i, A[i - 1], 0)",
        "for i in range(9):\n        if T.likely(i < 8):\n            A[i] = T.if_then_else(T.likely(i >= 1), A[i - 1], 0)",
        "A[x] = 1",
    ],
)
def test_accesses_that_may_be_right_pass(body: str) -> None:
    mod = module(HEAD + body)
    assert analysis.OOBChecker()(mod) is mod
