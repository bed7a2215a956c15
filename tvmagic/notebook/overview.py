"""What `%tvmagic` shows: every magic with an example, and the operators that the user has defined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tvmagic.notebook.arguments import Arguments
from tvmagic.notebook.results import Parts, Shown, Table
from tvmagic.operators import Operator


def overview(parsers: Iterable[Arguments], operators: Mapping[str, Operator]) -> Shown:
    """A row for each magic, from its declaration, and one for each operator."""
    rows = [[p.magic, first_clause(p.description or ""), p.example] for p in parsers]
    notes = ["`%auto?` lists all options of a magic; `%config TensorMagics` holds the defaults."]
    magics = Table(["magic", "what it does", "example"], rows, "The magics of tvmagic", notes)
    defined = [[op.signature, ", ".join(op.versions) or "plain loops"] for op in operators.values()]
    if not defined:
        return magics
    return Parts(magics, Table(["operator", "schedules"], defined, "Your operators"))


def first_clause(description: str) -> str:
    """The description up to its first stop; details follow it."""
    for stop in (". ", "; ", ": "):
        description = description.split(stop)[0]
    return description.rstrip(".")
