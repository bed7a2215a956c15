"""Passes for memory of GPUs: fragments, registers that a warp shares, asynchronous copies."""

from __future__ import annotations

import pytest
from pass_checks import module, script

from tvmagic.errors import TVMagicError
from tvmagic.ir import assert_structural_equal
from tvmagic.tir.transform import (
    FlattenBuffer,
    InferFragment,
    InjectPTXAsyncCopy,
    LowerOpaqueBlock,
    LowerWarpMemory,
    VectorizeLoop,
)

FRAGMENTS = """
    def main(S: T.Buffer((256,), "float16"), R: T.Buffer((256,), "float32")):
        tx = T.launch_thread("threadIdx.x", 32)
        a = T.allocate([256], "float16", "wmma.matrix_a")
        b = T.allocate([256], "float16", "wmma.matrix_b")
        c = T.allocate([256], "float32", "wmma.accumulator")
        other = T.allocate([8], "float32", "local")
        T.evaluate(other)
        T.tvm_fill_fragment(c, 16, 16, 16, 0, T.float32(0))
        T.tvm_load_matrix_sync(a, 16, 16, 16, 0, S.data, 16, "row_major")
        T.tvm_load_matrix_sync(b, 16, {n}, 16, 0, S.data, 16, "col_major")
        T.tvm_mma_sync(c, 0, a, 0, b, 0, c, 0)
        T.tvm_store_matrix_sync(c, 16, 16, {k}, 0, R.data, 16, "row_major")
"""


def test_fragments_are_marked_where_they_are_allocated() -> None:
    text = script(InferFragment()(module(FRAGMENTS.format(n=16, k=16))))
    for fragment, layout in (("a", "row_major"), ("b", "col_major")):
        marked = (
            f'T.attr({fragment}, "fragment_layout", "{layout}")\n    T.attr({fragment}, "fragment_shape", "16, 16, 16")'
        )
        assert f"{marked}\n    {fragment} = T.allocate(" in text
    assert 'T.attr(c, "fragment_shape", "16, 16, 16")\n    c = T.allocate(' in text
    assert text.count("fragment_layout") == 2 and text.count("fragment_shape") == 3


def test_fragments_that_do_not_fit_together() -> None:
    with pytest.raises(TVMagicError, match="`c`, `a`, `b` of a multiplication have different"):
        InferFragment()(module(FRAGMENTS.format(n=8, k=16)))
    with pytest.raises(TVMagicError, match="`c` is 16 x 16 x 16 in one place and 16 x 16 x 8 in another"):
        InferFragment()(module(FRAGMENTS.format(n=16, k=8)))
    with pytest.raises(TVMagicError, match="three constant sizes"):
        InferFragment()(module(FRAGMENTS.format(n="tx", k=16)))


WARP = """
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        T.func_attr({{"target": T.target("{target}")}})
        w = T.decl_buffer(({size},), scope="warp")
        tx = T.launch_thread("threadIdx.x", {threads})
        {body}
"""


def warp(body: str, size: object = 64, threads: int = 32, target: str = "cuda") -> str:
    lines = body.strip().replace("\n", "\n        ")
    return WARP.format(body=lines, size=size, threads=threads, target=target)


def test_loads_from_other_threads_are_shuffles() -> None:
    before = warp("for i in range(2):\n    w[i * 32 + tx] = A[i * 32 + tx]\nfor i in range(2):\n"
                  "    B[i * 32 + tx] = w[i * 32 + (tx + 1) % 32] + w[i * 32 + tx]")  # fmt: skip
    assert "shuffle" not in before
    text = script(LowerWarpMemory()(module(before)))
    assert 'w = T.allocate([2], "float32", "local")' in text and 'scope="local"' in text
    assert "w_1[i] = A[i * 32 + tx]" in text
    shuffle = "T.tvm_warp_shuffle(T.tvm_warp_activemask(), w_1[i], (tx + 1) % 32, 32, 32)"
    assert f"B[i * 32 + tx] = {shuffle} + w_1[i]" in text


def test_several_elements_of_each_thread_and_vectors() -> None:
    text = script(LowerWarpMemory()(module(warp(
        "w[tx * 4:tx * 4 + 4] = A[tx * 4:tx * 4 + 4]\nB[tx] = w[(15 - tx) * 4 + 3]\n"
        "B[tx * 4:tx * 4 + 4] = w[tx * 4:tx * 4 + 4]", threads=16))))  # fmt: skip
    assert 'T.allocate([4], "float32", "local")' in text and "w_1[0:4] = A[tx * 4:tx * 4 + 4]" in text
    assert "T.tvm_warp_shuffle(T.tvm_warp_activemask(), w_1[3], 15 - tx, 16, 32)" in text
    assert "B[tx * 4:tx * 4 + 4] = w_1[0:4]" in text


