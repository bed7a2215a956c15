"""The order in which a loop nest touches a buffer: a grid to play in a notebook, numbered without one."""

from __future__ import annotations

from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import BufferLoad, BufferStore, ProducerLoad, ProducerStore, post_order_visit
from tvmagic.notebook.access_animation import place, player_data
from tvmagic.notebook.html import escape
from tvmagic.notebook.pictures.svg import drawing, path, rectangle, text
from tvmagic.notebook.results import Picture, about, in_kernel
from tvmagic.operators import Version
from tvmagic.operators.access import Accesses, Trace, trace_all
from tvmagic.operators.schedule_program import program_of_schedule

_EVENTS = 4096
_NUMBERED = 400
_SIDE = 420.0
_SHADES = 16
_CELL = {"fill": "var(--tm-accent, #0550ae)", "stroke": "var(--tm-line)"}


def access_view(version: Version, name: str | None = None) -> AccessPicture:
    """How the program of a version touches its buffers, or the one called `name`."""
    op = version.operator
    func = version.function
    program: Any = (
        func.body
        if func is not None
        else program_of_schedule(version.schedule if version.schedule is not None else op.te_schedule())
    )
    known = touched(program)
    if name is not None and name not in known:
        raise TVMagicError(
            f"nothing touches a buffer `{name}`",
            hint="there are " + ", ".join(f"`{k}`" for k in known),
            code="picture.unknown_buffer",
        )
    of = f" of {name}" if name is not None else ""
    return AccessPicture(trace_all(program, known if name is None else [name], _EVENTS), f"{op.name}: accesses{of}")


def touched(program: Any) -> list[str]:
    """The names of the buffers that a program touches."""
    names: dict[str, None] = {}

    def look(node: Any) -> None:
        if isinstance(node, (BufferLoad, BufferStore)):
            names[node.buffer.name] = None
        elif isinstance(node, (ProducerLoad, ProducerStore)):
            names[node.producer.name] = None

    post_order_visit(program, look)
    return list(names)


class AccessPicture(Picture):
    """The touches of buffers in order; in a notebook a player with a slider and keys."""

    def __init__(self, trace: Trace, title: str) -> None:
        self.trace = trace
        parts = [trace.of(name) for name in trace.shapes]
        drawn = "".join(
            f"<figure><figcaption>{escape(a.name)}</figcaption>{order_svg(a, title)}</figure>" for a in parts
        )
        super().__init__(drawn, "\n".join(map(words_of, parts)), title)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if not in_kernel():
            return super()._repr_mimebundle_(include, exclude)
        from tvmagic.notebook.live import live_html

        data = player_data(self.trace, self.title)
        static = self.html(styled=False)
        live = about(live_html("player", data, static, self.title), self.of)
        return {"text/html": live, "text/plain": self.text(colour=False)}


def words_of(accesses: Accesses) -> str:
    """The accesses in words: how many, and the first of them."""
    reads = sum(not a.write for a in accesses.events)
    writes = len(accesses.events) - reads
    first = ", ".join(f"{'write' if a.write else 'read'} {list(a.index)}" for a in accesses.events[:8])
    more = "" if accesses.complete else " as far as the program was run"
    return f"{writes} writes and {reads} reads of {accesses.name}{more}; first {first or 'none'}"


def order_svg(accesses: Accesses, title: str) -> str:
    """The grid of elements, each with the number of its first touch (for the first few hundred)."""
    first: dict[tuple[int, int], int] = {}
    for number, access in enumerate(accesses.events):
        first.setdefault(place(access.index, accesses.shape), number)
    if not first:
        return drawing(120, 30, title, "no accesses", [text(4, 18, "no accesses")])
    rows, columns = max(r for r, _ in first) + 1, max(c for _, c in first) + 1
    cell = float(max(5, min(30, _SIDE // max(rows, columns))))
    last = max(1, len(first) - 1)
    order = {spot: rank for rank, spot in enumerate(sorted(first, key=lambda s: first[s]))}
    parts: list[str] = []
    squares: dict[str, list[str]] = {}  # of each shade, the cells that have neither a number nor a title
    for (r, c), rank in list(order.items())[:2304]:
        shade = f"{0.12 + 0.5 * round(rank / last * _SHADES) / _SHADES:.2f}"
        x, y, number = 8 + c * cell, 8 + r * cell, str(first[r, c] + 1)
        if rank >= _NUMBERED or cell < 7 * len(number) + 2:
            squares.setdefault(shade, []).append(f"M{x:.0f} {y:.0f}h{cell:.0f}v{cell:.0f}h-{cell:.0f}z")
            continue
        title = f"[{r}, {c}]: touch {number}"
        parts.append(rectangle(x, y, cell, cell, title, fill_opacity=shade, **_CELL))
        middle = (8 + (c + 0.5) * cell, 8 + (r + 0.5) * cell + 4)
        parts.append(text(*middle, number, text_anchor="middle", font_size=10))
    parts[:0] = [path("".join(cells), fill_opacity=shade, **_CELL) for shade, cells in squares.items()]
    return drawing(16 + columns * cell, 16 + rows * cell, title, words_of(accesses), parts)
