"""Random functions through the whole pipeline, against NumPy.

    python tests/codegen/fuzz.py --count 3000 --seed 0

Each program is a chain of tensor expressions (elementwise over several dtypes, broadcast, shifted and padded
reads, reductions, products of matrices) with a random schedule; it is lowered, compiled with
`check_bounds`, run, and compared with the same chain computed by NumPy.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError, TVMagicError

SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 33)
FLOATS, INTS = ("float32", "float64"), ("int32", "int8", "uint8", "int64")
Pair = tuple[Any, np.ndarray]  # a tensor and its value


class Program:
    """A random chain of stages with the values that NumPy gives for them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.dtype = self.random.choice(FLOATS + INTS)
        self.inputs: list[Pair] = []
        self.stages: list[Pair] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"T{self.count}"

    def input(self, shape: tuple[int, ...]) -> Pair:
        kind = np.dtype(self.dtype)
        if kind.kind == "f":
            value = (self.numbers.standard_normal(shape) * 2).astype(kind)
        else:
            info = np.iinfo(kind)
            value = self.numbers.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
        pair = te.placeholder(shape, name=self.name(), dtype=self.dtype), value
        self.inputs.append(pair)
        return pair

    def stage(self, shape: tuple[int, ...], make: Callable[..., Any], value: np.ndarray) -> Pair:
        pair = te.compute(shape, make, name=self.name()), value.astype(self.dtype)
        self.stages.append(pair)
        return pair

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    # ------------------------------------------------------------------ kinds of stages

    def elementwise(self, a: Pair) -> Pair:
        b = self.input(a[1].shape) if self.random.random() < 0.6 else a
        kind = self.random.choice(["add", "sub", "mul", "max", "min", "select", "unary", "divide"])
        x, y, t, s = a[1], b[1], a[0], b[0]
        table = {
            "add": (lambda *i: t(*i) + s(*i), lambda: x + y),
            "sub": (lambda *i: t(*i) - s(*i), lambda: x - y),
            "mul": (lambda *i: t(*i) * s(*i), lambda: x * y),
            "min": (lambda *i: tir.min(t(*i), s(*i)), lambda: np.minimum(x, y)),
            "select": (lambda *i: tir.Select(t(*i) < s(*i), s(*i), t(*i)), lambda: np.where(x < y, y, x)),
        }
        table["max"] = (lambda *i: tir.max(t(*i), s(*i)), lambda: np.maximum(x, y))
        with np.errstate(all="ignore"):
            if kind == "unary":
                return self.unary(a)
            if kind == "divide":
                return self.divide(a, b)
            make, value = table[kind]
            return self.stage(x.shape, make, value())

    def unary(self, a: Pair) -> Pair:
        t, x = a
        if self.is_float:
            name = self.random.choice(["tanh", "sigmoid", "exp", "floor", "sqrt"])
            if name == "exp":
                return self.stage(
                    x.shape, lambda *i: te.exp(tir.min(t(*i), tir.const(3, self.dtype))), np.exp(np.minimum(x, 3))
                )
            if name == "sqrt":
                return self.stage(x.shape, lambda *i: te.sqrt(tir.abs(t(*i))), np.sqrt(np.abs(x)))
            reference = {"tanh": np.tanh, "floor": np.floor, "sigmoid": lambda v: 1 / (1 + np.exp(-v))}[name]
            return self.stage(x.shape, lambda *i: getattr(te, name)(t(*i)), reference(x))
        shift = self.random.randrange(0, 8)
        return self.stage(
            x.shape, lambda *i: t(*i) >> tir.const(shift, self.dtype), x >> np.dtype(self.dtype).type(shift)
        )

    def divide(self, a: Pair, b: Pair) -> Pair:
        (t, x), (s, y) = a, b
        if self.is_float:
            bottom = np.abs(y) + 1
            return self.stage(x.shape, lambda *i: t(*i) / (tir.abs(s(*i)) + tir.const(1, self.dtype)), x / bottom)
        divisor = self.random.choice([1, 2, 3, 7, 8, 100, -1, -3] if self.dtype[0] == "i" else [1, 2, 3, 8, 100])
        c, d = tir.const(divisor, self.dtype), np.dtype(self.dtype).type(divisor)
        if self.random.random() < 0.5:
            return self.stage(x.shape, lambda *i: te.floordiv(t(*i), c), np.floor_divide(x, d))
        return self.stage(x.shape, lambda *i: te.floormod(t(*i), c), np.remainder(x, d))

    def padded(self, a: Pair) -> Pair:
        """Read with a shift, zero outside."""
        t, x = a
        moves = [self.random.randrange(-2, 3) for _ in x.shape]
        zero = tir.const(0, self.dtype)

        def make(*index: Any) -> Any:
            places = [i + m for i, m in zip(index, moves)]
            inside = tir.all(*[tir.all(p >= 0, p < n) for p, n in zip(places, x.shape)])
            return tir.if_then_else(inside, t(*places), zero)

        value = np.zeros_like(x)
        wanted = tuple(slice(max(0, -m), max(0, n - max(0, m))) for m, n in zip(moves, x.shape))
        source = tuple(slice(max(0, m), max(0, n + min(0, m))) for m, n in zip(moves, x.shape))
        value[wanted] = x[source]
        return self.stage(x.shape, make, value)

    def transposed(self, a: Pair) -> Pair:
        t, x = a
        order = list(range(x.ndim))
        self.random.shuffle(order)
        back = np.argsort(order)
        shape = tuple(x.shape[o] for o in order)
        return self.stage(shape, lambda *i: t(*[i[b] for b in back]), x.transpose(order))

    def reversed(self, a: Pair) -> Pair:
        t, x = a
        last = x.shape[-1]
        return self.stage(x.shape, lambda *i: t(*i[:-1], last - 1 - i[-1]), x[..., ::-1])

    def reduced(self, a: Pair) -> Pair:
        t, x = a
        if x.ndim < 2:
            return self.elementwise(a)
        k = te.reduce_axis((0, x.shape[-1]), name="k")
        kind = self.random.choice(["sum", "max", "min"])
        with np.errstate(all="ignore"):
            value = {"sum": lambda: x.sum(-1, dtype=x.dtype), "max": lambda: x.max(-1), "min": lambda: x.min(-1)}[
                kind
            ]()
        return self.stage(x.shape[:-1], lambda *i: getattr(te, kind)(t(*i, k), axis=k), value)

    def product(self, a: Pair) -> Pair:
        t, x = a
        if x.ndim != 2:
            return self.elementwise(a)
        other, y = self.input((x.shape[1], self.random.choice(SIZES)))
        k = te.reduce_axis((0, x.shape[1]), name="k")
        with np.errstate(all="ignore"):
            value = x @ y
        return self.stage(value.shape, lambda i, j: te.sum(t[i, k] * other[k, j], axis=k), value)

    def make(self) -> None:
        shape = tuple(self.random.choice(SIZES) for _ in range(self.random.choice([1, 2, 2, 3])))
        current = self.input(shape)
        kinds = [
            self.elementwise,
            self.elementwise,
            self.padded,
            self.transposed,
            self.reversed,
            self.reduced,
            self.product,
        ]
        for _ in range(self.random.randrange(1, 4)):
            current = self.random.choice(kinds)(current)


