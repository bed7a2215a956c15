"""The cost model of an NPU: local memory by queues and buffers, and time by its units, which work at the same time."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tvmagic.ascend.autoschedule import ImplGraph
from tvmagic.ascend.cost import Cost, CostModel, number
from tvmagic.ascend.graph import AscGraph, AscTensor
from tvmagic.ascend.lifetimes import is_local
from tvmagic.ascend.machine import Machine, Npu
from tvmagic.ascend.memory import buffer_length
from tvmagic.ir import dtype_of

_MOVES = {"load": "MTE2", "gather": "MTE2", "store": "MTE3"}


def _bytes(y: AscTensor, values: Mapping[str, int], block: int) -> int:
    """The bytes of a tensor in local memory, in whole blocks."""
    return _round_up(math.ceil(number(buffer_length(y))(values)) * dtype_of(y.dtype).bytes, block)


def _round_up(size: float, block: int) -> int:
    return math.ceil(size / block) * block


def local_sizes(graph: AscGraph, values: Mapping[str, int], block: int = 32) -> dict[str, tuple[int, int]]:
    """The bytes of each queue (`q0`), buffer (`b0`) and of all temporaries (`tmp`), and how many of it there are.

    A queue is as large as the largest of what is in it; tensors with one reuse id are in it side by side.
    """
    beside: dict[tuple[int, int], int] = {}
    copies: dict[int, int] = {}
    buffers: dict[int, int] = {}
    temporary = 0
    for node in graph.nodes:
        temporary += sum(_round_up(number(b.size)(values), block) for b in node.tmp_buffers)
        for y in node.outputs if is_local(node) else ():
            size = _bytes(y, values, block)
            if y.que.id >= 0:
                key = y.que.id, y.mem.reuse_id
                beside[key] = beside.get(key, 0) + size
                copies[y.que.id] = max(copies.get(y.que.id, 1), y.que.buf_num)
            else:
                buffers[y.buf.id] = max(buffers.get(y.buf.id, 0), size)
    found: dict[str, tuple[int, int]] = {}
    for queue in sorted(copies):
        found[f"q{queue}"] = max(size for (q, _), size in beside.items() if q == queue), copies[queue]
    found |= {f"b{buffer}": (buffers[buffer], 1) for buffer in sorted(buffers)}
    return found | {"tmp": (temporary, 1)} if temporary else found


class NpuModel(CostModel):
    """Evaluates an ImplGraph on an NPU. Its machine has assumed speeds (`Npu`)."""

    def __init__(self, impl: ImplGraph, values: Mapping[str, int], machine: Npu) -> None:
        super().__init__(impl, values, Machine())
        self.npu = machine

    def local_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of UB that queues (each buffer of them), buffers and temporaries take."""
        return sum(
            size * count
            for size, count in local_sizes(self.impl.graph, {**self.values, **sizes}, self.npu.block).values()
        )

    def cost(self, sizes: Mapping[str, int]) -> Cost:
        """The cost for the sizes that tiling chooses: the slowest unit's, and one tile of the others, which begin or end alone."""
        pipes = self._pipes(sizes)
        tiles, blocks, share = self.loop_count(sizes), 1, 1.0
        if self.block is not None:
            blocks = max(1, math.ceil(self.block({**self.values, **sizes})))
            share = min(1.0, sizes[self.impl.block or ""] / max(1, tiles))
        slowest = max(pipes.values())
        total = slowest * share + (sum(pipes.values()) - slowest) / max(1, tiles)
        moves = pipes["MTE2"] + pipes["MTE3"]
        return Cost(total, pipes["Vector"] * share, moves * share, self.local_bytes(sizes), min(blocks, self.npu.cores))

    def _pipes(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """The nanoseconds that each unit is busy, with all tiles of all cores.

        It is assumed that rows that do not begin with a block take a call each, and that padding is moved and computed.
        """
        values, npu = {**self.values, **sizes}, self.npu
        pipes = {"MTE2": 0.0, "Vector": 0.0, "MTE3": 0.0}
        for call, count in self.calls.items():
            times = math.prod(math.ceil(n(values)) for n in call.loops)
            rows, row = (math.prod(n(values) for n in axes) for axes in (call.outer, call.run))
            row *= call.bytes
            pipe, calls = _MOVES.get(call.kind, "Vector"), 1.0
            if self.impl.rows == "padded":
                row = _round_up(row, npu.block)
            elif pipe == "Vector" and row % npu.block:
                calls = max(1.0, rows)
            work = rows * row / (npu.vector / call.weight if pipe == "Vector" else npu.move)
            pipes[pipe] += count * times * (npu.start * calls + work)
        if self.block is not None:  # the last core may have fewer tiles than its loop
            loops = math.ceil(self.block(values)) * sizes[self.impl.block or ""]
            pipes = {pipe: time * self.loop_count(sizes) / loops for pipe, time in pipes.items()}
        return pipes

    def stages(self, sizes: Mapping[str, int]) -> tuple[float, float, float]:
        """The nanoseconds of one tile: of copying in, computing, and copying out."""
        pipes, tiles = self._pipes(sizes), max(1, self.loop_count(sizes))
        return pipes["MTE2"] / tiles, pipes["Vector"] / tiles, pipes["MTE3"] / tiles
