"""The cost model: how long an ImplGraph takes with given sizes.

Each API call has a cost for its rows, its full vectors and its tails; calls of the vector unit and
moves between global and local memory are two pipes, of which the slower decides, as most of the
other hides behind it. Copies that the lowering leaves out cost no call, only the way of the data.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvmagic.ascend.addressing import by_axis, coefficient
from tvmagic.ascend.autoschedule import ImplGraph
from tvmagic.ascend.copy_elision import broadcasts_in_place, loads_in_place, stored_in, stores_in_place
from tvmagic.ascend.graph import AscNode, AscTensor, Axis, AxisType
from tvmagic.ascend.lifetimes import is_local
from tvmagic.ascend.machine import Machine
from tvmagic.ascend.memory import buffer_length, local_buffers
from tvmagic.ascend.sizes import NUMBERS, Size
from tvmagic.ascend.verifier import calls_axes, domain_of, held_axes
from tvmagic.ir import dtype_of

_NOT_HIDDEN = 0.35  # the part of the faster pipe's time that does not hide behind the slower one
_NEAR = 1.25  # steps in global memory up to so many lengths of what is moved count as going on
_JUMP_NEARBY = 1 / 16  # the part of a jump that is left in the last cache
_JUMP_GOES_ON = 1 / 4  # the part of a jump that is left where the next call goes on along all rows of this one
_ANOTHER_ROW = 10.0  # nanoseconds until the machine sees how another row of a transposed tensor goes on
_WRITTEN = 2  # a written line is read first
_REGISTER_BYTES = 2048
_UNROLLED_WORK = 300  # additions (and two for operands) of a call's vectors up to which its loop becomes straight code
_SPILLED = 2  # how many doublings behind the first cache's size it is of no more use
_UNROLLED = 0.1  # the part of a row's start that is left where its loop is unrolled
Number = Callable[[Mapping[str, int]], float]


@dataclass(frozen=True)
class Cost:
    """Nanoseconds in all, of the two pipes on one core, bytes of local memory, cores in use."""

    total: float
    vector: float
    moves: float
    local_bytes: int
    cores: int


_remembered = functools.lru_cache(1 << 12)


@_remembered
def number(size: Size) -> Number:
    """The size as a Python function of its variables; quotients stay fractions. Equal sizes have one function."""
    code = compile(str(size), "<size>", "eval")
    return lambda values: eval(code, {"__builtins__": {}, **{n: f for n, (_, f) in NUMBERS.items()}}, dict(values))


@_remembered
def _mean(whole: Size, count: Size) -> Number:
    """The mean length of an axis that is split into `count` parts, tails among them."""
    length, parts = number(whole), number(count)
    return lambda values: length(values) / max(1, parts(values))


_Buffers = list[tuple[frozenset[tuple[Number, int]], int]]


@dataclass(frozen=True)
class _Call:
    """What the model needs of a node: its loops, the axes of a call, and what a row is. Many nodes are alike.

    `kind`, `weight`: the kind of API and the arithmetic of one element, as of its type.
    """

    kind: str
    weight: float
    operands: int
    loops: tuple[Number, ...]
    outer: tuple[Number, ...]
    run: tuple[Number, ...]
    bytes: int
    unit: bool
    along: bool
    left_out: bool
    array: Number | None
    turned: Number | None = None  # of a Transpose, how long the input is along its own innermost axis
    steps: tuple[Number | None, Number | None] = (None, None)  # of the next row and the next call in global memory


class CostModel:
    """Evaluates an ImplGraph of known axis sizes for the sizes that tiling chooses."""

    def __init__(self, impl: ImplGraph, values: Mapping[str, int], machine: Machine) -> None:
        self.impl, self.machine, self.values = impl, machine, dict(values)
        graph = impl.graph
        stores, readers = stores_in_place(graph), graph.readers()
        self.left_out = {*loads_in_place(graph), *broadcasts_in_place(graph), *(id(n) for n in stores.values())}
        self.lengths = {
            y: (number(buffer_length(y)), dtype_of(y.dtype).bytes) for y in graph.tensors() if is_local(y.node)
        }
        self.buffers = self._counted(local_buffers(graph))
        results = {id(n) for n in graph.nodes if n.op.kind == "reduce"}
        no_buffer = {*self.left_out, *stores}
        kept, passing = local_buffers(graph, no_buffer), local_buffers(graph, no_buffer | results)
        loads = [n for n in graph.of_type("Load") if id(n) in self.left_out]
        again = [n for n in loads if len(readers[n.y]) > 1]
        self.touched = self._counted([*kept, *([n.y] for n in loads)])
        self.passing = self._counted([*passing, *([n.y] for n in again)])
        self.readers = readers
        self.calls = Counter(self._call(n) for n in graph.nodes if n.op.is_call)
        inner = {f"{a.name}_size": a.from_[0].size for a in graph.axes if a.split_pair is not None}
        self.tiled = [(name, number(inner[name])) for name in impl.tiles]
        blocks = [a for a in graph.axes if a.type is AxisType.BLOCK_OUT]
        self.block = number(blocks[0].size) if blocks else None
        self.blocked = number(blocks[0].from_[0].size) if blocks else None

    def local_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of all local buffers."""
        return int(_bytes(self.buffers, {**self.values, **sizes}))

    def loop_count(self, sizes: Mapping[str, int]) -> int:
        """How many iterations the loop has that is split over the cores."""
        return 1 if self.blocked is None else math.ceil(self.blocked({**self.values, **sizes}))

    def _counted(self, buffers: list[list[AscTensor]]) -> _Buffers:
        """The different lengths (with the bytes of an element) in each buffer, and how many buffers have the same."""
        return list(Counter(frozenset(self.lengths[y] for y in tensors) for tensors in buffers).items())

    # ------------------------------------------------------------------ what does not depend on tiling

    def _call(self, node: AscNode) -> _Call:
        inside = calls_axes(node)
        domain = domain_of(node)
        held = held_axes(node, domain)
        loops = node.sched.axis[: len(node.sched.axis) - len(inside)]
        local = [t for t in (node.y, *node.inputs) if t.node.op.is_call and t.node.type != "Store"]
        run = self._run(held, local, node)
        array, turned, unit, steps = None, None, True, (None, None)
        outer = held[: len(held) - len(run)]
        side = self._global_side(node)
        if side is not None:
            array = number(side.elements)
            strides = by_axis(node, side)
            unit = not held or coefficient(strides, held[-1]).is_one or node.op.kind == "gather"
            next_row, next_call = (number(coefficient(strides, axes[-1])) if axes else None for axes in (outer, loops))
            steps = next_row, next_call
        if node.op.kind == "transpose" and held:
            last = held_axes(node, node.inputs[0])[-1]
            unit, turned = last is held[-1], self._length(last, node.inputs[0])
        along = node.op.kind == "reduce" and bool(held) and node.y.repeat(held[-1]).is_one
        rows, row = (tuple(self._length(a, domain) for a in axes) for axes in (outer, run))
        return _Call(
            node.op.kind, node.op.cost, len(node.inputs), tuple(number(a.size) for a in loops), rows, row,
            dtype_of(domain.dtype).bytes, unit, along, id(node) in self.left_out, array, turned, steps,
        )  # fmt: skip

    def _global_side(self, node: AscNode) -> AscTensor | None:
        if node.op.kind in ("load", "gather"):
            return node.inputs[0]
        return stored_in(self.readers, node) if node.op.kind == "store" else None

    def _run(self, held: list[Axis], local: list[AscTensor], node: AscNode) -> list[Axis]:
        """The innermost axes that are one loop."""
        run: list[Axis] = []
        for axis in reversed(held):
            if run:
                partial = run[0].is_inner
                mixed = any(t.repeat(axis).is_one != t.repeat(run[0]).is_one for t in local)
                if partial or mixed or self.impl.rows == "padded":
                    break
            run.insert(0, axis)
        return run

    def _length(self, axis: Axis, y: AscTensor) -> Number:
        """The mean length of an axis in a call, tails among them."""
        if not axis.is_inner or axis.split_pair is None:
            return number(y.repeat(axis))
        return _mean(axis.from_[0].size, axis.split_pair.size)

    # ------------------------------------------------------------------ what does

    def cost(self, sizes: Mapping[str, int]) -> Cost:
        """The cost for the sizes that tiling chooses."""
        values, machine = {**self.values, **sizes}, self.machine
        local = self.local_bytes(sizes)
        place = self._distance(values)
        vector = moves = 0.0
        for call, count in self.calls.items():
            busy = count * self._time(call, values, place)
            if call.array is None:
                vector += busy
            else:
                moves += busy
        total, cores = max(vector, moves) + _NOT_HIDDEN * min(vector, moves), 1
        if self.block is not None:
            count, blocks = self.loop_count(sizes), max(1, math.ceil(self.block(values)))
            cores = min(blocks, machine.threads)
            share = math.ceil(blocks / machine.threads) * sizes[self.impl.block or ""] / max(1, count)
            total = total * min(1.0, share) + (machine.fork if cores > 1 else 0)
        return Cost(total, vector, moves, local, cores)

    def _distance(self, values: Mapping[str, int]) -> float:
        """How far away the local buffers are: 0 in registers, 1 in the first cache."""
        machine = self.machine
        if _bytes(self.passing, values) <= _REGISTER_BYTES and self._unrolled(values):
            return 0.0
        touched = _bytes(self.touched, values)  # also what is read in place goes through the first cache
        if touched > machine.local_memory:
            return machine.farthest
        spilled = min(1.0, max(0.0, math.log2(max(touched, 1.0) / machine.l1) / _SPILLED))
        return 1.0 + (machine.farther - 1.0) * spilled

    def _unrolled(self, values: Mapping[str, int]) -> bool:
        """Whether the calls of a tile become straight code: no call is long, no tile is shorter."""
        if any(whole(values) % values[name] for name, whole in self.tiled):
            return False
        for call in self.calls:
            vectors = math.prod(n(values) for n in (*call.outer, *call.run)) * call.bytes / 64
            if not call.left_out and vectors * (call.weight + 2) > _UNROLLED_WORK:
                return False
        return True

    def _time(self, call: _Call, values: Mapping[str, int], place: float) -> float:
        times = math.prod(math.ceil(n(values)) for n in call.loops)
        rows = math.prod(n(values) for n in call.outer)
        run = math.prod(n(values) for n in call.run)
        time = 0.0 if call.left_out else times * rows * self._row(call, values, run, place)
        return time if call.array is None else time + self._way(call, values, times, rows, run)

    def _row(self, call: _Call, values: Mapping[str, int], run: float, place: float) -> float:
        """The time of one row of a call that is `run` elements long."""
        machine, weight, lanes = self.machine, call.weight, 64 // call.bytes
        if call.kind == "transpose" and not call.unit:
            assert call.turned is not None
            return machine.row * _UNROLLED + run * (machine.scalar + _ANOTHER_ROW / call.turned(values))
        if not call.unit:
            return machine.row + run * (machine.scalar * weight + 2)
        full = run // lanes
        if call.kind == "reduce":
            place = max(place, 1.0)  # the result is in memory
        operands = place * (2 + 0.5 * max(0, call.operands - 1)) + weight - 1
        row = full * machine.vector * max(operands, 0.5) + (run - full * lanes) * machine.scalar * weight
        if call.along:
            row += machine.horizontal
        return row + machine.row * (1 if place else _UNROLLED)

    def _way(self, call: _Call, values: Mapping[str, int], times: float, rows: float, run: float) -> float:
        """The time of the data's way between global memory and the core."""
        machine = self.machine
        assert call.array is not None
        size = call.array(values) * call.bytes
        if size <= machine.l2 // 4:
            return 0.0
        far = size > machine.l3 // 2
        source = machine.memory if far else machine.nearby
        if call.kind == "store":
            source *= _WRITTEN
        jump, apart = 0.0, not _follows(call, values, rows, run)
        if size > machine.l2 and apart:
            jump = machine.jump if far else machine.jump * _JUMP_NEARBY
            source *= machine.scattered if far else 1.0
            next_call = call.steps[1]
            if rows > 1 and next_call is not None and next_call(values) <= _NEAR * run:
                jump *= _JUMP_GOES_ON
        return times * (_lines(call, values, rows, run, apart) * source + rows * jump)


