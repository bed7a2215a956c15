"""The playground: a schedule cell whose knobs are sliders; moving one redraws everything."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import ipywidgets

from tvmagic.errors import TVMagicError
from tvmagic.notebook.costs import cost_rows
from tvmagic.notebook.errors import error_lines
from tvmagic.notebook.html import escape, frame
from tvmagic.notebook.results import Listing, Table
from tvmagic.notebook.stepper import Stepper, packed_view
from tvmagic.notebook.view import format_seconds, make_view
from tvmagic.operators import Operator, Source, Version
from tvmagic.operators.cost import count
from tvmagic.operators.knobs import Knobs
from tvmagic.operators.measure import Timing, measure
from tvmagic.operators.scheduling import schedule_from_cell
from tvmagic.passes import Record, recording

__all__ = ["Playground", "playground"]


def playground(
    op: Operator, source: Source, name: str = "default", namespace: Mapping[str, Any] | None = None
) -> Playground:
    """Sliders for the knobs of a schedule cell, with what becomes of the operator at their values."""
    return Playground(op, source, name, namespace or {})


class Playground(ipywidgets.VBox):
    """Sliders above a stepper, costs, measured time and assembly.

    `values` are the knobs' values; setting one by `turn(name, value)` does what its slider does.
    `seconds` is how long the last redrawing took.
    """

    def __init__(self, op: Operator, source: Source, name: str, namespace: Mapping[str, Any]) -> None:
        self.op, self.source, self.version_name, self.namespace = op, source, name, dict(namespace)
        self.knobs = Knobs(source)
        self.inputs = op.random_inputs(sizes=256)
        self.seconds = 0.0
        self.timing: Timing | None = None
        self.record = Record(title=op.name)
        self._known: dict[tuple[Any, ...], Version] = {}
        self._compute()
        self.stepper = Stepper(make_view(self.record))
        self.facts = ipywidgets.HTML()
        self.assembly = ipywidgets.HTML()
        self.sliders = {n: self._slider(n) for n in self.knobs.found}
        fold = ipywidgets.Accordion([self.assembly], titles=("Assembly",))
        self._draw()
        super().__init__([*self.sliders.values(), self.facts, self.stepper, fold])

    @property
    def values(self) -> Mapping[str, Any]:
        return self.knobs.chosen()

    def turn(self, name: str, value: Any) -> None:
        """Set a knob and redraw; `name` and `value` are those of the cell."""
        if name not in self.knobs.found or value not in self.knobs.found[name].choices:
            known = ", ".join(f"`{n}`" for n in self.knobs.found)
            raise TVMagicError(f"there is no knob `{name}` with the value {value!r}", hint=f"the knobs are {known}")
        self.sliders[name].value = value

    def _slider(self, name: str) -> Any:
        knob = self.knobs.found[name]
        slider = ipywidgets.SelectionSlider(
            options=[(str(c), c) for c in knob.choices],
            value=self.knobs.chosen()[name],
            description=name,
            continuous_update=False,
            style={"description_width": "initial"},
        )
        slider.observe(lambda change: self._turned(name, change["new"]), "value")
        return slider

    def _turned(self, name: str, value: Any) -> None:
        start = time.perf_counter()
        self.knobs.values[name] = value
        self._compute()
        self.stepper.view = make_view(self.record)
        self.stepper.data = packed_view(self.stepper.view)
        self._draw()
        self.seconds = time.perf_counter() - start

    # ------------------------------------------------------------------------ what is shown

    def _compute(self) -> None:
        """Run the cell at the present values, lower, build and measure."""
        self.knobs.begin()
        self.record = Record(title=self.op.name)
        self.error: TVMagicError | None = None
        self.version: Version | None = None
        try:
            version = schedule_from_cell(
                self.op, self.source, self.version_name, self.namespace, self.record, {"knob": self.knobs.knob}
            )
            with recording(record=self.record):
                version.lower()
            key = tuple(self.knobs.chosen().items())
            version = self._known.setdefault(key, version)
            version.build()
            outputs = version(*self.inputs)
            self.timing = measure(lambda: version(*self.inputs, out=outputs), seconds=0.02, repeats=5)
            version.record = self.record
            self.version = version
            self.op.add_version(version)
        except TVMagicError as error:
            self.error = error

    def _draw(self) -> None:
        if self.error is not None or self.version is None or self.timing is None:
            lines = error_lines(self.error, colour=False) if self.error is not None else []
            words = "".join(f"<div class='tm-error'><pre>{escape(line)}</pre></div>" for line in lines)
            self.facts.value = frame(words, "Error")
            return
        cost = count(next(iter(self.version.lower().functions.values())))
        row = [format_seconds(self.timing.median), *(v for _, v in cost_rows(cost))]
        table = Table(["measured time", *(n for n, _ in cost_rows(cost))], [row])
        self.facts.value = table.html()
        self.assembly.value = Listing(self.version.build().get_source("asm"), "asm").html()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        knobs = ", ".join(f"{n} = {v}" for n, v in self.knobs.chosen().items())
        static = frame(f"<div>{escape(knobs)}</div>", "Knobs") + self.facts.value
        return {**data, "text/html": static, "text/plain": f"Playground of {self.op.name}: {knobs}"}, metadata
