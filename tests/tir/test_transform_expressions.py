"""Passes on expressions: common subexpressions, selects, split patterns, narrower and wider types."""

import pytest
from pass_checks import check, module, script

from tvmagic.ir import Select, post_order_visit
from tvmagic.passes import recording
from tvmagic.tir.transform import (
    CommonSubexprElimTIR,
    NarrowDataType,
    RenormalizeSplitPattern,
    RewriteUnsafeSelect,
    Simplify,
)

HEAD = 'def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), x: T.int32, y: T.int32):\n    '


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A[x + y] = B[x + y]", "cse_var_1: T.int32 = x + y\n    A[cse_var_1] = B[cse_var_1]"),
        (
            "A[x * 4 + y] = B[x * 4 + y] + B[x * 4]",
            "cse_var_2: T.int32 = x * 4\n    cse_var_1: T.int32 = cse_var_2 + y\n"
            "    A[cse_var_1] = B[cse_var_1] + B[cse_var_2]",
        ),
        (
            "v: T.int32 = x + y\n    A[x + y] = B[v]",
            "cse_var_1: T.int32 = x + y\n    v: T.int32 = cse_var_1\n    A[cse_var_1] = B[v]",
        ),
        (
            "for i in range(4):\n        v: T.int32 = x + i\n        for j in range(x + i):\n            A[j] = v",
            "for i in range(4):\n        v: T.int32 = x + i\n        for j in range(v):\n            A[j] = v",
        ),
        ("A[x] = B[0] + B[0]", "A[x] = B[0] + B[0]"),  # loads are left alone
        ("if x + y < 3:\n        A[0] = 1\n    else:\n        A[x - y] = 2", None),  # on one path only
        ("for i in range(4):\n        A[x + y] = 1", None),  # once in the text
    ],
)
def test_common_subexpressions(before: str, after: str | None) -> None:
    check(CommonSubexprElimTIR(), HEAD + before, HEAD + (after or before))


def test_common_subexpressions_of_both_branches_are_computed_before() -> None:
    text = script(
        CommonSubexprElimTIR()(module(HEAD + "if x < 3:\n        A[x + y] = 1\n    else:\n        B[x + y] = 2"))
    )
    assert text.index("cse_var_1: T.int32 = x + y") < text.index("if ")


def test_equivalent_terms_count_where_asked_for() -> None:
    mod = module(HEAD + "A[x * (y + 2)] = B[x * y + x * 2]")
    assert "cse_var" not in script(CommonSubexprElimTIR()(mod))
    assert "cse_var_1" in script(CommonSubexprElimTIR(True, True)(mod))
    assert CommonSubexprElimTIR(False)(mod) is mod


@pytest.mark.parametrize("body", ["A[x * (y + z)] = B[x * y + x * z]", "A[x * y + x * z] = B[x * (y + z)]"])
def test_of_equivalent_terms_the_distributed_one_is_computed(body: str) -> None:
    mod = module(HEAD.replace("y: T.int32", "y: T.int32, z: T.int32") + body)
    text = script(CommonSubexprElimTIR(identify_equiv_terms=True)(mod))
    assert "cse_var_1: T.int32 = x * y + x * z" in text and "A[cse_var_1] = B[cse_var_1]" in text


def test_a_name_in_use_is_not_taken() -> None:
    mod = module(HEAD + "for cse_var_1 in range(4):\n        A[x + y + cse_var_1] = B[x + y + cse_var_1]")
    with recording() as record:
        text = script(CommonSubexprElimTIR()(mod))
    assert "cse_var_2: T.int32 = x + y + cse_var_1" in text and record.notes("cse")


def test_a_select_with_loads_becomes_a_branch() -> None:
    mod = module(HEAD + "A[0] = T.Select(x < 3, B[x], 0) + T.Select(x < 3, x, y)")
    selects = []
    result = RewriteUnsafeSelect()(mod)
    post_order_visit(result["main"].body, lambda n: selects.append(n) if isinstance(n, Select) else None)
    assert len(selects) == 1 and "T.if_then_else(x < 3, B[x], 0)" in script(result)


def test_a_select_guards_the_loads_whose_guards_know_its_condition() -> None:
    """What asks `2 <= x` as well is simplified to what asks for the upper end alone."""
    mod = module(HEAD + "A[0] = T.Select(x < 2, 0, T.if_then_else(2 <= x and x < 9, B[x - 2], 1))")
    text = script(RewriteUnsafeSelect()(Simplify()(mod)))
    assert "T.if_then_else(x < 2, 0, T.if_then_else(x < 9, B[x - 2], 1))" in text


def test_a_comparison_becomes_one_of_quotients_and_back() -> None:
    before = HEAD + "for i, j in T.grid(4, 4):\n        if i * 4 + j < 8:\n            A[i] = 1"
    text = script(RenormalizeSplitPattern()(module(before)))
    assert "i // 2 < 1" in text or "// 2 < 1" in text
    assert "if i < 2" in script(Simplify()(RenormalizeSplitPattern()(module(before))))


def test_indices_that_may_not_fit_stay_wide() -> None:
    before = """
        def main(A: T.Buffer((T.int64(1099511627776),), "float32")):
            for i in range(T.int64(1048576)):
                for j in range(T.int64(1048576)):
                    A[i * T.int64(1048576) + j] = T.float32(1)
        """
    check(NarrowDataType(32), before, before)
