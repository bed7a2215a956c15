"""Gradients of tensors, against differences of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.te.index_equations import solved
from tvmagic.te.reference import evaluate, evaluate_all

A, B = (te.placeholder((4, 5), "float64", name=name) for name in "AB")
X, W = te.placeholder((1, 2, 4, 4), "float64", name="X"), te.placeholder((3, 2, 3, 3), "float64", name="W")
N = te.size_var("n")
V = te.placeholder((N,), "float64", name="V")
k, m = te.reduce_axis((0, 5), "k"), te.reduce_axis((0, 4), "m")
log_sum = te.comm_reducer(lambda x, y: te.log(te.exp(x) + te.exp(y)), lambda dtype: tir.const(-1e10, dtype))
SHAPE = (4, 5)


def padded(b: Any, c: Any, i: Any, j: Any, width: int = 2) -> Any:
    """An element of `X` with a border of zeros."""
    inside = tir.all(i >= width, i < 4 + width, j >= width, j < 4 + width)
    return tir.if_then_else(inside, X[b, c, i - width, j - width], tir.const(0.0, "float64"))


def softmax(x: Any) -> Any:
    rows, columns = map(int, x.shape)
    a, b = te.reduce_axis((0, columns)), te.reduce_axis((0, columns))
    most = te.compute((rows,), lambda i: te.max(x[i, a], axis=a), name="most")
    power = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - most[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, b], axis=b), name="total")
    return te.compute(x.shape, lambda i, j: power[i, j] / total[i], name="softmax")


def reshaped() -> Any:
    product = te.compute(SHAPE, lambda i, j: A[i, j] * B[i, j], name="product")
    return te.compute((10, 2), lambda i, j: product[(i * 2 + j) // 5, (i * 2 + j) % 5], name="reshape")


def joined() -> Any:
    """`A`, `B` and `A` side by side."""

    def element(i: Any, j: Any) -> Any:
        return tir.if_then_else(j < 5, A[i, j], tir.if_then_else(j < 10, B[i, j - 5], A[i, j - 10]))

    return te.compute((4, 15), element, name="joined")


def pooled() -> Any:
    """The largest of 3 times 3 elements, at every other one."""
    y, x = te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    border = te.compute((1, 2, 6, 6), lambda b, c, i, j: padded(b, c, i, j, 1), name="border")
    return te.compute(
        (1, 2, 2, 2), lambda b, c, i, j: te.max(border[b, c, i * 2 + y, j * 2 + x], axis=[y, x]), name="pool"
    )


def convolution(stride: int, dilation: int) -> Any:
    c, y, x = (te.reduce_axis((0, n)) for n in (2, 3, 3))
    size = (7 - 2 * dilation) // stride + 1

    def value(b: Any, o: Any, i: Any, j: Any) -> Any:
        return te.sum(
            padded(b, c, i * stride + y * dilation, j * stride + x * dilation) * W[o, c, y, x], axis=[c, y, x]
        )

    return te.compute((1, 3, size, size), value, name="conv")


CASES: dict[str, Callable[[], Any]] = {
    "rearranged": lambda: te.compute((4, 4), lambda i, j: A[i, j] + A[3 - j, i + 1] * B[i, 4 - j]),
    "functions": lambda: te.compute(SHAPE, lambda i, j: te.exp(A[i, j]) * te.tanh(B[i, 0]) / te.sqrt(B[i, j] + 3.0)),
    "steps": lambda: te.compute(
        SHAPE, lambda i, j: te.floor(A[i, j] * 0.001) * A[i, j] + te.power(B[i, j] + 2.0, A[i, j])
    ),
    "branches": lambda: te.compute(
        SHAPE,
        lambda i, j: tir.if_then_else(i < 2, tir.max(A[i, j], B[i, j]), tir.Select(j > 2, A[i, j] * A[i, 0], A[3, j])),
    ),
    "matmul": lambda: te.compute((4, 4), lambda i, j: te.sum(A[i, k] * B[j, k] + A[j, k], axis=k)),
    "where": lambda: te.compute((4,), lambda i: te.sum(A[i, k] * A[i, k], axis=k, where=k > i, init=B[i, 2])),
    "reduced twice": lambda: te.compute((5,), lambda j: te.sum(A[m, k] * B[m, j], axis=[m, k])),
    "max": lambda: te.compute((4, 4), lambda i, j: te.max(A[i, k] * B[j, k], axis=k)),
    "prod": lambda: te.compute((4,), lambda i: te.prod(A[i, k] + B[0, i], axis=k)),
    "log of a sum": lambda: te.compute((4,), lambda i: log_sum(A[i, k] * B[i, k], axis=k)),
    "reshape": lambda: reshaped(),
    "softmax": lambda: softmax(joined()),
    "convolution": lambda: convolution(1, 1),
    "convolution with steps": lambda: convolution(2, 1),
    "dilated convolution": lambda: convolution(3, 2),
    "max pooling": lambda: pooled(),
    "any size": lambda: te.compute((N - 1,), lambda i: V[i] * V[i + 1]),
    "minimum over two axes": lambda: te.compute((4,), lambda i: te.min(A[i, k] - B[m, k], axis=[k, m])),
    "let": lambda: te.compute(SHAPE, lambda i, j: tir.Let(VALUE, A[i, j] * 2.0, VALUE * VALUE)),
}
VALUE = tir.Var("value", "float64")


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_is_the_slope(case: str) -> None:
    out, rng = CASES[case](), np.random.default_rng(3)
    inputs = [t for t in (A, B, X, W, V) if any(t is r for r in _read(out))]
    arrays = {t: rng.uniform(-1, 1, tuple(map(int, t.shape)) if t is not V else 6) for t in inputs}
    head = te.placeholder(out.shape, "float64", name="head")
    value = evaluate(out, arrays)
    weights = rng.uniform(-1, 1, value.shape)
    grads = evaluate_all(te.gradient(out, inputs, head), {**arrays, head: weights})
    steps = {t: rng.uniform(-1, 1, array.shape) * 1e-6 for t, array in arrays.items()}
    ahead, behind = (evaluate(out, {t: arrays[t] + sign * steps[t] for t in inputs}) for sign in (1, -1))
    slope = (weights * (ahead - behind)).sum() / 2
    assert slope == pytest.approx(sum((grad * steps[t]).sum() for grad, t in zip(grads, inputs)), rel=1e-6, abs=1e-12)


def _read(out: Any) -> set[Any]:
    seen: set[Any] = set()
    stack = [out]
    while stack:
        tensor = stack.pop()
        if tensor not in seen:
            seen.add(tensor)
            stack += tensor.op.input_tensors
    return seen


def test_a_gradient_compiles_and_does_not_go_over_all_pairs() -> None:
    product = te.compute((4, 4), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    [grad] = te.gradient(product, A, te.compute((4, 4), lambda i, j: tir.const(1.0, "float64"), name="ones"))
    assert [str(axis.dom) for axis in grad.op.reduce_axis] == ["I.Range(0, 4)"]
    a, b, result = np.ones((4, 5)), np.random.default_rng(0).normal(size=(4, 5)), np.zeros((4, 5))
    tvmagic.build(te.create_schedule(grad.op), [A, B, grad])(a, b, result)
    np.testing.assert_allclose(result, np.tile(b.sum(0), (4, 1)))


def test_jacobians_prefixes_and_inputs_on_the_way() -> None:
    double = te.compute(SHAPE, lambda i, j: A[i, j] * 2.0, name="double")
    out = te.compute((4,), lambda i: te.sum(double[i, k], axis=k))
    jacobian, middle, none = te.gradient(out, [A, double, B])
    assert tuple(map(int, jacobian.shape)) == (4, 4, 5) and none.op.name == "B_grad"
    a = np.ones((4, 5))
    expected = np.repeat(np.eye(4)[:, :, None], 5, axis=2)
    for tensor, factor in ((jacobian, 2), (middle, 1), (none, 0)):
        np.testing.assert_array_equal(evaluate(tensor, {A: a}), factor * expected)
    head = te.placeholder((3, 2, 4), "float64", name="head")
    [grad] = te.gradient(out, A, head)
    weights = np.random.default_rng(1).normal(size=(3, 2, 4))
    np.testing.assert_allclose(evaluate(grad, {A: a, head: weights}), np.repeat(2 * weights[..., None], 5, axis=3))


def scan() -> Any:
    state = te.placeholder((3, 4), "float64", name="state")
    start = te.compute((1, 4), lambda _, i: A[i, 0])
    return te.scan(start, te.compute((3, 4), lambda t, i: state[t - 1, i] + A[i, t]), state)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (scan, "gradient.unknown_derivative"),
        (lambda: te.compute((4,), lambda i: (A[i, 0], A[i, 1]))[0], "gradient.unknown_derivative"),
        (
            lambda: te.compute((4,), lambda i: te.nextafter(A[i, 0], A[i, 1])),
            "gradient.unknown_derivative",
        ),
    ],
)
def test_what_has_no_known_derivative(make: Callable[[], Any], code: str) -> None:
    with refuses(code):
        te.gradient(make(), A)


@pytest.mark.parametrize("shape", [(4,), (4, 6), (5, 4)])
def test_a_head_of_another_shape(shape: tuple[int, ...]) -> None:
    with refuses("gradient.wrong_head_shape"):
        te.gradient(A, A, te.placeholder(shape, "float64", name="head"))


def test_equations_of_indices() -> None:
    i, r, x, y = (tir.Var(name, "int32") for name in "irxy")
    span = tvmagic.ir.Range.from_min_extent
    moved = solved([i + r], [x], [tir.const(10)], {i: span(0, 8), r: span(0, 3)})
    assert str(moved.values[i]) == "x - r" and moved.left == [r] and len(moved.conditions) == 2
    split = solved([i // 4, i % 4], [x, y], [tir.const(3), tir.const(4)], {i: span(0, 12)})
    assert str(split.values[i]) == "x * 4 + y" and not split.left and not split.conditions
    steps = solved([i * 2 + r], [x], [tir.const(9)], {i: span(0, 8), r: span(0, 2)})
    assert str(steps.values[i]) == "(x - r) // 2" and "(x - r) % 2 == 0" in map(str, steps.conditions)
    gaps = solved([i * 3 % 9], [x], [tir.const(9)], {i: span(0, 3)})
    assert str(gaps.values[i]) == "x // 3" and [str(c) for c in gaps.conditions] == ["x % 3 == 0"]
    both = solved([i * i], [x], [tir.const(9)], {i: span(0, 3)})
    assert both.left == [i] and [str(c) for c in both.conditions] == ["i * i == x"]
