"""Loops whose indices wrap around: LLVM must not vectorize them as if they went on by ones."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sampling import every

import tvmagic
from tvmagic import te, tir
from tvmagic.codegen import llvm_ir
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

INDICES: dict[str, tuple[int, Callable[[Any, int], Any], Callable[[Any, int], Any]]] = {
    "floormod of 4": (4, lambda i, first: (i + first) % 4, lambda i, first: (i + first) % 4),
    "floormod of 8": (8, lambda i, first: (i + first) % 8, lambda i, first: (i + first) % 8),
    "backwards": (8, lambda i, first: (700 - i) % 8, lambda i, first: (700 - i) % 8),
    "shifted out": (
        4,
        lambda i, first: tir.shift_right(tir.shift_left((i + first).astype("uint32"), 30), 30),
        lambda i, first: (i + first) % 4,
    ),
    "multiplied out": (
        4,
        lambda i, first: tir.shift_right((i + first).astype("uint32") * tir.const(1 << 30, "uint32"), 30),
        lambda i, first: (i + first) % 4,
    ),
    "low bits": (8, lambda i, first: tir.bitwise_and(i + first, 7), lambda i, first: (i + first) & 7),
    "truncmod": (8, lambda i, first: tir.truncmod(i + first, 8), lambda i, first: (i + first) % 8),
    "bytes": (256, lambda i, first: (i + first).astype("uint8"), lambda i, first: (i + first) % 256),
}


@pytest.mark.parametrize(("name", "length"), every(3, itertools.product(INDICES, [12, 31, 64, 300])))
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


# values that are computed from indices alone and leave their type: hashes, and comparisons of what wraps around
HASHES = {
    "(i * 1664525 + 1013904223) // 65536 % 32768": lambda i: (i * 1664525 + 1013904223) // 65536 % 32768,
    "(int32(i) * 1103515245 + 12345) % 97": lambda i: (i * 1103515245 + 12345) % 97,
    "max(i + 2147483647, 1)": lambda i: np.maximum(i + np.int32(2147483647), 1),
    "min(i - 2147483647 - 2, 5)": lambda i: np.minimum(i - np.int32(2147483647) - 2, 5),
    "int32(i + 2147483647 > i)": lambda i: (i + np.int32(2147483647) > i).astype("int32"),
    "i * 1073741824 // 4": lambda i: i * np.int32(1073741824) // 4,
    "2147483647 - (0 - i * 1073741824) // 3": lambda i: np.int32(2147483647) - (0 - i * np.int32(1073741824)) // 3,
    "int32((int64(i) * 6364136223846793005 + 1442695040888963407) >> 33)": lambda i: (
        (i.astype("int64") * 6364136223846793005 + 1442695040888963407) >> 33
    ).astype("int32"),
}
SCHEDULES = (
    "",
    "o, v = s[Y].split(s[Y].op.axis[0], factor=8)\ns[Y].vectorize(v)\ns[Y].parallel(o)",
    "o, v = s[Y].split(s[Y].op.axis[0], nparts=7)\ns[Y].unroll(o)",
    "o, v = s[Y].split(s[Y].op.axis[0], factor=24)\ns[Y].reorder(v, o)",
)


@pytest.mark.parametrize("text", HASHES)
def test_values_of_indices_wrap_around_as_in_numpy(text: str) -> None:
    op = operator("f", f"i: range(3000)\nY[i] = {text}")
    with np.errstate(over="ignore"):
        wanted = HASHES[text](np.arange(3000, dtype="int32"))
    assert wanted.dtype == np.int32
    for number, calls in enumerate(SCHEDULES):
        version = schedule(op, calls, f"v{number}") if calls else op.version("plain")
        np.testing.assert_array_equal(version(), wanted, err_msg=calls)
    assert op.check().ok


@pytest.mark.parametrize(("distance", "hidden"), [(2, False), (26, False), (27, True), (31, True)])
def test_only_shifts_that_lose_bits_are_hidden_from_llvm(distance: int, hidden: bool) -> None:
    Y = te.compute((32,), lambda i: tir.shift_left(i, distance), name="Y")
    mod = tvmagic.lower(te.create_schedule(Y.op), [Y])
    assert ("llvm.is.constant" in llvm_ir(mod, optimize=False)) == hidden
