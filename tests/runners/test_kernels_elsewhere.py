"""The benchmarks' kernels and random programs, on every target that there is a runner for."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tools import need_gpu, on, runs, skip_unsupported_code

pytest.importorskip("benchmarks.kernels", reason="the benchmarks stand in the repository only")

from ten_kernels import NAMES, arrays_of, assert_right, scheduled_for_cpu, scheduled_for_threads

from tvmagic import codegen
from tvmagic.runners import ways
from tvmagic.runners.ptx import needs_of
from tvmagic.target import Target
from tvmagic.target.names import TARGETS

CPUS = {
    **{name: TARGETS[name] for name in ("aarch64", "aarch64-sve", "riscv64", "x86-64-v2", "haswell", "x86-64-v4")},
    "aarch64-sve of 256 bits": TARGETS["aarch64-sve"] + " -vector-width=256",
}
ARCHITECTURES = ("sm_70", "sm_80", "sm_90", "sm_100")
# Seeds whose lowering takes longer than a seed may: HoistIfThenElse, for each branch, walks the whole function.
SLOW = {"threads": (91,)}
RANDOM = pathlib.Path(__file__).parent.parent / "random_programs" / "soak.py"


def check_kernel(name: str, mod: Any, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel on a target, in each way that there is, against NumPy."""
    inputs, expected = arrays_of(name, monkeypatch)
    built = codegen.compile_module(mod, target)
    with skip_unsupported_code():
        for way in ways(built.target):
            result = np.zeros_like(expected)
            way.run(built, [*inputs, result])
            assert_right(result, expected, f"{name} by {way.name}")


@pytest.mark.soak
@pytest.mark.parametrize("target", [on(name) for name in CPUS])
@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_on_each_processor(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_kernel(name, scheduled_for_cpu(name, monkeypatch), CPUS[target], monkeypatch)


@pytest.mark.soak
@runs("nvptx64")
@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_as_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = scheduled_for_threads(name, monkeypatch)
    check_kernel(name, mod, "opencl", monkeypatch)
    for arch in ARCHITECTURES:
        target = Target(f"nvptx -arch={arch}")
        with skip_unsupported_code():
            assert all(n.registers for n in needs_of(codegen.assembly(mod, target), target))


@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_on_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_gpu()
    check_kernel(name, scheduled_for_threads(name, monkeypatch), "nvptx", monkeypatch)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        on("aarch64", "matmul", "aarch64"),
        on("aarch64-sve", "GELU", "aarch64-sve of 256 bits"),
        on("riscv64", "softmax of rows", "riscv64"),
        on("haswell", "blur 3x3", "haswell"),
    ],
)
def test_a_kernel_on_each_processor(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_kernel(name, scheduled_for_cpu(name, monkeypatch), CPUS[target], monkeypatch)


def seeds(kind: str, first: int, end: int, *options: str) -> None:
    """Random programs of a kind, in processes of their own."""
    done = subprocess.run(
        [sys.executable, str(RANDOM), kind, str(first), str(end), *options], capture_output=True, text=True, check=False
    )
    failed = {int(seed): text for seed, text in re.findall(r"^(\d+): (.*)$", done.stdout, re.MULTILINE)}
    assert {seed: text for seed, text in failed.items() if seed not in SLOW.get(kind, ())} == {}, done.stderr[-2000:]
    assert "'right'" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


@runs("opencl")
def test_some_random_programs_of_threads() -> None:
    seeds("threads", 0, 5, "--without", "ptx")


@pytest.mark.soak
@runs("nvptx64")
@pytest.mark.parametrize("first", range(0, 700, 50))
def test_random_programs_of_threads(first: int) -> None:
    """Some 70 of 100 seeds make a schedule that is not refused."""
    seeds("threads", first, first + 50)


@pytest.mark.soak
@runs("aarch64", "riscv64", "wasm32")
@pytest.mark.parametrize("first", range(0, 360, 30))
def test_random_programs_on_each_processor(first: int) -> None:
    seeds("elsewhere", first, first + 30)
