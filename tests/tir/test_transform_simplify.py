"""Simplify and RemoveNoOp."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pass_checks import check, module, script
from refusals import refuses

from tvmagic.ir import IRModule, SeqStmt
from tvmagic.passes import PassContext, recording
from tvmagic.tir.transform import RemoveNoOp, Simplify


def test_a_store_of_what_is_there_goes() -> None:
    check(
        Simplify(),
        'def main(A: T.Buffer((64,), "int32"), n: T.int32):\n    A[n + 1] = A[1 + n]\n    A[0] = 1',
        'def main(A: T.Buffer((64,), "int32"), n: T.int32):\n    A[0] = 1',
    )


@pytest.mark.parametrize(("value", "canonical"), [("n + n * 2", True), ("T.min(n, n + 1)", False)])
def test_notes_name_the_rules_that_fired(value: str, canonical: bool) -> None:
    """Or the canonical form, where no rule did."""
    with recording() as record:
        Simplify()(module(f'def main(A: T.Buffer((64,), "int32"), n: T.int32):\n    A[0] = {value}'))
    (note,) = record.notes("simplify.rules")
    assert note.facts["rules"] and (note.facts["rules"] == ("the canonical form",)) is canonical


def test_a_branch_that_is_left_out_leaves_a_note() -> None:
    mod = module(
        'def main(A: T.Buffer((64,), "int32")):\n    for i in range(4):\n        if i < 9:\n            A[i] = 1'
    )
    with recording() as record:
        Simplify()(mod)
    assert [n.text for n in record.notes("simplify.branch")] == ["the condition is always True"]


def test_options_of_simplify() -> None:
    mod = module(
        """
        def main(A: T.Buffer((64,), "int32"), i: T.int32, j: T.int32, k: T.int32):
            if i <= j:
                if j <= k:
                    if i <= k:
                        A[0] = 1
        """
    )
    assert "if i <= k" in script(Simplify()(mod))
    with PassContext(config={"tir.Simplify": {"transitively_prove_inequalities": True}}):
        assert "if i <= k" not in script(Simplify()(mod))
    with refuses("pass.unknown_option"):
        PassContext(config={"tir.Simplify": {"try_harder": True}})


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(-9, 9), st.integers(1, 9), st.integers(1, 12))
def test_simplify_comes_to_rest(a: int, b: int, c: int, d: int, n: int) -> None:
    mod = module(
        f"""
        def main(A: T.Buffer((1024,), "int32")):
            for i, j in T.grid({n}, {b}):
                v: T.int32 = i * {a} + j
                if v // {d} < {n}:
                    A[(v + 512) // {b} + (v + {c}) % {d}] = T.max(v - {c}, j * {d})
        """
    )
    texts = []
    for _ in range(4):
        mod = Simplify()(mod)
        texts.append(script(mod))
    assert texts[2] == texts[3]


def test_a_variable_that_is_defined_twice_has_each_value_where_it_is_defined() -> None:
    func = module('def main(A: T.Buffer((8,), "int32"), n: T.int32):\n    x: T.int32 = n + 1\n    A[x] = x')["main"]
    other = func.body.replace(value=func.params[1] * 2)
    new = Simplify()(IRModule({"main": func.with_body(SeqStmt([func.body, other, func.body]))}))["main"]
    assert [str(s).splitlines()[-1] for s in new.body.seq] == [
        "A[n + 1] = n + 1",
        "A[n * 2] = n * 2",
        "A[n + 1] = n + 1",
    ]


def test_simplify_keeps_simplified_functions() -> None:
    first = Simplify()(module('def main(A: T.Buffer((64,), "int32"), n: T.int32):\n    A[n * 2 - n] = n'))
    second = Simplify()(first)
    assert second["main"] is first["main"] and Simplify()(second)["main"] is first["main"]


def test_simplify_with_other_options_reads_functions_again() -> None:
    mod = module('def main(A: T.Buffer((64,), "float32")):\n    A[0] = A[1] - A[1]')
    for option in ("transitively_prove_inequalities", "fast_math"):
        with PassContext(config={"tir.Simplify": {option: True}}):
            new = Simplify()(mod)
        assert (new["main"] is mod["main"]) is (option != "fast_math")
        assert Simplify()(mod)["main"] is mod["main"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for i in range(8):\n        T.evaluate(0)", "T.evaluate(0)"),
        ("if n < 3:\n        T.evaluate(0)\n    else:\n        T.evaluate(0)", "T.evaluate(0)"),
        ("if n < 3:\n        A[0] = 1\n    else:\n        T.evaluate(0)", "if n < 3:\n        A[0] = 1"),
        ("for i in range(0):\n        A[i] = 1", "T.evaluate(0)"),
        ("x: T.int32 = n + 1\n    A[0] = 1", "A[0] = 1"),
        ("A[n] = A[n]", "T.evaluate(0)"),
        ("A[0] = 1\n    T.evaluate(0)\n    A[n] = 2", "A[0] = 1\n    A[n] = 2"),
        ("A[0] = 1\n    T.evaluate(3)\n    A[n] = 2", "A[0] = 1\n    A[n] = 2"),
        ("A[0] = 1\n    T.evaluate(0)", "A[0] = 1"),
        ('B = T.allocate([4], "float32", "global")\n    T.evaluate(0)', "T.evaluate(0)"),
        ('with T.attr(0, "pragma_debug_skip_region", 1):\n        A[0] = 1', "T.evaluate(0)"),
    ],
)
def test_what_does_nothing_goes(before: str, after: str) -> None:
    head = 'def main(A: T.Buffer((64,), "int32"), n: T.int32):\n    '
    check(RemoveNoOp(), head + before, head + after)


@pytest.mark.parametrize(
    ("view", "same"),
    [
        ("(4, 8)", True),
        ("(4, 8), strides=(8, 1)", False),
        ("(8, 4)", False),
        ("(4, 8), elem_offset=1", False),
        ("(4, 8), elem_offset=0", True),
    ],
)
def test_a_store_of_what_is_there_by_another_view(view: str, same: bool) -> None:
    before = f'def main(A: T.Buffer((4, 8), "int32"), n: T.int32):\n    B = T.Buffer({view.replace(")", ",)", 0)}, dtype="int32", data=A.data)\n    A[n, 1] = B[n, 1]'
    mod = module(before)
    assert (Simplify()(mod)["main"] is not mod["main"]) is same


def test_calls_with_effects_stay() -> None:
    before = 'def main(A: T.Buffer((64,), "int32")):\n    T.evaluate(T.call_extern("int32", "f", 1))'
    check(RemoveNoOp(), before, before)
