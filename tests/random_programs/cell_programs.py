"""Random `%%tensor` cells and `%%schedule` cells of them: the texts, and what they compute.

Half of the cells are one operator on arrays of special values; the others are programs of several statements.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import small_language as sl
import te_programs
from computations import Computation, RandomProgram
from guarded_arrays import Guarded, difference
from odd_arguments import disguised, odd_view, overlapping, repeated, wrong
from outcomes import TARGETS, Argument, Source, Wrong, check_call, guarded_call, refusal, tolerance
from random_layouts import Layout
from random_values import Size
from small_language import FLOATS, INTS, UINTS, Expr

_wide = np.float64
UNARY_FLOAT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "tanh": np.tanh, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "erf": np.vectorize(math.erf, otypes=[_wide]),
}  # fmt: skip
EXACT_FLOAT: dict[str, Callable[[Any], Any]] = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "nearbyint": np.rint, "abs": np.abs,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "-": np.negative,
    "relu": lambda x: np.maximum(x, np.zeros_like(x)),
}  # fmt: skip
BINARY_FLOAT: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "max": np.maximum, "min": np.minimum,
    "maximum": np.maximum, "minimum": np.minimum, "copysign": np.copysign, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
INEXACT_BINARY: dict[str, Callable[..., Any]] = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
BINARY_INT: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder, "max": np.maximum,
    "floordiv": np.floor_divide, "floormod": np.remainder, "truncdiv": sl.MEANING["truncdiv"],
    "truncmod": sl.MEANING["truncmod"], "min": np.minimum, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
    "!=": np.not_equal,
}  # fmt: skip


def _bits_set(x: Any) -> Any:
    counts = [bin(int(v) & ((1 << 8 * x.itemsize) - 1)).count("1") for v in x.ravel()]
    return np.array(counts, x.dtype).reshape(x.shape)


UNARY_INT: dict[str, Callable[[Any], Any]] = {"-": np.negative, "~": np.invert, "abs": np.abs, "popcount": _bits_set}
SHIFTS: dict[str, Callable[..., Any]] = {"<<": np.left_shift, ">>": np.right_shift}
BINARY_BOOL: dict[str, Callable[..., Any]] = {
    "+": np.add, "*": np.multiply, "and": np.logical_and, "or": np.logical_or, "==": np.equal, "!=": np.not_equal,
    "max": np.maximum, "min": np.minimum, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
}  # fmt: skip
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 10.0, 100.0, np.nan, np.inf, -np.inf)


def special_values(rng: np.random.Generator, dtype: str, count: int) -> Any:
    """An array of `count` values of `dtype`, most of them special."""
    kind = sl.numpy_dtype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype in FLOATS:
        return rng.choice(np.array(SPECIAL), count).astype(kind)
    low, high = sl.limits(dtype)
    pool = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, *((-1, -2, -3, -7) if low < 0 else (high // 2,))]
    return np.array([rng.choice(np.array(pool, object)) for _ in range(count)], kind)


class OneOperator:
    """A cell with one operator on vectors."""

    COUNT = 37

    def __init__(self, rng: random.Random, without: frozenset[str]) -> None:
        self.rng, self.without = rng, without
        self.dtype = rng.choice(sl.DTYPES)
        self.inexact = False
        self.shift = False
        self.out_dtype = self.dtype
        self.text, self.meaning, self.dtypes = self.choose()
        self.result = "X" if self.out_dtype == self.dtypes[0] and rng.random() < 0.2 else "R"  # X: an update in place

    def choose(self) -> tuple[str, Callable[..., Any], list[str]]:
        """The right side of the statement, what it means, and the dtypes of its inputs."""
        rng, dtype = self.rng, self.dtype
        if rng.random() < 0.2:
            self.out_dtype = rng.choice(sl.DTYPES)
            return f"{self.out_dtype}(X[i])", self.cast, [dtype]
        if rng.random() < 0.1:
            return "X[i] if Y[i] else Z[i]", lambda x, y, z: np.where(y, x, z), [dtype, "bool", dtype]
        if dtype in FLOATS:
            table, self.inexact = rng.choice(
                ((UNARY_FLOAT, True), (EXACT_FLOAT, False), (BINARY_FLOAT, False), (BINARY_FLOAT, False),
                 (INEXACT_BINARY, True))
            )  # fmt: skip
        elif dtype == "bool":
            table = BINARY_BOOL
        else:
            table = rng.choice((BINARY_INT, BINARY_INT, BINARY_INT, UNARY_INT, SHIFTS))
            self.shift = table is SHIFTS
        name = rng.choice(list(table))
        if name == "-" and dtype in UINTS and table is UNARY_INT:
            name = "~"
        one = table in (UNARY_FLOAT, EXACT_FLOAT, UNARY_INT)
        plain = not name.isalpha() or name in ("and", "or")
        if one:
            text = f"{name}X[i]" if not name[0].isalpha() else f"{name}(X[i])"
        else:
            text = f"X[i] {name} Y[i]" if plain else f"{name}(X[i], Y[i])"
        if name in ("<", "<=", ">", ">=", "==", "!=", "isnan", "isinf", "isfinite"):
            self.out_dtype = "bool"
        return text, self.by_way(table[name]), [dtype] if one else [dtype, dtype]

    def by_way(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, computed in float64 if it is inexact, and in float32 for bfloat16."""
        wide = "float64" if self.inexact else "float32" if self.dtype == "bfloat16" else None

        def run(*args: Any) -> Any:
            result = function(*[a.astype(wide) if wide else a for a in args])
            return result if result.dtype == bool else result.astype(args[0].dtype)

        return run

    def cast(self, x: Any) -> Any:
        """The values as the other dtype; what does not fit is left out before."""
        return x != 0 if self.out_dtype == "bool" else x.astype(sl.numpy_dtype(self.out_dtype))

    def arrays(self, numbers: np.random.Generator) -> list[Any]:
        """The inputs."""
        arrays = [special_values(numbers, dtype, self.COUNT) for dtype in self.dtypes]
        if self.shift:
            bits = arrays[0].dtype.itemsize * 8
            arrays[1] = numbers.integers(0, bits, self.COUNT).astype(arrays[0].dtype)
        if self.meaning == self.cast and self.dtype in FLOATS and self.out_dtype in INTS + UINTS:
            low, high = sl.limits(self.out_dtype)  # what a number outside becomes differs from CPU to CPU
            wide = arrays[0].astype("float64")
            arrays[0][~((low <= wide) & (wide <= high))] = 1
        return arrays

    def cell(self) -> str:
        """The text."""
        lines = [f"{name}: {dtype}[{self.COUNT}]" for name, dtype in zip("XYZ", self.dtypes)]
        return "\n".join([*lines, f"{self.result}[i] = {self.text}"])


