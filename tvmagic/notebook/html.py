"""A record as a page without scripts: foldable by `<details>`, readable without styles too.

Every text that comes from a user is escaped by `escape`; nothing else puts text into the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from tvmagic.notebook.colour import html_line
from tvmagic.notebook.diff import Row
from tvmagic.notebook.escaping import escape, sentence
from tvmagic.notebook.style_sheets import style, style_for
from tvmagic.notebook.view import NoteView, StepView, View, format_seconds
from tvmagic.operators.verdict import state_of

CONTEXT = 3
# Characters of markup: for all unchanged parts that are folded, and for all steps together.
_FOLDED_ROOM = 8_000
_ROOM = 60_000
# Lines of one run; what is longer, such as an assembly, is cut in the middle.
_LONG = 120
# Columns of a table that fits everywhere.
_NARROW = 8
# The class of a verdict's state.
TONES = {"equal": "tm-ok", "self": "tm-same", "open": "tm-open", "bad": "tm-error"}
_GUTTER = {"same": "  ", "added": "+ ", "removed": "- "}


_theme = "auto"


def set_theme(name: str) -> None:
    """Colours of everything shown from now on: `light`, `dark`, or those of the page (`auto`)."""
    global _theme
    _theme = name


def theme_attribute() -> str:
    """The attribute that fixes the colours; empty if the page decides."""
    return "" if _theme == "auto" else f' data-theme="{_theme}"'


def frame(body: str, label: str, styled: bool = True, added: Collection[str] = ()) -> str:
    """`body` inside the element that carries our colours, with its accessible name and the style that it needs.

    `styled=False` is for a part of another frame: no style sheet, and no group of its own. `added` are classes that a
    script gives to elements of any output later.
    """
    if not styled:
        return f"<div>{body}</div>"
    sheet = f"<style>{style_for(body, added)}</style>"
    return f'<div class="tvmagic"{theme_attribute()} role="group" aria-label="{escape(label)}">{sheet}{body}</div>'


def theme() -> str:
    """The name that `set_theme` was given last."""
    return _theme


def page(body: str, title: str) -> str:
    """A whole page that needs no other file, light or dark as the reader's system is or as `set_theme` says."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style("page.css")}</style></head>'
        f"<body{theme_attribute()}><main>{body}</main></body></html>"
    )


def view_html(view: View, show_unchanged: bool = True, opened: int | None = None, styled: bool = True) -> str:
    """The page of a view: one foldable part a step.

    It is made to be read without a style sheet too (GitHub and JupyterLab take it out of notebooks that are not
    trusted), and to be small: what is far from a change is left out of long records.
    `opened` is the number of the step that is unfolded at first: by default the step that failed, or the first that
    changed the program.
    """
    if opened is None:
        failed = next((i for i, s in enumerate(view.steps) if s.error), -1)
        opened = (
            failed
            if failed >= 0
            else next((i for i, s in enumerate(view.steps) if s.changed and s.after is not None), -1)
        )
    folded = _FOLDED_ROOM // max(1, len(view.steps))
    room = _ROOM
    body = [f'<div class="tm-title">{escape(view.title or "Passes")}: {summary_text(view)}</div>']
    for number, step in enumerate(view.steps):
        if step.changed or step.error or show_unchanged:
            body.append(_step_html(view, step, number, number == opened, min(folded, room), room > 0))
            room -= len(body[-1])
    return frame("".join(body), f"Passes of {view.title}" if view.title else "Passes", styled)


def summary_text(view: View) -> str:
    """`21 steps, 14 of them changed the program, 5.1 ms`"""
    changed = sum(1 for s in view.steps if s.changed)
    steps = "1 step" if len(view.steps) == 1 else f"{len(view.steps)} steps"
    if any(s.kind == "compare" for s in view.steps):
        return f"{steps}, different after {changed}"
    failed = (
        ", the last failed"
        if view.steps and view.steps[-1].error
        else ", one failed"
        if any(s.error for s in view.steps)
        else ""
    )
    return f"{steps}, {changed} changed the program{failed}, {format_seconds(sum(s.seconds for s in view.steps))}"


def step_meta(step: StepView) -> str:
    """`4.2 ms, +3 -1`, or what else there is to say of a step in a few characters."""
    change = "failed" if step.error else f"+{step.added} -{step.removed}" if step.changed else "no change"
    return f"{step.time}, {change}" if step.time else change


def _step_html(view: View, step: StepView, number: int, opened: bool, folded: int, whole: bool) -> str:
    state = "" if step.changed or step.error else " tm-same"
    parts = [
        f'<details class="tm-step{state}"{" open" if opened else ""}><summary>',
        f'{number + 1}. <span class="tm-name">{escape(step.name)}</span> ',
        f'<span class="tm-meta">{escape(step_meta(step))}</span>{_mark_html(step)}</summary><div>',
    ]
    if step.options or step.place:
        parts.append(f'<div class="tm-meta">{escape("; ".join(t for t in (step.options, step.place) if t))}</div>')
    if step.error:
        parts.append(f'<div class="tm-error">{sentence(step.error)}</div>')
    if whole:
        parts.append("".join(_rows_html(view, step, folded)))
    else:
        parts.append('<div class="tm-meta">The record is long; the live stepper shows this step.</div>')
    parts.append(notes_html(step.notes))
    parts.append("</div></details>")
    return "".join(parts)


