"""The check of a version: what it finds, what it lets pass, and what it says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tvmagic.operators import Operator, operator
from tvmagic.operators.comparison import as_list, combined, compare, expected_values
from tvmagic.operators.measure import bench, check
from tvmagic.operators.operator import Version
from tvmagic.operators.verify import verify
from tvmagic.te.error_bound import Approximate, parts
from tvmagic.te.error_reference import Evaluation
from tvmagic.tune import tune_operator

MATMUL = "X: {0}[{1}, {1}]\nW: {0}[{1}, {1}]\nY[i, j] += X[i, k] * W[k, j]"
SOFTMAX = """X: float32[{0}]
M[()] = max(X[i], over=i)
E[i] = exp(X[i] - M[()])
S[()] += E[i]
Y[i] = E[i] / S[()]"""
VARIANCE = """X: float32[6, 500]
M[i] += X[i, k]
V[i] += (X[i, k] - M[i] / 500) * (X[i, k] - M[i] / 500)
Y[i] = V[i] / 500"""
ONE_PASS = """X: float32[6, 500]
M[i] += X[i, k]
V[i] += X[i, k] * X[i, k]
Y[i] = V[i] / 500 - M[i] / 500 * (M[i] / 500)"""
BLOCKS = """@T.prim_func
def mm(A: T.Buffer((24, 40), "float32"), B: T.Buffer((40, 20), "float32"), C: T.Buffer((24, 20), "float32")):
    for i, j, k in T.grid(24, 20, 40):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def plain(text: str) -> Version:
    return operator("f", text).version("plain")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int32"])
def test_products_of_matrices_are_right(dtype: str) -> None:
    result = check(plain(MATMUL.format(dtype, 96)))
    assert result.ok and not result.open, str(result)
    assert bool(result.notes) == (dtype == "int8")


@pytest.mark.parametrize(
    "text", [SOFTMAX.format(2000), VARIANCE, ONE_PASS, BLOCKS], ids=["softmax", "two", "one", "blocks"]
)
def test_usual_kernels_are_right(text: str) -> None:
    result = check(plain(text))
    assert result.ok and not result.open and 0 < result.units <= 1, str(result)


@pytest.mark.soak
@pytest.mark.parametrize(
    "text",
    [MATMUL.format("float32", 1024), MATMUL.format("float16", 512), MATMUL.format("bfloat16", 512),
     MATMUL.format("float64", 512), SOFTMAX.format(50_000), VARIANCE.replace("500", "50000"),
     ONE_PASS.replace("500", "50000"), "X: float32[4000000]\nS[()] += X[i]", "X: float64[4000000]\nS[()] += X[i]",
     VARIANCE.replace("float32", "float16"), VARIANCE.replace("float32", "bfloat16")],
)  # fmt: skip
def test_long_sums_are_right(text: str) -> None:
    result = check(plain(text))
    assert result.ok, str(result)


@pytest.mark.soak
@pytest.mark.parametrize("size", [2048, 4096])
def test_large_products_of_matrices_are_right(size: int) -> None:
    """NumPy's float32 product is one legal order of the sums."""
    op = operator("f", MATMUL.format("float32", size))
    inputs = op.random_inputs(0)
    result = compare([inputs[0] @ inputs[1]], expected_values(op, inputs), ["Y"])
    assert result.ok and result.elements == size * size, str(result)


@pytest.mark.soak
def test_a_search_over_a_large_product_finds_its_schedules_right() -> None:
    op = operator("mm", MATMUL.format("float32", 1024))
    result = tune_operator(op, 3, seconds=120, seed=1)
    assert [t.error for t in result.trials if "bound" in (t.error or "")] == [] and result.good


# ---------------------------------------------------------------------------- planted faults


def one_element(y: np.ndarray, random: np.random.Generator) -> None:
    at = random.integers(y.size)
    y.flat[at] += y.dtype.type(random.choice([-1, 1]) * 10.0 ** random.uniform(-7, 0))


