"""What becomes of cells, dumps and graphs that are almost right, and what tiles cost, is what it was."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from dump_texts import GUIDE, SHORT
from edits import changed_lines, changes, random_edits
from random_graphs import Maker
from recorded import PARTS, check
from rule_graphs import chain, every_kind, random_change
from te_cells import CELLS, changed_cell, random_cell

from tvmagic import ascend
from tvmagic.ascend import AscGraph
from tvmagic.ascend.cost import CostModel
from tvmagic.ascend.npu import NpuModel
from tvmagic.errors import TVMagicError
from tvmagic.operators import operator

DUMPS = {"guide": GUIDE, "short": SHORT}
MACHINES = (
    ascend.Machine(threads=3, l1=4 << 10, l2=16 << 10, l3=64 << 10), ascend.Machine(threads=1, l1=1 << 10, l2=3 << 10, l3=8 << 10),
    ascend.Npu("small", 7, 10**5), ascend.Npu("other", 3, 4000, block=64, start=5.0, move=8.0, vector=16.0),
)  # fmt: skip
TILES = (1, 3, 8, 21, 64)


def answers(row: dict[str, Any]) -> dict[str, str]:
    kind, name, seed = row["source"].split()
    if kind == "cell":
        return {"graphs": "\n\n".join(_cells(CELLS.get(name) or random_cell(int(seed)), int(seed)))}
    if kind == "dump":
        edits = random_edits(DUMPS[name], random.Random(int(seed)), 16)
        return {"facts": changes(DUMPS[name], edits, lambda text: facts(ascend.parse_graph(text)))}
    if kind == "rules":
        return {"rules": "\n".join(_changes(_graph(name, int(seed)), int(seed)))}
    return {"costs": "\n".join(_costs(int(seed)))}


def _cells(text: str, seed: int) -> Iterator[str]:
    """The graph of a cell, or why there is none; then what is changed of it by changes of the cell."""
    before = _said(text)
    yield before
    rng = random.Random(seed)
    for _ in range(6):
        changed = changed_cell(text, rng)
        yield f"{changed_lines(text, changed)}\n    {changed_lines(before, _said(changed))}"


def _said(cell: str) -> str:
    try:
        op = operator("cell", cell)
    except TVMagicError:
        return "no operator"
    try:
        return str(ascend.hint_graph(op))
    except TVMagicError as error:
        return f"{error.message}, hint: {error.hint}"


def facts(graph: AscGraph) -> str:
    """All that a graph says, and its text in the generation in which it was not written."""
    lines = [f"{graph!r} {graph.type.name} {graph.generation} {graph.sizes} {graph.sched_axes}"]
    lines += [
        f"{a} {a.id} {a.size} {a.type.name} {a.from_} {a.split_pair} {a.align} {a.allow_oversize_axis} {a.allow_unaligned_tail}"
        for a in graph.axes
    ]
    for n in graph.nodes:
        line = n.source.line if n.source else None
        lines += [
            f"{n} {n.inputs} {n.attrs} {n.sched} {n.api} {n.tmp_buffers}",
            f"{n.name} from {line}, more {n.extra}",
        ]
        lines += [
            f"{y} {y.dtype} {y.axis} {y.repeats} {y.strides} {y.vectorized_axis} {y.vectorized_strides} {y.mem} {y.que} {y.buf} {y.opt}"
            for y in n.outputs
        ]
    return "\n".join([*lines, ascend.graph_text(graph, 3 - graph.generation)])


def _graph(name: str, seed: int) -> AscGraph:
    if name == "hint":
        return every_kind()
    hint = chain() if name == "chain" else Maker(seed).build()
    impls = [impl for result in ascend.auto_schedule(hint) for group in result.groups for impl in group.impls]
    return impls[seed % len(impls)].graph


def _changes(graph: AscGraph, seed: int) -> Iterator[str]:
    """What each of some changes breaks."""
    rng = random.Random(seed)
    for _ in range(24):
        changed = graph.copy()
        what = random_change(changed, rng)
        try:
            (ascend.check_impl if graph.type is ascend.GraphType.IMPL else ascend.check_hint)(changed)
        except TVMagicError as error:
            yield f"{what}: {error.message}, hint: {error.hint}"
        else:
            yield f"{what}: kept"


def _costs(seed: int) -> Iterator[str]:
    """The costs of the ImplGraphs of a random graph for some sizes of tiles and blocks."""
    maker = Maker(seed)
    graph = maker.build()
    values = {name: 37 if value is None else value for name, value in graph.sizes.items()}
    values |= {f"s{n}": length for n, length in enumerate(maker.lengths) if f"s{n}" in values}
    rng = random.Random(seed)
    for impl in (i for result in ascend.auto_schedule(graph) for group in result.groups for i in group.impls):
        for machine in rng.sample(MACHINES, 2):
            npu = isinstance(machine, ascend.Npu)
            model = NpuModel(impl, values, machine) if npu else CostModel(impl, values, machine)
            for _ in range(3):
                sizes = {name: rng.choice(TILES) for name in (*impl.tiles, *([impl.block] if impl.block else []))}
                c = model.cost(sizes)
                yield f"{impl.case} {sizes} {c.total:.6g} {c.vector:.6g} {c.moves:.6g} {c.local_bytes} {c.cores}"


@pytest.mark.parametrize("part", range(PARTS))
def test_words(part: int) -> None:
    check("ascend_words", part, answers)
