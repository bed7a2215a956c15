"""One description of a record, from which the widget, the static page and the terminal text are made.

A `View` holds the texts of all steps once each, line by line: every distinct line is stored once
and a text is a list of numbers of lines, so that a hundred passes over one program take little
more room than what they change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.ir import Node
from tvmagic.ir.schedulable import notation_of
from tvmagic.notebook.bound_notes import PREFIX, phases, region_picture, stage_sentences
from tvmagic.notebook.diff import Row, diff_lines
from tvmagic.notebook.program_text import program_of
from tvmagic.notebook.te_text import stages_program
from tvmagic.notebook.text import LineOrigins, Program, node_program
from tvmagic.passes import Note, Record, Step


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
    `View.origins`; `threads[i]` is a number into `View.groups`, -1 for a line that is in no other text.
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

    A thread is what is followed through the texts: a statement, a loop or a load, or a line of a text that has none.
    `groups[n]` are the threads of a line with number n; ~t stands for a thread t that was removed, such as a loop that
    was unrolled, and of which the line is what is left. `parents[t]` are the threads that thread t was made of: unrolling
    makes copies of one, fusing makes one of two.
    """

    title: str
    steps: list[StepView]
    texts: list[Text]
    lines: list[str]
    origins: list[LineOrigins]
    sources: dict[str, list[str]]
    groups: list[tuple[int, ...]] = field(default_factory=list)
    parents: list[tuple[int, ...]] = field(default_factory=list)
    sides: tuple[str, str] | None = None

    def text_lines(self, text: int | None) -> list[str]:
        """The lines of a text."""
        return [] if text is None else [self.lines[i] for i in self.texts[text].lines]

    def followed(self, group: int) -> set[int]:
        """The groups whose lines are marked when a line of `group` is followed: what it comes from, and what became of it."""
        own = {t for t in self.groups[group] if t >= 0}
        return self._groups_with(_reached(own, lambda t: self.parents[t]) | self._became(own))

    def made_by(self, step: StepView) -> set[int]:
        """The groups whose lines hold what a step made, such as the loops of a split, or what became of that."""
        if step.before is None or step.after is None:
            return set()
        before, after = [
            {t for g in self.texts[n].threads if g >= 0 for t in self.groups[g] if t >= 0}
            for n in (step.before, step.after)
        ]
        return self._groups_with(self._became(after - before))

    def _became(self, threads: set[int]) -> set[int]:
        made: dict[int, list[int]] = {}
        for thread, above in enumerate(self.parents):
            for parent in above:
                made.setdefault(parent, []).append(thread)
        return _reached(threads, lambda t: made.get(t, ()))

    def _groups_with(self, threads: set[int]) -> set[int]:
        return {n for n, group in enumerate(self.groups) if any((t if t >= 0 else ~t) in threads for t in group)}

    def search(self, query: str) -> list[int]:
        """The numbers of the steps after which `query` occurs in the program, in order."""
        needle = query.lower()
        hits = {i for i, line in enumerate(self.lines) if needle in line.lower()}
        return [
            number
            for number, step in enumerate(self.steps)
            if step.after is not None and any(i in hits for i in self.texts[step.after].lines)
        ]


