"""InjectRollingBuffer: what it makes of a schedule, and that results stay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.driver import schedule_to_module
from tvmagic.ir import structural_equal
from tvmagic.ir.query import nodes_of
from tvmagic.script import from_source
from tvmagic.tir.transform import InjectRollingBuffer, Simplify

H, W = 11, 9


def blurred(rows: int, columns: int, step: int, inner: int = 1) -> tuple[Any, Any, Any]:
    """`B` doubles `A`; `C` adds `rows` x `columns` of it from each place on, every `step` rows (each row `inner` times)."""
    a = te.placeholder((H * step + rows, W + columns), "int32", name="A")
    b = te.compute(a.shape, lambda y, x: a[y, x] * 2, name="B")

    def total(y: Any, x: Any) -> Any:
        terms = [b[y * step // inner + r, x + k] for r in range(rows) for k in range(columns)]
        return sum(terms[1:], terms[0])

    return a, b, te.compute((H, W), total, name="C")


def expected(a: np.ndarray, rows: int, columns: int, step: int, inner: int = 1) -> Any:
    places = np.arange(H) * step // inner
    return sum(2 * a[places + r][:, k : k + W] for r in range(rows) for k in range(columns))


def scheduled(tensors: Any, tile: tuple[int, int], at: int) -> Any:
    _, b, c = tensors
    s = te.create_schedule(c.op)
    (yo, yi), (xo, xi) = (s[c].split(axis, size) for axis, size in zip(c.op.axis, tile))
    s[c].reorder(yo, xo, yi, xi)
    s[b].compute_at(s[c], (yo, xo)[at])
    s[b].rolling_buffer()
    return s


CASES = [(3, 1, 1, 1, (1, 3), 0), (3, 3, 1, 1, (1, 3), 1), (5, 2, 2, 1, (1, 9), 0), (4, 4, 1, 1, (11, 3), 1),
         (3, 1, 1, 2, (1, 9), 0), (2, 1, 3, 1, (1, 3), 1)]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_results_stay_and_memory_shrinks(case: Any) -> None:
    rows, columns, step, inner, tile, at = case
    tensors = blurred(rows, columns, step, inner)
    s, data = scheduled(tensors, tile, at), np.random.default_rng(0).integers(0, 9, (H * step + rows, W + columns))
    for passes in ([(0, InjectRollingBuffer())], [(0, Simplify()), (0, InjectRollingBuffer())]):
        with tvm.transform.PassContext(config={"tir.add_lower_pass": passes}):
            f = tvm.build(s, [tensors[0], tensors[2]])
        c = np.zeros((H, W), "int32")
        f(data.astype("int32"), c)
        np.testing.assert_array_equal(c, expected(data, rows, columns, step, inner))


def test_what_iterations_have_in_common_is_computed_once() -> None:
    tensors = blurred(3, 1, 1)
    mod = InjectRollingBuffer()(schedule_to_module(scheduled(tensors, (1, W), 0), [tensors[0], tensors[2]]))
    text = mod["main"].script()
    assert "T.realize(B[0:3, 0:10])" in text and "rolling_buffer_scope" not in text
    assert "if y_outer < 1 or y >= 2:" in text and "B[(y_outer + y) % 3, x]" in text.replace(
        "y + y_outer", "y_outer + y"
    )
    plain = blurred(3, 1, 1)
    s = scheduled(plain, (1, W), 0)
    sizes = []
    for passes in ([], [(0, InjectRollingBuffer())]):
        with tvm.transform.PassContext(config={"tir.add_lower_pass": passes}):
            lowered = tvm.lower(s, [plain[0], plain[2]])
        (allocation,) = nodes_of(lowered["main"].body, tir.Allocate)
        sizes.append(math.prod(int(extent) for extent in allocation.extents))
    assert sizes == [3 * 9, 3 * 10]  # three rows of 14, whole ones as they are kept


BEFORE = """
from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    B = T.Buffer((8, 4), "int32")
    for y in %s:
        T.realize(B[%s, 0:4], "")
        T.attr(B, "rolling_buffer_scope", True)
        for r, x in T.grid(4, 4):
            B[y * 2 + r, x] = A[y * 2 + r, x]
        for x in range(4):
            C[y, x] = B[y * 2, x] + B[y * 2 + 3, x]
"""
AFTER = """
from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((4, 4), "int32")):
    B = T.Buffer((8, 4), "int32")
    T.realize(B[0:4, 0:4], "")
    for y in range(3):
        for r, x in T.grid(4, 4):
            if y < 1 or r >= 2:
                B[(y * 2 + r) % 4, x] = A[y * 2 + r, x]
        for x in range(4):
            C[y, x] = B[y * 2 % 4, x] + B[(y * 2 + 3) % 4, x]
"""


def injected(text: str) -> tir.PrimFunc:
    return InjectRollingBuffer()(tvm.IRModule.from_expr(from_source(text)))["f"]


def test_text_of_a_small_program() -> None:
    new = injected(BEFORE % ("range(3)", "y * 2:y * 2 + 4"))
    assert structural_equal(new, from_source(AFTER)), new.script()
    fixed = injected(BEFORE % ("range(3)", "0:8"))  # no loop moves it
    assert "rolling_buffer_scope" not in fixed.script() and "T.realize(B[0:8, 0:4]" in fixed.script()


@pytest.mark.parametrize(("step", "asked"), [(2, True), (3, True), (4, False), (5, False)])
def test_what_iterations_share_nothing_of_is_computed_in_each(step: int, asked: bool) -> None:
    new = injected(BEFORE % ("range(2)", f"y * {step}:y * {step} + 4")).script()
    assert "T.realize(B[0:4, 0:4]" in new and ("if " in new) is asked


@pytest.mark.parametrize(
    ("loop", "region", "code"),
    [
        ("T.parallel(3)", "y * 2:y * 2 + 4", "tir.rolling_buffer.iterations_not_in_order"),
        ("range(3)", "T.min(y, 1):T.min(y, 1) + 4", "tir.rolling_buffer.no_overlap"),
        ("range(3)", "4 - y * 2:8 - y * 2", "tir.rolling_buffer.no_overlap"),
    ],
)
def test_what_cannot_roll_is_refused(loop: str, region: str, code: str) -> None:
    with refuses(code):
        injected(BEFORE % (loop, region))
