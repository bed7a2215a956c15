"""One description of a record, from which the widget, the static page and the terminal text are made.

A `View` holds the texts of all steps once each, line by line: every distinct line is stored once
and a text is a list of numbers of lines, so that a hundred passes over one program take little
more room than what they change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.ir import Node
from tvmagic.ir.program_form import is_cinn_form
from tvmagic.notebook.bound_notes import PREFIX, phases, region_picture, stage_sentences
from tvmagic.notebook.diff import LIKE, Row, diff_lines, likeness
from tvmagic.notebook.programs import program_of
from tvmagic.notebook.text import LineOrigins, Program, node_program
from tvmagic.passes import Note, Record, Step

__all__ = ["CALLS", "NoteView", "StepView", "Text", "View", "make_view", "plain", "selected"]


@dataclass
class NoteView:
    """What a pass says of itself: a sentence with facts, or a table of several alike.

    `columns` are the facts' names, `rows` their values as text, one row for each note; the texts
    of the notes are in `texts`. With `fold` it is a table that is folded under this title; `svg` is a picture.
    """

    topic: str
    texts: list[str]
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    fold: str = ""
    svg: str = ""


@dataclass
class Text:
    """A program as lines: numbers into `View.lines`; for each line its origins and its thread.

    `origins[i]` are the places (source, line) that line i comes from, as numbers into
    `View.origins`; lines of one `threads` number are one line followed through the passes.
    """

    language: str
    lines: list[int]
    origins: list[int]
    threads: list[int]


@dataclass
class StepView:
    """One step: numbers of its texts (None if it failed), the rows of its comparison, its notes."""

    name: str
    kind: str
    seconds: float
    changed: bool
    before: int | None
    after: int | None
    rows: list[Row]
    notes: list[NoteView]
    error: str = ""
    options: str = ""
    place: str = ""
    mark: str = ""

    @property
    def added(self) -> int:
        """Lines that are new, those edited counted too."""
        return sum(1 for r in self.rows if r.kind in ("added", "edited"))

    @property
    def removed(self) -> int:
        """Lines that are gone, those edited counted too."""
        return sum(1 for r in self.rows if r.kind in ("removed", "edited"))

    @property
    def time(self) -> str:
        """How long it took; empty if that is not known, and for a comparison."""
        return "" if self.kind == "compare" or not self.seconds else format_seconds(self.seconds)


@dataclass
class View:
    """A record ready to be shown.

    `parents[t]` is the thread that thread t is a copy of, -1 if it is not one: unrolling a loop makes copies.
    """

    title: str
    steps: list[StepView]
    texts: list[Text]
    lines: list[str]
    origins: list[LineOrigins]
    sources: dict[str, list[str]]
    parents: list[int] = field(default_factory=list)
    sides: tuple[str, str] | None = None

    def text_lines(self, text: int | None) -> list[str]:
        """The lines of a text."""
        return [] if text is None else [self.lines[i] for i in self.texts[text].lines]

    def search(self, query: str) -> list[int]:
        """The numbers of the steps after which `query` occurs in the program, in order."""
        needle = query.lower()
        hits = {i for i, line in enumerate(self.lines) if needle in line.lower()}
        return [
            number
            for number, step in enumerate(self.steps)
            if step.after is not None and any(i in hits for i in self.texts[step.after].lines)
        ]


CALLS = "calls"  # stands for all schedule calls among the names of passes


def make_view(
    record: Record, only: Iterable[str] | None = None, marks: Sequence[str] = (), notation: str | None = None
) -> View:
    """Describe a record.

    Parameters
    ----------
    marks: for each step of the record a few words to show beside it, such as `equal to NumPy`.
    only: names of passes to show (with or without a prefix such as `tir.`); all by default. `calls` are the schedule
        calls. A name that did not run is a `TVMagicError`.
    notation: how programs are written: `tvmscript`, `classic` (TVM before TVMScript) or `cinn`. By default in what the
        user wrote, CINN's text (as long as it says the whole program) or TVMScript.
    """
    view = _Maker(record, notation).make(selected(record, only))
    mark_of = {id(step): mark for step, mark in zip(record.steps, marks)}
    for step, shown in zip(selected(record, only), view.steps):
        shown.mark = mark_of.get(id(step), "")
    return view


def selected(record: Record, only: Iterable[str] | None) -> list[Step]:
    """The steps of a record that are shown: those of the passes `only`, by default all."""
    if only is None:
        return list(record.steps)
    names = list(only)
    wanted = {record[name].name for name in names if name != CALLS}
    return [s for s in record.steps if s.name in wanted or (s.kind == "schedule" and CALLS in names)]


def written_in(record: Record) -> str:
    """The notation of a record that does not say it: CINN's if a program has the form of CINN's schedules."""
    programs = [p for step in record.steps for p in (step.before, step.after)]
    return "cinn" if any(is_cinn_form(getattr(p, "mod", p)) for p in programs) else "tvmscript"


class _Maker:
    """The tables that grow while the steps of a record are described."""

    def __init__(self, record: Record, notation: str | None) -> None:
        self.record = record
        self.whole = notation is None  # what is shown unasked must not leave anything out
        self.notation = notation or record.notation or written_in(record)
        self.instead = ""  # why TVMScript is shown, once this was said
        self.line_numbers: dict[str, int] = {}
        self.lines: list[str] = []
        self.origin_numbers: dict[LineOrigins, int] = {(): 0}
        self.origins: list[LineOrigins] = [()]
        self.texts: list[Text] = []
        self.of_object: dict[tuple[int, str], tuple[Any, int, str]] = {}
        self.of_text: dict[tuple[str, ...], int] = {}
        self.of_pair: dict[tuple[int, int], list[Row]] = {}
        self.made_of_lines: dict[int, tuple[int, ...]] = {}  # of texts that are made of another one
        self.threads = _Threads()

    def make(self, steps: list[Step]) -> View:
        views = [self.step(step) for step in steps]
        for text in self.texts:
            text.threads = [self.threads.find(t) for t in text.threads]
        parents = self.renumber_threads()
        sources = {name: text.splitlines() for name, text in self.record.sources.items()}
        return View(self.record.title, views, self.texts, self.lines, self.origins, sources, parents, self.record.sides)

    def step(self, step: Step) -> StepView:
        told = self.instead
        before, after = self.sides(step)
        rows = self.rows(before, after)
        why = [] if self.instead == told else [NoteView("notation", [self.instead], [], [[]])]
        options = ", ".join(f"{k}={plain(v)}" for k, v in step.options.items())
        called = step.kind == "schedule" and "(" not in step.name and bool(options)
        return StepView(
            f"{step.name}({options})" if called else step.name,
            step.kind,
            step.seconds,
            step.changed and step.error is None and before != after,
            before,
            after,
            rows,
            [*note_views(step.notes), *why],
            error=error_text(step.error) if step.error is not None else "",
            options="" if step.kind == "schedule" else options,
            place=place_of(step.span),
        )

    def sides(self, step: Step) -> tuple[int | None, int | None]:
        """The texts before and after. A pass on a schedule is shown by stages, a schedule call by loops."""
        from tvmagic.notebook.schedules import is_te_schedule, stages_program

        if step.error is not None:  # what the call was made on
            return self.pair(step.before, None)
        if step.kind == "schedule" or not is_te_schedule(step.before):
            return self.pair(step.before, step.after)
        before = self.add(stages_program(step.before))
        if is_te_schedule(step.after):
            return before, self.add(stages_program(step.after))
        if isinstance(step.after, Mapping):
            return before, self.add(stages_program(step.before, step.after))
        return before, self.pair(None, step.after)[1]

    def pair(self, before: Any, after: Any) -> tuple[int | None, int | None]:
        """The texts of two programs, both in TVMScript if the notation cannot say one of them; then the reason is kept.

        What the user wrote in CINN's text is in TVMScript from there on.
        """
        (left, why_left), (right, why_right) = self.text(before, self.notation), self.text(after, self.notation)
        why = why_left or why_right
        if not why:
            return left, right
        left, right = self.text(before, "tvmscript")[0], self.text(after, "tvmscript")[0]
        if self.whole:
            self.notation = "tvmscript"
        self.instead = self.instead or f"shown in TVMScript{' from here on' if self.whole else ''}: {why}"
        return left, right

    def text(self, program: Any, notation: str) -> tuple[int | None, str]:
        """The number of a program's text, and why that is in TVMScript if `notation` is another one."""
        if program is None:
            return None, ""
        known = self.of_object.get((id(program), notation))
        if known is not None:
            return known[1:]
        shown = program_of(program, notation, self.whole)
        number = self.add(shown)
        self.of_object[id(program), notation] = (program, number, shown.instead)
        return number, shown.instead

    def add(self, program: Program) -> int:
        key = (program.language, *program.lines)
        known = self.of_text.get(key)
        if known is not None:
            return known
        lines = [self.line(line) for line in program.lines]
        origins = [self.origin(o) for o in program.origins] if program.origins else [0] * len(lines)
        self.texts.append(Text(program.language, lines, origins, self.threads.fresh(len(lines))))
        self.of_text[key] = len(self.texts) - 1
        if program.made_of is not None:
            self.made_of_lines[len(self.texts) - 1] = program.made_of_lines
            self.link(self.texts[-1], program)
        return len(self.texts) - 1

    def link(self, text: Text, program: Program) -> None:
        """Join the lines of a text to those of the program that it was made of, if that is known here."""
        source = program_of(program.made_of)
        number = self.of_text.get((source.language, *source.lines))
        if number is None:
            self.place(text, program)
            return
        parent = self.texts[number]
        for line, at in enumerate(program.made_of_lines):
            if 0 < at <= len(parent.lines):
                self.threads.join(parent.threads[at - 1], text.threads[line])
                text.origins[line] = parent.origins[at - 1]

    def place(self, text: Text, program: Program) -> None:
        """Give the lines of a text the places in the cell of the program it was made of, which is shown in another notation."""
        made = [s.before for s in self.record if s.kind == "codegen" and isinstance(s.before, Node)]
        known = (node_program(before, "tvmscript") for before in made)
        source = next((p for p in known if "\n".join(p.lines) == str(program.made_of).rstrip("\n")), None)
        for line, at in enumerate(program.made_of_lines if source is not None else ()):
            if source is not None and 0 < at <= len(source.origins):
                text.origins[line] = self.origin(source.origins[at - 1])

    def line(self, text: str) -> int:
        number = self.line_numbers.setdefault(text, len(self.lines))
        if number == len(self.lines):
            self.lines.append(text)
        return number

    def origin(self, places: LineOrigins) -> int:
        number = self.origin_numbers.setdefault(places, len(self.origins))
        if number == len(self.origins):
            self.origins.append(places)
        return number

    def rows(self, before: int | None, after: int | None) -> list[Row]:
        """The comparison of two texts; lines that are paired become one thread."""
        if before is None or after is None:
            side, kind = (before, "same") if after is None else (after, "added")
            count = len(self.texts[side].lines) if side is not None else 0
            return [Row(kind, i if after is None else None, None if after is None else i) for i in range(count)]
        known = self.of_pair.get((before, after))
        if known is not None:
            return known
        a, b = self.texts[before], self.texts[after]
        if a.language != b.language:
            rows = [Row("added", None, i) for i in range(len(b.lines))]
        else:
            rows = diff_lines([self.lines[i] for i in a.lines], [self.lines[i] for i in b.lines])
        if before in self.made_of_lines and after in self.made_of_lines:
            self.thread_unplaced(before, after, rows)
        elif before != after and a.language == b.language:
            self.thread_on(a, b, rows)
        self.of_pair[before, after] = rows
        return rows

    def thread_on(self, a: Text, b: Text, rows: list[Row]) -> None:
        """Lines that are paired become one thread; a line that was copied has its copies as threads made of its own."""
        copied = copies(
            rows, a.origins, b.origins, [self.lines[i] for i in a.lines], [self.lines[i] for i in b.lines]
        )  # fmt: skip
        sources = set(copied.values())
        for row in rows:
            if row.before is None or row.after is None:
                continue
            if row.before in sources:
                copied[row.after] = row.before
            else:
                self.threads.join(a.threads[row.before], b.threads[row.after])
        for line, source in copied.items():
            self.threads.derive(a.threads[source], b.threads[line])

    def thread_unplaced(self, before: int, after: int, rows: list[Row]) -> None:
        """Join the paired lines of two texts that are made of one program, such as LLVM's: those that no line of it is known
        for. The others are of its lines already."""
        a, b = self.made_of_lines[before], self.made_of_lines[after]
        for row in rows if before != after else ():
            if row.before is not None and row.after is not None and a[row.before] == b[row.after] == 0:
                self.threads.join(self.texts[before].threads[row.before], self.texts[after].threads[row.after])

    def renumber_threads(self) -> list[int]:
        """Number the threads from 0 in the order of their appearance, a line by itself -1; gives their parents."""
        seen: dict[int, int] = {}
        for text in self.texts:
            for thread in text.threads:
                seen[thread] = seen.get(thread, 0) + 1
        made_of = {self.threads.find(t): self.threads.find(p) for t, p in self.threads.made_of.items()}
        related = {*made_of, *made_of.values()}
        shared = {t: n for n, t in enumerate(t for t, count in seen.items() if count > 1 or t in related)}
        for text in self.texts:
            text.threads = [shared.get(t, -1) for t in text.threads]
        return [shared.get(made_of.get(t, -1), -1) for t in shared]


