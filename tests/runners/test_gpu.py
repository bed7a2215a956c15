"""PTX on an NVIDIA GPU: how its kernels are launched, which is looked at everywhere, and what they compute, where there is one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from test_kernels_elsewhere import seeds
from test_opencl import launches, lowered, product
from tools import need_gpu

import tvmagic
from tvmagic import codegen
from tvmagic.errors import BuildError, TVMagicError
from tvmagic.runners import MissingTool, cuda, run, ways
from tvmagic.runners.launches import host_launches
from tvmagic.script import from_source

PTX_TYPES = {"buffer": "u64", "float32": "f32", "float64": "f64", "int32": "u32", "int64": "u64", "uint8": "u8"}


@pytest.fixture
def device() -> tuple[str, int]:
    return need_gpu()


def parameters(ptx: str) -> dict[str, list[str]]:
    """The types of the parameters of each entry."""
    entries = re.findall(r"\.entry (\w+)\(([^)]*)\)", ptx)
    return {name: re.findall(r"\.param \.(\w+)", given) for name, given in entries}


def assert_launches_fit(built: Any, arrays: list[Any]) -> list[str]:
    """Every launch gives its entry as many arguments as it has, of its types; the entries that are launched, in order."""
    buffers, made, memories = host_launches(built, arrays, "asm")
    wanted = parameters(built.get_source("asm"))
    for name, _, _, arguments in made:
        assert [PTX_TYPES[kind] for kind, _ in arguments] == wanted[name]
        assert all(value < len(buffers) for kind, value in arguments if kind == "buffer")
    assert len(memories) <= len(buffers)
    return [name for name, *_ in made]


def test_a_function_of_one_kernel_keeps_its_name() -> None:
    s, args = product()
    arrays = [np.zeros((16, 24), "float32"), np.zeros((24, 16), "float32"), np.zeros((16, 16), "float32")]
    built = tvmagic.build(s, args, target="nvptx", name="mm")
    assert assert_launches_fit(built, arrays) == ["mm"]
    with refuses("codegen.opencl.other_machine"):
        built(*arrays)


def test_several_kernels_get_what_the_host_knows() -> None:
    """The memory between them, the sizes of the arrays, and the number of the host's loop."""
    built = launches().current.build("nvptx")
    a, b = np.zeros((5, 12), "float32"), np.zeros((5, 12), "float32")
    assert assert_launches_fit(built, [a, b]) == ["f_kernel", *["f_kernel_1"] * 5]
    buffers, made, _ = host_launches(built, [a, b], "asm")
    assert [b if isinstance(b, int) else len(b) for b in buffers] == [240, 240, 20]
    rows = [[value for _, value in arguments] for *_, arguments in made[1:]]
    (changing,) = [place for place, column in enumerate(zip(*rows)) if len(set(column)) > 1]
    assert [row[changing] for row in rows] == [0, 1, 2, 3, 4]


def test_numbers_are_given_in_their_types() -> None:
    text = """
from tvmagic.script import tir as T

@T.prim_func
def f(A: T.Buffer((8,), "float32"), s: T.float64, m: T.int64, flag: T.bool, n: T.int32, B: T.Buffer((8,), "float32")):
    with T.launch_thread("threadIdx.x", n) as tx:
        B[tx] = T.if_then_else(flag, A[tx] * T.Cast("float32", s), T.Cast("float32", m))
"""
    built = codegen.compile_module(
        tvmagic.ir.IRModule({"f": from_source(text).with_attr("global_symbol", "f")}), "nvptx"
    )
    arrays = [np.arange(8, dtype="float32"), 1.5, 7, True, 8, np.zeros(8, "float32")]
    assert assert_launches_fit(built, arrays) == ["f"]
    _, ((_, blocks, threads, arguments),), _ = host_launches(built, arrays, "asm")
    assert (blocks, threads) == ([1, 1, 1], [8, 1, 1])
    assert arguments == [("buffer", 0), ("float64", 1.5), ("int64", 7), ("uint8", 1), ("int32", 8), ("buffer", 1)]


