"""Random layouts of buffers, and what an array is in one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


class Layout:
    """Where element (i, j, ...) of a tensor is kept: for each new dimension an old one, or a part of it."""

    def __init__(self, rng: random.Random, shape: tuple[int | None, ...], separator: str = "") -> None:
        parts: list[tuple[str, int, int]] = []
        for n, size in enumerate(shape):
            if size is not None and size >= 2 and rng.random() < 0.5:
                factor = rng.randint(2, min(size, 4))
                parts += [("//", n, factor), ("%", n, factor)]
            else:
                parts.append(("", n, 1))
        rng.shuffle(parts)
        self.parts = parts
        self.word = separator
        self.separator = rng.randint(1, len(parts) - 1) if separator and len(parts) > 1 else 0
        self.names = [f"i{n}" for n in range(len(shape))]

    def text(self) -> str:
        texts = [f"i{n} {op} {factor}" if op else f"i{n}" for op, n, factor in self.parts]
        if self.separator:
            texts.insert(self.separator, self.word)
        return f"lambda {', '.join(self.names)}: [{', '.join(texts)}]"

    def apply(self, array: Any) -> tuple[Any, Any]:
        """The array in this layout, and which of its elements it tells; the others are the pattern's."""
        places = []
        shape = []
        for op, n, factor in self.parts:
            index = np.arange(array.shape[n])
            index = index // factor if op == "//" else index % factor if op else index
            shape.append(factor if op == "%" else -(-array.shape[n] // factor) if op else array.shape[n])
            places.append(index.reshape([-1 if m == n else 1 for m in range(array.ndim)]))
        result = np.full(shape, 77, array.dtype)
        known = np.zeros(shape, bool)
        result[tuple(places)] = array
        known[tuple(places)] = True
        return result, known
