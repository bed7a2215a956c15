"""What random programs of all kinds have in common: sizes, inputs, computations of tensors, and their meaning."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import small_language as sl
from outcomes import Refused, random_array
from random_values import Axis, Size, TensorInfo, Values
from reductions import reduce_last
from small_language import FLOATS, INTS, UINTS, Expr


class Computation:
    """The elements of one tensor, or of several of one shape, each by an expression of the axes."""

    def __init__(self, name: str, shape: tuple[Size, ...], letter: str = "i") -> None:
        self.name, self.shape = name, shape
        self.axes = [Axis(f"{letter}{n}", size) for n, size in enumerate(shape)]
        self.reduced: list[Axis] = []
        self.reducer = ""
        self.bodies: list[Expr] = []
        self.where: Expr | None = None
        self.init: Expr | None = None
        self.outputs: list[TensorInfo] = []
        self.inexact = False


class RandomProgram:
    """Inputs, symbolic sizes and what makes random computations.

    The words of `without` leave out: symbolic, wrap (integers that leave their dtype), special (NaN and infinities),
    empty (sizes of 0), zero (divisors), algebra (`(x + y) - y` on floats), round, boolsum, init, several, tuple, gather.
    """

    letter = "i"

    def __init__(self, rng: random.Random, without: frozenset[str]) -> None:
        self.rng, self.without = rng, without
        self.sizes = self.random_sizes()
        wrap = rng.random() < 0.3 and "wrap" not in without
        self.special = rng.random() < 0.15 and "special" not in without
        self.values = Values(rng, self.sizes, wrap, without)
        self.dtype = rng.choice((*sl.DTYPES, "float32", "int32"))
        self.inputs = [self.input(n) for n in range(rng.randint(1, 3))]
        self.tensors: list[TensorInfo] = list(self.inputs)

    # ------------------------------------------------------------------ parts

    def random_sizes(self) -> dict[str, int]:
        """The values of the symbolic sizes by name."""
        rng, sizes = self.rng, {}
        if rng.random() < 0.35 and "symbolic" not in self.without:
            for name in rng.choice((("n",), ("n", "m"))):
                sizes[name] = rng.choice((1, 2, 3, 5, 8, 13, 20))
                if rng.random() < 0.08 and "empty" not in self.without:
                    sizes[name] = 0
        return sizes

    def some_dtype(self) -> str:
        return self.dtype if self.rng.random() < 0.7 else self.rng.choice(sl.DTYPES)

    def size(self, most: int = 9) -> Size:
        rng = self.rng
        if self.sizes and rng.random() < 0.4:
            name = rng.choice(list(self.sizes))
            return rng.choice(
                (Size(0, name, 1), Size(0, name, 1), Size(0, name, 1), Size(2, name, 1), Size(0, name, 2))
            )
        return Size(rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 12)[:most]))

    def shape(self) -> tuple[Size, ...]:
        return tuple(self.size() for _ in range(self.rng.choice((1, 1, 2, 2, 3))))

    def input(self, n: int) -> TensorInfo:
        dtype = self.some_dtype()
        low, high = (-4, 4) if dtype not in UINTS else (0, 8)
        if dtype == "bool":
            low, high = 0, 1
        if dtype in INTS + UINTS and self.values.wrap:
            low, high = sl.limits(dtype)
        return TensorInfo(f"X{n}", dtype, self.shape(), low, high, 0, self.special and dtype in FLOATS)

    def finish(self, stage: Computation, bodies: list[Expr]) -> None:
        """Say what the stage's tensors hold."""
        names = [stage.name] if len(bodies) == 1 else [f"{stage.name}_{n}" for n in range(len(bodies))]
        stage.bodies = bodies
        stage.outputs = [
            TensorInfo(name, e.dtype, stage.shape, e.low, e.high, e.fraction, e.special)
            for name, e in zip(names, bodies)
        ]

    def body(self, dtype: str, axes: list[Axis]) -> Expr:
        depth = self.rng.choice((1, 1, 1, 1, 2, 2, 2, 3))  # deep ones take long to simplify
        e = self.values.value(dtype, axes, self.tensors, depth)
        if e.dtype == "index":
            e = sl.cast(e, dtype)
        return e

    def make_values(self, stage: Computation, count: int, last: bool = False) -> None:
        bodies = [self.body(self.some_dtype(), stage.axes) for _ in range(count)]
        if last and count == 1 and bodies[0].is_float and self.rng.random() < 0.15:
            e = self.values.clamp(bodies[0], 4)
            bodies = [sl.apply(self.rng.choice(("exp", "tanh", "sin", "cos", "sigmoid")), e)]
            stage.inexact = True
        self.finish(stage, bodies)

    def reduce_axes(self, stage: Computation, some: bool = False) -> list[Axis]:
        """Axes to reduce over, with something to reduce if `some`."""
        rng = self.rng
        for n in range(rng.choice((1, 1, 2))):
            low = rng.choice((0, 0, 0, 0, 2))
            size = self.size()
            if some and not size.value(self.sizes):
                size = Size(3)
            stage.reduced.append(Axis(f"k{stage.name[1:]}_{n}", size, low))
        return stage.axes + stage.reduced

    def terms(self, stage: Computation) -> int:
        return int(np.prod([a.extent.value(self.sizes) for a in stage.reduced]))

    def make_reduction(self, stage: Computation, conditions: bool = True) -> None:
        rng = self.rng
        axes = self.reduce_axes(stage)
        dtype = self.some_dtype()
        stage.reducer = rng.choice(("sum", "sum", "sum", "max", "min", "prod"))
        if dtype == "bool" and "boolsum" in self.without:
            dtype = "int32"
        e = self.body(dtype, axes)
        count = self.terms(stage)
        if not count and stage.reducer in ("max", "min"):
            stage.reducer = "sum"
        if conditions and rng.random() < 0.15:
            stage.where = self.values.condition(axes)
        elif rng.random() < 0.1 and not self.special and "init" not in self.without:
            stage.init = self.values.leaf(dtype, stage.axes, self.tensors)
        if dtype in FLOATS and stage.where is not None and stage.reducer in ("max", "min"):
            stage.reducer = "sum"  # the least float would be the result if no element takes part
        if stage.reducer == "prod":
            if not self.values.wrap or dtype in FLOATS:
                e = self.values.clamp(e, 1)
                e = e._replace(fraction=0) if e.fraction == 0 else self.values.clamp(sl.apply("floor", e), 1)
            low, high = (-1, 1) if dtype in FLOATS or not self.values.wrap else sl.limits(dtype)
        elif stage.reducer == "sum":
            if dtype in FLOATS or not self.values.wrap:
                room = 2 ** sl.MANTISSA[dtype] if dtype in FLOATS else sl.limits(dtype)[1]
                if (e.magnitude * count + 8) * 2**e.fraction > room:
                    e = self.values.clamp(e, 1)
                    e = sl.apply("floor", e) if e.fraction else e
                if e.magnitude * count + 8 > room:  # so many terms of so few bits are not exact, however small
                    e = sl.constant(0.0 if dtype in FLOATS else 0, dtype)
            low, high = min(e.low * count, 0), max(e.high * count, 0)
        else:
            low, high = e.low, e.high
        if stage.init is not None:
            stage.init = (
                self.values.clamp(stage.init, 1)
                if dtype != "bool" and (not self.values.wrap or dtype in FLOATS)
                else stage.init
            )
            if stage.reducer == "prod":
                stage.init = None
            else:
                low, high = (
                    min(low, low + stage.init.low, stage.init.low),
                    max(high, high + stage.init.high, stage.init.high),
                )
        if dtype in INTS + UINTS:
            least, greatest = sl.limits(dtype)
            if low < least or high > greatest or stage.where is not None and stage.reducer in ("max", "min"):
                low, high = least, greatest
        elif dtype == "bool":
            low, high = 0, 1
        fraction = max(e.fraction, stage.init.fraction if stage.init is not None else 0)
        special = e.special or (stage.init is not None and stage.init.special)
        self.finish(stage, [e._replace(low=low, high=high, fraction=fraction, special=special)])

    def make_tuple_reduction(self, stage: Computation) -> None:
        axes = self.reduce_axes(stage, some=True)
        stage.reducer = self.rng.choice(("argmax", "argmin", "sum_max"))
        dtype = self.some_dtype()
        second = self.body("int32" if dtype == "bool" else dtype, axes)
        if second.special:
            second = self.values.number(second.dtype)
        if stage.reducer == "sum_max":
            first = self.values.number("int32") if self.values.wrap else self.values.clamp(self.body("int32", axes), 2)
            first = first._replace(low=-2000, high=2000)
        else:
            first = sl.constant(0, sl.INDEX)
            for axis in stage.reduced:
                first = sl.apply("mul", first, axis.extent.expr(self.sizes))
                first = sl.apply("add", first, sl.apply("sub", axis.var(self.sizes), sl.constant(axis.low, sl.INDEX)))
            first = sl.cast(first, "int32")
        self.finish(stage, [first, second])

    # ------------------------------------------------------------------ the meaning

    def meaning(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The value of every tensor; `Refused` if a size of 0 makes it read what is not there."""
        try:
            return self.evaluate(arrays)
        except sl.OutsideError:
            if 0 in self.sizes.values() or any(0 in self.concrete(t.shape) for t in self.tensors):
                raise Refused("elements are read that a size of 0 leaves out") from None
            raise

    def evaluate(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The value of every tensor."""
        raise NotImplementedError

    def arrays(self, rng: np.random.Generator) -> dict[str, Any]:
        """A random array for each input."""
        return {
            t.name: random_array(rng, self.concrete(t.shape), sl.numpy_dtype(t.dtype), t.low, t.high, t.special)
            for t in self.inputs
        }

    def concrete(self, shape: tuple[Size, ...]) -> tuple[int, ...]:
        return tuple(size.value(self.sizes) for size in shape)

    def grid(self, axes: list[Axis]) -> dict[str, Any]:
        arrays = {}
        for n, axis in enumerate(axes):
            shape = [1] * len(axes)
            shape[n] = -1
            arrays[axis.name] = np.arange(axis.low, axis.low + axis.extent.value(self.sizes)).reshape(shape)
        return arrays

    def evaluate_computation(self, stage: Computation, env: dict[str, Any]) -> list[Any]:
        axes = stage.axes + stage.reduced
        inner = {**env, **self.grid(axes)}
        full = tuple(a.extent.value(self.sizes) for a in axes)
        shape = self.concrete(stage.shape)
        where = None
        if stage.where is not None:
            where = np.broadcast_to(sl.evaluate(stage.where, inner), full)
        values = [np.broadcast_to(sl.evaluate(e, inner, where), full) for e in stage.bodies]
        values = [v.astype(sl.numpy_dtype(e.dtype)) for v, e in zip(values, stage.bodies)]
        if not stage.reducer:
            return values
        flat = [v.reshape(*shape, self.terms(stage)) for v in values]
        if stage.reducer in ("argmax", "argmin"):
            place = np.argmax(flat[1], -1) if stage.reducer == "argmax" else np.argmin(flat[1], -1)
            return [np.take_along_axis(v, place[..., None], -1)[..., 0] for v in flat]
        if stage.reducer == "sum_max":
            return [reduce_last("sum", flat[0]), reduce_last("max", flat[1])]
        mask = None if where is None else where.reshape(*shape, self.terms(stage))
        result = reduce_last(stage.reducer, flat[0], mask)
        if stage.init is not None:
            init = np.broadcast_to(sl.evaluate(stage.init, {**env, **self.grid(stage.axes)}), shape)
            result = reduce_last(stage.reducer, np.stack([init.astype(result.dtype), result], -1))
        return [result]
