"""What random graphs of Ascend are scheduled, tiled and written as is what it was."""

from __future__ import annotations

from typing import Any

import pytest
from random_graphs import Maker
from recorded import PARTS, answer, check

from tvmagic import ascend

MACHINES = (ascend.Npu("small", 7, 10**5), "atlas_a2", ascend.Npu("wide", 40, 10**6))


def answers(row: dict[str, Any]) -> dict[str, str]:
    seed = int(row["source"])
    maker = Maker(seed)
    graph = maker.build()
    lengths = {f"s{n}": length for n, length in enumerate(maker.lengths)}
    sizes = {name: lengths.get(name, 5) for name, value in graph.sizes.items() if value is None}
    texts = [ascend.graph_text(graph, generation) for generation in (0, 1, 2)]
    results = ascend.auto_schedule(graph)
    parts = []
    for result in results:
        for group in result.groups:
            for impl in group.impls[:2]:
                parts += [f"{result.name} {impl.case} {impl.tiles} {impl.block} {impl.rows}", str(impl.graph)]
                parts.append(ascend.pseudo_code(impl.graph))
    found = {"graph": "\n".join(texts), "scheduled": "\n".join(parts)}
    machine: Any = MACHINES[seed % len(MACHINES)]
    found["tiling"] = answer(lambda: _tiling(ascend.auto_tiling(results, sizes, machine)))
    found["lowered"] = answer(lambda: ascend.compile_graph(graph, sizes, machine).script())
    return found


def _tiling(tiling: Any) -> str:
    costs = [f"{c.cost.total:.6g} {c.cost.vector:.6g} {c.cost.moves:.6g}" for _, c in tiling.considered]
    return "\n".join([str(tiling), *costs, tiling.ascend_c()])


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs(part: int) -> None:
    check("ascend", part, answers)
