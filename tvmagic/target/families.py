"""The families of targets: a class for each says what is different for it, and nothing else asks for a family by name.

A family is found by the beginning of the target triple. Its short names are those that users give instead of a target in
full; `tvmagic.runners` runs the code of a family by its `name`.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from tvmagic.target.systems import runs_in_qemu

K, M = 1 << 10, 1 << 20
# The prefixes of LLVM's intrinsics of architectures for which no code is made here.
ELSEWHERE = ("amdgcn", "bpf", "dx", "r600", "spv", "ve", "xcore")


@dataclass(frozen=True)
class Processors:
    """Processors that schedules take for one: vector bits and registers, multiply-adds begun in a cycle and their latency,
    bytes of the data caches and of a cache line. `names`: a regular expression for LLVM's names; empty is all.
    `stored`: bytes that two stores begun in a cycle may have together; 0 if there is one store in a cycle. `shuffles`: vectors shuffled
    in a cycle. `inserts`: elements put into a vector in a cycle; 0 if as many."""

    names: str = ""
    vector: tuple[int, int] = (128, 16)
    fma: tuple[int, int] = (1, 5)
    caches: tuple[int, ...] = (32 * K, 512 * K)
    line: int = 64
    stored: int = 0
    shuffles: int = 1
    inserts: int = 0


_FAMILIES: list[type[Family]] = []


class Family:
    """The targets of one architecture. What a subclass does not set is as it is for most.

    Attributes
    ----------
    name: what `tvmagic.runners` runs its code by; empty if nothing does.
    triples: a regular expression for the beginning of its triples.
    kinds: TVM's kinds of targets that name it without a triple.
    short_names: targets by the names that users may give instead.
    processors: what schedules depend on; the first whose names match is taken.
    triple, processor: LLVM's names if a target does not give them.
    relocations, code_model: how code finds its data, in LLVM's words.
    launches: threads and blocks are launched, as GPUs do; other targets run them as loops.
    has_threads: parallel loops run on several threads.
    calls_process: code calls functions of the process that it runs in, Python's among them.
    widens_half: vectors of float16 are compared as wider ones.
    tuning: LLVM's features that say what is slow; they change no result, and `-mattr` has the last word.
    keys: what kind of target it is, by TVM's names, before the keys that all CPUs have.
    intrinsics: the prefixes of LLVM's intrinsics that are instructions of this architecture (`x86` of `llvm.x86.*`).
    runtime: the part of the runtime (`tvmagic/runtime/ll`) with the pause of its spin loops and the speed of its counter.
    folds_signs: LLVM 22's code generator may take the signs of vectors wrongly there (`codegen/llvm/optimize.py`).
    """

    name: ClassVar[str] = ""
    triples: ClassVar[str] = ""
    kinds: ClassVar[tuple[str, ...]] = ()
    short_names: ClassVar[dict[str, str]] = {}
    processors: ClassVar[list[Processors]] = [Processors("", caches=(32 * K, 256 * K))]
    triple: ClassVar[str] = ""
    processor: ClassVar[str] = ""
    relocations: ClassVar[str] = "pic"
    code_model: ClassVar[str] = "small"
    launches: ClassVar[bool] = False
    has_threads: ClassVar[bool] = True
    calls_process: ClassVar[bool] = True
    widens_half: ClassVar[bool] = False
    tuning: ClassVar[str] = ""
    keys: ClassVar[tuple[str, ...]] = ()
    intrinsics: ClassVar[tuple[str, ...]] = ()
    runtime: ClassVar[str] = "machine_any"
    folds_signs: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        _FAMILIES.append(cls)

    def runs_as(self, target: Any) -> str:
        """What code for `target` is run by: the name of the family, and what of its features makes a difference there."""
        return self.name

    def processors_of(self, name: str) -> Processors:
        """The processors that one of LLVM's names belongs to."""
        return next(p for p in self.processors if not p.names or re.fullmatch(p.names, name))

    def vectors(self, processors: Processors, on: set[str], off: set[str]) -> tuple[int, int]:
        """Bits and number of vector registers, after the features that are switched on or off."""
        return processors.vector

    def fma(self, processors: Processors, bits: int) -> tuple[int, int]:
        """How many multiply-adds of vectors of `bits` begin in a cycle, and after how many cycles one ends."""
        return processors.fma


def family_naming(processor: str) -> type[Family] | None:
    """The family that has a processor by one of LLVM's names, if one names it."""
    return next((f for f in _FAMILIES for p in f.processors if p.names and re.fullmatch(p.names, processor)), None)


