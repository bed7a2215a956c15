"""What schedules depend on in a processor: vectors, registers, multiply-adds, caches, cores.

A named processor (`-mcpu=haswell`) is looked up in a table of families; the host's vectors come from LLVM's name and
features, its caches from the operating system where that tells them.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import ClassVar

from tvmagic.ir import DataType, dtype_of
from tvmagic.target.families import Family, K, M, family_of_triple
from tvmagic.target.host import has_llvm


@dataclass(frozen=True)
class Cache:
    """A cache for data: its level from 1, its size in bytes, and how many cores share it."""

    level: int
    size: int
    cores: int = 1


@dataclass(frozen=True)
class Tile:
    """A tile of a product kept in registers: `rows` times `vectors` sums of `lanes` elements each.

    `registers` is how many vector registers there are. As text it says which of them the tile takes.
    """

    rows: int
    vectors: int
    lanes: int
    registers: int

    @property
    def columns(self) -> int:
        """Elements of a row of the tile."""
        return self.vectors * self.lanes

    def __str__(self) -> str:
        plural = "s" if self.vectors > 1 else ""
        return (
            f"{self.rows} rows x {self.vectors} vector{plural} of {self.lanes}: {self.rows * self.vectors} of "
            f"{self.registers} registers for sums, {self.vectors + 1} for operands"
        )


@dataclass(frozen=True)
class Machine:
    """A processor, as far as schedules depend on it.

    Attributes
    ----------
    name: the processor by LLVM's name.
    vector_bits, vector_registers: the width of a vector register in bits, and how many there are.
    fma_per_cycle, fma_latency: vectors of multiply-adds begun in a cycle, and cycles until a result is there.
    loads_per_cycle: vectors loaded in a cycle.
    line: bytes of a cache line.
    caches: the caches for data, from level 1.
    cores: the cores that programs may use.
    source: where the numbers are from, in words.
    generic: whether nothing is known of the processor, and the numbers are those of a common one.
    stored: bytes that two stores begun in a cycle may have together; 0 if there is one store in a cycle.
    shuffles_per_cycle: vectors shuffled in a cycle.
    inserts_per_cycle: elements put into a vector in a cycle.
    """

    name: str
    vector_bits: int
    vector_registers: int
    fma_per_cycle: int
    fma_latency: int
    loads_per_cycle: int
    line: int
    caches: tuple[Cache, ...]
    cores: int
    source: str
    generic: bool = False
    stored: int = 0
    shuffles_per_cycle: int = 1
    inserts_per_cycle: int = 1

    # A strided load is contiguous loads and shuffles up to this stride: elements loaded in vain cost less than a load a
    # lane.
    widest_shuffle: ClassVar[int] = 4
    # Adjacent elements that an iteration may store for shuffles to interleave the vectors of several iterations.
    interleaved: ClassVar[range] = range(2, 5)

    def lanes(self, dtype: DataType | str) -> int:
        """Elements of a data type in a vector register, at least 1."""
        return max(1, self.vector_bits // dtype_of(dtype).bits)

    @property
    def masks(self) -> bool:
        """Whether some lanes of a vector are loaded and stored alone: on x86 those of 256 bits and more."""
        return self.vector_bits >= 256

    @property
    def scatters(self) -> bool:
        """Whether it has an instruction that stores the lanes of a vector at separate addresses: x86 with 512 bits."""
        return self.vector_bits >= 512

    def cache(self, level: int) -> int:
        """Bytes of the cache of a level that one core may count on; those of the last level where it has fewer."""
        cache = next((c for c in self.caches if c.level >= level), self.caches[-1])
        return cache.size // max(1, min(cache.cores, self.cores)) if cache.level > 2 else cache.size

    def storing(self, size: int) -> float:
        """Cycles that a store of so many bytes takes of those that stores have."""
        return max(0.5, size / self.stored) if self.stored else 1.0

    def sums_in_flight(self) -> int:
        """How many independent sums keep the multiply-adders busy."""
        return self.fma_per_cycle * self.fma_latency

    def tile_cost(self, rows: int, vectors: int) -> float:
        """Cycles for a step of a tile of sums in registers.

        The slowest of its multiply-adds, their latency and its loads; a little for each load, as they share the ports
        with others, and for sums so few that a delay of one delays all.
        """
        work = rows * vectors / self.fma_per_cycle
        cycles = max(work, float(self.fma_latency), (rows + vectors) / self.loads_per_cycle)
        return cycles + 0.05 * (rows + vectors) + 0.2 * max(0.0, 1.5 * self.fma_latency - work)

    def tiles(self) -> list[tuple[int, int]]:
        """All tiles (rows, vectors) whose sums fit the registers beside a row of vectors and the broadcast elements.

        With one or two vectors, the next element is broadcast while the present one is still multiplied.
        """
        most = self.vector_registers
        return [(r, v) for v in range(1, 5) for r in range(1, most) if r * v + v + (2 if v < 3 else 1) <= most]

    def tile(self, dtype: DataType | str = "float32", rows: int | None = None, columns: int | None = None) -> Tile:
        """The tile of a large product that takes the fewest cycles for an element.

        It divides `rows` and `columns`, the sizes of the product, if they are given and a tile that does is not much
        slower than the best one.
        """
        lanes = self.lanes(dtype)

        def cost(shape: tuple[int, int]) -> float:
            return self.tile_cost(*shape) / (shape[0] * shape[1])

        best = min(self.tiles(), key=cost)
        even = [t for t in self.tiles() if (rows or 0) % t[0] == 0 and (columns or 0) % (t[1] * lanes) == 0]
        chosen = min((t for t in even if cost(t) < 1.5 * cost(best)), key=cost, default=best)
        return Tile(*chosen, lanes, self.vector_registers)


@lru_cache
def described(triple: str, cpu: str, features: str, is_host: bool, cores: int | None) -> Machine:
    """The processor `cpu` with LLVM's `features` (`+avx2,-fma`); `is_host` if this process runs on it."""
    family = family_of_triple(triple)
    known = family.processors_of(cpu)
    on = {f[1:] for f in features.split(",") if f.startswith("+")}
    off = {f[1:] for f in features.split(",") if f.startswith("-")}
    bits, registers = family.vectors(known, on, off)
    caches = tuple([Cache(n + 1, size, _count() if n == 2 else 1) for n, size in enumerate(known.caches)])
    source = f"the family of {cpu or triple.split('-')[0]}"
    generic = family.processors is Family.processors and not is_host
    if generic:
        source = f"a common processor, as nothing is known of {cpu or triple.split('-')[0]}"
    if is_host:
        found = host_caches()
        source = ("LLVM's features" if has_llvm() else "what Python says") + (
            " and the operating system's caches" if found else ", the caches of its family"
        )
        caches = found or caches
    rate, latency = family.fma(known, bits)
    line = (_host_line() if is_host else None) or known.line
    name = cpu or triple.split("-")[0]
    return Machine(
        name,
        bits,
        registers,
        rate,
        latency,
        2,
        line,
        caches,
        cores or _count(),
        source,
        generic,
        known.stored,
        known.shuffles,
        known.inserts or known.shuffles,
    )


