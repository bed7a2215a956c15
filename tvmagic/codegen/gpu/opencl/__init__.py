"""OpenCL C for lowered functions: kernels, and what the host does between their launches."""

from tvmagic.codegen.gpu.opencl.module import DeviceModule, opencl_text

__all__ = ["DeviceModule", "opencl_text"]
