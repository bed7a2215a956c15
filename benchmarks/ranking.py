"""`python -m benchmarks.ranking [--each 24] [--out FILE] [--data FILE] [--picture FILE.svg]`

How well the search's cost model ranks schedules that it has not seen. The schedules are always the same: of five
operators, for each some variants of the instant schedule, changes of it and random structures, by fixed seeds. Each is
built, checked and measured. Then the model learns from one half of an operator's schedules and ranks the other half, and the
other way around; and it learns from four operators and ranks the fifth. `--data` reads times that `--out` wrote.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tvmagic.operators import operator
from tvmagic.runtime import set_num_threads
from tvmagic.tune import CostModel, Trial, auto, rank_correlation
from tvmagic.tune.candidate import Candidate
from tvmagic.tune.features import rough
from tvmagic.tune.problem import Problem
from tvmagic.tune.worker import SLOWER, machine_kind
from tvmagic.tune.workers import LocalWorkers

OPERATORS = {
    "matmul": "A: float32[256, 256]\nB: float32[256, 256]\nC[i, j] += A[i, k] * B[k, j]",
    "softmax": "X: float32[512, 512]\nY[i, j] = exp(X[i, j] - max(X[i, q], over=q))\n"
    "Z[i, j] = Y[i, j] / sum(Y[i, q], over=q)",
    "blur": "X: float32[514, 514]\ni: range(512)\nj: range(512)\nH[y, j] = X[y, j] + X[y, j + 1] + X[y, j + 2]\n"
    "Y[i, j] = H[i, j] + H[i + 1, j] + H[i + 2, j]",
    "transpose": "X: float32[1000, 1000]\nY[i, j] = X[j, i] + 1",
    "convolution": "X: float32[30, 30, 32]\nW: float32[3, 3, 32, 32]\nY[i, j, o] += X[i + r, j + q, c] * W[r, q, c, o]",
}
_SLOWEST = 50.0  # times the best, above which a schedule teaches nothing
Row = dict[str, Any]  # {"operator", "origin", "features", "seconds"}


def candidates(problem: Problem, each: int) -> list[tuple[str, Candidate]]:
    """The fixed schedules: the instant one, and by turns a change, a variant, a random one."""
    instant = Candidate.of_trace(auto(problem.func, problem.code_target).trace)
    width = problem.code_target.machine.vector_bits // 8
    makers: list[tuple[str, Callable[[int], Candidate]]] = [
        ("change", lambda n: Candidate.of_change(instant.trace, n)),
        ("variant", Candidate.of_variant),
        ("random", lambda n: Candidate.of_seed(n, width)),
    ]
    found = [("instant", instant)]
    for n in range(4 * each):
        name, make = makers[n % 3]
        found.append((name, make(n)))
    return found


def measured(name: str, text: str, each: int) -> list[Row]:
    """Features and seconds of `each` different schedules of an operator, by a worker process."""
    problem = Problem.of(operator(name, text), 0, 256, 1)
    rows, known, best = list[Row](), list[str](), math.inf
    with LocalWorkers(1) as workers:
        workers.open(problem.to_bytes())
        for number, (origin, candidate) in enumerate(candidates(problem, each)):
            if len(rows) == each:
                break
            limits = {} if math.isinf(best) else {machine_kind(): _SLOWEST * best / SLOWER}
            task = {
                "id": number,
                "do": "try",
                "candidate": candidate.data,
                "known": known,
                "best": limits,
                "limit": 60.0,
            }
            for _, result in workers.run([task], time.monotonic() + 120.0):
                known.append(result.get("hash", ""))
                if "seconds" in result:
                    best = min(best, result["seconds"])
                    values = {"features": result["features"], "seconds": result["seconds"], "candidate": candidate.data}
                    rows.append({"operator": name, "origin": origin, **values})
    return rows


def ranks(rows: Sequence[Row]) -> list[tuple[Row, int, float, float]]:
    """Each row with its half, 0 or 1, and what models predict for it that learned from others: from the other half of
    its operator's rows, and from other operators' alone. Times are multiples of the best of an operator."""
    best = {name: min(r["seconds"] for r in rows if r["operator"] == name) for name in OPERATORS}

    def learned(chosen: Sequence[Row]) -> CostModel:
        model = CostModel(_boosted)
        model.fit([r["features"] for r in chosen], [r["seconds"] / best[r["operator"]] for r in chosen])
        return model

    found: list[tuple[Row, int, float, float]] = []
    for name in OPERATORS:
        own, others = [r for r in rows if r["operator"] == name], [r for r in rows if r["operator"] != name]
        far = learned(others).predict([r["features"] for r in own])
        for half in (0, 1):
            near = learned(own[1 - half :: 2]).predict([r["features"] for r in own[half::2]])
            found += [(r, half, n, f) for r, n, f in zip(own[half::2], near, far[half::2])]
    return found


_boosted = True


def correlations(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
    """For each operator the rank correlations, the mean of its halves: learned from the other half, learned from other
    operators, and of the rough number of cycles, which is what the model has before it learns."""
    found = ranks(rows)
    result: dict[str, tuple[float, float, float]] = {}
    for name in OPERATORS:
        halves = [[f for f in found if f[0]["operator"] == name and f[1] == half] for half in (0, 1)]
        values = [_three(half) for half in halves]
        result[name] = tuple(sum(v[n] for v in values) / 2 for n in range(3))  # type: ignore[assignment]
    return result


def _three(rows: Sequence[tuple[Row, int, float, float]]) -> tuple[float, float, float]:
    times, cycles = [r["seconds"] for r, *_ in rows], rough([r["features"] for r, *_ in rows])
    predictions = [[n for _, _, n, _ in rows], [f for _, _, _, f in rows], cycles.tolist()]
    first, second, third = (rank_correlation(p, times) for p in predictions)
    return first, second, third


def picture(rows: Sequence[Row]) -> str:
    """Predicted over measured times of all schedules, as SVG."""
    from tvmagic.notebook.pictures.search import search_picture

    best = {name: min(r["seconds"] for r in rows if r["operator"] == name) for name in OPERATORS}
    trials = [
        Trial(n + 1, r["origin"], Candidate.of_variant(n), r["seconds"], predicted=near * best[r["operator"]])
        for n, (r, _, near, _) in enumerate(ranks(rows))
    ]
    total = rank_correlation([t.predicted or 0.0 for t in trials], [t.seconds or 0.0 for t in trials])
    return search_picture("five operators", trials, total).svg


def main() -> None:
    global _boosted
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranking", description=__doc__)
    parser.add_argument("--each", type=int, default=24)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    set_num_threads(1)
    if options.data:
        rows = json.loads(options.data.read_text())
    else:
        rows = [row for name, text in OPERATORS.items() for row in measured(name, text, options.each)]
    if options.out:
        options.out.write_text(json.dumps(rows))
    print(f"{len(rows)} schedules of {len(OPERATORS)} operators")
    for _boosted in (True, False):
        table = correlations(rows)
        model = CostModel(_boosted)
        print(f"{model.name}: rank correlation learned from half of the operator's, from other operators, not at all")
        for name, values in table.items():
            print(f"  {name:12}" + "".join(f"{v:8.2f}" for v in values))
        print("  mean        " + "".join(f"{sum(v[n] for v in table.values()) / len(table):8.2f}" for n in range(3)))
    _boosted = True
    if options.picture:
        options.picture.write_text(picture(rows))


if __name__ == "__main__":
    main()
