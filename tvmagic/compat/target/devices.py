"""Targets by the names of devices: `target.cuda()`, `target.arm_cpu("pixel2")`."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.target import Target

Options = str | Sequence[str] | None

# Boards for AArch64 and ARM, by what their processors are compiled for.
_AARCH64 = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
_ARMV7 = "llvm -mtriple=armv7l-linux-gnueabihf -mattr=+neon"
_BOARDS = {
    **dict.fromkeys(
        ("pixel2", "mate10", "mate10pro", "p20", "p20pro"), "llvm -mtriple=arm64-linux-android -mattr=+neon"
    ),
    **dict.fromkeys(("rasp4b64", "rk3399"), _AARCH64),
    **dict.fromkeys(("rasp3b", "rasp4b"), _ARMV7),
    "pynq": "llvm -mtriple=armv7a-linux-eabi -mattr=+neon",
    "ultra96": _AARCH64,
}


def create(target: object) -> Target:
    """The target of a text or mapping."""
    return Target(target)


def _create_target(kind: str, fixed: str, options: Options) -> Target:
    """A target of `kind` with the options `fixed`, of which those that are given replace those of the same name."""
    given = options.split() if isinstance(options, str) else list(options or ())
    names = {option.partition("=")[0] for option in given}
    kept = [option for option in fixed.split() if option.partition("=")[0] not in names]
    return Target(" ".join([kind, *kept, *given]))


def cuda(model: str = "unknown", arch: str | None = None, options: Options = None) -> Target:
    """A GPU of NVIDIA, of the compute capability `arch` (`sm_80`)."""
    return _create_target("cuda", f"-model={model}" + (f" -arch={arch}" if arch else ""), options)


def rocm(model: str = "unknown", options: Options = None) -> Target:
    """A GPU of AMD."""
    return _create_target("rocm", f"-model={model}", options)


def mali(model: str = "unknown", options: Options = None) -> Target:
    """A GPU of ARM, of the architecture Midgard."""
    return _create_target("opencl", f"-device=mali -model={model}", options)


def bifrost(model: str = "unknown", options: Options = None) -> Target:
    """A GPU of ARM, of the architecture Bifrost."""
    return _create_target("opencl", f"-device=bifrost -model={model}", options)


def intel_graphics(model: str = "unknown", options: Options = None) -> Target:
    """A GPU in a processor of Intel; its warps have 16 threads."""
    return _create_target("opencl", f"-device=intel_graphics -model={model} -thread_warp_size=16", options)


def adreno(model: str = "unknown", options: Options = None) -> Target:
    """A GPU of Qualcomm."""
    return _create_target("opencl", f"-device=adreno -model={model}", options)


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """A processor of ARM; the triple and features of boards that are known by name are set."""
    kind, _, fixed = _BOARDS.get(model, "llvm").partition(" ")
    return _create_target(kind, f"-keys=arm_cpu,cpu -device=arm_cpu -model={model} {fixed}", options)


def rasp(options: Options = None) -> Target:
    """A Raspberry Pi 3B."""
    return arm_cpu("rasp3b", options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A processor of RISC-V with 64 bits and the extensions `gc`."""
    processor = " -mcpu=sifive-u54" if model == "sifive-u54" else ""
    fixed = (
        f"-keys=arm_cpu,cpu -device=arm_cpu -model={model} -mtriple=riscv64-unknown-linux-gnu{processor} -mabi=lp64d"
    )
    return _create_target("llvm", f"{fixed} -mattr=+64bit,+m,+a,+f,+d,+c", options)


def vta(model: str = "unknown", options: Options = None) -> Target:
    """The open accelerator VTA."""
    return _create_target("ext_dev", f"-keys=vta,cpu -device=vta -model={model}", options)
