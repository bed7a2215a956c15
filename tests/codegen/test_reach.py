"""Sizes that only a call knows: a loop with more iterations than int64 holds stops the call before it writes."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_product_of_three_sizes_that_64_bits_do_not_hold_stops_the_call(dtype: str, fused: bool) -> None:
    sizes = [te.var(name, dtype) for name in "nmk"]
    X, Y, Z = (te.placeholder((size,), "int32", name=name) for size, name in zip(sizes, "XYZ"))
    P = te.compute(sizes, lambda i, j, l: X[i] + Y[j] + Z[l], name="P")
    axes = [te.reduce_axis((0, size), name) for size, name in zip(sizes, "ijl")]
    S = te.compute((1,), lambda q: te.max(P[tuple(axes)], axis=axes), name="S")
    s = te.create_schedule(S.op)
    if fused:
        s[P].compute_inline()
        s[S].fuse(*s[S].op.reduce_axis)
    f, out = tvmagic.build(s, [X, Y, Z, S]), np.zeros(1, "int32")
    f(*[np.arange(count, dtype="int32") for count in (5, 6, 7)], out)
    assert out[0] == 4 + 5 + 6
    large = np.zeros(1 << 22, "int32")  # 2**66 of them together: 4 in 64 bits
    with refuses("call.out_of_memory", "call.too_many_iterations"):
        f(large, large, large, out)
