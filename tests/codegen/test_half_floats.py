"""float16 and bfloat16 on processors with and without instructions for them: what they compute is the same."""

from __future__ import annotations

import itertools
import platform

import numpy as np
import pytest
from sampling import every

import tvmagic as tvm
from tvmagic import te, tir
from tvmagic.ir.numpy_types import numpy_dtype

X86 = ["llvm -mcpu=x86-64-v2", "llvm -mcpu=haswell", "llvm -mcpu=skylake-avx512"]
TARGETS = ["llvm", *(X86 if platform.machine() == "x86_64" else [])]
OPERATIONS = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "quotient": (lambda a, b: a / b, lambda a, b: a / b),
    "max": (tir.max, np.maximum),
    "min": (tir.min, np.minimum),
    "floor": (lambda a, b: tir.floor(a), lambda a, b: np.floor(a)),
    "ceil": (lambda a, b: tir.ceil(a), lambda a, b: np.ceil(a)),
    "trunc": (lambda a, b: tir.trunc(a), lambda a, b: np.trunc(a)),
    "rint": (lambda a, b: tir.nearbyint(a), lambda a, b: np.rint(a)),
    "sqrt": (lambda a, b: tir.sqrt(tir.abs(a)), lambda a, b: np.sqrt(np.abs(a))),
    "abs": (lambda a, b: tir.abs(a), lambda a, b: np.abs(a)),
    "copysign": (tir.copysign, np.copysign),
    "exp": (lambda a, b: tir.exp(a), lambda a, b: np.exp(a)),
    "less": (lambda a, b: tir.Select(a < b, a, b), lambda a, b: np.where(a < b, a, b)),
    "is nan": (lambda a, b: tir.Select(tir.isnan(a), b, a), lambda a, b: np.where(np.isnan(a), b, a)),
    "is inf": (lambda a, b: tir.Select(tir.isinf(a), b, a), lambda a, b: np.where(np.isinf(a), b, a)),
    "power": (lambda a, b: tir.power(tir.abs(a), tir.const(0.5, a.dtype)), lambda a, b: np.sqrt(np.abs(a))),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 6e-8, -6e-8, 65504.0, 0.5, 1.5, 2.5, -2.5]


def _values(dtype: str, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal(count) * 10.0 ** rng.integers(-6, 4, count)).astype("float32")
    values[: len(SPECIAL)] = rng.permutation(SPECIAL)
    with np.errstate(all="ignore"):
        return values.astype(numpy_dtype(dtype))


def _elements(rule, A, B):
    return lambda i: rule(A[i], B[i])


@pytest.mark.parametrize(
    ("lanes", "dtype", "target"), every(3, itertools.product([1, 3, 32], ["bfloat16", "float16"], TARGETS))
)
def test_operations(lanes, dtype, target):
    """Each operation is done in float32 and rounded once, subnormal numbers and NaN included."""
    a, b = (_values(dtype, 96, seed) for seed in (1, 2))
    A, B = (te.placeholder((96,), dtype, name=name) for name in "AB")
    rules = [rule for rule, _ in OPERATIONS.values()]
    results = [te.compute((96,), _elements(rule, A, B), name=f"C{n}") for n, rule in enumerate(rules)]
    s = te.create_schedule([c.op for c in results])
    for c in results if lanes > 1 else ():
        s[c].vectorize(s[c].split(c.op.axis[0], lanes)[1])
    found = tvm.build(s, [A, B, *results], target)(a, b)
    for (name, (_, of_numpy)), result in zip(OPERATIONS.items(), found):
        with np.errstate(all="ignore"):
            wanted = of_numpy(a.astype("float32"), b.astype("float32")).astype(result.dtype).astype("float32")
        result = result.astype("float32")
        if name in ("exp", "power"):
            np.testing.assert_allclose(result, wanted, rtol=1e-2 if dtype == "bfloat16" else 1e-3, err_msg=name)
        else:
            np.testing.assert_array_equal(result, wanted, err_msg=name)


OTHERS = ["int8", "uint16", "int32", "uint64", "int64", "float32", "float64", "bool"]


@pytest.mark.parametrize(
    ("dtype", "target", "other"), every(3, itertools.product(["bfloat16", "float16"], TARGETS, OTHERS))
)
def test_conversions(dtype, target, other):
    rng = np.random.default_rng(3)
    kind = np.dtype(other)
    values = rng.uniform(-100 if kind.kind in "if" else 0, 100, 64).astype(kind)
    small = values.astype("float32").astype(numpy_dtype(dtype))
    for lanes in (1, 4, 16):
        A = te.placeholder((64,), other, name="A")
        D = te.placeholder((64,), dtype, name="D")
        B = te.compute((64,), lambda i: A[i].astype(dtype), name="B")
        E = te.compute((64,), lambda i: D[i].astype(other), name="E")
        s = te.create_schedule([B.op, E.op])
        for stage in (B, E):
            if lanes > 1:
                s[stage].vectorize(s[stage].split(stage.op.axis[0], lanes)[1])
        narrowed, widened = tvm.build(s, [A, D, B, E], target)(values, small)
        np.testing.assert_array_equal(narrowed.astype("float32"), small.astype("float32"))
        np.testing.assert_array_equal(widened, small.astype("float32").astype(kind))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("combine", ["sum", "max", "min"])
def test_reductions(dtype, target, combine):
    a = _values(dtype, 96, 5)[len(SPECIAL) :][:64].reshape(16, 4)
    A = te.placeholder((16, 4), dtype, name="A")
    k = te.reduce_axis((0, 16), name="k")
    B = te.compute((4,), lambda i: getattr(te, combine)(A[k, i], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].reorder(k, B.op.axis[0])
    s[B].vectorize(B.op.axis[0])
    found = tvm.build(s, [A, B], target)(a).astype("float32")
    wanted = getattr(np, combine)(a.astype("float64"), axis=0)
    error = 16 * 2.0**-8 * np.abs(a.astype("float64")).sum(axis=0).max() if combine == "sum" else 0
    np.testing.assert_allclose(found, wanted, atol=error, rtol=0)
