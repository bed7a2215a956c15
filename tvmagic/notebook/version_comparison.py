"""Two versions side by side: every pass, the first at which they diverge, and the costs of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvmagic.errors import TVMagicError
from tvmagic.explain import differences
from tvmagic.ir.schedulable import Schedulable
from tvmagic.notebook.commands import bench_table, record_of, version_of
from tvmagic.notebook.costs import CostListing, cost_rows, program_cost
from tvmagic.notebook.program_text import program_of
from tvmagic.notebook.results import Parts, Passes, Shown, Table
from tvmagic.operators import Operator, Version
from tvmagic.operators.measure import bench
from tvmagic.passes import Record, Step


def label(version: Version) -> str:
    """`dense:V2`"""
    return f"{version.operator.name}:{version.name}"


def side_by_side(first: Version, second: Version) -> Record:
    """A record whose steps hold the program of the first version before, of the second after, by pass."""
    records = [record_of(v) for v in (first, second)]
    a, b = (programs_by_pass(made) for made in records)
    record = Record(title=f"{label(first)} against {label(second)}", sides=(label(first), label(second)))
    for made in records:
        record.parents.update(made.parents)
    if first.operator.notation == second.operator.notation:
        record.notation = first.operator.notation
    for version in (first, second):
        if version.record is not None:
            record.sources.update(version.record.sources)
    for name in [n for n in a if n in b]:
        left, right = a[name], b[name]
        changed = program_of(left).lines != program_of(right).lines
        record.steps.append(Step(name, "compare", left, right, 0.0, changed))
    return record


def programs_by_pass(record: Record) -> dict[str, Any]:
    """The program after each pass that made one; a pass that runs several times by number."""
    found: dict[str, Any] = {}
    for step in record:
        if (
            step.kind == "schedule"
            or step.after is None
            or isinstance(step.after, Schedulable)
            or isinstance(step.after, dict)
        ):
            continue
        name, number = step.name, 2
        while name in found:
            name, number = f"{step.name} ({number})", number + 1
        found[name] = step.after
    return found


def first_difference(record: Record) -> Step | None:
    """The first pass after which the two programs differ."""
    return next((step for step in record if step.changed), None)


class Comparison(Parts):
    """What `compare` gives: `record`, the name of the `first` pass at which they diverge, the costs."""

    def __init__(self, record: Record, parts: list[Shown]) -> None:
        self.record = record
        found = first_difference(record)
        self.first = found.name if found is not None else None
        self.passes = Passes(record)
        words = f"they diverge at {self.first}" if self.first else "they are the same program after every pass"
        super().__init__(*parts, title=f"{record.title}: {words}")

    def html(self, styled: bool = True) -> str:
        from tvmagic.notebook.html import escape, frame

        body = f'<div class="tm-title">{escape(self.title)}</div>' + "".join(p.html(styled=False) for p in self.parts)
        return frame(body + self.passes.html(), self.title, styled)

    def text(self, colour: bool | None = None) -> str:
        return "\n\n".join([self.title, *(p.text(colour) for p in self.parts), self.passes.text(colour)])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from tvmagic.notebook.results import in_kernel

        if in_kernel():
            from IPython.display import display

            display(Parts(Table([], [], self.title), *self.parts, title=self.title))
            return self.passes._repr_mimebundle_()
        parts = [self.title, *(p.text() for p in self.parts), self.passes.brief_text()]
        return {"text/plain": "\n\n".join(parts)}


def compare(first: Operator | Version, second: Operator | Version, time: bool = False) -> Comparison:
    """Compare two versions: the first pass at which they diverge, every pass and the costs of both.

    An operator stands for the version in use.

    `time` measures both on the same inputs, if they are versions of one operator. Raises `TVMagicError` for a
    version with itself.
    """
    first, second = version_of(first), version_of(second)
    if first is second or (first.operator is second.operator and first.name == second.name):
        op, others = first.operator, [n for n in dict.fromkeys(["plain", *first.operator.versions]) if n != first.name]
        raise TVMagicError(
            f"both are `{label(first)}`; `{op.name}` alone is its version in use",
            hint=f"name two versions: `%compare {op.name}:{others[-1]} {label(first)}`"
            if others
            else f"there is no other version yet: `%auto {op.name}`, or a %%schedule cell, makes one",
            code="compare.same_version",
        )
    record = side_by_side(first, second)
    costs = [program_cost(v) for v in (first, second)]
    rows = [dict(cost_rows(cost)) for _, cost in costs]
    names = list(dict.fromkeys([*rows[0], *rows[1]]))
    table = Table(
        ["counted", label(first), label(second)],
        [[name, rows[0].get(name, "0"), rows[1].get(name, "0")] for name in names],
        "Cost",
    )
    listings = [CostListing(func, cost, label(v)) for (func, cost), v in zip(costs, (first, second))]
    said = differences(first, second)
    words = [Table([], [], "What differs", said)] if said else []
    parts: list[Shown] = [*words, table, *listings]
    if time:
        op = first.operator
        chosen = [first, second] if second.operator is op else [first]
        result = bench(op, chosen)
        if second.operator is not op:
            other = bench(second.operator, [second])
            rows = [(label(first), result.rows[0][1]), (label(second), other.rows[0][1]), *result.rows[1:]]
            result = replace(result, rows=rows, work=None)
        parts.insert(len(words) + 1, bench_table(result))
    return Comparison(record, parts)
