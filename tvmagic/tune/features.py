"""Features of a lowered program for the cost model: a list of numbers, of the same length for every program.

The stores below one nest of loops are a group. For the groups that do the most work: how often they run, what one
execution computes, loads and stores and with which strides, how many sums stay in registers, and for cache sizes the
bytes that come from outside a cache, which is the footprint of the widest part of the nest that fits into it times
the iterations around it. For the program: parallel iterations, memory, the amount of code, and a rough time in cycles.
The choice follows Ansor's (Zheng et al. 2020), with traffic in the place of reuse distances. Magnitudes are logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvmagic.ir import (
    Add,
    Allocate,
    AttrStmt,
    BinaryOp,
    Broadcast,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IRModule,
    Let,
    LetStmt,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    Visitor,
    handles,
)

__all__ = ["NAMES", "features_of", "rough"]

CACHES = (32 << 10, 512 << 10, 8 << 20)  # typical sizes; what counts is that schedules differ in them
GROUPS = 3
_LINE = 64
_SYMBOLIC = 256  # what a size that is not known counts as
_Form = dict[int, float]  # factors of loop variables by identity; the constant at `_ONE`
_ONE = 0


@dataclass
class Access:
    """A load or store: its buffer, the factors of the loops in its place, lanes and what is between them."""

    buffer: int
    form: _Form
    lanes: int
    stride: float
    bytes: int
    store: bool

    @property
    def shape(self) -> Any:
        """What accesses have in common that differ by a constant only."""
        return self.buffer, tuple(sorted((k, v) for k, v in self.form.items() if k != _ONE)), self.lanes, self.store

    @property
    def key(self) -> Any:
        """What accesses of the same elements have in common."""
        return self.shape, self.form.get(_ONE, 0.0)

    def footprint(self, loops: list[Loop], copies: int) -> float:
        """Bytes that it touches in an execution of `loops`, whole cache lines; `copies` like it are beside each other."""
        elements, step = float(self.lanes * copies), abs(self.stride) if self.lanes > 1 else math.inf
        for loop in loops:
            factor = abs(self.form.get(loop.key, 0.0))
            if factor:
                elements *= loop.extent
                step = min(step, factor)
        if elements == 1:
            return _LINE
        return elements * self.bytes * min(max(step, 1.0), max(_LINE / self.bytes, 1.0))


@dataclass(frozen=True)
class Loop:
    """A loop around a group."""

    key: int
    extent: int
    parallel: bool


@dataclass
class Group:
    """The stores below the same loops: what they compute and touch in one execution of all of them."""

    loops: list[Loop]
    guards: int
    stores: int = 0
    operations: float = 0.0  # of vectors or of numbers, each one instruction if the machine has it
    lanes: int = 1
    calls: float = 0.0
    integer: float = 0.0
    accesses: list[Access] = field(default_factory=list)

    @property
    def iterations(self) -> float:
        return math.prod(loop.extent for loop in self.loops)

    @property
    def work(self) -> float:
        """How much it does over all iterations, to find the groups that matter."""
        return self.iterations * (self.operations + 8 * self.calls + len(self.accesses) + 1)


def features_of(mod: IRModule) -> list[float]:
    """The features of a lowered module with one function."""
    walk = _Walk()
    for func in mod.functions.values():
        walk.visit(func.body)
    groups = sorted(walk.groups.values(), key=lambda g: -g.work)
    rows = [_group(g) for g in groups[:GROUPS]]
    rows += [[0.0] * len(_GROUP)] * (GROUPS - len(rows))
    return [*_program(walk, groups), *(value for row in rows for value in row)]


class _Walk(Visitor):
    """Collects groups; `loops` and `guards` are those around the statement that is visited."""

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self.guards = 0
        self.groups: dict[Any, Group] = {}
        self.values: dict[int, _Form] = {}  # the forms of variables bound by `let`
        self.allocated: dict[str, float] = {}
        self.regions = 0.0  # how often a parallel loop is begun
        self.group: Group | None = None  # of the store whose value is visited

    @handles(For)
    def loop(self, node: For) -> None:
        extent = node.extent.value if isinstance(node.extent, IntImm) else _SYMBOLIC
        parallel = node.kind == ForKind.PARALLEL
        if parallel:
            self.regions += math.prod(loop.extent for loop in self.loops)
        self.loops.append(Loop(id(node.loop_var), extent, parallel))
        self.visit(node.body)
        self.loops.pop()

    @handles(IfThenElse)
    def branch(self, node: IfThenElse) -> None:
        self.guards += 1
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)
        self.guards -= 1

    @handles(LetStmt)
    def let(self, node: LetStmt) -> None:
        self.values[id(node.var)] = self.form(node.value)
        self.visit(node.body)

    @handles(AttrStmt)
    def attribute(self, node: AttrStmt) -> None:
        self.visit(node.body)

    @handles(Allocate)
    def allocate(self, node: Allocate) -> None:
        size = math.prod(e.value if isinstance(e, IntImm) else _SYMBOLIC for e in node.extents) * node.dtype.bytes
        scope = getattr(node.buffer_var.type_annotation, "storage_scope", "") or "global"
        self.allocated[scope] = self.allocated.get(scope, 0.0) + size
        self.visit(node.body)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        key = (*(loop.key for loop in self.loops), self.guards)
        group = self.groups.setdefault(key, Group(list(self.loops), self.guards))
        group.stores += 1
        group.lanes = max(group.lanes, node.value.dtype.lanes)
        group.accesses.append(self.access(node, node.value.dtype, True))
        self.group = group
        self.visit(node.value)
        self.group = None

    # ------------------------------------------------------------------ expressions of a value

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        if self.group is not None:
            self.group.accesses.append(self.access(node, node.dtype, False))

    @handles(BinaryOp)
    def binary(self, node: Any) -> None:
        if self.group is not None:
            if node.dtype.is_float or node.dtype.lanes > 1:
                self.group.operations += 1
            else:
                self.group.integer += 1
        self.visit(node.a)
        self.visit(node.b)

    @handles(Call)
    def call(self, node: Call) -> None:
        if self.group is not None and node.dtype.is_float:
            self.group.calls += 1
        for argument in node.args:
            if isinstance(argument, PrimExpr):
                self.visit(argument)

    @handles(Select)
    def select(self, node: Select) -> None:
        if self.group is not None:
            self.group.operations += 1
        self.visit(node.true_value)
        self.visit(node.false_value)

    # ------------------------------------------------------------------ places

    def access(self, node: Any, dtype: Any, store: bool) -> Access:
        index = node.indices[-1]
        stride = 1.0
        if isinstance(index, Ramp):
            stride = float(index.stride.value) if isinstance(index.stride, IntImm) else float(_SYMBOLIC)
        lanes = dtype.lanes
        return Access(id(node.buffer.data), self.form(index), lanes, stride, max(dtype.bytes // lanes, 1), store)

    def form(self, node: PrimExpr) -> _Form:
        """An index as a sum of loop variables with factors, as far as it is one; division is taken as exact."""
        match node:
            case IntImm():
                return {_ONE: float(node.value)}
            case Var():
                return self.values.get(id(node), {id(node): 1.0})
            case Add():
                return _sum(self.form(node.a), self.form(node.b), 1.0)
            case Sub():
                return _sum(self.form(node.a), self.form(node.b), -1.0)
            case Mul() if isinstance(node.b, IntImm):
                return {k: v * node.b.value for k, v in self.form(node.a).items()}
            case FloorDiv() if isinstance(node.b, IntImm) and node.b.value:
                return {k: v / node.b.value for k, v in self.form(node.a).items() if abs(v) >= 1}
            case FloorMod() if isinstance(node.b, IntImm):
                return {k: v for k, v in self.form(node.a).items() if abs(v) < node.b.value}
            case Ramp():
                return self.form(node.base)
            case Broadcast() | Cast() | Let():
                return self.form(node.body if isinstance(node, Let) else node.value)
            case Select():
                return self.form(node.true_value)
        return {}


def _sum(a: _Form, b: _Form, sign: float) -> _Form:
    result = dict(a)
    for key, value in b.items():
        result[key] = result.get(key, 0.0) + sign * value
    return result


# ---------------------------------------------------------------------------- numbers

_GROUP = (
    "iterations", "operations", "calls", "integer", "lanes", "stores", "loads", "distinct loads", "scalar loads",
    "strided vectors", "kept sums", "register bytes", "loads outside the innermost loop", "innermost extent", "depth",
    "guards", "parallel iterations", "operations for each byte loaded",
    *(f"{what} {size >> 10} KiB" for size in CACHES for what in ("traffic beyond", "loops inside")),
)  # fmt: skip
_PROGRAM = (
    "groups", "statements", "allocated local", "allocated global", "parallel regions", "parallel iterations",
    "serial share", "cycles", *(f"traffic beyond {size >> 10} KiB" for size in CACHES),
)  # fmt: skip
NAMES = (*_PROGRAM, *(f"{name} of group {n + 1}" for n in range(GROUPS) for name in _GROUP))


# Bytes that come from beyond each of `CACHES` in a cycle, of the machines that there are.
_BANDWIDTHS = (32.0, 16.0, 8.0)
_CYCLES = _PROGRAM.index("cycles")
_TRAFFIC = _PROGRAM.index(f"traffic beyond {CACHES[0] >> 10} KiB")


def rough(features: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """The logarithm of a rough number of cycles of programs, from their features: those of the operations and those of the
    bytes from beyond each cache. It ranks schedules before any was measured. 0 for rows that are no features of programs.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(NAMES):
        return np.zeros(len(rows))
    traffic = [2.0 ** rows[:, _TRAFFIC + n] / width for n, width in enumerate(_BANDWIDTHS)]
    return np.log2(2.0 ** rows[:, _CYCLES] + sum(traffic))


