"""Cutting a HintGraph into steps that are scheduled on their own, as a template asks.

A step computes some sinks (stores, or tensors that later steps read from workspace) from inputs
and workspace. What does not depend on workspace is computed again in each step that needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tvmagic.ascend import ops
from tvmagic.ascend.addressing import by_axis
from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis, dense_strides
from tvmagic.ascend.sizes import Size
from tvmagic.ascend.verifier import axis_of, reduced_axes


@dataclass(frozen=True)
class Template:
    """How reductions and concats are done.

    `reduction`: `row` holds all reduced axes in local memory, `loop` loops over tiles of them.
    `concat`: `local` through local memory, `global` straight to global memory.
    """

    reduction: str = "row"
    concat: str = "local"

    @property
    def name(self) -> str:
        return f"{self.reduction}_{self.concat}"


def templates_of(graph: AscGraph) -> list[Template]:
    """The templates that differ for a graph; a concat of the outermost axis goes straight to global memory."""
    has_reduction = any(n.op.kind == "reduce" for n in graph.nodes)
    concats = graph.of_type("Concat")
    ways = ["local", "global"] if concats else ["local"]
    if any(axis_of(n) is graph.sched_axes[0] for n in concats):
        ways = ["global"]
    loops = has_reduction and not graph.of_type("ArgMax")  # which compares with the greatest element of the whole row
    return [Template(r, c) for r in (("row", "loop") if loops else ("row",)) for c in ways]


@dataclass
class _Sink:
    """A tensor that a step makes: the value of `node`, or input `part` of a concat."""

    node: AscNode
    part: int = -1
    closure: list[AscNode] = field(default_factory=list)

    @property
    def source(self) -> AscNode:
        return self.node if self.part < 0 else self.node.inputs[self.part].node


class _Cutter:
    def __init__(self, graph: AscGraph, template: Template) -> None:
        self.graph, self.template = graph, template
        self.rank = {id(n): i for i, n in enumerate(graph.nodes)}
        self.readers = graph.readers()
        self.cut: set[int] = set()
        if template.concat == "global":
            self.cut = {id(n) for n in graph.of_type("Concat")}

    def sinks(self) -> list[_Sink]:
        found: list[_Sink] = []
        for node in self.graph.nodes:
            if node.type == "Concat" and id(node) in self.cut:
                found += [_Sink(node, part) for part in range(len(node.inputs))]
            elif (node.type == "Store" and not self.written_by_concat(node)) or id(node) in self.cut:
                found.append(_Sink(node))
        for sink in found:
            sink.closure = self.closure(sink.source)
        return found

    def written_by_concat(self, store: AscNode) -> bool:
        """Whether the parts of a concat go straight to what this store writes."""
        concat = store.inputs[0].node
        return concat.type == "Concat" and id(concat) in self.cut and concat_output(self.readers, concat) is not None

    def closure(self, root: AscNode) -> list[AscNode]:
        """What `root` needs, in order, down to inputs and cut tensors (which are in it, as its ends)."""
        found = {id(root): root}
        stack = [root]
        while stack:
            node = stack.pop()
            if id(node) in self.cut and node is not root:
                continue
            if (node.type == "Concat" and id(node) in self.cut) or node.type == "Workspace":
                continue
            for x in node.inputs:
                if id(x.node) not in found:
                    found[id(x.node)] = x.node
                    stack.append(x.node)
        return sorted(found.values(), key=lambda n: self.rank[id(n)])

    def reductions(self, nodes: Iterable[AscNode], root: AscNode | None) -> list[AscNode]:
        """The reductions that a step computes itself."""
        return [n for n in nodes if n.op.kind == "reduce" and (id(n) not in self.cut or n is root)]

    def offender(self, sink: _Sink) -> AscNode | None:
        """The first reduction that must become a step of its own; None if the sink is one step."""
        root = sink.source
        own = self.reductions(sink.closure, root)
        if not own:
            return None
        last = _axis_ids(own[-1])
        for node in own:
            if node is root:
                continue
            if _axis_ids(node) != last:
                return node
            if self.template.reduction == "loop" and self._used_along(node, sink):
                return node
        return None

    def _used_along(self, reduction: AscNode, sink: _Sink) -> bool:
        """Whether something that depends on a reduction has its axes again, or reduces again."""
        dependent, axes = {id(reduction)}, reduced_axes(reduction)
        for node in sink.closure:
            if id(node) in self.cut and node is not sink.source:
                continue
            if any(id(x.node) in dependent for x in node.inputs):
                dependent.add(id(node))
                if node.op.kind == "reduce" or any(not node.y.repeat(a).is_one for a in axes):
                    return True
        return False

    def run(self) -> list[_Sink]:
        while True:
            sinks = self.sinks()
            offender = next((n for n in (self.offender(s) for s in sinks) if n is not None), None)
            if offender is None:
                return sinks
            self.cut.add(id(offender))

    # ------------------------------------------------------------------ steps

    def steps(self) -> list[list[_Sink]]:
        """Sinks that are computed together: over the same loops, of shared inputs, none from another."""
        steps: list[list[_Sink]] = []
        made_in: dict[int, int] = {}
        for sink in self.run():
            needs = [made_in[id(n)] for n in sink.closure if id(n) in made_in and n is not sink.source]
            first = max(needs, default=-1) + 1
            place = next((i for i in range(first, len(steps)) if self._joins(sink, steps[i])), None)
            if place is None:
                place = len(steps)
                steps.append([])
            steps[place].append(sink)
            made = [sink.node] if id(sink.node) in self.cut else []
            if sink.node.type == "Store":
                made += [n for n in self.readers[sink.node.y] if n.type == "Workspace"]
            for node in made:
                made_in[id(node)] = max(place, made_in.get(id(node), 0))
        return steps

    def _joins(self, sink: _Sink, step: list[_Sink]) -> bool:
        if sink.part >= 0 or any(s.part >= 0 for s in step):
            return False
        nodes = {id(n) for s in step for n in s.closure if not n.op.is_buffer}
        if not any(id(n) in nodes for n in sink.closure):
            return False
        both = [*step, sink]
        reduced = {_axis_ids(n) for s in both for n in self.reductions(s.closure, s.source)}
        if len(reduced) > 1:
            return False
        axes = next(iter(reduced), frozenset())
        made = [s.source.inputs[0] if s.source.type == "Store" else s.source.y for s in both]
        shapes = {tuple(r for a, r in zip(y.axis, y.repeats, strict=True) if id(a) not in axes) for y in made}
        if len(shapes) > 1:
            return False
        if self.template.reduction == "row" or not axes:
            return True
        union = {id(n): n for s in both for n in s.closure}
        whole = _Sink(sink.node, closure=sorted(union.values(), key=lambda n: self.rank[id(n)]))
        roots = {id(s.source) for s in both}
        return not any(self._used_along(n, whole) for n in self.reductions(whole.closure, None) if id(n) not in roots)


def _axis_ids(node: AscNode) -> frozenset[int]:
    return frozenset(id(a) for a in reduced_axes(node))


def concat_output(readers: Mapping[AscTensor, list[AscNode]], concat: AscNode) -> AscNode | None:
    """The output that takes a concat as it is, if nothing else reads it."""
    stores = readers[concat.y]
    if len(stores) != 1 or stores[0].type != "Store":
        return None
    outputs = readers[stores[0].y]
    if len(outputs) != 1 or len(outputs[0].inputs) != 1 or Size.of(stores[0].attr("offset")) != 0:
        return None
    return outputs[0] if outputs[0].y.repeats == stores[0].y.repeats else None


def partition(graph: AscGraph, template: Template) -> list[AscGraph]:
    """The steps of a HintGraph as graphs of their own, in the order in which they run."""
    cutter = _Cutter(graph, template)
    return [_Builder(cutter, sinks).build(f"{graph.name}_{i}") for i, sinks in enumerate(cutter.steps())]


class _Builder:
    """Builds the graph of one step."""

    def __init__(self, cutter: _Cutter, sinks: list[_Sink]) -> None:
        self.cutter, self.sinks = cutter, sinks

    def build(self, name: str) -> AscGraph:
        new = self.cutter.graph.copy(name)
        axes = {id(a): b for a, b in zip(self.cutter.graph.axes, new.axes, strict=True)}
        copies = dict(zip((id(n) for n in self.cutter.graph.nodes), new.nodes, strict=True))
        new.nodes, self.new, self.copies = [], new, copies
        union = {id(n): n for s in self.sinks for n in s.closure}
        roots = {id(s.source) for s in self.sinks}
        for node in sorted(union.values(), key=lambda n: self.cutter.rank[id(n)]):
            if node.type == "Workspace":  # an earlier step has written it
                copies[id(node)].inputs = []
            own = id(node) not in self.cutter.cut or (id(node) in roots and node.type != "Concat")
            new.nodes.append(copies[id(node)]) if own else self._from_workspace(node)
        for sink in self.sinks:
            self._finish(sink, axes)
        self._shorten()
        for type in ("Data", "Output"):
            for index, node in enumerate(new.of_type(type)):
                node.attrs["index"] = index
        return new

    def _shorten(self) -> None:
        """Make axes as long as the step has them: a part of a concat may be all of it."""
        local = [n for n in self.new.nodes if n.op.is_call and n.type != "Store"]
        for axis in self.new.sched_axes:
            held = {r for n in local if not (r := n.y.repeat(axis)).is_one}
            if len(held) == 1:
                axis.size = held.pop()

    def _from_workspace(self, node: AscNode) -> None:
        """The value of a cut node, loaded; its readers read that."""
        old = self.copies[id(node)]
        source = self._workspace(node, ())
        loaded = ops.Load(source, f"{node.name}_load")
        for reader in self.copies.values():
            reader.inputs = [loaded if x is old.y else x for x in reader.inputs]

    def _workspace(self, node: AscNode, inputs) -> AscNode:
        made = self.new.add_node("Workspace", inputs, f"{node.name}_ws")
        y, old = made.y, self.copies[id(node)].y
        y.dtype, y.axis, y.repeats = old.dtype, list(old.axis), list(old.repeats)
        y.strides = dense_strides(y.repeats)
        y.mem.alloc_type, y.mem.hardware, y.mem.position = "Global", "GM", "GM"
        return made

    def _finish(self, sink: _Sink, axes: dict[int, Axis]) -> None:
        new, readers = self.new, self.cutter.readers
        if sink.node.type == "Store":
            for reader in readers[sink.node.y]:
                array, stored = self.copies[id(reader)], self.copies[id(sink.node)].y
                if array not in new.nodes:
                    array.inputs = []
                    new.nodes.append(array)
                array.inputs.append(stored)
            return
        source = self.copies[id(sink.source)].y
        if sink.part >= 0 and id(sink.source) in self.cutter.cut:
            source = next(n for n in new.nodes if n.name == f"{sink.source.name}_load").y
        stored = ops.Store(source, f"{sink.source.name}_store{max(sink.part, 0) or ''}")
        if sink.part < 0:
            self._workspace(sink.node, [stored])
            return
        axis = axis_of(sink.node)
        before = Size.of(0)
        for x in sink.node.inputs[: sink.part]:
            before = before + x.repeat(axis)
        target = concat_output(readers, sink.node)
        if target is None:
            layout = self._workspace(sink.node, [stored]).y
        else:
            output = self.copies[id(target)]
            output.inputs = [stored]
            new.nodes.append(output)
            layout = output.y
            self._lay_out(stored, layout, axes[id(axis)])
        stored.node.attrs["offset"] = before * by_axis(stored.node, layout)[id(axes[id(axis)])]

    def _lay_out(self, stored: AscTensor, output: AscTensor, along: Axis) -> None:
        """Let what is stored have the axes of the output, and its sizes but for the one along which it is a part."""
        part, first = stored.repeat(along), along.from_[0] if along.is_merged else along
        for axis in along.from_[1:] if along.is_merged else ():
            part = part / output.repeat(axis)
        stored.axis = list(output.axis)
        stored.repeats = [part if a is first else r for a, r in zip(output.axis, output.repeats, strict=True)]
        stored.strides = dense_strides(stored.repeats)
