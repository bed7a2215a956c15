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

    `vector`: one API call's work on 64 bytes in the first cache. `farther`: how many times longer
    it takes in the second cache. `scalar`: the same work on one element alone. `row`: the start of an
    innermost loop. `horizontal`: what a reduction along the innermost axis costs a row. `nearby`,
    `memory`: moving 64 bytes from the last cache and from main memory. `jump`: moving on at
    another place there. `fork`: starting the threads.
    """

    threads: int = 1
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    vector: float = 1.0
    farther: float = 1.7
    scalar: float = 0.6
    row: float = 3.0
    horizontal: float = 25.0
    nearby: float = 3.0
    memory: float = 6.5
    jump: float = 250.0
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
