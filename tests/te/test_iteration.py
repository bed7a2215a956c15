"""A tensor, a slice and a buffer have indices, and are not gone through: Python would do so without end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tvmagic import te, tir

A = te.placeholder((4, 4), name="A")


@pytest.mark.parametrize("value", [A, A[0], tir.decl_buffer((4,), name="B")], ids=["tensor", "slice", "buffer"])
@pytest.mark.parametrize("use", [list, sum, lambda x: object() in x], ids=["list", "sum", "in"])
def test_nothing_without_values_is_iterated(value: Any, use: Callable[[Any], Any]) -> None:
    assert not isinstance(value, Iterable)
    with pytest.raises(TypeError, match="not iterable"):
        use(value)
