from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

import tvmagic
from tvmagic import ascend
from tvmagic.ascend import ops
from tvmagic.ascend.cost import CostModel
from tvmagic.errors import TVMagicError
from tvmagic.puzzles import AnswersPuzzle

ROWS, COLUMNS, CORES = 960, 96, 8
MACHINE = ascend.Machine(threads=CORES, l1=56 << 10, l2=256 << 10)


def softmax() -> ascend.AscGraph:
    """The HintGraph."""
    graph = ascend.AscGraph("softmax")
    _, z1 = graph.create_axis("z0", ROWS), graph.create_axis("z1", COLUMNS)
    x = ops.Load(ops.Data(graph, "x"))
    e = ops.Exp(ops.Sub(x, ops.Broadcast(ops.Max(x, z1), z1)))
    ops.Output(ops.Store(ops.Div(e, ops.Broadcast(ops.Sum(e, z1), z1))), "out")
    return graph


@cache
def scheduled() -> tuple[ascend.AscGraph, ascend.ScheduleResult]:
    """The HintGraph, and the first of its implementations."""
    graph = softmax()
    return graph, ascend.auto_schedule(graph)[0]


def count(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a tiling by hand makes of the softmax: by the cost model, and by running it."""
    for name, value in values.items():
        if type(value) is not int or not 1 <= value <= ROWS:
            raise TVMagicError(f"`{name}` is not a whole number from 1 to {ROWS}", code="puzzle.number_out_of_range")
    graph, result = scheduled()
    impl = result.groups[0].impls[0]
    sizes = {"z0t_size": values["rows"], "z0Tb_size": values["tiles"]}
    cost = CostModel(impl, {}, MACHINE).cost(sizes)
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("float32")
    out = np.zeros_like(x)
    tvmagic.build(ascend.lower_graphs(result.hint, [impl.graph], [sizes]))(x, out)
    wrong = int((~np.isclose(out, ascend.evaluate(graph, [x])[0], rtol=1e-4)).sum())
    return {
        "wrong": wrong,
        "local": cost.local_bytes,
        "at_once": values["rows"] * COLUMNS * 4,
        "cores": cost.cores,
        "time": round(cost.total),
    }


PUZZLE = AnswersPuzzle(
    title="An Ascend tiling",
    task=f"""
A softmax over {ROWS} rows of {COLUMNS} numbers runs on {CORES} cores. Auto Schedule has split the rows twice: into tiles of `rows` rows, which are
loaded into a core's local memory, and the tiles into blocks of `tiles` tiles for each core. Choose both numbers: at least 8 KiB
are to be moved at once, all buffers together have 56 KiB, and the cores should end at the same time.
""",
    program=ascend.pseudo_code(scheduled()[1].groups[0].impls[0].graph),
    asks={"rows": "rows in a tile (z0t_size)", "tiles": "tiles in a block (z0Tb_size)"},
    facts={
        "wrong": "values that differ from NumPy's",
        "local": "bytes of local memory",
        "at_once": "bytes moved at once",
        "cores": "cores that have work",
        "time": "nanoseconds by the cost model",
    },
    count=count,
    goals=["wrong == 0", "local <= 57_344", "at_once >= 8_192", "cores == 8", "time <= 15_600"],
    solution="rows = 24\ntiles = 5",
    hints={
        "local <= 57_344": f"A row of {COLUMNS} numbers takes {COLUMNS * 4} bytes in each buffer, and there are several: halve the tile.",
        "cores == 8": f"{ROWS} rows are `{ROWS} / rows` tiles, and `tiles` of them make a block. Eight cores need eight blocks.",
        "at_once >= 8_192": f"A tile of `rows` rows moves `rows` * {COLUMNS * 4} bytes at once: these are too few.",
        "time <= 15_600": "The core with the most rows makes all others wait: take a tile that gives each core the same number of rows.",
        "refused": f"Both are whole numbers from 1 to {ROWS}.",
    },
    wrong=[
        ("rows = 120\ntiles = 1", "local <= 57_344"),
        ("rows = 15\ntiles = 8", "at_once >= 8_192"),
        ("rows = 24\ntiles = 10", "cores == 8"),
        ("rows = 32\ntiles = 4", "time <= 15_600"),
        ("rows = 0\ntiles = 8", "refused"),
    ],
)
