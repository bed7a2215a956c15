"""Small decisions of code for GPUs, as OpenCL C and as LLVM's text for PTX."""

from __future__ import annotations

import pytest
from refusals import refuses

from tvmagic import codegen
from tvmagic.codegen.late.kernels import kernel_functions
from tvmagic.codegen.late.split_kernels import split_kernels
from tvmagic.errors import BuildError
from tvmagic.ir import IRModule, PrimFunc
from tvmagic.script import from_source

PTX = "nvptx -arch=sm_70"
HEAD = "from tvm.script import tir as T\n\n@T.prim_func\ndef main(A: T.Buffer((64,), 'float32'), B: T.Buffer((64,), 'int32'), n: T.{}):\n"
LAUNCH = "with T.launch_thread('{}', {}) as tx:"
BOUND = "for tx in T.thread_binding({1}, thread='{0}'):"


def function(body: str, number: str = "int32") -> PrimFunc:
    return from_source(HEAD.format(number) + "".join(f"    {line}\n" for line in body.splitlines()))


def text(body: str, target: str, number: str = "int32", check_bounds: bool = False) -> str:
    if target == "opencl":
        return codegen.assembly(function(body, number), target)
    return codegen.llvm_ir(function(body, number), target, False, check_bounds)


def of_thread(form: str, extent: int, *lines: str) -> str:
    return "\n".join([form.format("threadIdx.x", extent), *(f"    {line}" for line in lines)])


# ---------------------------------------------------------------------------- what threads' variables can be


@pytest.mark.parametrize("form", [LAUNCH, BOUND])
@pytest.mark.parametrize(
    ("extent", "value", "simple"),
    [
        (8, "tx // 3", True),
        (8, "(tx - 1) // 3", False),
        (8, "(tx * (1 << 28)) // 3", True),
        (9, "(tx * (1 << 28)) // 3", False),
        (1, "(tx + 2147483647) // 3", True),
        (2, "(tx + 2147483647) // 3", False),
    ],
)
def test_a_thread_is_from_0_to_before_the_extent(form: str, extent: int, value: str, simple: bool) -> None:
    """Where nothing wraps and nothing is negative, a floor division is the machine's."""
    body = of_thread(form, extent, f"B[tx] = {value}")
    assert ("udiv" in text(body, PTX)) == simple
    if form == LAUNCH:
        assert ("floordiv" not in text(body, "opencl")) == simple


UNKNOWN_THREAD = ("codegen.gpu.unknown_thread", "codegen.opencl.unknown_thread", "tir.kernel.unknown_thread")


@pytest.mark.parametrize("axis", ["threadIdx.w", "warp.x", "threadIdx", "blockIdx.xy"])
@pytest.mark.parametrize("target", ["opencl", PTX])
def test_axes_that_there_are_not(axis: str, target: str) -> None:
    with refuses(*UNKNOWN_THREAD, error=BuildError, names=f"`{axis}`"):
        text(f"with T.launch_thread('{axis}', 8) as tx:\n    B[tx] = 1", target)


# ---------------------------------------------------------------------------- statements


# ---------------------------------------------------------------------------- memory


@pytest.mark.parametrize(("most", "fits"), [(12 * 1024 - 1, True), (12 * 1024, True), (12 * 1024 + 1, False)])
def test_shared_memory_of_a_size_that_a_kernel_computes_has_48_kilobytes_at_most(most: int, fits: bool) -> None:
    body = of_thread(
        LAUNCH,
        2,
        "for i in range(3):",
        f"    S = T.allocate([T.min(i * n * n, {most})], 'float32', 'shared')",
        "    S_1 = T.Buffer((1,), data=S, scope='shared')",
        "    S_1[0] = A[tx]",
        "    B[tx] = T.Cast('int32', S_1[0])",
    )
    if fits:
        assert f"[{most}];" in text(body, "opencl")
    else:
        with pytest.raises(BuildError):
            text(body, "opencl")


@pytest.mark.parametrize(
    ("around", "extents", "declared"),
    [
        ("", "n", None),
        ("", "n * 2", None),
        ("for i in range(3):", "n + 1", None),
        ("for i in range(3):", "i", 2),
        ("for i in range(3):", "i + 1", 3),
        ("for i in range(1):", "i", 1),
        ("for i in range(3):", "i - 5", 1),
        ("for i in range(3):", "i, i + 1", 6),
        ("for i in range(3):", "i - 5, 4", 1),
        ("", "tx + 1", 8),
        ("with T.LetStmt(n * 3) as m:", "T.min(m, 7)", 7),
        ("with T.LetStmt(tx * 3) as m:", "m", 21),
        ("with T.LetStmt(n * 3) as m:", "m", "refused"),
        ("for i in range(3):", "n, i", "refused"),
    ],
)
def test_shared_memory_is_of_a_size_that_the_host_knows_or_of_the_largest_one(
    around: str, extents: str, declared: int | str | None
) -> None:
    """What the host knows it hands on as an argument; what the kernel computes has to have a bound."""
    lines = [
        f"S = T.allocate([{extents}], 'float32', 'shared')",
        "S_1 = T.Buffer((1,), data=S, scope='shared')",
        "S_1[0] = A[tx]",
        "B[tx] = T.Cast('int32', S_1[0])",
    ]
    body = of_thread(LAUNCH, 8, *([around, *(f"    {line}" for line in lines)] if around else lines))
    if declared == "refused":
        with pytest.raises(BuildError):
            text(body, "opencl")
        return
    made = text(body, "opencl")
    assert ("__local float* S_1)" in made) == (declared is None)
    assert declared is None or f"__local float S_1[{declared}];" in made
    with pytest.raises(BuildError):
        text(body.replace("shared", "local"), "opencl")


# ---------------------------------------------------------------------------- what kernels take


def test_kernels_of_a_function_take_its_parameters_and_what_the_host_computes() -> None:
    """Neither their own threads nor a parameter again."""
    body = "with T.LetStmt(n * 3) as m:\n" + "\n".join(
        f"    with T.launch_thread('threadIdx.x', n) as t{k}:\n        B[t{k}] = n + {v}"
        for k, v in enumerate(["1", "m", "m + n"])
    )
    made = kernel_functions(function(body), "f")
    assert [[p.name for p in func.params] for func in made] == [
        ["A_handle", "B_handle", "n", *more] for more in ([], ["m"], ["m"])
    ]


def test_a_module_whose_functions_are_one_kernel_each_stays_as_it_is() -> None:
    once = of_thread(LAUNCH, 8, "B[tx] = 1")
    one, two = function(once).with_attr("global_symbol", "one"), function(f"{once}\n{once}")
    mod = IRModule({"f": one, "g": one.with_attr("global_symbol", "other")})
    split = split_kernels(codegen.Target("nvptx"))
    assert split(mod) is mod
    found = split(IRModule({"f": one, "g": two.with_attr("global_symbol", "two")}))
    assert [v.name_hint for v in found.functions] == ["one", "two_kernel", "two_kernel_1"]
    assert found["one"] is one


# ---------------------------------------------------------------------------- checks


@pytest.mark.parametrize(
    "line",
    [
        "B[n] = T.Cast('int32', A[n * 2])",
        "B[tx] = n // B[n]",
        "T.evaluate(T.call_extern('int32', 'f', T.tvm_access_ptr(T.type_annotation('float32'), A.data, n, n, 1)))",
    ],
)
def test_kernels_check_nothing(line: str) -> None:
    """They could not stop."""
    body = of_thread(LAUNCH, 8, line)
    assert text(body, PTX, check_bounds=True) == text(body, PTX)
