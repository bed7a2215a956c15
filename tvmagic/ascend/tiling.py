"""Auto tiling: the sizes of tiles and blocks of each ImplGraph, and the ImplGraphs to run.

The axis-order solver goes from the innermost tile out: bisection finds the largest size whose
local memory fits, the cost model chooses among it and smaller ones; then the block size uses the
most cores. Of each group the cheapest ImplGraph is taken, of the results the cheapest sum. The machine is this CPU or an
NPU: on an NPU nothing is chosen that does not fit, and tiles are tried that give every core as many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tvmagic.ascend.autoschedule import ImplGraph, ScheduleResult, auto_schedule
from tvmagic.ascend.cost import Cost, CostModel
from tvmagic.ascend.graph import AscendError, AscGraph
from tvmagic.ascend.kernel_text import kernel_text
from tvmagic.ascend.lower import lower_graphs
from tvmagic.ascend.machine import AnyMachine, Machine, Npu, machine_of
from tvmagic.ascend.npu import NpuModel
from tvmagic.ascend.tiling_data import TilingData, tiling_data
from tvmagic.errors import a_thing
from tvmagic.ir import PrimFunc
from tvmagic.ir.schedulable import Schedulable
from tvmagic.ir.views import viewed
from tvmagic.passes import note, run_step

_SIZES_TRIED = 512  # of a tile, from the largest one down
_NEAR_BEST = (
    1.5  # speeds of an NPU are assumed: up to so many times the least cost, more cores and fuller tiles are better
)


@dataclass(frozen=True)
class Choice:
    """An ImplGraph with its sizes, what the model says of it, and whether its local memory fits."""

    impl: ImplGraph
    sizes: dict[str, int]
    cost: Cost
    fits: bool
    tried: int


@viewed("ascend tiling")
@dataclass(frozen=True)
class Tiling(Schedulable):
    """The chosen implementation: of each group of `result` one choice; `considered` are all others too.

    `tiling_key` numbers it: the place of the result, then of the ImplGraph in each group. `values` are the numbers of the
    sizes of the HintGraph.
    """

    result: ScheduleResult
    tiling_key: tuple[int, ...]
    choices: list[Choice]
    considered: list[tuple[tuple[int, ...], Choice]]
    machine: AnyMachine = field(default_factory=Machine)
    values: dict[str, int] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """Nanoseconds that the model expects."""
        return sum(c.cost.total for c in self.choices)

    @property
    def tiling_data(self) -> TilingData:
        """What the host computes for the kernel: block_dim, sizes of tiles, bytes of queues and buffers."""
        return tiling_data(self.result, self.choices, self.tiling_key[1:], self.machine, self.values)

    def ascend_c(self) -> str:
        """The Ascend C source of the kernel, for reading: nothing here compiles or runs it. A step of the record."""
        graphs = "\n".join(str(c.impl.graph) for c in self.choices)
        return run_step(
            "ascend.KernelText",
            lambda: kernel_text(self.result, self.tiling_key[0], self.tiling_data),
            before=graphs,
            after=str,
        )

    def lower(self, name: str | None = None) -> PrimFunc:
        """The function of the chosen ImplGraphs."""
        graphs = [c.impl.graph for c in self.choices]
        return lower_graphs(self.result.hint, graphs, [c.sizes for c in self.choices], name)

    def report(self) -> str:
        """What was considered, a line each: key, graph, sizes, expected time, local memory."""
        lines = [f"tiling_key {self.tiling_key}, {self.cost / 1e3:.1f} us expected"]
        if isinstance(self.machine, Npu):
            lines[0] += f" on {self.machine.name} with assumed speeds (what calls cost there is not published)"
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
    """The largest size up to `high` that fits, by bisection; 1 if none does."""
    low = 1
    if fits(high):
        return high
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _ladder(top: int) -> list[int]:
    """Sizes to try up to `top`: itself, even shares of it, and powers of two."""
    powers = (1 << k for k in range(top.bit_length()))
    return sorted({top, *(math.ceil(top / k) for k in (2, 3, 4)), *powers}, reverse=True)


def _even_shares(model: CostModel, name: str, whole: int, top: int, sizes: Mapping[str, int], npu: Npu) -> set[int]:
    """The largest sizes of a tile up to `top` with which no core is idle, in whole blocks of memory and not."""
    others = model.loop_count({**sizes, name: whole})  # tiles along the other axes
    found: set[int] = set()
    for step in (npu.block, 1):
        first = min(top, math.ceil(others * whole / npu.cores)) // step * step
        sizes_down = range(first, max(0, first - _SIZES_TRIED * step), -step)
        even = (t for t in sizes_down if _cores(others * math.ceil(whole / t), npu.cores) == npu.cores)
        found |= set(itertools.islice(even, 3))
    return found


def _cores(tiles: int, cores: int) -> int:
    """How many cores have something to do if each takes as many tiles."""
    return math.ceil(tiles / math.ceil(tiles / cores))


def _candidates(
    model: CostModel, impl: ImplGraph, values: Mapping[str, int], machine: AnyMachine
) -> Iterator[dict[str, int]]:
    """Tile sizes to try, from the innermost tile out."""
    limit = machine.local_memory
    inner = {f"{a.name}_size": a for a in impl.graph.axes if a.split_pair is not None}
    whole = {name: inner[name].from_[0].size.evaluate(values) for name in impl.tiles}

    def extend(sizes: dict[str, int], rest: list[str]) -> Iterator[dict[str, int]]:
        if not rest:
            yield sizes
            return
        name, ones = rest[0], dict.fromkeys(rest[1:], 1)
        top = _largest(whole[name], lambda size: model.local_bytes({**sizes, **ones, name: size}) <= limit)
        tried = set(_ladder(top))
        if isinstance(machine, Npu) and impl.block is not None:
            tried |= _even_shares(model, name, whole[name], top, {**sizes, **ones}, machine)
        for size in sorted(tried, reverse=True):
            yield from extend({**sizes, name: size}, rest[1:])

    yield from extend({}, list(impl.tiles))


def tile_impl(impl: ImplGraph, values: Mapping[str, int], machine: AnyMachine) -> Choice:
    """The best sizes of one ImplGraph for known sizes of its original axes."""
    npu = isinstance(machine, Npu)
    model = NpuModel(impl, values, machine) if isinstance(machine, Npu) else CostModel(impl, values, machine)
    tried: list[tuple[dict[str, int], Cost]] = []
    for sizes in _candidates(model, impl, values, machine):
        if impl.block is not None:
            sizes = {**sizes, impl.block: math.ceil(model.loop_count(sizes) / machine.threads)}
        tried.append((sizes, model.cost(sizes)))
    fitting = [t for t in tried if t[1].local_bytes <= machine.local_memory]
    chosen = fitting if npu and fitting else tried
    best = min(chosen, key=lambda t: t[1].total)
    if npu:
        near = [t for t in chosen if t[1].total <= _NEAR_BEST * best[1].total]
        best = min(near, key=lambda t: (-t[1].cores, -t[1].local_bytes, t[1].total))
    return Choice(impl, best[0], best[1], best[1].local_bytes <= machine.local_memory, len(tried))


def auto_tiling(
    results: Sequence[ScheduleResult], values: Mapping[str, int] | None = None, machine: AnyMachine | str | None = None
) -> Tiling:
    """Choose the implementation and its sizes.

    Parameters
    ----------
    values: numbers for the open size variables of the HintGraph.
    machine: a `Machine`, an `Npu` or the name of one (`atlas_a2`); by default this machine with all its threads.

    Raises AscendError for an NPU whose local memory holds no tile of any implementation.
    """
    if not (isinstance(results, (list, tuple)) and results and all(isinstance(r, ScheduleResult) for r in results)):
        raise AscendError(
            "scheduled",
            f"{a_thing(results)} is not what `auto_schedule` gives",
            hint="`auto_tiling(auto_schedule(graph))`",
        )
    machine = machine_of(machine)
    npu = isinstance(machine, Npu)

    def solve() -> Tiling:
        known = {n: v for n, v in results[0].hint.sizes.items() if v is not None} | dict(values or {})
        for axis in results[0].hint.axes:
            axis.size.evaluate(known)  # says which size has no value
        considered: list[tuple[tuple[int, ...], Choice]] = []
        best: tuple[tuple[bool, float], int, list[int], list[Choice]] | None = None
        for number, result in enumerate(results):
            keys, chosen = [], []
            for place, group in enumerate(result.groups):
                # a CPU's caches have no blocks that rows should begin with
                tried = {
                    i: tile_impl(g, known, machine) for i, g in enumerate(group.impls) if npu or g.rows != "padded"
                }
                considered += [((number, place, i), c) for i, c in tried.items()]
                key = min(tried, key=lambda i: (npu and not tried[i].fits, tried[i].cost.total))
                keys.append(key)
                chosen.append(tried[key])
            total = sum(c.cost.total for c in chosen)
            note("ascend.result", f"`{result.name}` takes {total / 1e3:.1f} us", groups=len(chosen))
            rank = (npu and not all(c.fits for c in chosen), total)
            if best is None or rank < best[0]:
                best = rank, number, keys, chosen
        assert best is not None
        (too_much, _), number, keys, chosen = best
        if too_much:
            least = min(c.cost.local_bytes for c in chosen if not c.fits)
            raise AscendError(
                "ub-size",
                f"no tile of `{results[0].hint.name}` fits {machine.local_memory} bytes: one takes {least}",
                hint="compute in more graphs than one, or in a narrower type",
            )
        return Tiling(results[number], (number, *keys), chosen, considered, machine, known)

    return run_step("ascend.AutoTiling", solve, before="\n".join(r.name for r in results), after=Tiling.report)


def compile_graph(
    hint: AscGraph,
    values: Mapping[str, int] | None = None,
    machine: AnyMachine | str | None = None,
    name: str | None = None,
) -> PrimFunc:
    """The function of a HintGraph, scheduled and tiled for a machine; its parameters are Data, then Output."""
    tiling = auto_tiling(auto_schedule(hint), values, machine)
    return run_step(
        "ascend.Lower", lambda: tiling.lower(name), before="\n".join(str(c.impl.graph) for c in tiling.choices)
    )
