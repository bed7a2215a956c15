"""Costs beside the lines of a program, and of two versions beside each other."""

from __future__ import annotations

from typing import Any

from tvmagic.eval.cost import Cost, ProgramCost, count, human
from tvmagic.ir import Stmt
from tvmagic.notebook.colour import html_line
from tvmagic.notebook.html import escape, frame
from tvmagic.notebook.results import Parts, Shown, Table
from tvmagic.operators import Version
from tvmagic.script import script_with_spans

_BAR = 12  # characters of a whole bar
_NUMBERS = 20  # characters for operations and bytes


def program_cost(version: Version) -> tuple[Any, ProgramCost]:
    """The lowered function of a version and what it costs."""
    func = next(iter(version.lower().functions.values()))
    return func, count(func)


def cost_rows(cost: ProgramCost) -> list[tuple[str, str]]:
    """What is counted of a program, by name."""
    total = cost.total
    scopes = dict.fromkeys([*total.loaded, *total.stored])
    rows = [("arithmetic", human(total.arithmetic)), ("integer operations", human(total.integer))]
    for scope in scopes:
        rows.append((f"bytes loaded, {scope}", human(total.loaded.get(scope, 0))))
        rows.append((f"bytes stored, {scope}", human(total.stored.get(scope, 0))))
    rows += [
        ("vector lanes", str(cost.lanes)),
        ("parallel width", str(cost.parallel)),
        ("bytes allocated", human(cost.allocated)),
    ]
    return rows


def cost_view(version: Version) -> Shown:
    """The lowered program with a bar for the cost of each line, and the totals."""
    func, cost = program_cost(version)
    totals = Table(["counted", "in all"], cost_rows(cost), f"{version.operator.name} ({version.name}): cost")
    return Parts(totals, CostListing(func, cost), title="Cost")


_LEGEND = (
    "A bar is the share of a line in all that the program does: operations, and elements of four bytes loaded and stored. "
    "A loop has none: what it repeats is counted at its statements, over all iterations."
)


_WIDTH = "clamp(0em, (100vw - 40em) * 99, 8em)"  # of a bar: none on a telephone, where the program needs the place


class CostListing(Shown):
    """A program with what each line costs, over all iterations, as a bar and in numbers beside it."""

    def __init__(self, func: Any, cost: ProgramCost, title: str = "Program with costs") -> None:
        text, spans = script_with_spans(func)
        self.lines = text.rstrip("\n").split("\n")
        self.costs = [Cost() for _ in self.lines]
        for place in spans.places:
            number = place.span.line - 1
            if isinstance(place.node, Stmt) and number < len(self.lines):
                self.costs[number] += cost.own_of(place.node)
        self.whole = max(1, sum(c.weight for c in self.costs))
        self.title = title

    def _share(self, cost: Cost) -> float:
        return cost.weight / self.whole

    @staticmethod
    def _cost_text(cost: Cost) -> str:
        return f"{human(cost.arithmetic)} op, {human(cost.touched, 'B')}" if cost.weight else ""

    def html(self, styled: bool = True) -> str:
        rows = []
        for line, cost in zip(self.lines, self.costs):
            share = self._share(cost)
            width = f"{max(share * 100, 1 if share else 0):.0f}"
            ground = ";background:var(--tm-panel)" * (share > 0)
            bar = (
                f'<span style="display:inline-block;width:{_WIDTH};margin-right:.5em{ground}" aria-hidden="true">'
                f'<span style="display:inline-block;height:.8em;width:{width}%;background:var(--tm-accent)"></span></span>'
                f'<span style="display:inline-block;width:{_NUMBERS}ch;margin-right:1em;text-align:right;color:var(--tm-muted)">'
                f"{escape(self._cost_text(cost))}</span>"
            )
            rows.append(f'<span class="tm-row">{bar}{html_line(line, "tvmscript")}\n</span>')
        box = (
            '<div class="tm-scroll" style="max-height:32em" tabindex="0" role="group" aria-label="Program with costs">'
        )
        head = f'<div class="tm-title">{escape(self.title)}</div><p style="color:var(--tm-muted)">{escape(_LEGEND)}</p>'
        return frame(f"{head}{box}<pre>{''.join(rows)}</pre></div>", self.title, styled)

    def text(self, colour: bool | None = None) -> str:
        def beside(cost: Cost) -> str:
            return f"{('#' * round(self._share(cost) * _BAR)).ljust(_BAR)} {self._cost_text(cost).rjust(_NUMBERS)}"

        return "\n".join([self.title, _LEGEND, *(f"{beside(c)}  {line}" for line, c in zip(self.lines, self.costs))])
