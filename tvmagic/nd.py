"""Arrays under the names of `tvm.nd`."""

from tvmagic.runtime.device import Device, cpu, cuda, device, gpu
from tvmagic.runtime.ndarray import NDArray, array, empty, from_dlpack

__all__ = ["Device", "NDArray", "array", "cpu", "cuda", "device", "empty", "from_dlpack", "gpu"]
