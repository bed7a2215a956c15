"""Origins in programs: which are there, and numbers of their own for copies.

Unrolling a loop, partitioning it or inlining a producer leaves one origin in several statements, often as one object.
While somebody records, each of them gets a number whose parent is the number that they share, so that a view can follow
one copy alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tvmagic.ir.deep_recursion import deep
from tvmagic.ir.functor import Mutator, Visitor, handles
from tvmagic.ir.node import Node, copy_of
from tvmagic.ir.prim_expr import PrimExpr
from tvmagic.ir.stmt import SeqStmt, Stmt


class _OriginCollector(Visitor):
    """Collects the origins of each statement and of the loads in its own expressions."""

    def __init__(self) -> None:
        self.found: list[tuple[Stmt, dict[int, None]]] = []
        self.current: dict[int, None] = {}
        self.seen: set[int] = set()  # shared operands of the statement

    @handles(Stmt)
    def statement(self, node: Stmt) -> None:
        outer = self.current, self.seen
        self.current, self.seen = {}, set()
        self.found.append((node, self.current))
        self.add(node)
        self.visit_children(node)
        self.current, self.seen = outer

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> None:
        self.visit_children(node)

    @handles(PrimExpr)
    def expression(self, node: PrimExpr) -> None:
        if id(node) not in self.seen:
            self.seen.add(id(node))
            if node.HAS_ORIGIN:
                self.add(node)
            self.visit_children(node)

    def add(self, node: Node) -> None:
        if node.span is not None and node.span.origin:
            self.current[node.span.origin] = None


class _OwnOrigins(_OriginCollector):
    """Collects those of one statement alone."""

    @handles(Stmt)
    def statement(self, node: Stmt) -> None:
        if not self.current:
            self.add(node)
            self.visit_children(node)


@deep
def own_origins(node: Node) -> tuple[int, ...]:
    """Return the origins of a statement and of the loads in its own expressions."""
    collector = _OwnOrigins()
    collector.visit(node)
    return tuple(collector.current)


@deep
def origins_by_statement(program: Any) -> list[tuple[Stmt, tuple[int, ...]]]:
    """Return the statements of a program in order, each with its origin and those of its loads."""
    collector = _OriginCollector()
    for part in _parts(program):
        collector.visit(part)
    return [(stmt, tuple(origins)) for stmt, origins in collector.found]


def _parts(program: Any) -> Iterator[Any]:
    """The statements of a module's functions, of a function, or a statement itself."""
    if isinstance(program, Stmt):
        yield program
        return
    functions = getattr(program, "functions", None)
    for function in [program] if functions is None else functions.values():
        body = getattr(function, "body", None)
        if isinstance(body, Stmt):
            yield body


class _CopySeparator(Mutator):
    """Gives each statement with a shared origin a number of its own, and its loads likewise."""

    INHERITS = False

    def __init__(self, shared: set[int]) -> None:
        self.shared = shared
        self.numbers: dict[int, int] = {}  # of this statement, by the shared origin
        self.made: dict[int, tuple[Any, Any]] = {}  # operands of this statement, as they may be shared

    @handles(Stmt)
    def statement(self, node: Stmt) -> Any:
        outer = self.numbers, self.made
        self.numbers, self.made = {}, {}
        new = self.visit_children(node)
        new = self.renumbered(node, new)
        self.numbers, self.made = outer
        return new

    @handles(SeqStmt)
    def sequence(self, node: SeqStmt) -> Any:
        new = [self.visit(part) for part in node.seq]
        return node if all(a is b for a, b in zip(new, node.seq)) else node.replace(seq=tuple(new))

    @handles(PrimExpr)
    def expression(self, node: PrimExpr) -> Any:
        known = self.made.get(id(node))
        if known is None:
            new = self.visit_children(node)
            known = self.made[id(node)] = node, self.renumbered(node, new) if node.HAS_ORIGIN else new
        return known[1]

    def renumbered(self, old: Node, new: Node) -> Node:
        """`new`, which `old` became, with a number of its own if its origin is shared."""
        span = old.span
        if span is None or span.origin not in self.shared:
            return new
        known = self.numbers.get(span.origin)
        if known is not None:
            return new.replace(span=span.with_origin(known))
        made = copy_of(span, span.origin)
        self.numbers[span.origin] = made.origin
        return new.replace(span=made)


class _OriginRenewer(_CopySeparator):
    """Gives all statements and loads new numbers, as if they were built now."""

    def __init__(self) -> None:
        super().__init__(set())

    def renumbered(self, old: Node, new: Node) -> Node:
        return new if old.span is None else new.replace(span=old.span.born())


@deep
def with_new_origins(function: Any) -> Any:
    """Return a function whose statements have appeared just now, such as a further use of an intrinsic's implementation."""
    return _with_body(function, _OriginRenewer())


@deep
def separate_copies(program: Any) -> Any:
    """Return a program with different origins in different statements; itself if it is one already.

    Call it while somebody records, as the parents of the new origins are lost otherwise.
    """
    counts = Counter(origin for _, origins in origins_by_statement(program) for origin in origins)
    shared = {origin for origin, count in counts.items() if count > 1}
    if not shared:
        return program
    separator = _CopySeparator(shared)
    if isinstance(program, Stmt):
        return separator.visit(program)
    if not hasattr(program, "map_functions"):
        return _with_body(program, separator)

    def change(function: Any) -> Any:
        return _with_body(function, separator)

    return program.map_functions(change)


def _with_body(function: Any, separator: _CopySeparator) -> Any:
    body = getattr(function, "body", None)
    return function.with_body(separator.visit(body)) if isinstance(body, Stmt) else function
