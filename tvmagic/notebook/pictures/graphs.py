"""Graphs of an operator: its stages, the iteration variables of a stage, the tree of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvmagic import ir
from tvmagic.errors import TVMagicError
from tvmagic.notebook.pictures.outline import Outline
from tvmagic.notebook.pictures.svg import Edge, Graph, Vertex
from tvmagic.operators.operator import tensor_type

_ATTACH = {"GROUP_ROOT": "", "INLINE": "inlined", "INLINED_ALREADY": "inlined", "SCAN_UPDATE": "in the scan"}


def stage_graph(sch: Any, outputs: Any = (), title: str = "Stages") -> Graph:
    """The stages of a TE schedule: an arrow from each to the stages that read it, and where it runs."""
    graph = Graph(title)
    finals = {id(t.op) for t in outputs}
    for number, stage in enumerate(sch.stages):
        op = stage.op
        key = str(number)
        lines = [op.name, ", ".join(tensor_type(t) for t in op.outputs)]
        tone = "panel"
        if not op.input_tensors and not getattr(op, "axis", ()) or type(op).__name__ == "PlaceholderOp":
            tone = "input"
        elif stage.is_output or id(op) in finals:
            tone = "output"
        place = _place_of(stage)
        if place:
            lines.append(place)
        loops = ", ".join(iv.var.name for iv in stage.leaf_iter_vars)
        graph.vertices.append(Vertex(key, lines, "round" if tone == "input" else "box", tone, f"loops: {loops}"))
        for tensor in op.input_tensors:
            producer = _stage_number(sch, tensor.op)
            if producer is not None:
                graph.edges.append(Edge(str(producer), key))
        if stage.attach_stage is not None and stage.attach_stage in sch.stages:
            graph.edges.append(Edge(key, str(sch.stages.index(stage.attach_stage)), dashed=True))
    return graph


def _stage_number(sch: Any, op: Any) -> int | None:
    for number, stage in enumerate(sch.stages):
        if stage.op is op or stage.origin_op is op:
            return number
    return None


def _place_of(stage: Any) -> str:
    if stage.attach_stage is not None and stage.attach_ivar is not None:
        return f"at {stage.attach_stage.op.name}.{stage.attach_ivar.var.name}"
    return _ATTACH.get(stage.attach_type.name, "")


_MARKS = {5: "unrolled", 6: "vectorized", 7: "parallel", 8: "tensorized"}


def _marks(attr: Any) -> list[str]:
    """What a schedule says of a loop, if it says something: its kind, or the thread that it is bound to."""
    if attr is None:
        return []
    thread = "" if attr.bind_thread is None else attr.bind_thread.thread_tag
    return [mark for mark in (_MARKS.get(attr.iter_type, thread),) if mark]


def iteration_graph(stage: Any, ranges: Mapping[Any, Any] | None = None, title: str = "") -> Graph:
    """The iteration variables of a stage with the relations between them (split, fuse, rebase).

    Loops are green, in the order of nesting by number; `ranges` are InferBound's, shown where given.
    """
    graph = Graph(title or f"Iteration variables of {stage.op.name}")
    order = {id(iv): i + 1 for i, iv in enumerate(stage.leaf_iter_vars)}
    roots = {id(iv) for iv in stage.op.root_iter_vars()}
    related = [iv for r in stage.relations for iv in (*r.parents(), *r.children())]
    variables = {id(iv): iv for iv in (*stage.op.root_iter_vars(), *stage.all_iter_vars, *related)}
    for iv in variables.values():
        lines = [iv.var.name]
        found = (ranges or {}).get(iv)
        if found is not None:
            lines.append(f"{found.min} .. +{found.extent}")
        if id(iv) in order:
            lines.append(", ".join([f"loop {order[id(iv)]}", *_marks(stage.iter_var_attrs.get(iv))]))
        tone = "leaf" if id(iv) in order else "input" if id(iv) in roots else "plain"
        graph.vertices.append(Vertex(str(id(iv)), lines, "round", tone))
    for number, relation in enumerate(stage.relations):
        key = f"r{number}"
        graph.vertices.append(Vertex(key, [relation_text(relation)], "diamond", "plain"))
        graph.edges += [Edge(str(id(iv)), key) for iv in relation.parents()]
        graph.edges += [Edge(key, str(id(iv))) for iv in relation.children()]
    return graph


def relation_text(relation: Any) -> str:
    """`split 32`, `split in 4`, `fuse`, `rebase`."""
    name = type(relation).__name__.lower()
    factor, nparts = getattr(relation, "factor", None), getattr(relation, "nparts", None)
    if name == "split":
        return f"split {factor}" if factor is not None else f"split in {nparts}"
    return name


_LOOP_WORD = {
    ir.ForKind.SERIAL: "for",
    ir.ForKind.PARALLEL: "parallel",
    ir.ForKind.VECTORIZED: "vectorized",
    ir.ForKind.UNROLLED: "unrolled",
    ir.ForKind.THREAD_BINDING: "thread",
}


def block_tree(func: ir.PrimFunc, dependencies: Any = None, title: str = "Blocks") -> Graph:
    """The loops and blocks of a function as an outline; dashed arrows are dependencies of blocks.

    `dependencies` are (from block name, to block name, kind), such as RAW; by default they are read off the regions of
    neighbouring blocks.
    """
    tree = _BlockTree(Outline(title))
    tree.walk(func.body, None)
    if not tree.blocks:
        raise TVMagicError(
            "the function has no blocks", hint="blocks are lowered away by the first passes", code="picture.no_blocks"
        )
    for start, end, kind in dependencies if dependencies is not None else _dependencies(tree.blocks):
        tree.graph.edges.append(Edge(start, end, kind, dashed=True))
    return tree.graph


class _BlockTree:
    """Draws statements into an outline; `blocks` are those drawn, by their keys there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.blocks: list[tuple[str, ir.Block]] = []

    def walk(self, node: Any, parent: str | None) -> None:
        """Draw `node` below the vertex `parent`."""
        if isinstance(node, ir.For):
            self._loops(node, parent)
        elif isinstance(node, ir.BlockRealize):
            self._block(node.block, parent)
        elif isinstance(node, ir.SeqStmt):
            for part in node.seq:
                self.walk(part, parent)
        elif hasattr(node, "body"):
            self.walk(node.body, parent)

    def _loops(self, node: ir.For, parent: str | None) -> None:
        """A loop and those of its kind directly inside, as one vertex."""
        chain = [node]
        while isinstance(chain[-1].body, ir.For) and chain[-1].body.kind == node.kind:
            chain.append(chain[-1].body)
        names = ", ".join(f"{loop.loop_var.name} {loop.extent}" for loop in chain)
        self.walk(chain[-1].body, self._add([f"{_LOOP_WORD[node.kind]} {names}"], parent, "plain", "box"))

    def _block(self, block: ir.Block, parent: str | None) -> None:
        reads, writes = (", ".join(r.buffer.name for r in regions) for regions in (block.reads, block.writes))
        does = [f"{words} {names}" for words, names in (("reads", reads), ("writes", writes)) if names]
        lines = [block.name_hint or "block", *([", ".join(does)] if does else [])]
        key = self._add(lines, parent, "output", "round")
        self.blocks.append((key, block))
        for part in (block.init, block.body):
            self.walk(part, key)

    def _add(self, lines: list[str], parent: str | None, tone: str, shape: str) -> str:
        key = str(len(self.graph.vertices))
        self.graph.vertices.append(Vertex(key, lines, shape, tone))
        if parent is not None:
            self.graph.edges.append(Edge(parent, key))
        return key


def _dependencies(blocks: list[tuple[str, ir.Block]]) -> list[tuple[str, str, str]]:
    """Pairs of blocks of which the later reads what the earlier writes."""
    result: list[tuple[str, str, str]] = []
    leaves = [(key, block) for key, block in blocks if block.iter_vars or block.reads]
    for i, (start, producer) in enumerate(leaves):
        for end, consumer in leaves[i + 1 :]:
            written = {id(r.buffer) for r in producer.writes}
            if any(id(r.buffer) in written for r in consumer.reads):
                result.append((start, end, "RAW"))
    return result
