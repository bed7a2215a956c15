"""The sides of the comparison: how each compiles a kernel and runs it on given arrays."""

from __future__ import annotations

import functools
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.halide_kernels import HALIDE_KERNELS
from benchmarks.kernels import Kernel, Steps
from tvmagic.target import resolved

Run = Callable[[], Any]


class NotThere(Exception):
    """A side has no version of a kernel."""


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a multiple of 64 bytes, so that no side has an advantage by chance."""
    from tvmagic.runtime.ndarray import aligned_empty

    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


class Ours:
    """tvmagic."""

    name = "tvmagic"

    def __init__(self, threads: int) -> None:
        from tvmagic import runtime

        runtime.set_num_threads(threads)

    def compile(self, kernel: Kernel) -> tuple[Any, float, float]:
        """The built module, and the seconds of lowering and of building."""
        import tvmagic
        from tvmagic import codegen, te, tir
        from tvmagic.codegen.llvm.cache import clear_cache

        if kernel.schedule is None:
            raise NotThere("no schedule by hand")
        sch = tir.Schedule(te.create_prim_func(kernel.build(te)))
        kernel.schedule(Steps(sch))
        clear_cache()
        begin = time.perf_counter()
        lowered = tvmagic.lower(sch.mod)
        middle = time.perf_counter()
        built = codegen.compile_module(lowered)
        return built, middle - begin, time.perf_counter() - middle

    def runner(self, kernel: Kernel, arrays: list[np.ndarray], out: np.ndarray) -> Run:
        built = self.compile(kernel)[0]
        return built.entry_func.prepared(*arrays, out)


class Instant(Ours):
    """tvmagic with the schedule that it makes by itself, of the expression without any packing."""

    name = "auto"

    def compile(self, kernel: Kernel) -> tuple[Any, float, float]:
        """The built module, and the seconds of deciding and of lowering and building."""
        import tvmagic
        from tvmagic import te, tune

        func = te.create_prim_func((kernel.plain or kernel.build)(te))
        begin = time.perf_counter()
        sch = tune.auto(func)
        middle = time.perf_counter()
        return tvmagic.build(sch.mod), middle - begin, time.perf_counter() - middle

    def decide(self, kernel: Kernel) -> float:
        """The seconds of deciding alone."""
        from tvmagic import te, tune

        func = te.create_prim_func((kernel.plain or kernel.build)(te))
        begin = time.perf_counter()
        tune.auto(func)
        return time.perf_counter() - begin


class NumPySide:
    """NumPy."""

    name = "NumPy"

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def runner(self, kernel: Kernel, arrays: list[np.ndarray], out: np.ndarray) -> Run:
        def run() -> None:
            self.result = kernel.numpy(*arrays)

        if isinstance(kernel.numpy, np.ufunc):
            return lambda: kernel.numpy(*arrays, out=out)  # type: ignore[call-arg]
        run()
        out[...] = self.result
        return run


class NumbaSide:
    """Numba with fastmath."""

    name = "Numba"

    def __init__(self, threads: int) -> None:
        import numba

        self.numba, self.parallel = numba, threads > 1
        if self.parallel:
            numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]

    def runner(self, kernel: Kernel, arrays: list[np.ndarray], out: np.ndarray) -> Run:
        if kernel.numba is None:
            raise NotThere("not written")
        compiled = kernel.numba(self.numba, self.parallel)
        compiled(*arrays, out)
        return lambda: compiled(*arrays, out)


class TVMSide:
    """TVM (the apache-tvm wheel) with the same expression and the same schedule."""

    name = "TVM"

    def __init__(self, threads: int) -> None:
        os.environ["TVM_NUM_THREADS"] = str(threads)
        import tvm
        from tvm import s_tir, te

        self.tvm, self.s_tir, self.te = tvm, s_tir, te
        configure = tvm.get_global_func("runtime.config_threadpool", allow_missing=True)
        if configure is not None:
            configure(1, threads)

    def compile(self, kernel: Kernel) -> tuple[Any, float]:
        """The executable, and the seconds of lowering and building."""
        import llvmlite.binding as llvm

        if kernel.schedule is None:
            raise NotThere("no schedule by hand")
        sch = self.s_tir.Schedule(self.te.create_prim_func(kernel.build(self.te)))
        kernel.schedule(Steps(sch))
        target = self.tvm.target.Target({"kind": "llvm", "mcpu": resolved().mcpu or llvm.get_host_cpu_name()})
        begin = time.perf_counter()
        built = self.tvm.compile(sch.mod, target=target)
        return built, time.perf_counter() - begin

    def runner(self, kernel: Kernel, arrays: list[np.ndarray], out: np.ndarray) -> Run:
        built = self.compile(kernel)[0]
        tensors = [self.tvm.runtime.tensor(a) for a in arrays]
        result = self.tvm.runtime.tensor(out)
        function = built["main"] if hasattr(built, "__getitem__") else built

        def run() -> None:
            function(*tensors, result)

        run()
        out[...] = result.numpy()
        return run


class _HalideSide:
    """Halide (the halide wheel) with the schedule of one of its autoschedulers."""

    scheduler: str

    def __init__(self, threads: int) -> None:
        os.environ["HL_NUM_THREADS"] = str(threads)
        import halide

        self.hl, self.threads = halide, threads
        plugin = f"libautoschedule_{self.scheduler.lower()}.so"
        halide.load_plugin(str(pathlib.Path(halide.__file__).parent / "lib64" / plugin))
        self.target = halide.get_jit_target_from_environment()
        wide = [f for f in vars(halide.TargetFeature) if f.startswith("AVX512") or f == "AVXVNNI"]
        if resolved().machine.vector_bits < 512:
            self.target = functools.reduce(
                lambda target, name: target.without_feature(getattr(halide.TargetFeature, name)), wide, self.target
            )

    def runner(self, kernel: Kernel, arrays: list[np.ndarray], out: np.ndarray) -> Run:
        make, hl = HALIDE_KERNELS.get(kernel.name), self.hl
        if make is None:
            raise NotThere("not written")
        inputs = [hl.ImageParam(hl.Float(32), a.ndim) for a in arrays]
        for param, array in zip(inputs, arrays):
            param.set(hl.Buffer(array))
            param.set_estimates([hl.Range(0, n) for n in reversed(array.shape)])
        result = make(hl, *inputs)
        result.set_estimates([hl.Range(0, n) for n in reversed(out.shape)])
        pipeline = hl.Pipeline(result)
        pipeline.apply_autoscheduler(
            self.target, hl.AutoschedulerParams(self.scheduler, {"parallelism": str(self.threads)})
        )
        pipeline.compile_jit(self.target)
        buffer = hl.Buffer(out)
        return lambda: pipeline.realize(buffer)


class Mullapudi(_HalideSide):
    """Halide with the autoscheduler Mullapudi2016."""

    name, scheduler = "Halide, Mullapudi", "Mullapudi2016"


class Adams(_HalideSide):
    """Halide with the autoscheduler Adams2019."""

    name, scheduler = "Halide, Adams", "Adams2019"


SIDES = [Ours, Instant, NumPySide, NumbaSide, TVMSide, Mullapudi, Adams]
