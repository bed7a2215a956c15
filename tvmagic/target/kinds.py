"""The kinds of targets, by TVM's names: their keys, DLPack's numbers of their devices, their options."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Identified
from tvmagic.target.names import TARGETS

_THREADS = {"max_num_threads": 1024, "thread_warp_size": 32}
KINDS: dict[str, dict[str, Any]] = {
    "llvm": {"keys": ["cpu"], "device_type": 1},
    "c": {"keys": ["cpu"], "device_type": 1},
    "cuda": {"keys": ["cuda", "gpu"], "device_type": 2, "options": _THREADS},
    "nvptx": {"keys": ["cuda", "gpu"], "device_type": 2, "options": _THREADS},
    "ext_dev": {"keys": ["ext_dev"], "device_type": 12},
    # targets that programs may name, for which no code is made
    "rocm": {"keys": ["rocm", "gpu"], "device_type": 10, "options": {"max_num_threads": 256, "thread_warp_size": 64}},
    "opencl": {"keys": ["opencl", "gpu"], "device_type": 4, "options": {"max_num_threads": 256, "thread_warp_size": 1}},
    "metal": {"keys": ["metal", "gpu"], "device_type": 8, "options": {"max_num_threads": 256, "thread_warp_size": 16}},
    "vulkan": {"keys": ["vulkan", "gpu"], "device_type": 7, "options": {"max_num_threads": 256, "thread_warp_size": 1}},
    "webgpu": {"keys": ["webgpu", "gpu"], "device_type": 15, "options": {"max_num_threads": 256}},
    "hexagon": {"keys": ["hexagon", "cpu"], "device_type": 16},
}
DEVICE_TYPES: dict[str, int] = {name: kind["device_type"] for name, kind in KINDS.items()}


class TargetKind(Identified):
    """A kind of code generator, by its `name`."""

    def __init__(self, name: str) -> None:
        if name not in KINDS:
            known = ", ".join(f"`{k}`" for k in KINDS)
            hint = (
                f"short names for `--target` are {', '.join(f'`{n}`' for n in TARGETS)}; a processor is written as in "
                "`llvm -mcpu=znver4`, of another machine as in `llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72`; "
                f"the kinds are {known}"
            )
            if name in TARGETS:
                hint = f"`{name}` is what `--target` calls `{TARGETS[name]}`: write that"
            raise TVMagicError(f"there is no kind of target `{name}`", hint=hint, code="target.unknown_kind")
        self.name = name
        self.default_keys: list[str] = KINDS[name]["keys"]
        self.default_device_type: int = KINDS[name]["device_type"]
        self.default_options: dict[str, Any] = KINDS[name].get("options", {})

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name
