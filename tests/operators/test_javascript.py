"""Operators as plain JavaScript, run by Node: equal to the reference, and bounds that hold."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tools import TOOLS, needs

from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.operators import Operator, operator
from tvmagic.operators.arrays import size_values
from tvmagic.operators.javascript import array_type, javascript
from tvmagic.runtime.wasm_host import C_FUNCTIONS
from tvmagic.script import from_source
from tvmagic.script import tir as T

STATIC = Path(__file__).parents[2] / "tvmagic" / "notebook" / "static"
CELLS = {
    "product": "X: float32[20, 30]\nW: float32[30, 10]\nY[i, j] += X[i, k] * W[k, j]\nZ[i, j] = max(Y[i, j], 0) / 3 + exp(Y[i, j])",
    "softmax": "X: float32[8, 30]\nS[i, k] = softmax(X[i, k], over=k)",
    "recurrence": "X: float32[n]\nY[i] = cumsum(X[i], over=i)",
    "tuples": "X: float32[6, 30]\nM[i] = argmax(X[i, k], over=k)\nA[i] = max(X[i, k], over=k)",
    "wide": "X: int64[16]\nI: int32[16]\nY[i] = X[i] // 3 + X[I[i]] * X[i] % 7 - 5",
    "wraps": "X: uint8[n]\nY: int8[n]\nZ[i] = X[i] * X[i] + 253\nU[i] = Y[i] * Y[i] * Y[i] // 2",
    "words": "X: int32[n]\nY[i] = X[i] * 1000003 * 1000003 % 97 + (X[i] << 3) - (X[i] >> 1) + (X[i] & 5) + (X[i] ^ 9)",
    "sums": "X: int8[8, 13]\nW: int64[13]\nC[i] += X[i, k].astype('int32') * 7\nD[i] *= W[k] + C[i]\nE[i] = max(C[i], 0) * 3",
    "padding": "X: float32[64]\nP: float32[66]\nP[i] = X[i - 1] if 1 <= i < 65 else 0",
    "half": "X: float16[n]\nY[i] = X[i] * X[i] + exp(X[i])",
    "brain": "X: bfloat16[n]\nY[i] = X[i] * X[i] - 3",
    "functions": "X: float32[n]\nY[i] = erf(X[i]) + sin(X[i]) * tanh(X[i]) + sigmoid(X[i]) + sqrt(abs(X[i])) + X[i] ** 3 + atan(X[i])",
    "waves": "X: float32[n]\nZ[i] = X[i] * 3\nY[i] = tan(Z[i] / 3) + cosh(Z[i]) - cos(Z[i]) + asinh(Z[i]) + atan2(X[i], 2) + atan2(Z[i], X[i] * X[i] + 1) + hypot(Z[i], X[i])",
    "bools": "X: float32[n]\nB[i] = X[i] > 0.2\nC[i] = X[i] * 2 if B[i] else -X[i]",
    "double": "X: float64[n]\nY[i] = floor(X[i] * 10) / 3 + log1p(abs(X[i]))",
    "norm": "X: float32[20, 30]\nM[i] = mean(X[i, k], over=k)\nV[i] += (X[i, k] - M[i]) * (X[i, k] - M[i])\nN[i, k] = (X[i, k] - M[i]) / sqrt(V[i] / 30 + 1e-5)",
    "update": "A: float32[n]\nA[i] = A[i] + 1",
    "chosen": "X: float32[9, 8]\nfor t in range(9): Y[t, i] = X[t, i] * 3 > (1 if Y[t - 1, i] else 0) if t > 0 else False",
    "places": "X: float32[9]\nfor i in range(8): Y[i] = X[i] + X[i < 3]",
    "casts": "X: float32[n]\nY[i] = int32(X[i] * 100) + int8(X[i] * 1000)\nZ[i] = float32(int32(X[i] * 8)) / 2",
}  # fmt: skip


@T.prim_func
def blocks(X: T.Buffer((8, 6), "float32"), W: T.Buffer((6, 5), "float32"), Y: T.Buffer((8, 5), "float32")):  # type: ignore[no-untyped-def]
    for i, j, k in T.grid(8, 5, 6):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vk, vj]
    for i in range(8):
        if i % 2 == 0:
            for j in range(5):
                Y[i, j] = T.exp(Y[i, j])


def literal(tensor: Any, array: np.ndarray) -> str:
    """An array as JavaScript writes it."""
    wide = tensor.dtype.bits == 64 and not tensor.dtype.is_float
    texts = [f"{int(v)}n" if wide else repr(float(v)) for v in array.reshape(-1).astype(object if wide else float)]
    return f"{array_type(tensor.dtype)}.from([{', '.join(texts)}])"


def evaluated(jobs: dict[str, tuple[Operator, list[np.ndarray]]]) -> dict[str, Any]:
    """For each operator the outputs in plain JavaScript, the values beside bounds, and the bounds."""
    rows = []
    for name, (op, inputs) in jobs.items():
        sizes = size_values(op.inputs, inputs)
        texts = [json.dumps(javascript(op, sizes, bounds)) for bounds in (False, True)]
        arrays = ", ".join(literal(t, a) for t, a in zip(op.inputs, inputs))
        rows.append(f"{json.dumps(name)}: both({', '.join(texts)}, [{arrays}])")
    script = f"""{(STATIC / "arithmetic.js").read_text()}
