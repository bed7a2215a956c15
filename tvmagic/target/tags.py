"""Names for sets of options: `Target("nvidia/nvidia-a100")`."""

from __future__ import annotations

from typing import Any

__all__ = ["list_tags", "tagged_target"]

# NVIDIA's GPUs by their compute capability.
_NVIDIA = {
    "sm_60": "tesla-p100", "sm_61": "tesla-p40 tesla-p4 geforce-gtx-1080-ti geforce-gtx-1080 geforce-gtx-1070 "
    "geforce-gtx-1060 nvidia-titan-x", "sm_70": "tesla-v100 nvidia-v100 nvidia-titan-v",
    "sm_72": "jetson-agx-xavier-gpu", "sm_75": "nvidia-t4 tesla-t4 geforce-rtx-2080-ti geforce-rtx-2080 "
    "geforce-rtx-2070 geforce-rtx-2060 nvidia-titan-rtx", "sm_80": "nvidia-a100 nvidia-a30",
    "sm_86": "nvidia-a40 nvidia-a10 nvidia-a10g nvidia-a2 geforce-rtx-3090-ti geforce-rtx-3090 geforce-rtx-3080-ti "
    "geforce-rtx-3080 geforce-rtx-3070 geforce-rtx-3060", "sm_89": "nvidia-l4 nvidia-l40 geforce-rtx-4090 "
    "geforce-rtx-4080 geforce-rtx-4070", "sm_90a": "nvidia-h100",
}  # fmt: skip
_BLOCK = {"max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536}
_L2_CACHE = {"nvidia-a100": 41943040, "nvidia-h100": 52428800, "geforce-rtx-4090": 75497472}
_ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"]}
_CPUS: dict[str, dict[str, Any]] = {
    "raspberry-pi/4b-aarch64": {**_ARM, "mcpu": "cortex-a72", "num-cores": 4, "host": {**_ARM, "mcpu": "cortex-a72"}},
    "nvidia/jetson-agx-xavier": {
        "kind": "cuda", "arch": "sm_72", **_BLOCK,
        "host": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "carmel", "num-cores": 8},
    },
    **{f"aws/cpu/c5.{size}": {"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": cores} for size, cores in (
        ("large", 1), ("xlarge", 2), ("2xlarge", 4), ("4xlarge", 8), ("9xlarge", 18), ("12xlarge", 24),
        ("18xlarge", 36), ("24xlarge", 48),
    )},
}  # fmt: skip


def _tags() -> dict[str, dict[str, Any]]:
    found = dict(_CPUS)
    for arch, names in _NVIDIA.items():
        for name in names.split():
            found[f"nvidia/{name}"] = {"kind": "cuda", "arch": arch, **_BLOCK}
            if name in _L2_CACHE:
                found[f"nvidia/{name}"]["l2_cache_size_bytes"] = _L2_CACHE[name]
    return found


_TAGS = _tags()


def tagged_target(tag: str) -> dict[str, Any] | None:
    """The options of a tag, with the tag itself; None if there is no such tag."""
    found = _TAGS.get(tag)
    return None if found is None else {**found, "tag": tag}


def list_tags() -> list[str]:
    """All tags."""
    return sorted(_TAGS)
