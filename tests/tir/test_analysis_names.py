"""Questions about programs at TVM's places."""

from pass_checks import parse

from tvmagic.ir import For, SeqStmt, Var
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


def test_where_a_buffer_is_used() -> None:
    func = parse(HEAD + "for i in range(8):\n        A[i] = x")
    (place,) = analysis.detect_buffer_access_lca(func).values()
    assert isinstance(place, For) and place is func.body
