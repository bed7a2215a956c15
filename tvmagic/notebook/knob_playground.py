"""The playground: a schedule cell whose knobs are sliders; moving one redraws everything."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from tvmagic.errors import TVMagicError
from tvmagic.eval.cost import count
from tvmagic.lazy import cached_property
from tvmagic.notebook.costs import cost_rows
from tvmagic.notebook.errors import error_lines
from tvmagic.notebook.html import escape, frame, theme, view_html
from tvmagic.notebook.live import live_html
from tvmagic.notebook.results import Listing, Shown, Table
from tvmagic.notebook.stepper import packed_view
from tvmagic.notebook.view import View, format_seconds, make_view
from tvmagic.operators import Operator, Source, Version
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.knobs import Knob, Knobs
from tvmagic.operators.measure import Timing, measure
from tvmagic.operators.races import refuse_races
from tvmagic.operators.scheduling import blame, schedule_from_cell
from tvmagic.passes import Record, recording

# Seconds of measuring for one redrawing; a call that takes longer is measured once.
_MEASURE = 0.02


def playground(
    op: Operator, source: Source, name: str = "default", namespace: Mapping[str, Any] | None = None
) -> Playground:
    """Sliders for the knobs of a schedule cell, with what becomes of the operator at their values."""
    return Playground(op, source, name, namespace or {})


class _Drawn:
    """What becomes of the operator at some values of the knobs; each part is made when it is first asked for."""

    def __init__(
        self, version: Version | None, record: Record, error: TVMagicError | None, found: dict[str, Knob]
    ) -> None:
        self.version, self.record, self.error, self.found = version, record, error, found

    @cached_property
    def view(self) -> View:
        return make_view(self.record)

    @cached_property
    def packed(self) -> dict[str, Any]:
        return packed_view(self.view)

    @cached_property
    def costs(self) -> list[tuple[str, str]]:
        assert self.version is not None
        return cost_rows(count(next(iter(self.version.lower().functions.values()))))

    @cached_property
    def assembly(self) -> str:
        if self.version is None or self.error is not None:
            return ""
        return Listing(self.version.build().get_source("asm"), "asm").html()


class _Failure(Shown):
    """An error in the place of a result."""

    def __init__(self, error: TVMagicError | None) -> None:
        self.lines = error_lines(error, colour=False) if error is not None else []

    def html(self, styled: bool = True) -> str:
        lines = "".join(f"<div class='tm-error'><pre>{escape(line)}</pre></div>" for line in self.lines)
        return frame(lines, "Error", styled)

    def text(self, colour: bool | None = None) -> str:
        return "\n".join(self.lines)


class Playground(anywidget.AnyWidget):
    """Sliders above a stepper, costs, measured time and assembly.

    What is shown is HTML that is live in the page, so that a saved notebook shows it too. This object is the model
    by which the page reaches the kernel; it is not displayed itself. `drawn` is what the page shows, `turned` the
    knob that was turned last there, as its name and the number of the choice.

    `values` are the knobs' values; setting one by `turn(name, value)` does what its slider does.
    `seconds` is how long the last redrawing took. Values that were drawn before are only measured again.
    """

    _esm = Path(__file__).parent / "static" / "link.js"
    key = traitlets.Unicode().tag(sync=True)
    drawn = traitlets.Dict().tag(sync=True)
    turned = traitlets.List().tag(sync=True)

    def __init__(self, op: Operator, source: Source, name: str, namespace: Mapping[str, Any]) -> None:
        self.op, self.source, self.version_name, self.namespace = op, source, name, dict(namespace)
        self.knobs = Knobs(source)
        self.inputs = make_inputs(op, sizes=256)
        self.outputs: Any = None
        self.seconds = 0.0
        self.timing: Timing | None = None
        self._known: dict[str, _Drawn] = {}
        self._drawn = self._at_values()
        super().__init__(key=uuid.uuid4().hex, drawn=self._draw())
        self.on_msg(lambda *_: self.send("here"))  # the page asks whether the kernel is there

    @property
    def values(self) -> Mapping[str, Any]:
        return self.knobs.chosen()

    @property
    def record(self) -> Record:
        """The schedule calls and passes at the present values."""
        return self._drawn.record

    @property
    def error(self) -> TVMagicError | None:
        """Why there is no result at the present values."""
        return self._drawn.error

    @property
    def version(self) -> Version | None:
        """The operator with the schedule at the present values; None if that failed."""
        return self._drawn.version

    def turn(self, name: str, value: Any) -> None:
        """Set a knob and redraw; `name` and `value` are those of the cell."""
        if name not in self.knobs.found or value not in self.knobs.found[name].choices:
            known = ", ".join(f"`{n}`" for n in self.knobs.found)
            raise TVMagicError(
                f"there is no knob `{name}` with the value {value!r}",
                hint=f"the knobs are {known}",
                code="knob.unknown_value",
            )
        start = time.perf_counter()
        self.knobs.values[name] = value
        self._drawn = self._at_values()
        self.drawn = self._draw()
        self.seconds = time.perf_counter() - start

    @traitlets.observe("turned")
    def _turned(self, change: Any) -> None:
        """A slider was moved in the page."""
        name, number = change["new"]
        if name in self.knobs.found and 0 <= number < len(self.knobs.found[name].choices):
            self.turn(name, self.knobs.found[name].choices[number])

    # ------------------------------------------------------------------------ what is shown

    def _at_values(self) -> _Drawn:
        """What is known for the present values; if nothing is, the cell is run."""
        wanted = repr(self.knobs.values)
        drawn = self._known.get(wanted) or self._run()
        self.knobs.found = drawn.found
        self.knobs.values = dict(self.knobs.chosen())
        self._known[wanted] = self._known[repr(self.knobs.values)] = drawn
        return drawn

    def _run(self) -> _Drawn:
        """Run the cell and lower."""
        before = self.knobs.found
        self.knobs.begin()
        record = Record(title=self.op.name)
        given = {"knob": self.knobs.knob}
        try:
            version = schedule_from_cell(self.op, self.source, self.version_name, self.namespace, record, given)
            with recording(record=record):
                version.lower()
            version.record = record
            refuse_races(version)
            return _Drawn(version, record, None, self.knobs.found)
        except TVMagicError as error:
            blame(record, error)
            # the knobs that the cell did not come to stay, so that they can be turned back
            return _Drawn(None, record, error, {**before, **self.knobs.found})

    def _draw(self) -> dict[str, Any]:
        """What the page shows at the present values: the knobs, the costs and the time, the passes, the assembly."""
        drawn = self._drawn
        if drawn.version is not None:
            try:
                self.timing = self._measured(drawn.version)
                self.op.add_version(drawn.version)
            except TVMagicError as error:
                drawn.error = error
        chosen = self.knobs.chosen()
        return {
            "knobs": [
                [n, [str(c) for c in k.choices], k.choices.index(chosen[n])] for n, k in self.knobs.found.items()
            ],
            "facts": self._facts(drawn).html(),
            "stepper": drawn.packed,
            "assembly": drawn.assembly if drawn.error is None else "",
        }

    def _facts(self, drawn: _Drawn) -> Shown:
        """The measured time and what is counted, or the error."""
        if drawn.error is not None or self.timing is None:
            return _Failure(drawn.error)
        columns = ["measured time", *(n for n, _ in drawn.costs)]
        row = [format_seconds(self.timing.median), *(v for _, v in drawn.costs)]
        return Table(columns, [row])

    def _measured(self, version: Version) -> Timing:
        """The time of a version, measured for a short while on inputs and outputs that stay the same."""
        if self.outputs is None:
            self.outputs = version(*self.inputs)
        version.build()
        call = lambda: version(*self.inputs, out=self.outputs)  # noqa: E731
        start = time.perf_counter()
        call()
        once = time.perf_counter() - start
        return Timing(once, once, 1) if once > _MEASURE else measure(call, seconds=_MEASURE, repeats=5)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        knobs = ", ".join(f"{n} = {v}" for n, v in self.knobs.chosen().items())
        text = f"Playground of {self.op.name}: {knobs}\n{self._facts(self._drawn).text(colour=False)}"
        passes = view_html(self._drawn.view, styled=False)
        static = f"<div>{escape(knobs)}</div>{self._facts(self._drawn).html(styled=False)}{passes}"
        data = {"key": self.key, "title": self.op.name, "theme": theme(), "drawn": self.drawn}
        return {
            "text/html": live_html("playground", data, static, f"Playground of {self.op.name}"),
            "text/plain": text,
        }
