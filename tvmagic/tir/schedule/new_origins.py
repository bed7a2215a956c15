"""What the statements that a primitive builds from nothing were made of, for those who follow lines through a schedule.

A copy of a buffer reads and writes what other statements read and wrote before; loops that a moved block gets stand for
those that it had. Both are seen from the program before and after a call, so primitives need no code of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvmagic.ir import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IRModule,
    SeqStmt,
    Span,
    Stmt,
    Visitor,
    handles,
)
from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.node import Node, parents_of_origins

_Nest = tuple[Stmt, ...]


class _Survey(Visitor):
    """Collects the statements and loads of a program, and what is around each."""

    def __init__(self) -> None:
        self.nest: _Nest = ()
        self.spans: dict[int, Span] = {}
        self.loads: dict[Buffer, list[int]] = {}
        self.stores: dict[Buffer, list[int]] = {}
        self.nests: dict[int, _Nest] = {}
        self.matched: dict[Buffer, Buffer] = {}
        self.nodes: list[tuple[Node, _Nest]] = []

    @handles(Stmt)
    def statement(self, node: Stmt) -> None:
        self.add(node)
        outer = self.nest
        self.nest = (*outer, node)
        self.visit_children(node)
        self.nest = outer

    @handles(Block)
    def block(self, node: Block) -> None:
        self.matched.update((part.buffer, part.source.buffer) for part in node.match_buffers)
        self.statement(node)

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> None:
        self.visit_children(node)

    @handles(BufferStore)
    def store(self, node: BufferStore) -> None:
        self.stores.setdefault(self.memory(node.buffer), []).append(_number(node))
        self.statement(node)

    @handles(BufferLoad)
    def load(self, node: BufferLoad) -> None:
        self.loads.setdefault(self.memory(node.buffer), []).append(_number(node))
        self.add(node)
        self.visit_children(node)

    def memory(self, buffer: Buffer) -> Buffer:
        """The buffer that this one is, or is a part of."""
        while buffer in self.matched:
            buffer = self.matched[buffer]
        return buffer

    def add(self, node: Node) -> None:
        if node.span is not None and node.span.origin:
            self.spans[node.span.origin] = node.span
            self.nests.setdefault(node.span.origin, self.nest)
            self.nodes.append((node, self.nest))


def _number(node: Node) -> int:
    return node.span.origin if node.span is not None else 0


@deep
def record_new_origins(before: IRModule, after: IRModule, since: int) -> None:
    """Keep, in the open record, the parents of the nodes of `after` that were built after `since` from nothing."""
    parents = parents_of_origins.get()
    if parents is None or after is before:
        return
    old, new = _survey(before), _survey(after)
    fresh = [(n, nest) for n, nest in new.nodes if _number(n) > since and _number(n) not in parents]
    inside: dict[int, dict[int, None]] = {}  # by statement that is new: the accesses in it

    def derive(node: Node, sources: Iterable[int]) -> None:
        origins = tuple(dict.fromkeys([o for o in sources if o]))
        if origins:
            parents[_number(node)] = origins
            place = next((old.spans[o] for o in origins if old.spans[o]), None)
            if place is not None and not node.span:
                node.span = place.with_origin(_number(node))

    for node, nest in new.nodes:
        if isinstance(node, (BufferLoad, BufferStore)):
            for around in nest:
                inside.setdefault(id(around), {})[_number(node)] = None
    for node, _ in fresh:
        if isinstance(node, BufferLoad):
            derive(node, old.loads.get(new.memory(node.buffer), ()))
    for node, _ in fresh:
        if isinstance(node, BufferStore):
            loads = [o for load in inside.get(id(node), ()) for o in parents.get(load, (load,)) if o in old.spans]
            derive(node, old.stores.get(new.memory(node.buffer)) or loads)
    for node, _ in fresh:
        if not isinstance(node, (BufferLoad, BufferStore)):
            accesses = inside.get(id(node), {})
            gone = [
                a for o in accesses for a in old.nests.get(o, ()) if _same_kind(a, node) and _number(a) not in new.spans
            ]
            derive(
                node, [_number(a) for a in gone] or [o for a in accesses for o in parents.get(a, ()) if o in old.spans]
            )


def _survey(mod: IRModule) -> _Survey:
    survey = _Survey()
    for function in mod.functions.values():
        body: Any = getattr(function, "body", None)
        if isinstance(body, Stmt):
            survey.visit(body)
    return survey


def _same_kind(a: Stmt, b: Node) -> bool:
    return any(isinstance(a, kind) and isinstance(b, kind) for kind in (For, (Block, BlockRealize)))
