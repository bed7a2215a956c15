"""OpenCL C for lowered functions: kernels, and what the host does between their launches."""

from tvmagic.codegen.opencl.module import DeviceModule, build_opencl, opencl_text

__all__ = ["DeviceModule", "build_opencl", "opencl_text"]