const {{ reference }} = makeArithmetic();
const numbers = (array) => array && Array.from(array, (v) => Number.isFinite(v) ? v : String(v));
const both = (plain, bounds, inputs) => [
  reference(plain)(inputs).map(numbers),
  reference(bounds)(inputs).map(({{ value, error }}) => [numbers(value), numbers(error)]),
];
console.log(JSON.stringify({{ {", ".join(rows)} }}));
"""
    done = subprocess.run([TOOLS["node"].need()], input=script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def floats(values: list[Any]) -> np.ndarray:
    return np.array([float(v) for v in values])


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    jobs = {name: operator("f", text) for name, text in CELLS.items()}
    jobs["blocks"] = Operator.from_prim_func("blocks", blocks)
    given = {name: (op, op.random_inputs()) for name, op in jobs.items()}
    found = evaluated(given)
    expected = {}
    for name, (op, inputs) in given.items():
        values = op.reference(*inputs)
        expected[name] = [v.reshape(-1).astype(float) for v in (values if isinstance(values, tuple) else (values,))]
    return {name: (*found[name], expected[name]) for name in jobs}


@needs("node")
@pytest.mark.parametrize("name", [*CELLS, "blocks"])
def test_plain_loops_give_what_the_reference_gives_and_the_bound_holds(name: str, results: dict[str, Any]) -> None:
    plain, bounded, expected = results[name]
    for got, (value, error), wanted in zip(plain, bounded, expected):
        bound = floats(error) if error else np.zeros(len(wanted))
        assert np.isfinite(bound).all()
        assert (np.abs(floats(value) - wanted) <= bound * (1 + 1e-6)).all()
        assert (np.abs(floats(got) - wanted) <= 2 * bound + 1e-30).all()
        assert (bound < 0.02 * np.abs(wanted).max() + 1e-30).all(), "a bound that lets everything pass is none"


@needs("node")
def test_integers_have_no_bound(results: dict[str, Any]) -> None:
    assert all(error is None for name in ("wide", "wraps", "words", "sums") for _, error in results[name][1])


@needs("node")
def test_what_a_comparison_leaves_open_is_not_decided() -> None:
    op = operator("f", "X: float32[4]\nS[i] = X[i] * 3 - 1\nB[i] = 1 if S[i] > 0 else -1")
    third = np.float32(1) / np.float32(3)
    inputs = [np.array([third, 0, 1, -1], "float32")]
    _, [(value, error)] = evaluated({"f": (op, inputs)})["f"]
    assert value[1:] == [-1, 1, -1] and error[0] == 2 and error[1:] == [0, 0, 0]


@needs("node")
def test_a_product_that_overflows_inside_fma_is_not_judged_if_the_sum_may_be_finite() -> None:
    op = operator("f", "X: float16[4]\nY: float16[4]\nZ: float16[4]\nF[i] = fma(X[i], Y[i], Z[i])")
    inputs = [np.array(x, "float16") for x in ([2**15, 2**15, 3, 6e4], [-2.5, -2.5, 2, 2], [2**15, -1, 4, 1])]
    _, [(value, error)] = evaluated({"f": (op, inputs)})["f"]
    assert error[0] == "Infinity" and value[1:] == ["-Infinity", 10, "Infinity"] and error[1:] == [0, error[2], 0]
    assert 0 < error[2] < 0.1


@needs("node")
def test_an_angle_is_open_at_the_origin_and_behind_it() -> None:
    """There are both pi and -pi."""
    op = operator(
        "f", "X: float32[4]\nY[i] = atan2(X[i] * 3 - 1, X[3] + X[i] * 0)\nZ[i] = atan2(X[i] * 3 - 1, X[i] * 3 - 1)"
    )
    third = np.float32(1) / np.float32(3)
    inputs = [np.array([third, 1, 0.5, -2], "float32")]
    _, [(_, behind), (_, origin)] = evaluated({"f": (op, inputs)})["f"]
    assert behind[0] == origin[0] == "Infinity" and max(behind[1:] + origin[1:]) < 1e-5


@needs("node")
def test_if_rounding_may_decide_what_runs_all_results_are_open() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32"), C: T.Buffer((1,), "int32")):
    B[0] = A[0] * T.float32(3)
    C[0] = 1
    if B[0] > T.float32(1):
        C[0] = 2"""
    op, third = operator("f", text), np.float32(1) / np.float32(3)
    close, far = evaluated({n: (op, [np.array([x], "float32")]) for n, x in (("close", third), ("far", 2))}).values()
    assert [error for _, error in close[1]] == [["Infinity"]] * 2
    assert [value for value, _ in far[1]] == [[6], [2]] and far[1][1][1] is None


