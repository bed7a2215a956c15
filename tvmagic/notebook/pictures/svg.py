"""Drawings as SVG: elements with escaped text, and graphs laid out in layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tvmagic.notebook.escaping import escape

_CHARACTER = 6.7
_PADDING = 9
_ROW = 17
_LAYER_GAP = 34
_SIDE_GAP = 34


def text_width(content: str) -> float:
    """About how wide a text is drawn, in pixels."""
    return _CHARACTER * len(content)


def attributes(**values: object) -> str:
    """Attributes of an element; `_` in a name stands for `-`, None leaves one out."""
    items = ((name.rstrip("_").replace("_", "-"), value) for name, value in values.items() if value is not None)
    return "".join(f' {name}="{escape(_abbreviate(value))}"' for name, value in items)


def _abbreviate(value: object) -> object:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else value


def text(x: float, y: float, content: str, **style: object) -> str:
    """Text that can be selected."""
    return f"<text{attributes(x=float(x), y=float(y), **style)}>{escape(content)}</text>"


def rectangle(x: float, y: float, width: float, height: float, title: str = "", **style: object) -> str:
    """A rectangle; `title` shows when the pointer rests on it."""
    inside = f"<title>{escape(title)}</title>" if title else ""
    box = attributes(x=float(x), y=float(y), width=float(width), height=float(height), **style)
    return f"<rect{box}>{inside}</rect>"


def path(commands: str, **style: object) -> str:
    return f'<path d="{escape(commands)}"{attributes(**style)}/>'


def line(x1: float, y1: float, x2: float, y2: float, **style: object) -> str:
    return f"<line{attributes(x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **style)}/>"


def group(*parts: str, **style: object) -> str:
    return f"<g{attributes(**style)}>{''.join(parts)}</g>"


def drawing(width: float, height: float, title: str, description: str, parts: Iterable[str]) -> str:
    """A whole drawing with its name and description for those who do not see it."""
    head = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    label = escape(f"{title}. {description}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}" '
        f'font-family="system-ui, sans-serif" font-size="12">{head}{"".join(parts)}</svg>'
    )


@dataclass
class Vertex:
    """A box of a graph: lines of text, a shape (`box`, `round`, `diamond`), a colour's name."""

    key: str
    lines: Sequence[str]
    shape: str = "box"
    tone: str = "panel"
    tooltip: str = ""
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    tall: float = 0.0  # of a place where a long arrow goes past a layer: the height of that layer

    @property
    def width(self) -> float:
        if self.shape == "bend":
            return 6.0
        extra = 22 if self.shape == "diamond" else 0
        return max(text_width(part) for part in self.lines) + 2 * _PADDING + extra

    @property
    def height(self) -> float:
        if self.shape == "bend":
            return self.tall
        return _ROW * len(self.lines) + 9


@dataclass
class Edge:
    """An arrow between two boxes, by their keys; `dashed` marks what is not data flow."""

    start: str
    end: str
    label: str = ""
    dashed: bool = False


@dataclass
class Graph:
    """Boxes and arrows, laid out in layers from top to bottom."""

    title: str
    vertices: list[Vertex] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    def svg(self) -> str:
        """The drawing."""
        self._layers()
        by_key = {v.key: v for v in self.vertices}
        shown = [e for e in self.edges if e.start in by_key and e.end in by_key]
        paths = {id(e): self._path(e, by_key[e.start], by_key[e.end]) for e in shown}
        width, height = self._lay_out([v for path in paths.values() for v in path], paths, shown)
        parts = [ARROW]
        parts += [_edge_svg([by_key[e.start], *paths[id(e)], by_key[e.end]], e) for e in shown]
        parts += [_vertex_svg(v) for v in self.vertices]
        return drawing(width, height, self.title, self.words(), parts)

    @staticmethod
    def _path(edge: Edge, start: Vertex, end: Vertex) -> list[Vertex]:
        """Places in the layers between the ends of a long arrow, so that it goes around the boxes there."""
        between = range(start.layer + 1, end.layer)
        return [Vertex(f"{edge.start}>{edge.end}@{n}", [""], "bend", layer=n) for n in between]

    def words(self) -> str:
        """The graph in words: each arrow as a line `A to B`; of the dashed ones those that have a label."""
        names = {v.key: v.lines[0] + (f" ({', '.join(v.lines[1:])})" if v.lines[1:] else "") for v in self.vertices}
        told = [e for e in self.edges if e.label or not e.dashed]
        arrows = [f"{names[e.start]} to {names[e.end]}" + (f": {e.label}" if e.label else "") for e in told]
        ends = {key for e in told for key in (e.start, e.end)}
        alone = [names[v.key] for v in self.vertices if v.key not in ends]
        return "\n".join([*arrows, *alone])

    def _lay_out(self, bends: list[Vertex], paths: dict[int, list[Vertex]], shown: list[Edge]) -> tuple[float, float]:
        """Give every box and bend its place; returns the size of the drawing."""
        rows: dict[int, list[Vertex]] = {}
        for vertex in [*self.vertices, *bends]:
            rows.setdefault(vertex.layer, []).append(vertex)
        chains = [[e.start, *(v.key for v in paths[id(e)]), e.end] for e in shown]
        self._order(rows, [pair for chain in chains for pair in zip(chain, chain[1:])])
        widths = {n: sum(v.width for v in row) + _SIDE_GAP * (len(row) - 1) for n, row in rows.items()}
        total, y = max(widths.values(), default=0.0) + 12, 6.0
        for number in sorted(rows):
            x, tall = (total - widths[number]) / 2, max(v.height for v in rows[number])
            for vertex in rows[number]:
                vertex.x, vertex.y, vertex.tall = x, y, tall
                x += vertex.width + _SIDE_GAP
            y += tall + _LAYER_GAP
        return total, max(y - _LAYER_GAP + 6, 20.0)

    def _layers(self) -> None:
        """Each box one layer below the lowest box that points to it."""
        sources: dict[str, list[str]] = {v.key: [] for v in self.vertices}
        for edge in self.edges:
            if edge.start in sources and edge.end in sources and edge.start != edge.end and not edge.dashed:
                sources[edge.end].append(edge.start)
        by_key, depth = {v.key: v for v in self.vertices}, dict[str, int]()
        for vertex in self.vertices:
            pending = [vertex.key]
            while pending:
                key = pending[-1]
                missing = [s for s in sources[key] if s not in depth and s not in pending]
                if missing:
                    pending.append(missing[0])
                    continue
                depth[key] = max((depth.get(s, -1) + 1 for s in sources[key]), default=0)
                pending.pop()
        for key, vertex in by_key.items():
            vertex.layer = depth[key]

    @staticmethod
    def _order(rows: dict[int, list[Vertex]], pairs: list[tuple[str, str]]) -> None:
        """Put the boxes of a layer near those they are joined to (four sweeps of barycentres)."""
        neighbours: dict[str, list[str]] = {v.key: [] for row in rows.values() for v in row}
        for start, end in pairs:
            neighbours[start].append(end)
            neighbours[end].append(start)
        place = {v.key: i / max(1, len(row)) for row in rows.values() for i, v in enumerate(row)}
        for sweep in range(4):
            for number in sorted(rows, reverse=bool(sweep % 2)):
                row = rows[number]
                mean = {
                    v.key: sum(place[n] for n in neighbours[v.key]) / len(neighbours[v.key])
                    if neighbours[v.key]
                    else place[v.key]
                    for v in row
                }
                row.sort(key=lambda v: mean[v.key])
                for i, vertex in enumerate(row):
                    place[vertex.key] = (i + 0.5) / len(row)


