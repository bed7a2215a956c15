"""What the cost models know of a machine: this CPU, with caches for local memory and threads for cores; or an NPU."""

from __future__ import annotations

import os
import pathlib
import re
from dataclasses import dataclass

from tvmagic.errors import TVMagicError, a_thing, did_you_mean

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


@dataclass(frozen=True)
class Npu:
    """An NPU of Ascend: cores, and bytes of local memory (UB) of each, in blocks of `block` bytes.

    What calls of an NPU cost is not published. `start`, `move`, `vector` are assumed: nanoseconds until a call begins, and
    bytes a nanosecond that a core moves and computes on. With them sizes can be compared, times are not predicted.
    """

    name: str
    cores: int
    ub_size: int
    block: int = 32
    start: float = 20.0
    move: float = 24.0
    vector: float = 200.0

    @property
    def threads(self) -> int:
        """The cores."""
        return self.cores

    @property
    def local_memory(self) -> int:
        """The bytes that queues and buffers may take."""
        return self.ub_size


AnyMachine = Machine | Npu
NPUS = {npu.name: npu for npu in (Npu("atlas_a2", 48, 196352), Npu("atlas_a2_40", 40, 196352))}


def machine_of(value: AnyMachine | str | None) -> AnyMachine:
    """A machine, or the NPU of a name; None is this machine. Raises TVMagicError for a name that is not known."""
    if value is None:
        return this_machine()
    if isinstance(value, str):
        if value not in NPUS:
            raise TVMagicError(
                f"there is no machine `{value}`",
                hint=did_you_mean(value, NPUS) or f"one of {', '.join(NPUS)}",
                code="ascend.machine.unknown",
            )
        return NPUS[value]
    if not isinstance(value, (Machine, Npu)):
        raise TVMagicError(
            f"{a_thing(value)} is not a machine",
            hint=f"a Machine, an Npu, or one of {', '.join(NPUS)}",
            code="ascend.machine.not_a_machine",
        )
    return value


def this_machine(threads: int | None = None) -> Machine:
    """This machine, its caches as the system tells them; with `threads` cores, all by default."""
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