class _Threads:
    """Disjoint sets of lines: which lines of different texts are one line followed on."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.made_of: dict[int, int] = {}

    def fresh(self, count: int) -> list[int]:
        start = len(self.parent)
        self.parent.extend(range(start, start + count))
        return list(range(start, start + count))

    def find(self, item: int) -> int:
        root = item
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[item] != root:
            self.parent[item], item = root, self.parent[item]
        return root

    def join(self, a: int, b: int) -> None:
        self.parent[self.find(b)] = self.find(a)

    def derive(self, a: int, b: int) -> None:
        """Say that the line b, which is in no set with another yet, is a copy of a."""
        self.made_of[b] = a


_NUMBER = re.compile(r"\d+")


def copies(
    rows: Sequence[Row], a_origins: list[int], b_origins: list[int], a_lines: list[str], b_lines: list[str]
) -> dict[int, int]:
    """The new lines of a comparison that are copies of an old one, as loops leave them that are unrolled or divided.

    A copy comes from the same lines of the cell as its source and is, numbers aside, the most like it.
    Returns the number of the source for that of each copy.
    """
    by_origin: dict[int, list[int]] = {}
    for number, origin in enumerate(a_origins):
        if origin:
            by_origin.setdefault(origin, []).append(number)
    shape = [_NUMBER.sub("0", line.strip()) for line in a_lines]
    found: dict[tuple[int, str], int | None] = {}
    result: dict[int, int] = {}
    for row in rows:
        if row.kind != "added" or row.after is None or b_origins[row.after] not in by_origin:
            continue
        key = (b_origins[row.after], _NUMBER.sub("0", b_lines[row.after].strip()))
        if key not in found:
            like, least = max((_alike(shape[n], key[1]), -n) for n in by_origin[key[0]][:_CANDIDATES])
            found[key] = -least if like >= LIKE else None
        if (source := found[key]) is not None:
            result[row.after] = source
    return result


_CANDIDATES = 40


def _alike(a: str, b: str) -> float:
    """How alike two lines are; those that do different things (a loop, a store) are not."""
    return likeness(a, b) if a.split(" ", 1)[0] == b.split(" ", 1)[0] or "=" in a and "=" in b else 0.0


# ---------------------------------------------------------------------------- notes and values


def note_views(notes: Iterable[Note]) -> list[NoteView]:
    """Notes in order; neighbours of one topic with the same facts become one table."""
    notes = list(notes)
    bounds = [note for note in notes if note.topic.startswith(PREFIX)]
    if bounds:
        return [*bound_views(bounds), *note_views(n for n in notes if not n.topic.startswith(PREFIX))]
    views: list[NoteView] = []
    for note in notes:
        columns = list(note.facts)
        row = [plain(v) for v in note.facts.values()]
        last = views[-1] if views else None
        topic = note.topic.rsplit(".", 1)[-1]  # `vectorize.access` heads a column as `access`
        topic = "expression" if topic in columns else topic  # `vectorize.rule` has its rule in another one
        if last is not None and last.topic == topic and last.columns == columns:
            last.texts.append(note.text)
            last.rows.append(row)
        else:
            views.append(NoteView(topic, [note.text], columns, [row]))
    return views


def bound_views(notes: list[Note]) -> list[NoteView]:
    """InferBound's notes: what each stage computes at a time, a picture of it, and the phases, folded."""
    sentences, svg = stage_sentences(notes), region_picture(notes)
    views = [NoteView("bounds", sentences)] if sentences else []
    if svg:
        views.append(NoteView("regions", [], svg=svg))
    return views + [NoteView("phase", [], phase.columns, phase.rows, fold=phase.title) for phase in phases(notes)]


