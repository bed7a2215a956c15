"""Programs for the tests of CINN's view: random graphs, and how a function is run."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tvmagic
from tvmagic import te, tir
from tvmagic.ir import PrimFunc

ROWS, COLUMNS = 5, 6
SQUARE, MATRIX, ROW = (COLUMNS, COLUMNS), (ROWS, COLUMNS), (COLUMNS,)


class Graph:
    """A random graph of elementwise, broadcast and injective operations, with a few reductions.

    `inputs` and `outputs` are tensors, `reductions` the names of the blocks that add up.
    """

    def __init__(self, seed: int, blocks: int) -> None:
        self.random = random.Random(seed)
        self.inputs = [te.placeholder(s, name=n) for n, s in (("M", MATRIX), ("S", SQUARE), ("R", ROW))]
        self.tensors = list(self.inputs)
        self.reductions: set[str] = set()
        for number in range(blocks):
            self.tensors.append(self.block(f"T{number}"))
        read = {id(t.op) for tensor in self.tensors for t in tensor.op.input_tensors}
        made = self.tensors[len(self.inputs) :]
        self.outputs = [t for t in made if id(t.op) not in read or self.random.random() < 0.1]

    def pick(self, *shapes: tuple[int, ...]) -> Any:
        """One of the latest tensors of a shape."""
        found = [t for t in self.tensors if tuple(int(n) for n in t.shape) in shapes]
        return self.random.choice(found[-4:])

    def block(self, name: str) -> Any:
        kinds = [self.unary, self.binary, self.broadcast, self.transposed, self.reversed, self.row, self.reduction]
        return self.random.choices(kinds, (3, 4, 3, 2, 2, 2, 1))[0](name)

    def unary(self, name: str) -> Any:
        x = self.pick(MATRIX, SQUARE, ROW)
        change = self.random.choice(
            [lambda v: v * 0.5 + 1.0, lambda v: tir.max(v, tir.const(0.0, "float32")), lambda v: 2.0 - v]
        )
        return te.compute(x.shape, lambda *i: change(x(*i)), name=name)

    def binary(self, name: str) -> Any:
        shape = self.random.choice([MATRIX, SQUARE, ROW])
        x, y = self.pick(shape), self.pick(shape)
        sign = self.random.choice([-1.0, 1.0])
        return te.compute(shape, lambda *i: x(*i) + y(*i) * sign, name=name)

    def broadcast(self, name: str) -> Any:
        x, r = self.pick(MATRIX, SQUARE), self.pick(ROW)
        return te.compute(x.shape, lambda i, j: x[i, j] + r[j], name=name)

    def transposed(self, name: str) -> Any:
        x = self.pick(SQUARE)
        return te.compute(SQUARE, lambda i, j: x[j, i], name=name)

    def reversed(self, name: str) -> Any:
        x = self.pick(MATRIX)
        return te.compute(MATRIX, lambda i, j: x[ROWS - 1 - i, (j + 2) % COLUMNS], name=name)

    def row(self, name: str) -> Any:
        x, place = self.pick(MATRIX), self.random.randrange(ROWS)
        return te.compute(ROW, lambda j: x[place, j] + x[ROWS - 1 - place, j], name=name)

    def reduction(self, name: str) -> Any:
        x = self.pick(MATRIX)
        k = te.reduce_axis((0, ROWS), name="k")
        self.reductions.add(name)
        return te.compute(ROW, lambda j: te.sum(x[k, j], axis=k), name=name)

    def function(self) -> PrimFunc:
        return te.create_prim_func([*self.inputs, *self.outputs])

    def kept(self) -> set[str]:
        """The blocks that must be left: outputs, and what may not be inlined."""
        needed: set[str] = set()
        pending = [t.op for t in self.outputs]
        while pending:
            op = pending.pop()
            if op.name not in needed:
                needed.add(op.name)
                pending += [t.op for t in op.input_tensors]
        return {t.op.name for t in self.outputs} | (self.reductions & needed)


def arrays(shapes: list[tuple[int, ...]], seed: int = 0) -> list[np.ndarray]:
    """Random float32 arrays with values that float32 adds exactly often enough."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, shape).astype("float32") for shape in shapes]


def run(function: PrimFunc, inputs: list[np.ndarray], *shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    """The outputs of a compiled function."""
    outputs = [np.full(shape, 7, dtype) for shape in shapes]
    tvmagic.build(function)(*inputs, *outputs)
    return outputs
