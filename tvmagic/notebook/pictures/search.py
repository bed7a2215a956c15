"""A search as a picture: the times of its trials with the best so far, and the model's predictions beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

from tvmagic.notebook.pictures.svg import attributes, drawing, group, line, rectangle, text
from tvmagic.notebook.results import Picture
from tvmagic.notebook.view import format_seconds

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 300.0, 190.0, 62.0, 26.0, 80.0
_DOT, _BEST, _MUTED = "var(--tm-accent, #0550ae)", "var(--tm-t, #0e5c2f)", "var(--tm-muted, #57606a)"
_LINE, _FRAME = "var(--tm-line, #d0d7de)", "var(--tm-bg, #ffffff)"
_SPREAD = 100.0  # times the best, above which trials are drawn at the border


class _Trial(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def predicted(self) -> float | None: ...


def search_picture(name: str, trials: Sequence[_Trial], correlation: float = math.nan) -> Picture:
    """Two diagrams of trials: time over number, with a line for the best so far; measured over predicted times."""
    measured = [(t.number, t.seconds) for t in trials if t.seconds is not None]
    pairs = [(t.predicted, t.seconds) for t in trials if t.predicted is not None and t.seconds is not None]
    title = f"{name}: the trials of the search"
    if not measured:
        return Picture("", f"{title}: none was right so far", title)
    best = min(seconds for _, seconds in measured)
    words = f"{len(trials)} trial{'s' if len(trials) != 1 else ''}, best {format_seconds(best)}"
    words += (
        f"; rank correlation of predicted and measured times {correlation:.2f}" if not math.isnan(correlation) else ""
    )
    parts = [_progress(measured, len(trials), best)]
    if pairs:
        parts.append(_predictions(pairs, best, _LEFT + _WIDTH + _GAP))
    width = _LEFT + _WIDTH + 14 + (len(parts) - 1) * (_WIDTH + _GAP)
    return Picture(drawing(width, _TOP + _HEIGHT + 36, title, words, parts), words, title)


class _Scale:
    """A logarithmic axis of times from `low` to `high` on `length` pixels."""

    def __init__(self, low: float, high: float, length: float) -> None:
        self.low, self.high = math.log(low), math.log(max(high, low * 1.05))
        self.length = length

    def __call__(self, seconds: float) -> float:
        place = (math.log(seconds) - self.low) / (self.high - self.low)
        return self.length * min(max(place, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round times on the axis, few enough to be read."""
        exponents = range(math.floor(self.low / math.log(10)) - 1, math.ceil(self.high / math.log(10)) + 1)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            found = [s * 10.0**e for e in exponents for s in steps]
            found = [t for t in found if self.low <= math.log(t) <= self.high]
            if len(found) <= 6:
                break
        return found or [math.exp(self.low)]


def _range(times: Iterable[float], best: float) -> tuple[float, float]:
    kept = [t for t in times if t <= _SPREAD * best]
    return 0.9 * min(kept), 1.1 * max(kept)


def _frame(x: float, title: str, below: str) -> list[str]:
    return [
        rectangle(x, _TOP, _WIDTH, _HEIGHT, fill=_FRAME, stroke=_LINE),
        text(x, _TOP - 9, title, font_weight="600"),
        text(x + _WIDTH, _TOP + _HEIGHT + 32, below, text_anchor="end", fill=_MUTED),
    ]


def _rows(x: float, scale: _Scale) -> list[str]:
    """The axis of times on the left, with lines across."""
    parts: list[str] = []
    for tick in scale.ticks():
        y = _TOP + _HEIGHT - scale(tick)
        parts.append(line(x, y, x + _WIDTH, y, stroke=_LINE))
        parts.append(text(x - 5, y + 4, format_seconds(tick), text_anchor="end", fill=_MUTED, font_size="11"))
    return parts


def _dot(x: float, y: float, colour: str, radius: float, title: str) -> str:
    return f"<circle{attributes(cx=x, cy=y, r=radius, fill=colour, opacity='0.65')}><title>{title}</title></circle>"


def _progress(measured: Sequence[tuple[int, float]], count: int, best: float) -> str:
    scale = _Scale(*_range([s for _, s in measured], best), _HEIGHT)
    across = lambda number: _LEFT + _WIDTH * (number - 0.5) / max(count, 1)  # noqa: E731
    parts = [*_frame(_LEFT, "time of each trial, best so far", f"trial 1 to {count}"), *_rows(_LEFT, scale)]
    so_far, path = math.inf, ""
    for number, seconds in measured:
        title = f"trial {number}: {format_seconds(seconds)}"
        parts.append(_dot(across(number), _TOP + _HEIGHT - scale(seconds), _DOT, 2.5, title))
        if seconds < so_far:
            so_far = seconds
            y = _TOP + _HEIGHT - scale(seconds)
            path += (
                f"{'M' if not path else 'H'}{across(number):.1f} {y:.1f}"
                if not path
                else f"H{across(number):.1f}V{y:.1f}"
            )
    path += f"H{_LEFT + _WIDTH:.1f}"
    parts.append(f"<path{attributes(d=path, fill='none', stroke=_BEST, stroke_width='2')}/>")
    return group(*parts)


def _predictions(pairs: Sequence[tuple[float, float]], best: float, x: float) -> str:
    low, high = _range([value for pair in pairs for value in pair], best)
    up, across = _Scale(low, high, _HEIGHT), _Scale(low, high, _WIDTH)
    parts = [*_frame(x, "measured over predicted", "predicted before it was measured"), *_rows(x, up)]
    parts.append(line(x, _TOP + _HEIGHT, x + _WIDTH, _TOP, stroke=_MUTED, stroke_dasharray="4 3"))
    for predicted, seconds in pairs:
        title = f"predicted {format_seconds(predicted)}, measured {format_seconds(seconds)}"
        parts.append(_dot(x + across(predicted), _TOP + _HEIGHT - up(seconds), _DOT, 2.5, title))
    ticks = across.ticks()
    for tick in ticks if len(ticks) < 4 else ticks[:: (len(ticks) + 2) // 3]:
        style = {"text_anchor": "middle", "fill": _MUTED, "font_size": "11"}
        parts.append(text(x + across(tick), _TOP + _HEIGHT + 15, format_seconds(tick), **style))
    return group(*parts)
