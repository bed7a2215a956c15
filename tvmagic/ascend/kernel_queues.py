"""The loops of a kernel as a tree, and what goes through its queues: where an element is taken, handed on and given back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis
from tvmagic.ascend.verifier import calls_axes, reduced_axes


@dataclass(eq=False)
class Loop:
    """A loop with what is in it; `starting` are the reductions that it goes on with, which begin in front of it."""

    axis: Axis
    items: list[Loop | AscNode] = field(default_factory=list)
    starting: list[AscNode] = field(default_factory=list)


@dataclass(eq=False)
class Element:
    """What is in a queue at one time: tensors side by side.

    `loops`: those around all that make or read it; inside them `first_made` to `last_read` are the calls and loops at
    which it is made and read.
    """

    queue: int
    tensors: list[AscTensor]
    loops: tuple[Axis, ...]
    first_made: Loop | AscNode
    last_made: Loop | AscNode
    first_read: Loop | AscNode | None
    last_read: Loop | AscNode | None


def loops_of(node: AscNode) -> tuple[Axis, ...]:
    """The loops of one core around a call, from outside."""
    axes = node.sched.axis
    return tuple(a for a in axes[: len(axes) - len(calls_axes(node))] if not a.bind_block)


def tree_of(nodes: Sequence[AscNode]) -> list[Loop | AscNode]:
    """Calls in the loops around them; neighbours share their loops."""
    top: list[Loop | AscNode] = []
    opened: list[Loop] = []
    for node in nodes:
        loops = loops_of(node)
        shared = 0
        while shared < min(len(loops), len(opened)) and loops[shared] is opened[shared].axis:
            shared += 1
        del opened[shared:]
        for axis in loops[shared:]:
            loop = Loop(axis)
            (opened[-1].items if opened else top).append(loop)
            opened.append(loop)
        if node.op.kind == "reduce":
            reduced = reduced_axes(node)
            outermost = next((loop for loop in opened if any(loop.axis is a for a in reduced)), None)
            if outermost is not None:
                outermost.starting.append(node)
        (opened[-1].items if opened else top).append(node)
    return top


def _paths(items: Sequence[Loop | AscNode], path: tuple[Loop, ...], found: dict[AscNode, tuple[Loop, ...]]) -> None:
    for item in items:
        if isinstance(item, Loop):
            _paths(item.items, (*path, item), found)
        else:
            found[item] = path


def elements_of(graph: AscGraph, tree: Sequence[Loop | AscNode]) -> list[Element]:
    """What goes through the queues, in the order in which it is made."""
    readers, order = graph.readers(), {n: i for i, n in enumerate(graph.nodes)}
    paths: dict[AscNode, tuple[Loop, ...]] = {}
    _paths(tree, (), paths)
    groups: dict[tuple[int, int], list[AscTensor]] = {}
    for node in paths:
        for y in node.outputs:
            if y.que.id >= 0:
                groups.setdefault((y.que.id, y.mem.reuse_id), []).append(y)
    found: list[Element] = []
    for (queue, _), tensors in groups.items():
        users = sorted({n for y in tensors for n in readers[y]}, key=lambda n: order[n])
        found.append(_element(queue, tensors, users, paths))
    return found


def _element(
    queue: int, tensors: list[AscTensor], users: list[AscNode], paths: dict[AscNode, tuple[Loop, ...]]
) -> Element:
    makers = [y.node for y in tensors]
    shared = paths[makers[0]]
    for node in (*makers, *users):
        common = [a for a, b in zip(shared, paths[node], strict=False) if a is b]
        shared = shared[: len(common)]

    def item(node: AscNode) -> Loop | AscNode:
        return paths[node][len(shared)] if len(paths[node]) > len(shared) else node

    first, last = (item(users[0]), item(users[-1])) if users else (None, None)
    return Element(queue, tensors, tuple(loop.axis for loop in shared), item(makers[0]), item(makers[-1]), first, last)
