"""Operators on sparse and ragged data, permutations, matrices with a property and probabilities, with inputs for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tvmagic.operators import Operator, operator

Generator = np.random.Generator


class Case(NamedTuple):
    """A cell with assertions that random inputs satisfy, and a function that makes inputs."""

    text: str
    inputs: Callable[[Generator], Any]

    def operator(self, name: str = "f", assertions: bool = True) -> Operator:
        """The operator, with its assertions or without any."""
        lines = self.text.strip().split("\n")
        return operator(name, "\n".join(lines if assertions else [x for x in lines if not x.startswith("assert")]))


def _rows(rng: Generator, m: int = 13, p: int = 40) -> np.ndarray:
    return np.concatenate([[0], np.sort(rng.integers(0, p + 1, m - 1)), [p]]).astype("int32")


def _csr(rng: Generator) -> dict[str, np.ndarray]:
    return {"ptr": _rows(rng), "col": rng.integers(0, 11, 40, dtype="int32"), "x": rng.random(11, dtype="float32")}


def _coo(rng: Generator) -> dict[str, np.ndarray]:
    places = np.sort(rng.choice(9 * 12, 30, replace=False)).astype("int32")
    return {"row": places // 12, "col": places % 12, "x": rng.random(12, dtype="float32")}


def _ragged(rng: Generator) -> tuple[np.ndarray, ...]:
    return _rows(rng), rng.standard_normal(40, dtype="float32")


def _permutation(rng: Generator) -> dict[str, np.ndarray]:
    return {"P": rng.permutation(17).astype("int32"), "X": rng.random((17, 5), dtype="float32")}


def _positive_definite(rng: Generator) -> tuple[np.ndarray, ...]:
    a = rng.standard_normal((10, 10)).astype("float32")
    return a @ a.T + 10 * np.eye(10, dtype="float32"), *rng.random((2, 10), dtype="float32")


def _probabilities(rng: Generator) -> dict[str, np.ndarray]:
    return {"P": rng.dirichlet(np.ones(6), 8).astype("float32")}


def _edges(rng: Generator) -> dict[str, np.ndarray]:
    return {
        "src": np.sort(rng.integers(0, 9, 25)).astype("int32"),
        "dst": rng.integers(0, 9, 25, dtype="int32"),
        "X": rng.random(9, dtype="float32"),
    }


CASES = {
    "csr": Case("""
ptr: int32[m + 1]
col: int32[p]
v: float32[p]
x: float32[n]
assert ptr[0] == 0 and ptr[m] == p
assert ptr[i] <= ptr[i + 1]
assert 0 <= col[q] < n
for i in range(m): Y[i] = sum(v[q] * x[col[q]] for q in range(ptr[i], ptr[i + 1]))
""", _csr),
    "coo": Case("""
row: int32[p]
col: int32[p]
v: float32[p]
x: float32[n]
assert 0 <= row[q] < 9 and 0 <= col[q] < n
i: range(9)
Y[i] = sum(v[q] * x[col[q]] if row[q] == i else 0.0, over=q)
""", _coo),
    "ragged rows": Case("""
ptr: int32[m + 1]
X: float32[p]
assert ptr[0] == 0 and ptr[m] == p
assert ptr[i] <= ptr[i + 1]
for i in range(m): S[i] = sum(X[q] ** 2 for q in range(ptr[i], ptr[i + 1]))
""", _ragged),
    "permutation": Case("""
P: int32[n]
X: float32[n, d]
assert 0 <= P[i] < n and distinct(P[i], over=i)
Y[i, k] = X[P[i], k]
""", _permutation),
    "positive definite": Case("""
A: float32[n, n]
b: float32[n]
x: float32[n]
assert A[i, j] == A[j, i]
assert A[i, i] >= n
Y[i] = (b[i] - sum(A[i, k] * x[k] if k != i else 0.0, over=k)) / sqrt(A[i, i])
""", _positive_definite),
    "probabilities": Case("""
P: float32[m, n]
assert 0 <= P[i, k] <= 1
E[i] = -sum(P[i, k] * log(P[i, k]) if P[i, k] > 0 else 0.0, over=k)
""", _probabilities),
    "sorted edges": Case("""
src: int32[e]
dst: int32[e]
X: float32[n]
assert 0 <= src[k] < n and 0 <= dst[k] < n
assert src[k] <= src[k + 1]
i: range(n)
Y[i] = sum(X[dst[k]] if src[k] == i else 0.0, over=k)
""", _edges),
}  # fmt: skip
