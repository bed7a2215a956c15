"""Modules for WebAssembly: linked here, run by wasmtime, equal to NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tools import runs

import tvmagic
from tvmagic import te
from tvmagic.errors import BoundsError, BuildError, TVMagicError
from tvmagic.operators import operator
from tvmagic.runtime.wasm import STACK, imported_functions, link
from tvmagic.runtime.wasm_host import C_FUNCTIONS, c_function, linked
from tvmagic.script import tir as T

TARGET = "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128"


def run(built: Any, *arrays: Any) -> None:
    from tvmagic.runners.wasm import run as run_module

    run_module(built, arrays)


def result(text: str, sizes: int = 16, scale: float = 1.0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a cell computes in WebAssembly, and by its reference."""
    op = operator("f", text)
    inputs = [a * a.dtype.type(scale) if a.dtype.kind == "f" else a for a in op.random_inputs(sizes=sizes)]
    outputs = op.fresh_outputs(inputs)
    run(op.build(None, TARGET), *op.arguments(inputs, outputs))
    expected = op.reference(*inputs)
    return outputs, list(expected) if isinstance(expected, tuple) else [expected]


@runs("wasm32")
@pytest.mark.parametrize(
    "text",
    [
        "X: float32[20, 30]\nW: float32[30, 10]\nY[i, j] += X[i, k] * W[k, j]\nZ[i, j] = max(Y[i, j], 0) / 3",
        "X: float64[n]\nY[i] = exp(X[i]) + X[i] * X[i]",
        "X: float16[n]\nY[i] = X[i] * X[i] + 1",
        "X: bfloat16[n]\nY[i] = X[i] * X[i] + 1",
        "X: int64[16]\nI: int32[16]\nY[i] = X[i] // 3 + X[I[i]] * X[i] % 7 - 5",
        "X: uint8[n]\nZ[i] = X[i] * X[i] + 3",
        "A: float32[n]\nA[i] = A[i] + 1",
        "X: float32[n, 200, 100]\nY[m, i, j] = X[m, i, j] + 1\nZ[m, i] += Y[m, i, j] * Y[m, i, j]",  # 5 MB behind the arrays
        "X: float32[n]\nY[i] = tan(X[i]) + atan2(X[i], X[i] + 2) + hypot(X[i], X[i])",  # C's, which the host has
    ],
)
def test_an_operator_gives_what_the_reference_gives(text: str) -> None:
    for got, expected in zip(*result(text)):
        exact = got.dtype.kind in "iu"
        tolerance = {2: 2e-2, 4: 1e-4, 8: 1e-12}[got.dtype.itemsize] if not exact else 0
        np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=tolerance, atol=tolerance)


@runs("wasm32")
@pytest.mark.parametrize(
    "name, scale", [("exp", 60), ("tanh", 9), ("erf", 3), ("sin", 40000), ("cos", 40000), ("exp10", 30)]
)
def test_math_is_inside_of_the_module_and_needs_no_fused_multiply_add(name: str, scale: float) -> None:
    """A large sine is the one that C has to compute; up to 48000 our own is right without fused multiply-adds."""
    op = operator("f", f"X: float32[n]\nY[i] = {name}(X[i])")
    calls = imported_functions(op.build(None, TARGET).code)
    assert set(calls) <= {f"{name}f"} and (not calls or name in ("sin", "cos"))
    (got,), (expected,) = result(f"X: float32[n]\nY[i] = {name}(X[i])", 4000, scale)
    tolerance = 2e-7 if name in ("sin", "cos", "tanh", "erf") else 0
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=tolerance)


@runs("wasm32")
def test_float16_is_widened_and_compared_on_its_bits() -> None:
    """Every float16, in vectors: LLVM itself never ends where it compares vectors of them."""
    op = operator(
        "f", "X: float16[65536]\nY[i] = float32(X[i])\nZ[i] = X[i] * 2 if X[i] < 0.5 else -X[i]\nB[i] = X[i] == X[i]"
    )
    s = op.te_schedule()
    for tensor in op.outputs:
        stage = s[tensor]
        stage.vectorize(stage.split(stage.op.axis[0], factor=8)[1])
    x = np.arange(65536, dtype="uint16").view("float16")
    outputs = op.fresh_outputs([x])
    run(op.build(s, TARGET), *op.arguments([x], outputs))
    with np.errstate(all="ignore"):
        for got, expected in zip(outputs, op.reference(x)):
            np.testing.assert_array_equal(got, expected)


