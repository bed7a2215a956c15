"""LowerBoolMax: max reductions of bools in any order become `or` of bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from late_passes import assert_same_values, late, parsed

from tvmagic.codegen.late.lower_bool_max import lower_bool_max
from tvmagic.ir import PrimFunc


def reduction(value: str, any_order: bool = True, store: str = "F[i]") -> PrimFunc:
    attr = "with T.attr(0, 'pragma_any_order', 1):" if any_order else "if 0 < n:"
    return parsed(f"""
@T.prim_func
def main(F: T.Buffer((8,), "bool"), X: T.Buffer((8, 6), "bool"), n: T.int32):
    Y = T.Buffer((8,), "int8", data=F.data)
    Z = T.Buffer((8, 6), "int8", data=X.data)
    {attr}
        for i, k in T.grid(8, 6):
            {store} = {value}
""")


MINE, OTHER = 'T.Cast("bool", Y[i])', 'T.Cast("bool", Z[i, k])'


@pytest.mark.parametrize(
    ("value", "lowered"),
    [
        (f'T.Cast("int8", T.max({MINE}, {OTHER}))', True),
        (f'T.Cast("int8", T.max({OTHER}, {MINE}))', True),
        (f'T.Cast("int8", T.min({MINE}, {OTHER}))', False),
        (f'T.Cast("int8", T.max({OTHER}, {OTHER}))', False),
        (f'T.Cast("int8", T.max(T.Cast("bool", Y[7 - i]), {OTHER}))', False),
        (f'T.Cast("int8", T.max({MINE}, k < 3))', False),
    ],
)
def test_values(value: str, lowered: bool) -> None:
    func = reduction(value, store="Y[i]")
    made = late(lower_bool_max, func)
    assert (made is not None) is lowered and late(lower_bool_max, reduction(value, False, "Y[i]")) is None
    if made is not None:
        assert "bitwise_or" in str(made) and "T.max" not in str(made)
        x = np.array([*itertools.product([False, True], repeat=3), *[(False,) * 3] * 8])[:16].reshape(8, 6)
        assert_same_values(func, made, [np.arange(8) == 5, x, np.array(1, "int32")])
