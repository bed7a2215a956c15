"""The cost model: how long an ImplGraph takes with given sizes.

Each API call has a cost for its rows, its full vectors and its tails; calls of the vector unit and
moves between global and local memory are two pipes, of which the slower decides, as most of the
other hides behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvmagic.ascend.autoschedule import ImplGraph
from tvmagic.ascend.graph import AscNode, AscTensor, Axis, AxisType
from tvmagic.ascend.machine import Machine
from tvmagic.ascend.memory import local_buffers
from tvmagic.ascend.places import by_axis, coefficient
from tvmagic.ascend.rules import calls_axes
from tvmagic.ascend.sizes import Size
from tvmagic.ir import dtype_of

__all__ = ["Cost", "CostModel"]

_NOT_HIDDEN = 0.35  # the part of the faster pipe's time that does not hide behind the slower one
_NEAR = 2  # steps in global memory up to so many lengths of what is moved count as going on
_REGISTER_BYTES = 1024
_PLAIN = ("load", "store", "elewise", "broadcast")
_INNER = (AxisType.TILE_IN, AxisType.BLOCK_IN)
Number = Callable[[Mapping[str, int]], float]


@dataclass(frozen=True)
class Cost:
    """Nanoseconds in all, of the two pipes on one core, bytes of local memory, cores in use."""

    total: float
    vector: float
    moves: float
    local_bytes: int
    cores: int


def _number(size: Size) -> Number:
    """The size as a Python function of its variables; quotients stay fractions."""
    code = compile(str(size), "<size>", "eval")
    return lambda values: eval(code, {"__builtins__": {}, "Ceiling": math.ceil}, dict(values))


@dataclass
class _Call:
    """What the model needs of one node: its loops, the axes of a call, and what a row is."""

    node: AscNode
    loops: list[Number]
    outer: list[Number]
    run: list[Number]
    bytes: int
    unit: bool
    along: bool
    array: Number | None
    steps: tuple[Number | None, Number | None] = (None, None)  # of the next row and the next call in global memory


class CostModel:
    """Evaluates an ImplGraph of known axis sizes for the sizes that tiling chooses."""

    def __init__(self, impl: ImplGraph, values: Mapping[str, int], machine: Machine) -> None:
        self.impl, self.machine, self.values = impl, machine, dict(values)
        graph = impl.graph
        self.buffers = [(_number(n), dtype_of(t).bytes) for n, t in local_buffers(graph)]
        self.calls = [self._call(n) for n in graph.nodes if not n.op.is_buffer and n.type != "Scalar"]
        inner = {f"{a.name}_size": a.from_[0].size for a in graph.axes if a.split_pair is not None}
        self.tiled = [(name, _number(inner[name])) for name in impl.tiles]
        self.plain = all(c.node.op.compute_type in _PLAIN for c in self.calls)
        blocks = [a for a in graph.axes if a.type is AxisType.BLOCK_OUT]
        self.block = _number(blocks[0].size) if blocks else None
        self.blocked = _number(blocks[0].from_[0].size) if blocks else None

    def local_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of all local buffers."""
        values = {**self.values, **sizes}
        return int(sum(count(values) * width for count, width in self.buffers))

    def loop_count(self, sizes: Mapping[str, int]) -> int:
        """How many iterations the loop has that is split over the cores."""
        return 1 if self.blocked is None else math.ceil(self.blocked({**self.values, **sizes}))

    # ------------------------------------------------------------------ what does not depend on tiling

    def _call(self, node: AscNode) -> _Call:
        inside = calls_axes(node)
        domain = node.inputs[0] if node.op.compute_type == "reduce" else node.y
        held = [a for a in inside if not domain.repeat(a).is_one]
        loops = node.sched.axis[: len(node.sched.axis) - len(inside)]
        local = [
            t for t in (node.y, *node.inputs) if not t.node.op.is_buffer and t.node.type not in ("Scalar", "Store")
        ]
        run = self._run(held, local, node)
        array, unit, steps = None, True, (None, None)
        outer = held[: len(held) - len(run)]
        side = self._global_side(node)
        if side is not None:
            array = _number(_elements(side))
            strides = by_axis(side)
            unit = not held or coefficient(strides, held[-1]).is_one
            next_row, next_call = (_number(coefficient(strides, axes[-1])) if axes else None for axes in (outer, loops))
            steps = next_row, next_call
        along = node.op.compute_type == "reduce" and bool(held) and node.y.repeat(held[-1]).is_one
        rows, row = ([self._length(a, domain) for a in axes] for axes in (outer, run))
        return _Call(
            node, [_number(a.size) for a in loops], rows, row, dtype_of(domain.dtype).bytes, unit, along, array, steps
        )

    def _global_side(self, node: AscNode) -> AscTensor | None:
        if node.op.compute_type == "load":
            return node.inputs[0]
        if node.op.compute_type == "store":
            return next(n for n in self.impl.graph.consumers(node.y) if n.op.is_buffer).y
        return None

    def _run(self, held: list[Axis], local: list[AscTensor], node: AscNode) -> list[Axis]:
        """The innermost axes that are one loop."""
        run: list[Axis] = []
        for axis in reversed(held):
            if run:
                partial = run[0].type in _INNER
                mixed = any(t.repeat(axis).is_one != t.repeat(run[0]).is_one for t in local)
                if partial or mixed:
                    break
            run.insert(0, axis)
        return run

    def _length(self, axis: Axis, y: AscTensor) -> Number:
        """The mean length of an axis in a call, tails among them."""
        if axis.type not in _INNER or axis.split_pair is None:
            return _number(y.repeat(axis))
        whole, count = _number(axis.from_[0].size), _number(axis.split_pair.size)
        return lambda values: whole(values) / max(1, count(values))

    # ------------------------------------------------------------------ what does

    def cost(self, sizes: Mapping[str, int]) -> Cost:
        """The cost for the sizes that tiling chooses."""
        values, machine = {**self.values, **sizes}, self.machine
        local = self.local_bytes(sizes)
        place = 1.0 if local <= machine.l1 // 2 else machine.farther if local <= machine.local_memory else 6.0
        if local <= _REGISTER_BYTES and self._in_registers(values):
            place = 0.0
        vector = moves = 0.0
        for call in self.calls:
            busy = self._time(call, values, place)
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

    def _in_registers(self, values: Mapping[str, int]) -> bool:
        """Whether the calls of a tile are short enough for the compiler to keep all of it in registers.

        The tiles have no tails then, and nothing is reduced.
        """
        return self.plain and all(
            whole(values) % values[name] == 0 and values[name] % 16 == 0 for name, whole in self.tiled
        )

    def _time(self, call: _Call, values: Mapping[str, int], place: float) -> float:
        machine, node = self.machine, call.node
        times = math.prod(math.ceil(n(values)) for n in call.loops)
        rows = math.prod(n(values) for n in call.outer)
        run = math.prod(n(values) for n in call.run)
        lanes = 64 // call.bytes
        weight = node.op.cost
        operands = place * (1 + 0.5 * max(0, len(node.inputs) - 1)) + (weight - 1)
        if not call.unit:
            row = run * (machine.scalar * weight + 2)
        else:
            full = run // lanes
            row = full * machine.vector * operands + (run - full * lanes) * machine.scalar * weight
        if call.along:
            row += machine.horizontal
        time = times * rows * (row + (machine.row if place else 0))
        if call.array is not None:
            size = call.array(values) * call.bytes
            source = 0.0 if size <= machine.l2 // 4 else machine.nearby if size <= machine.l3 // 2 else machine.memory
            time += times * rows * run * call.bytes / 64 * source
            if size > machine.l2 and not _follows(call, values, rows, run):
                time += times * rows * machine.jump
        return time


def _follows(call: _Call, values: Mapping[str, int], rows: float, run: float) -> bool:
    """Whether what is moved next stands right behind, or is moved again."""
    next_row, next_call = call.steps
    if rows > 1 and next_row is not None and next_row(values) > _NEAR * run:
        return False
    return next_call is None or next_call(values) <= _NEAR * rows * run


def _elements(y: AscTensor) -> Size:
    total = Size.of(1)
    for repeat in y.repeats:
        total = total * repeat
    return total
