"""Local memory of an ImplGraph: queues and buffers, and which tensors share one.

What goes from one hardware unit to another comes through a queue, all else lies in a buffer. A queue or buffer is free again
after the last use of what is in it. Elementwise nodes may write over an input that they alone read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, GraphType, LocalBuffer, Memory, Queue
from tvmagic.ascend.lifetimes import is_local, lifetimes
from tvmagic.ascend.queues import MOST_QUEUES, in_queue, load_groups, shorten_lives
from tvmagic.ascend.sizes import Size
from tvmagic.ir import dtype_of
from tvmagic.passes import note

_AVOIDED = 2  # up to so many queues a tensor takes a new one rather than the one used just before


def buffer_length(y: AscTensor) -> Size:
    """How many elements the local buffer of a tensor has."""
    total = Size.of(1)
    for axis, stride in zip(y.vectorized_axis, y.vectorized_strides, strict=True):
        if stride != 0:
            total = total + (y.local_length(axis) - 1) * stride
    return total


def place_of(y: AscTensor) -> tuple[str, int] | None:
    """The queue or buffer that a tensor is in; None if it has none yet."""
    if y.que.id >= 0:
        return "que", y.que.id
    return ("buf", y.buf.id) if y.buf.id >= 0 else None


def slots(graph: AscGraph) -> dict[AscTensor, object]:
    """What is the same for local tensors in the same memory: their place, their number in it, and their dtype.

    Tensors of one queue with one reuse id lie side by side and have different numbers.
    """
    found: dict[AscTensor, object] = {}
    beside: dict[tuple[object, int], int] = {}
    for node in filter(is_local, graph.nodes):
        for y in node.outputs:
            place, number = place_of(y), 0
            if place is None:
                found[y] = y
                continue
            if place[0] == "que":
                number = beside.get((place, y.mem.reuse_id), 0)
                beside[place, y.mem.reuse_id] = number + 1
            found[y] = place, number, y.dtype
    return found


def local_buffers(graph: AscGraph, left_out: Collection[int] = ()) -> list[list[AscTensor]]:
    """The tensors in each local buffer, those of nodes by `id` left out."""
    found: dict[object, list[AscTensor]] = {}
    for y, slot in slots(graph).items():
        if id(y.node) not in left_out:
            found.setdefault(slot, []).append(y)
    return list(found.values())


# ---------------------------------------------------------------------------- the choice


@dataclass
class _Place:
    """A queue or buffer: when it is taken and until when, how large what is in it is, and whether others may use it."""

    id: int
    end: int
    kind: int
    shared: bool
    tensors: list[AscTensor] = field(default_factory=list)
    lives: list[tuple[int, int]] = field(default_factory=list)

    def holds(self, y: AscTensor, first: int, last: int) -> bool:
        """Whether a tensor fits beside the lives of all that is in here, and is no larger."""
        if any(start <= last and first <= end for start, end in self.lives):
            return False
        size, width = buffer_length(y), dtype_of(y.dtype).bytes
        return any(buffer_length(x) == size and dtype_of(x.dtype).bytes >= width for x in self.tensors)


def _kind(y: AscTensor) -> int:
    """How much of a tile a tensor holds: 2 the whole of it, 0 one value, 1 something between."""
    if buffer_length(y).is_one:
        return 0
    partial = any(y.repeat(a).is_one and not a.size.is_one for a in y.vectorized_axis)
    return 1 if partial else 2


class _Pool:
    """The queues of one position, or the buffers; the first number is `start`."""

    def __init__(self, start: int, most: int | None) -> None:
        self.start, self.most = start, most
        self.places: list[_Place] = []
        self.last: _Place | None = None

    def take(self, tensors: Sequence[AscTensor], first: int, last: int, shared: bool) -> _Place:
        """A place for tensors that are needed from `first` to `last`."""
        kind = max(map(_kind, tensors))
        full = self.most is not None and len(self.places) >= self.most
        free = [p for p in self.places if p.end < first and ((p.shared and shared) or full)]
        if self.most is not None and len(self.places) <= _AVOIDED:
            free = [p for p in free if p is not self.last]
        place = min(free, key=lambda p: (abs(p.kind - kind), p.id), default=None)
        if place is None:
            place = _Place(self.start + len(self.places), last, kind, shared)
            self.places.append(place)
        else:
            note("ascend.reuse", f"`{tensors[0]}` takes the place of `{place.tensors[-1]}`", place=place.id)
        place.end, place.tensors, self.last = last, [*place.tensors, *tensors], place
        place.lives.append((first, last))
        return place

    def has_free(self, first: int) -> bool:
        """Whether one that may be shared is free from some time on."""
        return any(p.end < first and p.shared for p in self.places)


def assign_memory(graph: AscGraph) -> int:
    """Give each tensor its memory attributes; returns how many queues and buffers there are.

    Copies (`Ub2ub`) are put in if more than four tensors wait in queues of one position at once.
    """
    graph.type = GraphType.IMPL
    shorten_lives(graph)
    readers, lives = graph.readers(), lifetimes(graph)
    _number_tensors(graph)
    groups = load_groups(graph, readers)
    local = [n for n in graph.nodes if is_local(n)]
    queued = [n.y for n in local if n.op.unit != "MTE2" and in_queue(readers, n.y)]
    _number_reuse(local, [*groups, *([y] for y in queued)])
    incoming = _Pool(0, MOST_QUEUES)
    for group in groups:
        spans = [lives[id(y.node)] for y in group]
        _enqueue(incoming, group, min(s[0] for s in spans), max(s[1] for s in spans), "VECIN", True)
    outgoing = _Pool(len(incoming.places), MOST_QUEUES)
    for y in queued:
        _enqueue(outgoing, [y], *lives[id(y.node)], "VECOUT", y.node.op.kind != "reduce")
    buffers = _Pool(0, None)
    held = {id(y) for y in (*queued, *(y for g in groups for y in g))}
    queues = [*incoming.places, *outgoing.places]
    for node in sorted((n for n in local if id(n.y) not in held), key=lambda n: lives[id(n)]):
        _buffer(buffers, queues, node, readers, lives)
    return len(incoming.places) + len(outgoing.places) + len(buffers.places)


def _number_tensors(graph: AscGraph) -> None:
    """Number arrays in global memory first, a Store as what it writes, then numbers and calls."""
    count = 0
    for node in graph.nodes:
        if node.op.is_buffer:
            for y in (node.y, *node.inputs):
                y.mem = Memory(count, "Global", "GM", "GM")
            count += 1
    for node in graph.nodes:
        if not node.op.is_buffer and node.type != "Store":
            for y in node.outputs:
                y.mem, y.que, y.buf = Memory(count), Queue(), LocalBuffer()
                count += 1


def _number_reuse(local: Iterable[AscNode], groups: Iterable[Sequence[AscTensor]]) -> None:
    group_of = {y: number for number, group in enumerate(groups) for y in group}
    numbers: dict[int, int] = {}
    for node in local:
        if node.y in group_of:
            node.y.mem.reuse_id = numbers.setdefault(group_of[node.y], len(numbers))


def _enqueue(pool: _Pool, tensors: Sequence[AscTensor], first: int, last: int, position: str, shared: bool) -> None:
    cached = any(y.node.sched.exec_condition != "no_cache" for y in tensors)
    place = pool.take(tensors, first, last, shared and not cached)
    for y in tensors:
        y.que = Queue(place.id, 2, 1 if cached else 2)
        y.mem.alloc_type, y.mem.hardware, y.mem.position = "Queue", "UB", position


def _buffer(
    pool: _Pool,
    queues: list[_Place],
    node: AscNode,
    readers: dict[AscTensor, list[AscNode]],
    lives: dict[int, tuple[int, int]],
) -> None:
    """The memory of a VECCALC tensor: that of an input, a buffer that is free, a queue that is free while it lives, a new
    buffer."""
    y, (first, last) = node.y, lives[id(node)]
    over = next((x.buf.id for x in node.inputs if x.buf.id >= 0 and _written_over(node, x, readers, lives)), -1)
    if over >= 0:
        place = pool.places[over]
        place.end, place.tensors = last, [*place.tensors, y]
        note("ascend.reuse", f"`{y}` is written over an input", place=over)
    else:
        shared = _kind(y) > 0 and node.sched.exec_condition == "no_cache"
        stays = not any(_written_over(reader, y, readers, lives) for reader in readers[y])
        queue = next((q for q in queues if shared and stays and q.shared and q.holds(y, first, last)), None)
        if queue is not None and not pool.has_free(first):
            _in_queue(queue, y, first, last)
            return
        place = pool.take([y], first, last, shared)
    y.buf.id = place.id
    y.mem.alloc_type, y.mem.hardware, y.mem.position = "Buffer", "UB", "VECCALC"


def _in_queue(queue: _Place, y: AscTensor, first: int, last: int) -> None:
    """Let a VECCALC tensor take an element of a queue in which nothing is while it lives."""
    x = queue.tensors[0]
    note("ascend.reuse", f"`{y}` takes an element of the queue of `{x}`", place=queue.id)
    numbers = [t.mem.reuse_id for n in y.node.graph.nodes for t in n.outputs]
    y.que = Queue(queue.id, x.que.depth, x.que.buf_num)
    y.mem.reuse_id = max(numbers) + 1
    y.mem.alloc_type, y.mem.hardware, y.mem.position = "Queue", "UB", "VECCALC"
    queue.tensors.append(y)
    queue.lives.append((first, last))


def _written_over(
    node: AscNode, x: AscTensor, readers: dict[AscTensor, list[AscNode]], lives: dict[int, tuple[int, int]]
) -> bool:
    """Whether an elementwise node may write its result over an input: it alone reads all of them, now for the last time."""
    y = node.y
    if node.op.kind != "elewise" or len(node.outputs) > 1 or x.node.op.unit == "MTE2":
        return False
    alone = all(x.node.op.is_number or (len(readers[x]) == 1 and x.dtype == y.dtype) for x in node.inputs)
    same = x.vectorized_axis == y.vectorized_axis and x.vectorized_strides == y.vectorized_strides
    return alone and same and lives[id(x.node)][1] == lives[id(node)][0]
