"""Threads of a GPU, in programs and in LLVM's text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from refusals import refuses

from tvmagic import codegen
from tvmagic.errors import BuildError
from tvmagic.script import from_source

HEAD = "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((64,), 'float32'), B: T.Buffer((64,), 'float32')):\n"


def ptx(body: str, target: str = "nvptx -arch=sm_70") -> str:
    return codegen.llvm_ir(from_source(HEAD + "".join(f"    {line}\n" for line in body.splitlines())), target, False)


@pytest.mark.parametrize(
    "axis", ["threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.y", "blockIdx.z"]
)
@pytest.mark.parametrize("form", ["launch", "loop"])
def test_indices_of_threads(axis: str, form: str) -> None:
    if form == "launch":
        text = ptx(f"with T.launch_thread('{axis}', 8) as tx:\n    B[tx] = A[tx]")
    else:
        text = ptx(f"for tx in T.thread_binding(8, thread='{axis}'):\n    B[tx] = A[tx]")
    group, _, letter = axis.partition(".")
    register = f"llvm.nvvm.read.ptx.sreg.{ {'threadIdx': 'tid', 'blockIdx': 'ctaid'}[group] }.{letter}"
    assert (
        re.findall(r"call i32 @(llvm\.nvvm\.read\S+)\(\)", text) == [register]
        and "zext nneg i32" in text
        and "sext" not in text
    )


def test_shared_memory_and_barriers() -> None:
    text = ptx(
        "with T.launch_thread('threadIdx.x', 32) as tx:\n    S = T.allocate([32], 'float32', 'shared')\n    S_1 = T.Buffer((32,), data=S, scope='shared')\n"
        "    S_1[tx] = A[tx]\n    T.tvm_storage_sync('shared')\n    B[tx] = S_1[31 - tx]"
    )
    assert re.search(r"@\S+ = internal addrspace\(3\) global \[32 x float\] poison, align 16", text)
    assert "addrspacecast (ptr addrspace(3) @" in text and "call void @llvm.nvvm.barrier0()" in text
    local = ptx(
        "with T.launch_thread('threadIdx.x', 32) as tx:\n    S = T.allocate([4], 'float32', 'local')\n    S_1 = T.Buffer((4,), data=S, scope='local')\n    S_1[0] = A[tx]\n    B[tx] = S_1[0]"
    )
    assert "alloca [4 x float]" in local and "addrspace(3)" not in local


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "with T.launch_thread('vthread.x', 8) as tx:\n    B[tx] = A[tx]",
            "codegen.gpu.virtual_threads",
        ),
        (
            "with T.launch_thread('threadIdx.w', 8) as tx:\n    B[tx] = A[tx]",
            "tir.kernel.unknown_thread",
        ),
    ],
)
def test_axes_that_there_are_not(body: str, said: str) -> None:
    with refuses(said, error=Exception):
        ptx(body)


def test_on_a_cpu_threads_are_loops() -> None:
    body = "with T.launch_thread('blockIdx.x', 4) as bx, T.launch_thread('threadIdx.x', 16) as tx:\n    B[bx * 16 + tx] = A[bx * 16 + tx] * T.float32(2)"
    built = codegen.compile_module(from_source(HEAD + "".join(f"    {line}\n" for line in body.splitlines())))
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    built(a, b)
    np.testing.assert_array_equal(b, 2 * a)


@pytest.mark.parametrize(
    ("scope", "lines", "refused"),
    [
        ("shared", ["s[tx] = A[tx]", "B[tx] = s[7 - tx]"], True),
        ("shared.dyn", ["s[tx] = A[tx]", "B[tx] = s[7 - tx]"], True),
        ("shared", ["s[tx] = s[7 - tx]"], True),
        ("shared", ["s[tx] = A[tx]", "v: T.float32 = s[7 - tx]", "B[tx] = v"], True),
        ("shared", ["s[tx] = A[tx]", "B[T.Cast('int32', s[7 - tx])] = T.float32(0)"], True),
        ("shared", ["s[tx] = A[tx]", "if s[7 - tx] > T.float32(1):", "    B[tx] = T.float32(0)"], True),
        ("shared", ["v: T.int32 = 7 - tx", "s[v] = A[tx]", "B[tx] = s[tx]"], True),
        ("shared", ["v: T.int32 = 7 - tx", "w: T.int32 = v + 1", "s[w] = A[tx]", "B[tx] = s[tx]"], True),
        # each thread reads what it wrote itself, or what all of them write
        ("shared", ["s[tx] = A[tx]", "B[tx] = s[tx]"], False),
        ("shared", ["s[tx] = A[tx]", "s[15 - tx] = A[tx]", "B[tx] = s[15 - tx]"], False),
        ("shared", ["s[15 - tx] = A[tx]", "s[tx] = A[tx]", "B[tx] = s[15 - tx]"], False),
        ("shared", ["s[n] = A[tx]", "B[tx] = s[7 - tx]"], False),
        ("shared", ["v: T.int32 = 7 - n", "w: T.int32 = 7 - tx", "s[v] = A[w]", "B[w] = s[tx]"], False),
        ("local", ["s[tx] = A[tx]", "B[tx] = s[7 - tx]"], False),
        ("shared", ["B[tx] = s[7 - tx]"], False),
        ("shared", ["A[tx] = A[7 - tx] + s[tx]"], False),
    ],
)
def test_threads_that_are_not_all_there_read_what_they_wrote_themselves(
    scope: str, lines: list[str], refused: bool
) -> None:
    """On a CPU they run one after another there."""
    text = HEAD.replace("B: T.Buffer((64,), 'float32')", "B: T.Buffer((64,), 'float32'), n: T.int32")
    text += f"    with T.launch_thread('threadIdx.x', 16) as tx:\n        S = T.allocate([32], 'float32', '{scope}')\n        s = T.Buffer((32,), data=S, scope='{scope}')\n"
    text += "        if tx < 8:\n" + "".join(f"            {line}\n" for line in lines)
    if not refused:
        assert codegen.llvm_ir(from_source(text), "llvm -mcpu=haswell", False)
        return
    with pytest.raises(BuildError, match="`threadIdx.x`.*`s`"):
        codegen.llvm_ir(from_source(text), "llvm -mcpu=haswell", False)
    blocks = text.replace("threadIdx", "blockIdx").replace(scope, "local")
    assert codegen.llvm_ir(from_source(blocks), "llvm -mcpu=haswell", False)
