"""Random TensorIR functions: the text that makes them, and what they compute.

A function is a list of nests, each a block in loops that writes one buffer (two for a tuple reduction). What a nest
means is computed over the domain of its block's variables; how loops are bound to these (reversed, split with a
predicate, fused, in another order) is only in the text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import small_language as sl
from computations import Computation, RandomProgram
from declared_regions import outside_of_regions
from outcomes import TARGETS, Argument, Source, Wrong, check_call, guarded_call
from random_layouts import Layout
from random_values import Axis, Size
from reductions import reduce_last
from small_language import FLOATS, INTS, UINTS, Expr
from tir_idioms import KINDS, Group
from tir_schedules import Schedules
from tir_statements import STATEMENTS

HEAD = "from tvm.script import tir as T\n\n\n@T.prim_func\n"
CARRIED = {"sum": "add", "max": "max", "min": "min"}


class Nest(Computation):
    """A block in its loops.

    Attributes
    ----------
    loops: variable and extent, outermost first; bindings: the value of each axis by its name.
    predicates: conditions on the loops for the block to run.
    carried: the reducer of a running result along the first axis, whose variable is opaque.
    own: the block's statements, if they are more than stores of `bodies`; then `reads` are the tensors that they read,
    `opaque` the axes of which they say nothing, and `meaning` makes the new arrays from those before, by their names.
    """

    def __init__(self, name: str, shape: tuple[Size, ...]) -> None:
        super().__init__(name, shape, "v")
        self.loops: list[tuple[str, str]] = []
        self.bindings: dict[str, str] = {}
        self.predicates: list[str] = []
        self.carried = ""
        self.own: list[str] = []
        self.reads: set[str] = set()
        self.opaque: set[str] = set()
        self.meaning: Callable[[dict[str, Any]], dict[str, Any]] | None = None


class Program(RandomProgram):
    """A random function: `nests` in order. `without` also knows: carried, update, binding, group, names of primitives."""

    def __init__(self, rng: random.Random, without: frozenset[str]) -> None:
        super().__init__(rng, without)
        self.nests: list[Nest] = []
        count = rng.choice((1, 2, 2, 3, 3, 4))
        for n in range(count):
            nest = self.nest(f"S{n}", n == count - 1)
            self.nests.append(nest)
            self.tensors = [t for t in self.tensors if t.name != nest.outputs[0].name] + nest.outputs
        extra = random.Random(str(rng.getstate()[1][:3]))  # so that the rest of a seed's program stays
        self.group = (
            Group(self, Nest, extra, {**KINDS, **STATEMENTS})
            if extra.random() < 0.75 and "group" not in without
            else None
        )
        if self.group is not None:
            self.nests += self.group.nests
        others: list[tuple[Nest, set[str]]] = [
            (nest, sl.loads(e)) for nest in self.nests for e in (*nest.bodies, nest.where, nest.init) if e
        ]
        others += [(nest, nest.reads) for nest in self.nests]
        read = set().union(*[names - {t.name for t in nest.outputs} for nest, names in others])
        written = {t.name: t for nest in self.nests for t in nest.outputs}
        changed = {t.name for t in self.inputs} & set(written)
        self.args = [t for t in self.inputs if t.name in read | changed]
        # the inputs that are written as well
        self.changed = [t for t in self.args if t.name in changed]
        written = {name: t for name, t in written.items() if name not in changed}
        final = [name for name in written if name not in read]
        inner = [name for name in written if name in read]
        if inner and (not final or rng.random() < 0.15):
            final.append(rng.choice(inner))
        self.results = [written[name] for name in final]
        self.inner = [t for name, t in written.items() if name not in final]
        self.explicit = rng.random() < 0.5  # sizes in the signature, if they are numbers

    def nest(self, name: str, last: bool) -> Nest:
        rng = self.rng
        nest = Nest(name, self.shape())
        chance = rng.random()
        whole = [m for m in self.nests if len(m.outputs) == 1 and not m.inexact]
        if whole and rng.random() < 0.08 and "update" not in self.without:
            return self.update_nest(name, rng.choice(whole).outputs[0].name)
        if chance < 0.3:
            self.make_reduction(nest)
        elif chance < 0.36 and "tuple" not in self.without:
            self.make_tuple_reduction(nest)
        elif chance < 0.46 and "carried" not in self.without:
            self.make_carried(nest)
        else:
            self.make_values(nest, 1, last)
        self.bind(nest)
        return nest

    def reduce_axes(self, stage: Computation, some: bool = False) -> list[Axis]:
        """Axes with something to reduce: a block's init belongs to an iteration, so that without one nothing is written."""
        return super().reduce_axes(stage, some=True)

    def add_reduced(self, nest: Nest, name: str, extent: Size) -> None:
        """Give a nest an axis to reduce over."""
        nest.reduced.append(Axis(name, extent))

    def update_nest(self, name: str, changed: str) -> Nest:
        """Another value for each element of the buffer called `changed`, from its old one."""
        target = next(t for t in self.tensors if t.name == changed)
        nest = Nest(name, target.shape)
        old = sl.load(target, [axis.var(self.sizes) for axis in nest.axes])
        other = self.values.leaf(target.dtype, nest.axes, [t for t in self.tensors if t.name != target.name])
        op = "or" if target.dtype == "bool" else self.rng.choice(("add", "max", "sub"))
        nest.bodies = [self.values.tame(op, old, other)]
        e = nest.bodies[0]
        nest.outputs = [target._replace(low=e.low, high=e.high, fraction=e.fraction, special=e.special)]
        self.bind(nest)
        return nest

    def make_carried(self, nest: Nest) -> None:
        """A running sum, maximum or minimum along the first axis."""
        dtype = self.some_dtype()
        if dtype == "bool":
            dtype = "int32"
        e = self.body(dtype, nest.axes)
        nest.carried = self.rng.choice(("sum", "max", "min"))
        low, high = e.low, e.high
        if nest.carried == "sum":
            count = nest.shape[0].value(self.sizes)
            if dtype in FLOATS or not self.values.wrap:
                room = 2 ** sl.MANTISSA[dtype] if dtype in FLOATS else sl.limits(dtype)[1]
                if e.magnitude * count * 2**e.fraction > room:
                    e = self.values.clamp(e, 1)
                    e = sl.apply("floor", e) if e.fraction else e
            low, high = min(e.low * count, 0), max(e.high * count, 0)
            if dtype in INTS + UINTS and (low < sl.limits(dtype)[0] or high > sl.limits(dtype)[1]):
                low, high = sl.limits(dtype)
        self.finish(nest, [e])
        nest.outputs = [nest.outputs[0]._replace(low=low, high=high)]

    # ------------------------------------------------------------------ loops

    def bind(self, nest: Nest) -> None:
        """Choose loops, and how the axes follow from them."""
        rng = self.rng
        waiting = list(nest.axes + nest.reduced)
        count = 0

        def loop(extent: Any) -> str:
            nonlocal count
            name = f"i{count}"
            count += 1
            nest.loops.append((name, str(extent)))
            return name

        while waiting:
            axis = waiting.pop(0)
            extent = axis.extent
            shift = f" + {axis.low}" if axis.low else ""
            chance = rng.random() if "binding" not in self.without else 1.0
            if nest.carried and axis.name == "v0":
                nest.bindings[axis.name] = loop(extent)
            elif chance < 0.1 and axis not in nest.reduced:  # a reduction starts at its first iteration
                nest.bindings[axis.name] = f"{extent} - 1 - {loop(extent)}{shift}"
            elif chance < 0.2:
                factor = rng.choice((2, 3, 4, 8))
                outer = f"({extent} + {factor - 1}) // {factor}" if extent.variable else -(-extent.offset // factor)
                place = f"{loop(outer)} * {factor} + {loop(factor)}"
                if extent.variable or extent.offset % factor:
                    nest.predicates.append(f"{place} < {extent}")
                nest.bindings[axis.name] = f"{place}{shift}"
            elif chance < 0.27 and waiting and not waiting[0].low and not axis.low:
                other = waiting.pop(0)
                fused = loop(f"({extent}) * ({other.extent})")
                nest.bindings[axis.name] = f"{fused} // ({other.extent})"
                nest.bindings[other.name] = f"{fused} % ({other.extent})"
            elif chance < 0.3 and extent == Size(1):
                nest.bindings[axis.name] = str(axis.low)
            else:
                nest.bindings[axis.name] = f"{loop(extent)}{shift}"
        if rng.random() < 0.05:
            loop(1)
        if rng.random() < 0.3:
            rng.shuffle(nest.loops)

    # ------------------------------------------------------------------ the text

    def text(self) -> str:
        """The function as TVMScript."""
        lines = []
        params = []
        for t in (*self.args, *self.results):
            shape = shape_text(t.shape)
            if self.explicit and not any(size.variable for size in t.shape):
                params.append(f'{t.name}: T.Buffer({shape}, "{t.dtype}")')
            else:
                params.append(f"p_{t.name}: T.handle")
                lines.append(f'{t.name} = T.match_buffer(p_{t.name}, {shape}, "{t.dtype}")')
        names = [f"{name} = T.int32()" for name in self.sizes if not self.passed(name)]
        params = [f"{name}: T.int32" for name in self.sizes if self.passed(name)] + params
        for t in self.inner:
            shape = shape_text(t.shape)
            lines.append(f'{t.name} = T.alloc_buffer({shape}, "{t.dtype}")')
        for nest in self.nests:
            lines += self.nest_lines(nest)
        body = "\n".join("    " + line for line in (*names, *lines))
        return f"{HEAD}def main({', '.join(params)}):\n{body}\n"

    def passed(self, name: str) -> bool:
        """Whether a size is a parameter: no array has it as a dimension."""
        return not any(size == Size(0, name, 1) for t in (*self.args, *self.results) for size in t.shape)

    def nest_lines(self, nest: Nest) -> list[str]:
        lines = []
        for depth, (name, extent) in enumerate(nest.loops):
            lines.append("    " * depth + f"for {name} in range({extent}):")
        indent = "    " * len(nest.loops)
        lines.append(f'{indent}with T.block("{nest.name}"):')
        return lines + [indent + "    " + line for line in self.block_lines(nest)]

    def block_lines(self, nest: Nest) -> list[str]:
        lines = []
        for axis in nest.axes + nest.reduced:
            opaque = axis.name in nest.opaque or nest.carried and axis.name == "v0"
            how = "opaque" if opaque else "reduce" if axis in nest.reduced else "spatial"
            end = axis.extent._replace(offset=axis.extent.offset + axis.low)
            domain = f"({axis.low}, {end})" if axis.low else str(axis.extent)
            lines.append(f"{axis.name} = T.axis.{how}({domain}, {nest.bindings[axis.name]})")
        if nest.predicates:
            lines.append(f"T.where({' and '.join(nest.predicates)})")
        if nest.own:
            return lines + nest.own
        place = f"[{', '.join(a.name for a in nest.axes) or '()'}]"
        values = [sl.script_text(e) for e in nest.bodies]
        targets = [f"{t.name}{place}" for t in nest.outputs]
        if nest.carried:
            before = targets[0].replace("[v0", "[v0 - 1", 1)
            running = sl.script_call(CARRIED[nest.carried], nest.bodies[0].dtype, before, values[0])
            return [*lines, "if v0 == 0:", f"    {targets[0]} = {values[0]}", "else:", f"    {targets[0]} = {running}"]
        if not nest.reducer:
            return [*lines, *[f"{target} = {value}" for target, value in zip(targets, values)]]
        start = [f"    {target} = {text}" for target, text in zip(targets, self.identities(nest))]
        if nest.init is not None:
            start = [f"    {targets[0]} = {sl.script_text(nest.init)}"]
        lines += ["with T.init():", *start]
        return lines + self.update_lines(nest, targets, values)

    def update_lines(self, nest: Nest, targets: list[str], values: list[str]) -> list[str]:
        dtype = nest.bodies[-1].dtype
        if len(targets) == 1:
            op = {"sum": "add", "prod": "mul"}.get(nest.reducer, nest.reducer)
            update = sl.script_call(op, dtype, targets[0], values[0])
            if nest.where is not None:
                return [f"if {sl.script_text(nest.where)}:", f"    {targets[0]} = {update}"]
            return [f"{targets[0]} = {update}"]
        names = [f"new_{t.name}" for t in nest.outputs]
        if nest.reducer == "sum_max":
            results = [sl.script_call("add", "int32", targets[0], values[0])]
            results.append(sl.script_call("max", dtype, targets[1], values[1]))
        else:
            sign = ">" if nest.reducer == "argmax" else "<"
            a, b = values[1], targets[1]
            first = f"{b} {sign} {a} or ({b} == {a} and {targets[0]} <= {values[0]})"
            results = [f"T.Select({first}, {target}, {value})" for target, value in zip(targets, values)]
        lets = [f"{n}: T.{e.dtype} = {r}" for n, e, r in zip(names, nest.bodies, results)]
        return [*lets, *[f"{target} = {name}" for target, name in zip(targets, names)]]

    def identities(self, nest: Nest) -> list[str]:
        dtype = nest.bodies[-1].dtype
        least, most = (f'T.{word}_value("{dtype}")' for word in ("min", "max"))
        if dtype == "bool":
            least, most = "T.bool(False)", "T.bool(True)"
        if nest.reducer in ("argmax", "argmin"):
            return ['T.max_value("int32")', least if nest.reducer == "argmax" else most]
        if nest.reducer == "sum_max":
            return ["T.int32(0)", least]
        if nest.reducer in ("max", "min"):
            return [least if nest.reducer == "max" else most]
        number = int(nest.reducer == "prod")
        return [f"T.{dtype}({bool(number) if dtype == 'bool' else number})"]

    # ------------------------------------------------------------------ the meaning

    def evaluate(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The value of every buffer."""
        env: dict[str, Any] = {**self.sizes, **arrays}
        for nest in self.nests:
            if nest.meaning is not None:
                env.update(nest.meaning(env))
                continue
            values = self.evaluate_computation(nest, env)
            if nest.carried:
                values = [running(nest.carried, values[0])]
            elif nest.reducer in ("max", "min") and nest.bodies[0].is_float:
                values = [start_finite(nest.reducer, values[0])]
            for t, value in zip(nest.outputs, values):
                env[t.name] = value
        return env


def shape_text(shape: tuple[Size, ...]) -> str:
    """The shape of a buffer as a tuple of sizes."""
    return f"({', '.join(map(str, shape))},)" if shape else "()"


def start_finite(reducer: str, values: Any) -> Any:
    """Maxima or minima that begin with the number that the text of the function says, which is finite."""
    most = ml_dtypes.finfo(values.dtype).max
    start = np.full_like(values, -most if reducer == "max" else most)
    return reduce_last(reducer, np.stack([start, values], -1))


def running(reducer: str, values: Any) -> Any:
    """The reduction of each first part along the first axis."""
    result = values.copy()
    for n in range(1, len(values)):
        result[n] = reduce_last(reducer, np.stack([result[n - 1], values[n]], -1))
    return result


# ---------------------------------------------------------------------- a seed


class Case:
    """The function of a seed, its schedule, and how it is built.

    `calls` are the schedule calls that were accepted; with `replay` these are made and no random ones.
    """

    program_class: type[Program] = Program

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.program = self.program_class(self.rng, without)
        self.bounds = self.rng.random() < 0.5
        self.target = self.rng.choice(TARGETS)
        self.debug_mask = "all" if self.rng.random() < 0.25 else "none"
        self.calls: list[str] = []
        self.layouts: dict[str, tuple[str, Layout]] = {}
        self.replay: list[str] | None = None

    def make(self) -> None:
        """Parse and schedule the function."""
        self.source = Source("from tvmagic.script import from_source")
        source = self.source
        text = self.program.text()
        guarded_call("program", lambda: source.run(f'func = from_source("""{text}""")'))
        options = f"seed={self.seed + 1}, debug_mask={self.debug_mask!r}"
        guarded_call("program", lambda: source.run(f"sch = tir.Schedule(func, {options})"))
        scheduled = Schedules(self)
        try:
            scheduled.run() if self.replay is None else scheduled.again(self.replay)
        finally:
            self.calls = scheduled.accepted
        if self.seed % 8 == 0:
            self.check_replay()
        self.check_regions()

    def check_regions(self) -> None:
        """Blocks touch nothing outside the regions that they declare."""
        for func in self.source.names["sch"].mod.functions.values():
            outside = outside_of_regions(func)
            if outside is not None:
                raise Wrong("regions", outside)

    def check_replay(self) -> None:
        """The trace makes the same function again, and so does its JSON without what nobody uses."""
        from tvmagic import tir
        from tvmagic.ir import structural_equal

        sch = self.source.names["sch"]
        ways: list[Any] = [
            lambda again: sch.trace.apply_to_schedule(again, remove_postproc=False),
            lambda again: sch.trace.apply_json_to_schedule(json.dumps(sch.trace.simplified(False).as_json()), again),
        ]
        for way in ways:
            again = tir.Schedule(self.source.names["func"])
            try:
                way(again)
            except Exception as error:
                raise Wrong("replay", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
            if not structural_equal(again.mod, sch.mod):
                raise Wrong("replay", "the trace makes another function")

    def check(self) -> None:
        """Raise `Wrong` unless the compiled function does what it means."""
        self.make()
        program = self.program
        line = f"f = tvmagic.build(sch.mod, target={self.target!r}, check_bounds={self.bounds})"
        guarded_call("build", lambda: self.source.run(line))
        with np.errstate(all="ignore"):
            arrays = program.arrays(np.random.default_rng(self.seed))
            values = program.meaning(arrays)
        inexact = {t.name: nest.inexact for nest in program.nests for t in nest.outputs}
        layouts = dict(self.layouts[call] for call in self.calls if call in self.layouts)
        arguments: list[Any] = [value for name, value in program.sizes.items() if program.passed(name)]
        for t in (*program.args, *program.results):
            value, known, start = values[t.name], None, arrays[t.name] if t in program.changed else None
            if t.name in layouts:
                value, known = layouts[t.name].apply(value)
                start = start if start is None else layouts[t.name].apply(start)[0]
            written = t in (*program.results, *program.changed)
            arguments.append(Argument(value, written, inexact.get(t.name, False), known, start))
        for function in self.functions():
            check_call(function, arguments, random.Random(self.seed))

    def functions(self) -> list[Any]:
        """What has to give the right values: the compiled function."""
        return [self.source.names["f"]]

    def text(self) -> str:
        """The program as a file that makes it."""
        sizes = "".join(f"# {name} = {value}\n" for name, value in self.program.sizes.items())
        return sizes + self.source.text()

    def holders(self) -> list[tuple[list[Expr], int]]:
        """Each expression of the program, as a list and a place in it, for a shrinker to change."""
        return [(nest.bodies, n) for nest in self.program.nests for n in range(len(nest.bodies))]
