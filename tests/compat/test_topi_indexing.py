"""Operators that take pieces of tensors, and layers of networks, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tvmagic.topi import nn

from tvmagic import te, tir, topi
from tvmagic.te.reference import evaluate

RNG = np.random.default_rng(7)
A, B = te.placeholder((4, 6), name="A"), te.placeholder((6, 4, 3), name="B")
C = te.placeholder((4, 1), "bool", name="C")
X, W, H = (te.placeholder(shape, name=name) for name, shape in zip("XWH", [(2, 4, 7, 8), (6, 2, 3, 3), (2, 7, 8, 4)]))
V = te.placeholder((3, 3, 4, 2), name="V")  # H, W, channel, number
P, Q = te.placeholder((2, 4, 6), name="P"), te.placeholder((1, 5, 6), name="Q")
I = te.placeholder((4, 2), "int32", name="I")
G, K = te.placeholder((6,), name="G"), te.placeholder((6,), name="K")
a, b, x, w, h, v, p, q, g, k = (
    RNG.normal(size=[int(str(n)) for n in t.shape]).astype("float32") for t in (A, B, X, W, H, V, P, Q, G, K)
)
c, i = RNG.random((4, 1)) > 0.5, np.array([[0, 3], [5, 1], [2, 2], [4, 0]], "int32")
GIVEN = {A: a, B: b, C: c, X: x, W: w, H: h, V: v, P: p, Q: q, I: i, G: g, K: k}


def convolved(data: np.ndarray, filters: np.ndarray, groups: int, pads: Any, steps: Any, dilation: Any) -> np.ndarray:
    """A convolution of NCHW data with OIHW filters: at the top, left, bottom and right of the data are zeros."""
    padded = np.pad(data, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    spread = [(n - 1) * d + 1 for n, d in zip(filters.shape[2:], dilation)]
    view = np.lib.stride_tricks.sliding_window_view(padded, spread, (2, 3))
    view = view[:, :, :: steps[0], :: steps[1], :: dilation[0], :: dilation[1]]
    parts = zip(np.split(view, groups, 1), np.split(filters, groups))
    return np.concatenate([np.einsum("nchwyx,fcyx->nfhw", part, some) for part, some in parts], 1)


def transposed(data: np.ndarray, filters: np.ndarray, step: int, padding: int, more: int) -> np.ndarray:
    """What each element of the data adds: the filters times it, at `step` times its place."""
    rows, columns = ((n - 1) * step + 3 + more for n in data.shape[2:])
    result = np.zeros((len(data), filters.shape[1], rows, columns), "float32")
    for y, x in np.ndindex(*data.shape[2:]):
        part = np.einsum("nc,cfij->nfij", data[:, :, y, x], filters)
        result[:, :, y * step : y * step + 3, x * step : x * step + 3] += part
    return result[:, :, padding : rows - padding, padding : columns - padding]


LN = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
CASES: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "split": (lambda: topi.split(A, 3, axis=1)[1], a[:, 2:4]),
    "split at": (lambda: topi.split(A, (1, 3), -1)[2], a[:, 3:]),
    "strided_slice": (lambda: topi.strided_slice(A, [1, -1], [4, -10], [2, -2]), a[1:4:2, ::-2]),
    "strided_slice of sizes": (lambda: topi.strided_slice(A, [2], [3], axes=[1], slice_mode="size"), a[:, 2:5]),
    "flip": (lambda: topi.flip(A, -1), a[:, ::-1]),
    "tile": (lambda: topi.tile(A, (2, 1, 3)), np.tile(a, (2, 1, 3))),
    "tile of more axes": (lambda: topi.tile(A, (2,)), np.tile(a, (2,))),
    "repeat": (lambda: topi.repeat(A, 3, 1), np.repeat(a, 3, 1)),
    "arange": (lambda: topi.arange(1, 8, 3, "int32"), np.arange(1, 8, 3)),
    "where": (lambda: topi.where(C, A, 1.0), np.where(c, a, 1)),
    "one_hot": (lambda: topi.one_hot(I, 2, -1, 6, 1, "float32"), np.where(i[:, None] == np.arange(6)[:, None], 2, -1)),
    "gather": (lambda: topi.gather(A, 1, I), np.take_along_axis(a, i, 1)),
    "gather_nd": (lambda: topi.gather_nd(B, topi.transpose(topi.clip(I, 0, 3))), b[tuple(i.clip(0, 3).T)]),
    "triu": (lambda: topi.trilu(A, 1, True), np.triu(a, 1)),
    "tril": (lambda: topi.trilu(A, -1, False), np.tril(a, -1)),
    "elemwise_sum": (lambda: topi.elemwise_sum([A, A, A]), 3 * a),
    "tensordot": (lambda: topi.tensordot(A, B, 1), np.tensordot(a, b, 1)),
    "tensordot of axes": (lambda: topi.tensordot(A, B, ((1, 0), (0, 1))), np.tensordot(a, b, ((1, 0), (0, 1)))),
    "logical": (lambda: topi.logical_xor(C, topi.logical_not(topi.greater(A, 0.0))), c ^ ~(a > 0)),
    "log_add_exp": (lambda: topi.log_add_exp(A, topi.negative(A)), np.logaddexp(a, -a)),
    "matmul": (lambda: nn.matmul(A, A, K, transpose_a=True), a.T @ a + k),
    "batch_matmul": (lambda: nn.batch_matmul(P, Q), p @ q.transpose(0, 2, 1)),
    "batch_matmul of rows": (
        lambda: nn.batch_matmul(P, P, transpose_a=True, transpose_b=False),
        p.transpose(0, 2, 1) @ p,
    ),
    "leaky_relu": (lambda: nn.leaky_relu(A, 0.1), np.where(a > 0, a, a * np.float32(0.1))),
    "prelu": (lambda: nn.prelu(A, G), np.where(a > 0, a, a * g)),
    "flatten": (lambda: nn.flatten(B), b.reshape(6, 12)),
    "dilate": (lambda: topi.strided_slice(nn.dilate(A, (1, 2), 5.0), [0, 0], [4, 11], [1, 2]), a),
    "log_softmax": (lambda: nn.log_softmax(A, 0), a - a.max(0) - np.log(np.exp(a - a.max(0)).sum(0))),
    "layer_norm": (lambda: nn.layer_norm(A, G, K, 1), LN * g + k),
    "batch_norm": (lambda: nn.batch_norm(A, G, K, G, topi.multiply(K, K))[0], (a - g) / np.sqrt(k * k + 1e-5) * g + k),
    "conv2d_nchw": (
        lambda: nn.conv2d_nchw(topi.split(X, 2, 1)[1], W, 1, 1, 1),
        convolved(x[:, 2:], w, 1, [1] * 4, (1, 1), (1, 1)),
    ),
    "conv2d with steps": (
        lambda: nn.conv2d(topi.split(X, 2, 1)[0], W, (2, 3), (1, 2, 0, 1), (2, 1)),
        convolved(x[:, :2], w, 1, [1, 2, 0, 1], (2, 3), (2, 1)),
    ),
    "group_conv2d_nchw": (
        lambda: nn.group_conv2d_nchw(X, W, 1, "SAME", 1, 2),
        convolved(x, w, 2, [1] * 4, (1, 1), (1, 1)),
    ),
    "conv2d_transpose_nchw": (
        lambda: nn.conv2d_transpose_nchw(topi.split(X, (1,), 1)[0], topi.strided_slice(W, [0], [1]), 2, 1, None, 1),
        transposed(x[:, :1], w[:1], 2, 1, 1),
    ),
    "pool1d": (
        lambda: nn.pool1d(P, [2], [3], [1], [1, 0], "avg", count_include_pad=False),
        np.stack([p[..., 0], p[..., 2:4].mean(-1)], -1),
    ),
    "pool3d": (
        lambda: nn.pool3d(topi.expand_dims(X, 1), [2, 7, 1], [2, 1, 1], [1, 1, 1], [0] * 6, "max"),
        x.reshape(2, 1, 2, 2, 7, 8).max((3, 4))[:, :, :, None],
    ),
    "conv2d_nhwc": (
        lambda: nn.conv2d_nhwc(H, V, 1, "VALID", 1),
        convolved(h.transpose(0, 3, 1, 2), v.transpose(3, 2, 0, 1), 1, [0] * 4, (1, 1), (1, 1)).transpose(0, 2, 3, 1),
    ),
    "depthwise_conv2d_nhwc": (
        lambda: nn.depthwise_conv2d_nhwc(H, V, 2, 1, 1),
        convolved(
            h.transpose(0, 3, 1, 2), v.transpose(2, 3, 0, 1).reshape(8, 1, 3, 3), 4, [1] * 4, (2, 2), (1, 1)
        ).transpose(0, 2, 3, 1),
    ),
    "depthwise_conv2d_nchw": (
        lambda: nn.depthwise_conv2d_nchw(X, topi.transpose(V, (2, 3, 0, 1)), 1, (0, 1), (1, 2)),
        convolved(x, v.transpose(2, 3, 0, 1).reshape(8, 1, 3, 3), 4, [0, 1, 0, 1], (1, 1), (1, 2)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_numpy(case: str) -> None:
    make, expected = CASES[case]
    np.testing.assert_allclose(evaluate(make(), GIVEN), expected, rtol=1e-4, atol=1e-5)


def test_names_and_layouts_as_in_tvm() -> None:
    output = nn.conv2d_nhwc(H, V, 1, 1, 1)
    assert output.op.name == output.op.tag == "conv2d_nhwc" and output.op.input_tensors[0].op.name == "pad_temp"
    assert [axis.var.name for axis in output.op.axis] == ["nn", "yy", "xx", "ff"]
    assert [axis.var.name for axis in output.op.reduce_axis] == ["ry", "rx", "rc"]
    wide = nn.conv1d(P, te.placeholder((3, 4, 2), name="F"), 2, 1)
    assert wide.op.name == "conv1d_ncw" and topi.utils.get_const_tuple(wide.shape) == (2, 3, 4)
    deep = nn.conv3d(te.placeholder((1, 2, 5, 6, 7), name="D"), te.placeholder((3, 2, 2, 3, 3), name="F"), 1, 1, 1)
    assert [axis.var.name for axis in deep.op.reduce_axis] == ["rc", "rz", "ry", "rx"]
    assert topi.utils.get_const_tuple(deep.shape) == (1, 3, 6, 6, 7) and deep.op.name == "conv3d_ncdhw"
    assert nn.get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1) and nn.get_pad_tuple((1, 2), (3, 3)) == (1, 2, 1, 2)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: topi.split(A, 4, 1), "topi.not_divisible"),
        (lambda: topi.strided_slice(A, [3], [1]), "topi.empty_slice"),
        (lambda: topi.arange(3, 1), "topi.empty_range"),
        (lambda: topi.gather(A, 0, G), "topi.ranks_differ"),
        (lambda: topi.tensordot(A, A, 1), "topi.axis_sizes_differ"),
        (lambda: nn.batch_matmul(P, B), "topi.batch_sizes_differ"),
        (lambda: nn.conv2d_nchw(X, W, 1, 0, 1), "topi.channels_differ"),
        (lambda: nn.conv2d(X, W, 1, 0, 1, "NCHH"), "topi.wrong_layout"),
        (lambda: nn.conv2d_nchw(X, W, (1, 1, 1), 0, 1), "topi.wrong_value_count"),
        (lambda: nn.group_conv2d_nchw(X, W, 1, "FULL", 1, 2), "topi.wrong_padding"),
        (lambda: nn.dilate(A, [2]), "topi.wrong_value_count"),
    ],
)
def test_what_does_not_fit(make: Callable[[], Any], code: str) -> None:
    with refuses(code):
        make()


def test_what_is_injective_is_computed_where_it_is_read() -> None:
    output = topi.exp(topi.add(A, 1.0))
    s, seen = te.create_schedule(output.op), []
    topi.utils.traverse_inline(s, output.op, seen.append)
    assert [op.name for op in seen] == ["T_add", "compute"]
    assert str(s[seen[0]].attach_type) != str(s[output].attach_type)
    assert topi.utils.equal_const_int(tir.const(3) + 1, 4) and str(topi.utils.ravel_index([1, 2], [3, 4])) == "6"
