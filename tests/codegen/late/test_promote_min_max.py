"""PromoteMinMax: min and max of float16 and bfloat16 are accumulated in float32 where nothing else sees them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from late_passes import HASWELL, assert_same_values, late, parsed

import tvmagic
from tvmagic import te
from tvmagic.codegen import llvm_ir
from tvmagic.codegen.late.promote_min_max import promote_min_max
from tvmagic.ir import BufferStore, PrimFunc
from tvmagic.ir.query import nodes_of

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of all magnitudes, with zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-6, 4, size=shape)
    for special, share in ((0.0, 0.1), (-0.0, 0.1), (np.inf, 0.004), (-np.inf, 0.004), (np.nan, 0.002)):
        values[rng.random(shape) < share] = special
    return values.astype(TYPES[dtype])


def reordered(s: Any, Y: Any, k: Any) -> None:
    s[Y].reorder(Y.op.axis[0], k, Y.op.axis[1])


def vectorized(s: Any, Y: Any, k: Any) -> None:
    outer, inner = s[Y].split(Y.op.axis[1], 8)
    s[Y].reorder(Y.op.axis[0], outer, k, inner)
    s[Y].vectorize(inner)


SCHEDULES = {
    "plain": lambda s, Y, k: None,
    "by columns": reordered,
    "split": lambda s, Y, k: s[Y].split(k, 4),
    "in vectors": vectorized,
    "in parts": lambda s, Y, k: s.rfactor(Y, s[Y].split(k, 8)[1]),
    "unrolled": lambda s, Y, k: s[Y].unroll(s[Y].split(k, 3)[1]),
    "parallel": lambda s, Y, k: s[Y].parallel(Y.op.axis[0]),
}


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("dtype", TYPES)
def test_results_are_numpys(dtype: str, how: str) -> None:
    for seed, (reduce, wanted) in enumerate([(te.max, np.max), (te.min, np.min)]):
        X = te.placeholder((5, 70, 16), dtype, name="X")
        k = te.reduce_axis((0, 70), name="k")
        Y = te.compute((5, 16), lambda i, j: reduce(X[i, k, j], axis=k), name="Y")
        s = te.create_schedule(Y.op)
        SCHEDULES[how](s, Y, k)
        x = numbers((5, 70, 16), dtype, seed)
        y = np.zeros((5, 16), x.dtype)
        tvmagic.build(s, [X, Y])(x, y)
        np.testing.assert_array_equal(y.astype("float32"), wanted(x.astype("float32"), axis=1))


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_rounded_at_the_end_has_the_value_of_what_is_rounded_each_time(dtype: str) -> None:
    """The products are no numbers of the type."""
    X = te.placeholder((6, 50), dtype, name="X")
    k = te.reduce_axis((0, 50), name="k")
    Y = te.compute((6,), lambda i: te.max(X[i, k] * X[i, 0], axis=k), name="Y")
    x = numbers((6, 50), dtype)
    y = np.zeros(6, x.dtype)
    tvmagic.build(te.create_schedule(Y.op), [X, Y])(x, y)
    with np.errstate(over="ignore", invalid="ignore"):
        products = (x.astype("float32") * x[:, :1].astype("float32")).astype(x.dtype)
    np.testing.assert_array_equal(y.astype("float32"), products.astype("float32").max(axis=1))


@pytest.mark.parametrize("dtype", TYPES)
def test_llvm_makes_vectors_of_them(dtype: str) -> None:
    X = te.placeholder((8, 512), dtype, name="X")
    k = te.reduce_axis((0, 512), name="k")
    Y = te.compute((8,), lambda i: te.max(X[i, k], axis=k), name="Y")
    mod = tvmagic.lower(te.create_schedule(Y.op), [X, Y])
    assert "maximum.v8f32" in llvm_ir(mod, HASWELL)


HEAD = 'def f(A: T.Buffer((64,), "float16"), I: T.Buffer((64,), "int32"), Y: T.Buffer((64,), "float16"), n: T.int32):\n'


def function(text: str, noalias: bool = True) -> PrimFunc:
    return parsed("@T.prim_func\n" + HEAD + "\n".join("    " + line for line in text.split("\n")), noalias)


def widened(text: str, noalias: bool = True) -> str | None:
    """The text of a body after the pass, or None if it is unchanged."""
    made = late(promote_min_max, function(text, noalias))
    return None if made is None else made.body.script().replace("_best_1", "_best")


KEPT = {
    "with its first value": (
        "Y[0] = T.float16(0)\nfor k in range(n):\n    Y[0] = T.max(Y[0], A[k])",
        [
            "Y_best[0] = T.float32(0.0)",
            "for k in range(n)",
            'Y_best[0] = T.max(Y_best[0], T.Cast("float32", A[k]))',
            'Y[0] = T.Cast("float16", Y_best[0])',
        ],
    ),
    "with what is there": (
        "for k in range(9):\n    Y[5] = T.min(A[k], Y[5])",
        [
            'Y_best[0] = T.Cast("float32", Y[5])',
            "for k in range(9)",
            'Y_best[0] = T.min(T.Cast("float32", A[k]), Y_best[0])',
            'Y[5] = T.Cast("float16", Y_best[0])',
        ],
    ),
    "through another type": (
        "for k in range(9):\n    Y[5] = T.Cast('float16', T.max(T.Cast('float32', Y[5]), T.Cast('float32', A[k]) * T.float32(2)))",
        ['Y_best[0] = T.max(Y_best[0], T.Cast("float32", A[k]) * T.float32(2.0))'],
    ),
    "of several values": (
        "for k in range(9):\n    Y[5] = T.max(T.max(A[k], Y[5]), A[k + 9])",
        ['T.max(T.max(T.Cast("float32", A[k]), Y_best[0]), T.Cast("float32", A[k + 9]))'],
    ),
    "between two": (
        "for k in range(9):\n    Y[5] = T.max(T.min(A[k], Y[5]), A[k + 9])",
        ['T.max(T.min(T.Cast("float32", A[k]), Y_best[0]), T.Cast("float32", A[k + 9]))'],
    ),
    "under a condition": (
        "Y[0] = T.float16(0)\nfor k in range(9):\n    if I[k] > 0:\n        Y[0] = T.max(Y[0], A[k])",
        ["Y_best[0] = T.float32(0.0)", "[k] > 0", 'Y_best[0] = T.max(Y_best[0], T.Cast("float32", A[k]))'],
    ),
    "at an index that has a name": (
        "for i in range(4):\n    Y[i * 2] = T.float16(0)\n    for k in range(9):\n        with T.LetStmt(i * 2) as c:\n            Y[c] = T.max(Y[c], A[k])",
        [
            "for i in range(4)",
            "Y_best[0] = T.float32(0.0)",
            "for k in range(9)",
            'Y[i * 2] = T.Cast("float16", Y_best[0])',
        ],
    ),
    "in several loops": (
        "for k, l in T.grid(3, 4):\n    Y[0] = T.max(Y[0], A[k * 4 + l])",
        ['Y_best[0] = T.Cast("float32", Y[0])', "for k, l in T.grid(3, 4)", 'Y[0] = T.Cast("float16", Y_best[0])'],
    ),
    "of a vector": (
        "for k in range(3):\n    Y[8:16] = T.max(Y[8:16], A[k * 8:k * 8 + 8])",
        [
            'Y_best[0:8] = T.Cast("float32x8", Y[8:16])',
            'Y_best[0:8] = T.max(Y_best[0:8], T.Cast("float32x8", A[k * 8:k * 8 + 8]))',
        ],
    ),
    "in two lines": (
        "for k in range(9):\n    Y[5] = T.max(Y[5], A[k])\n    Y[5] = T.max(Y[5], A[k + 9])",
        ['T.max(Y_best[0], T.Cast("float32", A[k]))', 'T.max(Y_best[0], T.Cast("float32", A[k + 9]))'],
    ),
    "after another first value": (
        "Y[1] = T.float16(0)\nfor k in range(9):\n    Y[0] = T.max(Y[0], A[k])",
        ["Y[1] = T.float16(0.0)", 'Y_best[0] = T.Cast("float32", Y[0])'],
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_accumulators_in_float32(name: str) -> None:
    text, parts = KEPT[name]
    found = widened(text)
    assert found is not None
    places = [found.find(part) for part in parts]
    assert -1 not in places and places == sorted(places), found
    func = function(text)
    made = late(promote_min_max, func)
    arrays = [numbers((64,), "float16"), np.arange(64, dtype="int32") % 3, numbers((64,), "float16", 1)]
    assert made is not None
    assert_same_values(func, made, [*arrays, np.array(9, "int32")])


AS_IT_IS = {
    "a place for each iteration": "for k in range(9):\n    Y[k] = T.max(Y[k], A[k])",
    "a place that depends on data": "for k in range(9):\n    Y[I[0]] = T.max(Y[I[0]], A[k])",
    "another element": "for k in range(9):\n    Y[0] = T.max(Y[1], A[k])",
    "perhaps no iteration": "for k in range(n):\n    Y[0] = T.max(Y[0], A[k])",
    "perhaps no store": "for k in range(9):\n    if I[k] > 0:\n        Y[0] = T.max(Y[0], A[k])",
    "no iteration": "for k in range(0):\n    Y[0] = T.max(Y[0], A[k])",
    "a first value elsewhere": "Y[1] = T.float16(0)\nfor k in range(n):\n    Y[0] = T.max(Y[0], A[k])",
    "also read": "for k in range(9):\n    Y[0] = T.max(Y[0], A[k] * Y[0])",
    "read by another line": "for k in range(9):\n    Y[0] = T.max(Y[0], A[k])\n    I[k] = T.Cast('int32', Y[0])",
    "stored by another line": "for k in range(9):\n    Y[0] = T.max(Y[0], A[k])\n    Y[k] = A[k]",
    "two places": "for k in range(9):\n    Y[0] = T.max(Y[0], A[k])\n    Y[1] = T.max(Y[1], A[k])",
    "more than an extreme": "for k in range(9):\n    Y[0] = T.max(Y[0], A[k]) + T.float16(1)",
    "a sum": "for k in range(9):\n    Y[0] = Y[0] + T.max(A[k], A[0])",
    "no extreme": "for k in range(9):\n    Y[0] = Y[0]",
    "a call that may read it": "for k in range(9):\n    Y[0] = T.max(Y[0], T.call_extern('float16', 'g', Y.data))",
    "a call beside it": "for k in range(9):\n    Y[0] = T.max(Y[0], A[k])\n    T.evaluate(T.call_extern('int32', 'g'))",
    "another loop": "for k in T.parallel(9):\n    Y[0] = T.max(Y[0], A[k])",
    "another statement": "for k in range(9):\n    with T.attr(0, 'note', k):\n        Y[0] = T.max(Y[0], A[k])",
    "a type between that rounds": "for k in range(9):\n    Y[0] = T.Cast('float16', T.max(T.Cast('bfloat16', Y[0]), T.Cast('bfloat16', A[k])))",
    "no loop": "Y[0] = T.max(Y[0], A[0])",
}


@pytest.mark.parametrize("name", AS_IT_IS)
def test_other_updates_are_unchanged(name: str) -> None:
    assert widened(AS_IT_IS[name]) is None


def test_memory_that_may_overlap_is_read_as_it_is_written() -> None:
    text, _ = KEPT["with what is there"]
    assert widened(text) is not None and widened(text, noalias=False) is None
    alone = "for k in range(9):\n    Y[5] = T.max(Y[5], T.Cast('float16', k))"
    assert widened(alone, noalias=False) is not None


def test_two_in_one_loop() -> None:
    both = "for k in range(9):\n    Y[5] = T.max(Y[5], A[k])\n    A[60] = T.min(A[60], T.Cast('float16', k))"
    found = widened(both)
    assert found is not None and "Y_best" in found and "A_best" not in found, "A is read elsewhere as well"
    apart = "for k in range(9):\n    Y[5] = T.max(Y[5], T.Cast('float16', I[k]))\n    A[60] = T.min(A[60], T.Cast('float16', k))"
    found = widened(apart)
    assert found is not None
    for line in ('Y[5] = T.Cast("float16", Y_best[0])', 'A[60] = T.Cast("float16", A_best[0])'):
        assert line in found


def test_new_statements_have_the_spans_of_those_that_they_replace() -> None:
    func = function(KEPT["with its first value"][0])
    made = late(promote_min_max, func)
    first, update = nodes_of(func.body, BufferStore)
    assert made is not None and first.span != update.span
    assert [store.span for store in nodes_of(made.body, BufferStore)] == [first.span, update.span, update.span]
