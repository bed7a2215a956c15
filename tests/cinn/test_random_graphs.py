"""Random graphs: what is left, the value, TensorIR's way, CINN's text there and back; long graphs."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cinn_programs import Graph, arrays, run
from sampling import some

from tvmagic import cinn, te, tir
from tvmagic.cinn.cinn_form import to_tensorir
from tvmagic.errors import ScheduleError
from tvmagic.ir import assert_structural_equal
from tvmagic.script import cinn_text, from_cinn
from tvmagic.te.reference import evaluate_all


@pytest.mark.parametrize("seed", some(range(300), range(24)))
def test_a_random_graph(seed: int) -> None:
    graph = Graph(seed, 3 + seed % 7)
    function = graph.function()
    scheduler = cinn.StaticShapeGroupScheduler(function)
    names = scheduler.schedule_block_graph.block_ids()
    inlined = scheduler.do_compute_inline()
    after = scheduler.ir_schedule.func

    left = {n for n in scheduler.schedule_block_graph.block_ids() if not n.endswith("__reduce_init")}
    assert left == graph.kept()
    assert set(inlined) == {n for n in names if not n.endswith("__reduce_init")} - graph.kept()

    other = tir.Schedule(function)
    for name in inlined:
        other.compute_inline(other.get_block(name))
    assert_structural_equal(other.mod["main"], to_tensorir(after), map_free_vars=True)

    text = cinn_text(after)
    known = {b.name: (b.shape, b.dtype) for b in after.buffer_map.values()}
    again = from_cinn(text, known)
    assert cinn_text(again) == text
    assert_structural_equal(to_tensorir(again), to_tensorir(after), map_free_vars=True)

    inputs = arrays([tuple(int(n) for n in t.shape) for t in graph.inputs], seed)
    expected = evaluate_all(graph.outputs, dict(zip(graph.inputs, inputs)))
    found = run(after, inputs, *[e.shape for e in expected])
    for one, right in zip(found, expected):
        np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-4)


def chain(blocks: int) -> tuple[list, list]:
    source = te.placeholder((4, 8), name="A")
    tensors = []
    last = source
    for number in range(blocks):
        last = _next(last, source, number)
        tensors.append(last)
    return [source, last], tensors


def _next(before, source, number):
    if number % 3:
        return te.compute((4, 8), lambda i, j: before[i, j] + source[i, j], name=f"T{number}")
    return te.compute((4, 8), lambda i, j: before[i, j] * 0.5, name=f"T{number}")


def test_a_graph_of_500_blocks_inlines_quickly(cpu_seconds) -> None:
    function = te.create_prim_func(chain(500)[0])
    scheduler = cinn.StaticShapeGroupScheduler(function)
    inlined = []
    seconds = cpu_seconds(lambda: inlined.extend(scheduler.do_compute_inline()))
    assert len(inlined) == 499 and len(scheduler.schedule_block_graph) == 1
    assert seconds < 4, seconds  # under 2 s on a machine of its own


def test_a_long_chain_keeps_its_value() -> None:
    args, _ = chain(60)
    scheduler = cinn.StaticShapeGroupScheduler(te.create_prim_func(args))
    scheduler.do_compute_inline()
    (a,) = arrays([(4, 8)])
    (found,) = run(scheduler.ir_schedule.func, [a], (4, 8))
    (expected,) = evaluate_all([args[1]], {args[0]: a})
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("seed", range(1000, 1015))
def test_both_directions_as_in_tensorir(seed: int) -> None:
    """Whatever CINN's conditions allow, TensorIR's do too, with the same result."""
    graph, rng = Graph(seed, 6), random.Random(seed)
    schedule = cinn.IRSchedule(graph.function())
    names = [schedule.block_of(b).name_hint for b in schedule.get_all_blocks()]
    rng.shuffle(names)
    for name in names:
        method = rng.choice(["reverse_compute_inline", "reverse_compute_inline", "compute_inline"])
        other = tir.Schedule(to_tensorir(schedule.func))
        try:
            getattr(schedule, method)(name)
        except ScheduleError:
            continue
        getattr(other, method)(other.get_block(name))
        assert_structural_equal(other.mod["main"], to_tensorir(schedule.func), map_free_vars=True)
    inputs = arrays([tuple(int(n) for n in t.shape) for t in graph.inputs], seed)
    expected = evaluate_all(graph.outputs, dict(zip(graph.inputs, inputs)))
    for one, right in zip(run(schedule.func, inputs, *[e.shape for e in expected]), expected):
        np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-4)