@runs("wasm32")
def test_a_schedule_with_vectors_threads_and_packing() -> None:
    n = 48
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    P = te.compute((n // 8, n, 8), lambda p, k, j: B[k, p * 8 + j], name="P")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * P[j // 8, k, j % 8], axis=k), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[1], factor=8)
    i, _ = s[C].split(C.op.axis[0], factor=4)
    s[C].vectorize(inner)
    s[C].parallel(i)
    s[P].vectorize(P.op.axis[2])
    built = tvmagic.build(s, [A, B, C], target=TARGET)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((n, n), dtype="float32") for _ in range(3))
    run(built, a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    assert "v128" in built.get_source("asm")


@runs("wasm32")
def test_the_heap_is_given_back_in_the_order_of_scopes() -> None:
    @T.prim_func
    def f(X: T.Buffer((4, 20000), "float32"), Y: T.Buffer((4, 20000), "float32")):  # type: ignore[no-untyped-def]
        for i in range(4):
            for half in range(2):
                A = T.decl_buffer((20000,), "float32")
                B = T.decl_buffer((20000,), "float32")
                for j in range(20000):
                    A[j] = X[i, j] + T.float32(1)
                for j in range(20000):
                    B[j] = A[j] * T.float32(2)
                for j in range(20000):
                    Y[i, j] = B[j] + T.Cast("float32", half)

    x = np.random.default_rng(0).standard_normal((4, 20000), dtype="float32")
    y = np.zeros_like(x)
    run(tvmagic.build(f, target=TARGET), x, y)
    np.testing.assert_array_equal(y, (x + 1) * 2 + 1)


@runs("wasm32")
def test_data_are_moved_behind_the_stack() -> None:
    table = np.arange(100, dtype="float32")
    A = te.placeholder((100,), name="A", dtype="int32")
    C = te.from_array(table, name="table")
    B = te.compute((100,), lambda i: C[A[i]] + 1.0, name="B")
    built = tvmagic.build(te.create_schedule(B.op), [A, B], target=TARGET)
    assert linked(built).heap >= STACK + 400
    index, got = np.arange(99, -1, -1, dtype="int32"), np.zeros(100, "float32")
    run(built, index, got)
    np.testing.assert_array_equal(got, table[index] + 1)


@runs("wasm32")
def test_what_stops_on_this_machine_stops_with_the_same_words() -> None:
    op = operator("f", "X: int64[10]\nI: int32[10]\nY[i] = X[I[i]]")
    arrays = [np.arange(10), np.full(10, 20, "int32"), np.zeros(10, "int64")]
    with pytest.raises(BoundsError, match="`X`"):
        run(op.build(None, TARGET), *arrays)


@runs("wasm32")
def test_an_array_that_does_not_fit_is_refused() -> None:
    op = operator("f", "X: float32[10]\nY[i] = X[i] + 1")
    with pytest.raises(TVMagicError, match="9.*0.*10"):
        run(op.build(None, TARGET), np.zeros(9, "float32"), np.zeros(10, "float32"))


def test_functions_of_python_and_unknown_ones_are_refused() -> None:
    @T.prim_func
    def packed(X: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
        T.evaluate(T.call_packed("f", X.data))

    @T.prim_func
    def extern(X: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
        X[0] = T.call_extern("float32", "lgammaf", X[1])

    with pytest.raises(BuildError):
        tvmagic.build(packed, target=TARGET)
    with pytest.raises(BuildError, match="`lgammaf`"):
        linked(tvmagic.build(extern, target=TARGET))
    with refuses("wasm.not_for_wasm", error=BuildError):
        linked(operator("f", "X: float32[10]\nY[i] = X[i] + 1").build())


def test_the_linked_module_exports_its_functions_alone() -> None:
    built = operator("f", "X: float32[10]\nY[i] = X[i] + 1").build(None, TARGET)
    module = link(built.code, ["f"])
    assert module.code[:8] == b"\0asm\x01\0\0\0" and b"\x01f\x00" in module.code
    assert b"linking" not in module.code and b"reloc." not in module.code


def test_a_module_is_saved_as_what_a_host_runs(tmp_path: Path) -> None:
    op = operator("f", "X: float32[10]\nY[i] = X[i] + 1")
    built = op.build(None, TARGET)
    built.save(tmp_path / "f.wasm")
    assert (tmp_path / "f.wasm").read_bytes() == linked(built).code
    with refuses("wasm.not_for_wasm", error=BuildError):
        op.build().save(tmp_path / "g.wasm")


def test_functions_of_c_by_name() -> None:
    assert c_function("expf")(1.0) == float(np.float32(np.exp(1.0)))
    assert c_function("nextafterf")(1.0, 2.0) == float(np.nextafter(np.float32(1), np.float32(2)))
    assert all(callable(c_function(name)) for name in C_FUNCTIONS)
    assert c_function("pow")(-np.inf, 0.5) == np.inf and str(c_function("powf")(-0.0, 0.5)) == "0.0"  # no square root
