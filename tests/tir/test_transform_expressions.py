"""Passes on expressions: common subexpressions, selects, split patterns, narrower and wider types."""

import pytest
from pass_checks import check, module, script

from tvmagic.ir import Select, post_order_visit
from tvmagic.passes import recording
from tvmagic.tir.transform import (
    BF16ComputeLegalize,
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x % 32 // 4", "x // 4 % 8"),
        ("(x * 8 + y) // 16", "(x + y // 8) // 2"),
        ("(x * 6 + x * 3 + y) // 8", "(x * 3 + (x * 3 + y) // 2) // 4"),
    ],
)
def test_split_patterns(before: str, after: str) -> None:
    check(RenormalizeSplitPattern(), HEAD + f"A[{before}] = 1", HEAD + f"A[{after}] = 1")


def test_a_comparison_becomes_one_of_quotients_and_back() -> None:
    before = HEAD + "for i, j in T.grid(4, 4):\n        if i * 4 + j < 8:\n            A[i] = 1"
    text = script(RenormalizeSplitPattern()(module(before)))
    assert "i // 2 < 1" in text or "// 2 < 1" in text
    assert "if i < 2" in script(Simplify()(RenormalizeSplitPattern()(module(before))))


def test_indices_are_narrowed_where_they_fit() -> None:
    check(
        NarrowDataType(32),
        """
        def main(A: T.Buffer((T.int64(64),), "float32")):
            for i in range(T.int64(8)):
                for j in range(T.int64(8)):
                    A[i * T.int64(8) + j] = T.float32(1)
        """,
        """
        def main(A: T.Buffer((T.int64(64),), "float32")):
            for i in range(8):
                for j in range(8):
                    A[i * 8 + j] = T.float32(1)
        """,
    )


def test_indices_that_may_not_fit_stay_wide() -> None:
    before = """
        def main(A: T.Buffer((T.int64(1099511627776),), "float32")):
            for i in range(T.int64(1048576)):
                for j in range(T.int64(1048576)):
                    A[i * T.int64(1048576) + j] = T.float32(1)
        """
    check(NarrowDataType(32), before, before)


def test_values_keep_their_type_when_indices_are_narrowed() -> None:
    text = script(
        NarrowDataType(32)(
            module('def main(A: T.Buffer((8,), "int64")):\n    for i in range(T.int64(8)):\n        A[i] = i')
        )
    )
    assert 'A[i] = T.Cast("int64", i)' in text


def test_bfloat16_is_computed_in_float32() -> None:
    check(
        BF16ComputeLegalize(),
        'def main(A: T.Buffer((8,), "bfloat16")):\n    A[0] = A[1] * A[2] + T.bfloat16(1)',
        'def main(A: T.Buffer((8,), "bfloat16")):\n'
        '    A[0] = T.Cast("bfloat16", T.Cast("float32", A[1]) * T.Cast("float32", A[2]) + T.float32(1))',
    )


def test_lets_follow_the_dtype_of_their_values() -> None:
    check(
        NarrowDataType(32),
        """
        def main(A: T.Buffer((T.int64(64),), "float32")):
            for i in range(T.int64(8)):
                v: T.int64 = i
                A[i] = T.Cast("float32", v)
        """,
        """
        def main(A: T.Buffer((T.int64(64),), "float32")):
            for i in range(8):
                v: T.int32 = i
                A[i] = T.Cast("float32", v)
        """,
    )
    text = script(
        BF16ComputeLegalize()(
            module(
                'def main(A: T.Buffer((8,), "bfloat16")):\n    w = T.bfloat16()\n    v: T.bfloat16 = A[0] + A[1]\n'
                "    A[2] = v + T.Let(w * w, where={w: A[3]})"
            )
        )
    )
    assert 'v: T.float32 = T.Cast("float32", A[0]) + T.Cast("float32", A[1])' in text
    assert 'T.Cast("bfloat16", v + T.Let(w * w, where={w: T.Cast("float32", A[3])}))' in text


def test_parts_of_equal_terms_are_not_taken_for_parts_of_the_program() -> None:
    """`(n + m) * 2` is `n * 2 + m * 2`, but `n * 2` is in the program once."""
    check(
        CommonSubexprElimTIR(identify_equiv_terms=True),
        """
        def main(A: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
            A[0] = (n + m) * 2 + n * 2 + m * 2
            A[1] = n * 2 + 2 * m + (m + n) * 2
        """,
        """
        def main(A: T.Buffer((4,), "int32"), n: T.int32, m: T.int32):
            cse_var_1: T.int32 = (n + m) * 2 + n * 2 + m * 2
            A[0] = cse_var_1
            A[1] = cse_var_1
        """,
    )