ARROW = (
    '<defs><marker id="tm-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="var(--tm-muted, #57606a)"/></marker></defs>'
)
FILL = {
    "panel": "var(--tm-panel, #f6f8fa)",
    "input": "var(--tm-kin, #e3f0ff)",
    "output": "var(--tm-add, #e6ffec)",
    "leaf": "var(--tm-used, #b9dcc4)",
    "warn": "var(--tm-hit, #fff1a8)",
    "plain": "var(--tm-bg, #ffffff)",
}


def _vertex_svg(vertex: Vertex) -> str:
    style = {"fill": FILL[vertex.tone], "stroke": "var(--tm-muted, #57606a)"}
    if vertex.shape == "diamond":
        x, y, w, h = vertex.x, vertex.y, vertex.width, vertex.height
        points = f"{x + 9:.1f},{y:.1f} {x + w - 9:.1f},{y:.1f} {x + w:.1f},{y + h / 2:.1f} {x + w - 9:.1f},{y + h:.1f} {x + 9:.1f},{y + h:.1f} {x:.1f},{y + h / 2:.1f}"
        body = f"<polygon{attributes(points=points, **style)}/>"
    else:
        body = rectangle(
            vertex.x, vertex.y, vertex.width, vertex.height, vertex.tooltip,
            rx=12 if vertex.shape == "round" else 4, **style,
        )  # fmt: skip
    middle = vertex.x + vertex.width / 2
    words = [
        text(middle, vertex.y + _ROW * (i + 1) - 1, part, text_anchor="middle", font_weight=600 if i == 0 else None)
        for i, part in enumerate(vertex.lines)
    ]
    return group(body, *words)


def _edge_svg(chain: list[Vertex], edge: Edge) -> str:
    start, end = chain[0], chain[-1]
    if start.layer == end.layer and start.x < end.x:
        y = start.y + min(start.height, end.height) / 2
        x1, x2 = start.x + start.width, end.x
        path, middle = f"M{x1:.1f} {y:.1f}L{x2:.1f} {y:.1f}", ((x1 + x2) / 2 - text_width(edge.label) / 2, y - 4)
    elif start.layer >= end.layer:
        x1, x2 = start.x + start.width, end.x + end.width
        y1, y2 = start.y + start.height / 2, end.y + end.height / 2
        path = f"M{x1:.1f} {y1:.1f}C{x1 + 30:.1f} {y1:.1f} {x2 + 30:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        middle = ((x1 + x2) / 2 + 24, (y1 + y2) / 2)
    else:
        points = [(start.x + start.width / 2, start.y + start.height)]
        for bend in chain[1:-1]:
            points += [(bend.x + 3, bend.y), (bend.x + 3, bend.y + bend.height)]
        points.append((end.x + end.width / 2, end.y))
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(
            f"C{x1:.1f} {(y1 + y2) / 2:.1f} {x2:.1f} {(y1 + y2) / 2:.1f} {x2:.1f} {y2:.1f}"
            for (x1, y1), (x2, y2) in zip(points, points[1:])
        )
        middle = ((points[0][0] + points[1][0]) / 2 + 4, (points[0][1] + points[1][1]) / 2 + 4)
    dash = "4 3" if edge.dashed else None
    style = attributes(d=path, fill="none", stroke="var(--tm-muted, #57606a)", stroke_dasharray=dash)
    curve = f'<path{style} marker-end="url(#tm-arrow)"/>'
    return curve + text(*middle, edge.label, font_size=11) if edge.label else curve