def _mark_html(step: StepView) -> str:
    if not step.mark:
        return ""
    tone = TONES.get(state_of(step.mark), "tm-meta")
    return f' <span class="{tone}">{escape(step.mark)}</span>'


def _rows_html(view: View, step: StepView, room: int) -> Iterator[str]:
    """The comparison as one column: runs of lines that are new, gone or the same, long unchanged ones folded."""
    yield '<div class="tm-scroll" tabindex="0" role="group" aria-label="Program">'
    spent = 0
    whole = all(row.kind in ("added", "same") for row in step.rows) and not any(row.kind == "same" for row in step.rows)
    for unchanged, rows in runs(step.rows, step.changed and not whole):
        if unchanged and len(rows) > 2:
            text = _lines_html(view, step, rows, whole)
            spent += len(text)
            label = f"{len(rows)} unchanged lines"
            if spent > room:
                yield f'<div class="tm-meta">\u22ef {label}</div>'
            else:
                yield f'<details class="tm-fold"><summary>{label}</summary>{text}</details>'
        elif len(rows) > _LONG:
            yield _lines_html(view, step, rows[: _LONG // 2], whole)
            yield f'<div class="tm-meta">\u22ef {len(rows) - _LONG} more lines</div>'
            yield _lines_html(view, step, rows[-_LONG // 2 :], whole)
        else:
            yield _lines_html(view, step, rows, whole)
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


# The colours of lines for where there is no style sheet: seen on white and on black.
_TINTS = {"added": "rgba(46, 160, 67, 0.18)", "removed": "rgba(248, 81, 73, 0.18)"}


def _lines_html(view: View, step: StepView, rows: Sequence[Row], whole: bool) -> str:
    """Rows as one text with signs; neighbours that are all new, or all gone, are one element. `whole`: no signs."""
    parts: list[str] = []
    for kind, lines in groupby(_signed(view, step, rows, whole), key=lambda item: item[0]):
        text = "".join(f"{line}\n" for _, line in lines)
        tint = _TINTS.get(kind)
        parts.append(f'<span class="tm-{kind}" style="background-color:{tint}">{text}</span>' if tint else text)
    return f"<pre>{''.join(parts)}</pre>"


def _signed(view: View, step: StepView, rows: Sequence[Row], whole: bool) -> Iterator[tuple[str, str]]:
    """The lines of rows, each with its kind, with its sign and changed words inside `<ins>` or `<del>`."""
    for row in rows:
        if row.kind in ("edited", "removed") or row.after is None:
            kind = "removed" if row.kind in ("edited", "removed") else "same"
            yield kind, _GUTTER[kind] + _marked(view, step.before, row.before, row.before_marks, "del")
        if row.after is not None:
            kind = "added" if row.kind in ("edited", "added") and not whole else "same"
            yield kind, ("" if whole else _GUTTER[kind]) + _marked(view, step.after, row.after, row.after_marks, "ins")


def _marked(view: View, text: int | None, line: int | None, marks: tuple[tuple[int, int], ...], tag: str) -> str:
    assert text is not None and line is not None
    return html_line(view.lines[view.texts[text].lines[line]], "text", marks, tag)


def notes_html(notes: Iterable[NoteView]) -> str:
    """The notes of a pass: sentences, and tables where several notes are alike."""
    parts = ["".join(_note_html(n)) for n in notes]
    return f'<div class="tm-notes">{"".join(parts)}</div>' if parts else ""


def _note_html(note: NoteView) -> Iterator[str]:
    if note.svg:  # only the live stepper draws: without a style sheet a picture is but its words, which are said
        return
    if note.fold:
        yield f"<details><summary>{escape(note.fold)}</summary>{table(note.columns, note.rows)}</details>"
        return
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
        aside = f' <span class="tm-meta">({sentence(facts)})</span>' if facts else ""
        yield f"<li>{sentence(text)}{aside}</li>"
    yield "</ul>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table of escaped texts, with numbers at the right; one of many columns scrolls by itself."""
    head = "".join(f'<th scope="col">{escape(c)}</th>' if c else "<td></td>" for c in columns)
    body = "".join("<tr>" + "".join(_cell(v) for v in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    whole = f'<table class="tm-table">{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    if len(columns) <= _NARROW:
        return whole
    return f'<div style="overflow-x:auto" tabindex="0" role="group" aria-label="Table">{whole}</div>'


def _cell(value: object) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f'<td class="tm-num">{escape(value)}</td>' if number else f"<td>{sentence(value)}</td>"
