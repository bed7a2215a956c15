"""The place of every node in the printed text.

The printer puts marks around what each node prints as; they are control characters, which the
printer escapes everywhere else. Reading the text once gives the spans and takes the marks out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from tvmagic.ir import ObjectPath, Span
from tvmagic.ir.path import follow
from tvmagic.script.printer.config import config_of
from tvmagic.script.printer.core import Printer, Text
from tvmagic.script.printer.scope import Frame
from tvmagic.script.printer.whole_text import printed

_END = "\x03"
_MARK = re.compile("\x01(\\d+)\x02|\x03")


class MarkingPrinter(Printer):
    """A printer that marks what each node prints as."""

    def __init__(self, root: Any, config: Any) -> None:
        super().__init__(root, config)
        self.marked: list[Any] = []
        self.wholes: set[int] = set()
        self.told_by: list[tuple[Any, Any]] = []

    def stands_in(self, part: Any, whole: Any) -> None:
        self.told_by.append((part, whole))

    def mark(self, node: Any) -> str:
        self.marked.append(node)
        return f"\x01{len(self.marked) - 1}\x02"

    def expr(self, node: Any) -> Text:
        text, level = super().expr(node)
        return f"{self.mark(node)}{text}{_END}", level

    def decorated(self, item: Any, node: Any) -> Any:
        return self._marked_item(super().decorated(item, node), node)

    def _marked_item(self, item: Any, node: Any) -> Any:
        if isinstance(item, tuple):
            return f"{self.mark(node)}{item[0]}{_END}", item[1]
        if isinstance(item, str):
            return f"{self.mark(node)}{item}{_END}"
        if isinstance(item, list):
            if not item or not isinstance(item[0], str):
                return item
            # the line is the place of the node; the mark around all says how far what is inside it goes
            self.wholes.add(len(self.marked))
            whole = self.mark(node)
            return [f"{whole}{self._marked_item(item[0], node)}", *item[1:], None]
        if item.start is None:
            item.start = self.mark(node)
        return item

    def define(self, item: Any, hint: str, frame: Frame) -> str:
        return f"{self.mark(item)}{super().define(item, hint, frame)}{_END}"


class Place(NamedTuple):
    """Where a node stands: the characters from `begin` to `end` (left out), and its span.

    What is inside it goes to `reach`: past `end` where the node has a line before its body.
    """

    node: Any
    begin: int
    end: int
    span: Span
    reach: int


class Spans:
    """The places of the nodes in a printed text, in the order in which they begin."""

    def __init__(self, text: str, places: list[Place]) -> None:
        self.text = text
        self.places = places
        self._of: dict[int, list[Place]] = {}
        for place in places:
            self._of.setdefault(id(place.node), []).append(place)
        self._line_begins = [0, *(m.end() for m in re.finditer("\n", text))]

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Any]:
        return iter([places[0].node for places in self._of.values()])

    def __contains__(self, node: object) -> bool:
        return id(node) in self._of

    def __getitem__(self, node: Any) -> Span:
        """The first place of `node`."""
        return self._of[id(node)][0].span

    def get(self, node: Any, default: Any = None) -> Any:
        return self[node] if node in self else default

    def all(self, node: Any) -> list[Span]:
        """All places of `node`; a part that several others share has several."""
        return [place.span for place in self._of.get(id(node), ())]

    def at(self, line: int, column: int) -> Any:
        """The innermost node at a line and column (both from 1); None if there is none."""
        if not 1 <= line <= len(self._line_begins):
            return None
        offset = self._line_begins[line - 1] + column - 1
        best: Place | None = None
        for place in self.places:
            if place.begin > offset:
                break
            if offset < place.end and (best is None or place.end - place.begin <= best.end - best.begin):
                best = place
        return None if best is None else best.node

    def of_path(self, root: Any, path: ObjectPath) -> list[Place]:
        """The places of what a path leads to, or of the last part on the way that has one."""
        parts = follow(root, path)
        found: list[Place] = []
        for i, part in enumerate(parts):
            inner = [p for p in self._of.get(id(part), ()) if not found or _is_inside(p, found)]
            if len(inner) > 1 and i:
                inner = _the_one(inner, parts[i - 1], path.steps[i - 1])
            if inner:
                found = inner
        return found


def _is_inside(place: Place, outer: list[Place]) -> bool:
    return any(o.begin <= place.begin and place.end <= o.reach for o in outer)


def _the_one(places: list[Place], parent: Any, step: tuple[str, Any]) -> list[Place]:
    """Of the places of a part that its parent holds several times, the place that a step leads to."""
    kind, key = step
    if kind == "index":
        before = sum(parent[i] is parent[key] for i in range(key))
    elif kind == "attr" and hasattr(parent, "FIELDS"):
        names = [f.name for f in parent.FIELDS]
        part = getattr(parent, key)
        before = sum(getattr(parent, n) is part for n in names[: names.index(key)]) if key in names else 0
    else:
        return places
    return [places[before]] if before < len(places) else places


def read_marks(marked: str, printer: MarkingPrinter, source: str = "<script>") -> Spans:
    """The text without its marks, and the places that they gave."""
    nodes = printer.marked
    pieces: list[str] = []
    opened: list[tuple[int, int]] = []
    found: list[tuple[int, int, int]] = []
    at, offset = 0, 0
    for mark in _MARK.finditer(marked):
        piece = marked[at : mark.start()]
        pieces.append(piece)
        offset += len(piece)
        at = mark.end()
        if mark.group(1) is not None:
            opened.append((int(mark.group(1)), offset))
        else:
            index, begin = opened.pop()
            found.append((begin, -offset, index))
    pieces.append(marked[at:])
    text = "".join(pieces)
    begins = [0, *(m.end() for m in re.finditer("\n", text))]
    places: list[Place] = []
    seen: set[tuple[int, int, int]] = set()
    reaches = {(id(nodes[index]), begin): -end for begin, end, index in found if index in printer.wholes}
    for begin, end, index in sorted(found):
        if index in printer.wholes:
            continue
        key = (id(nodes[index]), begin, end)
        if key not in seen:
            seen.add(key)
            reach = reaches.get((id(nodes[index]), begin), -end)
            places.append(Place(nodes[index], begin, -end, _span(begins, begin, -end, source), reach))
    first = {id(p.node): p for p in reversed(places)}
    for part, whole in printer.told_by:
        if id(whole) in first:
            place = first[id(part)] = first[id(whole)]._replace(node=part)
            places.append(place)
    places.sort(key=lambda p: (p.begin, -p.end))
    return Spans(text, places)


def _span(begins: list[int], begin: int, end: int, source: str) -> Span:
    line, end_line = bisect_right(begins, begin), bisect_right(begins, end)
    return Span(source, line, begin - begins[line - 1] + 1, end_line, end - begins[end_line - 1] + 1)


def script_with_spans(node: Any, **options: Any) -> tuple[str, Spans]:
    """The TVMScript text of `node`, and the place in it of every node.

    Lines and columns count from 1; the end is one past the last character. The options are those
    of `script`.
    """
    config = config_of(options)
    printer = MarkingPrinter(node, config)
    spans = read_marks(printed(printer, node), printer)
    return spans.text, spans
