"""What random graphs of Ascend are scheduled, tiled and written as is what it was."""

from __future__ import annotations

import re
from typing import Any

import pytest
from random_graphs import Maker
from recorded import PARTS, answer, check

from tvmagic import ascend, ir
from tvmagic.ascend.optypes import op_type, reduce_identity

MACHINES = (
    ascend.Npu("small", 7, 10**5),
    "atlas_a2",
    ascend.Machine(threads=3, l1=32 << 10, l2=512 << 10, l3=8 << 20),
    ascend.Machine(threads=1, l1=16 << 10, l2=48 << 10, l3=1 << 20),
)
FIELDS = (
    "inputs",
    "kind",
    "takes",
    "result",
    "cost",
    "conditions",
    "outputs",
    "refused",
    "known",
    "compute_type",
    "unit",
    "is_buffer",
)


def answers(row: dict[str, Any]) -> dict[str, str]:
    if not row["source"].isdigit():
        return _type(row["source"])
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
    found["tiling"] = _rounded(answer(lambda: _tiling(ascend.auto_tiling(results, sizes, machine))))
    found["lowered"] = answer(lambda: ascend.compile_graph(graph, sizes, machine).script())
    return found


def _rounded(text: str) -> str:
    """The text with six digits of each number: Python's `sum` of floats has other last digits from 3.12 on."""
    return re.sub(r"\d+\.\d{5,}(e[+-]?\d+)?", lambda number: f"{float(number[0]):.6g}", text)


def _type(name: str) -> dict[str, str]:
    """What is known of a type of nodes, and what it computes of variables."""
    made = op_type(name)
    found = {"fields": "\n".join(f"{field}: {getattr(made, field)}" for field in FIELDS) + f"\n{dict(made.attrs)}"}
    for dtype in ("float32", "float16", "int32", "uint8", "bool"):
        if dtype[0] not in made.takes:
            continue
        values = [ir.Var(f"x{n}", "bool" if n in made.conditions else dtype) for n in range(max(made.inputs, 1))]
        if made.compute is not None and made.kind == "elewise":
            found[dtype] = answer(lambda: made.compute(*values, **made.attrs))  # type: ignore[misc]
        if made.kind == "reduce":
            found[dtype] = answer(lambda: reduce_identity(name, dtype))
    return found


def _tiling(tiling: Any) -> str:
    costs = [f"{c.cost.total:.6g} {c.cost.vector:.6g} {c.cost.moves:.6g}" for _, c in tiling.considered]
    return "\n".join([str(tiling), *costs, tiling.ascend_c()])


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs(part: int) -> None:
    check("ascend", part, answers)
