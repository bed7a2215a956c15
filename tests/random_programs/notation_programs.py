"""Random cells in the index notation, held against what their text says, element by element.

`--check` compares a compiled program with the tensor expressions that the notation made; here the statements of the
cell are run as they are read, by loops over Python's own numbers, so that a wrong translation is found as well. Every
index name has one range (`SIZES`), which the cell declares or which follows; a reduction may use a name again.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from outcomes import Argument, Wrong, check_call, guarded_call

SIZES = {"i": 3, "j": 4, "k": 5, "l": 2, "m": 3}
REDUCED: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "prod": math.prod,
    "max": max,
    "min": min,
    "mean": lambda values: sum(values) / len(values),
    "argmax": lambda values: values.index(max(values)),
    "argmin": lambda values: values.index(min(values)),
}
RUNNING: dict[str, Callable[[list[Any]], Any]] = {"cumsum": sum, "cumprod": math.prod, "cummax": max, "cummin": min}
COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
}
COMBINED: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Mod: lambda a, b: a % b,
}
Values = dict[str, Any]


def elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def loops_of(call: ast.Call) -> tuple[list[str], ast.expr]:
    """The names over which a reduction runs, and its expression."""
    if isinstance(call.args[0], ast.GeneratorExp):
        return [g.target.id for g in call.args[0].generators], call.args[0].elt  # type: ignore[attr-defined]
    over = [n.id for k in call.keywords for n in elements(k.value)]  # type: ignore[attr-defined]
    return over, call.args[0]


def free_names(node: ast.AST) -> set[str]:
    """The index names of an expression that no reduction in it runs over."""
    if isinstance(node, ast.Name):
        return {node.id} & set(SIZES)
    if isinstance(node, ast.Call) and node.func.id in REDUCED:  # type: ignore[attr-defined]
        over, inner = loops_of(node)
        return free_names(inner).difference(over)
    return {n for child in ast.iter_child_nodes(node) for n in free_names(child)}


def places(names: Sequence[str]) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*[range(SIZES[n]) for n in names])


class Meaning:
    """Runs statements on `tensors`, an array for each name."""

    def __init__(self, tensors: Values) -> None:
        self.tensors = tensors

    def run(self, statement: ast.stmt) -> None:
        """Define the tensor that the statement assigns; others declare."""
        if not isinstance(statement, (ast.Assign, ast.AugAssign)):
            return
        target: Any = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        left = [n.id for n in elements(target.slice) if isinstance(n, ast.Name)]
        reduced = [n for n in SIZES if n in free_names(statement.value) and n not in left]
        result = self.tensors[target.value.id] = np.zeros([SIZES[n] for n in left])
        for place in places(left):
            at = dict(zip(left, place))
            if isinstance(statement, ast.Assign):
                result[place] = self.value(statement.value, at)
                continue
            values = [self.value(statement.value, {**at, **dict(zip(reduced, p))}) for p in places(reduced)]
            result[place] = sum(values) if isinstance(statement.op, ast.Add) else math.prod(values)

    def value(self, node: Any, at: dict[str, int]) -> Any:
        """The number that an expression is where the index names are `at`."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return at[name]
            case ast.UnaryOp(operand=operand):
                return -self.value(operand, at)
            case ast.BinOp(left=left, op=op, right=right):
                return COMBINED[type(op)](self.value(left, at), self.value(right, at))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return COMPARED[type(op)](self.value(left, at), self.value(right, at))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test, at) else orelse, at)
            case ast.Subscript(value=ast.Name(id=name), slice=indices):
                place = tuple(self.value(i, at) for i in elements(indices))
                if any(not 0 <= p < size for p, size in zip(place, self.tensors[name].shape)):
                    raise AssertionError(f"{ast.unparse(node)} at {at} is outside of `{name}`")
                return float(self.tensors[name][place])
            case ast.Call():
                return self.call(node, at)
        raise AssertionError(ast.dump(node))

    def call(self, node: ast.Call, at: dict[str, int]) -> Any:
        name: str = node.func.id  # type: ignore[attr-defined]
        if not node.keywords and not isinstance(node.args[0], ast.GeneratorExp):
            return (max if name == "max" else abs)(*[self.value(a, at) for a in node.args])
        over, inner = loops_of(node)
        values = [self.value(inner, {**at, **dict(zip(over, p))}) for p in places(over)]
        if name in REDUCED:
            return REDUCED[name](values)
        own = at[over[0]]  # one value for each place along the index
        if name == "softmax":
            return math.exp(values[own] - max(values)) / sum(math.exp(v - max(values)) for v in values)
        return RUNNING[name](values[: own + 1])


