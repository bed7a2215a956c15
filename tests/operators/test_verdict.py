"""What a check says about values that it could not judge, and what it judges although a comparison is near."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refuses

from tvmagic.operators import operator
from tvmagic.operators.comparison import CheckResult, combined, compare
from tvmagic.te.error_bound import Approximate

GLYPHS = {"equal": "\u2713", "self": "\u2261", "open": "?", "bad": "\u2715"}
SUPPRESSION = """X: float32[12, 12]
S[i, j] = sigmoid(X[i, j])
M[i, j] = max(S[i + a, j + b] for a in range(3) for b in range(3))
Y[i, j] = S[i + 1, j + 1] if S[i + 1, j + 1] >= M[i, j] else 0"""
LARGEST = "X: float32[64]\nM[i] = exp(X[i])\nY[i] = M[i] if M[i] >= max(M[k], over=k) else 0"
FUNCTION = """@T.prim_func
def f(X: T.Buffer((N,), "float32"), Y: T.Buffer((N,), "float32")):
    for i in range(M):
        Y[i] = X[i] * T.float32(2)
"""
SCATTER = """@T.prim_func
def f(P: T.Buffer((4,), "int32"), X: T.Buffer((4,), "float32"), Y: T.Buffer((SIZE,), "float32")):
    for i in range(4):
        Y[P[i]] = X[i]