def test_instructions_on_the_registers_of_a_warp() -> None:
    """A thread has 8 of 256 accumulators; the instructions name the first of theirs."""
    text = script(LowerWarpMemory()(module(warp(
        'T.mma_fill("float32", 8, w.data, tx * 8)\n'
        'T.mma_store("float32", 16, 16, T.tvm_access_ptr(T.type_annotation("float32"), B.data, 0, 128, 2), w.data, tx * 8, 16)',
        size=256))))  # fmt: skip
    assert 'T.allocate([8], "float32", "local")' in text and 'T.mma_fill("float32", 8, w, 0)' in text
    assert "128, 2), w, 0, 16)" in text


def test_a_warp_of_one_thread_needs_nothing() -> None:
    mod = module(warp("w[tx] = A[tx]\nB[tx] = w[tx]", threads=1, target="llvm"))
    assert LowerWarpMemory()(mod)["main"] is mod["main"]


@pytest.mark.parametrize(
    ("body", "size", "threads", "wrong"),
    [
        ("w[tx] = A[tx]", 64, 48, "which does not divide a warp of 32 threads"),
        ("w[tx // 2 * tx] = A[tx]", 64, 32, "not linear in `tx`"),
        ("w[64 - tx] = A[tx]", 64, 32, "no positive constant factor of `tx`, but `-1`"),
        ("w[tx * 2] = A[tx]\nw[tx] = A[tx]", 64, 32, "has the factor 2 of the thread's number, another 1"),
        ("w[tx * 2 + 2] = A[tx]", 128, 32, "is into the registers of the thread"),
        ("w[tx * 2] = A[tx]\nB[tx] = w[tx]", 64, 32, "differs from thread to thread"),
        ("B[tx] = w[tx]", 64, 32, "nothing is stored"),
        ("w[tx] = A[tx]\nT.evaluate(T.call_extern('int32', 'f', w.data))", 64, 32, "address of the warp memory `w`"),
        ("w[0:64:2] = T.Broadcast(A[tx], 32)", 64, 32, "are not neighbours"),
    ],
)
def test_warp_memory_that_cannot_be_registers(body: str, size: int, threads: int, wrong: str) -> None:
    with pytest.raises(TVMagicError, match=wrong):
        LowerWarpMemory()(module(warp(body, size, threads)))


def test_warp_memory_needs_a_target_threads_and_a_size() -> None:
    text = warp("w[tx] = A[tx]")
    with pytest.raises(TVMagicError, match="no target"):
        LowerWarpMemory()(module(text.replace('"target": T.target("cuda")', "")))
    with pytest.raises(TVMagicError, match="no `threadIdx.x`"):
        LowerWarpMemory()(module(text.replace("threadIdx.x", "threadIdx.y")))
    with pytest.raises(TVMagicError, match="`threadIdx.x` has the extent n, which does not divide a warp"):
        threads = text.replace('B: T.Buffer((128,), "float32")', "n: T.int32")
        LowerWarpMemory()(module(threads.replace('"threadIdx.x", 32', '"threadIdx.x", n')))
    with pytest.raises(TVMagicError, match="no constant size"):
        symbolic = text.replace('B: T.Buffer((128,), "float32")', "n: T.int32").replace("64", "n")
        LowerWarpMemory()(module(symbolic))
    with pytest.raises(TVMagicError, match="flat buffers"):
        LowerWarpMemory()(module(text.replace("(64,)", "(8, 8)").replace("w[tx]", "w[tx, 0]")))


COPY = """
    def main(A: T.Buffer((32, 128), "{dtype}"), B: T.Buffer((32, 128), "{dtype}")):
        tx = T.launch_thread("threadIdx.x", 32)
        with T.block(""):
            T.reads(A[0:32, 0:128])
            T.writes(B[0:32, 0:128])
            S = T.alloc_buffer((32, 128), "{dtype}", scope="{scope}")
            with T.attr("default", "async_scope", 1):
                for i in range({count}):
                    for j in T.vectorized({lanes}):
                        S[tx, i * {lanes} + j] = {value}
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            for i in range(128):
                B[tx, i] = S[tx, i]
"""


