"""What steps that move a block ask of it and of its producers, case by case, with what the program computes afterwards."""

from __future__ import annotations

import re

import numpy as np
import pytest
from nests import block, guarded, left, nest, refused, schedule

from tvmagic import te
from tvmagic.cinn import IRSchedule
from tvmagic.errors import TVMagicError
from tvmagic.script import from_cinn

LINE = np.arange(1, 7, dtype="float32")
TABLE = np.arange(16, dtype="float32").reshape(4, 4)


# ---------------------------------------------------------------------------- consumers


def shifted(var: str, by: int) -> str:
    return f"({var} + {by})" if by else var


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("extent", [1, 2, 3])
def test_a_consumer_loads_no_more_than_its_producer_stores(extent: int, by: int) -> None:
    """Of one element alone no condition is written, so that it must be all that is stored."""
    producer = nest(f"i:{extent}", block("T", shifted("i", by), "T[i0] = (A[i0] + 1.0f)"))
    stored = range(by, by + extent)
    for count in (1, 2, 3):
        for first in (0, 1):
            reader = nest(f"j:{count}", block("Z", shifted("j", first), "Z[i0] = (T[i0] * 2.0f)"))
            made = schedule(producer, reader, **dict.fromkeys("TZ", ((6,), "float32")), A=((6,), "float32"))
            wanted = range(first, first + count)
            said = None if set(wanted) <= set(stored) else "loads more than what is stored under the loop"
            if count == 1 and extent > 1:
                said = "is not known to store all that `Z` would load"
            if said is None:
                made.reverse_compute_at("Z", made.get_loops("T")[0])
                assert len(made.get_loops("Z")) == 1
            else:
                refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("T")[0]), said)
            both = [n for n in wanted if n in stored]
            np.testing.assert_array_equal(left(made, A=LINE)["Z"][both], 2 * (LINE[both] + 1))


DIFFERENT = "loads at `i1` what different iterations store"


@pytest.mark.parametrize(
    ("loop", "bound", "columns", "said"),
    [
        ("k:4", "i, k", 4, None),
        ("k:2", "i, k", 2, None),
        ("k:2", "i, k", 4, DIFFERENT),
        ("k:2", "i, (k + 2)", 4, DIFFERENT),
        ("k:4", "(3 - i), k", 4, DIFFERENT.replace("i1", "i0")),
        ("k:4", "((i + 1) % 4), k", 4, DIFFERENT.replace("i1", "i0")),
        ("k:2", "i, (2 * k)", 4, DIFFERENT),
        ("k:4", "i, (3 - k)", 4, None),
    ],
)
def test_a_consumer_of_two_producers(loop: str, bound: str, columns: int, said: str | None) -> None:
    """Both store the same elements in one iteration, or as many as it loads."""
    one = nest("j:4", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    other = nest(loop, block("X", bound, "X[i0, i1] = (A[i0, i1] * 3.0f)"))
    reader = nest(f"i:4 j:{columns}", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] + X[i0, i1])"))
    made = schedule(nest("i:4", one, other), reader, X=((4, 4), "float32"), A=((4, 4), "float32"))
    if said is not None:
        refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("Y")[0]), said)
        return
    made.reverse_compute_at("Z", made.get_loops("Y")[0])
    np.testing.assert_array_equal(left(made, A=TABLE)["Z"], (4 * TABLE + 1)[:, :columns])


@pytest.mark.parametrize(
    ("at", "first", "count", "moves"),
    [
        ("(i + j)", 0, 8, False),
        ("((1 - i) + j)", 1, 8, False),
        ("((1 - i) + j)", 0, 8, False),
        ("(i + j)", 1, 8, False),
        ("(i + j)", 0, 9, True),
        ("((1 - i) + j)", 0, 9, True),
        ("j", 0, 8, True),
        ("(i + j)", 0, 7, False),
        ("(i + j)", 2, 7, False),
    ],
)
def test_each_iteration_stores_all_that_a_consumer_loads(at: str, first: int, count: int, moves: bool) -> None:
    """As many elements as it loads are not enough: they may begin or end elsewhere."""
    producer = nest("i:2 j:8", block("T", at, "T[i0] = (A[i0] + 1.0f)"))
    reader = nest("j:7", block("Z", "j", "Z[i0] = (T[i0] * 2.0f)")).replace("0, 7)", f"{first}, {count})")
    given = np.arange(9, dtype="float32")
    made = schedule(producer, reader, **dict.fromkeys("ATZ", ((9,), "float32")))
    before = left(made, A=given)["Z"]
    if moves:
        made.reverse_compute_at("Z", made.get_loops("T")[0])
        np.testing.assert_array_equal(left(made, A=given)["Z"], before)
    else:
        refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("T")[0]), "is not known to store all that `Z`")