def families() -> list[type[Family]]:
    """All families, in the order in which they were declared."""
    return list(_FAMILIES)


@lru_cache
def family_of_triple(triple: str) -> Family:
    """The family of a triple, or of this machine if it is empty; plain `Family` of an architecture that is not known."""
    text = triple or platform.machine().lower()
    return next((f for f in _FAMILIES if f.triples and re.match(f.triples, text)), Family)()


def family_of(kind: str, triple: str) -> Family:
    """The family of a target: what TVM's kind `kind` names, else the triple's."""
    named = next((f for f in _FAMILIES if kind in f.kinds), None)
    return named() if named is not None else family_of_triple(triple)


# ---------------------------------------------------------------------------- CPUs


class X86(Family):
    """x86, of 64 and of 32 bits."""

    triples = "x86_64|amd64|i[3-6]86"
    intrinsics = ("x86",)
    runtime = "machine_x86"
    folds_signs = True
    # LLVM's vectorizer takes gathers for every second element, at a fourth of the speed of two loads and a shuffle; those of AMD
    # are slow, and those of Intel since their microcode was mended in 2023.
    tuning = "+prefer-no-gather"
    short_names: ClassVar[dict[str, str]] = {
        "x86_64": "llvm -mtriple=x86_64-linux-gnu",
        "x86-64-v2": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v2",
        "x86-64-v3": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3",
        "x86-64-v4": "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v4",
        "haswell": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
        "avx2": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
        "avx512": "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512",
    }
    processors: ClassVar[list[Processors]] = [
        Processors("znver[5-9]", (512, 32), (2, 4), (48 * K, M, 32 * M), stored=64, shuffles=2),
        Processors("znver4", (512, 32), (1, 4), (32 * K, M, 32 * M), stored=32, inserts=2),
        Processors("znver[23]", (256, 16), (2, 4), (32 * K, 512 * K, 16 * M), shuffles=2),
        Processors("znver1|bdver.*|btver.*", (256, 16), (1, 5), (32 * K, 512 * K, 8 * M)),
        Processors("sapphirerapids|emeraldrapids|graniterapids.*|diamondrapids", (512, 32), (2, 4), (48 * K, 2 * M, 32 * M), stored=64),
        Processors("icelake.*|tigerlake|rocketlake|cannonlake", (512, 32), (2, 4), (48 * K, 1280 * K, 24 * M), stored=64),
        Processors("skylake-avx512|skx|cascadelake|cooperlake|x86-64-v4", (512, 32), (2, 4), (32 * K, M, 16 * M)),
        Processors("knl|knm", (512, 32), (2, 6), (32 * K, 512 * K)),
        Processors("alderlake|raptorlake|meteorlake|arrowlake.*|lunarlake|pantherlake", (256, 16), (2, 4), (48 * K, 1280 * K, 24 * M), stored=64),
        Processors("haswell|core-avx2|broadwell|skylake|x86-64-v3", (256, 16), (2, 5), (32 * K, 256 * K, 8 * M)),
        Processors("gracemont|sierraforest|grandridge|clearwaterforest", (256, 16), (1, 6), (32 * K, 2 * M, 16 * M)),
        Processors("sandybridge|corei7-avx|ivybridge|core-avx-i", (256, 16), (1, 8), (32 * K, 256 * K, 8 * M)),
        Processors("", (128, 16), (1, 8), (32 * K, 256 * K, 8 * M)),
    ]  # fmt: skip

    def vectors(self, processors: Processors, on: set[str], off: set[str]) -> tuple[int, int]:
        bits, registers = processors.vector
        if "avx512f" in on:
            bits, registers = 512, 32
        elif "avx2" in on or "avx" in on:
            bits = max(bits, 256)
        if bits == 512 and off & {"avx512f", "avx2", "avx"}:
            bits, registers = 256, 16
        if bits == 256 and off & {"avx2", "avx"}:
            bits = 128
        return bits, registers

    def fma(self, processors: Processors, bits: int) -> tuple[int, int]:
        rate, latency = processors.fma
        narrower = 256 <= bits < processors.vector[0]
        return max(rate, 2) if narrower else rate, latency