class Program(RandomProgram):
    """A cell of several statements."""

    def __init__(self, rng: random.Random, without: frozenset[str]) -> None:
        super().__init__(rng, without | {"several", "tuple", "init"})
        for name in self.sizes:  # a size is told by a dimension of an input
            if not any(size == Size(0, name, 1) for t in self.inputs for size in t.shape):
                first = self.inputs[0]
                self.inputs[0] = first._replace(shape=(*first.shape, Size(0, name, 1)))
        self.tensors = list(self.inputs)
        self.stages: list[Computation] = []
        count = rng.choice((1, 2, 2, 3))
        for n in range(count):
            stage = Computation(f"S{n}", self.shape())
            if rng.random() < 0.35:
                self.make_reduction(stage, conditions=False)
                indexing = sl.index_names(stage.bodies[0])
                stage.reduced = [a for a in stage.reduced if a.name in indexing]
                stage.reducer = stage.reducer if stage.reduced else ""
            else:
                self.make_values(stage, 1, n == count - 1)
            self.stages.append(stage)
            self.tensors += stage.outputs

    def tensor_names(self) -> list[str]:
        """The names of all tensors, for schedule calls."""
        return [t.name for t in self.tensors]

    def cell(self) -> str:
        """The text."""
        lines = [f"{t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]" for t in self.inputs]
        for stage in self.stages:
            lines += self.statement(stage)
        return "\n".join(lines)

    def statement(self, stage: Computation) -> list[str]:
        names: dict[str, str] = {}
        lines = [f"{stage.name}: {stage.outputs[0].dtype}[{', '.join(map(str, stage.shape))}]"]
        for axis in stage.axes + stage.reduced:
            names[axis.name] = f"{axis.name}_{stage.name}"
            end = axis.extent._replace(offset=axis.extent.offset + axis.low)
            lines.append(f"{names[axis.name]}: range({f'{axis.low}, ' if axis.low else ''}{end})")
        body = sl.cell_text(stage.bodies[0], names)
        place = f"{stage.name}[{', '.join(names[a.name] for a in stage.axes)}]"
        if not stage.reducer:
            return [*lines, f"{place} = {body}"]
        over = ", ".join(names[a.name] for a in stage.reduced)
        over = over if len(stage.reduced) == 1 else f"({over})"
        return [*lines, f"{place} = {stage.reducer}({body}, over={over})"]

    def evaluate(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """The value of every tensor."""
        env: dict[str, Any] = {**self.sizes, **arrays}
        for stage in self.stages:
            for t, value in zip(stage.outputs, self.evaluate_computation(stage, env)):
                env[t.name] = value
        return env


class Case:
    """The cell of a seed, and a schedule of it."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        one = self.rng.random() < 0.5
        self.program: Any = OneOperator(self.rng, without) if one else Program(self.rng, without)
        self.target = self.rng.choice(TARGETS)
        self.calls: list[str] = []
        self.layouts: dict[str, tuple[str, Layout]] = {}
        self.replay: list[str] | None = None

    def make(self) -> None:
        """Run the cell, and find calls for its schedule."""
        self.source = Source(
            "from tvmagic.operators import operator", "from tvmagic.operators.scheduling import schedule"
        )
        text = self.program.cell()
        guarded_call("cell", lambda: self.source.run(f'op = operator("op", """{text}""")'))
        if isinstance(self.program, Program):
            self.find_calls()

    def find_calls(self) -> None:
        """Random calls, tried on a schedule of their own."""
        source, lines = self.source, list(self.source.lines)
        source.run("s = op.te_schedule()")
        source.names.update({st.op.name: st.op.output(0) for st in source.names["s"].stages})
        scheduled = te_programs.Schedules(self)
        scheduled.without = self.program.without | {"layout"}
        try:
            scheduled.run() if self.replay is None else scheduled.again(self.replay)
        finally:
            self.calls = scheduled.accepted
        source.lines = lines

    def inputs(self) -> dict[str, Any]:
        """Arrays for the inputs by name."""
        numbers = np.random.default_rng(self.seed)
        with np.errstate(all="ignore"):
            if isinstance(self.program, OneOperator):
                return dict(zip("XYZ", self.program.arrays(numbers)))
            inputs = self.program.arrays(numbers)
        return {t.name: inputs[t.name] for t in self.source.names["op"].inputs}

    def outputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the cell makes of them, by name."""
        with np.errstate(all="ignore"):
            if isinstance(self.program, OneOperator):
                return {self.program.result: self.program.meaning(*inputs.values())}
            values = self.program.meaning(inputs)
        # a sum of 16-bit floats is a stage in float32 of its own, and the result is named after both
        return {
            t.name: values.get(t.name, values.get(t.name.removesuffix(f"_{t.dtype}")))
            for t in self.source.names["op"].outputs
        }

    def check(self) -> None:
        """Raise `Wrong` unless calls, the reference and a scheduled version give what the cell means."""
        self.make()
        inputs = self.inputs()
        outputs = self.outputs(inputs)
        inexact = getattr(self.program, "inexact", False) or any(
            st.inexact for st in getattr(self.program, "stages", ())
        )
        arguments: list[Any] = [Argument(value, False) for value in inputs.values()]
        arguments += [Argument(value, True, inexact) for value in outputs.values()]
        op, count = self.source.names["op"], len(inputs)

        def reference(*arrays: Any) -> None:
            results = op.reference(*arrays[:count])
            results = results if isinstance(results, tuple) else (results,)
            for array, result in zip(arrays[count:], results):
                array[...] = result

        rng = random.Random(self.seed)
        self.step("the reference", lambda: check_call(reference, arguments, rng))
        self.step("a call", lambda: check_call(lambda *a: op(*a[:count], out=a[count:]), arguments, rng))
        if isinstance(self.program, Program):
            self.check_schedule(arguments, rng)
        else:
            self.vectorized(arguments, rng)
            if self.program.result == "X":
                self.step("in place", lambda: self.in_place(list(inputs.values()), arguments[count]))
        if rng.random() < 0.5:
            self.step("odd arguments", lambda: self.odd_arguments(inputs, inexact, rng))

    def in_place(self, inputs: list[Any], wanted: Argument) -> None:
        """A call whose output is its first input."""
        first, *others = [value.copy() for value in inputs]
        guarded_call("call", lambda: self.source.names["op"](first, *others, out=first))
        problem = difference(first, wanted.value, *tolerance(wanted))
        if problem is not None:
            raise Wrong("result", problem)

    def odd_arguments(self, inputs: dict[str, Any], inexact: bool, rng: random.Random) -> None:
        """Calls on views with any strides, and on what is no array for the operator, of the plain loops and of a version."""
        op = self.source.names["op"]
        version = rng.choice((op.plain, op.current))
        given = {name: repeated(rng, a) if rng.random() < 0.2 else a for name, a in inputs.items()}
        wanted = [Argument(value, True, inexact) for value in self.outputs(given).values()]
        views = {n: odd_view(rng, a) if a is inputs[n] else None for n, a in given.items()}
        arrays = {n: given[n] if v is None else disguised(rng, v.array) for n, v in views.items()}
        results = [odd_view(rng, w.value, changes=True) for w in wanted]
        out = tuple(r.array for r in results) if len(results) > 1 or rng.random() < 0.3 else results[0].array
        order = rng.sample(list(arrays), len(arrays))
        if rng.random() < 0.5:
            call = functools.partial(version, *arrays.values(), out=out)
        else:
            call = functools.partial(version, **{n: arrays[n] for n in order}, out=out)
        self.accepted(call, wanted, results, [v for v in views.values() if v is not None])
        self.refused(version, list(given.values()), rng)
        for n, value in enumerate(given.values()):
            if len(wanted) == 1 and value.dtype == wanted[0].value.dtype:
                place, result = overlapping(rng, value, wanted[0].value)
                arrays = [*list(given.values())[:n], place, *list(given.values())[n + 1 :]]
                self.accepted(lambda a=arrays, r=result: version(*a, out=r), wanted, [result], [])

    @staticmethod
    def accepted(call: Callable[[], Any], wanted: list[Argument], results: list[Any], others: list[Guarded]) -> None:
        """Raise `Wrong` unless the call writes what is wanted into `results`, and nothing else."""
        try:
            call()
        except Exception as error:
            if refusal(error) and "takes a contiguous array" in str(error):  # sizes that are numbers have no strides
                return
            kind = "refused" if refusal(error) else "internal"
            raise Wrong(kind, f"call: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
        if any(isinstance(array, Guarded) and array.outside_written() for array in (*results, *others)):
            raise Wrong("outside", "memory beside an output was written")
        for given, array in zip(wanted, results):
            array = array.array if isinstance(array, Guarded) else array
            problem = difference(array, given.value, *tolerance(given))
            if problem is not None:
                raise Wrong("result", problem)

    def refused(self, version: Any, arrays: list[Any], rng: random.Random) -> None:
        """Raise `Wrong` unless each wrong argument is refused, in one sentence."""
        tensors = version.operator.inputs
        for n, array in enumerate(arrays):
            fixed = [
                axis for axis, size in enumerate(tensors[n].shape) if isinstance(getattr(size, "value", None), int)
            ]
            for what, value in wrong(rng, array, fixed):
                self.one_refusal(f"{tensors[n].name}: {what}", version, [*arrays[:n], value, *arrays[n + 1 :]])
        self.one_refusal("too many arrays", version, [*arrays, arrays[0]] if arrays else [1])
        if arrays:
            self.one_refusal("too few arrays", version, arrays[1:])

    @staticmethod
    def one_refusal(what: str, version: Any, arrays: list[Any]) -> None:
        try:
            version(*arrays)
        except Exception as error:
            if not refusal(error) or "\n" in error.message:  # type: ignore[attr-defined]
                raise Wrong("internal", f"{what}: {type(error).__name__}: {error}") from error
            return
        raise Wrong("accepted", what)

    @staticmethod
    def step(what: str, run: Callable[[], None]) -> None:
        """Run a part of the check, and name it if it fails."""
        try:
            run()
        except Wrong as error:
            raise Wrong(error.kind, f"{what}: {error}") from error

    def vectorized(self, arguments: list[Any], rng: random.Random) -> None:
        """The one operator in vectors, for some CPU."""
        text = "R = op.outputs[0]\no, i = s[R].split(R.op.axis[0], factor=8)\ns[R].vectorize(i)"
        guarded_call("schedule", lambda: self.source.run(f'v = schedule(op, """{text}""", namespace={{"op": op}})'))
        self.compiled(arguments, rng)

    def compiled(self, arguments: list[Any], rng: random.Random) -> None:
        guarded_call("build", lambda: self.source.run(f"f = v.build({self.target!r})"))
        self.step("scheduled", lambda: check_call(self.source.names["f"], arguments, rng))

    def check_schedule(self, arguments: list[Any], rng: random.Random) -> None:
        """The calls as a `%%schedule` cell."""
        text = "\n".join(self.calls) or "s[op.outputs[0]]"
        names = '{"te": te, "tir": tir, "op": op}'
        guarded_call("schedule", lambda: self.source.run(f'v = schedule(op, """{text}""", namespace={names})'))
        self.compiled(arguments, rng)

    def text(self) -> str:
        """The program as a file that makes it."""
        return self.source.text()

    def holders(self) -> list[tuple[list[Expr], int]]:
        """Each expression of the program, as a list and a place in it, for a shrinker to change."""
        return [(st.bodies, n) for st in getattr(self.program, "stages", ()) for n in range(len(st.bodies))]
