"""Which targets tests run on, and marks for what a test needs: without it, the test is skipped with the reason."""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tvmagic.compat.target.codegen import llvm_version_major
from tvmagic.errors import TVMagicError
from tvmagic.runtime import Device, device
from tvmagic.target import Target, has_feature, host_target

__all__ = [
    "Requirement",
    "device_enabled",
    "enabled_targets",
    "exclude_targets",
    "known_failing_targets",
    "parametrize_targets",
    "Feature",
    "requires_cudnn",
    "requires_cublas",
    "requires_cudagraph",
    "requires_wmma",
    "requires_matrixcore",
    "requires_adreno_opencl",
    "requires_openclml",
    "requires_libtorch",
    "requires_micro",
    "requires_ethosn",
    "requires_cmsisnn",
    "requires_aarch64_sve",
    "requires_aarch64_sme",
    "requires_cuda_compute_version",
    "requires_llvm_minimum_version",
    "requires_nvcc_version",
    "requires_python_minimum_version",
    "requires_arm_dot",
    "requires_cuda",
    "requires_gpu",
    "requires_hexagon",
    "requires_llvm",
    "requires_metal",
    "requires_nvptx",
    "requires_opencl",
    "requires_package",
    "requires_rocm",
    "requires_rpc",
    "requires_tensorcore",
    "requires_vulkan",
    "requires_x86",
    "requires_x86_avx512",
    "requires_x86_vnni",
    "skip_if_32bit",
    "slow",
    "target_parameters",
    "targets_of_tests",
    "uses_gpu",
]


def targets_of_tests() -> list[str]:
    """The texts of the targets that tests run on: those of the variable TVM_TEST_TARGETS, between `;`, or `llvm`."""
    named = [text.strip() for text in os.environ.get("TVM_TEST_TARGETS", "").split(";")]
    return [text for text in named if text] or ["llvm"]


