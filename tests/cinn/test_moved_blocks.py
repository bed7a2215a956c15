"""What steps that move a block ask of it and of its producers, case by case, with what the program computes afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from nests import block, guarded, left, nest, refused, schedule

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
            said = None if set(wanted) <= set(stored) else "cinn.reverse_compute_at.loads_too_much"
            if count == 1 and extent > 1:
                said = "cinn.reverse_compute_at.stores_not_proved"
            if said is None:
                made.reverse_compute_at("Z", made.get_loops("T")[0])
                assert len(made.get_loops("Z")) == 1
            else:
                refused(made, lambda s: s.reverse_compute_at("Z", s.get_loops("T")[0]), said)
            both = [n for n in wanted if n in stored]
            np.testing.assert_array_equal(left(made, A=LINE)["Z"][both], 2 * (LINE[both] + 1))


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
        refused(
            made, lambda s: s.reverse_compute_at("Z", s.get_loops("T")[0]), "cinn.reverse_compute_at.stores_not_proved"
        )


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
        refused(made, lambda s: s.compute_at("T", s.get_loops("Z")[0]), "cinn.compute_at.store_not_at_variables")


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("", None),
        (block("U", "i, r", "U[i0, i1] = A[i0]"), None),
        (block("U", "i", "S[i0] = 0.0f"), "cinn.schedule.conditional_repeated_store"),
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


def test_the_greatest_values_are_not_taken_again_in_part() -> None:
    first = nest("i:4", block("S__reduce_init", "i", "S__reduce_init[i0] = -9.0f"))
    again = nest("i:4 k:6 r:3", guarded("(k < (6 - r))", block("S", "i, k", "S[i0] = cinn_max(S[i0], A[i0, i1])")))
    reader = nest("i:4", block("Z", "i", "Z[i0] = (S[i0] * 2.0f)"))
    for part, said in (("(6 - r)", "cinn.schedule.reduction_may_repeat"), ("6", None)):
        made = schedule(first, again.replace("(6 - r)", part), reader, A=((4, 6), "float32"))
        if said is not None:
            refused(made, lambda s: s.compute_at("S", s.get_loops("Z")[0]), said)
        else:
            made.compute_at("S", made.get_loops("Z")[0])
        given = np.arange(24, dtype="float32").reshape(4, 6) % 7
        np.testing.assert_array_equal(left(made, A=given)["Z"], 2 * given.max(1))


# ---------------------------------------------------------------------------- loops of others


def test_what_several_iterations_share_keeps_loops_in_their_order() -> None:
    """A value that is stored once for all iterations of the inner loop is not private to each of them."""
    once = block("T", "i", "T[0] = A[i0, 0]")
    made = schedule(nest("i:4", once, nest("j:4", block("Z", "i, j", "Z[i0, i1] = T[0]"))))
    refused(made, lambda s: s.reorder("Z", [1, 0]), "cinn.schedule.order_of_accesses")
