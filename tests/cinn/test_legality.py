"""Steps that would lose, repeat or misplace what is computed: refused, or done so that the results stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cinn_programs import run
from step_programs import check, program

import tvmagic
from tvmagic import cinn, te
from tvmagic.cinn import IRSchedule
from tvmagic.errors import TVMagicError
from tvmagic.script import cinn_text, from_cinn, from_source


def two(shape: tuple[int, ...]) -> IRSchedule:
    """Y = A + 1, then Z = Y * 2."""
    a = te.placeholder(shape, name="A")
    y = te.compute(shape, lambda *i: a[i] + 1.0, name="Y")
    z = te.compute(shape, lambda *i: y[i] * 2.0, name="Z")
    return IRSchedule(cinn.lower([a, z]))


def holds(schedule: IRSchedule, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(1).normal(size=shape).astype("float32")
    np.testing.assert_array_equal(run(schedule.func, [a], shape)[0], (a + 1) * 2)


# ---------------------------------------------------------------------------- reverse_compute_at


def test_a_consumer_goes_inside_the_condition_that_its_producer_needs() -> None:
    schedule = two((1, 4, 8, 8))
    schedule.fuse("Y", [0, 1, 2])
    schedule.split("Y", 0, [-1, 5])
    schedule.reverse_compute_at("Z", schedule.get_loops("Y")[1])
    text = schedule.text(regions=False)
    assert text.count("if (") == 1  # beyond its 32 iterations the bindings of the fused loop begin again at 0
    assert text.index("if (") < text.index("ScheduleBlock(Z)") < text.index("\n          }\n", text.index("if ("))
    holds(schedule, (1, 4, 8, 8))


def test_a_consumer_keeps_its_own_condition_beside_that_of_its_producer() -> None:
    schedule = two((12, 10))
    schedule.split("Y", 0, [-1, 5])
    schedule.reverse_compute_at("Z", schedule.get_loops("Y")[0])
    assert schedule.text().count("if ((((5 * i) + ") == 2
    holds(schedule, (12, 10))


TILES: dict[str, Callable[[IRSchedule], Any]] = {
    "every other element": lambda s: (s.split("Y", 1, [2, 4]), s.reorder("Y", [2, 1]), s.get_loops("Y")[1])[-1],
    "parts of two rows": lambda s: (s.fuse("Y", [0, 1]), s.split("Y", 0, [-1, 5]), s.get_loops("Y")[0])[-1],
    "a diagonal": lambda s: (
        s.fuse("Y", [0, 1]),
        s.split("Y", 0, [-1, 9]),
        s.reorder("Y", [1, 0]),
        s.get_loops("Y")[0],
    )[-1],
}


@pytest.mark.parametrize("name", TILES)
def test_a_consumer_is_not_moved_to_where_elements_are_missing(name: str) -> None:
    schedule = two((8, 8))
    loop = TILES[name](schedule)
    before = str(schedule)
    with pytest.raises(TVMagicError, match="not known to store all|depends on"):
        schedule.reverse_compute_at("Z", loop)
    assert str(schedule) == before
    holds(schedule, (8, 8))


def test_a_consumer_finds_whole_rows_of_a_fused_loop() -> None:
    schedule = two((8, 8))
    schedule.fuse("Y", [0, 1])
    schedule.split("Y", 0, [-1, 16])
    schedule.reverse_compute_at("Z", schedule.get_loops("Y")[0])
    assert "axis.bind(((2 * i_j_fused) + ax0), (0 + ax1))" in schedule.text()
    holds(schedule, (8, 8))


EVERY_OTHER = """
serial for (i, 0, 8) { ScheduleBlock(B) { i0 = axis.bind(i) B[(2 * i0)] = A[i0] } }
serial for (i, 0, 15) { ScheduleBlock(C) { i0 = axis.bind(i) C[i0] = B[i0] } }
"""


def test_a_consumer_of_more_than_is_stored_stays() -> None:
    schedule = IRSchedule(from_cinn(EVERY_OTHER, {"B": ((16,), "float32")}, outputs=["B", "C"]))
    with pytest.raises(TVMagicError, match="more than what is stored"):
        schedule.reverse_compute_at("C", schedule.get_loops("B")[0])


# ---------------------------------------------------------------------------- simple_compute_at, copies, flat loops


def test_a_block_is_not_moved_under_a_condition_of_others() -> None:
    a = te.placeholder((15, 10), name="A")
    c = te.compute((15, 10), lambda i, j: a[i, j] + 1.0, name="C")
    d = te.compute((12, 10), lambda i, j: a[i, j] * 2.0, name="D")
    schedule = IRSchedule(cinn.lower([a, c, d]))
    schedule.split("C", 0, [3, 5])
    schedule.split("D", 0, [-1, 5])
    with pytest.raises(TVMagicError, match=r"`5 \* i_1 \+ i_2 < 12`"):
        schedule.simple_compute_at("C", schedule.get_loops("D")[2])
    schedule.simple_compute_at("D", schedule.get_loops("C")[2])  # its own condition comes along
    x = np.arange(150, dtype="float32").reshape(15, 10)
    one, other = run(schedule.func, [x], (15, 10), (12, 10))
    np.testing.assert_array_equal(one, x + 1)
    np.testing.assert_array_equal(other, x[:12] * 2)


def test_a_tensor_that_takes_values_on_is_nobodys_own() -> None:
    schedule = program("padded").schedule()
    schedule.split("C", 0, [-1, 4])
    schedule.split("D", 0, [2, 3])
    with pytest.raises(TVMagicError, match="`C`.*`i`"):
        schedule.simple_compute_at("D", schedule.get_loops("C")[0])
    check("padded", schedule)


WINDOWS = """
@T.prim_func
def main(A: T.Buffer((14, 5), "float32"), S: T.Buffer((14,), "float32"), C: T.Buffer((12,), "float32")):
    B = T.alloc_buffer((14,))
    for i in range(14):
        with T.block("B"):
            v = T.axis.spatial(14, i)
            B[v] = A[v, 0]
    for i in range(12):
        with T.block("C"):
            v = T.axis.spatial(12, i)
            C[v] = B[v] + B[v + 1]
    for k0, i in T.grid(5, 14):
        with T.block("S"):
            v, r = T.axis.remap("SR", [i, k0])
            with T.init():
                S[v] = T.float32(0)
            S[v] = S[v] + A[v, r]