def two_swapped(y: np.ndarray, random: np.random.Generator) -> None:
    a, b = random.integers(y.size, size=2)
    y.flat[a], y.flat[b] = y.flat[b], y.flat[a]


def tail_missing(y: np.ndarray, random: np.random.Generator) -> None:
    y.flat[y.size - random.integers(1, 4) :] = 0


FAULTS: list[Callable[[np.ndarray, np.random.Generator], None]] = [one_element, two_swapped, tail_missing]


def shares(
    op: Operator, fault: Callable[[np.ndarray, np.random.Generator], None], coarse: bool
) -> tuple[int, int, int]:
    """Of 40 faults: found, missed although beyond the bound of the element, within it."""
    random = np.random.default_rng(7)
    inputs = op.random_inputs(1, 16, coarse)
    expected = expected_values(op, inputs)
    value, bound = parts(expected.values[0])
    right = np.asarray(op.reference(*inputs))
    found = missed = within = 0
    for _ in range(40):
        y = right.copy()
        fault(y, random)
        beyond = bool((np.abs(y.astype("float64") - value) > (0.0 if bound is None else bound)).any())
        seen = compare([y], expected, ["Y"]).ok is False
        found, missed, within = found + seen, missed + (beyond and not seen), within + (not beyond)
        assert seen or not beyond
    return found, missed, within


@pytest.mark.parametrize("fault", FAULTS, ids=[f.__name__ for f in FAULTS])
@pytest.mark.parametrize(
    ("text", "share"), [(MATMUL.format("float32", 64), 0.4), (SOFTMAX.format(5000), 0.9), (VARIANCE, 0.4)]
)
def test_faults_beyond_the_bound_are_found(text: str, share: float, fault: Callable[..., None]) -> None:
    op = operator("f", text)
    found, missed, within = shares(op, fault, False)
    assert missed == 0 and found + within == 40
    assert found >= share * 40, (found, within)


def test_faults_of_16_bit_sums_show_on_coarse_inputs() -> None:
    """On other inputs the bound of 512 terms of float16 allows whatever the sum can be; of those that are added in float32 it does not."""
    inputs = "X: float16[80, 512]\nW: float16[512, 80]\n"
    wide = operator("f", f"{inputs}Y[i, j] += X[i, k] * W[k, j]")
    assert shares(wide, tail_missing, False) == (40, 0, 0)
    terms = "lambda i, j: te.sum(X[i, k] * W[k, j], axis=k)"
    op = operator("f", f"{inputs}k = te.reduce_axis((0, 512), 'k')\nY = te.compute((80, 80), {terms}, name='Y')")
    assert shares(op, tail_missing, False) == (0, 0, 40) and shares(op, tail_missing, True) == (40, 0, 0)
    assert shares(op, two_swapped, True)[0] >= 38


def test_a_missing_last_term_is_found() -> None:
    """Of a sum of 100,000 the bound allows more than a term, unless the terms have few bits: then all sums are exact."""
    op = operator("f", "X: float32[100000]\nS[()] += X[i]")
    for coarse, seen in ((False, False), (True, True)):
        (x,) = op.random_inputs(0, 16, coarse)
        x[-1] = 0.75
        expected = expected_values(op, [x])
        got = np.asarray(x[:-1].sum(dtype="float64"), "float32")
        result = compare([got], expected, ["S"])
        assert (result.ok is False) == seen and (result.bound == 0) == seen, str(result)
    mm = operator("f", MATMUL.format("float32", 256))
    x, w = mm.random_inputs(0)
    assert not compare([x[:, :-1] @ w[:-1]], expected_values(mm, [x, w]), ["Y"]).ok


def test_a_wrong_schedule_is_found() -> None:
    """One that leaves out the last term, whatever the inputs are."""
    op = operator("f", MATMUL.format("float32", 32))
    text = "X: float32[32, 32]\nW: float32[32, 32]\nk: range(31)\nY[i, j] += X[i, k] * W[k, j]"
    wrong = operator("f", text)
    inputs = op.random_inputs(0)
    result = compare([wrong(*inputs)], expected_values(op, inputs), ["Y"])
    assert not result.ok and result.wrong > 900 and result.units > 100


