"""What parts of passes decide on small values, each as a table."""

from __future__ import annotations

from typing import Any

import pytest
from pass_checks import module, script

from tvmagic import ir
from tvmagic.ir import IntImm, Var, decl_buffer
from tvmagic.ir.query import nodes_of
from tvmagic.passes import PassContext
from tvmagic.tir import transform
from tvmagic.tir.transform.blocks.lower_opaque_block import allocation_shape
from tvmagic.tir.transform.memory.flat_index import FlatIndex

X, Y, N, M, P = Var("x"), Var("y"), Var("n"), Var("m"), Var("p", "int64")


@pytest.mark.parametrize(
    ("shape", "indices", "options", "flat"),
    [
        ((8, N * M), (X // (N * M), X % (N * M)), {}, ["x"]),
        ((8, N), (Y + X // N, X % N), {}, ["x + y * n"]),
        ((8, N), (X // N, (X + N) % N), {}, ["x // n * n + (x + n) % n"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"elem_offset": M}, ["x + m"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"elem_offset": IntImm("int32", 1)}, ["x + 1"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"elem_offset": IntImm("int64", 0)}, ["x"]),
        ((4, 8), (X // 4, X % 4), {"axis_separators": [1], "elem_offset": M}, ["x // 4", "x % 4"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"axis_separators": [1]}, ["x // (n * m)", "x % (n * m)"]),
        ((4, 8, N * M), (Y, X // (N * M), X % (N * M)), {"axis_separators": [1]}, ["y", "x"]),
        ((8, N * M), (X // (N * M), X % (N * M)), {"strides": [N * M, 1]}, ["x"]),
        ((8, 4), (X // 4, X % 4), {"strides": [5, 1]}, ["x // 4 * 5 + x % 4"]),
        ((64,), (X % 64,), {"elem_offset": M}, ["m + x % 64"]),
        ((64,), (X // 4 * 4 + X % 4,), {"strides": [2]}, ["x * 2"]),
        ((), (), {}, ["0"]),
    ],
)
def test_flat_indices(shape: Any, indices: Any, options: dict[str, Any], flat: list[str]) -> None:
    found = FlatIndex()(decl_buffer(shape, "float32", "A", **options), indices)
    assert [str(i) for i in found] == flat and {i.dtype for i in found} == {X.dtype}


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "allocated"),
    [
        ([4, N], [N * 2, 2], 0, ["4", "n * 2 // 2 * 2"]),
        ([4, N], [N * 2 + 1, 2], 0, ["4", "(n * 2 + 1 + 2 - 1) // 2 * 2"]),
        ([4, 6], [9, 2], 0, ["4", "10"]),
        ([4, 6], [8, 2], 0, ["4", "8"]),
        ([4, 6], [8, 1], 3, ["5", "8"]),
        ([4, 6], [], 0, ["4", "6"]),
    ],
)
def test_rows_are_allocated_as_their_strides_ask(shape: Any, strides: Any, offset: int, allocated: list[str]) -> None:
    buffer = decl_buffer(shape, "float32", "A", strides=strides or None, elem_offset=offset or None)
    assert [str(extent) for extent in allocation_shape(buffer)] == allocated


def test_the_ranges_of_threads_are_narrowed_with_their_variables() -> None:
    head = "def main(A: T.Buffer((8,), 'float32')):\n    i = T.launch_thread('threadIdx.x', T.int64(8))\n    A[i] = T.float32(0)"
    axis = transform.NarrowDataType(32)(module(head))["main"].body.node
    assert {str(e.dtype) for e in (axis.var, axis.dom.min, axis.dom.extent)} == {"int32"}


@pytest.mark.parametrize(("extent", "narrow"), [(1 << 30, True), ((1 << 30) + 1, False), (1 << 29, True)])
@pytest.mark.parametrize("loop", ["for i in range({}):", "with T.launch_thread('threadIdx.x', {}) as i:"])
def test_indices_are_narrowed_if_the_last_one_fits(loop: str, extent: int, narrow: bool) -> None:
    text = f"def main(A: T.Buffer((T.int64({1 << 32}),), 'int8')):\n    {loop.format(f'T.int64({extent})')}\n        A[i * T.int64(2)] = T.int8(0)"
    new = script(transform.NarrowDataType(32)(module(text)))
    assert ("A[i * 2]" in new) is narrow and ("A[i * T.int64(2)]" in new) is not narrow


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


def test_blocks_whose_values_alone_are_narrowed() -> None:
    text = """
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, {value})
            T.where({where})
            A[v] = T.float32(0)
"""
    narrowed = transform.NarrowDataType(32)
    same = module(text.format(value="i", where="i < 7"))
    assert narrowed(same) is same
    for value, where in (("T.Cast('int32', T.Cast('int64', i))", "i < 7"), ("i", "T.Cast('int64', i) < T.int64(7)")):
        assert script(narrowed(module(text.format(value=value, where=where)))) == script(same), (value, where)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A[v]", "A[v]"), ("A[T.int64(0):T.int64(4)]", "A[0:4]"), ("A[v * T.int64(2):v * T.int64(2) + T.int64(3)]", "A[v * 2:v * 2 + 3]"),
        ("A[0:v + T.int64(1)]", "A[0:v + 1]"), ("A[v:v + 3]", "A[v:v + 3]"), ("A[n:n + T.int64(8)]", "A[n:n + T.int64(8)]"),
        ("B[w:w + 3]", None), ("B[0:w]", None), ("B[m:m + 2]", None),
    ],
)  # fmt: skip
def test_regions_are_narrowed(before: str, after: str | None) -> None:
    mod = module(f"""
def main(A: T.Buffer((T.int64(64),), "float32"), B: T.Buffer((64,), "float32"), n: T.int64, m: T.int32):
    for i in range(T.int64(8)):
        for j in range(8):
            with T.block("A"):
                v = T.axis.spatial(T.int64(8), i)
                w = T.axis.spatial(8, j)
                T.reads({before})
                T.writes(A[v])
                A[v] = T.float32(0)
""")
    old, new = (
        next(b for b in nodes_of(m["main"].body, ir.Block) if b.name_hint == "A").reads[0]
        for m in (mod, transform.NarrowDataType(32)(mod))
    )
    assert str(new) == (after or before) and (new is old) is (after is None)


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
