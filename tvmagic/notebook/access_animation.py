"""The player of the accesses of buffers: it plays step by step in the page, without asking the kernel."""

from __future__ import annotations

import math
from typing import Any

from tvmagic.notebook.html import theme
from tvmagic.operators.access import Trace

_WHOLE = 128  # rows or columns up to which all are drawn, touched or not
_AXIS = 24  # letters of an axis' index


def place(index: tuple[int, ...], shape: list[int]) -> tuple[int, int]:
    """Row and column of an element: the last axis goes right, all others down."""
    row = 0
    for i, n in zip(index[:-1], shape[:-1]):
        row = row * n + i
    return row, index[-1] if index else 0


def player_data(trace: Trace, title: str) -> dict[str, Any]:
    """What the player shows, as JSON: the grids, and for each access its grid, place, kind, index, statement and loops."""
    names = list(trace.shapes)
    spots = [place(a.index, trace.shapes[a.tensor]) for a in trace.events]
    grids: list[dict[str, Any]] = []
    for name in names:
        mine = [spot for spot, a in zip(spots, trace.events) if a.tensor == name]
        axes = [text if len(text) <= _AXIS else text[: _AXIS - 1] + "\u2026" for text in trace.axes[name]]
        whole = [math.prod(trace.shapes[name][:-1]), (trace.shapes[name] or [1])[-1]]
        reached = [max((r for r, _ in mine), default=0) + 1, max((c for _, c in mine), default=0) + 1]
        rows, columns = (n if n <= _WHOLE else least for n, least in zip(whole, reached))
        grids.append({"name": name, "shape": trace.shapes[name], "axes": axes, "rows": rows, "columns": columns})
    return {
        "title": title,
        "theme": theme(),
        "grids": grids,
        "which": [names.index(a.tensor) for a in trace.events],
        "spots": [n for spot in spots for n in spot],
        "writes": "".join("w" if a.write else "r" for a in trace.events),
        "indices": [list(a.index) for a in trace.events],
        "statements": [[text, list(loops)] for text, loops in trace.statements],
        "statement": [a.statement for a in trace.events],
        "loops": [list(a.loops) for a in trace.events],
        "complete": trace.complete,
    }
