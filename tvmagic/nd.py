"""Arrays under the names of `tvm.nd`."""

from tvmagic.runtime.device import Device, cpu, device
from tvmagic.runtime.ndarray import NDArray, array, empty, from_dlpack

__all__ = ["Device", "NDArray", "array", "cpu", "device", "empty", "from_dlpack"]
