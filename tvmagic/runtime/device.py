"""Devices, as TVM names them; kernels run on `cpu(0)`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tvmagic.errors import TVMagicError

__all__ = [
    "Device",
    "cl",
    "cpu",
    "cuda",
    "device",
    "enabled",
    "ext_dev",
    "gpu",
    "hexagon",
    "metal",
    "mtl",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]


@cache
def _types() -> dict[str, int]:
    """DLPack's numbers by name: those of the kinds of targets, which are read when one is asked for, and of two more."""
    from tvmagic.target.kinds import DEVICE_TYPES

    return {"cpu": 1, **DEVICE_TYPES, "vpi": 9}


class Device:
    """A device by its type (DLPack's number) and id."""

    def __init__(self, device_type: int, device_id: int = 0) -> None:
        self.device_type, self.device_id = device_type, device_id

    @property
    def exist(self) -> bool:
        """Whether kernels can run on it here."""
        return self.device_type == 1 and self.device_id == 0

    def sync(self, stream: Any = None) -> None:
        """Wait until the device is done; the CPU always is."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return False
        return (self.device_type, self.device_id) == (other.device_type, other.device_id)

    def __hash__(self) -> int:
        return hash((self.device_type, self.device_id))

    def __repr__(self) -> str:
        name = next((n for n, t in _types().items() if t == self.device_type), "unknown")
        return f"{name}({self.device_id})"


def cpu(dev_id: int = 0) -> Device:
    """The CPU."""
    return Device(1, dev_id)


def device(dev_type: Any, dev_id: int = 0) -> Device:
    """The device named by `"cpu"`, `"llvm -mcpu=..."`, `"cuda"`, ..., or a Target."""
    if isinstance(dev_type, int):
        return Device(dev_type, dev_id)
    name = (str(dev_type).split() or [""])[0]
    name, _, number = name.partition(":")
    if name not in _types():
        raise TVMagicError(f"there is no device `{dev_type}`", hint="kernels run on `cpu`", code="device.unknown")
    return Device(_types()[name], int(number) if number else dev_id)


def _elsewhere(name: str, what: str) -> Callable[[int], Device]:
    def make(dev_id: int = 0) -> Device:
        return Device(_types()[name], dev_id)

    make.__name__, make.__doc__ = name, f"{what}; kernels do not run on it."
    return make


cuda = gpu = _elsewhere("cuda", "A GPU of NVIDIA")
opencl = cl = _elsewhere("opencl", "A device of OpenCL")
vulkan = _elsewhere("vulkan", "A device of Vulkan")
metal = mtl = _elsewhere("metal", "A GPU of Apple")
rocm = _elsewhere("rocm", "A GPU of AMD")
vpi = _elsewhere("vpi", "A simulated device")
hexagon = _elsewhere("hexagon", "A processor of Qualcomm")
webgpu = _elsewhere("webgpu", "A GPU in a browser")
ext_dev = _elsewhere("ext_dev", "A device of another kind")


def enabled(target: str) -> bool:
    """Whether code for a target can be run here."""
    return target.split()[0].split(":")[0] in ("llvm", "cpu")
