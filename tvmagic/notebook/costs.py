"""Costs beside the lines of a program, and of two versions beside each other."""

from __future__ import annotations

from typing import Any

from tvmagic.eval.cost import Cost, ProgramCost, count
from tvmagic.ir import For, Stmt
from tvmagic.notebook.colour import html_line
from tvmagic.notebook.html import escape, frame
from tvmagic.notebook.results import Parts, Shown, Table
from tvmagic.operators import Version
from tvmagic.script import script_with_spans

__all__ = ["CostListing", "cost_rows", "cost_view", "human", "program_cost"]

_BAR = 12


def human(number: float) -> str:
    """`12.3 M`: a count as people read it."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"


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


class CostListing(Shown):
    """A program with what each line costs, as a bar beside it."""

    def __init__(self, func: Any, cost: ProgramCost, title: str = "Program with costs") -> None:
        text, spans = script_with_spans(func)
        self.lines = text.rstrip("\n").split("\n")
        self.costs: list[Cost | None] = [None] * len(self.lines)
        for place in spans.places:
            number = place.span.line - 1
            loop = isinstance(place.node, For)
            if isinstance(place.node, Stmt) and number < len(self.lines) and (self.costs[number] is None or loop):
                self.costs[number] = cost.of_statement(place.node)
        self.whole = max(1, cost.total.weight)
        self.title = title

    def _share(self, cost: Cost | None) -> float:
        return cost.weight / self.whole if cost is not None else 0.0

    def html(self, styled: bool = True) -> str:
        rows = []
        for line, cost in zip(self.lines, self.costs):
            share = self._share(cost)
            width = f"{max(share * 100, 1 if share else 0):.0f}"
            words = (
                f"{human(cost.arithmetic)} operations, {human(cost.touched)} bytes"
                if cost is not None and share
                else ""
            )
            bar = (
                f'<span style="display:inline-block;width:8em;margin-right:1em;background:var(--tm-panel)" title="{escape(words)}">'
                f'<span style="display:inline-block;height:.8em;width:{width}%;background:var(--tm-accent)"></span>'
                f'<span class="tm-sr">{escape(words)}</span></span>'
            )
            rows.append(f'<span class="tm-row">{bar}{html_line(line, "tvmscript")}\n</span>')
        box = (
            '<div class="tm-scroll" style="max-height:32em" tabindex="0" role="group" aria-label="Program with costs">'
        )
        head = f'<div class="tm-title">{escape(self.title)}</div>'
        return frame(f"{head}{box}<pre>{''.join(rows)}</pre></div>", self.title, styled)

    def text(self, colour: bool | None = None) -> str:
        def bar(cost: Cost | None) -> str:
            return ("#" * round(self._share(cost) * _BAR)).ljust(_BAR)

        return "\n".join([self.title, *(f"{bar(cost)} {line}" for line, cost in zip(self.lines, self.costs))])
