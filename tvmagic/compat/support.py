"""What this installation has, under the names by which TVM's builds are described."""

from __future__ import annotations

import platform
import sys

__all__ = ["describe", "libinfo"]

_ABSENT = (
    "CLML", "CMSISNN", "CUBLAS", "CUDA", "CUDNN", "CUTLASS", "ETHOSN", "ETHOSU", "HEXAGON", "METAL", "MICRO", "MIOPEN", "MKL",
    "MLIR", "MRVL", "NCCL", "NNAPI_CODEGEN", "OPENCL", "OPENMP", "PROFILER", "RELAY_DEBUG", "ROCBLAS", "ROCM", "RPC",
    "TENSORRT_CODEGEN", "TFLITE", "THRUST", "UMA", "VULKAN",
)  # fmt: skip


def libinfo() -> dict[str, str]:
    """The facts of the installation: `USE_LLVM` and the like are `ON` or `OFF`, `LLVM_VERSION` is a version."""
    from tvmagic.target.host import llvm_version

    version = ".".join(map(str, llvm_version()))
    return {
        "LLVM_VERSION": version,
        "USE_LLVM": "ON",
        "USE_SORT": "OFF",
        "USE_THREADS": "ON",
        **{f"USE_{name}": "OFF" for name in _ABSENT},
    }


def describe() -> None:
    """Print the versions of Python, of this package and of LLVM, and the machine."""
    import tvmagic

    print(f"Python {sys.version.split()[0]} on {platform.system()} ({platform.machine()})")
    print(f"tvmagic {tvmagic.__version__}, LLVM {libinfo()['LLVM_VERSION']}")
