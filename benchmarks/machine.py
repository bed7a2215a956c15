"""What this machine can do at most: its multiply-add peak and the bandwidth of a copy, one thread."""

from __future__ import annotations

import ctypes
import time

import numpy as np

_ACCUMULATORS = 24


def _code(text: str, name: str) -> int:
    import llvmlite.binding as llvm

    from tvmagic.codegen.optimize import object_of, optimized
    from tvmagic.codegen.target import host_target
    from tvmagic.runtime.jit import LoadedObject

    target = host_target()
    text = f'target triple = "{llvm.get_process_triple()}"\n{text}'
    loaded = LoadedObject(object_of(optimized(text, target), target), [name]).immortal()
    return loaded.address(name)


def _lanes() -> int:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 16 if features.get("avx512f") else 8 if features.get("avx2") else 4


def peak_flops(repeat: int = 5) -> float:
    """Floating point operations a second of independent float32 multiply-adds in registers."""
    lanes = _lanes()
    kind, count = f"<{lanes} x float>", _ACCUMULATORS if lanes == 16 else 12
    phis = "\n".join(f"  %a{i} = phi {kind} [ zeroinitializer, %entry ], [ %b{i}, %loop ]" for i in range(count))
    steps = "\n".join(
        f"  %b{i} = call {kind} @llvm.fma.v{lanes}f32({kind} %x, {kind} %y, {kind} %a{i})" for i in range(count)
    )
    total, sums = "%b0", []
    for i in range(1, count):
        sums.append(f"  %s{i} = fadd {kind} {total}, %b{i}")
        total = f"%s{i}"
    text = f"""
declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})
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
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(_code(text, "peak"))
    data = np.full(lanes, 1e-3, "float32")
    rounds, best = 2_000_000, 0.0
    for _ in range(repeat):
        data[:] = 1e-3
        begin = time.perf_counter()
        run(rounds, data.ctypes.data)
        seconds = time.perf_counter() - begin
        best = max(best, 2.0 * lanes * count * rounds / seconds)
    return best


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
