"""A roofline: what a program may reach at most by its operations per byte, and what operators do reach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvmagic.notebook.pictures.svg import drawing, line, text
from tvmagic.notebook.results import Picture
from tvmagic.operators.peaks import Peaks

_WIDTH, _HEIGHT = 520.0, 300.0
_LEFT, _TOP, _BOTTOM = 64.0, 24.0, 44.0
_NEAR = {"stroke": "currentColor", "stroke_dasharray": "4 3"}  # the roofs of caches
_LINE = 15.0  # of text
_LOW, _HIGH = -4, 9  # powers of two of the operations per byte


@dataclass(frozen=True)
class Point:
    """An operator, or a loop nest of it: its operations per byte of the `level` that its data is in, and its operations
    a second."""

    name: str
    intensity: float
    flops: float
    level: str = "memory"

    def share(self, flops: float, bandwidths: Mapping[str, float]) -> float:
        """The share of what the roof of its level allows it; more than 1 if the roof was measured too low."""
        return self.flops / min(flops, self.intensity * bandwidths[self.level])


def roofline(
    peaks: Peaks, points: Sequence[Point], title: str, bandwidths: Mapping[str, float] | None = None
) -> Picture:
    """The picture; both axes are logarithmic.

    `bandwidths`: the bytes a second from each level that a point is of; by default those from memory alone. A level
    nearer than memory has a roof of its own, dashed, if a point is under it.
    """
    bandwidths = {**(bandwidths or {}), "memory": peaks.bandwidth}
    top = peaks.flops * 2
    low = min([peaks.bandwidth * 2.0**_LOW, *[p.flops for p in points if p.flops > 0]]) / 2
    plot = _HEIGHT - _TOP - _BOTTOM

    def x(intensity: float) -> float:
        power = min(max(math.log2(max(intensity, 1e-9)), _LOW), _HIGH)
        return _LEFT + (power - _LOW) / (_HIGH - _LOW) * (_WIDTH - _LEFT - 20)

    def y(flops: float) -> float:
        return _TOP + plot * (1 - math.log(max(flops, low) / low) / math.log(top / low))

    ridge = peaks.flops / peaks.bandwidth
    roof = {"stroke": "var(--tm-accent, #3b6ea5)", "stroke_width": 2}
    parts = [
        line(x(2.0**_LOW), y(peaks.bandwidth * 2.0**_LOW), x(ridge), y(peaks.flops), **roof),
        line(x(ridge), y(peaks.flops), x(2.0**_HIGH), y(peaks.flops), **roof),
        text(_WIDTH - 20, y(peaks.flops) - 6, f"{peaks.flops / 1e9:.0f} GFLOP/s", text_anchor="end", fill="currentColor"),
        text(x(2.0 ** (_LOW + 1)) + 10, y(peaks.bandwidth * 2.0 ** (_LOW + 1)) + 6, f"{peaks.bandwidth / 1e9:.1f} GB/s", fill="currentColor"),
        line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - 20, _HEIGHT - _BOTTOM, stroke="currentColor"),
        line(_LEFT, _TOP, _LEFT, _HEIGHT - _BOTTOM, stroke="currentColor"),
        text(_WIDTH / 2, _HEIGHT - 8, "operations per byte", text_anchor="middle", fill="currentColor"),
    ]  # fmt: skip
    for power in range(_LOW, _HIGH + 1, 2):
        label = str(2**power) if power >= 0 else f"1/{2**-power}"
        parts.append(text(x(2.0**power), _HEIGHT - _BOTTOM + 16, label, text_anchor="middle", fill="currentColor"))
    for power in range(math.ceil(math.log10(low)), math.floor(math.log10(top)) + 1):
        parts.append(text(_LEFT - 6, y(10.0**power) + 4, _rate(10.0**power), text_anchor="end", fill="currentColor"))
    near = [level for level in bandwidths if level != "memory" and any(p.level == level for p in points)]
    ridges = {level: max(peaks.flops / bandwidths[level], 2.0**_LOW) for level in near}
    for level, at in ridges.items():
        parts.append(line(x(2.0**_LOW), y(bandwidths[level] * 2.0**_LOW), x(at), y(peaks.flops), **_NEAR))
        parts.append(text(x(at), y(peaks.flops) - 6, level, text_anchor="middle", fill="currentColor"))
    if ridges:
        parts.append(line(x(min(ridges.values())), y(peaks.flops), x(ridge), y(peaks.flops), **_NEAR))
    heights = _spread([y(point.flops) + 4 for point in points])
    for point, beside in zip(points, heights):
        at, height = x(point.intensity), y(point.flops)
        share = _percent(point.share(peaks.flops, bandwidths))
        words = f"{point.name}: {point.flops / 1e9:.3g} GFLOP/s, {share} of the roof of {point.level}"
        parts.append(
            f'<circle cx="{at:.1f}" cy="{height:.1f}" r="5" fill="var(--tm-added, #2e8b57)">{_title(words)}</circle>'
        )
        label, right = f"{point.name} {share}", at > _WIDTH * 0.7  # where words on the right would leave the picture
        parts.append(
            text(
                at - 9 if right else at + 9, beside, label, fill="currentColor", text_anchor="end" if right else "start"
            )
        )
    reach = "".join(f", {bandwidths[level] / 1e9:.0f} GB/s from {level} (by the model)" for level in near)
    words = [
        f"at most {peaks.flops / 1e9:.0f} GFLOP/s (multiply-adds in registers) and {peaks.bandwidth / 1e9:.1f} GB/s (a copy){reach}, one thread",
        f"from {ridge:.1f} operations per byte on, arithmetic limits a program, below that memory",
        *[
            f"{p.name}: {p.intensity:.3g} operations per byte from {p.level}, {p.flops / 1e9:.3g} GFLOP/s, {_percent(p.share(peaks.flops, bandwidths))} of its roof"
            for p in points
        ],
    ]
    return Picture(drawing(_WIDTH, _HEIGHT, title, "; ".join(words), parts), "\n".join(words), title)


def _percent(share: float) -> str:
    """A share of a roof in words; more than all of it means that other work was measured with the roof."""
    return f"{share:.0%}" if share <= 1 else "more than what was measured, 100%,"


def _spread(heights: Sequence[float]) -> list[float]:
    """Heights for the words beside points, near those given and a line of text apart, from the lowest up."""
    found = list(heights)
    free = math.inf
    for number in sorted(range(len(found)), key=lambda n: -found[n]):
        found[number] = min(found[number], free)
        free = found[number] - _LINE
    return found


def _title(words: str) -> str:
    from tvmagic.notebook.html import escape

    return f"<title>{escape(words)}</title>"


def _rate(flops: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if flops >= size:
            return f"{flops / size:.0f} {unit}"
    return f"{flops:.0f}"
