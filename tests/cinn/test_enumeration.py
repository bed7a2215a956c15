"""What is found by looking at all values of loops: which values block variables have, and how far loads reach."""

from __future__ import annotations

import numpy as np
import pytest

import tvmagic
from tvmagic import cinn, ir
from tvmagic.cinn.enumeration import counted_values, reaches_all
from tvmagic.script import from_cinn

I, J = ir.Var("i", "int32"), ir.Var("j", "int32")
TRUE = ir.IntImm("bool", 1)


def bound(*values: tuple[ir.PrimExpr | int, int]) -> list:
    return [
        (ir.IterVar(ir.Range.from_min_extent(0, size), ir.Var(f"i{n}", "int32"), ir.IterVar.DataPar), value)
        for n, (value, size) in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("bindings", "sizes", "condition", "all_of_them", "once"),
    [
        (bound((4 * I + J // 3, 9), (J % 3, 3)), (3, 12), 12 * I + J < 27, True, True),
        (bound((4 * I + J // 3, 9), (J % 3, 3)), (3, 12), 12 * I + J < 26, False, False),
        (bound(((3 * I + J // 3) % 5, 5), (J % 3, 3), ((24 * I + J) // 15, 6)), (4, 24), 24 * I + J < 90, True, True),
        (bound((2 * I + J, 7)), (3, 3), TRUE, True, False),
        (bound((2 * I + J, 8)), (3, 3), TRUE, False, False),
        (bound((2 * I + J, 6)), (3, 3), TRUE, False, False),  # values outside
        (bound((I, 4)), (5, 1), I < 4, True, True),
        (bound((I, 4)), (5, 1), ir.NE(I, 2), False, False),  # 4 different ones, one of them outside
        (bound((I - 1, 4)), (5, 1), ir.NE(I, 2), False, False),
        (bound((I, 3)), (3, 2), TRUE, True, False),  # `j` repeats
        (bound((I, 3), (0, 1)), (3, 1), TRUE, True, True),
        (bound((I * J, 7)), (1 << 10, 1 << 10), TRUE, False, False),  # too many to be counted
        (bound((I, 1 << 10), (J, 1 << 10)), (1 << 10, 1 << 10), TRUE, True, True),
        (bound((I * J, 7)), (3, ir.Var("n", "int32")), TRUE, False, False),
        (bound((I, 3), (J, ir.Var("n", "int32"))), (3, ir.Var("n", "int32")), TRUE, True, True),
    ],
)
def test_values_of_block_variables(bindings, sizes, condition, all_of_them: bool, once: bool) -> None:
    ranges = {var: ir.Range.from_min_extent(0, size) for var, size in zip((I, J), sizes)}
    assert reaches_all(bindings, ranges, condition, once=False) == all_of_them
    assert reaches_all(bindings, ranges, condition, once=True) == once


def test_only_conditions_on_the_variables_of_a_value_are_asked() -> None:
    ranges = {I: ir.Range.from_min_extent(2, 4), J: ir.Range.from_min_extent(0, 3)}
    (found,) = counted_values([I * I], ranges, [I < 5, J < 1, I + J < 3]) or [None]
    assert list(found) == [4, 9, 16]
    (odd,) = counted_values([I], ranges, [I % 2]) or [None]  # a condition in numbers
    assert list(odd) == [3, 5]
    assert counted_values([ir.IntImm("int32", 3)], ranges, []) is None
    assert counted_values([I + ir.Var("n", "int32")], ranges, []) is None


SUM = """
serial for (i, 0, 3) {
  ScheduleBlock(B__reduce_init) { i0 = axis.bind(i)
    B__reduce_init[i0] = 0.0f }
  serial for (k0, 0, 6) { serial for (k1, 0, 5) { serial for (k2, 0, 3) { ScheduleBlock(B) { i0, i1, i2, i3 = axis.bind(i, k0, k1, k2)
    B[i0] = (B[i0] + X[i0, i1, i2, i3]) } } } } }"""
PAIR = """
serial for (i, 0, 6) { serial for (j, 0, 5) { serial for (k, 0, 3) { ScheduleBlock(B) { i0, i1, i2 = axis.bind(i, j, k)
  B[i0, i1, i2] = (X[i0, i1, i2] * 2.0f) } } } }
serial for (i, 0, 6) { serial for (j, 0, 5) { serial for (k, 0, 3) { ScheduleBlock(C) { i0, i1, i2 = axis.bind(i, j, k)
  C[i0, i1, i2] = (B[i0, i1, i2] + 1.0f) } } } }"""


def computed(schedule: cinn.IRSchedule, x: np.ndarray, shape: tuple[int, ...]) -> None:
    """Check the result of a schedule, and of its text read back, against that of the text before it."""
    expected = x.reshape(3, -1).sum(1) if shape == (3,) else x * 2 + 1
    for function in (schedule.func, from_cinn(str(schedule))):
        out = np.zeros(shape, "float32")
        tvmagic.build(function)(x, out)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("factor", "place"), [(24, 1), (24, 2), (60, 1)])
def test_fused_loops_that_are_split_with_a_rest_add_up_in_parts(factor: int, place: int) -> None:
    schedule = cinn.IRSchedule(SUM)
    schedule.fuse("B", [1, 2, 3])
    schedule.split("B", 1, [-1, factor])
    schedule.rfactor(schedule.get_loops("B")[place], 0)
    computed(schedule, np.random.default_rng(0).integers(-9, 9, (3, 6, 5, 3)).astype("float32"), (3,))


def test_fused_loops_that_are_split_with_a_rest_are_cached_and_copied() -> None:
    x = np.random.default_rng(1).integers(-9, 9, (6, 5, 3)).astype("float32")
    for change in (
        lambda s: s.copy_transform_and_loop_info("C", "B"),
        lambda s: s.cache_write("B", 0, "local"),
        lambda s: s.compute_inline("B"),
    ):
        schedule = cinn.IRSchedule(PAIR)
        schedule.fuse("B", [0, 1, 2])
        schedule.split("B", 0, [-1, 24])
        change(schedule)
        computed(schedule, x, x.shape)
