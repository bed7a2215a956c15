"""Steps on reductions and their initial values."""

from __future__ import annotations

import numpy as np
import pytest
from nests import block, guarded, nest, refused, results, schedule

ROW = np.arange(24, dtype="float32").reshape(4, 6)


SUMS = (
    nest("i:4", block("S__reduce_init", "i", "S__reduce_init[i0] = 0.0f")),
    nest("i:4 k:6", block("S", "i, k", "S[i0] = (S[i0] + A[i0, i1])")),
)


READER = nest("i:4", block("Z", "i", "Z[i0] = (S[i0] * 2.0f)"))


def test_initial_values_move_separately() -> None:
    made = schedule(*SUMS, READER)
    made.compute_at("S__reduce_init", made.get_loops("S")[0])
    assert made.text().count("for (i") == 2
    assert results(made, ROW, np.full(4, 7, "float32"))[1].tolist() == (2 * ROW.sum(1)).tolist()
    refused(
        schedule(*SUMS, READER),
        lambda s: s.compute_at("S__reduce_init", s.get_loops("S")[1]),
        "loop `k` reduces: `S__reduce_init` would store in each of its iterations",
    )


@pytest.mark.parametrize(
    ("first", "added", "fits"),
    [
        ("0.0f", "(S[i0] + A[i0, i1])", True),
        ("1.0f", "(S[i0] + A[i0, i1])", False),
        ("1.0f", "(A[i0, i1] * S[i0])", True),
        ("0.0f", "(S[i0] * A[i0, i1])", False),
        ("3.0f", "cinn_max(S[i0], A[i0, i1])", True),
        ("3.0f", "cinn_min(A[i0, i1], S[i0])", True),
        ("B[i0]", "(S[i0] + A[i0, i1])", False),
        ("B[i0]", "cinn_max(S[i0], A[i0, i1])", False),
    ],
)
def test_rfactor_initializes_with_identity(first: str, added: str, fits: bool) -> None:
    parts = [text.replace("= 0.0f", f"= {first}").replace("(S[i0] + A[i0, i1])", added) for text in SUMS]
    made = schedule(*parts)
    start = [np.arange(n * 6, dtype="float32").reshape(4, 6) % 5 for n in (4,)]
    arrays = [start[0]] + [np.full(4, 2, "float32") for _ in made.func.params[1:]]
    order = [made.func.buffer_map[p].name for p in made.func.params]
    given = [arrays[0] if name == "A" else arrays[1] for name in order]
    before = results(made, *given)
    if not fits:
        refused(made, lambda s: s.rfactor(s.get_loops("S")[1], 0), "each part would begin with it")
        return
    made.rfactor(made.get_loops("S")[1], 1)
    for got, want in zip(results(made, *given), before, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("update", "kind"),
    [
        ("(S[i0] and A[i0, i1])", "bool"),
        ("(S[i0] or A[i0, i1])", "bool"),
        ("(S[i0] + (S[i0] * A[i0, i1]))", "float32"),
        ("(S[i0] - A[i0, i1])", "float32"),
        ("(A[i0, i1] + 1.0f)", "float32"),
    ],
)
def test_rfactor_refuses_non_reduction(update: str, kind: str) -> None:
    known = {"A": ((4, 6), kind), "S": ((4,), kind)}
    first = SUMS[0].replace("0.0f", "false") if kind == "bool" else SUMS[0]
    made = schedule(first, SUMS[1].replace("(S[i0] + A[i0, i1])", update), **known)
    said = (
        "is not a loop over which" if update.startswith("(A") else "`S` is not a sum, product, least or greatest value"
    )
    refused(made, lambda s: s.rfactor(s.get_loops("S")[1], 0), said)


def test_rfactor_refuses_additional_statements() -> None:
    guard = SUMS[1].replace("S[i0] = (S[i0] + A[i0, i1])", guarded("(i1 < 3)", "S[i0] = (S[i0] + A[i0, i1])"))
    refused(schedule(SUMS[0], guard), lambda s: s.rfactor(s.get_loops("S")[1], 0), "`S` is more than one store")
    first = SUMS[0].replace("= 0.0f", "= 0.0f\n__syncthreads()")
    refused(
        schedule(first, SUMS[1]), lambda s: s.rfactor(s.get_loops("S")[1], 0), "`S__reduce_init` is more than one store"
    )
