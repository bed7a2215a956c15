"""Runs a schedule in memory with guard zones, and in the interpreter, which sees every access outside a buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tvmagic
from tvmagic import te
from tvmagic.eval.machine import run_function
from tvmagic.ir import IntImm, Var
from tvmagic.te.numpy_eval import ArrayEvaluator
from tvmagic.te.reference import evaluate_all

GUARD = 512  # bytes in front of and behind each array
MARK = 0xAB


class Guarded:
    """An array of `shape` with a guard zone on both sides."""

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self.raw = np.full(size + 2 * GUARD, MARK, "uint8")
        self.array = self.raw[GUARD : GUARD + size].view(dtype).reshape(shape)

    def intact(self) -> bool:
        return bool((self.raw[:GUARD] == MARK).all() and (self.raw[-GUARD:] == MARK).all())


def size_of(size: Any, sizes: Mapping[Var, int]) -> int:
    if isinstance(size, IntImm):
        return size.value
    return int(ArrayEvaluator({v: np.asarray(n) for v, n in sizes.items()}).visit(size))


def assert_right(
    s: Any, args: Sequence[Any], sizes: Mapping[Var, int] | None = None, mod: Any = None, interpret: bool = True
) -> None:
    """The compiled and the interpreted program give NumPy's values and touch nothing but their arrays."""
    sizes = sizes or {}
    mod = mod or tvmagic.lower(s, args)
    random = np.random.default_rng(1)
    memory: list[Guarded | None] = []
    given: dict[Any, Any] = dict(sizes)
    for arg in args:
        if isinstance(arg, Var):
            memory.append(None)
            continue
        place = Guarded([size_of(e, sizes) for e in arg.shape], str(arg.dtype))
        memory.append(place)
        if isinstance(arg.op, te.PlaceholderOp):
            place.array[...] = random.integers(-5, 6, place.array.shape)
            given[arg] = place.array.copy()
    outputs = [(a, m.array) for a, m in zip(args, memory) if m is not None and a not in given]
    wanted = evaluate_all([a for a, _ in outputs], given)
    values: list[Any] = [sizes[a] if m is None else m.array for a, m in zip(args, memory)]
    runs = [lambda: tvmagic.build(mod, target="llvm")(*values)]
    if interpret and all(m is None or m.array.size for m in memory):
        runs.append(lambda: run_function(mod["main"], values))
    for run in runs:
        for _, array in outputs:
            array[...] = 77
        run()
        assert all(m is None or m.intact() for m in memory), "memory outside an array was written"
        for (tensor, array), value in zip(outputs, wanted):
            np.testing.assert_allclose(array, value, rtol=1e-5, atol=1e-5, err_msg=tensor.name)