def _reached(start: Iterable[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    found, todo = set(start), list(start)
    while todo:
        new = [t for t in following(todo.pop()) if t not in found]
        found.update(new)
        todo += new
    return found


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
    return "cinn" if any(notation_of(p) == "cinn" for p in programs) else "tvmscript"


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
        self.of_text: dict[tuple[Any, ...], int] = {}
        self.of_lines: dict[tuple[str, ...], list[int]] = {}
        self.of_pair: dict[tuple[int, int], list[Row]] = {}
        self.made_of_lines: dict[int, tuple[int, ...]] = {}  # of texts that are made of another one
        self.threads = _Threads(record.parents)
        self.last: int | None = None  # the text after the step before

    def make(self, steps: list[Step]) -> View:
        views = [self.step(step) for step in steps]
        tables = self.renumber_threads()
        sources = {name: text.splitlines() for name, text in self.record.sources.items()}
        return View(self.record.title, views, self.texts, self.lines, self.origins, sources, *tables, self.record.sides)

    def step(self, step: Step) -> StepView:
        told = self.instead
        before, after = self.sides(step)
        if before is not None and self.last not in (None, before) and self.record.sides is None:
            self.rows(self.last, before)  # what is between two steps, such as a function around a schedule's statements
        self.last = before if after is None else after
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
        if step.error is not None:  # what the call was made on
            return self.pair(step.before, None)
        if step.kind == "schedule" or not isinstance(step.before, te.schedule.Schedule):
            return self.pair(step.before, step.after)
        before = self.add(stages_program(step.before))
        if isinstance(step.after, te.schedule.Schedule):
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
        key = (program.language, *program.lines, *program.numbers)
        known = self.of_text.get(key)
        if known is not None:
            return known
        lines = [self.line(line) for line in program.lines]
        origins = [self.origin(o) for o in program.origins] if program.origins else [0] * len(lines)
        threads = [self.threads.of(numbers) for numbers in program.numbers or [()] * len(lines)]
        self.texts.append(Text(program.language, lines, origins, threads))
        self.of_text[key] = len(self.texts) - 1
        self.of_lines.setdefault((program.language, *program.lines), []).append(len(self.texts) - 1)
        if program.made_of is not None:
            self.made_of_lines[len(self.texts) - 1] = program.made_of_lines
            self.link(self.texts[-1], program)
        return len(self.texts) - 1

    def link(self, text: Text, program: Program) -> None:
        """Join the lines of a text to those of the program that it was made of, if that is known here."""
        source = program_of(program.made_of)
        numbers = self.of_lines.get((source.language, *source.lines))
        if numbers is None:
            self.place(text, program)
            return
        parent = self.texts[numbers[-1]]
        for line, at in enumerate(program.made_of_lines):
            if 0 < at <= len(parent.lines):
                if program.numbers and program.numbers[line]:  # a load by itself
                    self.threads.take_over(text.threads[line])
                else:
                    text.threads[line] = parent.threads[at - 1]
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
        """The comparison of two texts; paired lines that no origin joins become one thread."""
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
            self.keep_removed(a, b)
        self.of_pair[before, after] = rows
        return rows

    def thread_on(self, a: Text, b: Text, rows: list[Row]) -> None:
        """Join the paired lines that nothing else joins: their origins, if they have some, are not in the other text."""
        left, right = self.threads.relatives(a.threads), self.threads.relatives(b.threads)
        for row in rows:
            if row.before is None or row.after is None:
                continue
            p, q = a.threads[row.before], b.threads[row.after]
            if not self.threads.is_among(p, right) and not self.threads.is_among(q, left):
                self.threads.join(p, q)

    def keep_removed(self, a: Text, b: Text) -> None:
        """A loop or a block that is gone in `b` leads to what was inside it, in this text and all later ones."""
        left = self.threads.relatives(b.threads)
        lines = [self.lines[n] for n in a.lines]
        for number, thread in enumerate(a.threads):
            gone = [t for t in self.threads.members(thread) if thread in self.threads.groups and t not in left]
            if gone:
                for inner in _indented_below(lines, number):
                    self.threads.stand_for(a.threads[inner], gone)
        for thread in b.threads:
            self.threads.take_over(thread)

    def thread_unplaced(self, before: int, after: int, rows: list[Row]) -> None:
        """Join the paired lines of two texts that are made of one program, such as LLVM's: those that no line of it is known
        for. The others are of its lines already."""
        a, b = self.made_of_lines[before], self.made_of_lines[after]
        for row in rows if before != after else ():
            if row.before is not None and row.after is not None and a[row.before] == b[row.after] == 0:
                self.threads.join(self.texts[before].threads[row.before], self.texts[after].threads[row.after])

    def renumber_threads(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Number the threads and their groups from 0 in the order of their appearance; give both tables.

        A thread that is on one line alone and has no relatives is left out; a line without threads has group -1.
        """
        lines = [[(self.threads.members(t), self.threads.removed_of(t)) for t in text.threads] for text in self.texts]
        seen = Counter(t for text in lines for members, extra in text for t in dict.fromkeys((*members, *extra)))
        parents = {t: self.threads.parents_of(t) for t in self.threads.with_ancestors(seen)}
        related = {t for t, above in parents.items() if above} | {p for above in parents.values() for p in above}
        numbers: dict[int, int] = {}
        groups: dict[tuple[int, ...], int] = {}
        for text, found in zip(self.texts, lines):
            text.threads = []
            for members, extra in found:
                kept = [t for t in members if seen[t] > 1 or t in related]
                group = tuple(sorted([numbers.setdefault(t, len(numbers)) for t in kept]))
                group += tuple(sorted([~numbers.setdefault(t, len(numbers)) for t in extra if t not in kept]))
                text.threads.append(groups.setdefault(group, len(groups)) if group else -1)
        for t in parents:
            if t in related:
                numbers.setdefault(t, len(numbers))
        return list(groups), [tuple(sorted([numbers[p] for p in parents[t]])) for t in numbers]


def _indented_below(lines: Sequence[str], number: int) -> Iterator[int]:
    """The numbers of the lines that are indented below a line."""
    depth = len(lines[number]) - len(lines[number].lstrip())
    for inner in range(number + 1, len(lines)):
        text = lines[inner].lstrip()
        if text and len(lines[inner]) - len(text) <= depth:
            return
        yield inner


class _Threads:
    """Which lines of different texts are one line followed on.

    A line has a thread of its own, or one for each origin on it. Threads of lines without origins are joined to one, as
    disjoint sets; those of origins have the threads of the origins' parents above them.
    """

    def __init__(self, parents: Mapping[int, tuple[int, ...]]) -> None:
        self.parents = parents
        self.set_of: list[int] = []
        self.of_origin: dict[int, int] = {}
        self.origins: dict[int, list[int]] = {}  # by thread
        self.groups: dict[int, tuple[int, ...]] = {}
        self.removed: dict[int, dict[int, None]] = {}  # by thread: the threads around it that are no more
        self.left_of: dict[int, tuple[int, ...]] = {}  # by line: those that it is what is left of

    def fresh(self, count: int) -> list[int]:
        start = len(self.set_of)
        self.set_of.extend(range(start, start + count))
        return list(range(start, start + count))

    def of(self, origins: Sequence[int]) -> int:
        """A line with these origins."""
        line = self.fresh(1)[0]
        if origins:
            self.groups[line] = tuple([self.thread(origin) for origin in origins])
        return line

    def thread(self, origin: int) -> int:
        found = self.of_origin.get(origin)
        if found is None:
            found = self.of_origin[origin] = self.fresh(1)[0]
            self.origins[found] = [origin]
        return self.find(found)

    def find(self, item: int) -> int:
        root = item
        while self.set_of[root] != root:
            root = self.set_of[root]
        while self.set_of[item] != root:
            self.set_of[item], item = root, self.set_of[item]
        return root

    def join(self, a: int, b: int) -> None:
        """Say that two lines are one, and so are their statements; also their loads, if they have as many."""
        left, right = self.groups.get(a, (a,)), self.groups.get(b, (b,))
        pairs = list(zip(left, right))
        for p, q in pairs if len(left) == len(right) else pairs[:1]:
            old, new = self.find(p), self.find(q)
            if old != new:
                self.set_of[new] = old
                self.origins.setdefault(old, []).extend(self.origins.pop(new, ()))

    def members(self, line: int) -> tuple[int, ...]:
        """The threads of a line."""
        return tuple(dict.fromkeys([self.find(t) for t in self.groups.get(line, (line,))]))

    def stand_for(self, line: int, gone: Iterable[int]) -> None:
        """What is on a line is, from now on, what is left of these threads."""
        for thread in self.members(line):
            self.removed.setdefault(thread, {}).update(dict.fromkeys(gone))

    def take_over(self, line: int) -> None:
        """Let a line of a later text stand for removed threads as what it comes from does."""
        if self.removed and line in self.groups:
            above = self.with_ancestors(self.groups[line])
            self.left_of[line] = tuple(
                dict.fromkeys([gone for t in above for gone in self.removed.get(t, ()) if gone not in above])
            )

    def removed_of(self, line: int) -> tuple[int, ...]:
        """The removed threads that a line stands for."""
        return tuple(dict.fromkeys([self.find(t) for t in self.left_of.get(line, ())]))

    def parents_of(self, thread: int) -> list[int]:
        origins = self.origins.get(self.find(thread), ())
        return [self.thread(p) for origin in origins for p in self.parents.get(origin, ())]

    def with_ancestors(self, threads: Iterable[int]) -> list[int]:
        """The threads and all above them, in order."""
        found: dict[int, None] = {}
        todo = list(threads)[::-1]
        while todo:
            thread = self.find(todo.pop())
            if thread not in found:
                found[thread] = None
                todo += self.parents_of(thread)[::-1]
        return list(found)

    def relatives(self, lines: Iterable[int]) -> set[int]:
        """The threads of some lines, and those above them."""
        return set(self.with_ancestors([t for line in lines for t in self.groups.get(line, ())]))

    def is_among(self, line: int, threads: set[int]) -> bool:
        """Whether a line has one of these threads, or comes from one."""
        return not threads.isdisjoint(self.with_ancestors(self.groups.get(line, ())))


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
