"""The widget that plays the accesses of a buffer, step by step, without asking the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from tvmagic.notebook.html import style, theme

if TYPE_CHECKING:
    from tvmagic.notebook.pictures.access import AccessPicture

__all__ = ["AccessPlayer"]


class AccessPlayer(anywidget.AnyWidget):
    """Plays an `AccessPicture`: play, pause, single steps, a slider; arrow keys and the space bar."""

    _esm = Path(__file__).parent / "static" / "player.js"
    _css = style("view.css", "player.css")
    data = traitlets.Dict().tag(sync=True)

    def __init__(self, picture: AccessPicture, **kwargs: Any) -> None:
        from tvmagic.notebook.pictures.access import place

        self.picture = picture
        accesses = picture.accesses
        spots = [place(a.index, accesses.shape) for a in accesses.events]
        data = {
            "title": picture.title,
            "theme": theme(),
            "name": accesses.name,
            "rows": max((r for r, _ in spots), default=0) + 1,
            "columns": max((c for _, c in spots), default=0) + 1,
            "spots": [n for spot in spots for n in spot],
            "writes": "".join("w" if a.write else "r" for a in accesses.events),
            "indices": [list(a.index) for a in accesses.events],
            "complete": accesses.complete,
        }
        super().__init__(data=data, **kwargs)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, "text/html": self.picture.html(), "text/plain": self.picture.text(colour=False)}, metadata
