"""The elementary tensor operators, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, topi

RNG = np.random.default_rng(5)
A, B = te.placeholder((4, 6), name="A"), te.placeholder((6,), name="B")
a, b = RNG.normal(size=(4, 6)).astype("float32"), RNG.normal(size=6).astype("float32")


def run(output: Any, tensors: list[Any], *arrays: np.ndarray) -> np.ndarray:
    result = np.zeros([int(size) for size in output.shape], str(output.dtype))
    tvmagic.build(te.create_schedule(output.op), [*tensors, output])(*arrays, result)
    return result


def near(output: Any, tensors: list[Any], arrays: list[np.ndarray], expected: Any) -> None:
    np.testing.assert_allclose(run(output, tensors, *arrays), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["add", "divide", "maximum", "less"])
def test_two_operands_broadcast(name: str) -> None:
    output = getattr(topi, name)(A, B)
    assert output.op.name == f"T_{name}" and [axis.var.name for axis in output.op.axis] == ["ax0", "ax1"]
    assert topi.tag.is_broadcast(output.op.tag) and topi.tag.is_injective(output.op.tag)
    near(output, [A, B], [a, b], getattr(np, name)(a, b))


def test_shapes_that_do_not_broadcast() -> None:
    with refuses("te.tensor.shapes_do_not_broadcast", error=tvmagic.TVMError):
        topi.add(A, te.placeholder((5,), name="C"))


@pytest.mark.parametrize("name", ["exp", "sign", "negative"])
def test_one_operand(name: str) -> None:
    near(getattr(topi, name)(A), [A], [a], getattr(np, name)(a))


def test_constants_casts_and_bounds() -> None:
    near(topi.full((2, 3), "float32", 2.5), [], [], np.full((2, 3), 2.5))
    near(topi.full_like(A, 3), [], [], np.full((4, 6), 3))
    near(topi.clip(A, -0.5, 0.5), [A], [a], np.clip(a, -0.5, 0.5))
    assert run(topi.cast(A, "int32"), [A], a).tolist() == a.astype("int32").tolist()


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_reductions(axis: Any) -> None:
    near(topi.sum(A, axis), [A], [a], a.sum(axis))
    near(topi.max(A, axis, keepdims=True), [A], [a], a.max(axis, keepdims=True))
    if not isinstance(axis, tuple):
        ties = np.round(a)
        assert run(topi.argmax(A, axis), [A], ties).tolist() == ties.argmax(axis).tolist()
        assert run(topi.argmin(A, axis), [A], ties).tolist() == ties.argmin(axis).tolist()
    M = te.placeholder((4, 6), "bool", name="M")
    assert run(topi.any(M, axis), [M], a > 1).tolist() == (a > 1).any(axis).tolist()
    assert topi.min(A, axis).op.name == "A_red"


def test_axes_that_there_are_not() -> None:
    with refuses("topi.axis_out_of_range", error=ValueError):
        topi.sum(A, 2)
    with refuses("topi.repeated_axis", error=ValueError):
        topi.sum(A, (0, -2))
    with refuses("topi.not_a_permutation", error=ValueError):
        topi.transpose(A, (0, 0))
    with refuses("topi.axis_not_one", error=ValueError):
        topi.squeeze(A, 0)


def test_elements_are_moved() -> None:
    near(topi.reshape(A, (3, 8)), [A], [a], a.reshape(3, 8))
    near(topi.transpose(A), [A], [a], a.T)
    near(topi.squeeze(topi.expand_dims(A, -1)), [A], [a], a)
    near(topi.broadcast_to(B, (3, 6)), [B], [b], np.broadcast_to(b, (3, 6)))
    near(topi.concatenate([A, A, A], 1), [A], [a], np.concatenate([a, a, a], 1))
    near(topi.stack([B, B], 1), [B], [b], np.stack([b, b], 1))
    near(topi.flatten(topi.expand_dims(A, 1)), [A], [a], a)
    I, i = te.placeholder((2, 3), "int32", name="I"), np.array([[0, 5, 2], [9, 1, 1]], "int32")
    near(topi.take(A, I, 1), [A, I], [a, i], np.take(a, i, 1, mode="clip"))
    near(topi.take(A, I, mode="wrap"), [A, I], [a, i], np.take(a, i, mode="wrap"))


def test_shapes_that_do_not_fit() -> None:
    with refuses("topi.element_count_differs", error=ValueError):
        topi.reshape(A, (5, 5))
    with refuses("topi.shapes_do_not_broadcast", error=ValueError):
        topi.broadcast_to(A, (4, 5))
    with refuses("topi.matrix_sizes_differ", error=ValueError):
        topi.matmul(A, A)
    with refuses("topi.value_not_constant", error=ValueError):
        topi.utils.get_const_int(te.var("n"))
    assert topi.utils.get_const_tuple((2, te.var("n") * 0 + 3)) == (2, 3)


def test_layers() -> None:
    near(topi.matmul(A, A, transp_b=True), [A], [a], a @ a.T)
    near(topi.nn.dense(B_row := topi.expand_dims(B, 0), A), [A, B], [a, b], b[None] @ a.T)
    assert B_row.op.name == "T_expand_dims"
    near(topi.nn.relu(A), [A], [a], np.maximum(a, 0))
    powers = np.exp(a - a.max(1, keepdims=True))
    near(topi.nn.softmax(A), [A], [a], powers / powers.sum(1, keepdims=True))
    near(topi.nn.pad(A, [1, 2], [0, 3], 7.0), [A], [a], np.pad(a, [(1, 0), (2, 3)], constant_values=7))


def test_pooling() -> None:
    D, d = te.placeholder((1, 2, 7, 8), name="D"), RNG.normal(size=(1, 2, 7, 8)).astype("float32")
    border = [(0, 0), (0, 0), (1, 1), (1, 1)]

    def windows(x: np.ndarray) -> np.ndarray:
        return np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))

    near(topi.nn.pool2d(D, [3, 3], [1, 1], [1, 1], [0] * 4, "max"), [D], [d], windows(d).max((-1, -2)))
    near(topi.nn.pool2d(D, [3, 3], [2, 2], [1, 1], [0] * 4, "avg"), [D], [d], windows(d)[:, :, ::2, ::2].mean((-1, -2)))
    counts = windows(np.pad(np.ones_like(d), border)).sum((-1, -2))
    pooled = topi.nn.pool2d(D, [3, 3], [1, 1], [1, 1], [1] * 4, "avg", count_include_pad=False)
    near(pooled, [D], [d], windows(np.pad(d, border)).sum((-1, -2)) / counts)
    near(topi.nn.global_pool(D, "avg"), [D], [d], d.mean((2, 3), keepdims=True))
    rows, columns = ([slice(i * n // 3, -(-(i + 1) * n // 3)) for i in range(3)] for n in (7, 8))
    expected = np.array([[d[:, :, r, c].mean((2, 3)) for c in columns] for r in rows]).transpose(2, 3, 0, 1)
    pooled, result = topi.nn.adaptive_pool(D, 3, "avg"), np.zeros(expected.shape, "float32")
    tvmagic.build(te.create_prim_func([D, pooled]))(d, result)
    np.testing.assert_allclose(result, expected, rtol=1e-5)
    near(topi.nn.adaptive_pool(D, [1, 1], "max"), [D], [d], d.max((2, 3), keepdims=True))
    for wrong in (lambda: topi.nn.global_pool(D, "sum"), lambda: topi.nn.adaptive_pool(D, 2, "sum")):
        with pytest.raises(ValueError, match="`sum`"):
            wrong()
    with refuses("topi.wrong_value_count", error=ValueError):
        topi.nn.adaptive_pool(D, [2], "max")


def test_schedule_of_injective_operators() -> None:
    from tvmagic.topi.testing import get_injective_schedule

    output = topi.exp(topi.add(A, B))
    s = get_injective_schedule("llvm")([output])
    assert str(tvmagic.lower(s, [A, B, output])).count("T.parallel(") == 1


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_reducers_of_places_have_their_names(name: str) -> None:
    """Programs with threads show the variables of a reducer."""
    A = te.placeholder((4, 8), name="A")
    B = getattr(topi, name)(A, 1)
    (temp,) = B.op.input_tensors
    s = te.create_schedule(B.op)
    s[temp].bind(temp.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    assert f"T.comm_reducer(lambda {name}_lhs_0, {name}_lhs_1, {name}_rhs_0, {name}_rhs_1: " in str(
        tvmagic.lower(s, [A, B])
    )
