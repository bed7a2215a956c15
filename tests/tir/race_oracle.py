"""The races of a printed program, found by running its text iteration by iteration.

Nothing of the package is used here but the text: it is read with Python's `ast`, every access of every loop is
listed with the values of the loops around it, and all pairs of accesses to one element are compared.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

MOST_EVENTS = 60_000


class TooLong(Exception):
    """The program has more accesses than are looked at."""


@dataclass(frozen=True)
class _Choice:
    """What a statement may depend on: its line, the names in it, and where the condition is; a loop has none."""

    line: int
    names: frozenset[str]
    condition: tuple[int, int] | None = None


@dataclass
class Event:
    """One access: what it touches, by which loops, and which statement made it when."""

    buffer: str
    place: tuple[int, ...]
    write: bool
    loops: tuple[tuple[int, int], ...]  # of each loop around it the number of its statement and the iteration
    entered: tuple[int, ...]  # for each loop, the number of the time that it was entered
    statement: int
    choices: tuple[_Choice, ...]  # around it


@dataclass
class Trace:
    """The accesses of a program in serial order, and the kinds of its loops."""

    events: list[Event] = field(default_factory=list)
    kinds: dict[int, tuple[str, str]] = field(default_factory=dict)  # by loop: kind and name
    private: dict[str, int] = field(default_factory=dict)  # by buffer: how many loops are around its allocation
    verdicts: dict[tuple[int, int], set[bool]] = field(default_factory=lambda: defaultdict(set))  # by condition


class _Runner:
    def __init__(self) -> None:
        self.trace = Trace()
        self.names: dict[str, Any] = {}
        self.alias: dict[str, str] = {}
        self.loops: list[tuple[int, int]] = []
        self.entered: list[int] = []
        self.count = itertools.count()
        self.choices: list[_Choice] = []
        self.number = 0

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.run(statement)

    def run(self, node: ast.stmt) -> None:
        if isinstance(node, ast.For):
            self.loop(node)
        elif isinstance(node, ast.If):
            self.number = node.lineno
            taken = self.decide(node.test)
            self.choices.append(_Choice(node.lineno, _names(node.test), _where(node.test)))
            self.block(node.body if taken else node.orelse)
            self.choices.pop()
        elif isinstance(node, ast.With):
            for item in node.items:
                if isinstance(item.context_expr, ast.Call):
                    self.realize(item.context_expr)
            self.block(node.body)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            self.number = node.lineno
            calls = [n for n in ast.walk(node.value) if isinstance(n, ast.Call)]
            picks = [c.args[0] for c in calls if ast.unparse(c.func) == "T.if_then_else"]
            around = len(self.choices)
            self.choices += [_Choice(node.lineno, _names(pick), _where(pick)) for pick in picks]
            self.value(node.value)
            self.access(node.targets[0], True)
            del self.choices[around:]
        elif isinstance(node, ast.Assign):
            self.define(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.realize(node.value)

    def define(self, node: ast.Assign) -> None:
        target, call = node.targets[0], node.value
        assert isinstance(target, ast.Name)
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            data = next((ast.unparse(k.value) for k in call.keywords if k.arg == "data"), None)
            if name in ("T.allocate", "T.decl_buffer") and data is None:
                self.trace.private[target.id] = len(self.loops)
                return
            if name in ("T.Buffer", "T.decl_buffer"):
                if data is not None:
                    first = data.removesuffix(".data")
                    self.alias[target.id] = self.alias.get(first, first)
                return
        self.names[target.id] = self.value(call)

    def realize(self, call: ast.Call) -> None:
        if ast.unparse(call.func) == "T.realize" and isinstance(call.args[0], ast.Subscript):
            name = ast.unparse(call.args[0].value)
            self.trace.private.setdefault(name, len(self.loops))

    def loop(self, node: ast.For) -> None:
        assert isinstance(node.iter, ast.Call)
        kind = ast.unparse(node.iter.func).removeprefix("T.")
        bounds = [int(self.value(a)) for a in node.iter.args]
        names = (
            [ast.unparse(e) for e in node.target.elts]
            if isinstance(node.target, ast.Tuple)
            else [ast.unparse(node.target)]
        )
        if kind == "grid":
            ranges = [range(b) for b in bounds]
        else:
            ranges = [range(*bounds)]
        self.nest(node, kind, names, ranges, 0)

    def nest(self, node: ast.For, kind: str, names: list[str], ranges: list[range], level: int) -> None:
        if level == len(names):
            self.block(node.body)
            return
        number = node.lineno * 10 + level
        self.trace.kinds[number] = (kind, names[level])
        self.entered.append(next(self.count))
        self.choices.append(_Choice(number // 10, _names(node.iter)))
        for value in ranges[level]:
            self.names[names[level]] = value
            self.loops.append((number, value))
            self.nest(node, kind, names, ranges, level + 1)
            self.loops.pop()
        self.choices.pop()
        self.entered.pop()

    # ------------------------------------------------------------------------ values

    def value(self, node: ast.expr) -> Any:
        """The value of an index or a condition; of data, which nothing here depends on, 1."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.names.get(node.id, 1)
        if isinstance(node, ast.Subscript):
            self.access(node, False)
            return 1
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.BoolOp):
            values = [self.value(v) for v in node.values]
            return all(values) if isinstance(node.op, ast.And) else any(values)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand)
            return -inner if isinstance(node.op, ast.USub) else not inner
        if isinstance(node, ast.Compare):
            left, right = self.value(node.left), self.value(node.comparators[0])
            return eval(f"a {_SIGNS[type(node.ops[0])]} b", {"a": left, "b": right})
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left), self.value(node.right)
            return eval(f"a {_SIGNS[type(node.op)]} b", {"a": left, "b": right})
        return 1

    def call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name == "T.if_then_else":
            return self.value(node.args[1] if self.decide(node.args[0]) else node.args[2])
        values = [self.value(a) for a in node.args]
        if name in ("T.min", "T.max"):
            return min(values) if name == "T.min" else max(values)
        return values[0] if name in ("T.likely", "T.bool", "T.int32", "T.Cast") and values else 1

    def decide(self, test: ast.expr) -> bool:
        """The value of a condition, noted; one on data may have either."""
        value = bool(self.value(test))
        on_data = any(isinstance(n, ast.Subscript) for n in ast.walk(test))
        self.trace.verdicts[_where(test)] |= {True, False} if on_data else {value}
        return value

    def access(self, node: ast.Subscript, write: bool) -> None:
        name = ast.unparse(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        place = tuple(int(self.value(p)) for p in parts)
        if len(self.trace.events) > MOST_EVENTS:
            raise TooLong
        buffer = self.alias.get(name, name)
        self.trace.events.append(
            Event(buffer, place, write, tuple(self.loops), tuple(self.entered), self.number, tuple(self.choices))
        )


_SIGNS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Div: "/",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def trace_of(text: str) -> Trace:
    """The accesses of the function in a printed module or function."""
    tree = ast.parse(text)
    function = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))
    runner = _Runner()
    runner.block(function.body)
    return runner.trace


