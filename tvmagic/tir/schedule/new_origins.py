"""What the statements that a primitive builds from nothing were made of, for those who follow lines through a schedule.

A copy of a buffer reads and writes what other statements read and wrote before; loops that a moved block gets stand for
those that it had. Both are seen from the program before and after a call, so primitives need no code of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvmagic import ir
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.node import parents_of_origins

_Nest = tuple[ir.Stmt, ...]


class _Survey(ir.Visitor):
    """Collects the statements and loads of a program, and what is around each."""

    def __init__(self) -> None:
        self.nest: _Nest = ()
        self.spans: dict[int, ir.Span] = {}
        self.loads: dict[ir.Buffer, list[int]] = {}
        self.stores: dict[ir.Buffer, list[int]] = {}
        self.nests: dict[int, _Nest] = {}
        self.matched: dict[ir.Buffer, ir.Buffer] = {}
        self.nodes: list[tuple[ir.Node, _Nest]] = []

    @ir.handles(ir.Stmt)
    def statement(self, node: ir.Stmt) -> None:
        self.add(node)
        outer = self.nest
        self.nest = (*outer, node)
        self.visit_children(node)
        self.nest = outer

    @ir.handles(ir.Block)
    def block(self, node: ir.Block) -> None:
        self.matched.update((part.buffer, part.source.buffer) for part in node.match_buffers)
        self.statement(node)

    @ir.handles(ir.SeqStmt)
    def sequence(self, node: ir.SeqStmt) -> None:
        self.visit_children(node)

    @ir.handles(ir.BufferStore)
    def store(self, node: ir.BufferStore) -> None:
        self.stores.setdefault(self.memory(node.buffer), []).append(_origin_number(node))
        self.statement(node)

    @ir.handles(ir.BufferLoad)
    def load(self, node: ir.BufferLoad) -> None:
        self.loads.setdefault(self.memory(node.buffer), []).append(_origin_number(node))
        self.add(node)
        self.visit_children(node)

    def memory(self, buffer: ir.Buffer) -> ir.Buffer:
        """The buffer that this one is, or is a part of."""
        while buffer in self.matched:
            buffer = self.matched[buffer]
        return buffer

    def add(self, node: ir.Node) -> None:
        if node.span is not None and node.span.origin:
            self.spans[node.span.origin] = node.span
            self.nests.setdefault(node.span.origin, self.nest)
            self.nodes.append((node, self.nest))


def _origin_number(node: ir.Node) -> int:
    return node.span.origin if node.span is not None else 0


@deep
def record_new_origins(before: ir.IRModule, after: ir.IRModule, since: int) -> None:
    """Keep, in the open record, the parents of the nodes of `after` that were built after `since` from nothing."""
    parents = parents_of_origins.get()
    if parents is None or after is before:
        return
    old, new = _survey(before), _survey(after)
    fresh = [(n, nest) for n, nest in new.nodes if _origin_number(n) > since and _origin_number(n) not in parents]
    inside: dict[int, dict[int, None]] = {}  # by statement that is new: the accesses in it

    def derive(node: ir.Node, sources: Iterable[int]) -> None:
        origins = tuple(dict.fromkeys([o for o in sources if o]))
        if origins:
            parents[_origin_number(node)] = origins
            place = next((old.spans[o] for o in origins if old.spans[o]), None)
            if place is not None and not node.span:
                node.span = place.with_origin(_origin_number(node))

    for node, nest in new.nodes:
        if isinstance(node, (ir.BufferLoad, ir.BufferStore)):
            for around in nest:
                inside.setdefault(id(around), {})[_origin_number(node)] = None
    for node, _ in fresh:
        if isinstance(node, ir.BufferLoad):
            derive(node, old.loads.get(new.memory(node.buffer), ()))
    for node, _ in fresh:
        if isinstance(node, ir.BufferStore):
            loads = [o for load in inside.get(id(node), ()) for o in parents.get(load, (load,)) if o in old.spans]
            derive(node, old.stores.get(new.memory(node.buffer)) or loads)
    for node, _ in fresh:
        if not isinstance(node, (ir.BufferLoad, ir.BufferStore)):
            accesses = inside.get(id(node), {})
            gone = [
                a
                for o in accesses
                for a in old.nests.get(o, ())
                if _same_kind(a, node) and _origin_number(a) not in new.spans
            ]
            derive(
                node,
                [_origin_number(a) for a in gone]
                or [o for a in accesses for o in parents.get(a, ()) if o in old.spans],
            )


def _survey(mod: ir.IRModule) -> _Survey:
    survey = _Survey()
    for function in mod.functions.values():
        body: Any = getattr(function, "body", None)
        if isinstance(body, ir.Stmt):
            survey.visit(body)
    return survey


def _same_kind(a: ir.Stmt, b: ir.Node) -> bool:
    return any(isinstance(a, kind) and isinstance(b, kind) for kind in (ir.For, (ir.Block, ir.BlockRealize)))