class AArch64(Family):
    """ARM of 64 bits, with NEON, and SVE if the target has it."""

    name = "aarch64"
    triples = "aarch64|arm64"
    keys = ("arm_cpu",)
    intrinsics = ("aarch64",)
    runtime = "machine_aarch64"
    short_names: ClassVar[dict[str, str]] = {
        "aarch64": "llvm -mtriple=aarch64-linux-gnu",
        "arm64": "llvm -mtriple=aarch64-linux-gnu",
        "aarch64-sve": "llvm -mtriple=aarch64-linux-gnu -mattr=+sve",
    }
    processors: ClassVar[list[Processors]] = [
        Processors("apple-.*|cyclone", (128, 32), (4, 4), (128 * K, 12 * M), 128),
        Processors("neoverse-v.*|cortex-x.*", (128, 32), (4, 4), (64 * K, M, 32 * M)),
        Processors("cortex-a5.*|cortex-a3.*|cortex-r.*", (128, 32), (1, 4), (32 * K, 512 * K)),
        Processors("", (128, 32), (2, 4), (64 * K, M, 16 * M)),
    ]

    def runs_as(self, target: Any) -> str:
        if not runs_in_qemu(target.mtriple):
            return ""
        return "aarch64-sve" if target.has_sve else "aarch64"

    def vectors(self, processors: Processors, on: set[str], off: set[str]) -> tuple[int, int]:
        bits, registers = processors.vector
        return 64 if "neon" in off else bits, registers


class RiscV(Family):
    """RISC-V, with vectors if the target has them."""

    name = "riscv64"
    triples = "riscv"
    intrinsics = ("riscv",)
    short_names: ClassVar[dict[str, str]] = {
        "riscv64": "llvm -mtriple=riscv64-linux-gnu -mattr=+m,+a,+f,+d,+c,+v",
    }
    processors: ClassVar[list[Processors]] = [Processors("", (64, 32))]
    code_model = "default"

    def runs_as(self, target: Any) -> str:
        if not target.mtriple.startswith("riscv64") or not runs_in_qemu(target.mtriple):
            return ""
        return "riscv64-v" if target.has_rvv else "riscv64"

    def vectors(self, processors: Processors, on: set[str], off: set[str]) -> tuple[int, int]:
        bits, registers = processors.vector
        if "v" in on:
            bits = max([128, *(int(m[1]) for f in on if (m := re.fullmatch(r"zvl(\d+)b", f)))])
        return bits, registers


class WebAssembly(Family):
    """WebAssembly, a module of which has its memory to itself (`runtime/wasm.py`)."""

    name = "wasm32"
    triples = "wasm"
    intrinsics = ("wasm",)
    short_names: ClassVar[dict[str, str]] = {"wasm32": "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128"}
    processors: ClassVar[list[Processors]] = [Processors("", (128, 16), (1, 8), (32 * K, 256 * K))]
    relocations = "static"
    code_model = "default"
    has_threads = False
    calls_process = False
    # LLVM 22.1 never ends there where vectors of float16 are compared, and makes such comparisons of wider ones
    widens_half = True

    def runs_as(self, target: Any) -> str:
        return self.name if target.mtriple.startswith(self.name) else ""


class Arm(Family):
    """ARM of 32 bits."""

    triples = "arm|thumb"
    keys = ("arm_cpu",)
    intrinsics = ("arm",)
    processors: ClassVar[list[Processors]] = [Processors()]


class Power(Family):
    """PowerPC, of 64 and of 32 bits."""

    triples = "powerpc|ppc"
    intrinsics = ("ppc",)
    processors: ClassVar[list[Processors]] = [Processors("", (128, 64), (2, 6), (32 * K, 512 * K, 8 * M), 128)]


class SystemZ(Family):
    """IBM's Z."""

    triples = "s390x"
    intrinsics = ("s390",)
    processors: ClassVar[list[Processors]] = [Processors("", (128, 32), (2, 6), (128 * K, 4 * M), 256)]


class Others(Family):
    """Architectures whose code generators take all that is emitted, and of which no more is known here."""

    triples = "loongarch|mips|sparc|hexagon"
    intrinsics = ("loongarch", "mips", "sparc", "hexagon")


# ---------------------------------------------------------------------------- GPUs


class NVPTX(Family):
    """NVIDIA's GPUs."""

    name = "nvptx64"
    triples = "nvptx"
    kinds = ("cuda", "nvptx")
    intrinsics = ("nvvm",)
    short_names: ClassVar[dict[str, str]] = {"nvptx64": "llvm -mtriple=nvptx64-nvidia-cuda"}
    triple = "nvptx64-nvidia-cuda"
    processor = "sm_70"
    code_model = "default"
    launches = True
    has_threads = False


class OpenCL(Family):
    """Devices for which OpenCL C is written; no triple names them."""

    name = "opencl"
    kinds = ("opencl",)
    short_names: ClassVar[dict[str, str]] = {"opencl": "opencl"}
    launches = True
