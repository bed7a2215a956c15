"""Elements that a version computes more often than they are used: by where a stage runs, or as it is inlined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvmagic import ir, te
from tvmagic.errors import TVMagicError
from tvmagic.explain.schedule_writer import plain_name, views_of
from tvmagic.ir.query import nodes_of, variables_in
from tvmagic.model.nests import Nest, Statement, nests_of
from tvmagic.model.program_model import ProgramModel
from tvmagic.operators import Version
from tvmagic.te.exact.waste_report import waste_report
from tvmagic.tir.blocks.conditions import conjuncts
from tvmagic.tir.transform.use_def import loads_memory


@dataclass(frozen=True)
class Inlined:
    """A stage without memory of its own: its `name`, the name of what it is inlined into, how often that computes it, and all
    stages that do."""

    name: str
    reader: str
    times: int
    readers: tuple[str, ...] = ()


def _unscheduled_nests(version: Version, size: int) -> list[Nest]:
    """The nests of the operator without a schedule; symbolic sizes are `size`."""
    return nests_of(next(iter(version.operator.version("plain").lower().functions.values())), size)[0]


def inlined_in(version: Version, program: ProgramModel, size: int = 256) -> list[Inlined]:
    """The stages that the version's cell inlines and that are read at several places, or by several stages if it takes a while to
    compute them."""
    if version.source is None or "inline" not in version.source.text:
        return []
    stored = {plain_name(s.target.name) for n in program.nests for s in n.nest.statements}
    nests, lines = _unscheduled_nests(version, size), _lines(version, size)
    gone = {s.target.data for n in nests for s in n.statements if plain_name(s.target.name) not in stored}
    slow = {s.target.name for n in nests for s in n.statements if s.operations.calls or s.operations.divisions}
    found: list[Inlined] = []
    readers: dict[str, list[str]] = {}
    for nest in nests:
        for s in nest.statements:
            places: dict[str, set[object]] = {}
            for a in s.loads:
                if a.data in gone:
                    places.setdefault(a.name, set()).add((a.address.signature, a.address.offset))
                    readers.setdefault(a.name, []).append(_stage(s, lines))
            found += [Inlined(name, s.target.name, len(at)) for name, at in places.items() if len(at) > 1]
    for name, stages in ((name, tuple(dict.fromkeys(r))) for name, r in readers.items() if name in slow):
        found += [Inlined(name, reader, len(stages), stages) for reader in stages if len(stages) > 1]
    return found


def waste_of(version: Version, program: ProgramModel, size: int = 256) -> dict[str, float]:
    """For each stage how many elements are computed for one that is used."""
    if isinstance(version.schedule, te.schedule.Schedule):
        try:
            report = waste_report(version.schedule)
        except TVMagicError:
            return {}
        return {
            plain_name(w.stage): w.computed / w.used for w in report if w.computed and w.used and w.computed >= w.used
        }
    lines = _lines(version, size)
    computed = _elements([n.nest for n in program.nests], lines)
    used = _elements(_unscheduled_nests(version, size), lines)
    return {name: computed[name] / max(1, used[name]) for name in used if name in computed}


def _lines(version: Version, size: int) -> dict[int, list[str]]:
    """The stages that are in each line of the operator's cell."""
    found: dict[int, list[str]] = {}
    for name, view in views_of(version.operator.version("plain"), size).items():
        found.setdefault(view.line, []).append(name)
    return found


def _stage(s: Statement, lines: Mapping[int, Sequence[str]]) -> str:
    """The stage that a statement computes. Stages share memory, and its name: what is the only one in its line of the cell is
    known by that."""
    names = lines.get(s.node.span.line, ()) if s.node.span else ()
    return names[0] if len(names) == 1 else plain_name(s.target.name)


def _elements(nests: Iterable[Nest], lines: Mapping[int, Sequence[str]]) -> dict[str, int]:
    """How many elements are computed of each stage, updates of sums aside but for what they begin with."""
    found: dict[str, int] = {}
    statements = [(nest, s, _stage(s, lines)) for nest in nests for s in nest.statements]
    memory: dict[str, set[ir.Var]] = {}  # that a stage is stored to, a tile of it in registers among it
    for _, s, name in statements:
        memory.setdefault(name, set()).add(s.target.data)
    for nest, s, name in statements:
        value = s.value
        while isinstance(value, ir.Cast):
            value = value.value
        copied = isinstance(value, ir.BufferLoad) and value.buffer.data in memory[name]
        if not copied and (not s.accumulates or s.begun):
            once = _fixed(s.below) | set(s.begun)
            times = math.prod(loop.extent for loop in nest.loops if loop.var not in once)
            found[name] = found.get(name, 0) + times * s.lanes
    return found


def _fixed(guards: Iterable[ir.PrimExpr]) -> set[ir.Var]:
    """The variables of which conditions let one value through, as those of what a sum begins with do; not of conditions on data, or
    on remainders."""
    parts = [part for guard in guards for part in conjuncts(guard) if isinstance(part, ir.EQ)]
    equal = [part for part in parts if not loads_memory(part) and not nodes_of(part, ir.FloorDiv, ir.FloorMod)]
    return {var for part in equal for var in variables_in(part)}