def schedule(program: Program, sch: Any) -> list[str]:
    """Random legal schedule calls; what is refused leaves the schedule as it was."""
    rng, done = program.random, []
    names = [t.op.name for t, _ in program.stages]

    def attempt(what: str, call: Callable[[], Any]) -> Any:
        try:
            result = call()
        except ScheduleError:
            return None
        done.append(what)
        return result

    for _ in range(rng.randrange(0, 7)):
        name = rng.choice(names)
        try:
            block = sch.get_block(name)
            loops = sch.get_loops(block)
        except TVMagicError:
            continue
        if not loops:
            continue
        loop, kind = rng.choice(loops), rng.randrange(9)
        factor = rng.choice([2, 3, 4, 8, 16])
        if kind == 0:
            attempt(f"split {name} {factor}", lambda: sch.split(loop, [None, factor]))
        elif kind == 1 and len(loops) > 1:
            at = rng.randrange(len(loops) - 1)
            attempt(f"fuse {name}", lambda: sch.fuse(loops[at], loops[at + 1]))
        elif kind == 2:
            attempt(f"parallel {name}", lambda: sch.parallel(loop))
        elif kind == 3:
            inner = attempt(f"split {name} {factor}", lambda: sch.split(loops[-1], [None, factor]))
            if inner is not None:
                attempt(f"vectorize {name}", lambda: sch.vectorize(inner[1]))
        elif kind == 4:
            attempt(f"unroll {name}", lambda: sch.unroll(loop))
        elif kind == 5:
            mixed = rng.sample(loops, len(loops))
            attempt(f"reorder {name}", lambda: sch.reorder(*mixed))
        elif kind == 6:
            attempt(f"inline {name}", lambda: sch.compute_inline(block))
        elif kind == 7:
            other = rng.choice(names)

            def move() -> None:
                sch.compute_at(block, rng.choice(sch.get_loops(sch.get_block(other))))

            attempt(f"compute_at {name} {other}", move)
        else:
            attempt(f"cache_write {name}", lambda: sch.cache_write(block, 0, "local"))
    return done


def tolerance(program: Program) -> dict[str, float]:
    return {"float32": {"rtol": 2e-4, "atol": 2e-4}, "float64": {"rtol": 1e-9, "atol": 1e-9}}.get(
        program.dtype, {"rtol": 0.0, "atol": 0.0}
    )


def run_one(seed: int) -> str | None:
    """What is wrong with the program of this seed; None where its result is NumPy's."""
    program = Program(seed)
    with np.errstate(all="ignore"):
        program.make()
    tensors = [t for t, _ in program.inputs]
    output, expected = program.stages[-1]
    sch = tir.Schedule(te.create_prim_func([*tensors, output]))
    done = schedule(program, sch)
    try:
        built = tvmagic.build(sch.mod, check_bounds=True)
        result = built(*[np.ascontiguousarray(v) for _, v in program.inputs], np.zeros(expected.shape, expected.dtype))
        out = np.zeros(expected.shape, expected.dtype)
        built(*[np.ascontiguousarray(v) for _, v in program.inputs], out)
        assert result is None
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]} after {done}"
    if not np.allclose(out, expected, equal_nan=True, **tolerance(program)):
        return (
            f"differs from NumPy by {np.abs(out.astype('float64') - expected).max():.3g} ({program.dtype}) after {done}"
        )
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin, wrong = time.time(), 0
    for seed in range(options.seed, options.seed + options.count):
        print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
        problem = run_one(seed)
        if problem is not None:
            wrong += 1
            print(f"\nseed {seed}: {problem}")
    print(f"\n{options.count} programs in {time.time() - begin:.0f} s, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
