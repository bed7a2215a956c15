"""A record as a page without scripts: foldable by `<details>`, readable without styles too.

Every text that comes from a user is escaped by `escape`; nothing else puts text into the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files

from tvmagic.notebook.colour import html_line
from tvmagic.notebook.diff import Row
from tvmagic.notebook.view import NoteView, StepView, View
from tvmagic.operators.verify import EQUAL, NOT_RUN

__all__ = ["escape", "frame", "notes_html", "page", "style", "table", "view_html"]

CONTEXT = 3
# Characters of markup: for all unchanged parts that are folded, and for all steps together.
_FOLDED_ROOM = 200_000
_ROOM = 800_000
_GUTTER = {"same": " ", "moved": " ", "added": "+", "removed": "-"}


def escape(text: object) -> str:
    """Text for HTML, with quotes escaped as well."""
    return html.escape(str(text), quote=True)


def sentence(text: object) -> str:
    """A sentence for HTML: what stands between backquotes as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


@cache
def style(*names: str) -> str:
    """The style sheets of those names in `static/`."""
    folder = files("tvmagic.notebook") / "static"
    return "\n".join((folder / name).read_text() for name in names or ("view.css",))


_theme = "auto"


def set_theme(name: str) -> None:
    """Colours of everything shown from now on: `light`, `dark`, or those of the page (`auto`)."""
    global _theme
    _theme = name


def theme_attribute() -> str:
    """The attribute that fixes the colours; empty where the page decides."""
    return "" if _theme == "auto" else f' data-theme="{_theme}"'


def frame(body: str, label: str, styled: bool = True) -> str:
    """`body` inside the element that carries our colours, with its accessible name.

    `styled=False` is for a part of another frame: no style sheet, and no region of its own.
    """
    if not styled:
        return f"<div>{body}</div>"
    sheet = f"<style>{style()}</style>"
    return f'<div class="tvmagic"{theme_attribute()} role="region" aria-label="{escape(label)}">{sheet}{body}</div>'


def theme() -> str:
    """The name that `set_theme` was given last."""
    return _theme


