"""Hybrid script: loops in Python as tensors, and as Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te
from tvmagic.errors import BoundsError
from tvmagic.operators import Operator, operator

# names that hybrid script has, for those who read this file
allocate: Any = None
bind: Any = None
const_range: Any = None
exp: Any = None
output_tensor: Any = None
parallel: Any = None
vectorize: Any = None
float32: Any = None

rng = np.random.default_rng(0)


def build(inputs: Any, outputs: Any) -> Any:
    s = te.create_schedule([t.op for t in outputs])
    return tvmagic.build(s, [*inputs, *outputs], check_bounds=True)


@te.hybrid.script
def outer_product(a, b):
    """Two vectors' products."""
    c = output_tensor((a.shape[0], b.shape[0]), "float32")
    for i in parallel(a.shape[0]):
        for j in vectorize(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def statistics(a, scale):
    means = output_tensor((a.shape[0],), "float32")
    largest = output_tensor((a.shape[0],), "float32")
    n = a.shape[1]
    for i in range(a.shape[0]):
        total = 0.0
        row = allocate((6,), "float32", "local")
        for k in range(n):
            row[k] = exp(a[i, k]) * scale
        top = row[0]
        for k in range(n):
            total += row[k]
            if row[k] > top:
                top = row[k]
        means[i] = total / float32(n)
        largest[i] = top
    return means, largest


def test_tensors_and_arrays_give_the_same() -> None:
    a, b = te.placeholder((5,), name="a"), te.placeholder((7,), name="b")
    c = outer_product(a, b)
    x, y = rng.standard_normal(5).astype("float32"), rng.standard_normal(7).astype("float32")
    np.testing.assert_array_equal(build([a, b], [c])(x, y), np.outer(x, y))
    np.testing.assert_array_equal(outer_product(x, y), np.outer(x, y))
    text = str(tvmagic.lower(te.create_schedule(c.op), [a, b, c]))
    assert "T.parallel(5)" in text and outer_product.__doc__ == "Two vectors' products."


def test_scalars_memory_and_several_outputs() -> None:
    a = te.placeholder((4, 6), name="a")
    means, largest = statistics(a, 2.0)
    x = rng.standard_normal((4, 6)).astype("float32")
    expected = 2 * np.exp(x).mean(1), 2 * np.exp(x).max(1)
    for found in (build([a], [means, largest])(x), statistics(x, 2.0)):
        for result, reference in zip(found, expected):
            np.testing.assert_allclose(result, reference, rtol=1e-5)


def test_stages_before_and_after() -> None:
    a = te.placeholder((4, 6), name="a")
    b = te.compute((4, 6), lambda i, j: a[i, j] * 0.5, name="b")
    means, largest = statistics(b, 1)
    c = te.compute((4,), lambda i: largest[i] - means[i], name="c")
    x = rng.standard_normal((4, 6)).astype("float32")
    y = np.exp(x / 2)
    np.testing.assert_allclose(build([a], [c])(x), y.max(1) - y.mean(1), rtol=1e-5, atol=1e-6)


@te.hybrid.script
def shifted(tensors, n):
    out = output_tensor((n,), "int32")
    for i in bind("threadIdx.x", n):
        out[i] = 0
        for k in const_range(2):
            out[i] += tensors[k][i] << k
    return out


def test_lists_of_tensors_symbolic_sizes_threads_and_written_out_loops() -> None:
    n = te.var("n")
    a, b = te.placeholder((n,), dtype="int32", name="a"), te.placeholder((n,), dtype="int32", name="b")
    out = shifted([a, b], n)
    x, y = rng.integers(0, 9, 11).astype("int32"), rng.integers(0, 9, 11).astype("int32")
    np.testing.assert_array_equal(build([a, b], [out])(x, y), x + 2 * y)
    np.testing.assert_array_equal(shifted([x, y], 11), x + 2 * y)
    assert isinstance(out.op, te.ExternOp) and out.shape[0] is n and isinstance(out, te.Tensor)


def returned_early(a):
    c = output_tensor((4,), "float32")
    for i in range(4):
        return c
    return c


def not_an_output(a):
    return a


def a_while(a):
    c = output_tensor((4,), "float32")
    while True:
        c[0] = a[0]
    return c


def nothing(a):
    for i in range(4):
        a[i] = 0.0


def unknown(a):
    c = output_tensor((4,), "float32")
    c[0] = a[0] + missing  # noqa: F821
    return c


@pytest.mark.parametrize(
    ("function", "code", "line"),
    [
        (returned_early, "hybrid.early_return", 4),
        (not_an_output, "hybrid.not_an_output", 2),
        (a_while, "hybrid.unsupported_statement", 3),
        (nothing, "hybrid.returns_nothing", 1),
        (unknown, "script.undefined_name", 3),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(function: Any, code: str, line: int) -> None:
    with refuses(code, error=tvmagic.errors.DiagnosticError) as caught:
        te.hybrid.script(function)(te.placeholder((4,), name="a"))
    assert caught.value.line == function.__code__.co_firstlineno + line - 1


def test_wrong_uses_are_refused() -> None:
    with refuses("hybrid.not_a_function"):
        te.hybrid.script(3)  # type: ignore[arg-type]
    with refuses("hybrid.wrong_argument_count"):
        outer_product(te.placeholder((4,), name="a"))


@te.hybrid.script
def bubbles(a):
    """What a name holds is kept while its element gets another value."""
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        b[i] = a[i]
    for _ in range(a.shape[0]):
        for j in range(a.shape[0] - 1):
            if b[j] > b[j + 1]:
                low = b[j + 1]
                b[j + 1] = b[j]
                b[j] = low
    return b


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_name_keeps_what_was_read_before_a_store(dtype: str) -> None:
    A = te.placeholder((8,), dtype, name="A")
    B = bubbles(A)
    a = rng.permutation(8).astype(dtype)
    for built in (build([A], [B]), tvmagic.build(te.create_prim_func([A, B]))):
        b = np.zeros(8, dtype)
        built(a, b)
        np.testing.assert_array_equal(b, np.arange(8))
    op = Operator("bubbles", [A], [B])
    np.testing.assert_array_equal(op.reference(a), np.arange(8))
    assert op.check().ok


@te.hybrid.script
def running(a, unused):
    """Two outputs that are read while they are computed."""
    total = output_tensor((4,), "float32")
    largest = output_tensor((4,), "float32")
    for i in range(4):
        total[i] = a[i, 0]
        largest[i] = a[i, 0]
        for j in range(1, 7):
            total[i] = total[i] + a[i, j]
            largest[i] = max(largest[i], a[i, j])
    return total, largest


def test_outputs_may_be_read_and_inputs_left_alone() -> None:
    A, U = te.placeholder((4, 7), name="A"), te.placeholder((3,), name="U")
    outputs = running(A, U)
    a, u = rng.normal(size=(4, 7)).astype("float32"), np.zeros(3, "float32")
    for built in (build([A, U], outputs), tvmagic.build(te.create_prim_func([A, U, *outputs]))):
        total, largest = np.zeros(4, "float32"), np.zeros(4, "float32")
        built(a, u, total, largest)
        np.testing.assert_allclose(total, a.sum(1), rtol=1e-5)
        np.testing.assert_array_equal(largest, a.max(1))
    np.testing.assert_allclose(Operator("running", [A, U], outputs).reference(a, u)[1], a.max(1))


def test_a_hybrid_script_is_read_from_its_cell_and_its_stores_are_checked() -> None:
    text = (
        "@te.hybrid.script\ndef far(a):\n    c = output_tensor((8,), 'float32')\n    for i in range(8):\n"
        "        c[i + {}] = a[i]\n    return c\nA = te.placeholder((8,), name='A')\nC = far(A)"
    )
    ones = np.ones(8, "float32")
    np.testing.assert_array_equal(operator("f", text.format(0))(ones), ones)
    with pytest.raises(BoundsError) as caught:
        operator("f", text.format(100_000_000))(ones)
    assert caught.value.span is not None and caught.value.span.line == 6
