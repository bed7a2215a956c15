"""Storage rewriting preserves results."""

from __future__ import annotations

import pytest
from pass_checks import module, script

from tvmagic.tir import transform

TWO = "A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'), n: T.int32"


@pytest.mark.parametrize(
    ("use", "shared"),
    [
        ("", True),
        ("T.evaluate(T.call_extern('int32', 'f', S))", False),
        ("T.evaluate(T.call_extern('int32', 'f', R))", False),
        ("T.evaluate(n)", True),
    ],
)
def test_in_place_reuse_requires_private_pointer(use: str, shared: bool) -> None:
    text = f"""def main({TWO}):
    S = T.allocate([16], "int32", "global")
    S_1 = T.Buffer((16,), "int32", data=S)
    R = T.allocate([16], "int32", "global")
    R_1 = T.Buffer((16,), "int32", data=R)
    for i in range(16):
        S_1[i] = A[i]
    for i in range(16):
        R_1[i] = S_1[i] + 1
        {use or "T.evaluate(0)"}
    for i in range(16):
        B[i] = R_1[i]"""
    assert script(transform.StorageRewrite()(module(text))).count("T.allocate(") == (1 if shared else 2)
