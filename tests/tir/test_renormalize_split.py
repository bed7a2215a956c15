"""Renormalized splits have the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
from pass_checks import module

from tvmagic.eval.machine import run_function
from tvmagic.tir import transform


def stored(expressions: list[str], extents: tuple[int, ...] = (48,)) -> str:
    """A function with a loop for each name of `ijk`, which stores each expression in a column of its own."""
    count = int(np.prod(extents))
    lines = [f"def main(A: T.Buffer(({len(expressions)}, {count}), 'int32')):"]
    place, indent = "0", "    "
    for name, extent in zip("ijk", extents):
        lines.append(f"{indent}for {name} in range({extent}):")
        place, indent = f"({place}) * {extent} + {name}", indent + "    "
    lines += [f"{indent}A[{n}, {place}] = {e}" for n, e in enumerate(expressions)]
    return "\n".join(lines)


def values(mod: Any) -> np.ndarray:
    func = mod["main"]
    (buffer,) = func.buffer_map.values()
    out = np.full([int(n) for n in buffer.shape], -1, "int32")
    run_function(func, [out])
    return out


DIVIDED = [f"i % {m} // {d}" for m in (6, 8, 12) for d in (2, 3, 4)] + [
    f"i // {c} // {d}" for c in (2, 3) for d in (2, 5)
]


CONDITIONS = [
    "i <= 3",
    "i >= 3",
    "i > 3",
    "3 > i",
    "i // 4 <= 2",
    "i % 6 // 4 >= 1",
    "i * 4 // 6 > 1",
    "(i * 2 + 1) // 2 <= 7",
]


def test_renormalized_splits_keep_values() -> None:
    """Quotients of sums and remainders, whatever divides what."""
    mod = module(stored(DIVIDED + [f"T.Select({c}, 1, 0)" for c in CONDITIONS]))
    np.testing.assert_array_equal(values(transform.RenormalizeSplitPattern()(mod)), values(mod))
    nested = module(
        stored([f"(i * 8 + j) // {c} // {d} + (i * 8 + j) % {c}" for c in (2, 4, 8) for d in (2, 4)], (3, 8))
    )
    after = transform.RenormalizeSplitPattern()(nested)
    np.testing.assert_array_equal(values(after), values(nested))
