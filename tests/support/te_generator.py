"""Makes tensor programs and schedules of them at random, from a seed.

Every access is inside its tensor by construction; every schedule call is one that may be legal.
"""

from __future__ import annotations

import random
from typing import Any

from tvmagic import te, tir
from tvmagic.errors import ScheduleError
from tvmagic.ir import IntImm

DTYPES = ("float32", "float32", "float32", "int32", "float64")


class Program:
    """`s`, `args` and `outputs` of a random program; `calls` are the schedule calls that were made."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.dtype = self.random.choice(DTYPES)
        self.inputs = [self.placeholder(n) for n in range(self.random.randint(1, 2))]
        self.tensors: list[Any] = list(self.inputs)
        self.calls: list[str] = []
        count = self.random.randint(1, 4)
        for n in range(count):
            self.tensors.append(self.stage(n, last=n == count - 1))
        self.output = self.tensors[-1]
        self.outputs = list(self.output.op.outputs)
        self.s = te.create_schedule(self.output.op)
        self.schedule()
        needed = {stage.op for stage in self.s.stages} | set(self.s.stage_map)
        self.args = [t for t in self.inputs if t.op in needed] + self.outputs

    # ------------------------------------------------------------------ the program

    def placeholder(self, n: int) -> Any:
        shape = [self.random.randint(3, 14) for _ in range(self.random.randint(1, 3))]
        return te.placeholder(shape, self.dtype, name=f"X{n}")

    def stage(self, n: int, last: bool) -> Any:
        shape = [self.random.randint(2, 12) for _ in range(self.random.randint(1, 3))]
        kind = self.random.random()
        name = f"S{n}"
        if kind < 0.35:
            return self.reduction(shape, name)
        if kind < 0.42 and last:
            return self.argmax(shape, name)
        return te.compute(shape, lambda *i: self.value(self.axes(shape, i)), name=name)

    def axes(self, shape: Any, indices: Any) -> list[tuple[Any, int]]:
        return list(zip(indices, shape))

    def reduction(self, shape: list[int], name: str) -> Any:
        extents = [self.random.randint(1, 9) for _ in range(self.random.randint(1, 2))]
        reduced = [te.reduce_axis((0, e), name=f"k{i}") for i, e in enumerate(extents)]
        reducer = self.random.choice([te.sum, te.sum, te.max, te.min])

        def body(*indices: Any) -> Any:
            axes = self.axes(shape, indices) + [(k.var, e) for k, e in zip(reduced, extents)]
            where = None
            if self.random.random() < 0.15:
                where = self.condition(axes)
            return reducer(self.value(axes), axis=reduced, where=where)

        return te.compute(shape, body, name=name)

    def argmax(self, shape: list[int], name: str) -> Any:
        extent = self.random.randint(2, 11)
        k = te.reduce_axis((0, extent), name="k")

        def better(x: Any, y: Any) -> Any:  # the first of equal values, in whatever order they come
            return tir.any(x[1] > y[1], tir.all(x[1].equal(y[1]), x[0] <= y[0]))

        pick = te.comm_reducer(
            lambda x, y: (tir.Select(better(x, y), x[0], y[0]), tir.Select(better(x, y), x[1], y[1])),
            lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
            name="argmax",
        )
        tensors = te.compute(
            shape, lambda *i: pick((k.var, self.value([*self.axes(shape, i), (k.var, extent)])), axis=k), name=name
        )
        return tensors[1]

    def condition(self, axes: list[tuple[Any, int]]) -> Any:
        axis, extent = self.random.choice(axes)
        return self.random.choice([axis >= self.random.randint(0, extent), axis % 2 == 0])

    def value(self, axes: list[tuple[Any, int]]) -> Any:
        """An expression of the axes, each given with its extent."""
        value = self.load(axes)
        for _ in range(self.random.randint(0, 2)):
            other = self.load(axes) if self.random.random() < 0.7 else te.const(self.random.randint(-3, 3), value.dtype)
            combine = self.random.choice(["+", "-", "*", "max", "select"])
            if combine == "+":
                value = value + other
            elif combine == "-":
                value = value - other
            elif combine == "*":
                value = value * other if value.dtype.is_float else value + other * 3
            elif combine == "max":
                value = te.max(value, other)
            else:
                value = tir.Select(tir.convert(self.condition(axes)), value, other)
        if value.dtype.is_float and self.random.random() < 0.3:
            value = te.tanh(value)
        return value

    def load(self, axes: list[tuple[Any, int]]) -> Any:
        tensor = self.random.choice(self.tensors[-3:])
        guards: list[Any] = []
        indices = [self.index(size.value, axes, guards) for size in tensor.shape if isinstance(size, IntImm)]
        value = tensor(*indices)
        if guards:
            value = te.if_then_else(te.all(*guards), value, te.const(0, value.dtype))
        return value.astype(self.dtype)

    def index(self, size: int, axes: list[tuple[Any, int]], guards: list[Any]) -> Any:
        """An index into a dimension of `size` elements, guarded where it may be outside."""
        axis, extent = self.random.choice(axes)
        if self.random.random() < 0.08:
            return self.random.randrange(size)
        if self.random.random() < 0.15:
            index = axis - self.random.randint(0, 2)
            guards += [index >= 0, index < size]
            return index
        choices = [axis % size]
        if extent <= size:
            choices += [axis + self.random.randint(0, size - extent)] * 4
            choices += [size - 1 - axis]
        if 2 * (extent - 1) < size:
            choices.append(axis * 2)
        if (extent - 1) // 2 < size:
            choices.append(axis // 2)
        return self.random.choice(choices)

    # ------------------------------------------------------------------ the schedule

    def attempt(self, text: str, call: Any) -> Any:
        """The call's result; None where the schedule refuses it."""
        try:
            result = call()
        except ScheduleError:
            return None
        self.calls.append(text)
        return result if result is not None else True

    def schedule(self) -> None:
        self.rewrite_graph()
        consumers: list[Any] = []
        for stage in reversed(list(self.s.stages)):
            if isinstance(stage.op, te.PlaceholderOp):
                continue
            self.place(stage, consumers)
            for _ in range(self.random.randint(0, 3)):
                self.rearrange(stage)
            self.annotate(stage)
            consumers.append(stage)

    def rewrite_graph(self) -> None:
        """Caches and factored reductions, before anything else."""
        chance = self.random.random()
        stages = [s for s in self.s.stages if isinstance(s.op, te.ComputeOp)]
        stage = self.random.choice(stages)
        if chance < 0.15 and stage.op.num_outputs == 1:
            if self.random.random() < 0.5:
                self.rearrange(stage)
            self.attempt("cache_write", lambda: self.s.cache_write(stage.op.output(0), "local"))
        elif chance < 0.3 and stage.op.input_tensors:
            tensor = self.random.choice(stage.op.input_tensors)
            self.attempt("cache_read", lambda: self.s.cache_read(tensor, "local", [stage.op]))
        elif chance < 0.5 and stage.op.reduce_axis:
            axis = self.random.choice(stage.op.reduce_axis)
            if self.random.random() < 0.6:
                pair = stage.split(axis, self.random.randint(2, 4))
                axis = self.random.choice(pair)
            self.attempt("rfactor", lambda: self.s.rfactor(stage.op.output(0), axis))

    def place(self, stage: Any, consumers: list[Any]) -> None:
        chance = self.random.random()
        if stage.is_output or not consumers:
            return
        reads = [c for c in consumers if any(t.op is stage.op for t in c.op.input_tensors)]
        if chance < 0.25 and not stage.op.reduce_axis and stage.op.num_outputs == 1:
            self.attempt(f"{stage.name}.inline", stage.compute_inline)
        elif chance < 0.75 and reads:
            parent = self.random.choice(reads)
            if parent.attach_type == 2 or not parent.leaf_iter_vars:
                return
            loop = self.random.choice(parent.leaf_iter_vars)
            self.attempt(
                f"{stage.name}.compute_at({parent.name}, {loop.var.name})", lambda: stage.compute_at(parent, loop)
            )

    def rearrange(self, stage: Any) -> None:
        leaves = stage.leaf_iter_vars
        choice = self.random.random()
        loop = self.random.choice(leaves)
        if choice < 0.4:
            factor = self.random.randint(1, 6)
            how = {"factor": factor} if self.random.random() < 0.6 else {"nparts": factor}
            self.attempt(f"{stage.name}.split({loop.var.name}, {how})", lambda: stage.split(loop, **how))
        elif choice < 0.6 and len(leaves) > 1:
            n = self.random.randrange(len(leaves) - 1)
            pair = leaves[n : n + 2]
            self.attempt(f"{stage.name}.fuse({pair[0].var.name}, {pair[1].var.name})", lambda: stage.fuse(*pair))
        elif choice < 0.9:
            order = self.random.sample(leaves, len(leaves))
            self.attempt(f"{stage.name}.reorder({[iv.var.name for iv in order]})", lambda: stage.reorder(*order))

    def annotate(self, stage: Any) -> None:
        for iv in list(stage.leaf_iter_vars):
            chance = self.random.random()
            if chance < 0.12:
                self.attempt(f"{stage.name}.unroll({iv.var.name})", lambda iv=iv: stage.unroll(iv))
            elif chance < 0.24 and iv is stage.leaf_iter_vars[-1]:
                self.attempt(f"{stage.name}.vectorize({iv.var.name})", lambda iv=iv: stage.vectorize(iv))
            elif chance < 0.3 and iv is stage.leaf_iter_vars[0] and iv.iter_type == 0:
                self.attempt(f"{stage.name}.parallel({iv.var.name})", lambda iv=iv: stage.parallel(iv))
