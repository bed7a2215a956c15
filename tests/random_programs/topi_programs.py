"""Random operators of TOPI against NumPy, and gradients of smooth expressions against differences."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from outcomes import Argument, Source, Wrong, check_call, guarded_call

UNARY = {
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "abs": np.abs,
    "negative": np.negative,
    "sign": np.sign,
}
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "argmax": np.argmax, "argmin": np.argmin}
SMOOTH = ("te.tanh({a})", "te.exp({a} * 0.5)", "te.sigmoid({a})", "{a} * {a}", "{a} * 1.5 - 0.25", "te.sin({a})")
STEP = 1e-4


class Case:
    """The program of a seed: gradients if the seed is odd."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.is_gradient = seed % 2 == 1
        self.calls: list[str] = []
        self.replay: list[str] | None = None

    def make(self) -> None:
        """Create the tensors."""
        self.source = Source("from tvmagic import topi")
        (self._gradient if self.is_gradient else self._operators)()

    def text(self) -> str:
        """The program as a file that runs by itself."""
        return self.source.text()

    def check(self) -> None:
        """Build the program, and compare its results."""
        self.make()
        names = ", ".join([*self.inputs, self.result])
        built = guarded_call(
            "build", lambda: self.source.get(f"tvmagic.build(te.create_schedule({self.result}.op), [{names}])")
        )
        if not self.is_gradient:
            inputs = [Argument(v, False) for v in self.inputs.values()]
            check_call(built, [*inputs, Argument(self.wanted, True, inexact=self.wanted.dtype.kind == "f")], self.rng)
            return
        found = np.full(self.wanted.shape, np.nan)
        guarded_call("call", lambda: built(*self.inputs.values(), found))
        if not np.allclose(found, self.wanted, rtol=1e-5, atol=1e-6):
            raise Wrong(
                "result", f"the gradient differs by {np.abs(found - self.wanted).max()} from that of differences"
            )

    def _new(self, expression: str) -> str:
        name = f"T{len(self.source.lines)}"
        self.source.run(f"{name} = {expression}")
        return name

    # ------------------------------------------------------------------ operators

    def _operators(self) -> None:
        rng = self.rng
        shape = tuple(rng.choice((0, 1, 2, 3, 4, 5)) if rng.random() < 0.9 else 7 for _ in range(rng.randint(1, 4)))
        value = self.numbers.integers(-4, 5, shape).astype(rng.choice(("float32", "int32")))
        self.inputs = {"A": value}
        self.source.run(f'A = te.placeholder({shape}, "{value.dtype}", name="A")')
        name = "A"
        for _ in range(rng.randint(1, 4)):
            name, value = self._operator(name, value)
            value = value.astype("float32" if value.dtype.kind == "f" else "int32")
        if name == "A":
            name, value = self._new("topi.negative(A)"), -value
        self.result, self.wanted = name, np.ascontiguousarray(value).reshape(value.shape)

    def _operator(self, name: str, value: Any) -> tuple[str, Any]:
        rng, rank = self.rng, value.ndim
        small = value.size == 0 or float(np.abs(value).max()) <= 20
        kind = rng.choice(
            (
                "unary",
                "binary",
                "reduce",
                "transpose",
                "reshape",
                "expand",
                "concatenate",
                "pad",
                "tile",
                "flip",
                "slice",
            )
        )
        axis = rng.randrange(rank) if rank else 0
        if kind == "unary" and small:
            op = rng.choice([u for u in UNARY if value.dtype.kind == "f" or u in ("abs", "negative", "sign")])
            return self._new(f"topi.{op}({name})"), UNARY[op](value)
        if kind == "binary" and small:
            op = rng.choice(list(BINARY))
            shape = tuple(1 if rng.random() < 0.4 else n for n in value.shape)
            if value.dtype.kind != "f":
                other = self.numbers.integers(-4, 5, shape).astype(value.dtype)
            else:
                other = self.numbers.integers(-4, 5, shape).astype("float32")
            other_name = f"B{len(self.inputs)}"
            self.source.run(f'{other_name} = te.placeholder({shape}, "{other.dtype}", name="{other_name}")')
            self.inputs[other_name] = other
            return self._new(f"topi.{op}({name}, {other_name})"), BINARY[op](value, other)
        if kind == "reduce" and rank and value.shape[axis] and small:
            op = rng.choice([r for r in REDUCTIONS if r != "prod" or value.shape[axis] < 4])
            keep = rng.random() < 0.4
            return self._new(f"topi.{op}({name}, {axis}, {keep})"), REDUCTIONS[op](value, axis=axis, keepdims=keep)
        if kind == "transpose" and rank:
            order = rng.sample(range(rank), rank)
            return self._new(f"topi.transpose({name}, {order})"), value.transpose(order)
        if kind == "reshape" and rank:
            shape = (value.shape[0], -1) if value.size and rng.random() < 0.5 else (*value.shape, 1)
            shape = value.reshape(shape).shape
            return self._new(f"topi.reshape({name}, {shape})"), value.reshape(shape)
        if kind == "expand":
            return self._new(f"topi.expand_dims({name}, {axis})"), np.expand_dims(value, axis)
        if kind == "concatenate" and rank:
            return self._new(f"topi.concatenate([{name}, {name}], {axis})"), np.concatenate([value, value], axis)
        if kind == "pad" and rank:
            before = [rng.randint(0, 2) for _ in range(rank)]
            after = [rng.randint(0, 2) for _ in range(rank)]
            return self._new(f"topi.nn.pad({name}, {before}, {after})"), np.pad(value, list(zip(before, after)))
        if kind == "tile" and rank:
            times = [rng.randint(1, 2) for _ in range(rank)]
            return self._new(f"topi.tile({name}, {times})"), np.tile(value, times)
        if kind == "flip" and rank:
            return self._new(f"topi.flip({name}, {axis})"), np.flip(value, axis)
        if kind == "slice" and rank and value.size:  # an empty slice is refused
            begin = [rng.randrange(n) for n in value.shape]
            end = [rng.randint(b + 1, n) for b, n in zip(begin, value.shape)]
            view = value[tuple(slice(b, e) for b, e in zip(begin, end))]
            return self._new(f"topi.strided_slice({name}, {begin}, {end})"), view
        return name, value

    # ------------------------------------------------------------------ gradients

    def _gradient(self) -> None:
        rng = self.rng
        n, m = rng.randint(1, 4), rng.randint(1, 4)
        x, w = self.numbers.uniform(-1, 1, (n, m)), self.numbers.uniform(-1, 1, (m, 2))
        self.inputs = {"X": x, "W": w}
        self.source.run(f'X = te.placeholder(({n}, {m}), "float64", name="X")')
        self.source.run(f'W = te.placeholder(({m}, 2), "float64", name="W")')
        name, rows = "X", True  # whether its shape is that of X
        for _ in range(rng.randint(1, 3)):
            if rows and rng.random() < 0.4:
                self.source.run(f"k = te.reduce_axis((0, {m}), 'k')")
                name, rows = (
                    self._new(f"te.compute(({n}, 2), lambda i, j: te.sum({name}[i, k] * W[k, j], axis=k))"),
                    False,
                )
                continue
            columns = m if rows else 2
            text = rng.choice(SMOOTH).format(a=f"{name}[i, j]")
            if rows and rng.random() < 0.3:
                text = text.replace(f"{name}[i, j]", f"{name}[i, {m - 1} - j]") + f" + {name}[{n - 1} - i, j]"
            name = self._new(f"te.compute(({n}, {columns}), lambda i, j: {text})")
        shape = tuple(self.source.get(f"[int(s) for s in {name}.shape]"))
        head = self.numbers.uniform(-1, 1, shape)
        self.source.run(f'H = te.placeholder({shape}, "float64", name="H")')
        of = rng.choice(("X", "W") if not rows else ("X",))
        self.wanted = self._differences(name, of, head)
        self.result = guarded_call("gradient", lambda: self._new(f"te.gradient({name}, [{of}], head=H)[0]"))
        self.inputs["H"] = head

    def _differences(self, name: str, of: str, head: Any) -> Any:
        """The derivative of `sum(head * value)` by each element of an input, from the values on both sides."""
        run = self.source.get(f"tvmagic.build(te.create_schedule({name}.op), [X, W, {name}])")

        def total() -> float:
            out = np.zeros(head.shape)
            run(self.inputs["X"], self.inputs["W"], out)
            return float((out * head).sum())

        array, wanted = self.inputs[of], np.zeros_like(self.inputs[of])
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + STEP
            above = total()
            array[place] = kept - STEP
            wanted[place] = (above - total()) / (2 * STEP)
            array[place] = kept
        return wanted
