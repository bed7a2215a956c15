"""Steps of CINN's schedules, small decision by small decision: which loops there are afterwards, and which calls are refused."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tvmagic
from tvmagic import cinn, te
from tvmagic.cinn import IRSchedule
from tvmagic.cinn.group_scheduler import is_prohibit_schedule_extern_call_block
from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.script import from_cinn


def two(*shape: int) -> IRSchedule:
    """Y = A + 1, then Z = Y * 2."""
    a = te.placeholder(shape, name="A")
    y = te.compute(shape, lambda *i: a[i] + 1.0, name="Y")
    z = te.compute(shape, lambda *i: y[i] * 2.0, name="Z")
    return IRSchedule(cinn.lower([a, z]))


def loops(schedule: IRSchedule, block: str = "Y") -> list[tuple[str, int]]:
    """The loops around a block and their extents, from outside, as its text has them."""
    around: list[tuple[int, str, int]] = []
    for line in schedule.text(regions=False).splitlines():
        depth = len(line) - len(line.lstrip())
        around = [loop for loop in around if loop[0] < depth] if line.strip() not in "{}" else around
        if found := re.search(r"for \((\w+), 0, (\d+)\)", line):
            around.append((depth, found[1], int(found[2])))
        elif line.strip() == f"ScheduleBlock({block})":
            return [(name, extent) for _, name, extent in around]
    raise AssertionError(f"there is no block `{block}`")


def ran(schedule: IRSchedule, given: np.ndarray, *shape: int) -> np.ndarray:
    out = np.full(shape, 7, "float32")
    run_function(tvmagic.lower(schedule.func)["main"], [given, out])
    return out


def holds(schedule: IRSchedule, *shape: int) -> None:
    a = np.random.default_rng(1).normal(size=shape).astype("float32")
    np.testing.assert_array_equal(ran(schedule, a, *shape), (a + 1) * 2)


def refused(schedule: IRSchedule, call: Callable[[IRSchedule], Any], said: str) -> None:
    """The call says why, and the program stays as it was."""
    before = schedule.text()
    with pytest.raises(TVMagicError, match=re.escape(said)):
        call(schedule)
    assert schedule.text() == before


@pytest.mark.parametrize(
    ("factors", "extents"),
    [
        ([5, 2], [5, 2]),
        ([2, 5], [2, 5]),
        ([-1, 4], [3, 4]),
        ([4, -1], [4, 3]),
        ([None, 5], [2, 5]),
        ([10], [10]),
        ([-1], [10]),
        ([3, 4], [3, 4]),
        ([11], [11]),
        ([-1, 10], [1, 10]),
        ([10, -1], [10, 1]),
        ([2, -1, 3], [2, 2, 3]),
        ([1, 10], [1, 10]),
        ([-1, 1], [10, 1]),
        ([2, 2, 3], [2, 2, 3]),
    ],
)
def test_splits(factors: list[int], extents: list[int]) -> None:
    """The product is the extent or more; what is beyond it is behind a condition."""
    schedule = two(10, 3)
    made = schedule.split("Y", 0, factors)
    assert [extent for _, extent in loops(schedule)] == [*extents, 3] and len(made) == len(extents)
    names = [name for name, _ in loops(schedule)]
    assert len(set(names)) == len(names)
    guards = schedule.text(regions=False).count("if (")
    assert guards == (math.prod(extents) > 10)
    holds(schedule, 10, 3)


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ([], "takes a loop and one factor or more, as a list"),
        ([0, 5], "the factors [0, 5] are positive numbers, one of them may be -1"),
        ([-2, 5], "are positive numbers"),
        ([-1, -1], "are positive numbers, one of them may be -1"),
        ([3, 3], "the product 9 of the factors is less than the extent 10"),
        ([9], "the product 9 of the factors is less than"),
        ([-1, 11], "the product 11 of the factors is more than the extent 10"),
        ([6, 2, -1], "the product 12 of the factors is more than the extent 10"),
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
        ("2", "8", "begins at 2; a loop to be split or fused begins at 0"),
        ("0", "n", "the extent `n` of loop `i` is not a number"),
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
    ("places", "extents"),
    [
        ([0, 1], [12, 5, 2]),
        ([1, 2], [3, 20, 2]),
        ([0, 1, 2], [60, 2]),
        ([0, 1, 2, 3], [120]),
        ([2], [3, 4, 5, 2]),
        ([2, 3], [3, 4, 10]),
    ],
)
def test_fused_loops(places: list[int], extents: list[int]) -> None:
    schedule = two(3, 4, 5, 2)
    schedule.fuse("Y", places)
    assert [extent for _, extent in loops(schedule)] == extents
    if len(places) > 1:
        names = [name for name, _ in loops(two(3, 4, 5, 2))]
        assert loops(schedule)[places[0]][0] == "_".join(names[p] for p in places) + "_fused"
    holds(schedule, 3, 4, 5, 2)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([0, 2], "is not the only statement of"),
        ([1, 0], "is not the only statement of"),
        ([3, 4], "block `Y` has 4 loops; there is none at 4"),
        ([-1, 0], "block `Y` has 4 loops; there is none at -1"),
    ],
)
def test_fusions_that_are_refused(places: list[int], said: str) -> None:
    refused(two(3, 4, 5, 2), lambda s: s.fuse("Y", places), said)
    refused(two(3, 4, 5, 2), lambda s: s.fuse([]), "at least one loop is fused")
    refused(two(3, 4, 5, 2), lambda s: s.flatten_loops([]), "at least one loop is flattened")


@pytest.mark.parametrize("order", [*itertools.permutations(range(3)), (2, 0), (1, 0), (0, 1), (2, 1), (1,), ()])
def test_loops_in_any_order(order: tuple[int, ...]) -> None:
    """Those that are named change their places among themselves; the others stay."""
    schedule = two(3, 4, 5)
    extents, braces = [3, 4, 5], schedule.text().count("{")
    schedule.reorder("Y", list(order))
    assert schedule.text().count("{") == braces, "nothing is put around the loops"
    for place, old in zip(sorted(order), order):
        extents[place] = [3, 4, 5][old]
    assert [extent for _, extent in loops(schedule)] == extents
    holds(schedule, 3, 4, 5)


def test_orders_that_are_refused() -> None:
    refused(two(3, 4, 5), lambda s: s.reorder("Y", [0, 1, 0]), "loop `i` is named twice")
    refused(two(3, 4), lambda s: s.reorder([s.get_loops("Y")[0], s.get_loops("Z")[1]]), "are not nested in one another")
    triangle = OPEN.format(min="0", extent="4").replace("(j, 0, 4)", "(j, 0, (i + 1))")
    refused(
        IRSchedule(from_cinn(triangle)),
        lambda s: s.reorder("Y", [1, 0]),
        "the range of loop `j` depends on one that would be inside it",
    )
    shifted = OPEN.format(min="0", extent="4").replace("(j, 0, 4)", "(j, i, 4)")
    refused(
        IRSchedule(from_cinn(shifted)),
        lambda s: s.reorder("Y", [1, 0]),
        "the range of loop `j` depends on one that would be inside it",
    )


KINDS: dict[str, tuple[Callable[[IRSchedule, Any], Any], str]] = {
    "parallel": (lambda s, loop: s.parallel(loop), "parallel for"),
    "unroll": (lambda s, loop: s.unroll(loop), "unroll for"),
    "vectorize": (lambda s, loop: s.vectorize(loop, 2), "vectorize[2] for"),
    "one": (lambda s, loop: s.vectorize(loop, 1), "vectorize[1] for"),
    "bind": (lambda s, loop: s.bind(loop, "threadIdx.y"), "thread_bind[threadIdx.y] for"),
    "block": (lambda s, loop: s.bind(loop, "blockIdx.z"), "thread_bind[blockIdx.z] for"),
    "x": (lambda s, loop: s.mutate_for_type(loop, "GPUThread", 0), "thread_bind[threadIdx.x] for"),
    "z": (lambda s, loop: s.mutate_for_type(loop, "GPUBlock", 2), "thread_bind[blockIdx.z] for"),
    "default": (lambda s, loop: s.mutate_for_type(loop, "Default"), "default for"),
    "serial": (lambda s, loop: s.mutate_for_type(loop, "Serial"), "serial for"),
}


@pytest.mark.parametrize("name", KINDS)
def test_how_a_loop_runs(name: str) -> None:
    call, printed = KINDS[name]
    schedule = two(6, 4)
    loop = schedule.get_loops("Y")[1]
    call(schedule, loop)
    assert f"{printed} (" in schedule.text()
    if name != "serial":
        refused(
            schedule,
            lambda s: s.parallel(s.get_loops("Y")[1]),
            "is not a serial loop any more; a loop's kind is set once",
        )


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda s, loop: s.vectorize(loop, 0), "a vector has a positive number of elements, not 0"),
        (
            lambda s, loop: s.mutate_for_type(loop, "GPUThread", 3),
            "the axis of a thread is 0, 1 or 2 for x, y, z, not 3",
        ),
        (lambda s, loop: s.mutate_for_type(loop, "GPUBlock"), "the axis of a thread is 0, 1 or 2 for x, y, z, not -1"),
        (lambda s, loop: s.mutate_for_type(loop, "Odd"), "`Odd` is not a kind of loop: Serial, Parallel"),
        (lambda s, loop: s.bind(loop, "threadIdx.w"), "`threadIdx.w` is not a thread axis"),
        (lambda s, loop: s.bind(loop, "warp.x"), "`warp.x` is not a thread axis"),
        (lambda s, loop: s.bind(loop, "threadIdx"), "`threadIdx` is not a thread axis"),
    ],
)
def test_ways_to_run_that_there_are_not(call: Callable[[IRSchedule, Any], Any], said: str) -> None:
    refused(two(6, 4), lambda s: call(s, s.get_loops("Y")[1]), said)


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


@pytest.mark.parametrize(
    "call", [lambda s, k: s.parallel(k), lambda s, k: s.vectorize(k, 4), lambda s, k: s.bind(k, "threadIdx.x")]
)
def test_a_loop_that_adds_up_runs_in_order(call: Callable[[IRSchedule, Any], Any]) -> None:
    schedule = IRSchedule(from_cinn(SUM))
    before = schedule.text()
    with pytest.raises(TVMagicError):
        call(schedule, schedule.get_loops("S")[1])
    assert schedule.text() == before
    call(schedule, schedule.get_loops("S")[0])


def test_what_cannot_be_flattened() -> None:
    refused(IRSchedule(from_cinn(SUM)), lambda s: s.flatten_loops(s.get_loops("S")), "block `S")
    refused(
        two(3, 4, 5),
        lambda s: s.flatten_loops(s.get_loops("Y")[:2]),
        "has more loops around it than those to be flattened",
    )
    turned = OPEN.format(min="0", extent="6").replace("bind(i, j)", "bind(j, i)")
    refused(
        IRSchedule(from_cinn(turned)),
        lambda s: s.flatten_loops(s.get_loops("Y")),
        "does not bind the loops in their order, or 0",
    )


@pytest.mark.parametrize("shape", [(6,), (3, 4), (3, 4, 5), (1, 4, 5), (3, 1, 5)])
def test_flat_loops(shape: tuple[int, ...]) -> None:
    schedule = two(*shape)
    for block in "YZ":
        schedule.flatten_loops(schedule.get_loops(block), True)
        assert [extent for _, extent in loops(schedule, block)] == [math.prod(shape)]
    assert "A[_flat_i]" in schedule.text(regions=False) and "%" not in schedule.text(regions=False)
    holds(schedule, *shape)


def test_a_flat_loop_in_another_order_of_elements() -> None:
    a = te.placeholder((4, 6), name="A")
    b = te.compute((6, 4), lambda i, j: a[j, i] * 2.0, name="B")
    schedule = IRSchedule(cinn.lower([a, b]))
    refused(
        schedule,
        lambda s: s.flatten_loops(s.get_loops("B"), True),
        "`B` does not go through `A` in the order of its elements",
    )
    schedule.flatten_loops(schedule.get_loops("B"))
    given = np.arange(24, dtype="float32").reshape(4, 6)
    np.testing.assert_array_equal(ran(schedule, given, 6, 4), given.T * 2)


# ---------------------------------------------------------------------------- caches and devices


@pytest.mark.parametrize("place", [1, 2, -1])
def test_a_tensor_that_the_block_does_not_store(place: int) -> None:
    refused(
        two(3, 4),
        lambda s: s.cache_write("Y", place, "local"),
        f"block `Y` stores 1 tensor; there is none at {place}",
    )


def test_the_device_is_that_of_the_first_loop() -> None:
    schedule = two(3, 4)
    assert schedule.get_device_api() == "UNK"
    schedule.bind(schedule.get_loops("Y")[1], "threadIdx.x")
    assert schedule.get_device_api() == "UNK"
    schedule.bind(schedule.get_loops("Y")[0], "blockIdx.x")
    assert schedule.get_device_api() == "GPU"


@pytest.mark.parametrize(
    ("value", "calls"),
    [('call_extern("sqrtf", A[i0])', True), ("sqrt(A[i0])", False), ("(A[i0] + 1.0f)", False)],
)
def test_blocks_that_call_what_is_elsewhere(value: str, calls: bool) -> None:
    text = f"serial for (i, 0, 4)\n{{\nScheduleBlock(B)\n{{\ni0 = axis.bind(i)\nB[i0] = {value}\n}}\n}}"
    schedule = IRSchedule(from_cinn(text, {"A": ((4,), "float32"), "B": ((4,), "float32")}))
    assert is_prohibit_schedule_extern_call_block(schedule, schedule.get_block("B")) is calls
