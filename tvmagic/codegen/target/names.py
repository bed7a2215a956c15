"""Short names of targets, for users who want to see or to run what is compiled for another machine."""

from __future__ import annotations

from tvmagic.errors import TVMagicError, did_you_mean

__all__ = ["TARGETS", "target_text"]

TARGETS = {
    "aarch64": "llvm -mtriple=aarch64-linux-gnu",
    "arm64": "llvm -mtriple=aarch64-linux-gnu",
    "aarch64-sve": "llvm -mtriple=aarch64-linux-gnu -mattr=+sve",
    "riscv64": "llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+c,+v",
    "wasm32": "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128",
    "nvptx64": "llvm -mtriple=nvptx64-nvidia-cuda",
    "opencl": "opencl",
    "x86_64": "llvm -mtriple=x86_64-linux-gnu",
    "x86-64-v2": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2",
    "x86-64-v3": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3",
    "x86-64-v4": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4",
    "haswell": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "avx2": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "avx512": "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512",
}


def target_text(target: str | None) -> str | None:
    """A target in full; None is this machine.

    Raises TVMagicError for a name that is nearly one of the short names.
    """
    if target in (None, "", "host", "llvm"):
        return None
    meant = did_you_mean(target or "", TARGETS)
    if meant and target not in TARGETS:
        raise TVMagicError(f"there is no target `{target}`", hint=f"{meant} The short names are {', '.join(TARGETS)}")
    return TARGETS.get(target or "", target)