"""


def test_what_adds_up_takes_no_loops_that_repeat_elements() -> None:
    schedule = IRSchedule(from_source(WINDOWS.replace("B[v + 1]", "B[v + 1] + B[v + 2]")))
    schedule.compute_at("B", schedule.get_loops("C")[0])
    with pytest.raises(TVMagicError, match="each once"):
        schedule.copy_transform_and_loop_info("S", "B")
    a = np.arange(70, dtype="float32").reshape(14, 5)
    total, c = run(schedule.func, [a], (14,), (12,))
    np.testing.assert_array_equal(total, a.sum(1))
    np.testing.assert_array_equal(c, a[:12, 0] + a[1:13, 0] + a[2:, 0])


def test_a_condition_follows_its_loops_when_they_become_one() -> None:
    schedule = program("chain").schedule()
    schedule.split("D", 1, [-1, 4])
    schedule.fuse("D", [1, 2])
    schedule.flatten_loops(schedule.get_loops("D"))
    assert "if (((flat_i % 12) < 10)) {" in schedule.text()
    check("chain", schedule)


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
    with pytest.raises(TVMagicError, match="one_load|one iteration of loop `i` leaves in `T`|comes before"):
        call(schedule)
    a = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(schedule.func, [a], (8,))[0], (a + 1) * 2 * a[::-1])


def test_a_cache_does_not_take_the_name_of_a_block() -> None:
    schedule = program("outputs").schedule()
    schedule.cache_read("C", 0, "local")
    schedule.reverse_compute_inline("C")  # the copy of B is now what computes C
    with pytest.raises(TVMagicError, match="a block `B_local_temp_buffer` already"):
        schedule.cache_write("B", 0, "local")
    check("outputs", schedule)


def test_first_values_beside_a_condition_do_not_go_under_it() -> None:
    schedule = program("two_sums").schedule()
    schedule.split("B", 2, [-1, 4])
    schedule.fuse("B", [2, 3])  # eight iterations, six of which run
    schedule.rfactor(schedule.get_loops("B")[2], 0)
    schedule.reorder("rf_B", [1, 0])
    text = schedule.text(regions=False)
    assert text.index("rf_B__reduce_init[i0, i1] = ") < text.index("if (")
    check("two_sums", schedule)


def test_a_flat_index_of_more_than_the_variable_comes_back_as_it_was() -> None:
    schedule = program("padded").schedule()
    schedule.cache_read("B", 0, "local")
    schedule.flatten_loops(schedule.get_loops("B"))
    text = cinn_text(schedule.func)
    assert "A_local_temp_buffer[(((11 * (_flat_i / 13)) + (_flat_i % 13)) - 1)]" in text
    assert cinn_text(from_cinn(text)) == text


def test_first_values_stay_with_what_adds_again() -> None:
    schedule = program("normed").schedule()
    schedule.compute_at("S", schedule.get_loops("C")[1])
    with pytest.raises(TVMagicError, match="in more than one iteration of a loop around both"):
        schedule.simple_compute_at("S__reduce_init", schedule.get_loops("B")[0])
    check("normed", schedule)


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


REPEATED = """serial for (i, 0, 4) {
  ScheduleBlock(B__reduce_init) { i0 = axis.bind(i) B__reduce_init[i0] = 0.00000000f }
  serial for (r, 0, 3) { if ((r < TIMES)) {
    serial for (k0, 0, 9) { ScheduleBlock(B) { i0, i1 = axis.bind(i, k0) B[i0] = (B[i0] + A[i0, i1]) } } } }
}
serial for (i, 0, 4) { ScheduleBlock(C) { i0 = axis.bind(i) C[i0] = (B[i0] * 2.00000000f) } }"""
REBUILDS: dict[str, Callable[[IRSchedule], object]] = {
    "compute_at": lambda s: s.compute_at("B", s.get_loops("C")[0]),
    "rfactor": lambda s: s.rfactor(s.get_loops("B")[2], 0),
}


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("call", REBUILDS.values(), ids=REBUILDS)
def test_a_sum_that_a_loop_repeats_keeps_its_loops(call: Callable[[IRSchedule], object], times: int) -> None:
    schedule = IRSchedule(from_cinn(REPEATED.replace("TIMES", str(times)), outputs=["C"]))
    a = np.arange(36, dtype="float32").reshape(4, 9)
    if times > 1:
        with pytest.raises(TVMagicError, match="`r`.*`B`"):
            call(schedule)
    else:
        call(schedule)
    np.testing.assert_array_equal(run(schedule.func, [a], (4,))[0], 2 * times * a.sum(1))


def _ragged(name: str, *splits: tuple[str, int, list[int]]) -> IRSchedule:
    schedule = program(name).schedule()
    for split in splits:
        schedule.split(*split)
    return schedule


RAGGED: dict[str, tuple[str, Callable[[], IRSchedule], Callable[[IRSchedule], object]]] = {
    "a condition of three loops": (
        "normed",
        lambda: _ragged("normed", ("S", 0, [3, 2, 4])),
        lambda s: s.reverse_compute_at("C", s.get_loops("S")[1]),
    ),
    "a condition on loops that reduce": (
        "row_max",
        lambda: _ragged("row_max", ("B", 1, [3, 2, 4])),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    ),
    "a condition inside one tile": (
        "row_max",
        lambda: _ragged("row_max", ("B", 0, [2, 5]), ("B", 1, [2, 3])),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    ),
    "a condition inside a tile of columns": (
        "matmul",
        lambda: _ragged("matmul", ("B", 1, [8, 3]), ("B", 2, [2, 2])),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[1]),
    ),
    "a loop of one iteration split, for a consumer": (
        "transposed",
        lambda: _ragged("transposed", ("C", 0, [4, 7])),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    ),
    "a loop of one iteration split, for a cache": (
        "outputs",
        lambda: _ragged("outputs", ("C", 1, [2, 2, 7])),
        lambda s: s.cache_write("C", 0, "local"),
    ),
    "a split of a split": (
        "blur",
        lambda: _ragged("blur", ("B", 1, [5, 2]), ("B", 1, [3, 2])),
        lambda s: s.cache_write("B", 0, "local"),
    ),
}


@pytest.mark.parametrize("case", RAGGED)
def test_tiles_that_do_not_divide_move_as_others_do(case: str) -> None:
    name, make, call = RAGGED[case]
    schedule = make()
    call(schedule)
    check(name, schedule)


def test_rows_that_are_computed_for_each_element_change_places() -> None:
    schedule = program("row_max").schedule()
    schedule.compute_at("B", schedule.get_loops("C")[1])
    schedule.reorder("C", [1, 0])
    check("row_max", schedule)


def test_tiles_with_a_ragged_copy_of_their_own_run_at_once() -> None:
    schedule = program("blur").schedule()
    tiles = schedule.split("C", 0, [-1, 7])
    schedule.compute_at("B", tiles[0])
    schedule.split("C", 1, [2, 2, 2])
    schedule.split("B", 1, [2, 5])
    schedule.parallel(tiles[0])
    check("blur", schedule)


def test_a_tile_that_stores_less_than_is_read_is_shared() -> None:
    schedule = program("blur").schedule()
    tiles = schedule.split("C", 0, [2, 6])
    schedule.compute_at("B", tiles[0])
    text = schedule.text(regions=False).replace("serial for (ax0, 0, 8)", "serial for (ax0, 0, 7)")
    less = IRSchedule(from_cinn(text, {"A": ((14, 9), "float32"), "B": ((14, 9), "float32")}, outputs=["C"]))
    with pytest.raises(TVMagicError, match="`B`"):
        less.parallel(less.get_loops("C")[0])


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


def test_statements_beside_loops_keep_their_own_conditions() -> None:
    schedule = program("chain").schedule()
    schedule.split("D", 1, [3, 4])
    rows = schedule.get_loops("D")[0]
    schedule.compute_at("C", rows)
    schedule.reorder([schedule.get_loops("D")[2], rows])
    text = schedule.text(regions=False)
    assert text.count("if (") == 1 and text.index("ScheduleBlock(C)") < text.index("if (") < text.index(
        "ScheduleBlock(D)"
    )
    check("chain", schedule)


def test_statements_beside_loops_take_the_conditions_around_them_along() -> None:
    schedule = program("chain").schedule()
    schedule.compute_inline("B")
    tiles = schedule.split("D", 0, [-1, 5])
    schedule.compute_at("C", tiles[1])
    schedule.reorder([schedule.get_loops("D")[2], tiles[1]])
    assert schedule.text().count("if (") == 2
    check("chain", schedule)


def test_a_block_passes_what_does_not_depend_on_it() -> None:
    blocks = [
        f"serial for (i, 0, 8) {{ ScheduleBlock({out}) {{ a = axis.bind(i) {out}[a] = ({given}[a] + 1.0f) }} }}"
        for out, given in (("B", "A"), ("X", "A"), ("C", "B"))
    ]
    schedule = IRSchedule(from_cinn(" ".join(blocks), outputs=["X", "C"]))
    schedule.simple_compute_at("B", schedule.get_loops("C")[0])
    lines = [x.strip() for x in schedule.text(regions=False).split("\n") if "ScheduleBlock(" in x]
    assert lines[1:] == ["ScheduleBlock(X)", "ScheduleBlock(B)", "ScheduleBlock(C)"]
    a = np.arange(8, dtype="float32")
    x, c = np.zeros(8, "float32"), np.zeros(8, "float32")
    given = {"A": a, "X": x, "C": c}
    func = schedule.func
    tvmagic.build(func)(*[given[func.buffer_map[p].name] for p in func.params])
    np.testing.assert_array_equal(np.stack([x, c]), np.stack([a + 1, a + 2]))


def test_a_reader_of_a_lower_part_reads_the_tensor() -> None:
    text = """
