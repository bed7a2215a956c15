"""`IRSchedule`: every call in CINN's terms, the value kept, the trace below."""

from __future__ import annotations

import numpy as np
import pytest
from cinn_programs import arrays, run

import tvmagic
from tvmagic import cinn, te, tir
from tvmagic.errors import ScheduleError, TVMagicError
from tvmagic.ir import ForKind, IRModule


def matmul_then_relu() -> cinn.IRSchedule:
    a, w = te.placeholder((16, 8), name="A"), te.placeholder((8, 24), name="W")
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((16, 24), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="B")
    c = te.compute((16, 24), lambda i, j: tir.max(b[i, j], tir.const(0.0, "float32")), name="C")
    return cinn.IRSchedule(cinn.lower([a, w, c]), seed=3)


def check(schedule: cinn.IRSchedule) -> None:
    a, w = arrays([(16, 8), (8, 24)])
    np.testing.assert_allclose(run(schedule.func, [a, w], (16, 24))[0], np.maximum(a @ w, 0), rtol=1e-4, atol=1e-5)


def names(schedule: cinn.IRSchedule) -> list[str]:
    return [schedule.block_of(b).name_hint for b in schedule.get_all_blocks()]


def test_looking_up() -> None:
    schedule = matmul_then_relu()
    assert names(schedule) == ["B", "C"] and schedule.has_block("B") and not schedule.has_block("X")
    assert schedule.block_of(schedule.get_root_block("B")).name_hint == "root"
    assert [schedule.schedule.get(x).loop_var.name for x in schedule.get_loops("B")] == ["i", "j", "k"]
    (body,) = schedule.get_module().get_exprs()
    assert body is schedule.func.body and str(schedule) == str(schedule.get_module()) == schedule.text()
    with pytest.raises(ScheduleError, match="did you mean `B`|no block"):
        schedule.get_block("BB")
    with pytest.raises(TVMagicError, match="by its name"):
        schedule.get_loops(3)


def test_loops_and_moving() -> None:
    schedule = matmul_then_relu()
    outer, inner = schedule.split("B", 0, [4, -1])
    j, k = schedule.get_loops("B")[2:]
    schedule.reorder([outer, j, inner, k])
    schedule.split(k, [-1, 2])
    schedule.unroll(schedule.get_loops("B")[-1])
    first, second = schedule.get_loops("C")
    fused = schedule.fuse([first, second])
    schedule.vectorize(fused, 8)
    schedule.parallel(schedule.get_loops("C")[0])
    kinds = [schedule.schedule.get(x).kind for x in schedule.get_loops("C")]
    assert kinds == [ForKind.PARALLEL, ForKind.VECTORIZED]
    check(schedule)
    with pytest.raises(TVMagicError, match="has 2 loops"):
        schedule.split("C", 5, [-1, 2])


def test_binding_of_threads() -> None:
    schedule = matmul_then_relu()
    schedule.bind(schedule.get_loops("C")[0], "threadIdx.x")
    assert "thread_bind[threadIdx.x] for (i, 0, 16)" in schedule.text()


@pytest.mark.parametrize("move", ["compute_at", "reverse_compute_at", "simple_compute_at"])
def test_computing_at(move: str) -> None:
    schedule = matmul_then_relu()
    block, other = ("C", "B") if move == "reverse_compute_at" else ("B", "C")
    getattr(schedule, move)(block, schedule.get_loops(other)[0])
    assert schedule.get_loops("B")[0] is not None
    assert schedule.schedule.get(schedule.get_loops("B")[0]) is schedule.schedule.get(schedule.get_loops("C")[0])
    check(schedule)


def test_simple_compute_at_wants_equal_extents() -> None:
    schedule = matmul_then_relu()
    schedule.split("C", 0, [4, 4])
    with pytest.raises(ScheduleError, match="extents"):
        schedule.simple_compute_at("B", schedule.get_loops("C")[0])
    consumer = matmul_then_relu()
    consumer.simple_compute_at("C", consumer.get_loops("B")[1])
    check(consumer)


def test_caches_and_rfactor() -> None:
    schedule = matmul_then_relu()
    schedule.cache_read("B", 0, "local")
    schedule.cache_write("C", 0, "local")
    schedule.set_buffer("B", "local")
    assert names(schedule) == ["A_local", "B", "C", "C_local"]
    check(schedule)
    other = matmul_then_relu()
    outer, _ = other.split("B", 2, [4, 2])
    other.rfactor(outer, 0)
    assert len(names(other)) == 3
    check(other)


def test_facts_and_samples() -> None:
    schedule = matmul_then_relu()
    schedule.annotate("B", "note", 1)
    schedule.annotate(schedule.get_loops("B")[0], "pragma", 2)
    assert "attrs(note:1)" in schedule.text()
    schedule.unannotate("B", "note")
    schedule.unannotate(schedule.get_loops("B")[0], "pragma")
    assert "attrs" not in schedule.text()
    tiles = schedule.sample_perfect_tile(schedule.get_loops("B")[0], 2, 16)
    assert np.prod([schedule.schedule.get(t) for t in tiles]) == 16
    schedule.split("B", 0, tiles)
    assert schedule.schedule.get(schedule.sample_categorical([4, 8], [0.5, 0.5])) in (4, 8)
    copied = schedule.copy()
    copied.split("C", 0, [-1, 2])
    assert len(copied.get_loops("C")) == 3 and len(schedule.get_loops("C")) == 2
    assert "sch.sample_perfect_tile" in str(schedule.trace)
    check(schedule)


def test_what_has_no_blocks_is_refused() -> None:
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1.0, name="B")
    lowered = tvmagic.lower(te.create_schedule(b.op), [a, b])
    with pytest.raises(TVMagicError, match="no root block"):
        cinn.IRSchedule(lowered)
    function = te.create_prim_func([a, b])
    with pytest.raises(TVMagicError, match="several functions"):
        cinn.IRSchedule(IRModule({"f": function, "g": function}))