def _log(value: float) -> float:
    return math.log2(1.0 + value) if value > 0 else 0.0


def _group(group: Group) -> list[float]:
    inner = group.loops[-1].key if group.loops else -1
    loads = [a for a in group.accesses if not a.store]
    stores = [a for a in group.accesses if a.store]
    distinct = {a.key for a in loads}
    kept = {a.key: a for a in stores if not a.form.get(inner)}
    register_bytes = sum(a.lanes * a.bytes for a in kept.values())
    loaded = sum(a.lanes * a.bytes for a in {a.key: a for a in loads}.values())
    caches: list[float] = []
    for size in CACHES:
        traffic, depth = _traffic(group, size)
        caches += [_log(traffic), float(depth)]
    return [
        _log(group.iterations), _log(group.operations), _log(group.calls), _log(group.integer), _log(group.lanes),
        _log(group.stores), _log(len(loads)), _log(len(distinct)), _log(sum(a.lanes == 1 for a in loads)),
        _log(sum(a.lanes > 1 and a.stride != 1 for a in group.accesses)), _log(len(kept)), _log(register_bytes),
        _log(sum(not a.form.get(inner) for a in loads)), _log(group.loops[-1].extent if group.loops else 1),
        float(len(group.loops)), float(group.guards), _log(_parallel(group)),
        math.log2((group.operations * group.lanes + 1) / (loaded + 1)), *caches,
    ]  # fmt: skip