def _bytes(buffers: _Buffers, values: Mapping[str, int]) -> float:
    """The bytes of some buffers, each as large as the largest of its tensors."""
    return sum(count * max(length(values) * width for length, width in lengths) for lengths, count in buffers)


def _lines(call: _Call, values: Mapping[str, int], rows: float, run: float, apart: bool) -> float:
    """How many times 64 bytes a call moves.

    Where its rows stand apart and not by whole lines, the ends of a row are lines that it has in part. Where the
    elements of a row stand apart, each is a line, which rows next to each other share.
    """
    next_row, next_call = call.steps
    step = next_row if rows > 1 else next_call
    if call.unit:
        ends = apart and step is not None and step(values) * call.bytes % 64
        return rows * (run * call.bytes / 64 + (1 - call.bytes / 64 if ends else 0))
    between = 64 if next_row is None else min(64, next_row(values) * call.bytes)
    return run * max(1.0, rows * between / 64)


def _follows(call: _Call, values: Mapping[str, int], rows: float, run: float) -> bool:
    """Whether what is moved next is right behind, or is moved again."""
    next_row, next_call = call.steps
    if call.kind == "gather":
        return False
    if rows > 1 and next_row is not None and next_row(values) > _NEAR * run:
        return False
    return next_call is None or next_call(values) <= _NEAR * rows * run
