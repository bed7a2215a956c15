"""Schedules that regroup or reorder a reduction, of reducers that depend on the order and of others."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refuses
from te_execution import largest_difference

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import ScheduleError


def reduction(combine: Any, start: int = 0, **options: Any) -> tuple[te.Schedule, list[te.Tensor], Any, Any]:
    reducer = te.comm_reducer(combine, lambda t: te.const(start, t), **options)
    a = te.placeholder((4, 12, 3), "int32", name="A")
    k, l = te.reduce_axis((0, 12), "k"), te.reduce_axis((0, 3), "l")
    b = te.compute((4,), lambda i: reducer(a[i, k, l], axis=[k, l]), name="B")
    return te.create_schedule(b.op), [a, b], k, l


DEPENDENT = {
    "x - y": (lambda x, y: x - y, 0),
    "x + y from 1": (lambda x, y: x + y, 1),
    "2 x + y": (lambda x, y: x * 2 + y, 0),
    "by more than 1": (lambda x, y: tir.Select(x > y + 1, x, y), 0),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_rfactor_is_refused(name: str) -> None:
    s, (_, b), k, _ = reduction(*DEPENDENT[name])
    with pytest.raises(ScheduleError) as caught:
        s.rfactor(b, s[b].split(k, 4)[1])
    assert "te.comm_reducer(..., associative=True)" in caught.value.hint


@pytest.mark.parametrize("name", DEPENDENT)
def test_reductions_over_threads_are_refused(name: str) -> None:
    s, args, k, _ = reduction(*DEPENDENT[name])
    s[args[1]].bind(s[args[1]].split(k, 4)[1], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError) as caught:
        tvmagic.lower(s, args)
    assert caught.value.span is not None


def test_the_order_of_loops_changes_only_if_the_result_does_not_depend_on_it() -> None:
    s, args, k, l = reduction(*DEPENDENT["2 x + y"])
    with pytest.raises(ScheduleError):
        s[args[1]].reorder(l, k)
    assert largest_difference(s, args) == 0  # the schedule is as it was
    s, args, k, l = reduction(*DEPENDENT["x - y"])
    s[args[1]].reorder(l, k)
    assert largest_difference(s, args) == 0


def test_a_declared_reducer_may_be_factored() -> None:
    largest = (lambda x, y: tir.if_then_else(x * 2 > y * 2, x, y), -100)
    s, (a, b), k, _ = reduction(*largest)
    with refuses("te.rfactor.unproved_law", error=ScheduleError):
        s.rfactor(b, k)
    s, (a, b), k, _ = reduction(*largest, associative=True)
    s.rfactor(b, s[b].split(k, 4)[1])
    assert largest_difference(s, [a, b]) == 0


def test_a_declaration_is_kept_in_json() -> None:
    s, (_, b), _, _ = reduction(lambda x, y: (x + y) // 2, associative=True)
    s = tvmagic.ir.load_json(tvmagic.ir.save_json(s))
    b = s.outputs[0].output(0)
    s.rfactor(b, b.op.reduce_axis[0])


def test_a_tensorir_choice_that_is_not_associative_is_not_factored() -> None:
    a, k = te.placeholder((4, 8), "int32", name="A"), te.reduce_axis((0, 8), "k")
    reducer = te.comm_reducer(lambda x, y: tir.Select(x > y + 1, x, y), tir.min_value)
    b = te.compute((4,), lambda i: reducer(a[i, k], axis=k), name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    with pytest.raises(ScheduleError, match="`B`"):
        sch.rfactor(sch.split(sch.get_loops("B")[1], [None, 4])[1], 0)