OTHERS = {
    "Y[i0, i1] = 3.0f": "`W` stores what `Z` loads too, and is not under loop `i`",
    "X[i0, i1] = 3.0f": "`W` comes before `Z` and depends on the move",
    "Z[i0, i1] = 3.0f": "`W` comes before `Z` and depends on the move",
    "V[i0, i1] = Z[i0, i1]": "`W` comes before `Z` and depends on the move",
    "V[i0, i1] = A[i0, i1]": None,
}


@pytest.mark.parametrize("line", OTHERS)
@pytest.mark.parametrize("order", ["WYZ", "YWZ", "YZW", "ZYW"])
def test_what_a_block_does_that_a_consumer_would_pass(order: str, line: str) -> None:
    each = {"Y": "Y[i0, i1] = (A[i0, i1] + 1.0f)", "Z": "Z[i0, i1] = (Y[i0, i1] + X[i0, i1])", "W": line}
    text = "\n".join(nest("i:4 j:4", block(name, "i, j", each[name])) for name in order)
    made = IRSchedule(from_cinn(text, dict.fromkeys("AXYZ", ((4, 4), "float32")), outputs=[*"XYZ"]))
    given = {name: TABLE + n for n, name in enumerate("AXYZ")}
    before = left(made, **given)
    said = OTHERS[line] if order == "YWZ" or (order == "YZW" and line.startswith("Y")) else None
    said = "`Z` comes before loop `i`" if order == "ZYW" else said
    if said is not None:
        refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("Y")[0]), said)
        return
    made.reverse_compute_at("Z", made.get_loops("Y")[0])
    for name, found in left(made, **given).items():
        np.testing.assert_array_equal(found, before[name])


# ---------------------------------------------------------------------------- producers


@pytest.mark.parametrize(
    ("at", "bound", "plain"),
    [
        ("i0, i1", "i, j", True),
        ("i1, i0", "i, j", True),
        ("i0, 0", "i", True),
        ("2, i0, i1", "i, j", True),
        ("i0", "i", True),
        ("i0, (i0 + 1)", "i", False),
        ("i0, i0", "i", False),
        ("i0, 2", "i, j", False),
        ("i0, i1, i0", "i, j", False),
        ("i0, (i1 + i0)", "i, j", False),
        ("i0, i1, (i0 + 1)", "i, j", False),
        ("(i0 + 0), i1", "i, j", False),
        ("0, 1", "i", False),
    ],
)
def test_a_producer_stores_at_its_variables_each_once(at: str, bound: str, plain: bool) -> None:
    rank = at.count(",") + 1
    producer = nest("i:3 j:3", block("T", bound, f"T[{at}] = (A[0] + 1.0f)"))
    reader = nest("i:3", block("Z", "i", f"Z[i0] = T[{', '.join(['i0'] * rank)}]"))
    made = schedule(producer, reader, T=((5,) * rank, "float32"))
    if plain:
        made.compute_at("T", made.get_loops("Z")[0])
    else:
        refused(
            made, lambda s: s.compute_at("T", s.get_loops("Z")[0]), "`T` does not store at its distinct plain variables"
        )


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("", None),
        (block("U", "i, r", "U[i0, i1] = A[i0]"), None),
        (block("U", "i", "S[i0] = 0.0f"), "`U` stores to `S` again in a loop that repeats it under a condition"),
    ],
)
def test_what_is_stored_beside_a_block_that_runs_once_in_a_loop(beside: str, said: str | None) -> None:
    """A block that adds up in the first iteration alone, and one beside it that runs in all of them."""
    producer = nest("i:4", block("T", "i", "T[i0] = (A[i0] + 1.0f)"))
    once = guarded("(r < 1)", block("S", "i", "S[i0] = (S[i0] + T[i0])"))
    made = schedule(producer, nest("i:4 r:3", beside, once), S=((4,), "float32"))
    before = left(made, A=TABLE[1])
    if said is not None:
        refused(made, lambda s: s.reverse_compute_at("S", s.get_loops("T")[0]), said)
    else:
        made.reverse_compute_at("S", made.get_loops("T")[0])
        assert len(made.get_loops("S")) == 1
        np.testing.assert_array_equal(left(made, A=TABLE[1])["S"], before["S"])