@cache
def _count() -> int:
    """The cores that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


# ---------------------------------------------------------------------------- the host's caches

_SYSTEM = pathlib.Path("/sys/devices/system/cpu")


@cache
def host_caches() -> tuple[Cache, ...]:
    """The data caches of this machine's first core by the operating system; empty if it does not tell them."""
    try:
        return _linux_caches(_SYSTEM / "cpu0" / "cache") or _mac_caches()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def _linux_caches(folder: pathlib.Path) -> tuple[Cache, ...]:
    found: list[Cache] = []
    for index in sorted(folder.glob("index*")):

        def read(name: str, index: pathlib.Path = index) -> str:
            return (index / name).read_text().strip()

        if read("type") == "Instruction":
            continue
        size = re.fullmatch(r"(\d+)([KMG]?)", read("size"))
        if size is None or not int(size[1]):
            continue
        unit = {"": 1, "K": K, "M": M, "G": K * M}[size[2]]
        found.append(Cache(int(read("level")), int(size[1]) * unit, _cores_in(read("shared_cpu_list"))))
    return tuple(sorted(found, key=lambda c: c.level))


def _cores_in(text: str) -> int:
    """How many cores a list such as `0-3,8` names."""
    total = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return max(total, 1)


def _mac_caches() -> tuple[Cache, ...]:
    if sys.platform != "darwin":
        return ()
    found: list[Cache] = []
    for level, names in ((1, ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize")), (2, ("hw.perflevel0.l2cachesize", "hw.l2cachesize")), (3, ("hw.l3cachesize",))):  # fmt: skip
        size = next(filter(None, map(_mac_number, names)), 0)
        if size:
            found.append(Cache(level, size))
    return tuple(found)


def _mac_number(name: str) -> int:
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    return int(done.stdout) if done.stdout.strip().isdigit() else 0


@cache
def _host_line() -> int | None:
    try:
        return int((_SYSTEM / "cpu0" / "cache" / "index0" / "coherency_line_size").read_text())
    except (OSError, ValueError):
        return None


def at_width(machine: Machine, bits: int) -> Machine:
    """The same machine with vectors of `bits`, as the target's option `vector-width` asks."""
    return replace(machine, vector_bits=bits)
