"""The benchmarks' kernels at small sizes, as lowered modules with the arrays they take and give."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import kernels
from tvmagic import lower, te, tir

SIZES = {
    "LENGTH": 1 << 14, "N": 64, "BATCH": 2, "M": 64, "SIDE": 14, "CHANNELS": 32, "WIDE": 16, "HEIGHT": 64,
    "ROWS": 64, "COLUMNS": 64, "GELU_LENGTH": 1 << 14,
}  # fmt: skip
NAMES = [kernel.name for kernel in kernels.KERNELS]


def kernel_named(name: str, monkeypatch: Any) -> tuple[Any, list[Any]]:
    """A kernel and its tensors, both at small sizes."""
    for size, value in SIZES.items():
        monkeypatch.setattr(kernels, size, value)
    kernel = next(k for k in kernels.KERNELS if k.name == name)
    return kernel, kernel.build(te)


def scheduled_for_cpu(name: str, monkeypatch: Any) -> Any:
    """The lowered module of a kernel, scheduled by hand."""
    kernel, tensors = kernel_named(name, monkeypatch)
    sch = tir.Schedule(te.create_prim_func(tensors))
    kernel.schedule(kernels.Steps(sch))
    return lower(sch.mod)


def scheduled_for_threads(name: str, monkeypatch: Any) -> Any:
    """The lowered module of a kernel, every stage of it a launch of blocks of 32 threads."""
    _, tensors = kernel_named(name, monkeypatch)
    s = te.create_schedule(tensors[-1].op)
    for stage in s.stages:
        if stage.op.input_tensors:
            fused = stage.fuse(*stage.op.axis)
            outer, inner = stage.split(fused, factor=32)
            stage.bind(outer, te.thread_axis("blockIdx.x"))
            stage.bind(inner, te.thread_axis("threadIdx.x"))
    return lower(s, tensors)


def arrays_of(name: str, monkeypatch: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Inputs of a kernel, and what NumPy gives for them."""
    kernel, tensors = kernel_named(name, monkeypatch)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal([int(n) for n in t.shape], dtype="float32") for t in tensors[:-1]]
    return inputs, kernel.numpy(*inputs)


def assert_right(got: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Results of float32 sums of at most some hundred terms."""
    scale = max(1.0, float(np.abs(expected).max()))
    assert np.abs(got - expected).max() <= 1e-4 * scale, what
