"""What magics show: each result once as a widget or page for notebooks and as text for terminals."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tvmagic.files import write_file
from tvmagic.ir.hooks import provided
from tvmagic.notebook.colour import html_line
from tvmagic.notebook.html import escape, frame, page, sentence, table
from tvmagic.notebook.terminal import colours_wanted, paint_lines, text_table, view_text
from tvmagic.notebook.view import View, make_view, selected
from tvmagic.operators import Version
from tvmagic.passes import Record

__all__ = ["Beside", "Listing", "Parts", "Passes", "Picture", "Shown", "Table", "in_kernel"]


_LINES = 12  # of a step, in a terminal


def in_kernel() -> bool:
    """Whether the code runs in a notebook's kernel, which can show widgets."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def definition(name: str, text: str) -> str:
    """What tells the definition of an operator from others of its name: `text` is that of its cell."""
    return f"{name}:{hashlib.sha256(text.partition(chr(10))[2].encode()).hexdigest()[:8]}"


def about(output: str, of: str, attribute: str = "data-of") -> str:
    """HTML that says which definition it is about."""
    return output.replace("<div ", f'<div {attribute}="{escape(of)}" ', 1) if of else output


class Shown:
    """Something to show: subclasses give `html()` (with `styled`) and `text(colour)`."""

    title = ""
    of = ""  # the definition that it is about, as `definition` gives it; it is out of date when that has changed

    def html(self, styled: bool = True) -> str:
        raise NotImplementedError

    def text(self, colour: bool | None = None) -> str:
        raise NotImplementedError

    def save(self, path: str | Path) -> Path:
        """Write a page that needs neither a kernel nor scripts."""
        return write_file(path, page(self.html(), self.title or "tvmagic"))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        if in_kernel():
            return {"text/html": about(self.html(), self.of), "text/plain": self.text(colour=False)}
        return {"text/plain": self.text()}

    def __repr__(self) -> str:
        return self.text(colour=False)


class Passes(Shown):
    """A record of passes: a stepper in a notebook, a page where there are no widgets, else text."""

    def __init__(
        self,
        record: Record,
        only: Iterable[str] | None = None,
        show_unchanged: bool = True,
        marks: Sequence[str] = (),
        notation: str | None = None,
    ) -> None:
        self.record, self.only = record, None if only is None else list(only)
        self.version: Version | None = None  # that the record is of, if its programs may be edited in the page
        self.view: View = make_view(record, self.only, marks, notation)
        self.title = self.view.title
        self.show_unchanged = show_unchanged
        cells = [(n.removeprefix("tensor "), t) for n, t in record.sources.items() if n.startswith("tensor ")]
        self.of = definition(*cells[0]) if len(cells) == 1 else ""
        self._stepper: Any = None

    def stepper(self) -> Any:
        """The stepper of this result, made when it is first asked for."""
        if self._stepper is None:
            from tvmagic.notebook.stepper import Stepper

            self._stepper = Stepper(self.view, self.show_unchanged)
        return self._stepper

    def html(self, styled: bool = True) -> str:
        """The timeline as HTML that needs no kernel: the stepper where scripts run, else foldable parts."""
        return self.stepper().html()

    def text(self, colour: bool | None = None) -> str:
        """The timeline as text; coloured by default if the terminal can show it."""
        return view_text(self.view, colour, self.show_unchanged)

    def brief_text(self) -> str:
        """The timeline as a terminal shows it at the end of a cell: some lines of each step, all of those asked for by name."""
        if self.only is not None:
            return self.text()
        name = "" if self.version is None else f"{self.version.operator.name}:{self.version.name}"
        rest = f"`%passes {name} -p PASS` shows a step in full, `%passes {name} --text` all of them" if name else ""
        return view_text(self.view, None, self.show_unchanged, _LINES, rest)

    def search(self, text: str) -> list[str]:
        """The names of the steps after which `text` occurs in the program."""
        return [self.view.steps[i].name for i in self.view.search(text)]

    def __len__(self) -> int:
        return len(self.view.steps)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        if not in_kernel():
            return {"text/plain": self.brief_text()}
        bundle = self.stepper()._repr_mimebundle_()
        if self.version is not None:
            places = [self.record.steps.index(step) for step in selected(self.record, self.only)]
            provided("step editor")(self.version, self.record, places, self.stepper().data["key"])
        return {**bundle, "text/html": about(bundle["text/html"], self.of)}


