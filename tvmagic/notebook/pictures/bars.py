"""Bars: how fast each version of an operator is, beside NumPy."""

from __future__ import annotations

from collections.abc import Sequence

from tvmagic.notebook.pictures.svg import drawing, line, rectangle, text, text_width
from tvmagic.notebook.results import Picture

_PLOT, _ROW, _BAR, _TOP = 360.0, 24.0, 16.0, 8.0


def bars(rows: Sequence[tuple[str, float]], mark: str, title: str) -> Picture:
    """A bar for each row, as long as its number; a dashed line at 1, which `mark` names.

    The numbers are positive; the longest bar fills the width.
    """
    left = max(text_width(name) for name, _ in [*rows, (mark, 1.0)]) + 12
    scale = _PLOT / max(1.0, *(value for _, value in rows))
    bottom = _TOP + _ROW * len(rows)
    parts: list[str] = []
    for number, (name, value) in enumerate(rows):
        y = _TOP + number * _ROW
        words = f"{name}: {value:.3g} times {mark}"
        parts += [
            text(left - 8, y + 13, name, text_anchor="end", fill="currentColor"),
            rectangle(left, y, max(value * scale, 1.0), _BAR, words, fill="var(--tm-accent, #3b6ea5)"),
            text(left + value * scale + 6, y + 13, f"{value:.3g}", fill="currentColor"),
        ]
    at = left + scale
    parts.append(line(at, _TOP - 4, at, bottom + 2, stroke="currentColor", stroke_dasharray="4 3"))
    parts.append(text(at, bottom + 16, mark, text_anchor="middle", fill="currentColor"))
    said = "\n".join(f"{name}: {value:.3g} times {mark}" for name, value in rows)
    return Picture(drawing(left + _PLOT + 60, bottom + 24, title, said.replace("\n", "; "), parts), said, title)