def test_the_memory_of_a_recurrence_is_made_once() -> None:
    """Not in each of its steps, where it would take longer than the step."""
    text = javascript(operator("sums", "X: float32[64, 40]\nY[i, k] = cumsum(exp(X[i, k]), over=k)"), {})
    depth = 0
    for line in text.splitlines():
        assert not depth or "new Float32Array" not in line, line
        depth += line.count("{") - line.count("}")


def test_what_has_no_form_is_refused() -> None:
    A = te.placeholder((4,), name="A", dtype="float32x4")
    B = te.compute((4,), lambda i: A[i] + A[i], name="B")
    with pytest.raises(TVMagicError, match="`float32x4`"):
        javascript(Operator("v", [A], [B]), {})
    with pytest.raises(TVMagicError, match="`nextafter`"):
        C = te.placeholder((4,), name="C")
        D = te.compute((4,), lambda i: tir.nextafter(C[i], C[i]), name="D")
        javascript(Operator("n", [C], [D]), {})
    with pytest.raises(TVMagicError, match="`K`"):
        K = te.operation.from_array(np.arange(4, dtype="float32"), "K")
        E = te.compute((4,), lambda i: C[i] + K[i], name="E")
        javascript(Operator("k", [C], [E]), {})


@needs("node")
def test_conditions_of_reductions_are_on_integers() -> None:
    A = te.placeholder((6,), "int32", name="A")
    k = te.reduce_axis((0, 6), "k")
    S = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=A[k] > 2), name="S")
    op = Operator("w", [A], [S])
    a = np.arange(6, dtype="int32")
    for bounds in (False, True):
        assert "if (" in javascript(op, {}, bounds)
    plain, with_bounds = evaluated({"w": (op, [a])})["w"]
    assert plain[0] == [12] and with_bounds[0][0] == [12]
    X = te.placeholder((6,), name="X")
    S = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=X[k] * 3 > 2), name="S")
    assert "if (" in javascript(Operator("w", [A, X], [S]), {}, False)
    with refuses("javascript.choice_by_float"):
        javascript(Operator("w", [A, X], [S]), {}, True)