REFUSED = {
    "codegen.gpu.assertion_in_kernel": [
        '    assert A[tx] < T.float32(1), "too large"',
        "    B[tx] = A[tx]",
    ],
    "codegen.python_call_in_kernel": ['    T.evaluate(T.call_packed("f", A[tx]))'],
    "codegen.gpu.symbolic_thread_memory": [
        '    S = T.allocate([T.Cast("int32", A[0])], "float32", "local")',
        "    S_1 = T.Buffer((1,), data=S, scope='local')",
        "    S_1[0] = A[tx]",
        "    B[tx] = S_1[0]",
    ],
    "codegen.gpu.symbolic_shared_memory": [
        '    S = T.allocate([T.Cast("int32", A[0])], "float32", "shared")',
        "    S_1 = T.Buffer((1,), data=S, scope='shared')",
        "    S_1[0] = A[tx]",
        "    B[tx] = S_1[0]",
    ],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_ptx_cannot_do_is_refused(message: str) -> None:
    """The first two did nothing, or jumped to no function; memory had one element."""
    body = ['with T.launch_thread("threadIdx.x", 4) as tx:', *REFUSED[message]]
    with refuses(message, error=BuildError):
        codegen.compile_module(lowered(*body), "nvptx").get_source()


def test_the_host_knows_the_value_of_every_expression_of_sizes() -> None:
    """Bindings inside bindings, choices, functions: what kernels launch may hang on all that the host can compute."""
    text = """
from tvmagic.script import tir as T

@T.prim_func
def f(A: T.Buffer((64,), "float32"), n: T.int32, m: T.int64):
    a: T.int32 = T.Let(T.Let(x * y, where={y: x + 1}), where={x: n // 2})
    b: T.int32 = T.if_then_else(m > T.int64(5), T.popcount(n), T.Select(n > 0, 1, 0 // n))
    for i in range(T.max(T.min(a, 2), 0)):
        with T.launch_thread("threadIdx.x", b + T.Cast("int32", m)) as tx:
            A[i * 8 + tx] = T.float32(1)
"""
    text = text.replace("    a: ", "    x = T.int32()\n    y = T.int32()\n    a: ")
    built = codegen.compile_module(
        tvmagic.ir.IRModule({"f": from_source(text).with_attr("global_symbol", "f")}), "opencl"
    )
    for n, m, launched in ((4, 7, [[8, 1, 1]] * 2), (2, 3, [[4, 1, 1]] * 2), (1, 3, [])):
        _, made, _ = host_launches(built, [np.zeros(64, "float32"), n, m], "cl")
        assert [threads for _, _, threads, _ in made] == launched


def test_without_a_gpu_the_kernels_run_as_opencl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    for found in (None, ("some GPU", 70)):
        monkeypatch.setattr(cuda, "gpu", lambda found=found: found)
        monkeypatch.setattr("tvmagic.runners.ptx.gpu", lambda found=found: found)
        names.append([way.name for way in ways(codegen.resolved("nvptx"))])
    assert names == [["pocl, as OpenCL C of the same kernels, whose PTX ptxas accepts"], ["this machine's NVIDIA GPU"]]
    with pytest.raises(MissingTool, match="`sm_90`.*`sm_70`"):
        run(tvmagic.build(*product(), target="nvptx -arch=sm_90"), [np.zeros((16, 24), "float32")])


def test_threads_share_a_tile_on_the_gpu(device: tuple[str, int]) -> None:
    s, args = product()
    rng = np.random.default_rng(0)
    a, w = rng.random((16, 24), "float32"), rng.random((24, 16), "float32")
    c = np.zeros((16, 16), "float32")
    run(tvmagic.build(s, args, target="nvptx"), [a, w, c])
    np.testing.assert_allclose(c, a @ w, rtol=1e-5)


def test_a_check_says_which_gpu_and_how_fast(device: tuple[str, int]) -> None:
    result = launches().check(sizes=5, target="nvptx64")
    assert result.ok
    assert re.fullmatch(
        rf"run by this machine's NVIDIA GPU \({device[0]}, [\d.]+ [um]s for its kernels\)", result.notes[0]
    )


def test_kernels_that_go_wrong_on_the_gpu_are_errors(device: tuple[str, int]) -> None:
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    good = lowered('with T.launch_thread("threadIdx.x", 4) as tx:', "    B[tx + 4] = A[tx]")
    near = lowered('with T.launch_thread("threadIdx.x", 4) as tx:', "    B[tx + 9] = A[tx]")
    far = lowered('with T.launch_thread("threadIdx.x", 4) as tx:', "    B[tx + 1000000000] = A[tx]")
    with pytest.raises(TVMagicError, match="a kernel writes outside its buffers"):
        run(codegen.compile_module(near, "nvptx"), [a, b])
    with pytest.raises(TVMagicError, match="`main`"):
        run(codegen.compile_module(far, "nvptx"), [a, b])
    many = lowered('with T.launch_thread("threadIdx.x", 2048) as tx:', "    B[tx // 256] = A[tx // 256]")
    with pytest.raises(TVMagicError, match="2048.*1024"):
        run(codegen.compile_module(many, "nvptx"), [a, b])
    run(codegen.compile_module(good, "nvptx"), [a, b])
    assert list(b) == [0, 0, 0, 0, 0, 1, 2, 3]


def test_random_programs_on_the_gpu(device: tuple[str, int]) -> None:
    seeds("gpu", 0, 50)