"""


def function(reached: int, size: int = 64) -> str:
    return FUNCTION.replace("N", str(size)).replace("M", str(reached))


def checked(text: str, **sizes: int) -> CheckResult:
    return operator("f", text).check(sizes=sizes or 16)


# Programs of which little or nothing is judged: the reason, and their sizes if these are symbolic.
HOLLOW: list[tuple[str, str, dict[str, int]]] = [
    ("loose", "X: float32[64]\nY[i] = (exp(X[i]) * exp(-X[i]) - 1) * 1e6", {}),
    ("loose", "X: float32[4, 4096]\nT[i, k] = exp(X[i, k]) * exp(-X[i, k])\nY[i] += T[i, k] - 1", {}),
    ("loose", "X: float32[64]\nE[i] = X[i] * 1e-9 + 1.7\nY[i] = E[i] - 1.7", {}),
    ("loose", "X: bfloat16[64]\nE[i] = X[i] * 0.001 + 3.3\nY[i] = E[i] - 3.3", {}),
    ("loose", "X: float32[64]\nY[i] = sin(exp(X[i] + 18.3))", {}),
    ("no bound", "X: float32[64]\nA[i] = X[i] * 1e-9 + 0.1\nY[i] = 1 / (A[i] - 0.1)", {}),
    ("no bound", "X: float32[64]\nA[i] = X[i] * 1e-9 + 0.1\nY[i] = log(abs(A[i] - 0.1))", {}),
    ("no bound", "X: float32[64]\nA[i] = X[i] * 1e-9 + 0.1\nY[i] = (abs(A[i] - 0.1)) ** -1.5", {}),
    ("no bound", "X: float32[64]\nA[i] = X[i] * 1e-9 + 0.1\nY[i] = rsqrt(abs(A[i] - 0.1))", {}),
    ("no bound", "X: float16[64]\nA[i] = X[i] * 0.1 + 255.9\nY[i] = A[i] * 256", {}),
    ("tie", "X: float32[64]\nA[i] = exp(X[i])\nY[i] = 1 if A[i] * A[i] > exp(2 * X[i]) else 0", {}),
    ("tie", "X: float32[64]\nA[i] = exp(X[i])\nY[i] = floor(A[i] * A[i] - exp(2 * X[i]))", {}),
    ("tie", "X: float32[64]\nA[i] = exp(X[i])\nY[i] = int32(A[i] * exp(-X[i]))", {}),
    ("tie", "X: float32[8, 64]\nA[i, k] = (X[i, 0] + 2) * 0.3 + X[i, k] * 1e-9\nY[i] = argmax(A[i, k], over=k)", {}),
    ("tie", "X: float32[64]\nA[i] = exp(X[i])\nY[i] = A[i] * A[i] - exp(2 * X[i]) >= 0", {}),
    ("nan", "X: float32[64]\nY[i] = sqrt(X[i] - 2)", {}),
    ("nan", "X: float32[64]\nY[i] = log(X[i] - 2)", {}),
    ("nan", "X: float32[64]\nY[i] = acosh(X[i] * 0.5)", {}),
    ("nan", "X: float32[64]\nZ[i] = X[i] * 0\nY[i] = Z[i] / (X[i] * 0)", {}),
    ("nan", "X: float64[64]\nY[i] = (X[i] - 2) ** 0.5", {}),
    ("empty", "X: float32[n, m]\nY[i] += X[i, k]", {"n": 4, "m": 0}),
    ("empty", "X: float32[n, m]\nY[i] = max(X[i, k], over=k)", {"n": 4, "m": 0}),
    ("empty", "X: float32[n, m]\nY[i] *= X[i, k]", {"n": 4, "m": 0}),
    ("empty", "X: int32[n, m]\nW: int32[m, n]\nY[i, j] += X[i, k] * W[k, j]", {"n": 4, "m": 0}),
    ("empty", "p: int32[9]\nv: float32[20]\nY[i] = sum(v[k] for k in range(p[i] + 99, p[i + 1] + 99))", {}),
    ("unwritten", function(10), {}),
    ("unwritten", function(1), {}),
    ("unwritten", function(1023, 4096), {}),
    ("unwritten", SCATTER.replace("SIZE", "40"), {}),
    ("unwritten", SCATTER.replace("SIZE", "400"), {}),
]


@pytest.mark.parametrize(("reason", "text", "sizes"), HOLLOW)
def test_checks_that_judge_little_say_so(reason: str, text: str, sizes: dict[str, int]) -> None:
    result = checked(text, **sizes)
    assert result.ok is None and 2 * result.judged < result.elements, str(result)
    assert max(result.unjudged, key=lambda name: result.unjudged[name]) == reason
    assert result.judged + sum(result.unjudged.values()) == result.elements
    assert result.verdict.startswith("? not judged \u00b7 ") and "equal" not in result.verdict


def test_the_reference_tells_each_case_in_its_words() -> None:
    """Values with chosen bounds: the state, and the first words after its glyph."""
    value = np.arange(1.0, 201.0)

    def verdict(bound: float, count: int, wrong: int = 0) -> CheckResult:
        errors = np.zeros(200)
        errors[:count] = bound
        got = value.copy()
        got[150 : 150 + wrong] = 0
        return compare([got], [Approximate(value, errors)], ["Y"])

    cases = [
        (verdict(0, 0), True, "equal", "equal to NumPy \u00b7 200 values judged"),
        (verdict(np.inf, 2), True, "equal", "equal to NumPy \u00b7 198 of 200 values judged"),
        (verdict(np.inf, 3), True, "open", "197 of 200 values judged \u00b7 equal to NumPy where judged"),
        (verdict(np.inf, 100), True, "open", "100 of 200 values judged"),
        (verdict(np.inf, 101), None, "open", "not judged \u00b7 101 of 200 values"),
        (
            verdict(np.inf, 101, wrong=1),
            False,
            "bad",
            "NOT equal to NumPy \u00b7 1 of 200 values differ, first at `Y[150]`",
        ),
    ]
    for result, ok, state, words in cases:
        assert result.ok is ok and result.line.state == state
        assert result.verdict.startswith(f"{GLYPHS[state]} {words}"), result.verdict
        assert result.judged + sum(result.unjudged.values()) == result.elements == 200


def test_a_value_that_one_run_judges_is_judged() -> None:
    first, second = (
        compare([np.ones(4)], [Approximate(np.ones(4), np.array(errors))], ["Y"])
        for errors in ([np.inf, np.inf, np.inf, 0.0], [0.0, 0.0, np.inf, np.inf])
    )
    both = combined(first, second)
    assert (first.judged, second.judged, both.judged) == (1, 2, 3) and both.unjudged == {"no bound": 1}


# ---------------------------------------------------------------------------- comparisons of copies


@pytest.mark.parametrize("text", [LARGEST, SUPPRESSION], ids=["largest", "suppression"])
def test_the_largest_of_copies_is_no_tie(text: str) -> None:
    op = operator("f", text)
    assert op.check("plain").ok is True and op.check("plain").judged == op.check("plain").elements
    inputs = op.random_inputs()
    got = np.zeros_like(op(*inputs))
    from tvmagic.operators.comparison import expected_values

    assert compare([got], expected_values(op, inputs), ["Y"], computed_once=True).ok is False


@pytest.mark.parametrize(
    "body",
    ["1 if M[i] == M[i] else 0", "M[i] if M[i] < M[i] else 3", "1 if exp(X[i]) <= exp(X[i]) else 2",
     "1 if max(M[i], M[i]) > M[i] else 0"],
)  # fmt: skip
def test_equal_subexpressions_tie_exactly(body: str) -> None:
    result = checked(f"X: float32[64]\nM[i] = exp(X[i]) * 0.3\nY[i] = {body}")
    assert result.ok is True and result.judged == result.elements, str(result)


def test_constants_of_bfloat16_may_stay_as_they_are_written() -> None:
    result = checked("X: bfloat16[64]\nE[i] = X[i] * 0.001 + 3.3\nY[i] = E[i] - 3.3")
    assert result.ok is not False, str(result)


def test_values_that_are_near_but_not_copies_are_ties() -> None:
    result = checked("X: float32[64]\nM[i] = X[i] * 0.3\nN[i] = X[i] * 3 / 10\nY[i] = 1 if M[i] >= N[i] else 0")
    assert result.ok is None and set(result.unjudged) == {"tie"}


def test_copies_of_a_stage_that_a_schedule_computes_twice_may_differ() -> None:
    """An inlined stage may be computed by a scalar and by a vector instruction; such values are not judged, and not wrong."""
    from tvmagic.operators.scheduling import schedule

    op = operator("f", LARGEST)
    result = schedule(op, "s[M].compute_inline()\ns[Y].vectorize(Y.op.axis[0])").operator.check()
    assert result.ok is not False and result.unjudged.get("tie", 0) <= 1


# ---------------------------------------------------------------------------- what values are compared with


def test_functions_of_statements_are_not_compared_with_numpy() -> None:
    result = checked(function(64))
    assert result.ok is True and result.against == "definition" and result.line.state == "self"
    assert "equal to its own definition" in result.verdict and "`--against f`" in result.verdict


def test_a_function_of_the_users_is_compared_with() -> None:
    op = operator("f", function(64))
    right = op.check(against=lambda x: 2 * x)
    assert right.ok is True and right.against == "function"
    wrong = op.check(against=("triple", lambda x: 3 * x))
    assert wrong.ok is False and wrong.against_name == "triple" and "NOT equal to `triple`" in wrong.verdict


@pytest.mark.parametrize("f", [lambda x: x[:3], lambda x: (x, x), lambda: 0, lambda x: 1 / 0])
def test_a_function_that_fails_or_gives_other_shapes_is_an_error(f: object) -> None:
    with refuses("check.against_raised", "check.against_wrong_shape", names="`f`"):
        operator("f", function(64)).check(against=("g", f))  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- integers over their whole range


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("int32(X[i]) + int32(W[i])", "int32(X[i] + W[i])"), ("abs(int32(X[i]))", "int32(abs(X[i]))"),
     ("clip(int32(X[i]) * 3, -128, 127)", "int32(X[i]) * 3"), ("int32(X[i]) >> 5", "int32(X[i]) // 32 * (X[i] > -90)"),
     ("min(X[i], W[i]) + 0", "X[i] if X[i] - W[i] < 0 else W[i]")],
)  # fmt: skip
def test_wrapping_and_lost_signs_are_found(right: str, wrong: str) -> None:
    head = "X: int8[64]\nW: int8[64]\nY[i] = int32(W[i]) * 0 + "
    op, other = operator("f", head + right), operator("g", head + wrong)
    assert op.check().ok is True
    assert op.check(against=("wrong", other)).ok is False


def test_integers_that_are_indices_stay_inside() -> None:
    for text in (
        "I: int32[20]\nX: float32[50]\nY[i] = X[I[i]]",
        "I: int32[20]\nX: float32[50]\nJ[i] = I[i]\nY[i] = X[J[i]]",
        "X: int32[20]\nS: int32[20]\nY[i] = X[i] << S[i]",
    ):
        assert checked(text).ok is not False


def test_a_comparison_that_never_goes_one_way_is_noted() -> None:
    notes = checked("X: float32[64]\nY[i] = X[i] if X[i] < 5 else 0").notes
    assert any("`X[i] < 5` always holds" in note for note in notes)
    assert not checked("X: float32[64]\nY[i] = X[i] if X[i] < 0.5 else 0").notes