@needs("node")
def test_the_hosts_have_the_same_functions_of_c() -> None:
    text = "\n".join((STATIC / name).read_text() for name in ("arithmetic.js", "kernel.js"))
    script = f"{text}\nconsole.log(JSON.stringify(makeHost(makeArithmetic()).functionsOfC));"
    done = subprocess.run([TOOLS["node"].need()], input=script, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(json.loads(done.stdout)) == sorted([*C_FUNCTIONS, *[f"{name}f" for name in C_FUNCTIONS]])


@pytest.mark.parametrize(
    ("cell", "has", "has_not"),
    [
        ("X: int32[6]\nY[i] = X[i] + 1", "Int32Array", "BigInt"),
        ("X: uint8[6]\nY[i] = X[i] + 1", "Uint8Array", "BigInt"),
        ("X: float64[6]\nY[i] = X[i] + 1", "Float64Array", "BigInt"),
        ("X: int64[6]\nY[i] = X[i] + 1", "BigInt.asIntN(64, ", "| 0"),
        ("X: int32[6]\nY[i] = X[i % 3] + X[i]", "% 3)", "wholeFloorRemain"),
        ("X: int32[6]\nY[i] = X[i] % 3", "wholeFloorRemain(", "% 3"),
        ("X: bool[6]\nW: bool[6]\nY[i] = X[i] & W[i]", " && ", " & "),
        ("X: bool[6]\nW: bool[6]\nY[i] = X[i] | W[i]", " || ", " | "),
        ("X: bool[6]\nW: bool[6]\nY[i] = X[i] ^ W[i]", " !== ", " ^ "),
        ("X: int32[6]\nW: int32[6]\nY[i] = X[i] & W[i]", " & ", " && "),
        ("X: int32[6]\nY[i] = X[i] // 3", "Math.floor(", "wholeFloorDivide"),
        ("X: int32[6]\nW: int32[6]\nY[i] = X[i] // W[i]", "wholeFloorDivide(", "Math.floor("),
        ("X: float32[2, 3, 4]\nY[i, j, k] = X[i, j, k]", ") * 4 + ", "* 2 +"),
    ],
)
def test_the_form_of_an_operation_follows_its_operands(cell: str, has: str, has_not: str) -> None:
    text = javascript(operator("f", cell), {})
    assert has in text and has_not not in text


@pytest.mark.parametrize(("factor", "big"), [(1 << 52, False), ((1 << 52) + 1, True)])
@pytest.mark.parametrize("last", [1, 2])
def test_products_beyond_53_bits_are_of_big_integers(factor: int, big: bool, last: int) -> None:
    """The last value of a loop decides."""
    value = f"T.Cast('int64', i) * T.int64({factor // last + factor % 2})"
    text = f"@T.prim_func\ndef f(Y: T.Buffer(({last + 1},), 'int64')):\n    for i in range({last + 1}):\n        Y[i] = {value}"
    assert ("BigInt.asIntN(" in javascript(Operator.from_prim_func("f", from_source(text)), {})) == big


def test_a_truth_value_is_open_where_the_error_of_its_number_reaches_0() -> None:
    op = operator("f", "X: float32[4]\nY[i] = bool(X[i])")
    assert "apart(" not in javascript(op, {}, True)
    op = operator("f", "X: float32[4]\nS[i] = X[i] * 3\nY[i] = bool(S[i])")
    assert re.search(r"\(apart\(\w+, 0\) <= \w+ \? 1 : 0\)", javascript(op, {}, True))


def test_conditions_that_leave_nothing_open_have_no_error_of_their_own() -> None:
    op = operator("f", "X: float32[4]\nY[i] = 1.0 if X[i] > 0 and i < 3 else 0.0")
    assert "apart(" not in javascript(op, {}, True)
    op = operator("f", "X: float32[4]\nS[i] = X[i] * 3\nY[i] = 1.0 if S[i] > 0 and i < 3 else 0.0")
    assert "apart(" in javascript(op, {}, True) and "apart(" not in javascript(op, {})
    name = re.findall(r"let (v\d+) = v\d+, e\1 = ", javascript(op, {}, True))[0]
    assert f"if ({name} || e{name})" in javascript(op, {}, True) and f"if ({name})" in javascript(op, {})


@needs("node")
@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_cells_give_what_the_reference_gives(first: int) -> None:
    from instant_cells import random_cell

    jobs: dict[str, tuple[Operator, list[np.ndarray]]] = {}
    for seed in range(first, first + 50):
        text, size = random_cell(seed)
        op = operator("f", text)
        inputs = op.random_inputs(seed, size or 16)
        if sum(array.size for array in inputs) < 60_000:
            jobs[str(seed)] = op, inputs
    found = evaluated(jobs)
    for seed, (op, inputs) in jobs.items():
        with np.errstate(all="ignore"):
            expected = op.reference(*inputs)
        for got, (value, error), wanted in zip(*found[seed], expected if isinstance(expected, tuple) else (expected,)):
            near = wanted.reshape(-1).astype(float)
            bound = floats(error) if error else np.zeros(len(near))
            for values, times in ((value, 1 + 1e-6), (got, 2)):
                same = (floats(values) == near) | np.isnan(near) & np.isnan(floats(values))
                assert (same | (np.abs(floats(values) - near) <= times * bound + 1e-30)).all(), f"seed {seed}"