# ---------------------------------------------------------------------------- what a result says


def test_the_worst_element_in_units_of_its_bound() -> None:
    value, error = np.array([[1.0, 2.0], [3.0, 100.0]]), np.array([[0.1, 0.1], [0.5, 10.0]])
    got = np.array([[1.05, 2.0], [3.4, 104.0]], "float32")
    result = compare([got], [Approximate(value, error)], ["C"])
    assert result.ok and result.place == "C[1, 0]" and result.bound == 0.5 and result.expected == 3
    assert result.units == pytest.approx(0.8) and result.absolute == pytest.approx(0.4)
    assert result.relative == pytest.approx(0.4 / 3)  # of that element, not of the one that is farthest off
    assert str(result).startswith("\u2713 equal to NumPy \u00b7 4 values judged")
    got[0, 0] = 1.2
    result = compare([got], [Approximate(value, error)], ["C"])
    assert result.ok is False and result.wrong == 1 and result.place == "C[0, 0]"
    assert str(result).startswith("\u2715 NOT equal to NumPy \u00b7 1 of 4 values differ, first at `C[0, 0]`: got 1.2")
    got[1] = 77
    assert compare([got], [Approximate(value, error)], ["C"]).place == "C[0, 0]"  # the first that differs


def test_exact_values_have_to_be_the_same() -> None:
    result = compare([np.array([1, 2, 4])], [np.array([1, 2, 3])], ["Y"])
    assert result.ok is False and result.units == np.inf and "first at `Y[2]`: got 4, expected 3" in str(result)
    far = compare([np.array([2**62 + 1])], [np.array([2**62])], ["Y"])
    assert far.ok is False and far.wrong == 1


@pytest.mark.parametrize(
    ("got", "value", "error", "ok"),
    [(np.nan, 1.0, 0.5, False), (np.nan, np.nan, 0.0, True), (1.0, np.nan, 0.0, False), (np.inf, 1.0, 9.0, False),
     (np.inf, np.inf, 0.0, True), (-np.inf, np.inf, 0.0, False), (np.inf, 6e4, np.inf, True), (-0.0, 0.0, 0.0, True)],
)  # fmt: skip
def test_nan_and_infinity(got: float, value: float, error: float, ok: bool) -> None:
    result = compare([np.array([got], "float32")], [Approximate(np.array([value]), np.array([error]))], ["Y"])
    assert (result.ok is not False) == ok and result.unjudged.get("no bound", 0) == (error == np.inf)


def test_two_checks_as_one() -> None:
    expected = Evaluation([Approximate(np.ones(5), np.full(5, 0.5))], ["wraps"])
    good, bad = (compare([np.array([1.1, y, 1, 1, 1])], expected, ["Y"]) for y in (1, 4))
    both = combined(good, bad)
    assert both.ok is False and both.place == "Y[1]" and both.notes == ("wraps",) and both == combined(bad, good)


def test_sums_of_integers_that_wrap_are_told() -> None:
    result = check(plain(MATMUL.format("int8", 128)))
    assert result.ok and "to sum in int32 write `int32(X[i, k]) * int32(W[k, j])`" in str(result)
    wide = check(plain("X: int8[64, 64]\nW: int8[64, 64]\nY[i, j] += int32(X[i, k]) * int32(W[k, j])"))
    assert wide.ok and not wide.notes


def test_index_arithmetic_that_wraps_is_told() -> None:
    cell = "X: int32[3000]\nY[i] = X[i] + max(i * i * 1000, 0)"
    function = """@T.prim_func
def f(X: T.Buffer((3000,), "int32"), Y: T.Buffer((3000,), "int32")):
    for i in range(3000):
        Y[i] = X[i] + T.max(i * i * 1000, 0)
"""
    for text in (cell, function):
        result = check(plain(text))
        assert not result.ok and "`i * i * 1000` wraps around in int32" in str(result) and "in int64" in str(result)
    assert check(plain(cell.replace("i * i", "int64(i) * i"))).ok


