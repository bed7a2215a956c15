"""Loops of a stage on small sizes: with its conditions, each element that is to be computed is computed once."""

from __future__ import annotations

import itertools
import operator
import random
from collections import Counter
from typing import Any

import pytest

from tvmagic import te
from tvmagic.arith import Analyzer
from tvmagic.arith.int_set import IntSet
from tvmagic.errors import DefectError, ScheduleError
from tvmagic.ir import IntImm, IterVar, Range, SizeVar
from tvmagic.te.schedule.message_passing import (
    BoundProver,
    make_bound_check,
    pass_down_domain,
    pass_down_index,
    pass_down_mask,
    pass_up_domain,
    pass_up_index,
    pass_up_mask,
    threads_below,
)

LAYOUTS: list[tuple[Any, int, int]] = [  # a layout, and what the sizes have to be multiples of
    (lambda i, j: [j, i], 1, 1),
    (lambda i, j: [i // 4, j, i % 4], 4, 1),
    (lambda i, j: [i // 2, j // 3, i % 2, j % 3], 2, 3),
]


def stage_of(rows: Any, columns: Any) -> Any:
    a = te.placeholder((rows, columns), name="A")
    b = te.compute((rows, columns), lambda i, j: a[i, j] + 1.0, name="B")
    return te.create_schedule(b.op)[b]


def rearrange(stage: Any, draw: random.Random) -> None:
    """A few random splits and fusions, or another layout of the loops with some."""
    rows, columns = (iv.dom.extent.value for iv in stage.op.axis)
    if draw.random() < 0.3:
        stage.transform_layout(draw.choice([f for f, a, b in LAYOUTS if rows % a == columns % b == 0]))
    for _ in range(draw.randint(1, 4)):
        loops = list(stage.leaf_iter_vars)
        if draw.random() < 0.65:
            stage.split(draw.choice(loops), **{draw.choice(("factor", "nparts")): draw.randint(1, 6)})
        elif len(loops) > 1:
            first = draw.randrange(len(loops) - 1)
            stage.fuse(*loops[first : first + 2])
        if draw.random() < 0.3 and len(stage.leaf_iter_vars) > 1:
            stage.reorder(*draw.sample(list(stage.leaf_iter_vars), 2))


class T:
    """Functions in the text of a program."""

    min, max, bool, likely = min, max, bool, bool
    Add, Sub, Mul = operator.add, operator.sub, operator.mul


class Loops:
    """A stage with the ranges of its loops, what their values make the roots, and the conditions."""

    def __init__(self, stage: Any, computed: dict[Any, Any], **options: Any) -> None:
        self.stage, self.ranges = stage, dict(computed)
        pass_down_domain(stage, self.ranges, Analyzer())
        self.values: dict[IterVar, Any] = {iv: iv.var for iv in stage.leaf_iter_vars}
        pass_up_index(stage, self.ranges, self.values)
        self.conditions = make_bound_check(stage, self.ranges, self.values, BoundProver(self.ranges), **options)

    def points(self) -> list[dict[str, int]]:
        """The values of the loops by their names, in order."""
        ranges: list[Any] = [self.ranges[iv] for iv in self.stage.leaf_iter_vars]
        spans = [range(r.min.value, r.min.value + r.extent.value) for r in ranges]
        names = [iv.var.name.replace(".", "_") for iv in self.stage.leaf_iter_vars]
        return [dict(zip(names, point)) for point in itertools.product(*spans)]

    def computed(self, fixed: dict[str, int] | None = None) -> Counter[tuple[int, ...]]:
        """How often each element is computed, with the given values of some loops."""
        roots = [compile(str(self.values[iv]), "root", "eval") for iv in self.stage.op.root_iter_vars()]
        tests = [compile(str(c), "test", "eval") for c in self.conditions]
        points = [p for p in self.points() if (fixed or p).items() <= p.items()]
        points = [p for p in points if all(eval(test, {"T": T}, p) for test in tests)]
        return Counter(tuple(int(eval(root, {"T": T}, p)) for root in roots) for p in points)


def test_each_element_is_computed_once() -> None:
    """Of all that is to be computed, and of what the tensor has if that is less."""
    bare = 0
    for seed in range(120):
        draw = random.Random(seed)
        rows, columns = draw.randint(1, 9), draw.randint(1, 7)
        stage = stage_of(rows, columns)
        rearrange(stage, draw)
        computed, wanted = {}, []
        for iv, size in zip(stage.op.axis, (rows, columns)):
            low, extent = (0, size) if seed % 3 else (draw.choice((0, 0, 1, -1)), draw.randint(1, size + 1))
            computed[iv] = Range.from_min_extent(low, extent)
            wanted.append([v for v in range(low, low + extent) if 0 <= v < size])
        loops = Loops(stage, computed)
        assert loops.computed() == Counter(itertools.product(*wanted)), (seed, stage.relations, loops.conditions)
        if not loops.conditions:
            bare += 1
        elif seed % 3 and not any(type(r).__name__ == "Transform" for r in stage.relations):
            assert len(loops.points()) > rows * columns, (seed, loops.conditions)  # a condition that leaves nothing out
    assert bare > 30


def test_values_go_down_as_they_came_up() -> None:
    for seed in range(40):
        draw = random.Random(seed)
        stage = stage_of(draw.randint(2, 9), draw.randint(2, 7))
        rearrange(stage, draw)
        loops = Loops(stage, {iv: Range.from_min_extent(draw.randint(0, 3), iv.dom.extent) for iv in stage.op.axis})
        inside = loops.computed()
        for root in list(inside)[:3]:
            values: dict[IterVar, Any] = {iv: IntImm("int32", v) for iv, v in zip(stage.op.axis, root)}
            pass_down_index(stage, loops.ranges, values)
            again = {iv: values[iv] for iv in stage.leaf_iter_vars}
            pass_up_index(stage, loops.ranges, again)
            simplify: Any = Analyzer().simplify
            assert tuple(simplify(again[iv]).value for iv in stage.op.axis) == root, (seed, stage.relations)


def test_sets_of_the_roots_hold_what_the_loops_compute() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        stage = stage_of(draw.randint(2, 9), draw.randint(2, 7))
        rearrange(stage, draw)
        loops = Loops(stage, {iv: iv.dom for iv in stage.op.axis})
        names = {iv: iv.var.name.replace(".", "_") for iv in stage.leaf_iter_vars}
        fixed = draw.choice(stage.leaf_iter_vars)
        point = draw.randrange(loops.ranges[fixed].extent.value)
        at = loops.ranges[fixed].min + point
        sets: dict[Any, Any] = {iv: IntSet.from_range(loops.ranges[iv]) for iv in stage.leaf_iter_vars}
        sets[fixed] = IntSet.single_point(Analyzer().simplify(at))
        cases = pass_up_domain(stage, loops.ranges, sets)
        assert [r for r, _ in cases] == list(reversed(stage.relations))
        simplify: Any = Analyzer().simplify
        ends = [[simplify(e).value for e in (sets[iv].min(), sets[iv].max())] for iv in stage.op.axis]
        for root in loops.computed({names[fixed]: sets[fixed].min().value}):
            assert all(low <= value <= high for value, (low, high) in zip(root, ends)), (seed, stage.relations)


def test_loops_that_are_left_out_have_no_condition() -> None:
    stage = stage_of(10, 7)
    i, j = stage.op.axis
    outer, _ = stage.split(i, 4)
    stage.split(j, 7)
    whole = {iv: iv.dom for iv in (i, j)}
    assert len(Loops(stage, whole).conditions) == 1
    assert Loops(stage, whole, skip=(i,)).conditions == []
    beyond = {i: Range.from_min_extent(0, 12), j: Range.from_min_extent(-1, 8)}
    assert len(Loops(stage, beyond).conditions) == 4  # the last block of `j`; `i` before 10, `j` from 0 and before 7
    assert len(Loops(stage, beyond, domains=False).conditions) == 1
    assert len(Loops(stage, beyond, skip=(j,)).conditions) == 1
    assert Loops(stage, whole, tight=(stage.relations[0],)).conditions == []


def test_what_is_missing_is_a_defect_unless_it_may_miss() -> None:
    stage = stage_of(10, 7)
    i, j = stage.op.axis
    outer, inner = stage.split(i, 4)
    fused = stage.fuse(inner, j)
    ranges = {i: i.dom}
    with pytest.raises(DefectError, match="`B`.*`j`"):
        pass_down_domain(stage, dict(ranges), Analyzer())
    pass_down_domain(stage, ranges, Analyzer(), may_miss=True)
    assert set(ranges) == {i, outer, inner}
    known: dict[Any, Any] = {outer: IntImm("int32", 1)}
    with pytest.raises(DefectError, match="`B`"):
        pass_up_index(stage, ranges, dict(known))
    pass_up_index(stage, ranges, known, may_miss=True)
    assert set(known) == {outer}
    with pytest.raises(DefectError, match="`B`"):
        pass_down_index(stage, ranges, {j: IntImm("int32", 1)})
    down: dict[Any, Any] = {j: IntImm("int32", 1)}
    pass_down_index(stage, ranges, down, may_miss=True)
    assert set(down) == {j}
    masks = {i: 1, j: 2}
    pass_down_mask(stage, masks)
    assert masks == {i: 1, j: 2, outer: 1, inner: 1, fused: 3}
    pass_up_mask(stage, up := {outer: 1, fused: 2})
    assert up == {outer: 1, fused: 2, inner: 2, j: 2, i: 3}


def test_threads_count_from_zero_as_many_as_all_their_loops() -> None:
    stage = stage_of(12, 8)
    i, j = stage.op.axis
    outer, inner = stage.split(i, 4)
    axis = te.thread_axis("threadIdx.x")
    stage.bind(inner, axis)
    assert threads_below(stage) == {inner, i}
    ranges: dict[Any, Any] = {i: Range.from_min_extent(3, 12), j: Range.from_min_extent(5, 8)}
    pass_down_domain(stage, ranges, Analyzer())
    assert (ranges[axis].min.value, ranges[axis].extent.value) == (0, 4)
    stage.bind(j, axis)
    with pytest.raises(ScheduleError, match="`threadIdx.x`.*`4`.*`8`"):
        pass_down_domain(stage, {i: i.dom, j: j.dom}, Analyzer())
    same = stage_of(4, 4)
    for loop in same.op.axis:
        same.bind(loop, axis)
    ranges = {loop: Range.from_min_extent(2, 4) for loop in same.op.axis}
    pass_down_domain(same, ranges, Analyzer())
    assert (ranges[axis].min.value, ranges[axis].extent.value) == (0, 4)
    assert threads_below(stage_of(3, 3)) == set()


def test_conditions_of_symbolic_sizes() -> None:
    n = SizeVar("n")
    for split, computed, count in (
        (4, Range.from_min_extent(0, n), 1),
        (1, Range.from_min_extent(0, n), 0),
        (1, Range.from_min_extent(0, n - 1), 0),
        (1, Range.from_min_extent(0, n + 1), 1),
        (1, Range.from_min_extent(-1, n), 1),
        (1, Range.from_min_extent(-1, n + 2), 2),
    ):
        stage = stage_of(n, 2)
        i, j = stage.op.axis
        if split > 1:
            stage.split(i, split)
        assert len(Loops(stage, {i: computed, j: j.dom}).conditions) == count, (split, str(computed))
