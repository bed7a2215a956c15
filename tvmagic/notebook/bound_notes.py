"""InferBound's notes for people: a sentence for each stage, the phases as tables, a picture of the regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic.passes import Note

PREFIX = "infer_bound."
Ends = tuple[str, str]


@dataclass
class Phase:
    """The notes of a phase as a table."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass
class _Stage:
    """What the notes say of a stage: the loops around it, who reads it, and the ranges of its axes."""

    name: str
    path: list[str] = field(default_factory=list)
    axes: list[dict[str, Any]] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    relaxed: list[tuple[str, str, Ends]] = field(default_factory=list)


def _stages(notes: Iterable[Note]) -> list[_Stage]:
    found: dict[str, _Stage] = {}
    for note in notes:
        facts = note.facts
        if "stage" not in facts:
            continue
        stage = found.setdefault(facts["stage"], _Stage(facts["stage"]))
        match note.topic.removeprefix(PREFIX):
            case "attach_path":
                stage.path = facts["path"]
            case "leaf" | "relax":
                if facts["consumer"] not in stage.consumers:
                    stage.consumers.append(facts["consumer"])
                if facts.get("case", 3) == 3:
                    loop = facts.get("leaf") or facts["loop"]
                    stage.relaxed.append((facts["consumer"], loop, facts["set"]))
            case "gather":
                stage.axes.append(facts)
    return [stage for stage in found.values() if stage.axes]


def stage_sentences(notes: Iterable[Note]) -> list[str]:
    """For each stage that others read how much of it is computed at a time, and why."""
    return [_sentence(stage) for stage in _stages(notes)]


def _sentence(stage: _Stage) -> str:
    size = " x ".join(facts["extent"] for facts in stage.axes)
    unit = "element" if size.replace(" x ", "").strip("1") == "" else "elements"
    readers = _listed(f"`{name}`" for name in stage.consumers)
    if not stage.path:
        return f"`{stage.name}`: {size} {unit}, computed once, outside all loops of {readers}"
    begin = ", ".join(f"`{f['axis']}` from `{f['min']}`" for f in stage.axes)
    loops = reversed(stage.relaxed)  # the outermost first, as they are written
    relaxed = list(dict.fromkeys(f"`{loop}` ({_span(ends)})" for _, loop, ends in loops))
    why = f"all iterations of {_listed(relaxed)} of {readers}" if relaxed else f"one iteration of {readers}"
    needs = "need" if relaxed else "needs"
    unions = [
        f"`{f['axis']}` covers {len(set(f['sets']))} different sets" for f in stage.axes if len(set(f["sets"])) > 1
    ]
    joined = f"; {_listed(unions)}" if unions else ""
    return f"`{stage.name}`: {size} {unit} in each iteration of `{stage.path[0]}` ({begin}), because {why} {needs} them{joined}"


