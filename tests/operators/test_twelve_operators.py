"""The operators of docs/operators.md: each cell as it is there, against NumPy, with its loops and with a schedule."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvmagic.auto import auto
from tvmagic.errors import TVMagicError
from tvmagic.operators import Version, operator

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
Array = np.ndarray[Any, Any]


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def conv1d(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1)))
    return np.stack([sum(np.correlate(padded[c], w[o, c], "valid")[::2] for c in range(len(x))) for o in range(len(w))])


def layer_norm(x: Array, g: Array, b: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * g + b


def attention(q: Array, k: Array, v: Array) -> Array:
    return softmax(q @ k.transpose(0, 2, 1) / 4) @ v


def rotary(x: Array, c: Array, s: Array) -> Array:
    left, right = x[:, :8], x[:, 8:]
    return np.concatenate([left * c - right * s, right * c + left * s], 1)


def transposed_conv(x: Array, w: Array) -> Array:
    y = np.zeros((2, 34), "float32")
    for r in range(4):
        y[:, r : r + 32 : 2] += np.einsum("ci,co->oi", x, w[:, :, r])
    return y


def grouped(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.repeat(2, 0).transpose(0, 2, 1)
    return softmax(np.where(np.tri(6, dtype=bool), scores, -np.inf)) @ v.repeat(2, 0)


def cross_entropy(x: Array, t: Array) -> Array:
    return -np.log(softmax(x)[np.arange(16), t]).mean()


def batch_norm(x: Array) -> Array:
    axes = (0, 2, 3)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def sobel(i: Array, k: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(i, (3, 3))
    return np.hypot((windows * k).sum((2, 3)), (windows * k.T).sum((2, 3)))


def life(g: Array) -> Array:
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    around = sum(np.roll(g, shift, (0, 1)) for shift in shifts)
    return ((around == 3) | ((around == 4) & (g == 1))).astype("uint8")


EXPECTED: dict[str, Callable[..., Array]] = {
    "batched": lambda a, b: np.einsum("bki,bjk->bij", a, b),
    "conv1d": conv1d,
    "conv1d_inline": conv1d,
    "place": lambda x: x.argmax(1),
    "running": lambda x: x.cumsum(1),
    "layer_norm": layer_norm,
    "attention": attention,
    "histogram": lambda x: np.bincount(x, minlength=10),
    "pool": lambda x: x.reshape(3, 8, 2, 8, 2).max((2, 4)),
    "int8_product": lambda a, b: a.astype("int32") @ b.astype("int32"),
    "gather": lambda t, i: t[i],
    "masked": lambda x, b, m: np.where(m & np.tri(8, 12, dtype=bool), x + b, 0),
    "product": lambda a, b: a @ b,
    "rms_norm": lambda x, g: x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * g,
    "batch_norm": batch_norm,
    "rotary": rotary,
    "transposed_conv": transposed_conv,
    "grouped": grouped,
    "cross_entropy": cross_entropy,
    "dequantized": lambda q, s, z, x: ((q.astype("float32") - z[:, None]) * s[:, None]) @ x,
    "second": lambda x: np.sort(x, 1)[:, -2],
    "spectrum": lambda x: (np.abs(np.fft.rfft(x)) ** 2).astype("float32"),
    "sobel": sobel,
    "median": lambda x: np.median(np.stack([x[:-2], x[1:-1], x[2:]]), 0),
    "life": life,
}


def cells() -> dict[str, str]:
    """The cells of the page by name, without their first line."""
    blocks = re.findall(r"(?:^    .*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    texts = [re.sub("^    ", "", block, flags=re.MULTILINE) for block in blocks]
    return {text.split("\n")[0].split()[1]: text.partition("\n")[2] for text in texts if text.startswith("%%tensor")}


def arguments(op: Any) -> list[Array]:
    rng = np.random.default_rng(1)
    if op.name == "histogram":
        return [rng.integers(0, 10, 100, dtype="int32")]
    if op.name == "cross_entropy":
        return [op.random_inputs(3)[0], rng.integers(0, 10, 16, dtype="int32")]
    if op.name == "life":
        return [rng.integers(0, 2, (20, 20), dtype="uint8")]
    return op.random_inputs(3, {"n": 7, "k": 5, "m": 9})


def test_the_page_has_the_operators() -> None:
    assert set(cells()) == set(EXPECTED) and PAGE.read_text(encoding="utf-8").count("\n## ") == 24


@pytest.mark.parametrize("name", EXPECTED)
def test_an_operator_is_right_as_written(name: str) -> None:
    op = operator(name, cells()[name])
    values = arguments(op)
    expected = EXPECTED[name](*values)
    result = op(*values)
    assert result.shape == expected.shape and result.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(op.reference(*values), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["batched", "conv1d", "layer_norm", "pool", "int8_product"])
def test_an_operator_is_scheduled_at_once_and_stays_right(name: str) -> None:
    op = operator(name, cells()[name])
    version = Version(op, auto(op), "auto")
    op.add_version(version)
    assert op.current is version and op.check().ok


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("X: int32[9]\nH: int32[4]\nH[X[i]] += 1", "notation.left_side_not_indices", "`H[b] += 1 if X[i] == b else 0`"),
        ("X: float32[6, 9]\nI[i] = argmax(X[i, :])", "notation.slice_index", "`Y[i] = max(X[i, k], over=k)`"),
        (
            "A: int8[4, 4]\nC: int32[4]\nC[i] += A[i, k] * A[k, i]",
            "notation.declared_dtype_differs",
            "convert what is read, as in `int32(A[i, k])`",
        ),
        (
            "G: int32[8]\na: range(3)\nN[i] += G[(i + a) % 8]",
            "notation.extent_not_inferred",
            "say how far, for example `i: range(",
        ),
        (
            "A: float32[4]\nB[i, j] = A[i]\nj: range(5)",
            "notation.extent_not_inferred",
            "`j` in line 4 holds for the statements below it",
        ),
        (
            "A: float32[9]\nB[i] += A[i * j]\nj: range(5)",
            "notation.extent_not_inferred",
            "say how far, for example `i: range(",
        ),
        (
            "A: float16[4]\nC: float32[4]\nC[i] = A[i] * A[i]",
            "notation.declared_dtype_differs",
            "convert the right side by `float32(...)`",
        ),
    ],
)
def test_a_wrong_first_try_is_told_what_works(text: str, code: str, hint: str) -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", text)
    assert code == caught.value.code and hint in (caught.value.hint or "")


def test_an_index_outside_of_the_table_is_refused() -> None:
    op = operator("gather", cells()["gather"])
    table, index = arguments(op)
    index[2] = 50
    with pytest.raises(IndexError):
        op(table, index)
