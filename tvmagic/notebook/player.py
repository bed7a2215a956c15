"""The player of the accesses of a buffer: it plays step by step in the page, without asking the kernel."""

from __future__ import annotations

from typing import Any

from tvmagic.notebook.html import theme
from tvmagic.operators.access import Accesses

__all__ = ["player_data"]


def player_data(accesses: Accesses, title: str) -> dict[str, Any]:
    """What the player shows, as JSON: play, pause, single steps, a slider; arrow keys and p."""
    from tvmagic.notebook.pictures.access import place

    spots = [place(a.index, accesses.shape) for a in accesses.events]
    return {
        "title": title,
        "theme": theme(),
        "name": accesses.name,
        "rows": max((r for r, _ in spots), default=0) + 1,
        "columns": max((c for _, c in spots), default=0) + 1,
        "spots": [n for spot in spots for n in spot],
        "writes": "".join("w" if a.write else "r" for a in accesses.events),
        "indices": [list(a.index) for a in accesses.events],
        "complete": accesses.complete,
    }