class Case:
    """The cell of a seed; `without` may name reductions, recurrences, generators, auto."""

    def __init__(self, seed: int, without: frozenset[str] = frozenset()) -> None:
        self.rng, self.seed, self.without = random.Random(seed), seed, without
        self.shapes: dict[str, list[int]] = {}
        self.left: list[str] = []
        self.calls: list[str] = []
        self.replay: list[str] | None = None
        self.lines = [f"{name}: range({size})" for name, size in SIZES.items()]

    # ------------------------------------------------------------------ the cell

    def make(self) -> None:
        """Write the statements."""
        rng = self.rng
        for n in range(rng.randint(1, 3)):
            shape = [rng.choice(list(SIZES.values())) for _ in range(rng.randint(1, 3))]
            self.shapes[f"X{n}"] = shape
            self.lines.append(f"X{n}: float64{shape}")
        for n in range(rng.randint(1, 4)):
            self.statement(f"Y{n}")

    def statement(self, name: str) -> None:
        rng = self.rng
        left = self.left = rng.sample(list(SIZES), rng.randint(0, 3))
        others = [n for n in SIZES if n not in left]
        kind = rng.random()
        target = f"{name}[{', '.join(left) or '()'}]"
        if left and (kind >= 0.1 or "recurrences" in self.without):
            self.lines.append(f"{name}: float64{[SIZES[n] for n in left]}")
        if kind < 0.1 and left and "recurrences" not in self.without:
            along = rng.choice(left)
            before = ", ".join(f"{n} - 1" if n == along else n for n in left)
            first, rest = (
                self.expression(left, 2),
                f"{self.expression(left, 2)} + X0[{', '.join('0' * len(self.shapes['X0']))}]",
            )
            self.lines.append(f"{target} = {first} if {along} == 0 else {name}[{before}] * 0.5 + {rest}")
        elif kind < 0.2 and left:
            function = rng.choice((*RUNNING, "softmax"))
            along = rng.choice(left)
            self.lines.append(f"{target} = {function}({self.holding(left, [along], 2)}, over={along})")
        elif kind < 0.55:
            self.lines.append(f"{target} = {self.expression(left, rng.randint(1, 4))}")
        else:
            over = rng.sample(others, rng.randint(1, 2))
            value = self.holding([*left, *over], over, rng.randint(1, 4))
            self.lines.append(f"{target} {rng.choice(('+=', '+=', '*='))} {value}")
        if left:
            self.shapes[name] = [SIZES[n] for n in left]

    def holding(self, names: Sequence[str], wanted: Sequence[str], depth: int) -> str:
        """An expression in which all of `wanted` are free."""
        for _ in range(12):
            text = self.expression(names, depth)
            if free_names(ast.parse(text, mode="eval")).issuperset(wanted):
                return text
        return " + ".join([self.access(names), *[f"0.25 * {n}" for n in wanted]])

    def expression(self, names: Sequence[str], depth: int) -> str:
        rng = self.rng
        part = lambda: self.expression(names, depth - 1)  # noqa: E731
        kind = rng.random() if depth > 0 else 0.0
        if kind < 0.25:
            return self.access(names)
        if kind < 0.5:
            return f"({part()} {rng.choice('+-*')} {part()})"
        if kind < 0.62:
            return f"max({part()}, {part()})" if rng.random() < 0.6 else f"abs({part()})"
        if kind < 0.72 and names:
            name = rng.choice(names)
            test = f"{name} {rng.choice(('<', '>=', '=='))} {rng.randrange(SIZES[name])}"
            if rng.random() < 0.4:
                test = f"{self.access(names)} < {self.access(names)}"
            return f"({part()} if {test} else {part()})"
        if kind < 0.76:
            return str(rng.choice((0.5, 2, 3.25, -1)))
        return self.reduction(names, depth) if "reductions" not in self.without else self.access(names)

    def reduction(self, names: Sequence[str], depth: int) -> str:
        rng = self.rng
        over = rng.sample(list(SIZES), rng.randint(1, 2))
        functions = [f for f in REDUCED if len(over) == 1 or not f.startswith("arg")]
        inner = self.holding(sorted({*names, *over}), over, depth - 1)
        if rng.random() < 0.4 and not set(over) & set(self.left) and "generators" not in self.without:
            loops = " ".join(f"for {n} in range({SIZES[n]})" for n in over)
            return f"{rng.choice(functions)}({inner} {loops})"
        return f"{rng.choice(functions)}({inner}, over={over[0] if len(over) == 1 else f'({over[0]}, {over[1]})'})"

    def access(self, names: Sequence[str]) -> str:
        """An element of a tensor, at places inside it."""
        rng = self.rng
        name = rng.choice(list(self.shapes))
        indices: list[str] = []
        for size in self.shapes[name]:
            fitting = [n for n in names if SIZES[n] == size]
            kind = rng.random()
            if fitting and kind < 0.75:
                indices.append(rng.choice(fitting))
            elif fitting and kind < 0.82:
                indices.append(f"{size - 1} - {rng.choice(fitting)}")
            elif names and kind < 0.92:
                indices.append(f"({rng.choice(names)} * {rng.randint(1, 2)} + {rng.randrange(size)}) % {size}")
            else:
                indices.append(str(rng.randrange(size)))
        return f"{name}[{', '.join(indices)}]"

    # ------------------------------------------------------------------ the check

    def check(self) -> None:
        """Raise `Wrong` unless the operator gives what the statements say."""
        from tvmagic.operators import Version, operator
        from tvmagic.tune import auto

        self.make()
        op = guarded_call("cell", lambda: operator("f", "\n".join(self.lines)))
        numbers = np.random.default_rng(self.seed)
        tensors: Values = {t.name: numbers.normal(size=self.shapes[t.name]) for t in op.inputs}
        inputs = [Argument(tensors[t.name].copy(), False) for t in op.inputs]
        meaning = Meaning(tensors)
        for statement in ast.parse("\n".join(self.lines)).body:
            meaning.run(statement)
        results = [meaning.tensors[t.name] for t in op.outputs]
        wanted = [Argument(r.astype(str(t.dtype)), True, True) for t, r in zip(op.outputs, results)]
        self.step("as written", op, inputs, wanted)
        if "auto" not in self.without and self.rng.random() < 0.3:
            op.add_version(Version(op, guarded_call("auto", lambda: auto(op)), "auto"))
            self.step("by %auto", op, inputs, wanted)

    def step(self, what: str, op: Any, inputs: list[Argument], wanted: list[Argument]) -> None:
        def call(*arrays: Any) -> None:
            results = arrays[len(inputs) :]
            op(*arrays[: len(inputs)], out=results if len(wanted) > 1 else arrays[-1])

        try:
            check_call(lambda *arrays: guarded_call("call", lambda: call(*arrays)), [*inputs, *wanted], self.rng)
        except Wrong as error:
            raise Wrong(error.kind, f"{what}: {error}") from error

    def text(self) -> str:
        """The cell, as a file that makes its operator."""
        return f'from tvmagic.operators import operator\n\nf = operator("f", """{chr(10).join(self.lines)}""")\n'

    def holders(self) -> list[Any]:
        """Expressions for a shrinker: the statements are texts."""
        return []
