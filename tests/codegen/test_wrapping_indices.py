"""Loops whose indices wrap around: LLVM must not vectorize them as if they went on by ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te, tir

INDICES: dict[str, tuple[int, Callable[[Any, int], Any], Callable[[Any, int], Any]]] = {
    "floormod of 4": (4, lambda i, first: (i + first) % 4, lambda i, first: (i + first) % 4),
    "floormod of 8": (8, lambda i, first: (i + first) % 8, lambda i, first: (i + first) % 8),
    "backwards": (8, lambda i, first: (700 - i) % 8, lambda i, first: (700 - i) % 8),
    "low bits": (8, lambda i, first: tir.bitwise_and(i + first, 7), lambda i, first: (i + first) & 7),
    "truncmod": (8, lambda i, first: tir.truncmod(i + first, 8), lambda i, first: (i + first) % 8),
    "bytes": (256, lambda i, first: (i + first).astype("uint8"), lambda i, first: (i + first) % 256),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("length", [12, 31, 64, 300])
def test_a_loop_over_an_index_that_wraps_around(name: str, length: int) -> None:
    """The largest exponential of some rows: several loads, a store and vector arithmetic in one loop."""
    columns, index, wanted = INDICES[name]
    x = np.random.default_rng(length).uniform(-1, 1, (10, columns)).astype("float32")
    for first in (0, 2, 3, 253):
        X, k = te.placeholder((10, columns), name="X"), te.reduce_axis((0, 7), "k")
        Y = te.compute((length,), lambda i: te.max(te.exp(X[k + 1, index(i, first).astype("int32")]), axis=k), name="Y")
        s = te.create_schedule(Y.op)
        s[Y].reorder(k, Y.op.axis[0])
        y = np.zeros(length, "float32")
        tvmagic.build(s, [X, Y])(x, y)
        np.testing.assert_allclose(y, np.exp(x[1:8]).max(0)[wanted(np.arange(length), first)], rtol=1e-6)
