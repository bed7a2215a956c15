"""The graph of schedule blocks: who computes what whom reads, and walks over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tvmagic.cinn.accesses import scope
from tvmagic.cinn.ir_schedule import IRSchedule
from tvmagic.errors import TVMagicError
from tvmagic.ir import Block, Buffer
from tvmagic.tir.schedule.instruction import BlockRV


@dataclass(eq=False)
class ScheduleBlockNode:
    """A block in the graph: its name, and the blocks on either side, in program order."""

    id: str
    ir_schedule: IRSchedule
    rv: BlockRV
    producers: list[ScheduleBlockNode] = field(default_factory=list)
    consumers: list[ScheduleBlockNode] = field(default_factory=list)

    def block(self) -> Block:
        """The block as it is now."""
        return self.ir_schedule.block_of(self.rv)

    def upstream_nodes(self) -> list[ScheduleBlockNode]:
        """All blocks on which this one depends, nearest first."""
        return _reachable(self, "producers")

    def downstream_nodes(self) -> list[ScheduleBlockNode]:
        """All blocks that depend on this one, nearest first."""
        return _reachable(self, "consumers")

    def __repr__(self) -> str:
        return f"ScheduleBlockNode({self.id})"


def _reachable(node: ScheduleBlockNode, side: str) -> list[ScheduleBlockNode]:
    found: dict[ScheduleBlockNode, None] = {}
    pending = list(getattr(node, side))
    for other in pending:
        if other not in found:
            found[other] = None
            pending += getattr(other, side)
    return list(found)


class ScheduleBlockGraph:
    """The blocks of a schedule, each after those whose tensors it loads or stores again.

    Block names must be unique: they are the nodes' ids.
    """

    def __init__(self, ir_schedule: IRSchedule) -> None:
        self.nodes: dict[str, ScheduleBlockNode] = {}
        self.update(ir_schedule)

    def update(self, ir_schedule: IRSchedule) -> None:
        """Find the nodes and edges of a schedule as it is now."""
        self.nodes = {}
        rvs = {ir_schedule.block_of(rv): rv for rv in ir_schedule.get_all_blocks()}
        writers: dict[Buffer, list[ScheduleBlockNode]] = {}
        root = ir_schedule.root
        for found in scope(root).leaves:
            name = found.block.name_hint
            if name in self.nodes:
                raise TVMagicError(
                    f"two blocks are called `{name}`",
                    hint="give each block a name of its own",
                    code="cinn.schedule.ambiguous_block",
                )
            node = self.nodes[name] = ScheduleBlockNode(name, ir_schedule, rvs[found.block])
            stored = list(dict.fromkeys([s.buffer for s in found.stores]))
            touched = sorted(found.loads, key=lambda b: b.name) + stored
            for producer in dict.fromkeys([w for b in touched for w in writers.get(b, ())]):
                node.producers.append(producer)
                producer.consumers.append(node)
            for buffer in stored:
                writers.setdefault(buffer, []).append(node)

    def __iter__(self) -> Iterator[ScheduleBlockNode]:
        """The nodes in program order."""
        return iter(self.nodes.values())

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, name: str) -> ScheduleBlockNode:
        if name not in self.nodes:
            raise TVMagicError(f"there is no block `{name}` in the graph", code="cinn.schedule.unknown_block")
        return self.nodes[name]

    def block_ids(self) -> list[str]:
        """The names of the blocks in program order."""
        return list(self.nodes)

    def start_points(self) -> list[ScheduleBlockNode]:
        """The blocks that depend on no other."""
        return [n for n in self if not n.producers]

    def end_points(self) -> list[ScheduleBlockNode]:
        """The blocks on which no other depends."""
        return [n for n in self if not n.consumers]

    def dfs_topo_walk(self, handler: Callable[[ScheduleBlockNode], object], is_reverse: bool = True) -> None:
        """Call `handler` on each node after all its consumers, going on into producers first.

        Without `is_reverse` each node comes after all its producers.
        """
        before, after = ("consumers", "producers") if is_reverse else ("producers", "consumers")
        waiting = {node: len(getattr(node, before)) for node in self}
        stack = [node for node in self if not waiting[node]]
        stack.reverse()
        while stack:
            node = stack.pop()
            handler(node)
            for other in reversed(getattr(node, after)):
                waiting[other] -= 1
                if not waiting[other]:
                    stack.append(other)
