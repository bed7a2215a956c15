"""Auto tiling: the sizes of tiles and blocks of each ImplGraph, and the ImplGraphs to run.

The axis-order solver goes from the innermost tile out: bisection finds the largest size whose
local memory fits, the cost model chooses among it and smaller ones; then the block size uses the
most cores. Of each group the cheapest ImplGraph is taken, of the results the cheapest sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvmagic.ascend.autoschedule import ImplGraph, ScheduleResult, auto_schedule
from tvmagic.ascend.cost import Cost, CostModel
from tvmagic.ascend.graph import AscGraph
from tvmagic.ascend.lower import lower_graphs
from tvmagic.ascend.machine import Machine, this_machine
from tvmagic.ir import PrimFunc
from tvmagic.passes import note, run_step

__all__ = ["Choice", "Tiling", "auto_tiling", "compile_graph", "tile_impl"]


@dataclass(frozen=True)
class Choice:
    """An ImplGraph with its sizes, what the model says of it, and whether its local memory fits."""

    impl: ImplGraph
    sizes: dict[str, int]
    cost: Cost
    fits: bool
    tried: int


@dataclass(frozen=True)
class Tiling:
    """The chosen implementation: of each group of `result` one choice; `considered` are all others too.

    `tiling_key` numbers it: the place of the result, then of the ImplGraph in each group.
    """

    result: ScheduleResult
    tiling_key: tuple[int, ...]
    choices: list[Choice]
    considered: list[tuple[tuple[int, ...], Choice]]

    @property
    def cost(self) -> float:
        """Nanoseconds that the model expects."""
        return sum(c.cost.total for c in self.choices)

    def lower(self, name: str | None = None) -> PrimFunc:
        """The function of the chosen ImplGraphs."""
        graphs = [c.impl.graph for c in self.choices]
        return lower_graphs(self.result.hint, graphs, [c.sizes for c in self.choices], name)

    def report(self) -> str:
        """What was considered, a line each: key, graph, sizes, expected time, local memory."""
        lines = [f"tiling_key {self.tiling_key}, {self.cost / 1e3:.1f} us expected"]
        chosen = {id(c) for c in self.choices}
        for key, choice in self.considered:
            sizes = ", ".join(f"{n} = {v}" for n, v in choice.sizes.items())
            lines.append(
                f"{'*' if id(choice) in chosen else ' '} {key} {choice.impl.graph.name} [{sizes}] "
                f"{choice.cost.total / 1e3:.1f} us, {choice.cost.local_bytes} bytes local"
                f"{'' if choice.fits else ' (too much)'}, {choice.cost.cores} cores, {choice.tried} sizes tried"
            )
        return "\n".join(lines) + "\n"


def _largest(high: int, fits: Callable[[int], bool]) -> int:
    """The largest size up to `high` that fits, by bisection; 1 where none does."""
    low = 1
    if fits(high):
        return high
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _ladder(top: int) -> list[int]:
    """Sizes to try up to `top`: itself, even shares of it, and powers of two."""
    powers = {1 << k for k in range(top.bit_length())}
    return sorted({top, *(math.ceil(top / k) for k in (2, 3, 4)), *(p for p in powers if p <= top)}, reverse=True)


def _candidates(model: CostModel, impl: ImplGraph, values: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Tile sizes to try, from the innermost tile out."""
    limit = model.machine.local_memory
    inner = {f"{a.name}_size": a for a in impl.graph.axes if a.split_pair is not None}
    whole = {name: inner[name].from_[0].size.evaluate(values) for name in impl.tiles}

    def extend(sizes: dict[str, int], rest: list[str]) -> Iterator[dict[str, int]]:
        if not rest:
            yield sizes
            return
        name, ones = rest[0], dict.fromkeys(rest[1:], 1)
        top = _largest(whole[name], lambda size: model.local_bytes({**sizes, **ones, name: size}) <= limit)
        for size in _ladder(top):
            yield from extend({**sizes, name: size}, rest[1:])

    yield from extend({}, list(impl.tiles))


def tile_impl(impl: ImplGraph, values: Mapping[str, int], machine: Machine) -> Choice:
    """The best sizes of one ImplGraph for known sizes of its original axes."""
    model = CostModel(impl, values, machine)
    best: tuple[float, dict[str, int], Cost] | None = None
    tried = 0
    for sizes in _candidates(model, impl, values):
        if impl.block is not None:
            sizes = {**sizes, impl.block: math.ceil(model.loop_count(sizes) / machine.threads)}
        cost = model.cost(sizes)
        tried += 1
        if best is None or cost.total < best[0]:
            best = cost.total, sizes, cost
    assert best is not None
    return Choice(impl, best[1], best[2], best[2].local_bytes <= machine.local_memory, tried)


def auto_tiling(
    results: Sequence[ScheduleResult], values: Mapping[str, int] | None = None, machine: Machine | None = None
) -> Tiling:
    """Choose the implementation and its sizes.

    Parameters
    ----------
    values: numbers for the open size variables of the HintGraph.
    machine: this machine with all its threads unless told.
    """
    machine = machine or this_machine()

    def solve() -> Tiling:
        known = {n: v for n, v in results[0].hint.sizes.items() if v is not None} | dict(values or {})
        considered: list[tuple[tuple[int, ...], Choice]] = []
        best: tuple[float, int, list[int], list[Choice]] | None = None
        for number, result in enumerate(results):
            keys, chosen = [], []
            for place, group in enumerate(result.groups):
                choices = [tile_impl(impl, known, machine) for impl in group.impls]
                considered += [((number, place, i), c) for i, c in enumerate(choices)]
                key = min(range(len(choices)), key=lambda i: choices[i].cost.total)
                keys.append(key)
                chosen.append(choices[key])
            total = sum(c.cost.total for c in chosen)
            note("ascend.result", f"`{result.name}` takes {total / 1e3:.1f} us", groups=len(chosen))
            if best is None or total < best[0]:
                best = total, number, keys, chosen
        assert best is not None
        _, number, keys, chosen = best
        return Tiling(results[number], (number, *keys), chosen, considered)

    return run_step("ascend.AutoTiling", solve, before="\n".join(r.name for r in results), after=Tiling.report)


def compile_graph(
    hint: AscGraph, values: Mapping[str, int] | None = None, machine: Machine | None = None, name: str | None = None
) -> PrimFunc:
    """The function of a HintGraph, scheduled and tiled for a machine; its parameters are Data, then Output."""
    tiling = auto_tiling(auto_schedule(hint), values, machine)
    return run_step(
        "ascend.Lower", lambda: tiling.lower(name), before="\n".join(str(c.impl.graph) for c in tiling.choices)
    )