def _parallel(group: Group) -> float:
    return math.prod(loop.extent for loop in group.loops if loop.parallel)


def _traffic(group: Group, size: int) -> tuple[float, int]:
    """Bytes that come from beyond a cache of `size`, and how many of the loops, from the innermost, run inside it."""
    copies: dict[Any, set[Any]] = {}
    some: dict[Any, Access] = {}
    for access in group.accesses:
        copies.setdefault(access.shape, set()).add(access.key)
        some[access.shape] = access
    inside, bytes_inside = 0, 0.0
    for count in range(len(group.loops) + 1):
        loops = group.loops[len(group.loops) - count :]
        bytes_now = sum(access.footprint(loops, len(copies[shape])) for shape, access in some.items())
        if count and bytes_now > size:
            break
        inside, bytes_inside = count, bytes_now
    outside = group.loops[: len(group.loops) - inside]
    return bytes_inside * math.prod(loop.extent for loop in outside), inside


def _cycles(group: Group) -> float:
    """A rough number of cycles of a group on one core: two operations, two loads and a store each cycle, sums that
    wait four cycles for one another, a vector of more than 64 bytes as several."""
    distinct = {a.key: a for a in group.accesses}.values()
    wide = max(1.0, max((a.lanes * a.bytes for a in distinct), default=1) / 64)
    inner = group.loops[-1].key if group.loops else -1
    loads = sum(1 + (a.lanes - 1) * (a.stride != 1) for a in distinct if not a.store and a.form.get(inner))
    stores = sum(1 for a in distinct if a.store and a.form.get(inner))
    sums = len({a.key for a in group.accesses if a.store and not a.form.get(inner)})
    latency = 4.0 * (group.operations > 0) if sums else 0.0
    once = max(group.operations / 2 * wide, loads / 2 * wide, stores * wide, latency, 1.0)
    return group.iterations * (once + 20 * group.calls * wide + 2 * group.guards)


def _program(walk: _Walk, groups: list[Group]) -> list[float]:
    total = sum(g.work for g in groups) or 1.0
    serial = sum(g.work for g in groups if _parallel(g) <= 1) / total
    parallel = _parallel(groups[0]) if groups else 1.0
    cycles = sum(_cycles(g) / max(min(_parallel(g), 2.0), 1.0) for g in groups)
    traffic = [_log(sum(_traffic(g, size)[0] for g in groups)) for size in CACHES]
    allocated: Mapping[str, float] = walk.allocated
    return [
        _log(len(groups)), _log(sum(g.stores for g in groups)), _log(allocated.get("local", 0.0)),
        _log(sum(v for k, v in allocated.items() if k != "local")), _log(walk.regions), _log(parallel), serial,
        _log(cycles), *traffic,
    ]  # fmt: skip
