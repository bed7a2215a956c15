"""Functions of the index notation that are several stages: against NumPy, with special values, in expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

from tvmagic.errors import TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

RNG = np.random.default_rng(7)
X = RNG.normal(size=(6, 10)).astype("float32")
N = RNG.integers(-5, 5, (6, 10)).astype("int32")


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


CASES = [
    ("Y[i] = mean(X[i, j], over=j)", lambda x: x.mean(1)),
    ("Y[()] = mean(X[i, j], over=(i, j))", lambda x: x.mean()),
    ("Y[i, j] = X[i, j] - mean(X[i, k], over=k)", lambda x: x - x.mean(1, keepdims=True)),
    ("Y[i] = mean(X[i, j] ** 2, over=j) - mean(X[i, j], over=j) ** 2", lambda x: (x**2).mean(1) - x.mean(1) ** 2),
    ("Y[i, j] = softmax(X[i, j], over=j)", lambda x: softmax(x, 1)),
    ("Y[i, j] = softmax(X[i, j] * 2, over=i)", lambda x: softmax(x * 2, 0)),
    ("Y[j, i] = softmax(X[i, j] * 3, over=j) + 1", lambda x: (softmax(x * 3, 1) + 1).T),
    ("Y[i] = argmax(X[i, j], over=j)", lambda x: x.argmax(1)),
    ("Y[j] = argmin(X[i, j], over=i) + 1", lambda x: x.argmin(0) + 1),
    ("Y[i] = cumsum(X[i, 2], over=i)", lambda x: x[:, 2].cumsum()),
    ("Y[i, j] = cumsum(X[i, j], over=j)", lambda x: x.cumsum(1)),
    ("Y[i, j] = cumprod(X[i, j], over=i)", lambda x: x.cumprod(0)),
    ("Y[i, j] = cummax(X[i, j], over=j) - X[i, j]", lambda x: np.maximum.accumulate(x, 1) - x),
    ("Y[i, j] = cummin(X[i, j], over=j)", lambda x: np.minimum.accumulate(x, 1)),
    # reductions inside reductions
    ("Y[i] += max(X[i, j] * X[k, j], over=j)", lambda x: (x[:, None] * x[None]).max(2).sum(1)),
    ("Y[i] = max(X[i, j] - mean(X[i, k], over=k), over=j)", lambda x: (x - x.mean(1, keepdims=True)).max(1)),
    ("Y[i] = max(X[i, j] - mean(X[i, j], over=j), over=j)", lambda x: (x - x.mean(1, keepdims=True)).max(1)),
    ("Y[i] = argmin(sum(X[i, j] * X[k, j], over=j), over=k)", lambda x: (x @ x.T).argmin(1)),
    ("Y[i] += softmax(X[i, j], over=j) * X[i, j]", lambda x: (softmax(x, 1) * x).sum(1)),
    ("Y[i] = max(softmax(X[i, j], over=j), over=j)", lambda x: softmax(x, 1).max(1)),
    # generators, as in Python
    ("Y[i, j] = max(X[2 * i + r, 5 * j + q] for r in range(2) for q in range(5))",
     lambda x: x.reshape(3, 2, 2, 5).max((1, 3))),
    ("Y[i] = sum([X[i, k] for k in range(2, 9)]) / mean(X[i, j] for j in range(3))",
     lambda x: x[:, 2:9].sum(1) / x[:, :3].mean(1)),
    ("Y[i] = sum(1 for k in range(10) if X[i, k] > 0)", lambda x: (x > 0).sum(1)),
    ("Y[i] = prod(X[i, k] for k in range(10) if k > i if X[i, k] > 0)",
     lambda x: np.where((x > 0) & (np.arange(10) > np.arange(6)[:, None]), x, 1).prod(1)),
    ("Y[i] = any(X[i, k] > 1 for k in range(10))", lambda x: (x > 1).any(1)),
    ("Y[i] = 1 if all(X[i, k] > -1, over=k) else 0", lambda x: (x > -1).all(1)),
    # ends that move are conditions on all values of the index
    ("Y[i, j] = sum(X[i, k] * X[k, j] for k in range(i + 1))", lambda x: np.tril(x[:, :6]) @ x),
    ("Y[i] = sum(X[i, k] * X[l, k] for l in range(i, 6) if l != 4 for k in range(l + 1, 10))",
     lambda x: np.array([sum(x[i, l + 1:] @ x[l, l + 1:] for l in range(i, 6) if l != 4) for i in range(6)])),
    ("i: range(6)\nk: range(-3, 10)\nY[i] = prod(X[i, k] for k in range(i))",
     lambda x: np.array([x[i, :i].prod() for i in range(6)])),
    ("Y[i] = any(X[i, k] > 1 for k in range(i, 9) if k != 5)",
     lambda x: np.array([(np.delete(x[i, :9], 5)[i - (i > 5):] > 1).any() for i in range(6)])),
    ("Y[i] = all(X[i, k] > 0 for k in range(i))", lambda x: np.array([(x[i, :i] > 0).all() for i in range(6)])),
    ("for i in range(X.shape[0]):\n  Y[i] = sum(X[i, k] for k in range(X.shape[-1])) / len(X)", lambda x: x.sum(1) / 6),
    ("Y[i] = X[i, 0]\nY[i] += 1\nY[i] -= X[i, 1]\nY[i] /= 3\nY[i] += X[i, k]\nY[i] *= 0.5",
     lambda x: ((x[:, 0] + 1 - x[:, 1]) / 3 + x.sum(1)) / 2),
    ("Y: float32[6, 2]\nfor i in range(6):\n  for j in range(2):\n    Y[i, j] = 0\n    for k in range(10):\n      Y[i, j] += X[i, k] * X[j, k]",
     lambda x: x @ x[:2].T),
    ("Y[i] = sum(max(X[i, k] * X[d, k] for k in range(10)) for d in range(6))",
     lambda x: (x[:, None] * x[None]).max(2).sum(1)),
]  # fmt: skip


@pytest.mark.parametrize("line, numpy", CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_the_value_is_that_of_numpy(line: str, numpy: Any) -> None:
    only_floats = any(word in line for word in ("mean", "softmax", "/"))
    for values in (X,) if only_floats else (X, N):
        op = operator("f", f"X: {values.dtype}[6, 10]\n{line}")
        np.testing.assert_allclose(op(values), numpy(values), rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(op.reference(values), numpy(values), rtol=2e-5, atol=1e-6)
        assert op.check().ok


def test_the_ends_of_a_range_may_be_data() -> None:
    """A product of a sparse matrix, in rows that begin where the first input says, and a vector."""
    cell = "s: int32[p]\nc: int32[z]\nv: float32[z]\nx: float32[m]\nfor i in range(p - 1): y[i] = "
    op = operator("f", cell + "sum(v[j] * x[c[j]] for j in range(s[i], s[i + 1]))")
    starts, columns = np.array([0, 2, 2, 5], "int32"), np.array([1, 3, 0, 2, 3], "int32")
    values, x = RNG.normal(size=5).astype("float32"), RNG.normal(size=4).astype("float32")
    expected = [values[a:b] @ x[columns[a:b]] for a, b in zip(starts, starts[1:])]
    np.testing.assert_allclose(op(starts, columns, values, x), expected, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(op.reference(starts, columns, values, x), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "value, hint",
    [
        ("max(X[i, k] for k in range(i))", "`max(X[i, k] if k < i else -1e30, over=k)`"),
        ("mean(X[i, k] for k in range(i))", "`sum(X[i, k] if k < i else 0.0, over=k) / sum(1.0 if k < i else 0.0, over=k)`"),
        ("sum(X[i, 9 - k] for k in range(i))", "write `k: range(...)` above"),
    ],
)  # fmt: skip
def test_moving_ends_that_are_not_read_say_what_to_write(value: str, hint: str) -> None:
    with pytest.raises(TVMagicError) as refused:
        operator("f", f"X: float32[6, 10]\ni: range(6)\nY[i] = {value}")
    assert hint in str(refused.value.hint)


def shifted(x: Any, of_row: Any) -> Any:
    """Row `i` of the result is `of_row` of row `i - 1`; the first is 0."""
    return np.stack([np.zeros_like(of_row(x[0])), *(of_row(row) for row in x[:-1])])


IN_BRANCHES = [
    *((f"{name}(X[i - 1, k], over=k) if i > 0 else 0", getattr(np, name)) for name in ("sum", "prod", "max", "min", "argmax", "argmin")),
    ("0 if not i >= 1 else mean(float32(X[i - 1, k]), over=k)", lambda row: row.astype("float32").mean()),
    ("where(i == 0, 0, max(X[i - 1, k] - sum(X[i - 1, l], over=l), over=k))", lambda row: row.max() - row.sum()),
    ("0 if i == 0 or X[i, 0] != X[i, 0] else max(X[i - 1, k] * X[i - 1, 9 - k], over=k)", lambda row: (row * row[::-1]).max()),
    ("any(X[i - 1, k] > 2, over=k) if i > 0 else False", lambda row: (row > 2).any()),
]  # fmt: skip


@pytest.mark.parametrize("value, of_row", IN_BRANCHES, ids=lambda v: v if isinstance(v, str) else "")
def test_what_is_reduced_in_a_branch_is_read_only_where_it_is_taken(value: str, of_row: Any) -> None:
    """Its stage has elements for all indices, also those at which the branch is not taken and the terms are outside."""
    for values in (X, N):
        op = operator("f", f"X: {values.dtype}[6, 10]\nfor i in range(6): Y[i] = {value}")
        np.testing.assert_allclose(op(values), shifted(values, of_row), rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(op.reference(values), shifted(values, of_row), rtol=2e-5, atol=1e-6)


def test_functions_along_an_index_in_a_branch() -> None:
    """A condition on the index along which they run is one on the element that is taken, not on their terms."""
    op = operator("f", "X: float32[6, 10]\nfor i in range(6): Y[i, k] = softmax(X[i - 1, k], over=k) if i > 0 else 0")
    np.testing.assert_allclose(op(X), shifted(X, lambda row: softmax(row[None], 1)[0]), rtol=2e-5, atol=1e-6)
    op = operator("f", "X: float32[6, 10]\nY[i, k] = cumsum(X[i, k], over=k) if k > 3 else 0")
    np.testing.assert_allclose(op(X), np.where(np.arange(10) > 3, X.cumsum(1), 0), rtol=2e-5, atol=1e-6)


def test_what_is_reduced_in_a_branch_and_stays_inside_has_no_condition() -> None:
    op = operator("f", "X: float32[6, 10]\nY[i] = max(X[i, k], over=k) if i > 0 else 0")
    assert "if_then_else" not in str(op.te_schedule().stages[1].op.body)


def test_what_is_reduced_by_steps_of_a_recurrence_in_a_branch() -> None:
    op = operator(
        "f",
        "X: float32[6, 10]\ni: range(6)\nY[i] = 0.0 if i == 0 else Y[i - 1] + (sum(X[i - 3, k], over=k) if i > 2 else 1)",
    )
    expected = np.cumsum([0, 1, 1, *X[:3].sum(1)])
    np.testing.assert_allclose(op(X), expected, rtol=2e-5)


def stepped(lag: int, step: Any) -> Any:
    """A function of `x` whose columns follow each other: the first `lag` are those of `x`."""

    def run(x: Any) -> Any:
        y = x.copy()
        for t in range(lag, x.shape[1]):
            y[:, t] = step(x, y, t)
        return y

    return run


HALF = "X[i, t] if t == 0 else 0.5 * Y[i, t - 1] + X[i, t]"
RECURRENT = [
    (f"Y[i, t] = {HALF}", stepped(1, lambda x, y, t: 0.5 * y[:, t - 1] + x[:, t])),
    (f"Y[t, i] = {HALF.replace('Y[i, t - 1]', 'Y[t - 1, i]')}", lambda x: RECURRENT[0][1](x).T),
    (f"Y[i, t] = {HALF}\nZ[i, t] = Y[i, 9 - t]", lambda x: RECURRENT[0][1](x)[:, ::-1]),
    (
        "Y[i, t] = X[i, t] if t < 2 else Y[i, t - 1] - Y[i, t - 2]",
        stepped(2, lambda x, y, t: y[:, t - 1] - y[:, t - 2]),
    ),
    (
        "Y[i, t] = where(t > 0, max(Y[i, t - 1], X[i, t]), X[i, t])",
        stepped(1, lambda x, y, t: np.maximum(y[:, t - 1], x[:, t])),
    ),
    ("Y[i, t] = 1 if t < 1 else Y[i, t - 1] + X[i, t]", lambda x: np.cumsum(np.c_[np.ones(6), x[:, 1:]], 1)),
    (
        "Y[t, i] = X[i, 0] if not t > 0 else sum(Y[t - 1, j], over=j) / 6 + X[i, t]",
        lambda x: stepped(1, lambda x, y, t: y[:, t - 1].sum() / 6 + x[:, t])(x).T,
    ),
    (
        "Y[i, t] = X[i, t] if t == 0 else 0.1 * Y[i, t - 1] * Y[i, t - 1] + (Y[i, t - 7] if t >= 7 else 1)",
        stepped(1, lambda x, y, t: np.float32(0.1) * y[:, t - 1] ** 2 + (y[:, t - 7] if t >= 7 else 1)),
    ),
    (
        "Y[i, j] = X[i, j] + (Y[i - 1, j] if i > 0 else 0) + (Y[i, j - 1] if j > 0 else 0) - (Y[i - 1, j - 1] if i > 0 and j > 0 else 0)",
        lambda x: x.cumsum(0).cumsum(1),
    ),
    (  # what a remainder leaves out at the first steps
        "Y[i, t] = X[i, t] if t % 3 == 0 else Y[i, t - 2] * X[i, t] if t % 3 == 2 else Y[i, t - 1] + 1",
        stepped(1, lambda x, y, t: (x[:, t], y[:, t - 1] + 1, y[:, t - 2] * x[:, t])[t % 3]),
    ),
    (  # the sum runs over all of `t`, whatever the step is
        "Y[i, t] = sum((X[i, t] if t == 1 else X[0, t]), over=t) if t == 0 else Y[i, t - 1] + 1",
        lambda x: (x[0].sum() - x[0, 1] + x[:, 1])[:, None] + np.arange(10, dtype="float32"),
    ),
    (
        "k: range(2)\nY[j, k, i] = X[i, j] + k if i == 0 or j == 9 else max(Y[j + 1, 1 - k, i - 1], Y[j, k, i - 1])",
        lambda x: by_rows(x),
    ),
    (
        "k: range(3)\nY[i, t, k] = X[i, t] + k if i == 0 or t == 0 else sum(Y[i - 1, t, m], over=m) / 3 + Y[i, t - 1, k] / 2",
        lambda x: summed_rows(x),
    ),
    (
        "s: range(2)\nY[i, t, s] = X[i, t] if t == 0 else 0.5 * Y[i, t - 1, 0] + Y[i, t - 1, 1] * X[i, t] if s == 0 else tanh(Y[i, t, 0])",
        lambda x: together(x, lambda y, t, x: (c := 0.5 * y[t - 1][0] + y[t - 1][1] * x, np.tanh(c))).transpose(
            2, 0, 1
        ),
    ),
    (
        "s: range(2)\nY[t, s, i] = where(t < 1, X[i, t], where(not s > 0, X[i, t], Y[t, 0, i] + sum(Y[t - 1, 1, j], over=j) / 6))",
        lambda x: together(x, lambda y, t, x: (x, x + y[t - 1][1].sum() / 6)),
    ),
    (
        "s: range(3)\nY[t, s, i] = X[i, t] if t == 0 else Y[t - 1, 2, i] if s == 0 else Y[t, 0, i] + 1 if s != 2 else Y[t, 1, i] / 2 - Y[t - 1, 0, i]",
        lambda x: together(x, lambda y, t, x: (a := y[t - 1][2], b := a + 1, b / 2 - y[t - 1][0]), 3),
    ),
]


def summed_rows(x: np.ndarray) -> np.ndarray:
    """A table of which each element has the sum of the one above."""
    y = x[:, :, None] + np.arange(3, dtype="float32")
    for i, t in np.ndindex(5, 9):
        y[i + 1, t + 1] = y[i, t + 1].sum() / 3 + y[i + 1, t] / 2
    return y


def together(x: np.ndarray, step: Any, count: int = 2) -> np.ndarray:
    """Values that follow each other and read each other: by time, which of them it is, and the rows of `x`."""
    y = [(x[:, 0],) * count]
    for t in range(1, x.shape[1]):
        y.append(step(y, t, x[:, t]))
    return np.array(y)


def by_rows(x: np.ndarray) -> np.ndarray:
    """The second table of `RECURRENT`, whose rows are `i`."""
    y = x.T[:, None, :] + np.arange(2, dtype="float32")[None, :, None]
    for i in range(1, 6):
        for j in range(9):
            y[j, :, i] = np.maximum(y[j + 1, ::-1, i - 1], y[j, :, i - 1])
    return y


@pytest.mark.parametrize("line, numpy", RECURRENT, ids=lambda v: v if isinstance(v, str) else "")
def test_a_definition_may_read_itself_at_earlier_places(line: str, numpy: Any) -> None:
    op = operator("f", f"X: float32[6, 10]\n{line}")
    np.testing.assert_allclose(op(X), numpy(X), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(op.reference(X), numpy(X), rtol=2e-5, atol=1e-5)
    assert op.check().ok


def test_a_recurrence_of_a_symbolic_size_may_be_shorter_than_its_beginning() -> None:
    op = operator("f", "X: int32[n]\nY[t] = X[t] if t < 2 else Y[t - 1] + Y[t - 2]")
    for size in range(4):
        assert op(np.ones(size, "int32")).tolist() == [1, 1, 2][:size]
        if size:
            fixed = operator("f", f"X: int32[{size}]\nt: range({size})\nY[t] = X[t] if t < 2 else Y[t - 1] + Y[t - 2]")
            assert fixed(np.ones(size, "int32")).tolist() == [1, 1, 2][:size]


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        (
            "Y[i, t] = Y[i, t - 1] + X[i, t]",
            "notation.read_before_first_value",
            "... if t == 0 else Y[i, t - 1] + X[i, t]",
        ),
        (
            "Y[i, t] = X[i, t] if t == 0 else Y[i - 1, t] + Y[i, t - 1]",
            "notation.index_out_of_range",
            "... if i == 0 else X",
        ),
        (
            "Y[i, t] = X[i, t] if i == 0 else Y[i - 1, t + 1] + (Y[i, t - 1] if t > 0 else 0)",
            "notation.index_out_of_range",
            "or t == 9",
        ),
        ("Y[i, t] = X[i, t] if t < 2 else Y[i, t - 5]", "notation.read_before_first_value", "... if t < 5 else"),
        ("Y[i, t] = X[i, t] if t == 9 else Y[i, t + 1]", "notation.read_before_computed", "one index is earlier"),
        ("Y[i, t] = X[i, t] if t == 0 else Y[t - 1]", "notation.wrong_index_count", None),
        (
            "s: range(2)\nY[t, s] = X[0, t] if t == 0 else Y[t, 1] if s == 0 else Y[t, 0]",
            "notation.read_before_computed",
            "one index is earlier",
        ),
        (
            "t: range(9)\nY[t] = 0.0 if t == 0 else Z[t - 1] + 1\nZ[t] = Y[t]",
            "notation.read_before_computed",
            "`S[t, s, i] = (...) if s == 0",
        ),
        (
            "t: range(9)\nY[t] = 0.0 if t == 0 else Y[t - 1] + Z[t]\nZ[t] = 1.0 * t",
            "notation.read_before_computed",
            "define it in a line above",
        ),
        ("Y[i, t] = Z[i, t] + 1\nZ[i, t] = X[i, t]", "notation.read_before_computed", "define it in a line above"),
        (
            "Y[i, t] += Y[i, t - 1] * X[i, t] * X[k, t]",
            "notation.read_before_computed",
            "a sum inside is `sum(..., over=k)`",
        ),
        ("t: range(2, 9)\nY[i, t] = X[i, t] if t == 2 else Y[i, t - 1]", "notation.range_not_from_zero", None),
    ],
)
def test_a_recurrence_that_cannot_be_computed_is_refused(line: str, code: str, hint: str | None) -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", f"X: float32[6, 10]\n{line}")
    assert code == caught.value.code and (hint or "") in (caught.value.hint or "") and caught.value.span is not None


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_special_values_are_those_of_numpy(name: str) -> None:
    rows = np.array(
        [
            [1, np.nan, 5, np.nan],
            [np.nan] * 4,
            [np.inf, -np.inf, np.inf, -np.inf],
            [-np.inf] * 4,
            [np.inf] * 4,
            [2, 2, 1, 1],
            [0.0, -0.0, 0.0, -0.0],
        ],
        "float32",
    )
    op = operator("f", f"X: float32[7, 4]\nY[i] = {name}(X[i, j], over=j)")
    np.testing.assert_array_equal(op(rows), getattr(rows, name)(1))
    small = operator("f", f"X: int8[3, 2]\nY[i] = {name}(X[i, j], over=j)")
    least = np.array([[-128, -128], [127, 127], [-128, 127]], "int8")
    np.testing.assert_array_equal(small(least), getattr(least, name)(1))


@pytest.mark.parametrize("text", ["", "sch.parallel(sch.get_loops('Y_argmax')[0])", "s[Y].parallel(s[Y].axis[0])"])
def test_argmax_rejects_symbolic_axes_without_elements(text: str) -> None:
    op = operator("f", "X: float32[m, n]\nY[i] = argmax(X[i, j + 1], over=j)")
    if text:
        schedule(op, f"{text}\n")
    assert op(np.ones((3, 2), "float32")).tolist() == [0, 0, 0]
    for call in (op, op.reference):
        with refuses("call.assertion_failed", "te.empty_reduction"):
            call(np.ones((3, 1), "float32"))
    assert op(np.ones((0, 2), "float32")).shape == (0,)


def test_what_is_inside_is_computed_once() -> None:
    op = operator(
        "f", "X: float32[6, 10]\nW: float32[10, 4]\nY[i, j] = softmax(sum(X[i, k] * W[k, j], over=k), over=j)"
    )
    assert op.to_prim_func().script().count("W[v_k, v_j]") == 2  # in its block's reads, and in the product
    w = RNG.normal(size=(10, 4)).astype("float32")
    np.testing.assert_allclose(op(X, w), softmax(X @ w, 1), rtol=2e-5, atol=1e-6)
    deep = "X[i, j]"
    for _ in range(8):
        deep = f"softmax({deep}, over=j)"
    assert operator("f", f"X: float32[6, 10]\nY[i, j] = {deep}").to_prim_func().script().count("T.block(") == 26


def test_a_recurrence_may_be_read_at_places_that_it_computed() -> None:
    op = operator("f", "T: int32[5]\nS: uint8[7]\nQ[i] = T[S[i]] if i < 1 else T[(Q[i - 1] + int32(S[i])) % 5]")
    table, steps = np.array([3, 0, 4, 1, 2], "int32"), np.array([2, 0, 1, 4, 3, 3, 0], "uint8")
    expected = [table[steps[0]]]
    for step in steps[1:]:
        expected.append(table[(expected[-1] + step) % 5])
    np.testing.assert_array_equal(op(table, steps), expected)
    np.testing.assert_array_equal(op.reference(table, steps), expected)


def test_softmax_does_not_overflow() -> None:
    op = operator("f", "X: float32[2, 3]\nY[i, j] = softmax(X[i, j], over=j)")
    np.testing.assert_allclose(
        op(np.array([[1e4, 0, 0], [-1e4, -1e4, -1e4]], "float32")), [[1, 0, 0], [1 / 3] * 3], atol=1e-6
    )


def test_sizes_may_be_symbolic() -> None:
    for line, numpy in (
        ("Y[i] = mean(X[i, j], over=j)", lambda x: x.mean(1)),
        ("Y[i, j] = softmax(X[i, j], over=j)", lambda x: softmax(x, 1)),
        ("Y[i] = argmax(X[i, j], over=j)", lambda x: x.argmax(1)),
        ("Y[i, j] = cumsum(X[i, j], over=j)", lambda x: x.cumsum(1)),
    ):
        op = operator("f", f"X: float32[n, m]\n{line}")
        for shape in ((6, 10), (1, 3), (4, 1)):
            x = RNG.normal(size=shape).astype("float32")
            np.testing.assert_allclose(op(x), numpy(x), rtol=2e-5, atol=1e-6)


def test_the_stages_can_be_scheduled_by_name() -> None:
    op = operator("f", "X: float32[64, 48]\nY[i, j] = softmax(X[i, j], over=j)")
    assert [n for n in op.tensors if n.startswith("Y")] == ["Y", "Y_max", "Y_exp", "Y_sum"]
    lines = [
        "i, j = s[Y].op.axis",
        "for t in (Y_sum, Y_exp, Y_max):",
        "    s[t].compute_at(s[Y], i)",
        "s[Y].parallel(i)",
    ]
    schedule(op, "\n".join(lines))
    x = RNG.normal(size=(64, 48)).astype("float32")
    np.testing.assert_allclose(op(x), softmax(x, 1), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    "line, words",
    [
        ("Y[i] = mean(N[i, j], over=j)", "notation.not_a_float"),
        ("Y[i] = mean(X[i, j])", "notation.index_only_on_right"),
        ("Y[i, j] = softmax(X[i, j], over=k)", "notation.unused_index"),
        ("Y[()] = argmax(X[i, j], over=(i, j))", "notation.several_indices"),
        ("Y[i] = argmax(X[i, j], X[i, j], over=j)", "notation.wrong_argument_count"),
        ("Y[i, j] = cumsum(X[i, j], axis=j)", "notation.unknown_argument"),
        ("Y[i, j] = cumsum(X[i, j] > 0.0, over=j)", "notation.sum_of_bools"),
        ("Y[i] += X[i, j] > 0.0", "notation.sum_of_bools"),
        ("Y[()] = sum(X[i, j] > 0.0, over=(i, j))", "notation.sum_of_bools"),
        ("Y[i] = softmax(X[i, j], over=j)", "notation.index_kept"),
    ],
)
def test_wrong_calls_are_told(line: str, words: str) -> None:
    with refuses(words):
        operator("f", f"X: float32[6, 10]\nN: int32[6, 10]\n{line}")


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_a_running_value_over_an_axis_that_may_be_empty(name: str, count: int) -> None:
    rows = operator("f", f"X: float32[3, n]\nY[i, k] = {name}(X[i, k], over=k)")
    x = np.random.default_rng(0).random((3, count)).astype("float32")
    function = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[name]
    np.testing.assert_allclose(rows(x), function.accumulate(x, axis=1), rtol=1e-5)
    assert rows(x).shape == x.shape
