"""Programs with many dimensions or many terms: they build in time that grows with their size, not faster."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import te


@pytest.mark.parametrize("rank", [8, 12, 16])
def test_many_small_dimensions(rank: int) -> None:
    shape = (2,) * rank
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1.0, name="B")
    begin = time.process_time()
    function = tvmagic.build(te.create_schedule(b.op), [a, b])
    assert time.process_time() - begin < 10  # 0.2 s; it doubled with each dimension, to a minute for 16
    x = np.arange(2**rank, dtype="float32").reshape(shape)
    found = np.zeros(shape, "float32")
    function(x, found)
    np.testing.assert_array_equal(found, x + 1)


def test_a_sum_of_five_thousand_terms() -> None:
    a = te.placeholder((4,), name="A")

    def total(i: Any) -> Any:
        value = a[i]
        for n in range(5000):
            value = value + a[i] * float(n % 7)
        return value

    b = te.compute((4,), total, name="B")
    text = str(tvmagic.lower(te.create_schedule(b.op), [a, b], simple_mode=True)["main"].body)
    assert text.count("A[") > 4000
