"""Steps that would lose, repeat or misplace what is computed: refused, or done so that the results stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cinn_programs import run
from refusals import refuses
from step_programs import check, program

import tvmagic
from tvmagic.cinn import IRSchedule
from tvmagic.errors import TVMagicError
from tvmagic.script import cinn_text, from_cinn

# ---------------------------------------------------------------------------- tensors that iterations hand on

RUNNING_SUM = """
serial for (i, 0, 8) { {
  ScheduleBlock(T0) { if ((i == 0)) { T[0] = 0.0f } }
  ScheduleBlock(T) { i0 = axis.bind(i) T[0] = (T[0] + A[i0]) }
  ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = T[0] }
} }
"""
THE_LAST_TWO = """
serial for (i, 0, 8) { {
  ScheduleBlock(T) { i0 = axis.bind(i) T[i0] = (A[i0] * 2.0f) }
  ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = (T[i0] + select((i0 > 0), T[cinn_max((i0 - 1), 0)], 0.0f)) }
} }
"""


DELAYED = """
serial for (i, 0, 8) { {
  ScheduleBlock(T0) { if ((i == 0)) { T[0] = 0.0f } }
  ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = T[0] }
  ScheduleBlock(T) { i0 = axis.bind(i) T[0] = A[i0] }
} }
"""
HELD = """
serial for (i, 0, 8) { {
  if (((i % 2) == 0)) { { ScheduleBlock(T) { i0 = axis.bind(i) T[0] = A[i0] } } }
  ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = T[0] }
} }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RUNNING_SUM, np.cumsum),
        (THE_LAST_TWO, lambda a: 2 * a + np.concatenate([[0], 2 * a[:-1]])),
        (DELAYED, lambda a: np.concatenate([[0], a[:-1]])),
        (HELD, lambda a: np.repeat(a[::2], 2)),
    ],
    ids=["running sum", "the last two", "delayed", "held"],
)
def test_values_that_iterations_hand_on(text: str, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    func = from_cinn(text, outputs=["B"])
    a = np.arange(1, 9, dtype="float32")
    np.testing.assert_array_equal(run(func, [a], (8,))[0], expected(a))
    schedule = IRSchedule(func)
    loop = schedule.get_loops("B")[0]
    for call in (schedule.parallel, lambda x: schedule.vectorize(x, 4), lambda x: schedule.bind(x, "threadIdx.x")):
        with pytest.raises(TVMagicError, match="`T`"):
            call(loop)
    schedule.split("B", 0, [2, 4])
    np.testing.assert_array_equal(run(schedule.func, [a], (8,))[0], expected(a))


def test_a_tensor_of_one_iteration_is_its_own() -> None:
    schedule = program("chain").schedule()
    schedule.compute_at("C", schedule.get_loops("D")[0])
    schedule.compute_at("B", schedule.get_loops("D")[0])
    schedule.parallel(schedule.get_loops("D")[0])
    lowered = str(tvmagic.lower(schedule.func))
    assert 'T.allocate([10], "float32"' in lowered  # one row of each
    check("chain", schedule)


PIECES = """
serial for (i, 0, 8) { {
  ScheduleBlock(T) { i0 = axis.bind(i) T[0] = (A[i0] * 2.0f) }
  ScheduleBlock(X) { i0 = axis.bind(i) X[i0] = (T[0] + 1.0f) }
} }
serial for (i, 0, 8) { ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = (X[i0] * 3.0f) } }
"""


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.compute_inline("X"),
        lambda s: s.compute_at("X", s.get_loops("B")[0]),
        lambda s: s.simple_compute_at("X", s.get_loops("B")[0]),
    ],
)
def test_what_an_iteration_leaves_in_one_element_is_not_read_outside_it(call: Callable[[IRSchedule], object]) -> None:
    schedule = IRSchedule(from_cinn(PIECES, outputs=["B"]))
    with pytest.raises(TVMagicError, match="`i`.*`T`"):
        call(schedule)
    a = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(schedule.func, [a], (8,))[0], (2 * a + 1) * 3)


UPWARDS = """
serial for (i, 0, 8) { ScheduleBlock(X) { i0 = axis.bind(i) X[i0] = (A[i0] + 1.0f) } }
serial for (i, 0, 8) { {
  ScheduleBlock(T) { i0 = axis.bind(i) T[0] = (A[(7 - i0)] * 2.0f) }
  ScheduleBlock(B) { i0 = axis.bind(i) B[i0] = (X[i0] * T[0]) }
} }
"""


@pytest.mark.parametrize(
    "call", [lambda s: s.reverse_compute_inline("B"), lambda s: s.reverse_compute_at("B", s.get_loops("X")[0])]
)
def test_a_consumer_does_not_leave_the_iteration_of_what_else_it_reads(call: Callable[[IRSchedule], object]) -> None:
    schedule = IRSchedule(from_cinn(UPWARDS, outputs=["B"]))
    with refuses("cinn.compute_inline.refused", "cinn.reverse_compute_at.dependent_block_between"):
        call(schedule)
    a = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(schedule.func, [a], (8,))[0], (a + 1) * 2 * a[::-1])


def test_a_flat_index_of_more_than_the_variable_comes_back_as_it_was() -> None:
    schedule = program("padded").schedule()
    schedule.cache_read("B", 0, "local")
    schedule.flatten_loops(schedule.get_loops("B"))
    text = cinn_text(schedule.func)
    assert "A_local_temp_buffer[(((11 * (_flat_i / 13)) + (_flat_i % 13)) - 1)]" in text
    assert cinn_text(from_cinn(text)) == text


