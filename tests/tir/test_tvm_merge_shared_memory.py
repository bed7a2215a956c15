"""MergeSharedMemoryAllocations: one allocation for each kernel, the same results, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from pass_checks import module

import tvmagic as tvm
from tvmagic.errors import TVMagicError
from tvmagic.eval.integers import evaluate
from tvmagic.ir import Allocate, BufferStore, Call, DataType, Ramp, assert_structural_equal
from tvmagic.ir.query import is_access_ptr, nodes_of
from tvmagic.tir.transform import MergeSharedMemoryAllocations

TWO = """
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), n: T.int32):
    t = T.launch_thread("threadIdx.x", 32)
    P = T.allocate([33], "float16", "{scope}")
    P_1 = T.decl_buffer((33,), "float16", data=P, scope="{scope}")
    Q = T.allocate([{size}], "float32", "{scope}")
    Q_1 = T.decl_buffer(({size},), data=Q, scope="{scope}")
    P_1[t] = T.Cast("float16", A[t])
    Q_1[t] = A[t] * T.float32(2)
    B[t] = Q_1[31 - t] + T.Cast("float32", P_1[31 - t])
"""


def test_buffers_are_parts_of_one_memory() -> None:
    merged = MergeSharedMemoryAllocations()(module(TWO.format(scope="shared.dyn", size=32)))
    wanted = """
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32"), n: T.int32):
            t = T.launch_thread("threadIdx.x", 32)
            whole = T.allocate([208], "uint8", "shared.dyn")
            P_1 = T.decl_buffer((33,), "float16", data=whole, scope="shared.dyn")
            Q_1 = T.decl_buffer((32,), data=whole, scope="shared.dyn")
            P_1[t] = T.Cast("float16", A[t])
            Q_1[t + 20] = A[t] * T.float32(2)
            B[t] = Q_1[31 - t + 20] + T.Cast("float32", P_1[31 - t])
        """
    assert_structural_equal(merged, module(wanted))
    assert merged["main"].body.body.buffer_var.name == "buf_dyn_shmem"


def test_static_memory_if_asked_for() -> None:
    mod = module(TWO.format(scope="shared", size=32))
    assert MergeSharedMemoryAllocations()(mod)["main"] is mod["main"]
    with tvm.transform.PassContext(config={"tir.merge_static_smem": True}):
        text = MergeSharedMemoryAllocations()(mod)["main"].script()
    assert 'T.allocate([208], "uint8", "shared")' in text


def test_sizes_that_the_host_knows() -> None:
    text = MergeSharedMemoryAllocations()(module(TWO.format(scope="shared.dyn", size="n")))["main"].script()
    assert 'T.allocate([80 + n * 4], "uint8", "shared.dyn")' in text


def several(parts: list[tuple[str, str]]) -> str:
    """A kernel with memory of some types and sizes; of each the first and the last element are used, in all ways."""
    lines = ["def main(n: T.int32):", "    t = T.launch_thread('threadIdx.x', 32)"]
    for k, (dtype, size) in enumerate(parts):
        lines.append(f"    P{k} = T.allocate([{size}], '{dtype}', 'shared.dyn')")
        lines.append(f"    Q{k} = T.Buffer(({size},), '{dtype}', data=P{k}, scope='shared.dyn')")
        for index in ("0", f"{size} - 1"):
            value = (
                f"T.Broadcast(T.{dtype.split('x')[0]}(1), {dtype.split('x')[1]})" if "x" in dtype else f"T.{dtype}(1)"
            )
            lines.append(f"    Q{k}[{index}] = {value}")
            lines.append(
                f"    T.evaluate(T.call_extern('int32', 'f', T.tvm_access_ptr(T.type_annotation('{dtype}'), P{k}, {index}, 1, 3)))"
            )
        if "x" not in dtype:
            lines.append(f"    Q{k}[T.Ramp(0, 1, 2)] = T.Broadcast(T.{dtype}(1), 2)")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(12))
def test_parts_do_not_overlap(seed: int) -> None:
    """Each begins at a multiple of 16 bytes, and of its elements."""
    rng = random.Random(seed)
    types = ["float16", "float32", "float64", "int8", "float32x2", "float32x3", "float32x4", "float32x8", "float16x3"]
    parts = [(rng.choice(types), rng.choice(["2", "3", "17", "n", "n * 3", "n + 2"])) for _ in range(rng.randint(2, 5))]
    merged = MergeSharedMemoryAllocations()(module(several(parts)))["main"]
    (whole,) = nodes_of(merged.body, Allocate)
    stores = [s for s in nodes_of(merged.body, BufferStore) if not isinstance(s.indices[0], Ramp)]
    ramps: list[Any] = [s.indices[0] for s in nodes_of(merged.body, BufferStore) if isinstance(s.indices[0], Ramp)]
    pointers = [c for c in nodes_of(merged.body, Call) if is_access_ptr(c)]
    for n in (2, 5, 8):
        values = {merged.params[0]: n}
        used: set[int] = set()
        bases = iter(ramps)
        for k, (dtype, size) in enumerate(parts):
            bytes_ = DataType(dtype).bytes
            first, last = (evaluate(s.indices[0], values) for s in stores[2 * k : 2 * k + 2])
            assert first * bytes_ % 16 == 0 and last - first == eval(size, {"n": n}) - 1
            assert [evaluate(c.args[2], values) for c in pointers[2 * k : 2 * k + 2]] == [first, last]
            own = set(range(first * bytes_, (last + 1) * bytes_))
            assert not own & used
            used |= own
            if "x" not in dtype:
                assert evaluate(next(bases).base, values) == first
        assert max(used) < evaluate(whole.extents[0], values) <= max(used) + 1


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_results_stay(scope: str) -> None:
    with tvm.transform.PassContext(config={"tir.merge_static_smem": True}):
        mod = MergeSharedMemoryAllocations()(module(TWO.format(scope=scope, size=32)))
    a, b = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    tvm.build(mod, target="llvm")(a, b, 0)
    np.testing.assert_array_equal(b, a[::-1] * 3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("B[t] = ", "T.evaluate(T.call_extern('int32', 'f', P))\n    B[t] = ", "used by its pointer"),
        ('(33,), "float16", data', '(3, 11), "float16", data', "has 2 dimensions"),
    ],
)
def test_what_cannot_be_merged(old: str, new: str, words: str) -> None:
    text = TWO.format(scope="shared.dyn", size=32).replace(old, new)
    if "dimensions" in words:
        text = text.replace("P_1[t]", "P_1[0, t]").replace("P_1[31 - t]", "P_1[0, 31 - t]")
    with pytest.raises(TVMagicError, match=words):
        MergeSharedMemoryAllocations()(module(text))


def test_a_size_that_the_kernel_computes() -> None:
    text = TWO.format(scope="shared.dyn", size="t + 1")
    with pytest.raises(TVMagicError, match="which the kernel computes"):
        MergeSharedMemoryAllocations()(module(text))
