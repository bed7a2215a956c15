"""What parts of passes decide on small values, each as a table."""

from __future__ import annotations

import pytest
from pass_checks import module, script

from tvmagic import ir
from tvmagic.ir.query import nodes_of
from tvmagic.passes import PassContext
from tvmagic.tir import transform


def test_what_is_written_beside_half_of_a_double_buffer_is_read_behind_a_barrier() -> None:
    text = """
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    S = T.allocate([32], "float32", "shared")
    U = T.allocate([16], "float32", "shared")
    tx = T.launch_thread("threadIdx.x", 16)
    s = T.Buffer((32,), data=S, scope="shared")
    u = T.Buffer((16,), data=U, scope="shared")
    with T.attr(S, "double_buffer_write", 1):
        s[tx] = A[tx]
        {beside}
    B[tx] = s[tx + 16] + u[15 - tx]
"""
    for beside, barriers in (("u[tx] = A[tx]", 1), ("s[tx + 16] = A[tx]", 0)):
        after = transform.ThreadSync("shared")(module(text.format(beside=beside)))
        assert script(after).count("tvm_storage_sync") == barriers, beside


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 27, 28, 29, 31, 32])
@pytest.mark.parametrize("operator", ["<", ">="])
def test_threads_inside_a_loop_have_all_their_values_where_it_is_parted(operator: str, limit: int) -> None:
    """The longest part is that in which all threads, or none, are where the condition holds."""
    text = f"""
def main(A: T.Buffer((64,), "int32")):
    for i in range(8):
        tx = T.launch_thread("threadIdx.x", 4)
        if T.likely(i * 4 + tx {operator} {limit}):
            A[i * 4 + tx] = 1
"""
    with PassContext(config={"tir.LoopPartition": {"partition_const_loop": True}}):
        after = transform.LoopPartition()(module(text))["main"]
    verdicts = [{i * 4 + tx < limit for tx in range(4)} for i in range(8)]
    longest = max(verdicts.count({True}), verdicts.count({False}))
    assert max([int(loop.extent) for loop in nodes_of(after.body, ir.For)]) == longest
