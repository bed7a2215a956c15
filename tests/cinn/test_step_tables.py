"""Steps of CINN's schedules, small decision by small decision: which loops there are afterwards, and which calls are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import cinn, te
from tvmagic.cinn import IRSchedule
from tvmagic.eval.machine import run_function
from tvmagic.script import from_cinn


def two(*shape: int) -> IRSchedule:
    """Y = A + 1, then Z = Y * 2."""
    a = te.placeholder(shape, name="A")
    y = te.compute(shape, lambda *i: a[i] + 1.0, name="Y")
    z = te.compute(shape, lambda *i: y[i] * 2.0, name="Z")
    return IRSchedule(cinn.lower([a, z]))


def ran(schedule: IRSchedule, given: np.ndarray, *shape: int) -> np.ndarray:
    out = np.full(shape, 7, "float32")
    run_function(tvmagic.lower(schedule.func)["main"], [given, out])
    return out


def refused(schedule: IRSchedule, call: Callable[[IRSchedule], Any], code: str) -> None:
    """Check that a call is refused with a code and leaves the program as it was."""
    before = schedule.text()
    with refuses(code):
        call(schedule)
    assert schedule.text() == before


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ([], "cinn.split.wrong_arguments"),
        ([0, 5], "cinn.split.factor_not_positive"),
        ([-2, 5], "cinn.split.factor_not_positive"),
        ([-1, -1], "cinn.split.factor_not_positive"),
        ([3, 3], "cinn.split.factors_too_small"),
        ([9], "cinn.split.factors_too_small"),
        ([-1, 11], "cinn.split.factors_too_large"),
        ([6, 2, -1], "cinn.split.factors_too_large"),
    ],
)
def test_splits_that_are_refused(factors: list[int], said: str) -> None:
    refused(two(10, 3), lambda s: s.split("Y", 0, factors), said)


OPEN = """
serial for (i, {min}, {extent})
{{
  serial for (j, 0, 4)
  {{
    ScheduleBlock(Y)
    {{
      i0, i1 = axis.bind(i, j)
      Y[i0, i1] = (A[i0, i1] + 1.00000000f)
    }}
  }}
}}"""


@pytest.mark.parametrize(
    ("low", "extent", "said"),
    [
        ("2", "8", "cinn.schedule.loop_not_from_zero"),
        ("0", "n", "cinn.schedule.symbolic_extent"),
    ],
)
def test_loops_that_are_not_from_nothing_to_a_number(low: str, extent: str, said: str) -> None:
    text = OPEN.format(min=low, extent=extent)
    for call in (
        lambda s: s.split("Y", 0, [-1, 4]),
        lambda s: s.fuse("Y", [0, 1]),
        lambda s: s.flatten_loops(s.get_loops("Y")),
    ):
        refused(IRSchedule(from_cinn(text)), call, said)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([0, 2], "cinn.fuse.not_only_statement"),
        ([1, 0], "cinn.fuse.not_only_statement"),
        ([3, 4], "cinn.schedule.loop_out_of_range"),
        ([-1, 0], "cinn.schedule.loop_out_of_range"),
    ],
)
def test_fusions_that_are_refused(places: list[int], said: str) -> None:
    refused(two(3, 4, 5, 2), lambda s: s.fuse("Y", places), said)
    refused(two(3, 4, 5, 2), lambda s: s.fuse([]), "cinn.fuse.no_loops")
    refused(two(3, 4, 5, 2), lambda s: s.flatten_loops([]), "cinn.flatten_loops.no_loops")


def test_orders_that_are_refused() -> None:
    refused(two(3, 4, 5), lambda s: s.reorder("Y", [0, 1, 0]), "cinn.reorder.repeated_loop")
    refused(two(3, 4), lambda s: s.reorder([s.get_loops("Y")[0], s.get_loops("Z")[1]]), "cinn.reorder.not_nested")
    triangle = OPEN.format(min="0", extent="4").replace("(j, 0, 4)", "(j, 0, (i + 1))")
    refused(
        IRSchedule(from_cinn(triangle)),
        lambda s: s.reorder("Y", [1, 0]),
        "cinn.reorder.bounds_depend_on_loop",
    )
    shifted = OPEN.format(min="0", extent="4").replace("(j, 0, 4)", "(j, i, 4)")
    refused(
        IRSchedule(from_cinn(shifted)),
        lambda s: s.reorder("Y", [1, 0]),
        "cinn.reorder.bounds_depend_on_loop",
    )


SUM = """
serial for (i, 0, 6)
{
  ScheduleBlock(S__reduce_init)
  {
    i0 = axis.bind(i)
    S__reduce_init[i0] = 0.00000000f
  }
  serial for (k, 0, 4)
  {
    ScheduleBlock(S)
    {
      i0, i1 = axis.bind(i, k)
      S[i0] = (S[i0] + A[i0, i1])
    }
  }
}"""


def test_what_cannot_be_flattened() -> None:
    refused(IRSchedule(from_cinn(SUM)), lambda s: s.flatten_loops(s.get_loops("S")), "cinn.flatten_loops.reduction")
    refused(
        two(3, 4, 5),
        lambda s: s.flatten_loops(s.get_loops("Y")[:2]),
        "cinn.flatten_loops.other_loops",
    )
    turned = OPEN.format(min="0", extent="6").replace("bind(i, j)", "bind(j, i)")
    refused(
        IRSchedule(from_cinn(turned)),
        lambda s: s.flatten_loops(s.get_loops("Y")),
        "cinn.flatten_loops.loops_out_of_order",
    )


def test_a_flat_loop_in_another_order_of_elements() -> None:
    a = te.placeholder((4, 6), name="A")
    b = te.compute((6, 4), lambda i, j: a[j, i] * 2.0, name="B")
    schedule = IRSchedule(cinn.lower([a, b]))
    refused(
        schedule,
        lambda s: s.flatten_loops(s.get_loops("B"), True),
        "cinn.flatten_loops.elements_out_of_order",
    )
    schedule.flatten_loops(schedule.get_loops("B"))
    given = np.arange(24, dtype="float32").reshape(4, 6)
    np.testing.assert_array_equal(ran(schedule, given, 6, 4), given.T * 2)