# ---------------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("rows", "columns", "loop", "inside"),
    [(12, 10, 1, True), (11, 10, 1, False), (12, 10, 3, False), (11, 10, 3, False)],
)
def test_a_consumer_enters_the_condition_that_is_its_own_alone(
    rows: int, columns: int, loop: int, inside: bool
) -> None:
    """Another one, or one of several, it keeps beside the producer's."""
    producer = nest("i:12 j:10", block("Y", "i, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    reader = nest(f"i:{rows} j:{columns}", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)"))
    made = schedule(producer, reader)
    made.split("Y", 1, [-1, 4])
    made.split("Y", 0, [-1, 5])
    given = np.arange(120, dtype="float32").reshape(12, 10)
    made.reverse_compute_at("Z", made.get_loops("Y")[loop])
    conditions = {1: 2 if inside else 3, 3: 4}[loop]
    assert made.text().count("if (") == conditions
    np.testing.assert_array_equal(left(made, A=given)["Z"], ((given + 1) * 2)[:rows, :columns])


@pytest.mark.parametrize(("row", "condition"), [("o", "(o < 2)"), ("0", "(o < 1)"), ("0", "(o < 2)"), ("0", "(o < 3)")])
def test_a_condition_around_the_loop_is_not_one_in_it(row: str, condition: str) -> None:
    """It decides in which iterations of another loop the producer runs, the first one among them."""
    producer = nest("o:3", guarded(condition, nest("j:6", block("Y", f"{row}, j", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))))
    reader = nest(f"i:{2 if row == 'o' else 1} j:6", block("Z", "i, j", "Z[i0, i1] = (Y[i0, i1] * 2.0f)"))
    made = schedule(producer, reader, A=((4, 6), "float32"))
    made.reverse_compute_at("Z", made.get_loops("Y")[1])
    assert len(made.get_loops("Z")) == 2
    given = np.arange(24, dtype="float32").reshape(4, 6)
    found = left(made, A=given)["Z"]
    np.testing.assert_array_equal(found, ((given + 1) * 2)[: len(found)])


def test_the_greatest_values_are_not_taken_again_in_part() -> None:
    first = nest("i:4", block("S__reduce_init", "i", "S__reduce_init[i0] = -9.0f"))
    again = nest("i:4 k:6 r:3", guarded("(k < (6 - r))", block("S", "i, k", "S[i0] = cinn_max(S[i0], A[i0, i1])")))
    reader = nest("i:4", block("Z", "i", "Z[i0] = (S[i0] * 2.0f)"))
    for part, said in (("(6 - r)", "loop `r` may repeat `S`, which adds up"), ("6", None)):
        made = schedule(first, again.replace("(6 - r)", part), reader, A=((4, 6), "float32"))
        if said is not None:
            refused(made, lambda s: s.compute_at("S", s.get_loops("Z")[0]), said)
        else:
            made.compute_at("S", made.get_loops("Z")[0])
        given = np.arange(24, dtype="float32").reshape(4, 6) % 7
        np.testing.assert_array_equal(left(made, A=given)["Z"], 2 * given.max(1))


# ---------------------------------------------------------------------------- loops of others


@pytest.mark.parametrize(("values", "repeats"), [("A[i0, i1]", True), ("(X[i0, i1] + A[i0, i1])", False)])
def test_loops_that_repeat_elements_are_taken_over_by_what_does_not_add_up(values: str, repeats: bool) -> None:
    tiles = nest("i:4 j:3 r:2", block("Y", "i, (j + r)", "Y[i0, i1] = (A[i0, i1] + 1.0f)"))
    made = schedule(
        tiles,
        nest("i:4 j:4", block("X", "i, j", f"X[i0, i1] = {values}")),
        A=((4, 4), "float32"),
        X=((4, 4), "float32"),
    )
    if not repeats:
        refused(made, lambda s: s.copy_transform_and_loop_info("X", "Y"), "each once")
        return
    made.copy_transform_and_loop_info("X", "Y")
    assert len(made.get_loops("X")) == 3
    np.testing.assert_array_equal(left(made, A=TABLE)["X"], TABLE)


