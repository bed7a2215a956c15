"""Programs on which LLVM itself goes wrong, and what is built of them all the same."""

from __future__ import annotations

import re

import numpy as np

import tvmagic
from tvmagic.codegen.module import emit_module
from tvmagic.codegen.optimize import object_of, optimized
from tvmagic.codegen.target import resolved
from tvmagic.script import from_source

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
