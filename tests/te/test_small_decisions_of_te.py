"""Decisions of TE's schedules that few programs come to, each as a table."""

from __future__ import annotations

from typing import Any

import pytest

from tvmagic import te
from tvmagic.arith.int_set import IntSet
from tvmagic.errors import ScheduleError
from tvmagic.ir import IntImm, Range, SizeVar
from tvmagic.te.schedule import Schedule
from tvmagic.te.schedule.attributes import AttachType
from tvmagic.te.schedule.infer_bound import _first
from tvmagic.te.schedule.rfactor import _connected


def sums() -> tuple[Any, Any, Any]:
    a = te.placeholder((12, 9, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((12, 9), lambda i, j: te.sum(a[i, j, k], k), name="B")
    return a, b, te.create_schedule(b.op)


def test_numbers_of_the_ways_to_attach_are_those_of_tvm() -> None:
    names = ["GROUP_ROOT", "INLINE", "INLINED_ALREADY", "SCOPE", "SCAN_UPDATE"]
    assert [(t.name, int(t)) for t in AttachType] == [(name, n + 1) for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("place", "shape"),
    [
        (0, "10 12 9"),
        (1, "12 10 9"),
        (2, "12 9 10"),
        (-1, "12 9 10"),
        (-2, "12 10 9"),
        (-3, "10 12 9"),
        (3, ""),
        (-4, ""),
    ],
)
def test_where_rfactor_puts_its_dimension(place: int, shape: str) -> None:
    _, b, s = sums()
    if not shape:
        with pytest.raises(ScheduleError, match="which the result does not have"):
            s.rfactor(b, b.op.reduce_axis[0], place)
    else:
        assert " ".join(str(n) for n in s.rfactor(b, b.op.reduce_axis[0], place).shape) == shape


def test_loops_that_share_a_root_with_one() -> None:
    _, b, s = sums()
    stage, k = s[b], b.op.reduce_axis[0]
    outer, inner = stage.split(k, 4)
    alone = set(_connected(stage, stage.op.axis[0]))
    assert alone == {stage.op.axis[0]}
    assert set(_connected(stage, inner)) == {k, outer, inner}
    fused = stage.fuse(*stage.op.axis)
    assert set(_connected(stage, fused)) == {fused, *stage.op.axis}


def test_a_schedule_keeps_no_record_by_itself() -> None:
    _, b, s = sums()
    assert Schedule.keep_record is False
    s[b].parallel(b.op.axis[0])
    assert not s.keep_record and s.primitive_record == [] and s.schedule_record == []


@pytest.mark.parametrize(
    ("low", "extent", "ends"), [(0, 8, (0, 7)), (3, 5, (3, 7)), ("n", 5, (0, 4)), (0, "n", (0, -1))]
)
def test_first_elements_are_told_if_they_are_numbers(low: Any, extent: Any, ends: tuple[int, int]) -> None:
    size = SizeVar("n")
    domain = Range.from_min_extent(size if low == "n" else low, size if extent == "n" else extent)
    number, two, three = Range.from_min_extent(1, 2), IntImm("int32", 2), IntImm("int32", 3)
    found = _first(domain, number, [IntSet.interval(two, three)])
    assert found == {"domain": ends, "computed": (1, 2), "asked": [(2, 3)]}
    everything = IntSet.everything()
    for asked in (everything, IntSet.interval(two, everything.max()), IntSet.interval(everything.min(), three)):
        assert _first(domain, number, [asked]) is None


def test_what_is_said_of_layouts() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, j: [i // 4, te.AXIS_SEPARATOR, i % 4, j])
    s = s.normalize()
    text = str(te.schedule.ScheduleOps(s, te.schedule.InferBound(s), False))
    assert '"axis_separators", 1)' in text and '"layout_transforms", 1)' in text
