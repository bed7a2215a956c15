"""What the cost model knows of the machine: caches in the place of local memory, threads of cores."""

from __future__ import annotations

import os
import pathlib
import re
from dataclasses import dataclass

__all__ = ["Machine", "this_machine"]

_CACHES = pathlib.Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


@dataclass(frozen=True)
class Machine:
    """Sizes in bytes, times in nanoseconds of one core.

    `vector`: one addition of 64 bytes in registers; each operand in the first cache costs about as
    much again. `farther`, `farthest`: how many times longer the way to the second and the last
    cache is than to the first. `scalar`: one addition of a single element. `row`: the start of an
    innermost loop. `horizontal`: what a reduction along the innermost axis costs a row.
    `nearby`, `memory`: reading 64 bytes from the last cache and from main memory. `scattered`: how
    many times longer that takes in pieces that do not follow each other, `jump` what each piece
    costs besides. `fork`: starting the threads.
    """

    threads: int = 1
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    vector: float = 0.27
    farther: float = 3.0
    farthest: float = 6.0
    scalar: float = 0.4
    row: float = 2.0
    horizontal: float = 12.0
    nearby: float = 1.0
    memory: float = 2.4
    scattered: float = 2.2
    jump: float = 40.0
    fork: float = 5_000.0

    @property
    def local_memory(self) -> int:
        """The bytes that the local buffers of a tile may take: the second cache without room for the data itself."""
        return self.l2 * 3 // 4


def this_machine(threads: int | None = None) -> Machine:
    """This machine, its caches as the system tells them; with `threads` cores, all unless told."""
    sizes = {"1": Machine.l1, "2": Machine.l2, "3": Machine.l3}
    for entry in sorted(_CACHES.glob("index*")) if _CACHES.is_dir() else []:
        try:
            level, kind = ((entry / name).read_text().strip() for name in ("level", "type"))
            found = re.fullmatch(r"(\d+)([KM]?)", (entry / "size").read_text().strip())
        except OSError:
            continue
        if found is not None and kind != "Instruction" and level in sizes:
            sizes[level] = int(found.group(1)) * _UNITS[found.group(2)]
    return Machine(threads or os.cpu_count() or 1, sizes["1"], sizes["2"], sizes["3"])
