"""A tree as an outline: a row for each box, in the order of the program, and arrows between rows at its right."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.notebook.html import escape
from tvmagic.notebook.pictures.svg import ARROW, FILL, Graph, Vertex, drawing, path, rectangle, text, text_width

_ROW, _BOX = 30.0, 22.0
_INDENT = 20.0
_MARGIN = 6.0
_LANE = 12.0  # between two vertical parts of arrows
_LABEL_SIZE = 10
_MUTED = "var(--tm-muted, #57606a)"


class Outline(Graph):
    """Boxes in rows: the solid edges are a tree, of which each box is below and right of its parent.

    The vertices are in preorder. Dashed edges are arrows in lanes at the right, so that no box and no text is crossed
    by them but at the end of its own row.
    """

    def svg(self) -> str:
        """The drawing."""
        parents = {e.end: e.start for e in self.edges if not e.dashed}
        for number, vertex in enumerate(self.vertices):
            parent = parents.get(vertex.key)
            vertex.layer = 0 if parent is None else self._vertex(parent).layer + 1
            vertex.x, vertex.y = _MARGIN + _INDENT * vertex.layer, _MARGIN + _ROW * number
        boxes = [part for vertex in self.vertices for part in _box(vertex)]
        branches: list[str] = []
        trunks: dict[str, float] = {}  # how far down the line of each parent is drawn
        for vertex in self.vertices:
            if (parent := parents.get(vertex.key)) is not None:
                x, top = self._vertex(parent).x + _INDENT / 2, trunks.get(parent, self._vertex(parent).y + _BOX)
                branches.append(_line(f"M{x:.1f} {top:.1f}V{_middle(vertex):.1f}H{vertex.x:.1f}"))
                trunks[parent] = _middle(vertex)
        arrows, right = self._arrows()
        height = _MARGIN * 2 + _ROW * len(self.vertices) - (_ROW - _BOX)
        return drawing(right + _MARGIN, height, self.title, self.words(), [ARROW, *branches, *arrows, *boxes])

    def _vertex(self, key: str) -> Vertex:
        return self.vertices[int(key)]

    def _arrows(self) -> tuple[list[str], float]:
        """The dashed edges as arrows, and how far right the drawing reaches."""
        edge_of_boxes = max((v.x + _width(v) for v in self.vertices), default=0.0)
        dashed = [e for e in self.edges if e.dashed]
        if not dashed:
            return [], edge_of_boxes
        labels: dict[str, dict[str, None]] = {}
        for edge in dashed:
            labels.setdefault(edge.end, {})[edge.label] = None
        words = {key: ", ".join(label for label in found if label) for key, found in labels.items()}
        first = edge_of_boxes + 2 * _MARGIN + max(text_width(label) for label in words.values())
        lanes = _lanes([(int(e.start), int(e.end)) for e in dashed])
        parts = [_arrow(self._vertex(e.start), self._vertex(e.end), first + _LANE * n) for e, n in zip(dashed, lanes)]
        for key, label in words.items():
            end = self._vertex(key)
            parts.append(text(end.x + _width(end) + 12, _middle(end) - 7, label, font_size=_LABEL_SIZE, fill=_MUTED))
        return parts, first + _LANE * max(lanes)


def _lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """A lane for each arrow from row to row, so that two in one lane share no row; short ones are near the boxes."""
    lanes: list[list[tuple[int, int]]] = []
    found = [0] * len(spans)
    for number in sorted(range(len(spans)), key=lambda n: abs(spans[n][1] - spans[n][0])):
        low, high = sorted(spans[number])
        free = (n for n, lane in enumerate(lanes) if all(high < a or b < low for a, b in lane))
        lane = next(free, len(lanes))
        if lane == len(lanes):
            lanes.append([])
        lanes[lane].append((low, high))
        found[number] = lane
    return found


def _width(vertex: Vertex) -> float:
    return 1.04 * text_width("  ".join(vertex.lines)) + 24


def _middle(vertex: Vertex) -> float:
    return vertex.y + _BOX / 2


def _line(commands: str, **style: object) -> str:
    return path(commands, fill="none", stroke=_MUTED, **style)


def _box(vertex: Vertex) -> list[str]:
    """The box of a row: its name, and after it what it does."""
    name, *rest = vertex.lines
    style = {"rx": 10 if vertex.shape == "round" else 4, "fill": FILL[vertex.tone], "stroke": _MUTED}
    does = f'<tspan dx="10" fill="{_MUTED}">{escape("  ".join(rest))}</tspan>' if rest else ""
    words = text(vertex.x + 9, vertex.y + 15, name).replace("</text>", does + "</text>")
    return [rectangle(vertex.x, vertex.y, _width(vertex), _BOX, vertex.tooltip, **style), words]


def _arrow(start: Vertex, end: Vertex, lane: float) -> str:
    """Out of the row of `start` below its middle, and into that of `end` above its middle."""
    leaves, enters = _middle(start) + 4, _middle(end) - 4
    commands = f"M{start.x + _width(start):.1f} {leaves:.1f}H{lane:.1f}V{enters:.1f}H{end.x + _width(end) + 1:.1f}"
    return _line(commands, stroke_dasharray="4 3", marker_end="url(#tm-arrow)")