def device_enabled(target: Any) -> bool:
    """Whether a test may run on a target: it is one that tests run on, and its code runs on this machine."""
    kind = str(target).split()[0]
    if kind not in [text.split()[0] for text in targets_of_tests()]:
        return False
    try:
        return Target(target).is_host and device(kind).exist
    except TVMagicError:
        return False


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets on which tests may run, each with its device."""
    return [(text, device(text)) for text in targets_of_tests() if device_enabled(text)]


def _decorator(marks: Iterable[Any]) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        for mark in marks:
            test = mark(test)
        return test

    return decorate


class Requirement:
    """What a test needs: a decorator (with or without `()`) of functions and classes.

    available: says whether it is there; reason: what is missing.
    """

    def __init__(self, name: str, reason: str, available: Callable[[], bool]) -> None:
        self.name, self.reason, self.available = name, reason, available

    def marks(self, support_required: str = "compile-and-run") -> list[Any]:
        """The marks of pytest that skip a test if it is not there."""
        import pytest

        return [pytest.mark.skipif(not self.available(), reason=self.reason)]

    def __call__(self, test: Any = None, *, support_required: str = "compile-and-run") -> Any:
        decorate = _decorator(self.marks(support_required))
        return decorate if test is None else decorate(test)


def _never() -> bool:
    return False


def _host_has(feature: str) -> Callable[[], bool]:
    return lambda: has_feature(host_target(), feature)


requires_llvm = Requirement("llvm", "tests do not run on llvm", lambda: device_enabled("llvm"))
requires_x86 = Requirement("x86", "this machine is not an x86", lambda: has_feature(host_target(), "sse2"))
requires_x86_vnni = Requirement("x86_vnni", "this machine has no AVX512-VNNI", _host_has("avx512vnni"))
requires_x86_avx512 = Requirement("x86_avx512", "this machine has no AVX-512", _host_has("avx512f"))
requires_gpu = Requirement("gpu", "kernels run on the CPU", _never)
requires_cuda = Requirement("cuda", "kernels run on the CPU", _never)
requires_tensorcore = Requirement("tensorcore", "kernels run on the CPU", _never)
requires_nvptx = Requirement("nvptx", "code for NVPTX can be read, not run", _never)
requires_opencl = Requirement("opencl", "there is no code for OpenCL", _never)
requires_vulkan = Requirement("vulkan", "there is no code for Vulkan", _never)
requires_metal = Requirement("metal", "there is no code for Metal", _never)
requires_rocm = Requirement("rocm", "there is no code for ROCm", _never)
requires_hexagon = Requirement("hexagon", "there is no code for Hexagon", _never)
requires_arm_dot = Requirement("arm_dot", "this machine has no dot products of ARM", _never)
requires_rpc = Requirement("rpc", "there is no remote execution", _never)
requires_cudnn = Requirement("cudnn", "kernels run on the CPU", _never)
requires_cublas = Requirement("cublas", "kernels run on the CPU", _never)
requires_cudagraph = Requirement("cudagraph", "kernels run on the CPU", _never)
requires_wmma = Requirement("wmma", "kernels run on the CPU", _never)
requires_matrixcore = Requirement("matrixcore", "kernels run on the CPU", _never)
requires_adreno_opencl = Requirement("adreno_opencl", "there is no code for OpenCL on Adreno", _never)
requires_openclml = Requirement("openclml", "there is no code for OpenCL on Adreno", _never)
requires_libtorch = Requirement("libtorch", "there are no functions of libtorch", _never)
requires_micro = Requirement("micro", "there is no code for microcontrollers", _never)
requires_ethosn = Requirement("ethosn", "there is no code for Ethos-N", _never)
requires_cmsisnn = Requirement("cmsisnn", "there are no functions of CMSIS-NN", _never)
requires_aarch64_sve = Requirement("aarch64_sve", "this machine has no SVE", _host_has("sve"))
requires_aarch64_sme = Requirement("aarch64_sme", "this machine has no SME", _host_has("sme"))
Feature = Requirement  # as TVM calls it
uses_gpu = Requirement("gpu", "", lambda: True)  # a test that can use one, and does without


def requires_cuda_compute_version(major: int, minor: int = 0) -> Requirement:
    """A decorator: skip a test unless a GPU of this generation runs kernels."""
    return Requirement("cuda", f"kernels run on the CPU, not on a GPU of compute capability {major}.{minor}", _never)


def requires_nvcc_version(major: int, minor: int = 0, release: int = 0) -> Requirement:
    """A decorator: skip a test unless the CUDA compiler is used."""
    return Requirement("nvcc", "the CUDA compiler is not used", _never)


def requires_llvm_minimum_version(major: int) -> Requirement:
    """A decorator: skip a test if LLVM is older."""
    return Requirement("llvm", f"needs LLVM {major}", lambda: llvm_version_major() >= major)


def requires_python_minimum_version(*version: int) -> Requirement:
    """A decorator: skip a test if Python is older."""
    return Requirement("python", f"needs Python {'.'.join(map(str, version))}", lambda: sys.version_info >= version)


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """A decorator: skip a test unless all these packages can be imported."""
    import pytest

    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    reason = f"needs the package {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)


def skip_if_32bit(reason: str = "") -> Callable[[Any], Any]:
    """A decorator: skip a test if pointers have 32 bits."""
    import pytest

    return pytest.mark.skipif(struct.calcsize("P") == 4, reason=reason or "does not run on 32 bits")


def slow(test: Any) -> Any:
    """A decorator: skip a test if the variable SKIP_SLOW_TESTS is set."""
    import pytest

    asked = os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes")
    return pytest.mark.skipif(asked, reason="slow tests are skipped")(test)


def target_parameters(targets: Iterable[Any]) -> list[Any]:
    """The targets as values of a parameter of tests; those that tests do not run on are skipped."""
    import pytest

    found: list[Any] = []
    for target in targets:
        text = target if isinstance(target, str) else str(target)
        marks = pytest.mark.skipif(not device_enabled(text), reason=f"tests do not run on `{text}`")
        found.append(pytest.param(target, marks=marks, id=text))
    return found


def _with_targets(test: Any, targets: Iterable[Any]) -> Any:
    import pytest

    scope = getattr(test, "__globals__", None)
    if scope is not None and "dev" not in scope:  # a test may also ask for the target's device
        scope["dev"] = pytest.fixture(_device_of_target)
    return pytest.mark.parametrize("target", target_parameters(targets))(test)


def _device_of_target(target: Any) -> Device:
    return device(str(target))


def parametrize_targets(*targets: Any) -> Any:
    """A decorator: run a test once for each target, which it takes as `target` (and its device as `dev`).

    Used bare, it stands for all targets that tests run on.
    """
    if len(targets) == 1 and callable(targets[0]) and not isinstance(targets[0], Target):
        return _with_targets(targets[0], targets_of_tests())
    return lambda test: _with_targets(test, targets or targets_of_tests())


def exclude_targets(*kinds: str) -> Callable[[Any], Any]:
    """A decorator: leave out targets of these kinds."""

    def decorate(test: Any) -> Any:
        kept = [text for text in targets_of_tests() if text.split()[0] not in kinds]
        return _with_targets(test, kept)

    return decorate


def known_failing_targets(*kinds: str) -> Callable[[Any], Any]:
    """A decorator: a test may fail on targets of these kinds."""
    import pytest

    def decorate(test: Any) -> Any:
        found: list[Any] = []
        for text in targets_of_tests():
            marks = [pytest.mark.xfail(reason=f"known to fail on `{text}`")] if text.split()[0] in kinds else []
            found.append(pytest.param(text, marks=marks, id=text))
        return pytest.mark.parametrize("target", found)(test)

    return decorate
