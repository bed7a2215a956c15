"""Inputs of checks, timings, searches and pages: the user's own, and random ones that satisfy assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses
from sparse_operators import CASES, Case

from tvmagic.errors import BoundsError, PreconditionError, TVMagicError
from tvmagic.operators import Operator, operator
from tvmagic.operators.inputs import Inputs, make_inputs
from tvmagic.operators.measure import bench, check
from tvmagic.operators.trials import trial_inputs
from tvmagic.tune.problem import Problem

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
KINDS = ("floats", "fractions", "full range")


def drawn(op: Operator, seed: int, sizes: Any, kind: str) -> list[np.ndarray]:
    """Random inputs as those of the trials of a check."""
    whole = [t for t in op.inputs if t.dtype.is_int or t.dtype.is_uint] if kind == "full range" else []
    return op.random_inputs(seed, sizes, kind == "fractions", whole)


@cases
def test_operators_are_checked_and_timed_on_given_inputs(case: Case) -> None:
    op = case.operator(assertions=False)
    result = check(op.version(), inputs=case.inputs)
    assert result.ok and result.elements and not any("steps ran" in note for note in result.notes)
    sizes = [a.shape for a in make_inputs(op, inputs=case.inputs)]
    assert [t.shape for t in make_inputs(op, sizes=5, inputs=case.inputs)] == sizes  # they follow from the arrays
    assert bench(op, seconds=1e-3, inputs=case.inputs).work is not None
    assert [a.shape for a in Problem.of(op, 0, 5, 1, inputs=case.inputs).cases[0].inputs] == sizes


@cases
def test_operators_are_checked_on_random_inputs_that_satisfy_assertions(case: Case) -> None:
    op = case.operator()
    assert check(op.version(), sizes=11).ok
    for seed in range(3):
        for kind in KINDS:
            op.test_assertions(drawn(op, seed, 9, kind))
    op.test_assertions(Problem.of(op, 0, 5, 1).cases[0].inputs)


@cases
def test_example_inputs_take_the_place_of_random_ones(case: Case) -> None:
    op = case.operator()
    op.example_inputs = case.inputs
    wanted = make_inputs(case.operator(), 3, inputs=case.inputs)
    assert all(np.array_equal(a, b) for a, b in zip(make_inputs(op, 3), wanted))
    assert op.check().ok


CSR = CASES["csr"]


def test_csr_is_the_product_of_its_matrix() -> None:
    op = CSR.operator()
    ptr, col, v, x = make_inputs(op, 1, inputs=CSR.inputs)
    dense = np.zeros((len(ptr) - 1, len(x)), "float32")
    np.add.at(dense, (np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), col), v)
    np.testing.assert_allclose(op(ptr, col, v, x), dense @ x, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------- given inputs


def test_inputs_are_a_dict_a_tuple_or_a_function_of_a_generator() -> None:
    op = operator("f", "A: float32[n]\nB: float32[n]\nY[i] = A[i] + B[i]")
    a, b = np.arange(3, dtype="float32"), np.ones(3, "float32")
    for given in ({"B": b, "A": a}, (a, b), [a, b], lambda rng: (a, b), lambda rng: {"A": a, "B": b}):
        found = make_inputs(op, inputs=given)
        assert found[0] is a and found[1] is b
    partly = make_inputs(op, inputs={"B": b})
    assert partly[1] is b and partly[0].shape == (3,) and np.ptp(partly[0]) > 0
    one = operator("g", "A: float32[n]\nY[i] = A[i]")
    assert make_inputs(one, inputs=a)[0] is a


def test_fixed_inputs_are_tried_once() -> None:
    op, a = operator("f", "A: int32[n]\nB: int32[n]\nY[i] = A[i] + B[i]"), np.ones(4, "int32")
    given: list[tuple[Any, int]] = [
        ((a, a), 1),
        ({"A": a, "B": a}, 1),
        ({"A": a}, 2),
        (lambda rng: (a, a), 2),
        (None, 3),
    ]
    for inputs, trials in given:
        assert len(list(trial_inputs(op, 0, 4, inputs))) == trials


def test_functions_are_called_anew_for_each_trial() -> None:
    op, calls = operator("f", "A: float32[n]\nY[i] = A[i]"), list[Any]()

    def make(rng: np.random.Generator) -> tuple[np.ndarray]:
        calls.append(rng.random(5, dtype="float32"))
        return (calls[-1],)

    assert op.check(inputs=make).ok
    assert len(calls) >= 2 and not np.array_equal(calls[0], calls[1])
    again = [make_inputs(op, 0, inputs=make, coarse=coarse)[0] for coarse in (False, True)]
    assert np.array_equal(calls[0], again[0]) and np.array_equal(calls[1], again[1])


def _raising(rng: np.random.Generator) -> Any:
    raise ValueError("no rows")


WRONG: list[tuple[Any, str]] = [
    (_raising, "inputs.function_raised"),
    (3, "inputs.wrong_type"),
    ({"pointer": np.zeros(3, "int32")}, "inputs.unknown_input"),
    ((np.zeros(3, "int32"),), "inputs.wrong_count"),
    ({"ptr": [0, 1]}, "array.not_an_array"),
    ({"ptr": np.zeros(3)}, "array.wrong_dtype"),
    ({"ptr": np.zeros((3, 1), "int32")}, "array.wrong_rank"),
    ({"col": np.zeros(3, "int32"), "v": np.zeros(4, "float32")}, "array.wrong_size"),
    ({"ptr": np.zeros(0, "int32")}, "array.size_mismatch"),
    ({"ptr": np.array([0, 3, 2, 5], "int32")}, "operator.assertion_failed"),
    (lambda rng: {**CSR.inputs(rng), "col": np.full(40, 99, "int32")}, "operator.assertion_failed"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "code"), WRONG, ids=[code for _, code in WRONG])
def test_wrong_inputs_are_refused_at_the_argument(given: Any, code: str) -> None:
    op = CSR.operator()
    for use in (
        lambda: op.check(inputs=Inputs(given, "--inputs made")),
        lambda: bench(op, inputs=Inputs(given, "--inputs made")),
    ):
        with pytest.raises(TVMagicError) as caught:
            use()
        assert "`--inputs made`" in caught.value.message and caught.value.code == code
    op.example_inputs = given
    with refuses(code, names="`f.example_inputs`"):
        op.check()


def test_violations_at_the_argument_are_precondition_errors() -> None:
    op = CSR.operator()
    with pytest.raises(PreconditionError):
        op.check(inputs=lambda rng: {**CSR.inputs(rng), "col": np.full(40, -1, "int32")})


# ---------------------------------------------------------------------------- random inputs

SATISFIED = [
    "3 <= X[i] < 9", "X[i] >= 100", "X[i] < -50", "X[i] == 4", "0 <= X[i] <= i", "L[i] <= X[i]",
    "X[i] <= X[i + 1]", "X[i] < X[i + 1]", "X[i] >= X[i + 1]", "X[i] > X[i + 1]", "X[i - 1] <= X[i]",
    "X[i] <= X[i + 1] and 0 <= X[i] < 3", "X[0] == 0 and X[i] <= X[i + 1] and X[n - 1] == 40",
    "X[0] == 0 and X[i] < X[i + 1] and X[n - 1] == n + 3", "distinct(X[i], over=i)", "0 <= X[i] < n and distinct(X[i], over=i)",
    "distinct(X[i], over=i) and X[i] <= X[i + 1]", "X[i] != X[i] + 1", "X[i] <= M[i, 0]", "M[i, j] <= M[i, j + 1]", "M[i + 1, j] < M[i, j]",
    "0 <= M[i, j] < m and distinct(M[i, j], over=j)", "0 <= M[i, j] < n and distinct(M[i, j], over=i)", "M[i, j] < M[i, j + 1] and 0 <= M[i, j] < 3 * m",
    "M[i, 0] == 0 and M[i, m - 1] == 9 and M[i, j] <= M[i, j + 1]", "-1 <= F[i] <= 1", "0 < F[i]", "F[i] < F[i + 1]", "F[i] == 0.5", "0.25 <= F[i] < 0.3",
    "0 <= H[i] < 1", "S[i, j] == S[j, i] and S[i, i] >= n", "0 <= U[i] < 5", "0 <= X[L[i] % n] < 4",
    "0 <= X[i] <= 3 and all(L[k] == 5 for k in range(X[0]))", "all(X[q] < X[q + 1] for q in range(0, n - 1, )) and X[0] == 3",
]  # fmt: skip
DECLARED = "L: int32[n]\nX: int32[n]\nM: int32[n, m]\nF: float32[n]\nH: float16[n]\nS: float32[n, n]\nU: uint8[n]\n"


@pytest.mark.parametrize("condition", SATISFIED)
def test_random_inputs_satisfy_assertions_of_the_known_forms(condition: str) -> None:
    op = operator(
        "f",
        f"{DECLARED}assert {condition}\nY[i, j] = M[i, j] + X[i] + L[i] + U[i]\nZ[i, j] = S[i, j] + F[i] + float32(H[i])",
    )
    for kind in KINDS:
        for sizes in ({"n": 2, "m": 2}, {"n": 7, "m": 5}, {"n": 60, "m": 4}):
            for seed in (0, 1):
                op.test_assertions(drawn(op, seed, sizes, kind))


def test_checks_leave_out_a_range_that_no_assertion_holds_over() -> None:
    """`L[i] + 2` wraps at the maximum of its type."""
    op = operator("f", "L: int32[n]\nX: int32[n]\nassert L[i] <= X[i] <= L[i] + 2\nY[i] = X[i] - L[i]")
    assert op.check().ok


def test_random_inputs_of_assertions_are_not_trivial() -> None:
    """Sorted values differ, all of a range occur, and what nothing is asserted of is as it was."""
    op = operator(
        "f", "X: int32[n]\nF: float32[n]\nassert 0 <= X[i] < 4 and X[i] <= X[i + 1]\nY[i] = X[i]\nZ[i] = F[i]"
    )
    x, f = op.random_inputs(sizes=100)
    assert set(x) == {0, 1, 2, 3} and len(set(f)) == 100
    (p,) = operator("g", "X: int32[n]\nassert 0 <= X[i] < n and distinct(X[i], over=i)\nY[i] = X[i]").random_inputs(
        sizes=100
    )
    assert sorted(p) == list(range(100)) and not np.array_equal(p, np.sort(p))
    whole = drawn(operator("h", "X: int32[n]\nassert X[i] != 5\nY[i] = X[i]"), 0, 100, "full range")[0]
    assert np.ptp(whole.astype("int64")) > 2**30


def test_other_assertions_ask_for_example_inputs() -> None:
    op = operator("f", "P: float32[n, 8]\n\nassert abs(sum(P[i, k], over=k) - 1) < 1e-3\nY[i] = P[i, 0]")
    with pytest.raises(TVMagicError) as caught:
        op.check()
    assert "`f.example_inputs`" in caught.value.message
    assert caught.value.span is not None and caught.value.span.line == 4
    op.example_inputs = lambda rng: {"P": rng.dirichlet(np.ones(8), 6).astype("float32")}
    assert op.check().ok


def test_a_few_draws_satisfy_a_likely_assertion() -> None:
    op = operator("f", "X: int32[3]\nassert X[0] + X[1] != X[2]\nY[i] = X[i]")
    for seed in range(20):
        op.test_assertions(op.random_inputs(seed))


def test_random_inputs_are_drawn_in_time_linear_in_their_elements() -> None:
    text = "ptr: int32[m + 1]\ncol: int32[p]\nassert ptr[0] == 0 and ptr[i] <= ptr[i + 1] and ptr[m] == p\n"
    text += (
        "assert all(col[q] < col[q + 1] for q in range(ptr[i], ptr[i + 1] - 1)) and 0 <= col[q] < 100000\nY[k] = col[k]"
    )
    ptr, col = operator("f", text).random_inputs(sizes={"m": 20_000, "p": 200_000})
    assert ptr[-1] == 200_000 and np.all(np.diff(col)[np.isin(np.arange(199_999), ptr[1:] - 1, invert=True)] > 0)


# ---------------------------------------------------------------------------- without inputs


def test_checks_tell_how_many_steps_of_moving_ranges_ran() -> None:
    bare = CSR.operator(assertions=False)
    bare.example_inputs = None
    notes = " ".join(check(bare.version()).notes)
    assert "the bounds of the range of `q` are data, and " in notes and " of 256 steps ran on random inputs" in notes
    assert "`f.example_inputs`" in notes
    assert "steps ran" not in " ".join(CSR.operator().check().notes)
    assert "steps ran" not in " ".join(bare.check(inputs=CSR.inputs).notes)
    plain = operator("g", "X: int32[8]\ni: range(8)\nY[i] = sum(X[k] for k in range(i))")
    assert "steps ran" not in " ".join(plain.check().notes)


FUNCTION = """
@T.prim_func
def f(ptr: T.Buffer((17,), "int32"), col: T.Buffer((40,), "int32"), v: T.Buffer((40,), "float32"), x: T.Buffer((20,), "float32"),
      y: T.Buffer((16,), "float32")):
    for i in range(16):
        y[i] = T.float32(0)
        for q in range({}, ptr[i + 1]):
            y[i] = y[i] + v[q] * x[col[q]]
"""


def _function_inputs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    ptr = np.sort(rng.integers(0, 41, 17)).astype("int32")
    return {"ptr": ptr, "col": rng.integers(0, 20, 40, dtype="int32")}


def test_csr_functions_are_checked_and_timed_on_given_inputs() -> None:
    op = operator("f", FUNCTION.format("ptr[i]"))
    assert op.check(inputs=_function_inputs).ok
    result = bench(op, seconds=1e-3, inputs=_function_inputs)
    assert not any("other values" in note for note in result.notes)
    with pytest.raises(BoundsError) as caught:
        op.check()
    assert caught.value.span is not None and caught.value.span.line == 9
    assert "`f.example_inputs`" in str(caught.value.hint)


def test_checks_of_functions_tell_how_many_steps_ran() -> None:
    text = FUNCTION.replace("y[i] = y[i] + v[q] * x[col[q]]", "y[i] = y[i] + v[T.max(T.min(q, 39), 0)]")
    op = operator("f", text.format("ptr[i]"))
    (note,) = [n for n in op.check().notes if "steps ran" in n]
    ptr = op.random_inputs(0, 16, coarse=True)[0]
    assert f"the range of `q` are data, and {np.maximum(np.diff(ptr), 0).sum()} steps ran" in note
