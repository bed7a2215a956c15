"""Structures, changes and texts of schedules: legal, right, repeatable."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import numpy as np
import pytest
from refusals import refuses
from sampling import every

from tvmagic.auto.cell import cell_text
from tvmagic.errors import TVMagicError
from tvmagic.ir import structural_equal
from tvmagic.operators import operator
from tvmagic.target import Target
from tvmagic.tir.schedule import Schedule
from tvmagic.tune import auto, mutate, random_schedule
from tvmagic.tune.candidate import Candidate, replay
from tvmagic.tune.mutate import changed
from tvmagic.tune.problem import Problem
from tvmagic.tune.variants import variant
from tvmagic.tune.worker import Bench

DENSE = """X: float32[16, 12]
W: float32[8, 12]
b: float32[8]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
CELLS = {
    "dense": DENSE,
    "matmul": "X: float32[33, 20]\nW: float32[20, 48]\nY[i, j] += X[i, k] * W[k, j]",
    "rows": "X: float32[16, 70]\nY[i] += X[i, k]",
    "largest": "X: int32[6, 5, 3]\nY[j] = max(X[i, j, k], over=(i, k))",
    "symbolic": "X: float32[n, 6]\nY[i] += X[i, k]",
    "scalar": "X: float32[90]\nS[()] += X[i]",
    "softmax": "X: float32[6, 40]\nY[i, j] = exp(X[i, j] - max(X[i, q], over=q))\nZ[i, j] = Y[i, j] / sum(Y[i, q], over=q)",
    "blur": "X: float32[20, 33]\ni: range(18)\nj: range(31)\nA[y, j] = X[y, j] + X[y, j + 1] + X[y, j + 2]\n"
    "B[i, j] = A[i, j] + A[i + 1, j] + A[i + 2, j]",
    "transposed": "X: float32[30, 20]\nY[i, j] = X[j, i] + 1",
}


def trace_of(sch: Schedule) -> Any:
    return json.loads(json.dumps(sch.trace.simplified(remove_postproc=False).as_json()))


def check(bench: Bench, trace: Any) -> None:
    """Build and run a schedule; `TVMagicError` if it does not fit or a value is wrong."""
    bench.check(bench.build(Candidate({"trace": trace})), 60.0, 60.0, None)


@pytest.mark.parametrize("name", every(3, CELLS))
def test_random_schedules_and_their_changes_are_right(name: str) -> None:
    op, draw = operator(name, CELLS[name]), random.Random(2)
    bench = Bench(Problem.load(io.BytesIO(Problem.of(op, 0, 9, 0).to_bytes())))  # as it comes to a worker
    traces = [trace_of(auto(op)), *(trace_of(random_schedule(op.to_prim_func(), seed, 32)) for seed in range(2))]
    for trace in traces:
        check(bench, trace)
    fitting = 0
    for _ in range(12):
        changed = mutate(draw.choice(traces), draw)
        try:
            replay(op.to_prim_func(), changed)
        except TVMagicError:
            continue
        fitting += 1
        if fitting < 3:
            check(bench, changed)
    assert fitting >= 2


@pytest.mark.parametrize("name", ["dense", "blur", "transposed"])
def test_variants_of_the_instant_schedule_are_right(name: str) -> None:
    op = operator(name, CELLS[name])
    bench = Bench(Problem.of(op, 0, 9, 0))
    made = [trace_of(variant(op.to_prim_func(), Target("llvm -mcpu=haswell").machine, seed)) for seed in range(8)]
    different = {json.dumps(trace): trace for trace in made}
    assert len(different) > 1
    for trace in list(different.values())[:2]:
        check(bench, trace)


def test_changes_are_drawn_until_they_fit() -> None:
    func = operator("rows", CELLS["rows"]).to_prim_func()
    tried = list[Any]()

    def third(trace: Any) -> Any:
        tried.append(trace)
        if len(tried) < 3:
            raise TVMagicError("it does not fit")
        return trace

    trace = trace_of(auto(func))
    assert changed(trace, 5, third) is tried[2] != trace
    with refuses("trace.not_a_trace"):
        changed(trace, 5, lambda trace: replay(func, "it does not fit"))
    with refuses("tune.nothing_to_change"):
        changed([[], []], 5, third)


def test_the_space_uses_tiles_vectors_threads_packing_and_inlining() -> None:
    op = operator("f", "X: float32[64, 64]\nA[i, k] = X[i, k] * 2\nY[i] += A[i, k]\nZ[i, j] = A[i, j] - Y[i]")
    used = {i.kind.method for s in range(16) for i in random_schedule(op.to_prim_func(), s, 16).trace.insts}
    assert {"split", "reorder", "vectorize", "parallel", "fuse", "compute_inline", "decompose_reduction"} <= used
    product = operator("g", "X: float32[64, 64]\nW: float32[64, 64]\nY[i, j] += X[i, k] * W[k, j]").to_prim_func()
    used = {i.kind.method for s in range(30) for i in random_schedule(product, s, 16).trace.insts}
    assert {"cache_write", "reverse_compute_at", "unroll", "annotate", "cache_read", "transform_layout"} <= used
    rows = operator("h", CELLS["rows"]).to_prim_func()
    assert "rfactor" in {i.kind.method for s in range(8) for i in random_schedule(rows, s, 16).trace.insts}


