"""Two versions in words: what one does less of than the other, and because of which buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvmagic.codegen import last_program
from tvmagic.errors import TVMagicError
from tvmagic.eval.cost import human
from tvmagic.explain.schedule_writer import plain_name
from tvmagic.explain.waste import waste_of
from tvmagic.model.footprints import patterns
from tvmagic.model.nests import nests_of
from tvmagic.model.program_model import NestModel, ProgramModel, model
from tvmagic.model.traffic import LEVELS, Traffic
from tvmagic.operators import Version
from tvmagic.target import Target, resolved

_LEAST = 1.5  # times that a number is larger before it is worth a sentence
_FROM = {
    "L1": "between registers and the first cache",
    "L2": "from L2",
    "L3": "from L3",
    "memory": "from and to memory",
}


@dataclass
class _Numbers:
    """What a version does, by the model: bytes of each buffer by level, buffers that stay in registers or on the stack."""

    name: str
    model: ProgramModel
    bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    local: set[str] = field(default_factory=set)
    waste: Mapping[str, float] = field(default_factory=dict)

    def moved(self, level: str) -> int:
        """The bytes of all buffers."""
        return sum(self.bytes[level].values())


def differences(first: Version, second: Version, target: Any = None, size: int = 256) -> list[str]:
    """Sentences on how much less the better of two versions does, the most important first; empty if there is nothing to say.

    By the model of `explain`, without a run. `size` is the value of symbolic sizes. A target that is not a CPU has no model,
    and no sentences.
    """
    try:
        chosen = resolved(target)
        a, b = (_numbers(version, name, chosen, size) for version, name in zip((first, second), _names(first, second)))
    except TVMagicError:
        return []
    found = [_time(a, b), *(_bytes(a, b, level) for level in reversed(LEVELS))]
    found += [_vectors(a, b), _spills(a, b), _threads(a, b), *_waste(a, b)]
    return [sentence for sentence in found if sentence]


def _names(first: Version, second: Version) -> list[str]:
    """What two versions are called: with their operators if one has the name of the other."""
    same = first.name == second.name
    return [f"{v.operator.name}:{v.name}" if same else v.name for v in (first, second)]


def _numbers(version: Version, name: str, target: Target, size: int) -> _Numbers:
    machine = target.machine
    func = next(iter(last_program(version.lower(), target).functions.values()))
    nests, top, _ = nests_of(func, size)
    program = model(func, machine, size)
    found = _Numbers(name, program, {level: {} for level in LEVELS})
    traffic = Traffic(nests, top, machine)
    for made in program.nests:
        for access in made.nest.accesses:
            if access.address.uses(made.rolled.var):
                _add(found.bytes["L1"], access.name, access.bytes * access.lanes * made.nest.iterations)
            if access.scope == "local":
                found.local.add(access.name)
        for pattern in patterns(made.nest.accesses):
            for number, level in enumerate(LEVELS[1:], 1):
                _add(found.bytes[level], pattern.access.name, traffic.moved(made.nest, pattern, number))
    found.waste = waste_of(version, program, size)
    return found


def _add(table: dict[str, int], name: str, count: int) -> None:
    name = plain_name(name)
    table[name] = table.get(name, 0) + count


def _ordered(a: _Numbers, b: _Numbers, x: float, y: float) -> tuple[_Numbers, _Numbers, float, float]:
    """The one with less first."""
    return (a, b, x, y) if x <= y else (b, a, y, x)


def _times(less: float, more: float) -> str:
    ratio = more / max(less, 1e-9)
    return f"{ratio:.1f} times" if ratio < 100 else f"{ratio:.0f} times"


def _time(a: _Numbers, b: _Numbers) -> str:
    less, _, low, high = _ordered(a, b, a.model.time, b.model.time)
    if high < 1.1 * low:
        return "by the model both take about the same number of cycles"
    return f"by the model {less.name} takes {_times(low, high)} fewer cycles: {human(low)} instead of {human(high)}"


def _bytes(a: _Numbers, b: _Numbers, level: str) -> str:
    less, more, low, high = _ordered(a, b, a.moved(level), b.moved(level))
    if high < _LEAST * low or high - low < 1024:
        return ""
    how_much = f"{_times(low, high)} fewer bytes" if low else "no bytes"
    return f"{less.name} moves {how_much} {_FROM[level]} ({human(low, 'B')} instead of {human(high, 'B')}){_cause(less, more, level)}"


def _cause(less: _Numbers, more: _Numbers, level: str) -> str:
    """The buffer that accounts for most of a difference, and why if that is plain."""
    before, after = more.bytes[level], less.bytes[level]
    name = max(before, key=lambda n: before[n] - after.get(n, 0))
    if before[name] - after.get(name, 0) < 0.4 * (sum(before.values()) - sum(after.values())):
        return ""
    held = sorted(n for n in less.local - more.local if n.split(".")[0] == name.split(".")[0])
    if held:
        return f", because `{held[0]}` stays in registers"
    if not after.get(name, 0):
        return f": `{name}` is not moved there any more"
    return f": `{name}` accounts for {human(after[name], 'B')} instead of {human(before[name], 'B')}"


def _hottest(numbers: _Numbers) -> NestModel | None:
    return next(iter(numbers.model.hot), None)


def _vectors(a: _Numbers, b: _Numbers) -> str:
    x, y = _hottest(a), _hottest(b)
    if x is None or y is None or x.vectorized == y.vectorized:
        return ""
    better, worse, nest = (a, b, x) if x.vectorized else (b, a, y)
    return f"the hottest loop of {better.name} (`{nest.nest.name}`, loop `{nest.rolled.name}`) is vectorized, that of {worse.name} is not"


def _spills(a: _Numbers, b: _Numbers) -> str:
    x, y = (max((n.spills for n in v.model.hot), default=0) for v in (a, b))
    less, more, low, high = _ordered(a, b, x, y)
    if low == high:
        return ""
    words = "none" if not low else f"{low:.0f}"
    return f"{more.name} needs {high:.0f} more vector registers than there are, {less.name} {words}"


def _threads(a: _Numbers, b: _Numbers) -> str:
    x, y = (max((n.width for n in v.model.hot), default=1.0) for v in (a, b))
    less, more, low, high = _ordered(a, b, x, y)
    if high < _LEAST * low:
        return ""
    return f"{more.name} runs its hot loops on {high:.0f} threads, {less.name} on {low:.0f}"


def _waste(a: _Numbers, b: _Numbers) -> list[str]:
    found: list[str] = []
    for name in {**a.waste, **b.waste}:
        less, more, low, high = _ordered(a, b, a.waste.get(name, 1.0), b.waste.get(name, 1.0))
        if high >= 1.05 * low:
            once = "once" if low < 1.05 else f"{low:.1f} times"
            found.append(f"{more.name} computes each element of `{name}` {high:.1f} times, {less.name} {once}")
    return found
