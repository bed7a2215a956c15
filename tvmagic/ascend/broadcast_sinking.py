"""Broadcasts after elementwise calls and transposes in place of before them, if all operands are repeated alike.

A HintGraph broadcasts directly behind its loads, so that what depends on a row alone is computed
for every element. `abs(Broadcast(x))` becomes `Broadcast(abs(x))`, and so does every elementwise call whose
operands are all repeated along one axis, or are numbers.
"""

from __future__ import annotations

from tvmagic.ascend import ops
from tvmagic.ascend.addressing import seen_from
from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis, dense_strides
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.verifier import axis_of
from tvmagic.passes import note


def sink_broadcasts(graph: AscGraph) -> AscGraph:
    """The graph with its broadcasts as late as they can be."""
    return _Sinker(graph.copy()).run()


class _Sinker:
    """Goes through the nodes in order; `moved` is what their readers read instead."""

    def __init__(self, graph: AscGraph) -> None:
        self.graph = graph
        self.moved: dict[AscTensor, AscTensor] = {}
        self.numbers: dict[tuple[AscTensor, Axis, Size], AscTensor] = {}
        self.order: list[AscNode] = []

    def run(self) -> AscGraph:
        """The graph; what nothing reads any more is left out."""
        for node in list(self.graph.nodes):
            node.inputs = [self.moved.get(x, x) for x in node.inputs]
            if node.type == "Gather":
                self._repeat_less(node)
            axes: list[tuple[Axis, Size]] = []
            while (axis := _common_axis(node)) is not None:
                axes.append((axis, node.y.repeat(axis)))
                self._narrow(node, axis)
            self.order.append(node)
            y = node.y
            for axis, size in reversed(axes):
                y = self._broadcast(y, axis, size)
            if axes:
                self.moved[node.y] = y
                note("ascend.sink", f"`{node.name}` is computed before it is repeated", axes=str([a for a, _ in axes]))
        needed: set[int] = set()
        for node in reversed(self.order):
            if node.op.is_buffer or id(node) in needed:
                needed |= {id(node), *(id(x.node) for x in node.inputs)}
        self.graph.nodes = [n for n in self.order if id(n) in needed or n.op.is_buffer]
        return self.graph

    def _repeat_less(self, node: AscNode) -> None:
        """Let a Gather take its indices before they are repeated along axes that the input has."""
        (x, at), along = node.inputs, axis_of(node)
        axes, repeats, _ = seen_from(node, x)
        held = {id(a): r for a, r in zip(axes, repeats, strict=True)}
        while (axis := _last_axis(at.node)) is not None and axis is not along and held[id(axis)] == node.y.repeat(axis):
            at = at.node.inputs[0]
        node.inputs = [x, at]

    def _broadcast(self, x: AscTensor, axis: Axis, size: Size) -> AscTensor:
        y = ops.Broadcast(x, axis, size=size)
        self.order.append(y.node)
        return y

    def _narrow(self, node: AscNode, axis: Axis) -> None:
        """Let a node compute without an axis."""
        y = node.y
        y.repeats = [Size.of(1) if a is axis else r for a, r in zip(y.axis, y.repeats, strict=True)]
        y.strides = dense_strides(y.repeats)
        node.inputs = [self._scalar(x, y) if _scalar(x) is not None else x.node.inputs[0] for x in node.inputs]

    def _scalar(self, x: AscTensor, like: AscTensor) -> AscTensor:
        """A number repeated as a tensor is."""
        found = _scalar(x)
        assert found is not None
        for axis in reversed(like.axis):
            size = like.repeat(axis)
            if not size.is_one:
                key = found, axis, size
                if key not in self.numbers:
                    self.numbers[key] = self._broadcast(found, axis, size)
                found = self.numbers[key]
        return found


def _scalar(x: AscTensor) -> AscTensor | None:
    """The scalar that a tensor repeats."""
    while x.node.type == "Broadcast":
        x = x.node.inputs[0]
    return x if x.node.op.is_number else None


def _common_axis(node: AscNode) -> Axis | None:
    """The axis along which all operands of an elementwise node or a Transpose were repeated last, numbers aside."""
    if node.op.kind not in ("elewise", "transpose"):
        return None
    operands = [x for x in node.inputs if _scalar(x) is None]
    axes = [_last_axis(x.node) for x in operands]
    return axes[0] if axes and all(a is not None and a is axes[0] for a in axes) else None


def _last_axis(node: AscNode) -> Axis | None:
    if node.type != "Broadcast":
        return None
    x, y = node.inputs[0], node.y
    return next(a for a in y.axis if x.repeat(a) != y.repeat(a))
