"""The interpreter on other values than plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic.eval.algebra import Plain, Unsupported
from tvmagic.eval.machine import run_function
from tvmagic.script import from_source

NESTED = """@T.prim_func
def clip(x: T.Buffer((16,), "int32"), y: T.Buffer((16,), "int32")):
    t = T.alloc_buffer((16,), "int32", scope="local")
    for i in range(16):
        y[i] = i
        t[i] = x[i]
        if x[i] < 8:
            y[i] = y[i] + 100
            if x[i] < 4:
                y[i] = y[i] * 2
                t[i] = 7
            else:
                for k in range(3):
                    y[i] = y[i] - x[i]
        else:
            y[i] = y[i] + t[i]
        y[i] = y[i] + T.Select(x[i] < 4 or y[i] < 5, t[i], 1)"""
GUARDED = """@T.prim_func
def guarded(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int32")):
    for i in range(8):
        y[i] = T.if_then_else(x[i] < 1, x[i + 1], 0)"""


class Open(Plain):
    """Plain values, of which no condition is decided: all branches run."""

    def branches(self, taken: Any) -> tuple[Any, Any, bool]:
        both = np.ones(np.shape(taken), bool)
        return both, both, True


@pytest.mark.parametrize("serial", (False, True))
def test_branches_on_undecided_conditions_merge_to_the_same_memory(serial: bool) -> None:
    text = NESTED.replace("range(16):\n        y[i] = i", "T.serial(16):\n        y[i] = i")
    if serial:  # each iteration reads what the one before stored
        text = text.replace("y[i] = i\n", "y[i] = y[T.max(i - 1, 0)]\n")
    func = from_source(text)
    x = np.random.default_rng(3).integers(0, 12, 16).astype("int32")
    wanted, found = np.zeros(16, "int32"), np.zeros(16, "int32")
    run_function(func, [x, wanted])  # type: ignore[arg-type]
    run_function(func, [x, found], algebra=Open())  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, wanted)


def test_access_behind_an_undecided_condition_is_no_error_of_the_program() -> None:
    with pytest.raises(Unsupported) as caught:
        run_function(from_source(GUARDED), [np.ones(8, "int32"), np.zeros(8, "int32")], algebra=Open())  # type: ignore[arg-type]
    assert caught.value.code == "interpreter.guarded_by_data"