def races(text: str) -> set[tuple[str, str, str]]:
    """The races of a program: the kind of the loop, the name of its variable, the buffer."""
    trace = trace_of(text)
    found: set[tuple[str, str, str]] = set()
    for loop, (kind, name) in trace.kinds.items():
        if kind not in ("parallel", "vectorized"):
            continue
        groups: dict[Any, list[tuple[Event, int]]] = defaultdict(list)
        for event in trace.events:
            depth = next((n for n, (number, _) in enumerate(event.loops) if number == loop), None)
            if depth is None or trace.private.get(event.buffer, 0) > depth:
                continue
            outer = [trace.kinds[number][0] for number, _ in event.loops[:depth]]
            if kind == "vectorized" and "vectorized" in outer:
                continue
            groups[event.entered[depth], event.buffer, event.place].append((event, depth))
        for (_, buffer, _), events in groups.items():
            if (kind, name, buffer) not in found and _conflict(kind, events, trace):
                found.add((kind, name, buffer))
    return found


def _conflict(kind: str, events: list[tuple[Event, int]], trace: Trace) -> bool:
    if not any(e.write for e, _ in events) or len({e.loops[d][1] for e, d in events}) < 2:
        return False
    if kind == "parallel":
        writers = {e.loops[d][1] for e, d in events if e.write}
        return len(writers) > 1 or any(e.loops[d][1] not in writers for e, d in events)
    for (a, depth), (b, _) in itertools.permutations(events, 2):
        earlier = a.loops[depth][1] < b.loops[depth][1]
        if earlier and (a.write or b.write) and _time(b, depth, trace) < _time(a, depth, trace):
            return True
    return False


def _time(event: Event, depth: int, trace: Trace) -> tuple[int, ...]:
    """When an access of a lane happens among those of all lanes: they take each step together.

    What decides by lane goes through the lanes one after the other. A condition that always holds decides nothing.
    """
    line, lane = event.loops[depth][0] // 10, trace.kinds[event.loops[depth][0]][1]
    alone = next((c.line for c in event.choices if lane in c.names and c.line > line and _is_open(c, trace)), None)
    steps: list[int] = []
    for number, value in event.loops[depth + 1 :]:
        if alone is not None and number // 10 >= alone:
            break
        steps += [number // 10, number % 10, value]
    return (*steps, event.statement, int(event.write)) if alone is None else (*steps, alone, 0)


def _is_open(choice: _Choice, trace: Trace) -> bool:
    return choice.condition is None or len(trace.verdicts[choice.condition]) > 1


def _where(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
