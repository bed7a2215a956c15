"""Programs on which LLVM itself goes wrong, and what is built of them all the same."""

from __future__ import annotations

import re

import numpy as np

import tvmagic
from tvmagic.codegen.emit.module import emit_module
from tvmagic.codegen.llvm.optimize import object_of, optimized
from tvmagic.operators import operator
from tvmagic.script import from_source
from tvmagic.target import resolved

# Tiles of tensors that are stored in one order and loaded in another: the vectorizer of straight code in LLVM 22.1 joins
# pairs of what the second nest computes before it computes them, and its code generator then ends the process.
TILES = """
@T.prim_func
def main(A: T.Buffer((120,), "float32"), D: T.Buffer((120,), "float32")):
    X = T.allocate([120], "float32", "local")
    B = T.allocate([120], "float32", "global")
    C = T.allocate([120], "float32", "global")
    X_1 = T.Buffer((120,), data=X, scope="local")
    B_1 = T.Buffer((120,), data=B)
    C_1 = T.Buffer((120,), data=C)
    for j, i in T.grid(10, 12):
        X_1[i * 10 + j] = A[i * 10 + j] * T.float32(2.0)
    for j, j_0, i in T.grid(5, 2, 12):
        B_1[i * 10 + j * 2 + j_0] = X_1[i * 10 + j * 2 + j_0]
    for j, i_0, i, j_0 in T.grid(5, 6, 2, 2):
        C_1[i * 60 + i_0 * 10 + j * 2 + j_0] = B_1[i * 60 + i_0 * 10 + j * 2 + j_0] + T.float32(1.0)
    for i, i_0, j in T.grid(2, 6, 10):
        D[i * 60 + i_0 * 10 + j] = C_1[i * 60 + i_0 * 10 + j] * B_1[i * 60 + i_0 * 10 + j]
"""


def test_values_that_are_used_before_they_are_computed() -> None:
    func = from_source(TILES).with_attr({"tir.noalias": True})
    module = tvmagic.build(func)
    a, d = np.arange(120, dtype="float32"), np.zeros(120, "float32")
    module(a, d)
    np.testing.assert_array_equal(d, (2 * a + 1) * 2 * a)


def test_the_same_for_another_processor() -> None:
    target = resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    lowered = tvmagic.lower(from_source(TILES).with_attr({"tir.noalias": True}))
    made = optimized(emit_module(lowered, target).text.text(), target)
    made.verify()  # raises where a value is used before it is computed
    assert re.match(rb"\x7fELF", object_of(made, target))


# LLVM 22's code generator takes the signs of a vector of remainders from the vector, and drops the mask that holds them
# although a shift in place reads it.
REMAINDER = (
    "X: int8[7, 4, 6]\nN: int32[4, 5]\ni: range(6)\nj: range(3)\n"
    "Y[i, j] = N[j + 1, i // 2] != int32(X[N[j, i // 2] % 7, j + 1, 5 - j]) and int8(0) >= X[i, 0, j + 3]"
)


def read_before_written(text: str) -> set[str]:
    """The mask registers that a function without branches reads and has not written before."""
    found, written = set(), set()
    for line in text.splitlines():
        if "retq" in line:
            break
        *sources, result = re.findall(r"%k[0-7]|%[a-z]+\d*", line.split("#")[0]) or [""]
        masks = re.findall(r"\{(%k[0-7])\}", line)
        result = "" if result in masks else result
        found |= {r for r in (*sources, *masks) if r.startswith("%k") and r not in written}
        written |= {result} & {f"%k{n}" for n in range(8)}
    return found


def test_the_mask_of_signs_is_there_for_all_who_use_it() -> None:
    target = resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5")
    text = operator("f", REMAINDER).plain.build(target).get_source("asm").split("\nf:\n")[1]
    assert not read_before_written(text)


def test_a_remainder_by_which_an_array_is_indexed_under_a_condition() -> None:
    op = operator("f", REMAINDER)
    rng = np.random.default_rng(1)
    for _ in range(8):
        x, n = rng.integers(-128, 128, (7, 4, 6)).astype("int8"), rng.integers(-3, 4, (4, 5)).astype("int32")
        i, j = np.mgrid[:6, :3]
        wanted = (n[j + 1, i // 2] != x[n[j, i // 2] % 7, j + 1, 5 - j]) & (x[i, 0, j + 3] <= 0)
        np.testing.assert_array_equal(op(x, n), wanted)


def test_a_long_text_is_optimized_less() -> None:
    """At the highest level LLVM takes longer for each line the longer the function is."""
    target = resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    text = emit_module(tvmagic.lower(from_source(TILES)), target).text.text()
    long = text + "; a line\n" * 40_001
    assert "<8 x float>" in str(optimized(text, target))
    assert "<8 x float>" not in str(optimized(long, target))
    assert "<8 x float>" in str(optimized(long, resolved("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -opt-level=3")))
