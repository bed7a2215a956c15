"""Where the cursor is in a cell of ours: in which cell, after what, in which call, and what the names there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.lazy import cached_property
from tvmagic.operators import Operator
from tvmagic.operators.unfinished import evaluated, schedule_names, tensor_names

_FIRST = re.compile(r"^(?:\s*#[^\n]*\n)*\s*%%(tensor|schedule|puzzle)\b[ \t]*(\S*)[^\n]*\n", re.ASCII)
_latest: tuple[Any, dict[str, Any]] | None = None  # the names that were found last, with what they were found for


def cursor_in(code: str, at: int, namespace: Mapping[str, Any]) -> Cursor | None:
    """The place `at` (an offset) of a cell's text, if it is below the line of the magic of one of our cells."""
    first = _FIRST.match(code)
    if first is None or at < first.end():
        return None
    kind, name = first.groups()
    op = _of_puzzle(name) if kind == "puzzle" else namespace.get(name) if kind == "schedule" else None
    if kind != "tensor" and not isinstance(op, Operator):
        return None
    return Cursor(kind, op, code[first.end() :], at - first.end(), namespace)


@lru_cache(maxsize=4)
def _of_puzzle(address: str) -> Operator | None:
    """The operator that one of the package's puzzles is about; None if there is none."""
    from tvmagic.puzzles import puzzle

    try:
        return puzzle(int(address)).operator() if address.isdecimal() else None
    except TVMagicError:
        return None


class Cursor:
    """A place in the text of a `%%tensor`, `%%schedule` or `%%puzzle` cell below its first line.

    Attributes
    ----------
    kind: `tensor`, `schedule` or `puzzle`.
    op: the operator that is scheduled; None in a `%%tensor` cell.
    before: the text above and left of the place; `text` is all.
    open: where the brackets begin that are open there, outermost first.
    string: where the text in quotes begins that the place is in; None if it is in none.
    """

    def __init__(self, kind: str, op: Operator | None, text: str, at: int, namespace: Mapping[str, Any]) -> None:
        self.kind, self.op, self.text, self.namespace = kind, op, text, namespace
        self.before = text[:at]
        self.open: list[int] = []
        self.string: int | None = None
        self.in_comment = False
        self._pairs: dict[int, int] = {}
        self._statement = 0  # where the statement of the place begins, if others are left of it in its line
        self._scan()

    def _scan(self) -> None:
        """Find the brackets, and what the place is in."""
        quote = ""
        for i, c in enumerate(self.before):
            if self.in_comment:
                self.in_comment = c != "\n"
            elif quote:
                if c == quote and self.before[i - 1] != "\\" or c == "\n":
                    quote, self.string = "", None
            elif c in "'\"":
                quote, self.string = c, i
            elif c == "#":
                self.in_comment = True
            elif c == ";" and not self.open:
                self._statement = i
            elif c in "([{":
                self.open.append(i)
            elif c in ")]}" and self.open:
                self._pairs[i] = self.open.pop()

    @cached_property
    def names(self) -> dict[str, Any]:
        """The names that the lines above the cursor's have, with their values."""
        global _latest
        above = self.before[: max(self.before.rfind("\n"), self._statement, 0)]
        if self.open and self.before[self.open[0] :].count("\n"):  # the statement begins further up
            above = self.before[: max(self.before.rfind("\n", 0, self.open[0]), self._statement, 0)]
        if self.op is None:
            return tensor_names(self.before)
        wanted = (self.op, above.strip())
        if _latest is None or _latest[0] != wanted:
            _latest = (wanted, schedule_names(self.op, above, self.namespace))
        return _latest[1]

    def expression_before(self, end: int) -> str:
        """The name with its attributes, indices and calls that ends at `end`: `s[Y].op` in `f(s[Y].op`."""
        start = end
        while start > 0:
            c = self.before[start - 1]
            if c in ")]" and start - 1 in self._pairs:
                start = self._pairs[start - 1]
            elif c.isalnum() or c in "_.":
                start -= 1
            else:
                break
        return self.before[start:end]

    def value(self, expression: str) -> Any:
        """The value of an expression without calls; None if it has none."""
        found = evaluated(expression, self.names)
        return evaluated(expression, self.namespace) if found is None and self.op is None else found

    @property
    def call(self) -> tuple[str, int] | None:
        """The innermost call that the cursor is in: what is called, and the number of the argument."""
        for start in reversed(self.open):
            called = self.expression_before(start)
            if self.before[start] == "(" and called:
                return called, self._commas(start)
        return None

    def _commas(self, start: int) -> int:
        """How many commas of the call that begins at `start` are before the cursor."""
        depth = count = 0
        for c in self.before[start + 1 :]:
            depth += (c in "([{") - (c in ")]}")
            count += c == "," and depth == 0
        return count
