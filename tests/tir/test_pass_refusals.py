"""Programs that passes refuse."""

from __future__ import annotations

import pytest
from pass_checks import module, script

from tvmagic.errors import BuildError, TVMagicError
from tvmagic.tir import transform


@pytest.mark.parametrize("scope", ["global", "shared", "local", "warp"])
@pytest.mark.parametrize(
    "tags", [("blockIdx.x", "blockIdx.x"), ("blockIdx.x", "blockIdx.y"), ("threadIdx.x", "threadIdx.x")]
)
def test_block_memory_of_two_launches_is_refused(scope: str, tags: tuple[str, str]) -> None:
    text = (
        "def main(A: T.Buffer((4,), 'int32')):\n    with T.launch_thread('threadIdx.y', 2):\n"
        f"        M = T.allocate([4], 'int32', '{scope}')\n"
        f"        B = T.Buffer((4,), 'int32', data=M, scope='{scope}')\n"
    )
    for tag, stores in zip(tags, ("B[b] = b", "A[b] = B[b]")):
        text += f"        with T.launch_thread('{tag}', 4) as b:\n            {stores}\n"
    if scope in ("shared", "local") and tags == ("blockIdx.x", "blockIdx.x"):
        with pytest.raises(BuildError):
            transform.ThreadsAsLoops()(module(text))
    else:
        assert "A[b] = " in script(transform.ThreadsAsLoops()(module(text)))


def test_unrolling_refuses_large_loop() -> None:
    for extent in ("n", str(1 << 31), "n * 0 + 20000"):
        kind = "T.int64" if extent.isdigit() else ""
        count = f"{kind}({extent})" if kind else extent
        text = f"def main(A: T.Buffer((16,), 'int32'), n: T.int32):\n    for i in T.unroll({count}):\n        A[i % 16] = A[0] * A[1] * A[2] + n"
        with pytest.raises(TVMagicError):
            transform.UnrollLoop()(module(text))