def _listed(parts: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`"""
    *most, last = [*parts] or ["nobody"]
    return f"{', '.join(most)} and {last}" if most else last


def _span(ends: Ends) -> str:
    return f"{ends[0]} to {ends[1]}"


def _set(ends: Ends) -> str:
    """A set as text: a point, or `[first, last]`."""
    return ends[0] if ends[0] == ends[1] else f"[{ends[0]}, {ends[1]}]"


def _range(min_extent: Ends) -> str:
    return f"from {min_extent[0]}, {min_extent[1]} times"


def phases(notes: Iterable[Note]) -> list[Phase]:
    """The notes as tables, a phase each; those without rows are left out."""
    found: dict[str, list[Note]] = {}
    for note in notes:
        found.setdefault(note.topic.removeprefix(PREFIX), []).append(note)
    made = [Phase(title, columns, [r for t in topics for n in found.get(t, ()) for r in rows(n.facts)])
            for title, columns, topics, rows in _PHASES]  # fmt: skip
    return [phase for phase in made if phase.rows]


def _path_rows(f: dict[str, Any]) -> list[list[str]]:
    return [[f["stage"], ", ".join(f["path"]) or "none: at the root"]]


def _leaf_rows(f: dict[str, Any]) -> list[list[str]]:
    stage = f["stage"]
    if "loop" in f:  # a loop around the consumer
        why = f"around `{f['consumer']}`, and `{stage}` is outside it: all iterations (relaxed)"
        return [[stage, f["consumer"], f["loop"], _set(f["set"]), why]]
    why = {
        1: "case 1, one iteration: its minimum",
        2: f"case 2, `{stage}` is computed inside it: one point",
        3: f"case 3, `{stage}` is computed outside it: all iterations (relaxed)",
    }[f["case"]]
    return [[stage, f["consumer"], f["leaf"], _set(f["set"]), why]]


def _up_rows(f: dict[str, Any]) -> list[list[str]]:
    rows = [
        [f["consumer"], r["relation"], ", ".join(f"{name}: {_set(s)}" for name, s in r["sets"].items()), r["case"]]
        for r in f["relations"]
    ]
    return [
        *rows,
        [f["consumer"], "roots", ", ".join(f"{n}: {_set(s)}" for n, s in f["dom_map"].items()) or "none", ""],
    ]


def _request_rows(f: dict[str, Any]) -> list[list[str]]:
    regions = [" x ".join(_set(s) for s in access) for access in zip(*f["dom"])]
    return [[f["consumer"], f["tensor"], region] for region in dict.fromkeys(regions)]


def _gather_rows(f: dict[str, Any]) -> list[list[str]]:
    union = " and ".join(_set(s) for s in dict.fromkeys(f["sets"]))
    return [[f["stage"], f["axis"], union, _range((f["min"], f["extent"]))]]


def _down_rows(f: dict[str, Any]) -> list[list[str]]:
    return [[f["stage"], ", ".join(f"{n}: {_range(r)}" for n, r in f["ranges"].items())]] if f["ranges"] else []


_PHASES: tuple[tuple[str, list[str], tuple[str, ...], Any], ...] = (
    ("Attach paths: the loops around each stage", ["stage", "loops, from the inside out"], ("attach_path",), _path_rows),
    ("Phase 1: a set for each loop of each consumer", ["stage", "consumer", "loop", "set", "why"], ("leaf", "relax"), _leaf_rows),
    ("Phase 2: the sets passed up to the consumer's root variables", ["consumer", "relation", "sets", "case"], ("up",), _up_rows),
    ("Phase 3: the regions that consumers ask for", ["consumer", "tensor", "region"], ("request",), _request_rows),
    ("Phase 4: the union of what is asked for, by axis", ["stage", "axis", "sets", "range"], ("gather",), _gather_rows),
    ("PassDownDomain: from the roots to the loops", ["stage", "ranges"], ("down",), _down_rows),
)  # fmt: skip


# ---------------------------------------------------------------------------- picture

_SIDE = 110.0
_MOST = 6  # stages in one picture


def region_picture(notes: Iterable[Note]) -> str:
    """As SVG, for each stage in a loop its last two axes: all of it, what one iteration computes, and each request."""
    from tvmagic.notebook.pictures.svg import drawing

    stages = [s for s in _stages(notes) if s.path and all(f["first"] for f in s.axes)][:_MOST]
    if not stages:
        return ""
    parts: list[str] = []
    left = 8.0
    for stage in stages:
        drawn, width = _stage_picture(stage, left)
        parts += drawn
        left += width + 28
    words = "; ".join(_sentence(s).replace("`", "") for s in stages)
    return drawing(left, _SIDE + 62, "What the first iteration computes of each stage", words, parts)


def _stage_picture(stage: _Stage, left: float) -> tuple[list[str], float]:
    """The parts of a stage's drawing, and its width."""
    from tvmagic.notebook.pictures.svg import rectangle, text, text_width

    boxes = [f["first"] for f in stage.axes][-2:]
    if len(boxes) == 1:
        boxes.insert(0, {"domain": (0, 0), "computed": (0, 0), "asked": [(0, 0)] * len(boxes[0]["asked"])})
    (y0, y1), (x0, x1) = ((min(b["domain"][0], b["computed"][0]), max(b["domain"][1], b["computed"][1])) for b in boxes)
    scale = _SIDE / max(y1 - y0 + 1, x1 - x0 + 1)

    def box(rows: Sequence[int], columns: Sequence[int], **style: Any) -> str:
        height, width = (max(4.0, scale * (last - first + 1)) for first, last in (rows, columns))
        return rectangle(left + scale * (columns[0] - x0), 24 + scale * (rows[0] - y0), width, height, **style)

    rows, columns = boxes
    size = " x ".join(str(b["computed"][1] - b["computed"][0] + 1) for b in (f["first"] for f in stage.axes))
    label = f"{size} at a time"
    parts = [
        text(left, 14, stage.name),
        box(rows["domain"], columns["domain"], fill="var(--tm-panel)", stroke="var(--tm-muted)"),
        box(rows["computed"], columns["computed"], fill="var(--tm-used)", stroke="var(--tm-fg)"),
        text(left, 24 + max(4.0, scale * (y1 - y0 + 1)) + 16, label),
    ]
    asked = dict.fromkeys(zip(rows["asked"], columns["asked"]))
    if len(asked) > 1:
        parts += [box(r, c, fill="none", stroke="var(--tm-accent)", stroke_dasharray="3 2") for r, c in asked]
        parts.append(text(left, 24 + max(4.0, scale * (y1 - y0 + 1)) + 32, f"dashed: {len(asked)} requests"))
    return parts, max(scale * (x1 - x0 + 1), text_width(label), text_width("dashed: 00 requests"))