def test_every_step_of_a_schedule_is_within_the_bound() -> None:
    from tvmagic.operators.scheduling import schedule

    op = operator("f", MATMUL.format("float32", 16))
    version = schedule(op, "i, j = Y.op.axis\nko, ki = s[Y].split(Y.op.reduce_axis[0], 4)\ns[Y].reorder(ko, i, ki, j)")
    assert version.record is not None
    assert {v.state for v in verify(version.record, op)} == {"equal"}


def test_functions_without_a_bound_are_judged_by_a_tolerance() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] * T.float32(0.3)
        if B[i] * T.float32(3) > A[i] * T.float32(0.9):
            B[i] = T.float32(0)
"""
    op = operator("f", text)
    result = check(op.version("plain"))
    assert "judged by a fixed tolerance, as no bound follows: which statements run depends on rounding" in str(result)


@pytest.mark.parametrize("certain", [True, False])
def test_how_often_a_while_runs_may_depend_on_rounding(certain: bool) -> None:
    text = """@T.prim_func
def f(A: T.Buffer((8,), "float32"), N: T.Buffer((8,), "int32")):
    for i in range(8):
        N[i] = 0
        while N[i] < 9 and LIMIT < A[i] * T.float32(0.9):
            N[i] = N[i] + 1
"""
    limit = "T.float32(0.25)" if certain else "A[i] * T.float32(0.3) * T.float32(3)"
    result = check(operator("f", text.replace("LIMIT", limit)).version("plain"))
    assert result.ok and bool(result.notes) is not certain, str(result)


SCATTER = """@T.prim_func
def f(I: T.Buffer((9,), "uint8"), X: T.Buffer((9,), "float32"), Y: T.Buffer((300,), "float32")):
    for i in range(9):
        Y[I[i]] = X[i]
"""
TILED = """@T.prim_func
def f(X: T.Buffer((300,), "float32"), Y: T.Buffer((300,), "float32")):
    for io, ii in T.grid(38, 8):
        if io * 8 + ii < 300:
            Y[io * 8 + ii] = X[io * 8 + ii]
"""


def test_elements_that_a_function_leaves_alone_are_zero() -> None:
    scatter = operator("f", SCATTER)
    result = check(scatter.version("plain"))
    assert not result.wrong and result.unjudged["unwritten"] >= 291, str(result)
    indices, x = np.array([3] * 8 + [255], "uint8"), np.ones(9, "float32")
    for _ in range(3):  # the second call takes the quick way
        np.full(300, np.nan, "float32")  # memory that the next array may get
        assert scatter(indices, x).sum() == 2
    assert scatter.left_unwritten == (True,) and operator("g", TILED).left_unwritten == (False,)
    assert operator("g", TILED.replace("38", "37")).left_unwritten == (True,)
    assert operator("g", TILED.replace("io * 8 + ii <", "X[io] <")).left_unwritten == (True,)
    assert operator("g", BLOCKS).left_unwritten == (False,)


def test_statements_under_conditions_that_are_sure() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((8, 9), "float32"), B: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.float32(-9)
        for j in range(9):
            if A[i, j] > B[i]:
                B[i] = A[i, j]
                I[i] = j
"""
    result = check(operator("f", text).version("plain"))
    assert result.ok and result.absolute == 0 and not result.notes, str(result)


@pytest.mark.parametrize(("x", "y"), [("256, 1", ""), ("", "1, 20"), ("24, 1", "40, 2"), ("s, 1", "n * 2 + 20, 1")])
def test_arrays_with_the_strides_of_their_buffers(x: str, y: str) -> None:
    strides = [f", strides=[{s}]" if s else "" for s in (x, y)]
    text = f"""@T.prim_func
def f(a: T.handle, b: T.handle):
    n, s = T.int32(), T.int32()
    A = T.match_buffer(a, (n, 20), "float32"{strides[0]})
    B = T.match_buffer(b, (n, 20), "float32"{strides[1]})
    for i, j in T.grid(n, 20):
        B[i, j] = A[i, j] + 1.0
"""
    result = check(operator("f", text).version("plain"), sizes={"n": 6})
    assert result.ok and result.elements == 120, str(result)


