"""The stepper: a record of passes in the page, for any notebook, saved or not.

Everything that it shows is in its data, made from the `View`; it asks the kernel for nothing and goes on
working after the kernel has stopped, and in a saved notebook or page. Where scripts do not run, its output is
the page of `html.view_html`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from tvmagic.lazy import cached_property
from tvmagic.notebook.colour import pieces
from tvmagic.notebook.diff import Row
from tvmagic.notebook.glossary import words_of
from tvmagic.notebook.html import theme, view_html
from tvmagic.notebook.live import live_html
from tvmagic.notebook.terminal import summary_lines
from tvmagic.notebook.view import View, make_view
from tvmagic.passes import Record

VERSION = 2  # of the data: 1 had a thread a line, and at most one parent a thread
_COLOURED = 4_000
_KINDS = {"same": "=", "moved": "m", "edited": "~", "removed": "-", "added": "+"}


class Stepper:
    """A record of passes to step through.

    Parameters
    ----------
    view: the description of the record, or the record itself.
    show_unchanged: show passes that changed nothing at first; they can be shown and hidden in the page.
    """

    def __init__(self, view: View | Record, show_unchanged: bool = True) -> None:
        self.view = make_view(view) if isinstance(view, Record) else view
        self.show_unchanged = show_unchanged

    @cached_property
    def data(self) -> dict[str, Any]:
        """What the stepper shows, as JSON."""
        return {**packed_view(self.view), "hide": not self.show_unchanged}

    def html(self) -> str:
        """The stepper as HTML: live where scripts run, else foldable parts."""
        label = f"Passes of {self.view.title}" if self.view.title else "Passes"
        return live_html("stepper", self.data, view_html(self.view, self.show_unchanged, styled=False), label)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/html": self.html(), "text/plain": "\n".join(summary_lines(self.view, self.show_unchanged))}


def show_passes(record: Record, only: Iterable[str] | None = None) -> Stepper:
    """The stepper of a record; `only` names the passes to show."""
    return Stepper(make_view(record, only))


def packed_view(view: View) -> dict[str, Any]:
    """The view as JSON, small: runs of unchanged rows are one item, tokens one text a line."""
    languages: dict[int, str] = {}
    for text in view.texts:
        for number in text.lines:
            languages.setdefault(number, text.language)
    few = len(view.lines) <= _COLOURED
    shown = range(len(view.lines)) if few else range(_COLOURED)
    tokens = [packed_tokens(view.lines[i], languages.get(i, "text")) for i in shown]
    return {
        "title": view.title,
        "key": _key(view),
        "theme": theme(),
        "sides": view.sides,
        "lines": view.lines,
        "words": words_of(view.lines),
        "tokens": tokens + [""] * (len(view.lines) - len(tokens)),
        "texts": packed_texts(view),
        "version": VERSION,
        "groups": [list(group) for group in view.groups],
        "parents": [list(above) for above in view.parents],
        "origins": [[list(place) for place in places] for places in view.origins],
        "sources": view.sources,
        "sourceTokens": {n: [packed_tokens(line, "python") for line in lines] for n, lines in view.sources.items()},
        "steps": [_packed_step(step) for step in view.steps],
    }


def _key(view: View) -> str:
    """What an address calls the stepper: the same whenever the same cells give the same steps."""
    said = [view.title, *(step.name for step in view.steps), *(line for n in view.sources for line in view.sources[n])]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:6]


def packed_texts(view: View) -> list[dict[str, Any]]:
    """The texts; one that a step made of an earlier text holds only what that step changed.

    `base` is the number of that step. `l`, `o` and `h` (lines, origins, threads) are then those of
    the rows that are not the same in both, in order; `all` and `allh` have all rows where some origin, or thread, changed.
    """
    made_by: dict[int, int] = {}
    for number, step in enumerate(view.steps):
        if step.before is not None and step.after is not None and step.before < step.after:
            made_by.setdefault(step.after, number)
    packed: list[dict[str, Any]] = []
    for number, text in enumerate(view.texts):
        whole = {"o": packed_numbers(text.origins)}
        language = {"language": text.language}
        step = view.steps[made_by[number]] if number in made_by else None
        if step is None or step.before is None:
            packed.append({**language, "l": packed_numbers(text.lines), "h": packed_numbers(text.threads), **whole})
            continue
        base = view.texts[step.before]
        pairs = [(r.before, r.after, r.kind) for r in step.rows if r.after is not None]
        same = [(a, b) for a, b, kind in pairs if kind == "same" and a is not None]
        fresh = [b for _, b, kind in pairs if kind != "same"]
        entry = {
            **language,
            "base": made_by[number],
            "l": packed_numbers([text.lines[b] for b in fresh]),
            "h": packed_numbers([text.threads[b] for b in fresh]),
        }
        if any(base.threads[a] != text.threads[b] for a, b in same):
            entry |= {"h": [], "allh": packed_numbers(text.threads)}
        if all(base.origins[a] == text.origins[b] for a, b in same):
            packed.append({**entry, "o": packed_numbers([text.origins[b] for b in fresh])})
        else:
            packed.append({**entry, "all": whole["o"]})
    return packed


def packed_numbers(numbers: list[int]) -> list[int]:
    """Numbers as runs, each three numbers long: the first, the step (0 or 1) and the count."""
    runs: list[int] = []
    start = step = count = 0
    for number in numbers:
        if count == 1 and number - start in (0, 1):
            step, count = number - start, 2
        elif count > 1 and number == start + step * count:
            count += 1
        else:
            if count:
                runs += (start, step, count)
            start, step, count = number, 1, 1
    return [*runs, start, step, count] if count else runs


def packed_tokens(line: str, language: str) -> str:
    """The classes of a line's parts with their lengths: `k3-1f8`."""
    parts = pieces(line, language)
    if all(not name for name, _ in parts):
        return ""
    return "".join(f"{name or '-'}{len(text)}" for name, text in parts)


def _packed_step(step: Any) -> dict[str, Any]:
    return {
        "name": step.name,
        "kind": step.kind,
        "time": step.time,
        "changed": step.changed,
        "added": step.added,
        "removed": step.removed,
        "b": step.before,
        "a": step.after,
        "rows": packed_rows(step.rows),
        "notes": [{k: v for k, v in vars(n).items() if v or k in ("texts", "columns", "rows")} for n in step.notes],
        "error": step.error,
        "options": step.options,
        "place": step.place,
        "mark": step.mark,
    }


def packed_rows(rows: list[Row]) -> list[list[Any]]:
    """Rows with neighbours of one kind put together: [kind, before, after, count] or with marks."""
    packed: list[list[Any]] = []
    for row in rows:
        kind = _KINDS[row.kind]
        if kind == "~":
            packed.append([kind, row.before, row.after, row.before_marks, row.after_marks])
        elif packed and packed[-1][0] == kind:
            packed[-1][3] += 1
        else:
            packed.append([kind, row.before, row.after, 1])
    return packed