def copied(dtype: str, lanes: int, value: str = "A[tx, i * {lanes} + j]", scope: str = "shared") -> str:
    value = value.format(lanes=lanes)
    mod = module(COPY.format(dtype=dtype, lanes=lanes, count=128 // lanes, value=value, scope=scope))
    for one in (LowerOpaqueBlock(), FlattenBuffer(), VectorizeLoop(), InjectPTXAsyncCopy()):
        mod = one(mod)
    text = script(mod)
    assert "async_scope" not in text
    return text


@pytest.mark.parametrize(
    ("dtype", "lanes", "width"), [("float16", 8, 16), ("float16", 4, 8), ("float32", 4, 16), ("float32", 1, 4)]
)
def test_copies_in_an_asynchronous_scope(dtype: str, lanes: int, width: int) -> None:
    text = copied(dtype, lanes)
    place = "tx * 128 + i" if lanes == 1 else f"tx * 128 + i * {lanes}"
    assert f'T.ptx_cp_async("{dtype}", S, {place}, A.data, {place}, {width})' in text
    assert text.count("ptx_cp_async") == 1 and "S_1[" not in text.split("ptx_cp_async")[0]


def test_copies_under_a_condition() -> None:
    text = copied("float32", 1, "T.if_then_else(i < 100, A[tx, i], T.float32(0))")
    assert 'T.ptx_cp_async("float32", S, tx * 128 + i, A.data, tx * 128 + i, 4, i < 100)' in text
    for kept in ("T.if_then_else(i < 100, A[tx, i], T.float32(1))", "A[tx, i] + T.float32(0)", "T.float32(0)"):
        assert "cp_async" not in copied("float32", 1, kept)


def test_copies_that_stay() -> None:
    assert "cp_async" not in copied("float16", 1)  # 2 bytes
    assert "cp_async" not in copied("float64", 4)  # 32 bytes
    assert "cp_async" not in copied("float32", 4, scope="local")
    assert "cp_async" not in copied("float32", 4, "T.if_then_else(i < 3, A[tx, i * {lanes} + j], T.float32(0))")
    assert "cp_async" not in copied("float32", 4, "A[i, j * 2]")


@pytest.mark.parametrize(
    ("place", "first"),
    [
        ("T.Ramp(tx * 8, 1, 8) + T.Broadcast(32, 8)", "tx * 8 + 32"), ("T.Ramp(tx * 8, 1, 8)", "tx * 8"),
        ("T.Ramp(tx * 8, 2, 8) + T.Broadcast(32, 8)", None), ("T.Ramp(tx * 8, 2, 8)", None), ("T.Broadcast(tx, 8) + T.Broadcast(32, 8)", None),
        ("T.Ramp(tx * 8, 1, 8) + T.Ramp(tx * 8, 1, 8)", None),
    ],
)  # fmt: skip
def test_lanes_of_an_asynchronous_copy_are_neighbours(place: str, first: str | None) -> None:
    text = script(
        InjectPTXAsyncCopy()(
            module(f"""
        def main(A: T.Buffer((64,), "float16")):
            tx = T.launch_thread("threadIdx.x", 8)
            S_1 = T.allocate([256], "float16", "shared")
            S = T.Buffer((256,), "float16", data=S_1, scope="shared")
            T.attr("default", "async_scope", 1)
            S[{place}] = A[tx * 8:tx * 8 + 8]""")
        )
    )
    copy = f'T.ptx_cp_async("float16", S, {first}, A.data, tx * 8, 16)'
    assert ("cp_async" in text) is (first is not None) is (copy in text)


def test_copies_into_merged_shared_memory_count_bytes() -> None:
    text = """
        def main(A: T.Buffer((64,), "float16")):
            tx = T.launch_thread("threadIdx.x", 8)
            merged = T.allocate([256], "uint8", "shared.dyn")
            {body}
        """
    before = """S = T.Buffer((64,), "float16", data=merged, scope="shared.dyn")
            T.attr("default", "async_scope", 1)
            S[T.Ramp(tx * 8, 1, 8) + T.Broadcast(32, 8)] = A[tx * 8:tx * 8 + 8]"""
    after = """T.ptx_cp_async("float16", merged, (tx * 8 + 32) * 2, A.data, tx * 8, 16)"""
    assert_structural_equal(InjectPTXAsyncCopy()(module(text.format(body=before))), module(text.format(body=after)))


def test_asynchronous_scopes_do_not_nest() -> None:
    with pytest.raises(TVMagicError, match="inside another one"):
        InjectPTXAsyncCopy()(
            module("""
        def main(A: T.Buffer((64,), "float16")):
            with T.attr("default", "async_scope", 1):
                with T.attr("default", "async_scope", 1):
                    T.evaluate(A.data)
        """)
        )
    with pytest.raises(TVMagicError, match="of flat buffers"):
        InjectPTXAsyncCopy()(
            module("""
        def main(A: T.Buffer((64, 64), "float32")):
            S = T.decl_buffer((64, 64), scope="shared")
            T.attr("default", "async_scope", 1)
            S[0, 0] = A[0, 0]
        """)
        )