serial for (i, 0, 8) { ScheduleBlock(B) { a = axis.bind(i) B[a] = (A[(a + 2)] * 2.0f) } }
serial for (i, 0, 8) { ScheduleBlock(C) { a = axis.bind(i) C[a] = (A[a] * 3.0f) } }
serial for (i, 0, 8) { ScheduleBlock(D) { a = axis.bind(i) D[a] = (A[(a + 3)] * 3.0f) } }
serial for (i, 0, 4) { ScheduleBlock(E) { a = axis.bind(i) E[a] = (A[(a + 3)] * 3.0f) } }
"""
    schedule = IRSchedule(from_cinn(text, {"A": ((20,), "float32")}))
    schedule.cache_read("B", 0, "local")
    reads = [line.strip() for line in schedule.text().split("\n") if " = (A" in line]
    assert [line.split("[")[0] for line in reads] == ["B", "C", "D", "E"]
    assert ["A_local_temp_buffer" in line for line in reads] == [True, False, False, True]


def test_a_tensor_that_is_loaded_before_it_is_stored_has_no_cache_for_its_writer() -> None:
    text = """
serial for (i, 0, 8) { ScheduleBlock(C) { a = axis.bind(i) C[a] = (B[a] * 3.0f) } }
serial for (i, 0, 8) { ScheduleBlock(B) { a = axis.bind(i) B[a] = (A[a] * 2.0f) } }
"""
    schedule = IRSchedule(from_cinn(text, outputs=["B", "C"]))
    with pytest.raises(TVMagicError, match="`C`.*`B`"):
        schedule.cache_write("B", 0, "local")


def test_a_flat_loop_takes_loops_of_one_iteration_that_are_bound() -> None:
    schedule = IRSchedule(
        "serial for (i, 0, 1) { serial for (j, 0, 6) { ScheduleBlock(B) { a, b = axis.bind(i, j) B[a, b] = A[a, b] } } }"
    )
    schedule.flatten_loops(schedule.get_loops("B"))
    assert "B[_flat_i] = A[_flat_i]" in schedule.text()


GREATEST = REPEATED.replace("(B[i0] + A[i0, i1])", "cinn_max(B[i0], A[i0, i1])")
INSIDE = """serial for (i, 0, 4) { serial for (r, 0, 3) { {
  ScheduleBlock(B__reduce_init) { i0 = axis.bind(i) B__reduce_init[i0] = 0.00000000f }
  serial for (k0, 0, 9) { GUARD { ScheduleBlock(B) { i0, i1 = axis.bind(i, k0) B[i0] = cinn_max(B[i0], A[i0, i1]) } } }
} } }
serial for (i, 0, 4) { ScheduleBlock(C) { i0 = axis.bind(i) C[i0] = (B[i0] * 2.00000000f) } }"""


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("name", ["cinn_max", "cinn_min"])
@pytest.mark.parametrize("call", REBUILDS.values(), ids=REBUILDS)
def test_a_greatest_or_least_value_may_be_taken_again(
    call: Callable[[IRSchedule], object], name: str, times: int
) -> None:
    text = GREATEST.replace("cinn_max", name).replace("TIMES", str(times))
    schedule = IRSchedule(from_cinn(text, outputs=["C"]))
    call(schedule)
    a = np.random.default_rng(0).integers(-9, 9, (4, 9)).astype("float32")
    a[1, 4] = np.nan
    wanted = (np.maximum if name == "cinn_max" else np.minimum).reduce(a, 1, initial=0)
    np.testing.assert_array_equal(run(schedule.func, [a], (4,))[0], 2 * wanted)


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


BESIDE = """serial for (i, 0, 4) {
  ScheduleBlock(B__reduce_init) { i0 = axis.bind(i) B__reduce_init[i0] = 0.00000000f }
  serial for (r, 0, 3) { {
    FIRST
    serial for (k0, 0, 9) { ScheduleBlock(B) { i0, i1 = axis.bind(i, k0) B[i0] = cinn_max(B[i0], VALUE) } }
    LAST
  } }
}
serial for (i, 0, 4) { ScheduleBlock(C) { i0 = axis.bind(i) C[i0] = (B[i0] * 2.00000000f) } }"""
D = "ScheduleBlock(D) { i0, i1 = axis.bind(i, r) D[i0, i1] = PART }"


@pytest.mark.parametrize(
    ("first", "value", "last"),
    [
        (D.replace("PART", "B[i0]"), "A[i0, i1]", ""),  # sees the element before it is complete
        ("", "A[i0, i1]", D.replace("PART", "B[i0]")),
        (
            D.replace("D[i0, i1]", "D[i0]").replace("PART", "A[i0, i1]"),
            "(A[i0, i1] + D[i0])",
            "",
        ),  # other values each time
        ("", "A[i0, i1]", "ScheduleBlock(D) { i0, i1 = axis.bind(i, r) B[i0] = A[i0, i1] }"),  # starts again
    ],
)
def test_what_is_taken_again_must_be_the_same_and_unseen(first: str, value: str, last: str) -> None:
    text = BESIDE.replace("FIRST", first).replace("VALUE", value).replace("LAST", last)
    function = from_cinn(text, outputs=["C", "D"] if "D[i0, i1]" in text else ["C"])
    buffers = [function.buffer_map[p] for p in function.params]
    shapes = [tuple(int(n) for n in buffer.shape) for buffer in buffers if buffer.name != "A"]
    schedule = IRSchedule(function)
    a = np.random.default_rng(0).integers(1, 99, (4, 9)).astype("float32")
    before = run(schedule.func, [a], *shapes)
    with pytest.raises(TVMagicError, match="`r`.*`B`"):
        schedule.compute_at("B", schedule.get_loops("C")[0])
    for was, now in zip(before, run(schedule.func, [a], *shapes)):
        np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("place", ["FIRST", "LAST"])
def test_what_is_beside_values_that_are_taken_again_may_be_anything_else(place: str) -> None:
    text = BESIDE.replace(place, D.replace("PART", "(A[i0, i1] + 1.0f)")).replace("VALUE", "A[i0, i1]")
    schedule = IRSchedule(from_cinn(text.replace("FIRST", "").replace("LAST", ""), outputs=["C", "D"]))
    schedule.compute_at("B", schedule.get_loops("C")[0])
    a = np.random.default_rng(0).integers(1, 99, (4, 9)).astype("float32")
    shapes = [tuple(int(n) for n in schedule.func.buffer_map[p].shape) for p in schedule.func.params[1:]]
    for found, wanted in zip(sorted(run(schedule.func, [a], *shapes), key=np.ndim), (2 * a.max(1), a + 1)):
        np.testing.assert_array_equal(found, wanted[..., : found.shape[-1]])


@pytest.mark.parametrize("guard", ["(k0 < (9 - r))", "(r < (1 + k0))"])
def test_a_part_that_is_taken_again_is_no_dimension_of_its_own(guard: str) -> None:
    schedule = IRSchedule(
        from_cinn(
            GREATEST.replace("(r < TIMES)", "(r < 3)")
            .replace("ScheduleBlock(B) {", f"if ({guard}) {{ ScheduleBlock(B) {{")
            .replace("A[i0, i1]) }", "A[i0, i1]) } }"),
            outputs=["C"],
        )
    )
    with pytest.raises(TVMagicError, match="`r`.*`B`"):
        schedule.rfactor(schedule.get_loops("B")[2], 0)


def test_a_greatest_value_takes_loops_that_repeat_elements() -> None:
    text = WINDOWS.replace("B[v + 1]", "B[v + 1] + B[v + 2]").replace("S[v] + A[v, r]", "T.max(S[v], A[v, r])")
    schedule = IRSchedule(from_source(text))
    schedule.compute_at("B", schedule.get_loops("C")[0])
    schedule.copy_transform_and_loop_info("S", "B")
    a = np.arange(70, dtype="float32").reshape(14, 5)
    np.testing.assert_array_equal(run(schedule.func, [a], (14,), (12,))[0], a.max(1))