RUNNING_SUMS = """
serial for (i, 0, 4) { {
  ScheduleBlock(S__reduce_init) { i0 = axis.bind(i) S__reduce_init[i0] = 0.0f }
  serial for (k0, 0, 6) { {
    ScheduleBlock(S) { i0, i1 = axis.bind(i, k0) S[i0] = (S[i0] + A[i0, i1]) }
    ScheduleBlock(R) { i0, i1 = axis.bind(i, k0) R[i0, i1] = (S[i0] * 2.0f) }
  } }
} }
serial for (i, 0, 4) { serial for (j, 0, 6) { ScheduleBlock(B) { i0, i1 = axis.bind(i, j) B[i0, i1] = R[i0, i1] } } }
"""


@pytest.mark.parametrize("call", [lambda s: s.compute_inline("R"), lambda s: s.compute_at("R", s.get_loops("B")[1])])
def test_a_part_of_a_sum_is_not_read_where_the_sum_is_complete(call: Callable[[IRSchedule], object]) -> None:
    schedule = IRSchedule(from_cinn(RUNNING_SUMS, outputs=["B"]))
    with pytest.raises(TVMagicError, match="`k0`.*`S`"):
        call(schedule)
    a = np.arange(24, dtype="float32").reshape(4, 6)
    np.testing.assert_array_equal(run(schedule.func, [a], (4, 6))[0], 2 * np.cumsum(a, 1))


# ---------------------------------------------------------------------------- a memory of its own in each iteration

STORE, LOAD = (
    "ScheduleBlock(T) { t = axis.bind(j) T[t] = A[t] }",
    "ScheduleBlock(C) { a, b = axis.bind(i, j) C[a, b] = T[b] }",
)
OWN = {
    "loaded after it is stored": (f"serial for (j, 0, 4) {{ {STORE} }} serial for (j, 0, 4) {{ {LOAD} }}", True),
    "loaded before it is stored": (f"serial for (j, 0, 4) {{ {LOAD} }} serial for (j, 0, 4) {{ {STORE} }}", False),
    "stored in some iterations": (
        f"if ((i < 3)) {{ serial for (j, 0, 4) {{ {STORE} }} }} serial for (j, 0, 4) {{ {LOAD} }}",
        False,
    ),
    "stored and loaded in some iterations": (
        f"if ((i < 3)) {{ serial for (j, 0, 4) {{ {STORE} }} serial for (j, 0, 4) {{ {LOAD} }} }}",
        True,
    ),
    "stored in part": (
        f"serial for (j, 0, 4) {{ if ((j < 2)) {{ {STORE} }} }} serial for (j, 0, 4) {{ {LOAD} }}",
        False,
    ),
    "stored in the part that is loaded": (
        f"serial for (j, 0, 4) {{ if ((j < 2)) {{ {STORE} }} }} serial for (j, 0, 2) {{ {LOAD} }}",
        True,
    ),
    "loaded in the part that is stored": (
        f"serial for (j, 0, 2) {{ {STORE} }} serial for (j, 0, 4) {{ if ((j < 2)) {{ {LOAD} }} }}",
        True,
    ),
    "in a part with an else": (
        f"serial for (j, 0, 4) {{ if ((j < 2)) {{ {STORE} }} else {{ {STORE.replace('(T)', '(U)').replace('A[t]', '0.0f')} }} }} "
        f"serial for (j, 0, 2) {{ {LOAD} }}",
        False,
    ),
}


@pytest.mark.parametrize("case", OWN)
def test_iterations_run_at_once_if_each_loads_only_what_it_stored(case: str) -> None:
    body, own = OWN[case]
    known = {"A": ((4,), "float32"), "T": ((4,), "float32"), "C": ((8, 4), "float32")}
    schedule = IRSchedule(from_cinn(f"serial for (i, 0, 8) {{ {body} }}", known))
    outer = schedule.get_loops("C")[0]
    if own:
        schedule.parallel(outer)
        assert "parallel for (i, 0, 8)" in schedule.text()
    else:
        with pytest.raises(TVMagicError, match="`T`"):
            schedule.parallel(outer)


# ---------------------------------------------------------------------------- order, and what is beside


INSIDE = """serial for (i, 0, 4) { serial for (r, 0, 3) { {
  ScheduleBlock(B__reduce_init) { i0 = axis.bind(i) B__reduce_init[i0] = 0.00000000f }
  serial for (k0, 0, 9) { GUARD { ScheduleBlock(B) { i0, i1 = axis.bind(i, k0) B[i0] = cinn_max(B[i0], A[i0, i1]) } } }
} } }
serial for (i, 0, 4) { ScheduleBlock(C) { i0 = axis.bind(i) C[i0] = (B[i0] * 2.00000000f) } }"""


@pytest.mark.parametrize(
    ("guard", "allowed"),
    [
        ("", True),
        ("if ((k0 < 9))", True),
        ("if ((k0 < (9 - r)))", False),  # the last time in part
        ("if ((r < 1))", False),
        ("if ((r < 2))", False),
    ],
)
def test_first_values_that_are_stored_again_want_all_values_again(guard: str, allowed: bool) -> None:
    schedule = IRSchedule(from_cinn(INSIDE.replace("GUARD", guard), outputs=["C"]))
    a = np.random.default_rng(0).integers(1, 99, (4, 9)).astype("float32")
    before = run(schedule.func, [a], (4,))[0]
    if allowed:
        schedule.compute_at("B", schedule.get_loops("C")[0])
    else:
        with pytest.raises(TVMagicError, match="`B__reduce_init`.*`B`"):
            schedule.compute_at("B", schedule.get_loops("C")[0])
    np.testing.assert_array_equal(run(schedule.func, [a], (4,))[0], before)


D = "ScheduleBlock(D) { i0, i1 = axis.bind(i, r) D[i0, i1] = PART }"
