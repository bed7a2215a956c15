"""What the classic and the CINN text share: bodies in braces, every operation in parentheses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Node


class BracesPrinter:
    """Writes lines at a level of indentation; a subclass has a table of handlers by class.

    A handler of an expression returns its text; one of a statement calls `line`, `open` and
    `close`, and returns the statement to go on with at the same level, or None.
    """

    HANDLERS: dict[type, Callable[[Any, Any], Any]] = {}

    def __init__(self, indent: int = 2) -> None:
        self.indent = " " * indent
        self.level = 0
        self.lines: list[str] = []
        self.nodes: list[Any] = []  # for each line the statement that it is of
        self.node: Any = None
        self._table: dict[type, Callable[[Any, Any], Any]] = {}

    def handler(self, cls: type) -> Callable[[Any, Any], Any]:
        found = self._table.get(cls)
        if found is None:
            found = next((self.HANDLERS[base] for base in cls.__mro__ if base in self.HANDLERS), _fallback)
            self._table[cls] = found
        return found

    def text(self, node: Any) -> str:
        """The text of an expression."""
        return self.handler(type(node))(self, node)

    def texts(self, nodes: Any) -> str:
        return ", ".join([self.text(n) for n in nodes])

    def stmt(self, node: Any) -> None:
        """Write a statement. What goes on at the same level does not deepen the stack."""
        while node is not None:
            done = self.write(node)
            if isinstance(done, str):  # what is not a statement, or has no handler
                self.line(done)
                return
            node = done

    def write(self, node: Any) -> Any:
        """Let the handler of a statement write its lines; what it returns."""
        outer, self.node = self.node, node
        done = self.handler(type(node))(self, node)
        self.node = outer
        return done

    def line(self, text: str) -> None:
        self.lines.append(self.indent * self.level + text)
        self.nodes.append(self.node)

    def open(self) -> None:
        self.level += 1

    def close(self, text: str = "}") -> None:
        self.level -= 1
        self.line(text)


def _fallback(printer: BracesPrinter, node: Any) -> str:
    if isinstance(node, Node):
        raise TVMagicError(
            f"this notation has no text for a node `{type(node).__name__}`", code="printer.unsupported_node"
        )
    return str(node)


def infix(symbol: str) -> Callable[[BracesPrinter, Any], str]:
    """A handler that writes `(a symbol b)`."""
    return lambda printer, node: f"({printer.text(node.a)}{symbol}{printer.text(node.b)})"


def prefix(name: str, *fields: str) -> Callable[[BracesPrinter, Any], str]:
    """A handler that writes `name(fields...)`."""
    return lambda printer, node: f"{name}({', '.join([printer.text(getattr(node, f)) for f in fields])})"
