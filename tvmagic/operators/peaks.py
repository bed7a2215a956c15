"""What a machine can do at most: its multiply-add peak and the bandwidth of a copy, one thread, measured once."""

from __future__ import annotations

import contextlib
import ctypes
import math
import pathlib
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.files import cache_folder, read_table, write_table
from tvmagic.target import Target, resolved
from tvmagic.target.host import host_triple

_ROUNDS = 400_000


class Peaks(NamedTuple):
    """Floating point operations a second of float32 multiply-adds, and bytes a second, read and written, of a copy."""

    flops: float
    bandwidth: float


def measured_peaks(target: Any = None, again: bool = False) -> Peaks:
    """The peaks of this machine by code for `target`: those kept from an earlier session, unless `again`.

    The file `machine.json` in the cache folder holds them by processor and vector width; if it cannot be written
    they are measured in each session.
    """
    chosen = resolved(target)
    key, path = _key(chosen), _path()
    kept = _read(path)
    if key in kept and not again:
        return Peaks(*kept[key])
    peaks = Peaks(peak_flops(target=chosen), copy_bandwidth())
    kept[key] = list(peaks)
    with contextlib.suppress(TVMagicError):  # a folder that cannot be written
        write_table(path, kept)
    return peaks


def kept_peaks(target: Any = None) -> Peaks | None:
    """The peaks that an earlier measurement kept; None if there was none."""
    found = _read(_path()).get(_key(resolved(target)))
    return Peaks(*found) if found is not None else None


def _path() -> pathlib.Path:
    """The file that holds the peaks."""
    return cache_folder() / "machine.json"


def _key(target: Target) -> str:
    """What peaks are kept by: this processor, and the vectors of the code."""
    machine = target.machine
    return f"{resolved('llvm').machine.name}, {machine.vector_bits} bits, {machine.vector_registers} registers"


def _read(path: pathlib.Path) -> dict[str, list[float]]:
    """Return the peaks that a file holds by processor, without those that are no finite positive numbers."""
    return {
        key: [float(v) for v in values]
        for key, values in read_table(path).items()
        if isinstance(values, list) and len(values) == 2 and all(map(_is_peak, values))
    }


def _is_peak(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 < value < math.inf and value <= sys.float_info.max


def peak_flops(repeat: int = 9, target: Target | None = None) -> float:
    """Floating point operations a second of independent float32 multiply-adds in the registers of `target`."""
    from tvmagic.codegen.llvm.optimize import object_of, optimized
    from tvmagic.runtime.jit import LoadedObject

    chosen = resolved(target).for_this_machine()
    machine = chosen.machine
    lanes, count = machine.lanes("float32"), min(24, machine.vector_registers - 4)
    loaded = LoadedObject(object_of(optimized(_fma_text(lanes, count), chosen), chosen), ["peak"]).immortal()
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(loaded.address("peak"))
    data = np.full(lanes, 1e-3, "float32")
    best = 0.0
    for _ in range(repeat):
        data[:] = 1e-3
        begin = time.perf_counter()
        run(_ROUNDS, data.ctypes.data)
        best = max(best, 2.0 * lanes * count * _ROUNDS / (time.perf_counter() - begin))
    return best


def _fma_text(lanes: int, count: int) -> str:
    """A loop of `count` independent multiply-adds of vectors, as LLVM's text."""
    kind = f"<{lanes} x float>"
    phis = "\n".join(f"  %a{i} = phi {kind} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in range(count))
    steps = "\n".join(
        f"  %b{i} = call {kind} @llvm.fmuladd.v{lanes}f32({kind} %x, {kind} %y, {kind} %a{i})" for i in range(count)
    )
    total, sums = "%b0", []
    for i in range(1, count):
        sums.append(f"  %s{i} = fadd {kind} {total}, %b{i}")
        total = f"%s{i}"
    return f"""target triple = "{host_triple()}"
declare {kind} @llvm.fmuladd.v{lanes}f32({kind}, {kind}, {kind})
define void @peak(i64 %n, ptr %p) {{
entry:
  %x = load {kind}, ptr %p, align 4
  %y = fmul {kind} %x, %x
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{phis}
{steps}
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
{chr(10).join(sums)}
  store {kind} {total}, ptr %p, align 4
  ret void
}}
"""


def copy_bandwidth(megabytes: int = 64, repeat: int = 7) -> float:
    """Bytes a second, read and written, of NumPy's copy of an array far larger than the caches."""
    source = np.ones(megabytes << 18, "float32")
    target = np.zeros_like(source)
    best = 0.0
    for _ in range(repeat):
        begin = time.perf_counter()
        np.copyto(target, source)
        best = max(best, 2 * source.nbytes / (time.perf_counter() - begin))
    return best
