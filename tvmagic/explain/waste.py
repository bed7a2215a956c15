"""Elements that a version computes more often than they are used: by where a stage runs, or as it is inlined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvmagic import te
from tvmagic.errors import TVMagicError
from tvmagic.explain.arrange import plain_name, views_of
from tvmagic.explain.model import ProgramModel
from tvmagic.explain.nests import Nest, nests_of
from tvmagic.operators import Version
from tvmagic.te.exact.used_elements import waste_report

__all__ = ["Inlined", "inlined_in", "waste_of"]


@dataclass(frozen=True)
class Inlined:
    """A stage without memory of its own: its `name`, the name of what it is inlined into, how often that computes it."""

    name: str
    reader: str
    times: int


def _plain(version: Version, size: int) -> list[Nest]:
    """The nests of the operator without a schedule; symbolic sizes are `size`."""
    return nests_of(next(iter(version.operator.version("plain").lower().functions.values())), size)[0]


def inlined_in(version: Version, program: ProgramModel, size: int = 256) -> list[Inlined]:
    """The stages that the version's cell inlines and that are read at several places."""
    if version.source is None or "inline" not in version.source.text:
        return []
    stored = {plain_name(s.target.name) for n in program.nests for s in n.nest.statements}
    nests = _plain(version, size)
    gone = {s.target.data for n in nests for s in n.statements if plain_name(s.target.name) not in stored}
    found: list[Inlined] = []
    for nest in nests:
        for s in nest.statements:
            places: dict[str, set[object]] = {}
            for a in s.loads:
                if a.data in gone:
                    places.setdefault(a.name, set()).add((a.address.signature, a.address.offset))
            found += [Inlined(name, s.target.name, len(at)) for name, at in places.items() if len(at) > 1]
    return found


def waste_of(version: Version, program: ProgramModel, size: int = 256) -> dict[str, float]:
    """For each stage how many elements are computed for one that is used."""
    if isinstance(version.schedule, te.schedule.Schedule):
        try:
            report = waste_report(version.schedule)
        except TVMagicError:
            return {}
        return {plain_name(w.stage): w.computed / w.used for w in report if w.computed and w.used}
    plain = version.operator.version("plain")
    lines: dict[int, list[str]] = {}
    for name, view in views_of(plain, size).items():
        lines.setdefault(view.line, []).append(name)
    computed = _elements([n.nest for n in program.nests], lines)
    used = _elements(_plain(version, size), lines)
    return {name: computed[name] / max(1, used[name]) for name in used if name in computed}


def _elements(nests: Iterable[Nest], lines: Mapping[int, Sequence[str]]) -> dict[str, int]:
    """How many elements are stored of each stage, updates of sums aside. Stages share memory, and its name: what is the only
    one in its line of the cell is known by that."""
    found: dict[str, int] = {}
    for nest in nests:
        for s in nest.statements:
            names = lines.get(s.node.span.line, ()) if s.node.span is not None else ()
            name = names[0] if len(names) == 1 else plain_name(s.target.name)
            if not s.accumulates:
                found[name] = found.get(name, 0) + nest.iterations * s.lanes
    return found