def page(body: str, title: str) -> str:
    """A whole page that stands by itself."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"></head><body><main>{body}</main></body></html>'
    )


def view_html(view: View, show_unchanged: bool = True, opened: int | None = None) -> str:
    """The page of a view: one foldable part a step.

    `opened` is the number of the step that is unfolded at first; the first that changed unless told.
    """
    if opened is None:
        opened = next((i for i, s in enumerate(view.steps) if s.changed and s.after is not None), -1)
    folded = _FOLDED_ROOM // max(1, len(view.steps))
    room = _ROOM
    body = [f'<div class="tm-title">{escape(view.title or "Passes")}: {summary_text(view)}</div>']
    for number, step in enumerate(view.steps):
        if step.changed or step.error or show_unchanged:
            body.append(_step_html(view, step, number, number == opened, min(folded, room), room > 0))
            room -= len(body[-1])
    return frame("".join(body), f"Passes of {view.title}" if view.title else "Passes")


def summary_text(view: View) -> str:
    """`21 steps, 14 of them changed the program, 5.1 ms`"""
    from tvmagic.notebook.view import format_seconds

    changed = sum(1 for s in view.steps if s.changed)
    steps = "1 step" if len(view.steps) == 1 else f"{len(view.steps)} steps"
    if any(s.kind == "compare" for s in view.steps):
        return f"{steps}, different after {changed}"
    return f"{steps}, {changed} changed the program, {format_seconds(sum(s.seconds for s in view.steps))}"


def step_meta(step: StepView) -> str:
    """`4.2 ms, +3 -1`, or what else there is to say of a step in a few characters."""
    change = "failed" if step.error else f"+{step.added} -{step.removed}" if step.changed else "no change"
    return f"{step.time}, {change}" if step.time else change


def _step_html(view: View, step: StepView, number: int, opened: bool, folded: int, whole: bool) -> str:
    state = "" if step.changed else " tm-same"
    parts = [
        f'<details class="tm-step{state}"{" open" if opened else ""}><summary>',
        f'{number + 1}. <span class="tm-name">{escape(step.name)}</span> ',
        f'<span class="tm-meta">{escape(step_meta(step))}</span>{_mark_html(step)}</summary><div>',
    ]
    if step.options or step.place:
        parts.append(f'<div class="tm-meta">{escape("; ".join(t for t in (step.options, step.place) if t))}</div>')
    if step.error:
        parts.append(f'<div class="tm-error">{escape(step.error)}</div>')
    if whole:
        parts.append("".join(_rows_html(view, step, folded)))
    else:
        parts.append('<div class="tm-meta">The record is long; this step shows in the notebook itself.</div>')
    parts.append(notes_html(step.notes))
    parts.append("</div></details>")
    return "".join(parts)


def _mark_html(step: StepView) -> str:
    if not step.mark:
        return ""
    tone = "tm-ok" if step.mark == EQUAL else "tm-meta" if step.mark.startswith(NOT_RUN) else "tm-error"
    return f' <span class="{tone}">{escape(step.mark)}</span>'


def _rows_html(view: View, step: StepView, room: int) -> Iterator[str]:
    """The comparison as one column, long unchanged parts folded; left out where they need too much room."""
    yield '<div class="tm-scroll" tabindex="0" role="group" aria-label="Program">'
    spent = 0
    for unchanged, rows in runs(step.rows, step.changed):
        lines = [line for row in rows for line in _row_html(view, step, row)]
        text = f"<pre>{''.join(lines)}</pre>"
        if unchanged and len(rows) > 2:
            spent += len(text)
            label = f"{len(rows)} unchanged lines"
            if spent > room:
                yield f'<div class="tm-meta" style="padding-left:8px">... {label}</div>'
            else:
                yield f'<details class="tm-fold"><summary>{label}</summary>{text}</details>'
        else:
            yield text
    yield "</div>"


def runs(rows: Sequence[Row], changed: bool, context: int = CONTEXT) -> Iterator[tuple[bool, list[Row]]]:
    """The rows in runs: those near a change, and the unchanged ones between, which may be folded."""
    near = [not changed] * len(rows)
    for i, row in enumerate(rows):
        if row.kind not in ("same", "moved"):
            near[max(0, i - context) : i + context + 1] = [True] * len(near[max(0, i - context) : i + context + 1])
    if changed and not any(near):
        near = [row.kind == "moved" for row in rows]
    run: list[Row] = []
    for i, row in enumerate(rows):
        if run and near[i] != near[i - 1]:
            yield not near[i - 1], run
            run = []
        run.append(row)
    if run:
        yield not near[-1], run


def _row_html(view: View, step: StepView, row: Row) -> Iterator[str]:
    if row.kind == "edited":
        yield _line_html(view, step.before, row.before, "removed", row.before_marks)
        yield _line_html(view, step.after, row.after, "added", row.after_marks)
    elif row.after is not None:
        yield _line_html(view, step.after, row.after, row.kind, row.after_marks)
    else:
        yield _line_html(view, step.before, row.before, row.kind, row.before_marks)


def _line_html(view: View, text: int | None, line: int | None, kind: str, marks: tuple[tuple[int, int], ...]) -> str:
    assert text is not None and line is not None
    program = view.texts[text]
    tag = "del" if kind == "removed" else "ins"
    code = html_line(view.lines[program.lines[line]], program.language, marks, tag)
    state = f" tm-{kind}" if kind in ("added", "removed") else ""
    return f'<span class="tm-row{state}"><span class="tm-gut">{_GUTTER[kind]}</span>{code}</span>'


def notes_html(notes: Iterable[NoteView]) -> str:
    """The notes of a pass: sentences, and tables where several notes are alike."""
    parts = ["".join(_note_html(n)) for n in notes]
    return f'<div class="tm-notes">{"".join(parts)}</div>' if parts else ""


def _note_html(note: NoteView) -> Iterator[str]:
    if len(note.texts) > 1 and note.columns:
        rows = [[text, *row] for text, row in zip(note.texts, note.rows)]
        if len(set(note.texts)) == 1:
            yield f"<div>{sentence(note.texts[0])}</div>"
            yield table(note.columns, note.rows)
        else:
            yield table([note.topic, *note.columns], rows)
        return
    yield "<ul>"
    for text, row in zip(note.texts, note.rows or [[] for _ in note.texts]):
        facts = "; ".join(f"{c}: {v}" for c, v in zip(note.columns, row))
        aside = f' <span class="tm-meta">({escape(facts)})</span>' if facts else ""
        yield f"<li>{sentence(text)}{aside}</li>"
    yield "</ul>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of escaped texts; numbers stand at the right."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in columns)
    body = "".join("<tr>" + "".join(_cell(v) for v in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<table class="tm-table">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: object) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f'<td class="tm-num">{escape(value)}</td>' if number else f"<td>{sentence(value)}</td>"
