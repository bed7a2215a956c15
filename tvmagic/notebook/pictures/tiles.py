"""What one core of an NPU does with its tiles: where a tile goes, and when it is copied in, computed and copied out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvmagic.notebook.pictures.svg import ARROW, FILL, drawing, group, line, rectangle, text, text_width
from tvmagic.notebook.results import Parts, Picture

_WIDTH = 760.0
_ROW, _LANE, _CELLS = 22.0, 24.0, 10
_LEFT, _MIDDLE, _RIGHT, _SIDE, _BOX = 10.0, 222.0, 610.0, 140.0, 318.0
_TILES = 4  # of one core that are drawn in time
_TONES = ("input", "warn", "leaf")
_ROLES = {"VECIN": "copied in", "VECOUT": "to copy out", "VECCALC": "in between"}
_FACES = {1: "one buffer in each queue", 2: "two buffers in each queue"}
_MUTED = "var(--tm-muted, #57606a)"


def tiling_view(tiling: Any) -> Parts:
    """A tiling as a result that shows itself: a picture of each group's tiles, the choice, the tiling data."""
    from tvmagic.notebook.results import Listing

    pictures = [tile_picture(tiling, place) for place in range(len(tiling.choices))]
    report = Listing(tiling.report(), "text", "What was considered")
    return Parts(*pictures, report, Listing(str(tiling.tiling_data), "cpp", "Tiling data"), title=tiling.result.name)


def tile_picture(tiling: Any, place: int = 0) -> Picture:
    """The picture of one group of a tiling: the way of a tile above, its time with one buffer a queue and with two below."""
    choice = tiling.choices[place]
    facts = _Facts(tiling, choice)
    parts, height = _way(facts)
    charts: list[str] = []
    spans = {buffers: facts.timeline(buffers) for buffers in (1, 2)}
    longest = max(stage.end for stage in spans[1])
    for buffers, stages in spans.items():
        drawn, height = _chart(buffers, stages, longest, height + 16)
        charts += drawn
    title = f"{choice.impl.graph.name}: the tiles of one core"
    words = facts.words(spans)
    return Picture(
        drawing(_WIDTH, height + 8, title, " ".join(words), [ARROW, *parts, *charts]), "\n".join(words), title
    )


class _Facts:
    """What the picture says, in words and numbers."""

    def __init__(self, tiling: Any, choice: Any) -> None:
        from tvmagic.ascend.npu import local_sizes
        from tvmagic.ascend.pipeline import pipeline, stage_times

        self.graph, self.pipeline = choice.impl.graph, pipeline
        known = {**tiling.values, **choice.sizes}
        self.times = stage_times(choice.impl, choice.sizes, tiling.values, tiling.machine)
        blocks = [a for a in self.graph.axes if a.bind_block]
        self.cores = blocks[0].size.evaluate(known) if blocks else 1
        self.all_tiles = blocks[0].from_[0].size.evaluate(known) if blocks else 1
        self.tiles = min(self.all_tiles, choice.sizes.get(choice.impl.block or "", 1))
        self.places = local_sizes(self.graph, known)
        self.bytes = sum(size * count for size, count in self.places.values())
        inputs = [n for n in self.graph.nodes if n.op.is_buffer and self.graph.consumers(n.y)]
        outputs = [n for n in self.graph.nodes if n.op.is_buffer and n.inputs]
        self.inputs, self.outputs = [_array(n, known) for n in inputs], [_array(n, known) for n in outputs]
        self.calls = [n.type for n in self.graph.nodes if n.op.is_call and n.op.unit == "Vector"]

    def timeline(self, buffers: int) -> Sequence[Any]:
        """What happens when to the first tiles."""
        return self.pipeline(self.times, min(_TILES, self.tiles), buffers)

    def held(self, name: str) -> str:
        """What is in a queue or buffer."""
        tensors = [y for y in self.graph.tensors() if name == (f"q{y.que.id}" if y.que.id >= 0 else f"b{y.buf.id}")]
        tensors.sort(key=lambda y: y.mem.position == "VECCALC")  # results that only borrow a queue's memory come last
        position = tensors[0].mem.position if tensors else "VECCALC"
        return f"{_ROLES[position]} ({name}): {', '.join(y.node.name for y in tensors) or 'temporaries'}"

    def words(self, spans: dict[int, Sequence[Any]]) -> list[str]:
        """The same as the picture says."""
        shown = min(_TILES, self.tiles)
        ends = {buffers: max(s.end for s in stages) for buffers, stages in spans.items()}
        told = [
            f"{_count(self.all_tiles, 'tile')} on {_count(self.cores, 'core')}: "
            + ("each core takes one." if self.tiles == 1 else f"one core takes {self.tiles}, one after the other."),
            f"For each tile: copy in {', '.join(self.inputs) or 'nothing'}; compute {', '.join(self.calls) or 'nothing'}; "
            f"copy out {', '.join(self.outputs)}.",
            f"Local memory of a core: {self.bytes} bytes.",
            *(
                f"{self.held(name)}, {size} bytes{' twice' * (count > 1)}."
                for name, (size, count) in self.places.items()
            ),
        ]
        for buffers in (1, 2):
            told.append(
                f"With {_FACES[buffers]} {_count(shown, 'tile')} take{'s' * (shown == 1)} {ends[buffers] / ends[1]:.0%} of the time."
            )
        return [*told, "Speeds are assumed; what calls cost on an NPU is not published."]


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def _array(node: Any, known: dict[str, int]) -> str:
    shape = ", ".join(str(r.evaluate(known)) for r in node.y.repeats)
    return f"{node.name} [{shape}]"


