"""Random loops over elements that lie apart in memory, in places that turn around, wrap or repeat.

LLVM makes vectors of such loops, by one wide load for all that an iteration reads. Arrays end at the last element that is read.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from outcomes import TARGETS, Argument, Source, check_call, guarded_call

DTYPES = ("float32", "uint8", "int32", "int16", "float64", "float16", "int8", "uint16")
STEPS = (1, 2, 2, 3, 3, 4, 4, 5, 8, -1, -2, -3)
LENGTHS = (7, 16, 33, 64, 100, 257, 300)


class Script:
    """What the functions of TVM's script mean, for indices."""

    bitwise_and = staticmethod(lambda a, b: a & b)
    shift_right = staticmethod(lambda a, b: a >> b)
    shift_left = staticmethod(lambda a, b: ((a << b) + (1 << 31)) % (1 << 32) - (1 << 31))
    max = staticmethod(max)

    @staticmethod
    def Cast(dtype: str, value: int) -> int:
        return int(np.int64(value).astype(dtype))


class Case:
    """The loop of a seed."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        rng = self.rng = random.Random(seed)
        self.seed = seed
        self.calls: list[str] = []
        self.replay: list[str] | None = None
        self.target = rng.choice(TARGETS)
        self.dtype, self.count, self.outer = rng.choice(DTYPES), rng.choice(LENGTHS), rng.choice((1, 1, 2))
        place = self.place()
        self.lines: list[tuple[str, str, str]] = []  # array and index of each store, and its value
        for _ in range(rng.choice((1, 1, 2, 3, 4))):
            place = self.place() if rng.random() < 0.4 else place
            changes = rng.random() < 0.2
            reads = [self.near(place) if rng.random() < 0.8 else self.place() for _ in range(rng.choice((1, 2, 3, 4)))]
            loads = [f"{'Y' if changes and rng.random() < 0.4 else 'X'}[{index}]" for index in reads]
            stored = "i" if rng.random() < 0.5 else self.near(place) if rng.random() < 0.6 else self.place()
            self.lines.append(("Y", stored, rng.choice((" + ", " * ", " - ")).join(loads)))
        in_turn = all(stored == "i" and "Y[" not in value for _, stored, value in self.lines)
        self.loop = rng.choice(("range", "T.parallel", "T.vectorized")) if in_turn else "range"

    def place(self) -> str:
        """An index: by steps, perhaps of what is left of `i` or has a part of its bits."""
        rng = self.rng
        step, first, more = rng.choice(STEPS), rng.randrange(9), rng.randrange(5)
        bits, byte = rng.choice((28, 29, 30)), rng.choice(("int8", "uint8"))
        return rng.choice(
            [f"(i * {step} + {first})"] * 8
            + [f"((i + {first}) % {rng.choice((2, 3, 4, 5, 7, 8, 12, 16))} * {step} + {more})"] * 3
            + [f"((i * {rng.choice((3, 5, 7))} + {first}) % {rng.choice((16, 32, 17, 64))} * {step})"]
            + [f"((i + {first}) // {rng.choice((2, 3, 4, 8))} * {step} + {more})"] * 2
            + [f"(T.bitwise_and(i + {first}, {rng.choice((1, 3, 7, 15))}) * {step} + {more})"]
            + [f"(T.shift_right(T.shift_left(i + {first}, {bits}), {bits}) * {step})"]
            + [f"(T.Cast('int32', T.Cast('{byte}', i * {rng.choice((1, 3, 5, 31))})) * {step} + {first})"]
            + [f"(T.max(i - {first}, 0) * {step})"]
        )

    def near(self, place: str) -> str:
        return f"{place} + {self.rng.randrange(4)}"

    def indices(self, text: str, i: int) -> int:
        return eval(text, {"T": Script, "i": i})

    def make(self) -> None:
        """Write the function; every index is counted from the least one of its array."""
        self.least: dict[str, int] = {}
        size: dict[str, int] = {}
        for name in "XY":
            used = [index for array, index, _ in self.lines if array == name]
            used += [part.split("]")[0] for _, _, value in self.lines for part in value.split(f"{name}[")[1:]]
            values = [self.indices(index, i) for index in used for i in range(self.count)] or [0]
            self.least[name], size[name] = min(values), max(values) - min(values) + 1
        self.sizes = size
        lines = [f"{array}[{index}] = {value}" for array, index, value in self.lines]
        body = "\n".join("            " + line for line in lines)
        for name in "XY":
            body = body.replace(f"{name}[", f"{name}[{-self.least[name]} + ")
        text = (
            f'@T.prim_func\ndef f(X: T.Buffer(({size["X"]},), "{self.dtype}"), Y: T.Buffer(({size["Y"]},), "{self.dtype}")):\n'
            f"    T.func_attr({{'tir.noalias': T.bool(True)}})\n    for q in range({self.outer}):\n"
            f"        for i in {self.loop}({self.count}):\n{body}\n"
        )
        self.source = Source("from tvmagic.script import from_source")
        guarded_call("program", lambda: self.source.run(f"loop = from_source({text!r})"))

    def value(self, x: Any, y: Any) -> Any:
        """What is in Y after the loop."""
        lines = [(compile(i, "index", "eval"), compile(v, "value", "eval")) for _, i, v in self.shifted()]
        after, names = y.copy(), {"T": Script, "X": x}
        names["Y"] = after
        with np.errstate(all="ignore"):
            for _ in range(self.outer):
                for i in range(self.count):
                    names["i"] = i
                    for index, value in lines:
                        after[eval(index, names)] = eval(value, names)
        return after

    def shifted(self) -> list[tuple[str, str, str]]:
        def moved(text: str) -> str:
            for name in "XY":
                text = text.replace(f"{name}[", f"{name}[{-self.least[name]} + ")
            return text

        return [(array, f"{-self.least[array]} + {index}", moved(value)) for array, index, value in self.lines]

    def check(self) -> None:
        self.make()
        rng = np.random.default_rng(self.seed)
        low, high = (-3, 4) if self.dtype.startswith("float") else (0, 100)
        x, y = [rng.integers(low, high, self.sizes[name]).astype(self.dtype) for name in "XY"]
        wanted = self.value(x, y)
        guarded_call("build", lambda: self.source.run(f"f = tvmagic.build(loop, target={self.target!r})"))
        for function in self.functions():
            check_call(function, [Argument(x, False), Argument(wanted, True, start=y)], self.rng)

    def functions(self) -> list[Any]:
        """What runs the compiled function, in each way that there is."""
        return [self.source.get("f")]

    def text(self) -> str:
        return self.source.text()
