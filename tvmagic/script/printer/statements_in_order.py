"""A walk over statements alone that does not deepen the stack."""

from __future__ import annotations

from collections.abc import Iterator

from tvmagic.ir import Kind, Stmt


def statements(root: Stmt) -> Iterator[Stmt]:
    """All statements in `root`, itself first, in the order of the text; expressions are not entered."""
    stack: list[Stmt | None] = [root]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        yield node
        inner: list[Stmt | None] = []
        for field in type(node).FIELDS:
            if field.kind is Kind.STMT:
                inner.append(getattr(node, field.name))
            elif field.kind is Kind.STMTS:
                inner.extend(getattr(node, field.name))
        stack.extend(reversed(inner))