def test_a_seed_gives_the_same_schedule_again() -> None:
    func = operator("dense", DENSE).to_prim_func()
    texts = [str(random_schedule(func, seed).trace) for seed in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_each_kind_of_change_is_made() -> None:
    """What a change does, from the difference of the traces."""
    func = operator("g", "X: float32[64, 64]\nW: float32[64, 64]\nY[i, j] += X[i, k] * W[k, j]").to_prim_func()
    draw, kinds = random.Random(1), set[str]()
    for seed in range(40):
        before = trace_of(random_schedule(func, seed, 32))
        after = mutate(before, draw)
        assert after is not None and after != before
        assert before == trace_of(random_schedule(func, seed, 32)), "the trace itself is left alone"
        old, new = ([inst[0] for inst in trace[0]] for trace in (before, after))
        if old == new:
            kinds |= {a[0] for a, b in zip(before[0], after[0]) if a != b}
        else:
            kinds.add("longer" if len(new) > len(old) else "shorter")
    assert {"Split", "Reorder", "ReverseComputeAt", "longer", "shorter"} <= kinds, kinds


def test_a_sampled_tile_keeps_its_product_and_its_limit() -> None:
    func = operator("rows", CELLS["rows"]).to_prim_func()
    sch = Schedule(func, seed=3)
    (i, k) = sch.get_loops(sch.get_block("Y"))
    sch.split(k, sch.sample_perfect_tile(k, 3, 8))
    trace, draw = trace_of(sch), random.Random(0)
    for _ in range(20):
        changed = mutate(trace, draw)
        if changed is None or [x[0] for x in changed[0]] != [x[0] for x in trace[0]]:
            continue
        ((_, sizes),) = changed[1]
        assert np.prod(sizes) == 70 and sizes[-1] <= 8
        replay(func, changed)


def test_what_has_nothing_to_change_is_left() -> None:
    assert mutate([[], []], random.Random(0)) is None


@pytest.mark.parametrize("trace", [None, 3, [[]], [[["Split"]], []], [[["Nothing", [], [], []]], []], [[[]], [1]], "x"])
def test_a_trace_of_anything_is_refused(trace: Any) -> None:
    with pytest.raises(TVMagicError):
        replay(operator("dense", DENSE).to_prim_func(), trace)


@pytest.mark.parametrize("name", CELLS)
def test_the_calls_of_a_schedule_make_it_again(name: str) -> None:
    func = operator(name, CELLS[name]).to_prim_func()
    for sch in [auto(func), *(random_schedule(func, seed, 32) for seed in range(2))]:
        again = Schedule(func)
        text = cell_text(func, sch.trace.simplified(remove_postproc=False), [])
        exec(text, {"sch": again})
        assert structural_equal(again.mod, sch.mod), text


def test_samples_are_written_with_their_decisions() -> None:
    func = operator("rows", CELLS["rows"]).to_prim_func()
    sch = Schedule(func, seed=3)
    _, k = sch.get_loops(sch.get_block("Y"))
    sch.split(k, sch.sample_perfect_tile(k, 3, 8, [7, 5, 2]))
    text = cell_text(func, sch.trace, [])
    assert "size, size_a, size_b = sch.sample_perfect_tile(k, 3, 8, decision=[7, 5, 2])" in text
    exec(text, {"sch": (again := Schedule(func))})
    assert structural_equal(again.mod, sch.mod)


def test_a_candidate_of_a_seed_is_made_where_it_is_lowered() -> None:
    problem = Problem.of(operator("dense", DENSE), 0, 16, 0)
    candidate = Candidate.of_seed(5, 32)
    assert candidate.trace is None and candidate.made(problem).trace == trace_of(random_schedule(problem.func, 5, 32))


def unknown_names(trace: Any) -> list[str]:
    """The names that a trace uses before a call gives them."""
    given: set[str] = set()
    unknown: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, str) and not value.startswith('"') and value not in given:
            unknown.append(value)
        for item in value if isinstance(value, list) else ():
            look(item)

    for _, inputs, _, outputs in trace[0]:
        look(inputs)
        given.update(outputs)
    return unknown


@pytest.mark.parametrize("name", ["dense", "softmax", "blur"])
def test_changed_traces_name_what_their_calls_give(name: str) -> None:
    module, draw = operator("f", CELLS[name]).to_prim_func(), random.Random(4)
    trace = random_schedule(module, 5, 32).trace.as_json()
    for _ in range(300):
        after = mutate(trace, draw)
        assert unknown_names(after) == []
        trace = after if draw.random() < 0.8 else trace
