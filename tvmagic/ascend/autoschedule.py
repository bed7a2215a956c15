"""Auto Schedule: from a HintGraph to the ImplGraphs among which tiling chooses.

Axes merge; broadcasts sink below elementwise calls; each template cuts the graph into groups; the axes of a group fall into tiling groups;
each choice of axes to tile gives an ImplGraph: tiles split off, loops outside merged and split over
the cores, the rest vectorized, local buffers shared. Each step is kept in the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tvmagic.ascend.broadcast_sinking import sink_broadcasts
from tvmagic.ascend.evaluate import check_runs
from tvmagic.ascend.graph import AscGraph, AscNode, AscTensor, Axis, GraphType
from tvmagic.ascend.lower import vectorize
from tvmagic.ascend.memory import assign_memory
from tvmagic.ascend.padding import has_gaps, pad_rows
from tvmagic.ascend.partition import Template, partition, templates_of
from tvmagic.ascend.split_loads import split_parts
from tvmagic.ascend.transforms import (
    apply_merge,
    apply_sched_merge,
    apply_sched_reorder,
    apply_sched_split,
    apply_split,
    block_split,
    in_order,
    merge_axis,
    mergeable,
    tile_split,
)
from tvmagic.ascend.verifier import axis_of, check_hint, check_impl, domain_of, reduced_axes
from tvmagic.ir.views import viewed
from tvmagic.passes import is_watched, note, run_step

_T = TypeVar("_T")


@dataclass
class TilingGroups:
    """The axes of a group: `x` before a concat axis, `y` plain loops, `r` reduced; only those in use."""

    x: list[Axis] = field(default_factory=list)
    y: list[Axis] = field(default_factory=list)
    r: list[Axis] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join("(" + ",".join(a.name for a in axes) + ")" for axes in (self.x, self.y, self.r))


@viewed("ascend implementation")
@dataclass
class ImplGraph:
    """One implementation of a group: the graph, and the size variables that tiling chooses, innermost first.

    `rows`: how several rows of the innermost axis are in local memory: `dense` if nothing has to be between them,
    `padded` each up to whole blocks of memory, `unaligned` one right after the other although a padded twin exists.
    """

    graph: AscGraph
    template: Template
    case: str
    tiles: list[str]
    block: str | None
    rows: str = "dense"

    def __repr__(self) -> str:
        return f"ImplGraph({self.graph.name!r}, {self.template.name}, {self.case})"


@dataclass
class ScheduleGroup:
    """A step that is scheduled on its own: what it computes, and its implementations."""

    hint: AscGraph
    groups: TilingGroups
    impls: list[ImplGraph]

    def __repr__(self) -> str:
        return f"ScheduleGroup({self.hint.name!r}, axes {self.groups}, {len(self.impls)} ImplGraphs)"


@dataclass
class ScheduleResult:
    """A whole implementation of the HintGraph: its groups run one after the other."""

    name: str
    hint: AscGraph
    template: Template
    groups: list[ScheduleGroup]

    def __repr__(self) -> str:
        return f"ScheduleResult({self.name!r}, {self.groups!r})"


# ---------------------------------------------------------------------------- merge


def merge_axes(graph: AscGraph) -> AscGraph:
    """The graph with neighbouring axes merged that every tensor holds contiguously.

    Data and Output nodes, and what Output nodes take, keep their axes.
    """
    graph = graph.copy()
    along = [axis_of(n) for n in graph.of_type("Concat")]
    runs: list[list[Axis]] = []
    for axis in graph.sched_axes:
        joins = bool(runs) and not any(a is axis for a in along)
        if joins and _merge(graph, [*runs[-1], axis]):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    for run in runs:
        if len(run) < 2:
            continue
        _pass_over(graph, run)
        merged = merge_axis(graph, run)
        apply_merge(graph, merged)
        place = graph.sched_axes.index(run[0])
        graph.sched_axes[place : place + len(run)] = [merged]
        note("ascend.merge", f"`{merged.name}` is {', '.join(f'`{a.name}`' for a in run)}", size=str(merged.size))
    return graph


def _between(graph: AscGraph, run: list[Axis]) -> list[AscNode]:
    """Broadcasts along a part of `run` that only other broadcasts read; along the merged axis one does for all."""
    broadcasts = [n for n in graph.of_type("Broadcast") if not mergeable(n.y, run)]
    readers = graph.readers() if broadcasts else {}
    return [n for n in broadcasts if all(r.type == "Broadcast" for r in readers[n.y])]


def _source(tensor: AscTensor, between: list[AscNode]) -> AscTensor:
    while any(tensor.node is n for n in between):
        tensor = tensor.node.inputs[0]
    return tensor


def _merge(graph: AscGraph, run: list[Axis]) -> bool:
    """Whether every tensor holds the axes of `run` contiguously or not at all."""
    between, tables = _between(graph, run), _tables(graph, run)
    if any(not y.repeat(a).is_one for y, held in tables.items() for a in run if a is not held):
        return False
    for node in graph.nodes:
        if any(node is n for n in between):
            continue
        if node.y not in tables and not (mergeable(node.y, run) and in_order(node.y, run)):
            return False
        for x in node.inputs:
            source = _source(x, between)
            others = [a for a in graph.sched_axes if not any(a is r for r in run)]
            if source is not x and any(source.repeat(a) != x.repeat(a) for a in others):
                return False
    return True


def _tables(graph: AscGraph, run: list[Axis]) -> dict[AscTensor, Axis]:
    """What is read at indices along an axis of `run`; it has any size there, and may have 1 along the others."""
    return {n.inputs[0]: a for n in graph.of_type("Gather") if (a := axis_of(n)) in run}


def _pass_over(graph: AscGraph, run: list[Axis]) -> None:
    """Leave out the broadcasts between others that the merged axis has no place for."""
    between = _between(graph, run)
    for node in graph.nodes:
        node.inputs = [_source(x, between) for x in node.inputs]
    graph.nodes = [n for n in graph.nodes if not any(n is b for b in between)]


# ---------------------------------------------------------------------------- tiling groups


def tiling_groups(graph: AscGraph) -> TilingGroups:
    """The tiling groups of a step; those of all its nodes fit, as it was cut so."""
    local = [n for n in graph.nodes if n.op.is_call and n.type != "Store"]
    reduced = {id(a) for n in local if n.op.kind == "reduce" for a in reduced_axes(n)}
    used = [a for a in graph.sched_axes if any(not n.y.repeat(a).is_one for n in local)]
    places = [graph.sched_axes.index(axis_of(n)) for n in graph.of_type("Concat")]
    groups = TilingGroups(r=[a for a in used if id(a) in reduced])
    plain = [a for a in used if id(a) not in reduced]
    if places:
        groups.x = [a for a in plain if graph.sched_axes.index(a) < min(places)]
    else:
        groups.y = plain
    return groups


Case = tuple[list[Axis], list[Axis]]


def _cases(step: AscGraph, groups: TilingGroups, template: Template) -> Iterator[Case]:
    """The axis to tile among plain and among reduced axes, in each possible way.

    Of plain axes two are tiled for a Transpose as well, the innermost of both its sides. What a concat in local
    memory puts together stays whole.
    """
    loops = groups.x or groups.y
    reduced = groups.r if template.reduction == "loop" and not step.of_type("Concat") else []
    for plain in [*([axis] for axis in loops), *_turned(step, loops)] or [[]]:
        for axes in [[axis] for axis in reduced] or [[]]:
            yield plain, axes


def _turned(step: AscGraph, loops: list[Axis]) -> list[list[Axis]]:
    """The pairs of axes that are innermost in memory in front of and behind a Transpose."""
    pairs: list[list[Axis]] = []
    for node in step.of_type("Transpose"):
        ends = [
            [a for a, r in zip(t.axis, t.repeats, strict=True) if not r.is_one][-1:] for t in (node.inputs[0], node.y)
        ]
        pair = [a for a in loops if [a] in ends]
        if len(pair) == 2 and pair not in pairs:
            pairs.append(pair)
    return pairs


# ---------------------------------------------------------------------------- one implementation


class _Implementation:
    """Builds the ImplGraph of one tiling case."""

    def __init__(self, step: AscGraph, groups: TilingGroups, plain: list[Axis], reduced: list[Axis]) -> None:
        names = [a.name for a in (*plain, *reduced)]
        self.case = "_".join(["tile", *names]) if names else "whole"
        self.graph = step.copy(f"{step.name}_{self.case}")
        self.graph.type = GraphType.IMPL
        find = self.graph.find_axis
        self.plain = [find(a.name) for a in groups.x or groups.y]
        self.reduced = [find(a.name) for a in groups.r]
        self.tile_plain = [find(a.name) for a in plain]
        self.tile_reduced = [find(a.name) for a in reduced]
        self.tiles: list[str] = []
        self.block: str | None = None

    def tile(self) -> AscGraph:
        """Split the tiles off and order the loops: plain, reduced, then what is vectorized."""
        graph = self.graph
        self.outer = self._split(self.plain, self.tile_plain)
        self.outer_reduced = self._split(self.reduced, self.tile_reduced)
        loops = [*self.outer, *self.outer_reduced]
        for node in graph.nodes:
            if not node.op.is_buffer:
                self.inner = [a for a in node.sched.axis if not any(a is b for b in loops)]
                apply_sched_reorder(node, [*loops, *self.inner])
        return graph

    def _split(self, axes: list[Axis], chosen: list[Axis]) -> list[Axis]:
        """Split the chosen axes; the loops outside the tile, which end with the last of them."""
        loops: list[Axis] = []
        for axis in axes[: max((axes.index(a) + 1 for a in chosen), default=0)]:
            if axis in chosen:
                axis, inner = tile_split(self.graph, axis)
                apply_split(self.graph, axis, inner)
                self.tiles.insert(0, f"{inner.name}_size")
            loops.append(axis)
        return loops

    def blocks(self) -> AscGraph:
        """Merge the loops outside the tile and split them over the cores."""
        if self.outer:
            whole = self.outer[0]
            if len(self.outer) > 1:
                whole = merge_axis(self.graph, self.outer)
                apply_sched_merge(self.graph, whole)
            block, core = block_split(self.graph, whole)
            (apply_split if len(self.outer) == 1 else apply_sched_split)(self.graph, block, core)
            self.outer, self.block = [block, core], f"{core.name}_size"
        return self.graph

    def vectorize(self) -> AscGraph:
        """Choose loop axes, the order of the calls, and the vectorized axes of each tensor."""
        head, body, tail = self._sections()
        last = self.outer[-1] if self.outer else None
        inside = self.outer_reduced[-1] if self.outer_reduced else last
        for nodes, loop in ((head, last), (body, inside), (tail, last)):
            for node in nodes:
                node.sched.loop_axis = loop
        buffers = [n for n in self.graph.nodes if n.op.is_buffer]
        sources = [n for n in buffers if not n.inputs]
        self.graph.nodes = [*sources, *head, *body, *tail, *(n for n in buffers if n.inputs)]
        for order, node in enumerate(self.graph.nodes):
            node.sched.exec_order = order
            if node.op.is_call and node.type != "Store":
                vectorize(node.y, self.inner)
        return self.graph

    def _sections(self) -> tuple[list[AscNode], list[AscNode], list[AscNode]]:
        """The nodes before, in and after the loops over reduced tiles."""
        nodes = [n for n in self.graph.nodes if not n.op.is_buffer]
        if not self.outer_reduced:
            return [], nodes, []
        reduced = [*self.outer_reduced, *(a for a in self.inner if self._is_reduced(a))]
        head, body, tail = [], [], []
        late: set[int] = set()
        for node in nodes:
            if node.op.kind == "reduce":
                body.append(node)
                late.add(id(node))
            elif any(not domain_of(node).repeat(a).is_one for a in reduced):
                body.append(node)
            elif any(id(x.node) in late for x in node.inputs):
                tail.append(node)
                late.add(id(node))
            else:
                head.append(node)
        return head, body, tail

    def _is_reduced(self, axis: Axis) -> bool:
        return any(axis is r or any(f is r for f in axis.from_) for r in self.reduced)


# ---------------------------------------------------------------------------- steps of the record


def _step(name: str, run: Callable[[], _T], before: AscGraph, options: Mapping[str, Any] | None = None) -> _T:
    """A step of the record, with the graph before and after it; a step that gives no graph changes none."""

    def shown(result: object) -> str:
        graphs = result if isinstance(result, list) else [result if isinstance(result, AscGraph) else before]
        return "\n".join(map(str, graphs))

    return run_step(name, run, before=str(before) if is_watched() else None, after=shown, options=options)


def _implement(step: AscGraph, groups: TilingGroups, template: Template, case: Case) -> list[ImplGraph]:
    """The ImplGraph of a case; beside it one with padded rows, if it has rows that do not end with a block of memory."""
    build = _Implementation(step, groups, *case)
    graph = build.graph
    _step("ascend.TileSplit", build.tile, step)
    _step("ascend.BlockSplit", build.blocks, graph)
    _step("ascend.Vectorize", build.vectorize, graph)
    _step("ascend.AssignMemory", lambda: assign_memory(graph), graph)
    check_impl(graph)
    dense = ImplGraph(graph, template, build.case, build.tiles, build.block)
    if not has_gaps(graph):
        return [dense]
    padded = _step("ascend.PadRows", lambda: pad_rows(graph), graph)
    check_impl(padded)
    return [replace(dense, rows="unaligned"), replace(dense, graph=padded, case=f"{dense.case}_padded", rows="padded")]


# ---------------------------------------------------------------------------- all of it


def _group(step: AscGraph, template: Template) -> ScheduleGroup:
    def find() -> TilingGroups:
        groups = tiling_groups(step)
        note("ascend.groups", f"one axis of each group is tiled: `{groups}`")
        return groups

    groups = _step("ascend.TilingGroups", find, step)
    cases = list(_cases(step, groups, template))
    impls = [impl for case in cases for impl in _implement(step, groups, template, case)]
    return ScheduleGroup(step, groups, impls)


def auto_schedule(hint: AscGraph) -> list[ScheduleResult]:
    """The implementations of a HintGraph, one for each template that differs.

    Raises AscendError where the graph breaks a rule of HintGraphs.
    """
    check_hint(hint)
    for node in hint.nodes:
        check_runs(node)
    graph = hint
    if hint.of_type("Split"):
        graph = _step("ascend.SplitParts", lambda: split_parts(hint), hint)
    merged = _step("ascend.MergeAxes", lambda: merge_axes(graph), graph)
    merged = _step("ascend.SinkBroadcasts", lambda m=merged: sink_broadcasts(m), merged)
    results = []
    for template in templates_of(merged):
        steps = _step("ascend.Partition", lambda t=template: partition(merged, t), merged, {"template": template.name})
        groups = [_group(step, template) for step in steps]
        results.append(ScheduleResult(f"{hint.name}_{template.name}", hint, template, groups))
    return results
