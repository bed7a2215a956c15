"""LowerAutoCopy: copies between memories of a GPU, as loops over threads and vectors; results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import module, script
from refusals import refuses

import tvmagic as tvm
from tvmagic.ir import structural_equal
from tvmagic.tir.analysis import verify_well_formed
from tvmagic.tir.transform import LowerAutoCopy

SHARED = """
def main(A: T.Buffer(({n}, {n}), "{dtype}"), B: T.Buffer(({n}, {n}), "{dtype}")):
    with T.block("root"):
        T.block_attr({{"warp_execution": 1}})
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                with T.block():
                    S = T.alloc_buffer(({rows}, {n}), "{dtype}", scope="shared.dyn")
                    with T.block("S"):
                        T.block_attr({load})
                        for i, j in T.grid({rows}, {n}):
                            S[i, j] = A[bx * {rows} + i, j]
                    with T.block("B"):
                        T.block_attr({store})
                        for i, j in T.grid({rows}, {n}):
                            {copy}
"""
ROWS = "B[bx * {rows} + i, j] = S[i, j]"
COLUMNS = "B[j, bx * {rows} + i] = S[i, j]"


def shared(n: int = 64, copy: str = ROWS, dtype: str = "float32", load: str = "", store: str = "") -> Any:
    names = {"n": n, "rows": n // 2, "dtype": dtype}
    attributes = {"load": f'{{"auto_copy": 1{load}}}', "store": f'{{"auto_copy": 1{store}}}'}
    return module(SHARED.format(copy=copy.format(**names), **names, **attributes))


def lowered(mod: Any) -> str:
    after = LowerAutoCopy()(mod)
    assert verify_well_formed(after["main"])
    return script(after)


@pytest.mark.parametrize(
    ("dtype", "vector", "lanes"),
    [("float16", 16, 8), ("float16", 8, 4), ("float16", 2, 1), ("int8", 16, 16), ("int8", 4, 4), ("float32", 16, 4), ("float64", 16, 2), ("float64", 4, 1)],
)  # fmt: skip
def test_lanes_of_as_many_bytes_as_asked_for(dtype: str, vector: int, lanes: int) -> None:
    text = lowered(shared(dtype=dtype, load=f', "vector_bytes": {vector}'))
    rounds = 32 * 64 // (4 * 32 * lanes)
    assert f"for i_j_fused_3 in T.vectorized({lanes}):" in text and f"for i_j_fused_0 in range({rounds}):" in text


def test_what_is_written_decides_on_the_order() -> None:
    text = lowered(shared(copy=COLUMNS))
    element = "(i_inverse_j_inverse_fused_0 * 4 + i_inverse_j_inverse_fused_1) * 32 + i_inverse_j_inverse_fused_2"
    assert f"B[({element} + i_inverse_j_inverse_fused_3) // 32 % 64, bx * 32 +" in text
    assert "strides=(65, 1)" in text  # a warp reads a column: neighbours are in different banks with 65 columns
    assert "strides=(64, 1)" in lowered(shared())


@pytest.mark.parametrize("copy", [ROWS, COLUMNS])
@pytest.mark.parametrize("n", [64, 62])
@pytest.mark.parametrize("options", ["", ', "vector_bytes": 16', ', "vector_bytes": 8, "local_stage": 1'])
def test_results_stay(copy: str, n: int, options: str) -> None:
    mod = shared(n, copy, "float16", options, options)
    a = np.random.default_rng(1).random((n, n)).astype("float16")
    b = np.zeros_like(a)
    tvm.build(LowerAutoCopy()(mod))(a, b)
    np.testing.assert_array_equal(b, a.T if copy is COLUMNS else a)


def test_what_is_no_copy_between_such_memories_stays() -> None:
    plain = module(
        SHARED.format(copy="B[bx * 32 + i, j] = S[i, j]", n=64, rows=32, dtype="float32", load="{}", store="{}")
    )
    assert structural_equal(LowerAutoCopy()(plain), plain)


FORMS = """
def main(C: T.Buffer((128, 64), "float32")):
    with T.block("root"):
        for ty in T.thread_binding(2, thread="threadIdx.y"):
            with T.block():
                R = T.alloc_buffer((64, 64), "float32", scope="{scope}")
                Q = T.alloc_buffer((64, 64), "float32", scope="shared")
                with T.block("C"):
                    T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
                    for i, j in T.grid(64, 32):
                        {copy}
"""


def test_copies_out_of_fragments_are_plain_copies() -> None:
    """Of several regions that are read, the accumulator is the one that is copied."""
    for copy in ("C[ty * 64 + i, j] = R[i, j]", "C[ty * 64 + i, j] = R[i, j] + Q[i, j]"):
        lowered = LowerAutoCopy()(module(FORMS.format(copy=copy, scope="wmma.accumulator")))
        assert "for i, j in T.grid(64, 32):" in script(lowered)


def test_a_copy_without_loops_is_refused() -> None:
    body = SHARED.replace(
        "for i, j in T.grid({rows}, {n}):\n                            S[i, j] = A[bx * {rows} + i, j]",
        "S[0, 0] = A[0, 0]",
    )
    text = body.format(copy="B[i, j] = S[i, j]", n=8, rows=4, dtype="float32", load='{"auto_copy": 1}', store="{}")
    with refuses("auto_copy.no_loops"):
        LowerAutoCopy()(module(text))