def test_a_block_beside_that_repeats_itself_does_not_keep_others() -> None:
    beside = nest("k:3", block("X", "i", "X[i0] = A[i0]"))
    made = schedule(
        nest("i:4", block("Y", "i", "Y[i0] = (A[i0] + 1.0f)"), beside), nest("i:4", block("Z", "i", "Z[i0] = A[i0]"))
    )
    made.simple_compute_at("Y", made.get_loops("Z")[0])
    found = left(made, A=TABLE[1])
    assert made.text().index("ScheduleBlock(X)") < made.text().index("ScheduleBlock(Y)")
    np.testing.assert_array_equal(found["Y"], TABLE[1] + 1)
    np.testing.assert_array_equal(found["X"], TABLE[1])


def test_what_several_iterations_share_keeps_loops_in_their_order() -> None:
    """A value that is stored once for all iterations of the inner loop is not private to each of them."""
    once = block("T", "i", "T[0] = A[i0, 0]")
    made = schedule(nest("i:4", once, nest("j:4", block("Z", "i, j", "Z[i0, i1] = T[0]"))))
    refused(made, lambda s: s.reorder("Z", [1, 0]), "would change the order of accesses to `T`")


@pytest.mark.parametrize(("times", "place"), [(1, 0), (2, 0), (2, 1)])
def test_first_values_leave_no_loop_in_which_more_is_added(times: int, place: int) -> None:
    first = nest("i:4", block("S__reduce_init", "i", "S__reduce_init[i0] = 0.0f"))
    adding = nest("i:4 k:4", block("S", "i, k", "S[i0] = (S[i0] + A[i0, i1])"))
    target = nest("i:4" if times == 1 else "a:2 i:4", block("Z", "i", "Z[i0] = A[i0, i0]"))
    made = schedule(target, nest("r:2", first, adding) if times == 2 else first + "\n" + adding, A=((4, 4), "float32"))
    if times == 2:
        said = "`S` adds to what `S__reduce_init` stores in more than one iteration of a loop around both"
        refused(made, lambda s: s.simple_compute_at("S__reduce_init", s.get_loops("Z")[place]), said)
    else:
        made.simple_compute_at("S__reduce_init", made.get_loops("Z")[0])
        assert made.text().count("for (i") == 2
    np.testing.assert_array_equal(left(made, A=TABLE)["S"], TABLE.sum(1))


def test_elements_that_all_iterations_load_and_none_stores_have_no_order() -> None:
    made = schedule(nest("i:4 j:6", block("A", "i, j", "A[i0, i1] = (A[9, 9] + A[8, 8])")), A=((10, 10), "float32"))
    given = np.arange(100, dtype="float32").reshape(10, 10)
    before = left(made, A=given)["A"]
    made.reorder("A", [1, 0])
    assert made.text().index("for (j, 0, 6)") < made.text().index("for (i, 0, 4)")
    np.testing.assert_array_equal(left(made, A=given)["A"], before)


@pytest.mark.parametrize("name", ["B", "C"])
def test_a_change_in_one_of_two_branches(name: str) -> None:
    rows = dict.fromkeys("XBC", ((4, 8), "float32"))
    parts = [nest("j:8", block(n, "i, j", f"{n}[i0, i1] = X[i0, i1]")) for n in "BC"]
    made = schedule(nest("i:4", guarded("(i < 2)", *parts)), **rows)
    made.unroll(made.get_loops(name)[1])
    kinds = re.findall(r"(\w+) for \(j, 0, 8\)", made.text())
    assert kinds == (["unroll", "serial"] if name == "B" else ["serial", "unroll"])


@pytest.mark.parametrize(
    ("moved", "to", "between"),
    [
        ("Z", "X", "Y"),
        ("X", "Z", "Y"),
        ("W", "Y", "Z"),
        ("Y", "W", "Z"),
        ("Y", "X", ""),
        ("X", "Y", ""),
        ("W", "Z", ""),
    ],
)
def test_moving_passes_adjacent_blocks_only_if_independent(moved: str, to: str, between: str) -> None:
    a = te.placeholder((8,), name="A")
    x = te.compute((8,), lambda i: a[i] + 1.0, name="X")
    y = te.compute((8,), lambda i: x[i] * 2.0, name="Y")
    z = te.compute((8,), lambda i: y[i] + x[i], name="Z")
    w = te.compute((8,), lambda i: z[i] + x[i], name="W")
    s = IRSchedule(te.create_prim_func([a, w]))
    if between:
        with pytest.raises(TVMagicError):
            s.simple_compute_at(moved, s.get_loops(to)[0])
    else:
        s.simple_compute_at(moved, s.get_loops(to)[0])