def place_of(span: Any) -> str:
    """The place that asked for a step; empty for the plain cell around a magic such as %tune."""
    if span is None or "ipykernel" in span.source or span.source.startswith("<"):
        return ""
    return f"{span.source}, line {span.line}"


def plain(value: Any) -> str:
    """A fact as text: numbers and names as they are, mappings and sequences short."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{_key(k)}: {plain(v)}" for k, v in value.items()) or "none"
    if isinstance(value, tuple):
        return f"({', '.join(plain(v) for v in value)})"
    if isinstance(value, (list, set, frozenset)):
        mark = "; " if any(isinstance(v, Mapping) for v in value) else ", "
        return mark.join(plain(v) for v in value) or "none"
    return str(value)


def _key(key: Any) -> str:
    var = getattr(key, "var", key)
    return str(getattr(var, "name", var))


def error_text(error: BaseException) -> str:
    """What an error says, in one paragraph."""
    if isinstance(error, TVMagicError):
        return error.message + (f" (hint: {error.hint})" if error.hint else "")
    return f"{type(error).__name__}: {error}"


def format_seconds(seconds: float) -> str:
    """A time as people read it: `320 us`, `4.2 ms`, `1.3 s`."""
    for limit, factor, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (float("inf"), 1.0, "s")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{seconds} s"
