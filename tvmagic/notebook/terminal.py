"""A record as text for a terminal, in colour where the terminal has colours."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from textwrap import wrap

from tvmagic.errors import visible
from tvmagic.notebook.colour import pieces
from tvmagic.notebook.html import runs, step_meta, summary_text
from tvmagic.notebook.view import NoteView, StepView, View

_CELL = 72  # characters of a table's cell in a line
_RESET = "\033[0m"
_CODES = {
    "k": "1;35", "t": "32", "b": "35", "f": "33", "m": "2", "d": "36", "s": "34", "c": "2;3", "a": "33", "l": "1;35",
    "v": "31", "added": "42;30", "removed": "41;97", "dim": "2", "name": "1", "error": "1;31",
}  # fmt: skip


def colours_wanted() -> bool:
    """Whether standard output can show colours (`NO_COLOR` and `TERM=dumb` say no)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(getattr(sys.stdout, "isatty", lambda: False)())


class _Painter:
    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, kind: str) -> str:
        text, code = visible(text), _CODES.get(kind)
        return f"\033[{code}m{text}{_RESET}" if self.colour and code and text else text

    def line(self, line: str, language: str, marks: tuple[tuple[int, int], ...], kind: str) -> str:
        """A line of a program, its marked parts on a coloured ground."""
        if not self.colour:
            return visible(line)
        out, position = [], 0
        for name, text in pieces(line, language):
            for start, part in _split_at_marks(text, position, marks):
                inside = any(a <= start < b for a, b in marks)
                out.append(self(part, kind if inside else name))
            position += len(text)
        return "".join(out)


def _split_at_marks(text: str, position: int, marks: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, str]]:
    """`text` cut at the ends of marks, each part with its place in the line."""
    cuts = sorted({c - position for mark in marks for c in mark if 0 < c - position < len(text)})
    start = 0
    for cut in [*cuts, len(text)]:
        yield position + start, text[start:cut]
        start = cut


def summary_lines(view: View, show_unchanged: bool = True) -> list[str]:
    """The steps of a view, a line each, without their programs."""
    lines = [f"{view.title or 'Passes'}: {summary_text(view)}"]
    for number, step in enumerate(view.steps):
        if step.changed or step.error or show_unchanged:
            mark = f"  [{step.mark}]" if step.mark else ""
            lines.append(
                f"{number + 1:>3}. {step.name}  {step_meta(step)}{mark}{'  ' + step.error if step.error else ''}"
            )
    return lines


def view_text(
    view: View, colour: bool | None = None, show_unchanged: bool = True, most: int = sys.maxsize, rest: str = ""
) -> str:
    """All steps of a view, one under the other; unchanged parts are counted, not shown.

    `most`: lines of a step's program, and of its notes; what is beyond them is counted, and `rest`, the last line, says how
    to see it.
    """
    paint = _Painter(colours_wanted() if colour is None else colour)
    lines, cut = [paint(view.title or "Passes", "name") + f": {summary_text(view)}"], False
    for number, step in enumerate(view.steps):
        if step.changed or step.error or show_unchanged:
            lines += _head_lines(step, number, paint)
            for part in (_rows(view, step, paint) if step.changed else (), _notes_lines(step)):
                shown = list(part)
                over = len(shown) > most + 1  # a line that says so takes the place of one
                cut = cut or over
                lines += (
                    [*shown[:most], f"     {paint(f'... {len(shown) - most} more lines', 'dim')}"] if over else shown
                )
    return "\n".join([*lines, rest] if cut and rest else lines)


def _head_lines(step: StepView, number: int, paint: _Painter) -> Iterator[str]:
    name = paint(step.name, "name" if step.changed else "dim")
    mark = f"  [{step.mark}]" if step.mark else ""
    yield f"{number + 1:>3}. {name}  {paint(step_meta(step), 'dim')}{mark}"
    if step.error:
        yield "     " + paint(step.error, "error")


def _notes_lines(step: StepView) -> Iterator[str]:
    for note in step.notes:
        yield from _note_lines(note)


def _rows(view: View, step: StepView, paint: _Painter) -> Iterator[str]:
    for unchanged, rows in runs(step.rows, step.changed):
        if unchanged and len(rows) > 2:
            yield "     " + paint(f"  ... {len(rows)} unchanged lines", "dim")
            continue
        for row in rows:
            if row.before is not None and row.kind in ("removed", "edited"):
                yield _line(view, step.before, row.before, row.before_marks, "removed", paint)
            if row.after is not None:
                kind = "added" if row.kind in ("added", "edited") else "same"
                yield _line(view, step.after, row.after, row.after_marks, kind, paint)
            elif row.kind == "same" and row.before is not None:
                yield _line(view, step.before, row.before, (), "same", paint)


def _line(
    view: View, text: int | None, line: int, marks: tuple[tuple[int, int], ...], kind: str, paint: _Painter
) -> str:
    assert text is not None
    program = view.texts[text]
    sign = {"added": "+", "removed": "-"}.get(kind, " ")
    code = paint.line(view.lines[program.lines[line]], program.language, marks, kind)
    return f"     {paint(sign, kind)} {code}"


def _note_lines(note: NoteView) -> Iterator[str]:
    if note.fold:
        yield f"       {note.fold}"
        for line in text_table(note.columns, [[v.replace("`", "") for v in row] for row in note.rows]).split("\n"):
            yield "         " + line
        return
    if len(note.texts) > 1 and note.columns:
        rows = [[t, *r] for t, r in zip(note.texts, note.rows)]
        for line in text_table([note.topic, *note.columns], rows).split("\n"):
            yield "       " + line
        return
    for text, row in zip(note.texts, note.rows or [[] for _ in note.texts]):
        facts = "; ".join(f"{c}: {v}" for c, v in zip(note.columns, row))
        yield f"       - {text}" + (f" ({facts})" if facts else "")


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of text, columns lined up; numbers at the right; long texts on several lines.

    In a terminal that is narrower than the table each row is a list, with a line for each column.
    """
    cells = [part for row in rows for part in _cell_lines([str(v) for v in row])]
    widths = [max([len(c), *(len(row[i]) for row in cells)]) for i, c in enumerate(columns)]
    if len(columns) > 2 and sum(widths) + 2 * len(widths) - 2 > _room():
        names = max(map(len, columns))
        return "\n\n".join("\n".join(f"{c:{names}}  {v}".rstrip() for c, v in zip(columns, row)) for row in rows)
    right = [all(isinstance(row[i], (int, float)) for row in rows) and bool(rows) for i in range(len(columns))]

    def line(values: Sequence[str]) -> str:
        return "  ".join(v.rjust(w) if r else v.ljust(w) for v, w, r in zip(values, widths, right)).rstrip()

    return "\n".join([line(list(columns)), "  ".join("-" * w for w in widths), *(line(row) for row in cells)])


def _room() -> int:
    """The columns of the terminal that is written to; more than any table has if the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _cell_lines(row: Sequence[str]) -> Iterator[list[str]]:
    """The lines of one row of a table, each of one text for each column."""
    parts = [wrap(v, _CELL, break_long_words=False, break_on_hyphens=False) or [""] for v in row]
    for number in range(max((len(p) for p in parts), default=0)):
        yield [p[number] if number < len(p) else "" for p in parts]


def paint_lines(lines: Sequence[str], language: str, colour: bool) -> Iterator[str]:
    """Lines of a program in colour, if that is wanted."""
    paint = _Painter(colour)
    return (paint.line(line, language, (), "") for line in lines)