# ---------------------------------------------------------------------------- the way of a tile


def _way(facts: _Facts) -> tuple[list[str], float]:
    """Global memory on both sides, the local memory of a core between them; returns its height too."""
    top = 48.0
    rows = len(facts.places)
    height = max(rows * (_ROW + 8) + 50, 46.0 * max(len(facts.inputs), len(facts.outputs)) + 10)
    parts = [
        text(_LEFT, 18, facts.words({1: facts.timeline(1), 2: facts.timeline(2)})[0], font_weight=600),
        text(_LEFT, 40, "global memory"),
        text(_MIDDLE, 40, f"local memory of one core (UB), {facts.bytes} bytes in use"),
        text(_RIGHT, 40, "global memory"),
        rectangle(_MIDDLE, top, _BOX, height, fill=FILL["plain"], stroke=_MUTED, rx=6),
    ]
    parts += _arrays(facts.inputs, _LEFT, top) + _arrays(facts.outputs, _RIGHT, top)
    for number, (name, (size, count)) in enumerate(facts.places.items()):
        parts += _draw_queue(facts.held(name), size, count, top + 8 + number * (_ROW + 8))
    calls = facts.calls[:5] + ["..."] * (len(facts.calls) > 5)
    parts.append(text(_MIDDLE + 10, top + height - 22, "compute:", font_weight=600))
    parts.append(text(_MIDDLE + 10, top + height - 7, _abbreviate(", ".join(calls) or "nothing", _BOX - 20)))
    middle = top + height / 2
    for start, end, word in ((_LEFT + _SIDE + 4, _MIDDLE - 4, "copy in"), (_MIDDLE + _BOX + 4, _RIGHT - 6, "copy out")):
        arrow = line(start, middle, end, middle, stroke=_MUTED, stroke_width=1.5, marker_end="url(#tm-arrow)")
        parts += [arrow, text((start + end) / 2, middle - 9, word, text_anchor="middle", font_weight=600)]
    return parts, top + height


def _arrays(arrays: list[str], x: float, top: float) -> list[str]:
    """Each array as a row of tiles, of which one is on its way."""
    parts: list[str] = []
    width = _SIDE / _CELLS
    for number, name in enumerate(arrays):
        y = top + 46 * number
        parts.append(text(x, y + 12, _abbreviate(name, _SIDE + 10)))
        for cell in range(_CELLS):
            tone = "warn" if cell == 1 else "panel"
            words = "the tile on its way" if cell == 1 else "another tile"
            parts.append(rectangle(x + cell * width, y + 18, width - 2, 16, words, fill=FILL[tone], stroke=_MUTED))
    return parts


def _draw_queue(name: str, size: int, count: int, y: float) -> list[str]:
    """A queue, with each of its buffers, or a buffer."""
    x, width = _MIDDLE + 10, 46.0
    boxes = [
        rectangle(x + n * (width + 4), y, width, _ROW, f"{size} bytes", fill=FILL["warn" if n == 0 else "input"], stroke=_MUTED, rx=3)
        for n in range(count)
    ]  # fmt: skip
    return [group(*boxes), text(x + 2 * (width + 4) + 4, y + 15, _abbreviate(name, _BOX - 120))]


def _abbreviate(words: str, width: float) -> str:
    """As much of a text as is about `width` pixels wide."""
    most = max(4, math.floor(width / text_width("x")))
    return words if len(words) <= most else words[: most - 3] + "..."


# ---------------------------------------------------------------------------- when


def _chart(buffers: int, stages: Sequence[Any], longest: float, top: float) -> tuple[list[str], float]:
    """A row for each unit, a box for each tile in it; returns its height too."""
    from tvmagic.ascend.pipeline import STAGES

    left, scale = 90.0, (_WIDTH - 100.0) / max(longest, 1e-9)
    end = max(stage.end for stage in stages)
    share = f"{end / longest:.0%} of the time" if buffers > 1 else "100% of the time"
    notes = {
        1: "a tile is copied in when the one before has been computed",
        2: "the next tile is copied in while this one is computed",
    }
    parts = [text(_LEFT, top + 12, f"With {_FACES[buffers]}: {notes[buffers]} ({share})", font_weight=600)]
    for unit, name in enumerate(STAGES):
        y = top + 22 + unit * _LANE
        parts.append(text(_LEFT, y + 15, name))
        parts.append(line(left, y + _LANE - 2, _WIDTH - 10, y + _LANE - 2, stroke="var(--tm-line, #d0d7de)"))
    for stage in stages:
        x, y, width = (
            left + stage.start * scale,
            top + 22 + stage.unit * _LANE,
            max(2.0, (stage.end - stage.start) * scale),
        )
        words = f"tile {stage.tile + 1}: {STAGES[stage.unit]}"
        tone = FILL[_TONES[stage.tile % len(_TONES)]]
        parts.append(rectangle(x, y, width, _LANE - 4, words, fill=tone, stroke=_MUTED, rx=3))
        label = f"tile {stage.tile + 1}" if width > 44 else str(stage.tile + 1) if width > 12 else ""
        if label:
            parts.append(text(x + width / 2, y + 14, label, text_anchor="middle"))
    bottom = top + 22 + 3 * _LANE
    x = left + end * scale
    parts.append(line(x, top + 20, x, bottom, stroke=_MUTED, stroke_dasharray="4 3"))
    return parts, bottom
