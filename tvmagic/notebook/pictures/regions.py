"""The region that consumers ask of a producer, against the region that is computed; the waste shaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.ir import ProducerRealize, post_order_visit
from tvmagic.notebook.pictures.svg import drawing, rectangle, text
from tvmagic.notebook.results import Parts, Picture, Shown, Table
from tvmagic.operators import Operator
from tvmagic.operators.access import trace_accesses
from tvmagic.operators.schedule_program import program_of_schedule

_LIMIT = 200_000
_CELLS = 48
_SIDE = 260.0


@dataclass
class Region:
    """A producer in one run of its loops: `computed` and, by consumer, `asked` elements."""

    producer: str
    computed: set[tuple[int, ...]]
    asked: dict[str, set[tuple[int, ...]]]
    complete: bool

    @property
    def used(self) -> set[tuple[int, ...]]:
        return set().union(*self.asked.values()) if self.asked else set()

    @property
    def waste(self) -> float:
        """The share of what is computed that nobody reads."""
        return len(self.computed - self.used) / len(self.computed) if self.computed else 0.0


def regions_of(op: Operator, sch: Any) -> list[Region]:
    """What is computed and asked for of each intermediate tensor, element by element.

    A tensor that is computed inside loops is followed through their first iteration.
    """
    program = program_of_schedule(sch)
    outputs = {t.name for t in op.outputs}
    names: list[str] = []

    def look(node: Any) -> None:
        if isinstance(node, ProducerRealize) and node.producer.name not in (*outputs, *names):
            names.append(node.producer.name)

    post_order_visit(program, look)
    return [_region(program, name) for name in names]


def _region(program: Any, name: str) -> Region:
    found = trace_accesses(program, name, _LIMIT, once=True, first_instance=True)
    asked: dict[str, set[tuple[int, ...]]] = {}
    for access in found.events:
        if not access.write and access.consumer != name:
            asked.setdefault(access.consumer, set()).add(access.index)
    return Region(name, found.elements(True), asked, found.complete)


def regions_view(op: Operator, sch: Any, stage: str | None = None) -> Shown:
    """A table of computed and used elements, and a picture for each intermediate tensor."""
    regions = regions_of(op, sch)
    if stage is not None:
        regions = [r for r in regions if r.producer == stage]
    if not regions:
        what = f"`{stage}` is" if stage else "there is"
        raise TVMagicError(
            f"{what} no intermediate tensor of `{op.name}`",
            hint="inlined stages and outputs have none",
            code="picture.no_intermediate_tensor",
        )
    rows = [
        [r.producer, consumer, len(r.computed), len(asked), f"{r.waste:.0%}"]
        for r in regions
        for consumer, asked in r.asked.items()
    ]
    columns = ["producer", "consumer", "elements computed", "elements asked for", "computed in vain"]
    notes = [f"`{r.producer}`: only the first {_LIMIT} accesses were looked at" for r in regions if not r.complete]
    table = Table(columns, rows, f"{op.name}: regions, in the first iteration of the loops around each stage", notes)
    return Parts(table, *(_picture(r) for r in regions), title=f"{op.name}: regions")


def _picture(region: Region) -> Picture:
    words = (
        f"{len(region.computed)} elements of {region.producer} are computed, {len(region.computed & region.used)} of them are "
        f"read by {', '.join(region.asked) or 'nobody'}; {region.waste:.0%} are computed in vain"
    )
    if not region.computed:
        return Picture("", words, region.producer)
    places = np.array(sorted(region.computed | region.used), dtype=np.int64)
    places = places.reshape(len(places), -1)
    flat = _last_two(places)
    low, high = flat.min(axis=0), flat.max(axis=0)
    shape = high - low + 1
    computed, used = np.zeros(shape, bool), np.zeros(shape, bool)
    for elements, grid in ((region.computed, computed), (region.used, used)):
        if elements:
            rows = _last_two(np.array(sorted(elements), dtype=np.int64).reshape(len(elements), -1)) - low
            grid[rows[:, 0], rows[:, 1]] = True
    svg = grid_svg(computed, used, low, f"Region of {region.producer}", words)
    return Picture(svg, words, f"{region.producer}: asked for against computed")


def _last_two(places: np.ndarray) -> np.ndarray:
    """The last two coordinates; a row of zeros where there is only one."""
    if places.shape[1] == 0:
        return np.zeros((len(places), 2), np.int64)
    if places.shape[1] == 1:
        return np.column_stack([np.zeros(len(places), np.int64), places[:, 0]])
    return places[:, -2:]


def grid_svg(computed: np.ndarray, used: np.ndarray, origin: Any, title: str, words: str) -> str:
    """A grid of elements: used ones green, those computed in vain shaded; large grids by blocks."""
    rows, columns = computed.shape
    step_r, step_c = -(-rows // _CELLS), -(-columns // _CELLS)
    shown_r, shown_c = -(-rows // step_r), -(-columns // step_c)
    cell = max(4.0, min(22.0, _SIDE / max(shown_r, shown_c)))
    left, top = 44.0, 26.0
    parts = [_PATTERN, text(left, 16, f"columns {origin[1]} to {origin[1] + columns - 1}")]
    first, last, height = origin[0], origin[0] + rows - 1, shown_r * cell
    if height < 24:  # no room for two lines
        parts.append(text(2, top + height / 2 + 4, f"{first}" if rows == 1 else f"{first}-{last}"))
    else:
        parts.append(text(2, top + 12, f"{first}") + text(2, top + height, f"{last}"))
    for r in range(shown_r):
        for c in range(shown_c):
            block = np.s_[r * step_r : (r + 1) * step_r, c * step_c : (c + 1) * step_c]
            done, wanted = computed[block], used[block]
            if not done.any():
                fill, state = "none", "not computed"
            elif (done & ~wanted).any():
                fill, state = "url(#tm-waste)", "computed in vain" if not wanted.any() else "partly in vain"
            else:
                fill, state = "var(--tm-used, #b9dcc4)", "used"
            label = f"[{origin[0] + r * step_r}, {origin[1] + c * step_c}]: {state}"
            parts.append(
                rectangle(
                    left + c * cell, top + r * cell, cell, cell, label, fill=fill, stroke="var(--tm-line, #d0d7de)"
                )
            )
    bottom = top + shown_r * cell + 20
    parts.append(rectangle(left, bottom - 10, 12, 12, fill="var(--tm-used, #b9dcc4)", stroke="var(--tm-muted)"))
    parts.append(text(left + 18, bottom, "computed and read"))
    parts.append(rectangle(left + 150, bottom - 10, 12, 12, fill="url(#tm-waste)", stroke="var(--tm-muted)"))
    parts.append(text(left + 168, bottom, "computed in vain"))
    width = max(left + shown_c * cell + 10, left + 290)
    return drawing(width, bottom + 12, title, words, parts)


_PATTERN = (
    '<defs><pattern id="tm-waste" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="var(--tm-waste, #f3c4c0)"/>'
    '<line x1="0" y1="0" x2="0" y2="6" stroke="var(--tm-error, #a40e26)" stroke-width="2"/></pattern></defs>'
)
