"""Targets by names of devices, and functions chosen by the target."""

from __future__ import annotations

import pytest
from refusals import refuses

from tvmagic import target
from tvmagic.errors import BuildError, WrongValueError
from tvmagic.target import Target, codegen


@pytest.mark.parametrize(
    "made, kind, keys",
    [
        (target.cuda(), "cuda", ["cuda", "gpu"]),
        (target.mali(), "opencl", ["mali", "opencl", "gpu"]),
        (target.intel_graphics(), "opencl", ["intel_graphics", "opencl", "gpu"]),
        (target.arm_cpu("pixel2"), "llvm", ["arm_cpu", "cpu"]),
        (target.vta("pynq"), "ext_dev", ["vta", "cpu"]),
        (target.create("opencl -device=bifrost"), "opencl", ["bifrost", "opencl", "gpu"]),
    ],
)
def test_targets_of_devices(made: target.Target, kind: str, keys: list[str]) -> None:
    assert made.kind.name == kind and list(made.keys) == keys
    assert target.Target(str(made)).export() == made.export()


def test_options_replace_those_of_the_device() -> None:
    made = target.cuda(arch="sm_80", options="-max_num_threads=512 -model=a100")
    assert (made.arch, made.max_num_threads, made.model) == ("sm_80", 512, "a100")


def test_a_generic_function_goes_by_the_target_around() -> None:
    @target.generic_func
    def scaled(x: int) -> int:
        return x

    @scaled.register(["cuda", "gpu"])
    def _of_gpu(x: int) -> int:
        return 2 * x

    scaled.register("mali", lambda x: 3 * x)
    found = []
    for made in (target.cuda(), target.rocm(), target.mali(), target.create("llvm")):
        with made:
            found.append(scaled(1))
    assert (scaled(1), found) == (1, [2, 2, 3, 1])
    with pytest.raises(WrongValueError):
        scaled.register("gpu", _of_gpu)
    with refuses("generic_func.no_implementation", error=BuildError):
        target.GenericFunc("none")(1)


def test_what_llvm_tells_of_machines() -> None:
    assert codegen.llvm_get_system_triple() and codegen.llvm_get_system_cpu()
    assert codegen.llvm_get_vector_width("llvm -mcpu=haswell") == 256
    with Target("llvm -mcpu=skylake-avx512"):
        assert codegen.llvm_get_vector_width() == 512
