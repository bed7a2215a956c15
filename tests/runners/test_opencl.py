"""Threads and blocks as OpenCL C, run by an implementation that is not ours; and what no kernel can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses
from tools import is_installed, needs, on, runs, skip_unsupported_code, uses

import tvmagic
from tvmagic import codegen, te
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.runners import run
from tvmagic.runners.ptx import needs_of
from tvmagic.script import from_source
from tvmagic.target import Target


def product() -> tuple[Any, list[Any]]:
    """A matrix product by blocks of 8 x 8 threads, which fetch a tile of `A` together."""
    A, W = te.placeholder((16, 24), name="A"), te.placeholder((24, 16), name="W")
    k = te.reduce_axis((0, 24), name="k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    tile, local = s.cache_read(A, "shared", [C]), s.cache_write(C, "local")
    tx, ty = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 8, 8)
    for loop, axis in ((io, te.thread_axis("blockIdx.y")), (jo, te.thread_axis("blockIdx.x")), (ii, ty), (ji, tx)):
        s[C].bind(loop, axis)
    s[local].compute_at(s[C], ji)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], 8)
    s[tile].compute_at(s[local], ko)
    s[tile].bind(s[tile].op.axis[0], ty)
    s[tile].bind(s[tile].op.axis[1], tx)
    return s, [A, W, C]


def test_opencl_threads_share_a_tile_between_barriers() -> None:
    s, args = product()
    built = tvmagic.build(s, args, target="opencl")
    text = built.get_source()
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);") == 2
    assert "__local float A_shared[64];" in text and "get_group_id(1)" in text and built.type_key == "opencl"
    with pytest.raises(BuildError):
        built(np.zeros((16, 24), "float32"), np.zeros((24, 16), "float32"), np.zeros((16, 16), "float32"))


@runs("opencl")
def test_opencl_threads_that_share_a_tile_compute_the_product() -> None:
    s, args = product()
    rng = np.random.default_rng(0)
    a, w = rng.random((16, 24), "float32"), rng.random((24, 16), "float32")
    c = np.zeros((16, 16), "float32")
    run(tvmagic.build(s, args, target="opencl"), [a, w, c])
    np.testing.assert_allclose(c, a @ w, rtol=1e-5)


@pytest.mark.parametrize("arch", ["sm_70", "sm_80", "sm_90", "sm_100"])
@needs("ptxas")
def test_ptx_is_of_the_version_that_its_architecture_needs(arch: str) -> None:
    s, args = product()
    target = Target(f"nvptx -arch={arch}")
    text = codegen.assembly(tvmagic.lower(s, args, name="mm"), target)
    with skip_unsupported_code():  # an older ptxas does not know the newest architecture
        (kernel,) = needs_of(text, target)
    assert (kernel.name, kernel.shared, kernel.spilled) == ("mm", 256, 0) and 10 < kernel.registers < 255
    assert "256 bytes of shared memory" in str(kernel)


@needs("ptxas")
def test_what_ptxas_refuses_is_an_error() -> None:
    with pytest.raises(BuildError, match="`sm_80`"):
        needs_of(
            ".version 7.0\n.target sm_80\n.address_size 64\n.entry f() { add.s32 %r1, %r2, 1; }",
            Target("nvptx -arch=sm_80"),
        )


def test_functions_that_gpus_lack_are_refused() -> None:
    with pytest.raises(BuildError, match="`tan`.*`float32`"):
        op = operator("f", "A: float32[8]\nB[i] = tan(A[i])")
        codegen.assembly(op.lower(), "nvptx")


def launches() -> Any:
    """An operator of three launches: sums of rows by threads together, memory between kernels, loops of the host."""
    op = operator("f", "A: float32[n, 12]\nS[i] += A[i, k]\nB[i, j] = A[i, j] / S[i]")
    text = """
    sums, b = s[S], s[B]
    sums.bind(sums.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    sums.bind(sums.op.axis[0], te.thread_axis("blockIdx.x"))
    b.bind(b.op.axis[1], te.thread_axis("threadIdx.y"))
    """
    op.add_version(schedule(op, "\n".join(line.strip() for line in text.splitlines())))
    return op


def test_opencl_has_a_kernel_for_each_launch() -> None:
    text = launches().current.build("opencl").get_source()
    assert text.count("__kernel void") == 2 and "red_buf" in text


@runs("opencl", "nvptx64")
def test_memory_between_launches_and_loops_of_the_host() -> None:
    op = launches()
    result = op.check(sizes=5, target="opencl")
    assert result.ok and "run by pocl" in result.notes[0]
    assert op.check(sizes=5, target="nvptx64").ok


def test_kernels_of_one_function_are_entries_of_their_own() -> None:
    text = codegen.assembly(launches().current.lower(), "nvptx")
    assert ".entry f_kernel(" in text and ".entry f_kernel_1(" in text and text.count(".entry") == 2


def test_the_timeline_ends_with_opencl_c() -> None:
    op = launches()
    assert [s.name for s in op.passes(op.current, "opencl") if s.kind == "codegen"] == ["codegen.opencl"]


@uses("ptxas")
def test_the_timeline_of_ptx_tells_what_kernels_need_if_ptxas_is_installed() -> None:
    op = launches()
    steps = [s for s in op.passes(op.current, "nvptx -arch=sm_80") if s.name == "codegen.assembly"]
    told = [n.text for n in steps[0].notes if n.topic == "ptxas"]
    assert any("registers a thread" in text for text in told) if is_installed("ptxas") else told == []


FUNCTION = """
from tvmagic.script import tir as T

@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
{body}
"""


def lowered(*body: str) -> Any:
    func = from_source(FUNCTION.format(body="\n".join("    " + line for line in body)))
    return tvmagic.ir.IRModule({"main": func.with_attr("global_symbol", "main")})


@pytest.mark.parametrize("target", [on("llvm"), on("opencl")])
def test_several_threads_do_not_add_the_same_term(target: str) -> None:
    """`threadIdx.y` is launched around what is not bound to it: each of its threads computed the sum, one term after
    the other, in the same place. Loops for a CPU had this, too."""
    mod = lowered(
        'ty = T.launch_thread("threadIdx.y", 4)',
        'S = T.allocate([4], "float32", "shared")',
        'S_1 = T.Buffer((4,), "float32", data=S, scope="shared")',
        'with T.launch_thread("threadIdx.x", 4) as tx:',
        "    S_1[tx] = T.float32(1)",
        "    for k in range(2):",
        "        S_1[tx] = S_1[tx] * A[tx + k]",
        "B[ty] = S_1[3 - ty]",
    )
    a = np.arange(1, 9, dtype="float32")
    wanted = np.array([20, 12, 6, 2, 0, 0, 0, 0], "float32")
    b = np.zeros(8, "float32")
    run(codegen.compile_module(mod, target), [a, b])
    np.testing.assert_array_equal(b, wanted)


@runs("opencl")
def test_global_memory_of_a_kernel_is_its_blocks() -> None:
    mod = lowered(
        'bx = T.launch_thread("blockIdx.x", 2)',
        'S = T.allocate([4], "float32", "global")',
        'S_1 = T.Buffer((4,), "float32", data=S)',
        'tx = T.launch_thread("threadIdx.x", 4)',
        "S_1[tx] = A[bx * 4 + tx]",
        "B[bx * 4 + tx] = S_1[3 - tx]",
    )
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    built = codegen.compile_module(mod, "opencl")
    assert "__local float S_1[4];" in built.get_source() and "barrier(" in built.get_source()
    run(built, [a, b])
    assert list(b) == [3, 2, 1, 0, 7, 6, 5, 4]


REFUSED = {
    "extents": (
        ['with T.launch_thread("blockIdx.x", 2):', '    with T.launch_thread("threadIdx.x", 4) as tx:', "        B[tx] = A[tx]",
         '    with T.launch_thread("threadIdx.x", 8) as ty:', "        B[ty] = A[ty]"],
        "tir.kernel.extents_differ",
    ),
    "blocks twice": (
        ['with T.launch_thread("threadIdx.x", 4) as tx:', '    with T.launch_thread("blockIdx.x", 2) as bx:', "        B[bx * 4 + tx] = A[tx]",
         '    with T.launch_thread("blockIdx.x", 2) as by:', "        B[by * 4 + tx] = B[4 - by * 4 + tx]"],
        "tir.kernel.launched_twice",
    ),
    "an extent from inside": (
        ['with T.launch_thread("blockIdx.x", 2) as bx:', "    for i in range(4):", '        with T.launch_thread("threadIdx.x", i + 1) as tx:', "            B[tx] = A[tx]"],
        "tir.kernel.computed_extent",
    ),
    "a barrier for some": (
        ['with T.launch_thread("threadIdx.x", 4) as tx:', "    for i in range(tx + 1):", '        T.evaluate(T.tvm_storage_sync("shared"))', "        B[tx] = A[i]"],
        "tir.kernel.barrier_in_branch",
    ),
    "memory of a block in two launches": (
        ['S = T.allocate([4], "float32", "shared")', 'S_1 = T.Buffer((4,), "float32", data=S, scope="shared")',
         'with T.launch_thread("blockIdx.x", 2) as bx:', "    S_1[bx] = A[bx]", 'with T.launch_thread("blockIdx.x", 2) as by:', "    B[by] = S_1[by]"],
        "tir.kernel.memory_shared_by_launches",
    ),
    "a condition in memory": (
        ["if A[0] < T.float32(1):", '    with T.launch_thread("threadIdx.x", 4) as tx:', "        B[tx] = A[tx]"],
        "codegen.launch_depends_on_memory",
    ),
    "an assertion": (
        ['with T.launch_thread("threadIdx.x", 4) as tx:', '    assert A[tx] < T.float32(1), "too large"', "    B[tx] = A[tx]"],
        "codegen.gpu.assertion_in_kernel",
    ),
    "a call": (
        ['with T.launch_thread("threadIdx.x", 4) as tx:', '    B[tx] = T.call_extern("float32", "f", A[tx])'],
        "codegen.opencl.unsupported_operator",
    ),
    "an axis": (['with T.launch_thread("threadIdx.w", 4) as tx:', "    B[tx] = A[tx]"], "tir.kernel.unknown_thread"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_can_be_is_refused(name: str) -> None:
    body, message = REFUSED[name]
    with refuses(message):
        codegen.compile_module(lowered(*body), "opencl")


@runs("opencl")
def test_kernels_that_go_wrong_are_errors_and_end_nothing() -> None:
    mod = lowered('with T.launch_thread("threadIdx.x", 4) as tx:', "    B[tx + 9] = A[tx]")
    good = lowered('with T.launch_thread("threadIdx.x", 4) as tx:', "    B[tx + 4] = A[tx]")
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    run(codegen.compile_module(good, "opencl"), [a, np.zeros_like(b)])
    with refuses("runner.opencl_refused"):
        run(codegen.compile_module(mod, "opencl"), [a, b])
    far = lowered('with T.launch_thread("threadIdx.x", 4) as tx:', "    B[tx + 1000000000] = A[tx]")
    with refuses("runner.code_ended"):
        run(codegen.compile_module(far, "opencl"), [a, b])
    run(codegen.compile_module(good, "opencl"), [a, b])
    assert list(b) == [0, 0, 0, 0, 0, 1, 2, 3]


@runs("opencl")
def test_many_launches_are_refused() -> None:
    body = [
        "for i, j in T.grid(256, 128):",
        '    with T.launch_thread("threadIdx.x", 4) as tx:',
        "        B[tx] = A[tx]",
    ]
    arrays = [np.zeros(8, "float32"), np.zeros(8, "float32")]
    with pytest.raises(TVMagicError, match="20000"):
        run(codegen.compile_module(lowered(*body), "opencl"), arrays)


def test_llvm_ir_of_opencl_is_refused() -> None:
    s, args = product()
    with pytest.raises(BuildError):
        codegen.llvm_ir(tvmagic.lower(s, args), "opencl")


@runs("opencl")
def test_vectors_that_are_bound_around_launches_are_computed_by_the_kernels() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
    pair: T.float32x2 = T.Broadcast(T.float32(3), 2)
    with T.launch_thread("threadIdx.x", 4) as tx:
        B[tx] = A[tx] * T.float32(2)
    B[4:6] = pair
    B[6:8] = pair + T.Broadcast(T.float32(1), 2)
"""
    built = tvmagic.build(from_source(text), target="opencl")
    a, b = np.arange(4, dtype="float32"), np.zeros(8, "float32")
    run(built, [a, b])
    np.testing.assert_array_equal(b, [0, 2, 4, 6, 3, 3, 4, 4])
