"""Rules of tensor cells: names, sizes, ranges and constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import Span
from tvmagic.notation.source import Source
from tvmagic.operators import operator
from tvmagic.operators.cell import parse
from tvmagic.script import from_source


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


def test_cell_refuses_outer_functions_as_results() -> None:
    """Neither functions nor axes, unless the cell gives them names."""
    text = '@T.prim_func\ndef f(X: T.Buffer((1,), "float32"), Y: T.Buffer((1,), "float32")):\n    Y[0] = X[0]'
    outside = {"g": from_source(text), "r": te.reduce_axis((0, 4), "r")}
    assert refused(lambda: operator("f", "h = 1", outside)).code == "cell.no_tensor"
    assert operator("f", "h = g", outside).prim_func is not None
    assert list(operator("f", "X: float32[4]\nY[i] = X[i]\nk = r", outside).axes) == ["k"]


@pytest.mark.parametrize(
    ("index", "hint"),
    [
        ("-i", "`7 - i` goes backwards"),
        ("-1 - i", "`7 - i` goes backwards"),
        ("1 - i", ""),
        ("2 - i", ""),
    ],
)
def test_negative_index_is_refused_or_resolved(index: str, hint: str) -> None:
    def declare() -> Any:
        return operator("f", f"X: float32[8]\nY[i] = X[{index}]")

    assert hint in (refused(declare).hint or "") if hint else declare()


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("max(X[i, k])", "`max(X[i, k], over=k)`"),
        ("max(k, X[i, k])", "`max(X[i, k], over=k)`"),
        ("X[i, k] * 2", "write `+=` to sum over it, "),
        ("X[i, k] + max(i, 1)", "write `+=` to sum over it, "),
        ("argmax(X[i, k] + k, over=i)", "`argmax(X[i, k] + k, over=(i, k))`"),
    ],
)
def test_reduction_index_follows_right_side(value: str, hint: str) -> None:
    error = refused(lambda: operator("f", f"X: float32[8, 4]\nY[i] = {value}"))
    assert hint in (error.hint or ""), error.hint


def test_product_update_multiplies() -> None:
    op = operator("f", "X: float32[2, 3]\nY[i] = X[i, 0] + 1\nY[i] *= X[i, k]\nY[i] += X[i, k]")
    x = np.arange(1, 7, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(op.reference(x), (x[:, 0] + 1) * x.prod(1) + x.sum(1))


def test_oversized_result_is_refused_early() -> None:
    large = operator("large", "X: float32[65536, 65536]\nY[i, j] = X[i, j]")
    with pytest.raises(TVMagicError):
        large.plain.build("llvm -mtriple=wasm32-unknown-unknown")


@pytest.mark.parametrize(
    ("size", "code"),
    [
        ("1", ""),
        ("0", "notation.size.too_large"),
        ("-1", "notation.size.too_large"),
        ("2 ** 63 - 1", ""),
        ("2 ** 63", "notation.size.too_large"),
        ("(2 ** 63 - 1) ** 1", ""),
        (f"{2**63} ** 0", "notation.size.not_a_size"),
        ("1 << 62", ""),
        ("1 << 63", "notation.size.too_large"),
        ("1 << 64", "notation.size.not_a_size"),
        ("2 ** -1", "notation.size.not_a_size"),
        (f"1 + 0 * {1 << 4095}", ""),
        (f"1 + 0 * {1 << 4096}", "notation.size.not_a_size"),
        ("7 // 0", "notation.size.not_computable"),
        ("7 // 2", ""),
        ("n * 2 + 1", ""),
        ("2 ** n", "notation.size.not_a_size"),
        ("True", "notation.size.not_a_size"),
    ],
)
def test_cell_sizes_are_checked(size: str, code: str) -> None:
    def declare() -> Any:
        return operator("f", f"N: float32[n]\nX: float32[{size}]\nY[i] = X[0] + N[i]")

    assert code == refused(declare).code if code else declare()


@pytest.mark.parametrize(
    ("number", "refused_from"),
    [
        ("(1 << 4000) * (1 << {} - 1)", 96),
        ("1 * (1 << {} - 1)", 4096),
        ("(1 << {} - 1) * (1 << 99)", 3997),
        ("(1 << 4000) + (1 << {} - 1)", 96),
        ("3 << {}", 4095),
        ("1 << {}", 4096),
        ("8 ** {}", 1025),
        ("1 ** {}", 4097),
    ],
)
def test_integers_above_4096_bits_are_refused(number: str, refused_from: int) -> None:
    """By the bits that a result of numbers so long may have, before it is computed."""

    def declare(n: int) -> Any:
        return operator("f", f"X: int32[4]\nY[i] = X[i] + (({number.format(n)}) & 0)")

    assert declare(refused_from - 1)
    assert refused(lambda: declare(refused_from)).code == "notation.number_too_large"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("range(4)", ""),
        ("range(1, 4)", ""),
        ("range(4, 4)", "notation.size.empty_range"),
        ("range(0)", "notation.size.empty_range"),
        ("range(5, 4)", "notation.size.empty_range"),
        ("range()", "notation.size.wrong_range"),
        ("range(0, 4, 1)", "notation.size.wrong_range"),
    ],
)
def test_cell_ranges_are_checked(text: str, code: str) -> None:
    def declare() -> Any:
        return operator("f", f"X: float32[4]\nY[()] = sum(X[k] for k in {text})")

    assert code == refused(declare).code if code else declare()


def test_te_operations_carry_statement_location() -> None:
    text = "A = te.placeholder((4,), name='A')\nB, C = te.compute((4,), lambda i: A[i], name='B'), 3\nD = te.compute((4,), lambda i: B[i] * C, name='D')"
    op = operator("f", text)
    assert [(t.op.name, t.op.span.line) for t in op.tensors.values()] == [("A", 2), ("B", 3), ("D", 4)]
    kept = op.tensors["A"].op.span
    assert (
        operator("g", "B = te.compute((4,), lambda i: A[i], name='B')", {"A": op.tensors["A"]}).inputs[0].op.span
        is kept
    )


def test_null_byte_is_refused_at_its_line() -> None:
    error = refused(lambda: parse(Source("cell", "a\nb\0\nc\0")))
    assert error.span == Span("cell", 2, 1) and error.code == "cell.syntax_error"