class Table(Shown):
    """Rows under named columns; `notes` are sentences below."""

    def __init__(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", notes: Sequence[str] = ()
    ) -> None:
        self.columns, self.rows, self.title, self.notes = list(columns), [list(r) for r in rows], title, list(notes)

    def html(self, styled: bool = True) -> str:
        notes = "".join(f'<div class="tm-meta">{sentence(n)}</div>' for n in self.notes)
        rows = table(self.columns, self.rows) if self.rows else ""
        return frame(self.heading() + rows + notes, self.title or "Table", styled)

    def heading(self) -> str:
        """The title as HTML; empty without one."""
        return f'<div class="tm-title">{sentence(self.title)}</div>' if self.title else ""

    def text(self, colour: bool | None = None) -> str:
        rows = [text_table(self.columns, self.rows)] if self.rows else []
        return "\n".join([*([self.title] if self.title else []), *rows, *self.notes])


class Listing(Shown):
    """A text in a language: assembly, LLVM IR, a program."""

    def __init__(self, lines: str | Sequence[str], language: str, title: str = "") -> None:
        self.lines = lines.rstrip("\n").split("\n") if isinstance(lines, str) else list(lines)
        self.language, self.title = language, title

    def html(self, styled: bool = True) -> str:
        rows = "".join(f'<span class="tm-row">{html_line(line, self.language)}\n</span>' for line in self.lines)
        head = f'<div class="tm-title">{sentence(self.title)}</div>' if self.title else ""
        label = escape(self.title or "Program")
        body = f'<div class="tm-scroll" style="max-height:36em" tabindex="0" role="group" aria-label="{label}"><pre>{rows}</pre></div>'
        return frame(head + body, self.title or "Program", styled)

    def text(self, colour: bool | None = None) -> str:
        wanted = colours_wanted() if colour is None else colour
        return "\n".join(paint_lines(self.lines, self.language, wanted))

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Beside(Shown):
    """Two listings side by side; in a terminal as two columns."""

    def __init__(self, left: Listing, right: Listing, title: str = "") -> None:
        self.left, self.right, self.title = left, right, title

    def html(self, styled: bool = True) -> str:
        style = "flex:1 1 24em;min-width:0"
        columns = "".join(f'<div style="{style}">{part.html(styled=False)}</div>' for part in (self.left, self.right))
        body = f'<div style="display:flex;flex-wrap:wrap;gap:1em">{columns}</div>'
        return frame(body, self.title or "Two listings", styled)

    def text(self, colour: bool | None = None) -> str:
        columns = [[part.title, *(line.expandtabs(14) for line in part.lines)] for part in (self.left, self.right)]
        width = max(map(len, columns[0])) + 3
        return "\n".join(f"{a:{width}}{b}".rstrip() for a, b in zip_longest(*columns, fillvalue=""))


class Picture(Shown):
    """A drawing as SVG, with the same said in words for terminals and readers."""

    def __init__(self, svg: str, words: str, title: str = "") -> None:
        self.svg, self.words, self.title = svg, words, title

    def html(self, styled: bool = True) -> str:
        head = f'<div class="tm-title">{sentence(self.title)}</div>' if self.title else ""
        return frame(f'{head}<div style="overflow-x:auto">{self.svg}</div>', self.title or "Picture", styled)

    def text(self, colour: bool | None = None) -> str:
        return f"{self.title}\n{self.words}" if self.title else self.words


class Parts(Shown):
    """Several results one under the other."""

    def __init__(self, *parts: Shown, title: str = "") -> None:
        self.parts, self.title = parts, title

    def html(self, styled: bool = True) -> str:
        return frame("".join(p.html(styled=False) for p in self.parts), self.title or "Results", styled)

    def text(self, colour: bool | None = None) -> str:
        return "\n\n".join(p.text(colour) for p in self.parts)
