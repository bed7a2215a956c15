"""Double buffers preserve results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pass_checks import module, script

from tvmagic.eval.machine import run_function
from tvmagic.passes import recording
from tvmagic.tir import transform

FILLED = """def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(16):
        x: T.int32 = A[i] % 4
        B = T.allocate([4], "int32", "global")
        b = T.Buffer((4,), "int32", data=B)
        with T.attr(B, "double_buffer_scope", 1):
            for j in range(4):
                b[j] = A[i * 4 + j]
        for j in range(4):
            C[i * 4 + j] = b[j] + 1"""


FILL = '        with T.attr(B, "double_buffer_scope", 1):\n            for j in range(4):\n                b[j] = A[i * 4 + j]\n'


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("", "", ""),
        ("i in range(16)", "i in range(n)", ""),
        ("i in range(16)", "i in T.unroll(16)", ""),
        ("b[j] + 1", "b[j] + x", ""),
        ("i in range(16)", "i in range(1, 16)", "loop `i` does not begin at 0"),
        ("i in range(16)", "i in range(n, 16)", "loop `i` does not begin at 0"),
        ("i in range(16)", "i in T.parallel(16)", "the iterations of `i` do not run one after the other"),
        ("T.allocate([4]", "T.allocate([x + 4]", "its size differs from iteration to iteration"),
        ("T.allocate([4]", "T.allocate([i + 4]", "its size differs from iteration to iteration"),
        ("T.allocate([4]", "T.allocate([n + 4]", ""),
        ("b[j] = A[i * 4 + j]", "b[j] = A[i * 4 + j] + x", "what fills it needs what the iteration computes before"),
        ("b[j] = A[i * 4 + j]", "b[j] = C[i * 4 + j]", "what fills it depends on what the iteration stores"),
        (
            "b[j] = A[i * 4 + j]",
            "b[j] = A[i * 4 + j]\n                C[j] = 2",
            "what fills it depends on what the iteration stores",
        ),
        (
            "b[j] = A[i * 4 + j]",
            "b[j] = A[i * 4 + j]\n                A[j] = 2",
            "what fills it depends on what the iteration stores",
        ),
        ("C[i * 4 + j] = b[j] + 1", "A[i * 4 + j] = b[j] + 1", "what fills it depends on what the iteration stores"),
        (
            FILL,
            "        if n > 2:\n" + "".join("    " + line + "\n" for line in FILL.splitlines()),
            "not every iteration fills it",
        ),
        ("b[j] + 1", 'T.call_extern("int32", "f", B)', "it is used other than by loads and stores"),
    ],
)
def test_double_buffer_preserves_results(old: str, new: str, reason: str) -> None:
    """Doubled or left as they are, with a note that says why; the values are the same."""
    mod = module(FILLED.replace(old, new) if old else FILLED)
    with recording() as record:
        after = transform.InjectDoubleBuffer()(mod)
    notes = [note.text for note in record.notes("double_buffer.skipped")]
    assert notes == ([f"`b` is not doubled: {reason}"] if reason else [])
    assert ("double_buffer_write" in script(after)) is not bool(reason)
    if "call_extern" in new:
        return
    for size in (0, 1, 3, 16):
        results: list[Any] = []
        for program in (mod, after):
            arrays = [np.arange(3, 67, dtype="int32"), np.zeros(64, "int32")]
            run_function(program["main"], [*arrays, np.array(size, "int32")])
            results.append(np.concatenate(arrays))
        np.testing.assert_array_equal(*results)