UPDATES = {
    "one": """for i in range(16):
        X[i] = X[i] * T.float32(0.3) + A[i]""",
    "swapped": """for i, j in T.grid(16, 15):
        if X[j] > X[j + 1]:
            t: T.float32 = X[j]
            X[j] = X[j + 1]
            X[j + 1] = t""",
    "another": """for i in range(16):
        X[i] = X[i] * T.float32(3)
        Y[i] = X[i] + A[i]""",
}


@pytest.mark.parametrize("name", UPDATES)
def test_what_is_updated_is_checked(name: str) -> None:
    more = ', Y: T.Buffer((16,), "float32")' if "Y[" in UPDATES[name] else ""
    text = f"""@T.prim_func
def f(A: T.Buffer((16,), "float32"), X: T.Buffer((16,), "float32"){more}):
    {UPDATES[name]}
"""
    op = operator("f", text)
    result = check(op.version("plain"))
    assert result.ok and result.elements == 16 * len(op.outputs), str(result)
    wrong = [np.asarray(a) + np.float32(1e-3) for a in as_list(op(*op.random_inputs(0)))]
    assert not compare(wrong, expected_values(op, op.random_inputs(0)), ["X", "Y"][: len(wrong)]).ok


def test_what_is_written_through_a_view() -> None:
    text = """@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for io, jo in T.grid(4, 4):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [io, jo])
            X = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), strides=[16, 1], offset_factor=4)
            Y = T.match_buffer(B[vj * 4 : vj * 4 + 4, vi * 4 : vi * 4 + 4], (4, 4), strides=[16, 1], offset_factor=4)
            for i, j in T.grid(4, 4):
                Y[j, i] = X[i, j] * T.float32(2)
"""
    op = operator("f", text)
    assert [t.name for t in op.inputs] == ["A"] and [t.name for t in op.outputs] == ["B"]
    assert check(op.version("plain")).elements == 256


@pytest.mark.parametrize("name", ["cumsum", "cummax"])
def test_a_scan_of_no_steps(name: str) -> None:
    version = plain(f"X: float32[n, m]\nY[i, j] = {name}(X[i, j], over=j)\nZ[i] = sum(Y[i, j], over=j)")
    for sizes in ({"n": 2, "m": 0}, {"n": 0, "m": 2}):
        assert check(version, sizes=sizes).ok is None


def test_a_benchmark_judges_others_by_the_same_bound() -> None:
    op = operator("f", MATMUL.format("float32", 64))
    same = bench(op, seconds=0.01, against=("mine", lambda x, w: (x.astype("float64") @ w).astype("float32")))
    assert not any("other values" in n for n in same.notes)
    other = bench(op, seconds=0.01, against=("mine", lambda x, w: x @ w + np.float32(1e-3)))
    assert "mine gives other values: worst error 0.001" in other.notes[-1]


def test_a_benchmark_tells_a_wrong_version() -> None:
    op = operator("f", "X: float32[40]\nY[i] = X[i] * 2")
    other = operator("f", "X: float32[40]\nY[i] = X[i] * 3").version("plain")
    other.name = "broken"
    result = bench(op, [op.version("plain"), other], seconds=0.01)
    assert [n.split(":")[0] for n in result.notes[1:]] == ["broken gives other values"]


def test_coarse_inputs_are_fractions_of_few_bits() -> None:
    op = operator("f", "X: float32[50]\nH: float16[50]\nI: int32[50]\nY[i] = X[i] * I[i] + H[i]")
    x, h, i = op.random_inputs(0, coarse=True)
    assert set(np.unique(x * 4)) <= set(range(-4, 5)) and set(np.unique(h * 2)) <= set(range(-2, 3))
    assert len(np.unique(x)) > 5 and np.abs(i).max() <= 8
