"""Annotations of late passes that a user writes: legal ones hold, others are refused before anything runs."""

import numpy as np
import pytest

from tvmagic import codegen
from tvmagic.errors import BuildError
from tvmagic.script import from_source

FUNC = """
@T.prim_func
def f(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
    T.func_attr({{"tir.noalias": True}})
    P = T.allocate([64], "float32", "global"{stack})
    P_1 = T.Buffer((64,), data=P)
    for i in T.serial(64{loop}):
        P_1[i] = X[i] * T.float32(2.0)
    for i in range(64):
        Y[i] = P_1[i]
"""


def build(stack: str = "", loop: str = "") -> object:
    text = FUNC.replace("(n,)", "(64,)").format(stack=stack, loop=loop)
    return codegen.compile_module(from_source(text))


@pytest.mark.parametrize(
    "stack, loop",
    [
        (', annotations={"late.stack": 64}', ""),
        (', annotations={"late.stack": 100}', ', annotations={"llvm.unroll": "full"}'),
        ("", ', annotations={"llvm.unroll": 3, "llvm.interleave": 2, "late.poll": 3}'),
        ("", ', annotations={"llvm.vectorize": T.bool(False), "late.made_by": "me"}'),
    ],
)
def test_annotations_keep_results(stack: str, loop: str) -> None:
    x, y = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    build(stack, loop)(x, y)
    np.testing.assert_array_equal(y, x * 2)


@pytest.mark.parametrize(
    "stack, loop, code",
    [
        (', annotations={"late.stack": 8}', "", "codegen.stack_too_small"),
        (', annotations={"late.stack": -1}', "", "codegen.wrong_annotation"),
        (', annotations={"late.stack": "all"}', "", "codegen.wrong_annotation"),
        ("", ', annotations={"llvm.unroll": 0}', "codegen.wrong_annotation"),
        ("", ', annotations={"llvm.unroll": "often"}', "codegen.wrong_annotation"),
        ("", ', annotations={"llvm.vectorize": 7}', "codegen.wrong_annotation"),
        ("", ', annotations={"late.poll": [1, 2]}', "codegen.wrong_annotation"),
        ("", ', annotations={"llvm.interleave": T.float32(1.5)}', "codegen.wrong_annotation"),
    ],
)
def test_wrong_annotations_are_refused(stack: str, loop: str, code: str) -> None:
    with pytest.raises(BuildError) as error:
        build(stack, loop)
    assert error.value.code == code
