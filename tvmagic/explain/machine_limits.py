"""Peak rate of a machine for an operator: multiply-adds, or the bandwidth of the memory of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvmagic import runtime
from tvmagic.eval.cost import human
from tvmagic.model.traffic import BYTES_A_CYCLE
from tvmagic.operators.measure import Work
from tvmagic.operators.peaks import Peaks, kept_peaks
from tvmagic.target import resolved
from tvmagic.target.machine import Machine

HERTZ = 3e9  # cycles of a second, of a processor whose peak was not measured

_TOO_LOW = "more was reached: the model takes this machine for a slower one"
_BUSY = "more was reached: other work was measured with it, or several threads or a larger cache help; `%machine --again` measures it again"


@dataclass(frozen=True)
class Roof:
    """What limits an operator.

    Attributes
    ----------
    unit: `GFLOP/s` if computing limits it, `GB/s` if the memory that its arguments are in does.
    count: what a call does of it: operations on floats, or bytes of its arguments.
    peak: how much of it the machine does in a second.
    words: a sentence on the count, the peak and where that is from.
    beyond: what it means if more than the peak is reached.
    """

    unit: str
    count: int
    peak: float
    words: str
    beyond: str

    def rate(self, seconds: float) -> float:
        """Thousand millions a second of a call that takes so long."""
        return self.count / seconds / 1e9

    def share(self, seconds: float) -> float:
        """The share of the peak that such a call reaches."""
        return self.count / seconds / self.peak


def roof_of(work: Work, target: Any = None) -> Roof:
    """The limit that work meets first, for all threads that programs may use. Nothing is measured.

    The peaks are those that `%machine` kept; without them they follow from the description of the machine.

    Raises TVMagicError if the target is not a CPU.
    """
    machine, threads = resolved(target).machine, runtime.num_threads()
    kept = kept_peaks(target)
    cycles = hertz_of(machine, kept) if kept is not None else HERTZ
    beyond = _BUSY if kept is not None else _TOO_LOW
    source = "measured by `%machine`" if kept is not None else "by the model, at 3 GHz; `%machine` measures it"
    width = max(work.bits, 32)  # halves are computed as float32
    flops = 2 * machine.lanes(f"float{width}") * machine.fma_per_cycle * cycles * threads
    level, bandwidth = _memory(machine, work.bytes, cycles, threads)
    if level == "memory" and kept is not None:
        bandwidth = kept.bandwidth
    if work.flops / flops >= work.bytes / bandwidth:
        peak = f"{flops / 1e9:.3g}, {_on(threads)} of float{width} multiply-adds, {source}"
        words = f"GFLOP/s: {human(work.flops)} operations on floats a call; the peak is {peak}"
        return Roof("GFLOP/s", work.flops, flops, words, beyond)
    moved = f"GB/s: {human(work.bytes, 'B')} of arguments a call"
    if level == "memory":
        words = f"{moved}; the peak is {bandwidth / 1e9:.3g}, a copy by one thread, {source}"
        return Roof("GB/s", work.bytes, bandwidth, words, beyond)
    words = f"{moved}, which {level} holds; the peak is {bandwidth / 1e9:.3g}, {_on(threads)}, by the model"
    return Roof("GB/s", work.bytes, bandwidth, words, _TOO_LOW)


def bandwidths(machine: Machine, peaks: Peaks) -> dict[str, float]:
    """The bytes a second that one core gets from each level of memory: from memory as measured, from caches by the model."""
    cycles = hertz_of(machine, peaks)
    caches = {level: width * cycles for level, width in BYTES_A_CYCLE.items()}
    return {"L1": _first_cache(machine) * cycles, **caches, "memory": peaks.bandwidth}


def hertz_of(machine: Machine, peaks: Peaks) -> float:
    """Cycles a second, by the peak that was measured."""
    return peaks.flops / (2 * machine.lanes("float32") * machine.fma_per_cycle)


def _first_cache(machine: Machine) -> float:
    """The bytes a cycle that a core loads from its first cache."""
    return machine.loads_per_cycle * machine.vector_bits / 8


def _on(threads: int) -> str:
    return f"{threads} threads" if threads > 1 else "one thread"


def _memory(machine: Machine, size: int, cycles: float, threads: int) -> tuple[str, float]:
    """The nearest memory that holds so many bytes, and the bytes a second that cores get from it."""
    if size <= machine.cache(1):
        return "L1", _first_cache(machine) * cycles * threads
    for level in (2, 3):
        if size <= machine.cache(level):
            return f"L{level}", BYTES_A_CYCLE[f"L{level}"] * cycles * threads
    return "memory", BYTES_A_CYCLE["memory"] * cycles
