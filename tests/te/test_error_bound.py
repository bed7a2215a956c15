"""The bounds of rounding errors: no correct program is outside them, and they are no wider than they have to be."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import te_generator
from statements import loop
from te_generator import Program

import tvmagic
from tvmagic import te, tir
from tvmagic.errors import BoundsError, DefectError, TVMagicError
from tvmagic.ir import IntImm
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.operators.comparison import CheckResult, as_list, compare
from tvmagic.operators.error_interpreter import run_with_errors
from tvmagic.operators.operator import Operator
from tvmagic.te.error_bound import parts
from tvmagic.te.error_reference import Evaluation, evaluate_with_errors
from tvmagic.te.reference import evaluate_all

DTYPES = ("float32", "float16", "bfloat16", "float64", "int32")
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def arrays_of(tensors: Any, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for tensor in tensors:
        shape = [s.value for s in tensor.shape]
        drawn = random.uniform(-1, 1, shape) if tensor.dtype.is_float else random.integers(-5, 6, shape)
        arrays.append(drawn.astype(numpy_dtype(tensor.dtype)))
    return arrays


def evaluated(outputs: Any, inputs: dict[Any, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The value of one tensor and the error of each element."""
    value, error = parts(evaluate_with_errors([outputs], inputs).values[0])
    return value, np.zeros(value.shape) if error is None else np.broadcast_to(error, value.shape)


# ---------------------------------------------------------------------------- random programs


class Unscheduled(Program):
    """A random program as it is."""

    def schedule(self) -> None:
        pass


def judged(program: Program, seed: int, compiled: bool) -> CheckResult:
    """A program, compiled or computed in NumPy in its own dtypes, against the bounds."""
    arrays = arrays_of(program.args, seed)
    inputs = {t: a for t, a in zip(program.args, arrays) if not any(t is o for o in program.outputs)}
    expected = evaluate_with_errors(program.outputs, inputs)
    got = [a for t, a in zip(program.args, arrays) if t not in inputs]
    if compiled:
        for array in got:
            array[...] = 77
        tvmagic.build(program.s, program.args, "llvm")(*arrays)
    else:
        got = evaluate_all(program.outputs, inputs)
    return compare(got, expected, [t.name for t in program.outputs])


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_programs_in_their_own_dtypes_are_within_the_bounds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(te_generator, "DTYPES", DTYPES)
    units = []
    for seed in range(first, first + 50):
        result = judged(Unscheduled(seed), seed, compiled=False)
        assert result.ok is not False, (seed, str(result))
        units.append(result.units)
    assert max(units) > 0.3  # the bounds are reached


@pytest.mark.parametrize("first", range(0, 12, 6))
def test_compiled_schedules_are_within_the_bounds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(te_generator, "DTYPES", DTYPES)
    for seed in range(first, first + 6):
        result = judged(Program(seed), seed, compiled=True)
        assert result.ok is not False, (seed, str(result))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 3000, 50))
def test_two_thousand_schedules_are_within_the_bounds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some cannot be lowered: nested parallel loops, vectors of an extent that varies, readers outside of where a stage is."""
    monkeypatch.setattr(te_generator, "DTYPES", DTYPES)
    refused = 0
    for seed in range(first, first + 50):
        try:
            result = judged(Program(seed), seed, compiled=True)
        except TVMagicError as error:
            assert not isinstance(error, (BoundsError, DefectError)), (seed, str(error))
            refused += 1
        else:
            assert result.ok is not False, (seed, str(result))
    assert refused < 10


@pytest.mark.parametrize("first", [0, 15])
def test_functions_have_the_same_values_and_bounds(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter on values with errors, against itself in the program's dtypes and against the expressions."""
    monkeypatch.setattr(te_generator, "DTYPES", DTYPES)
    for seed in range(first, first + 15):
        program = Unscheduled(seed)
        op = Operator.from_prim_func("f", te.create_prim_func(program.args))
        inputs = arrays_of(op.inputs, seed)
        expected, got = run_with_errors(op, inputs), as_list(op.reference(*inputs))
        result = compare(got, expected, [b.name for b in op.outputs])
        assert result.ok is not False, (seed, str(result))
        wanted = evaluate_with_errors(program.outputs, dict(zip(program.args, inputs)))
        for one, other in zip(expected.values, wanted.values):
            a, b = (np.asarray(parts(v)[0], "float64") for v in (one, other))
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=str(seed))


# ---------------------------------------------------------------------------- sums in any order


def total(number: int, dtype: str = "float32") -> tuple[Any, Any]:
    x = te.placeholder((number,), dtype, name="X")
    k = te.reduce_axis((0, number), name="k")
    return x, te.compute((1,), lambda _: te.sum(x[k], axis=k), name="S")


def summed(values: np.ndarray) -> float:
    """One after the other, each step rounded."""
    return float(np.cumsum(values, dtype=values.dtype)[-1])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_any_order_of_a_sum_is_within_its_bound(dtype: str) -> None:
    x, s = total(400, dtype)
    random = np.random.default_rng(3)
    for kind in range(4):
        values = random.uniform(-1 if kind % 2 else 0, 1, 400) * 10.0 ** (
            random.integers(-3, 2, 400) if kind > 1 else 0
        )
        values = values.astype(dtype)
        value, error = evaluated(s, {x: values})
        exact = sum((Fraction(float(v)) for v in values), Fraction(0))
        slack = 400 * 2.0**-53 * np.abs(values).sum(dtype="float64")
        assert abs(Fraction(float(value[0])) - exact) <= slack
        for _ in range(20):
            order = random.permutation(values)
            assert abs(summed(order) - value[0]) <= error[0]
            assert (
                abs(float(order.reshape(20, 20).cumsum(0, dtype=dtype)[-1].cumsum(dtype=dtype)[-1]) - value[0])
                <= error[0]
            )


def test_the_bound_of_a_sum_is_reached() -> None:
    """Ones of half a unit after a 1 are all lost, if they come one by one."""
    x, s = total(1001)
    values = np.full(1001, 2.0**-24, "float32")
    values[0] = 1
    value, error = evaluated(s, {x: values})
    lost = value[0] - summed(values)
    assert summed(values) == 1.0 and 0.9 * error[0] < lost <= error[0]


def test_sums_of_a_million_times_the_unit_roundoff_have_a_bound() -> None:
    """Where n u is not below 1, as Higham's gamma needs it, (n - 1) u still holds."""
    x, s = total(5000, "float16")
    values = np.full(5000, 1.0, "float16")
    value, error = evaluated(s, {x: values})
    assert summed(values) == 2048.0 and 5000 - 2048 <= error[0] <= 5000 * 5000 * 2.0**-10


def test_sums_of_few_bits_are_exact() -> None:
    x, s = total(100_000)
    random = np.random.default_rng(0)
    values = (random.integers(-4, 5, 100_000) / 4).astype("float32")
    value, error = evaluated(s, {x: values})
    assert error[0] == 0 and value[0] == summed(values)
    values[5] = 0.3
    assert evaluated(s, {x: values})[1][0] > 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_products_of_matrices_have_the_bound_of_inner_products(dtype: str) -> None:
    n, inner, m = 5, 60, 7
    a, b = te.placeholder((n, inner), dtype, name="A"), te.placeholder((inner, m), dtype, name="B")
    k = te.reduce_axis((0, inner), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    left, right = arrays_of([a, b], 1)
    value, error = evaluated(c, {a: left, b: right})
    wide, other = left.astype("float64"), right.astype("float64")
    size = np.abs(wide) @ np.abs(other)
    for i, j in ((0, 0), (4, 6), (2, 3)):
        exact = sum((Fraction(x) * Fraction(y) for x, y in zip(wide[i], other[:, j])), Fraction(0))
        assert abs(Fraction(float(value[i, j])) - exact) <= 60 * 2.0**-53 * size[i, j]
    bound = inner * UNIT[dtype] * size
    assert (error >= bound * 0.999).all() and (error <= bound * 3.1).all()
    if dtype in ("float32", "float64"):
        assert (np.abs((left @ right) - value) <= error).all()


def test_products_broadcast_in_every_way() -> None:
    """Factors that share axes, that have none, that depend on one of the summed axes alone."""
    x, y, z = (te.placeholder(s, "float32", name=n) for n, s in zip("XYZ", ((4, 5, 3), (4, 3, 6), (6,))))
    r, q = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 2), name="q")
    cases = [
        (lambda b, i, j: te.sum(x[b, i, r] * y[b, r, j], axis=r), "bir,brj->bij"),
        (lambda b, i, j: te.sum(x[b, i, r] * y[b, r, j] * z[j], axis=r), "bir,brj,j->bij"),
        (lambda b, i, j: te.sum(x[b, i, r] * (y[b, r, j] * z[q]), axis=[r, q]), "bir,brj,q->bij"),
        (lambda b, i, j: te.sum(x[b, i, r] * z[j], axis=[r, q]), None),
    ]
    xs, ys, zs = arrays_of([x, y, z], 4)
    for body, text in cases:
        c = te.compute((4, 5, 6), body, name="C")
        inputs = {t: v for t, v in zip((x, y, z), (xs, ys, zs)) if t in c.op.input_tensors}
        value, error = evaluated(c, inputs)
        wide = [v.astype("float64") for v in (xs, ys, zs)]
        if text is None:
            exact = np.einsum("bir,j->bij", wide[0], wide[2]) * 2
        elif "q" in text:
            exact = np.einsum(text, wide[0], wide[1], wide[2][:2])
        else:
            exact = np.einsum(text, *wide[: text.count(",") + 1])
        np.testing.assert_allclose(value, exact, rtol=1e-13, atol=1e-15)
        assert (np.abs(evaluate_all([c], inputs)[0] - value) <= error).all()


# ---------------------------------------------------------------------------- discontinuities and edges


def elementwise(function: Any, values: Any, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """`function` of elements that are off by a rounding: x * 3 / 3 of what is given."""
    x = te.placeholder((len(values),), dtype, name="X")
    near = te.compute(x.shape, lambda i: x[i] * te.const(3.0, dtype) / te.const(3.0, dtype), name="N")
    y = te.compute(x.shape, lambda i: function(near[i]), name="Y")
    return evaluated(y, {x: np.array(values, dtype)})


def test_near_a_step_both_neighbours_are_right() -> None:
    value, error = elementwise(lambda x: x.astype("int32"), [0.7, 2.3, -1.6])
    assert value.tolist() == [0, 2, -1] and error.tolist() == [0, 0, 0]
    value, error = elementwise(lambda x: te.floor(x), [0.7, 1.1, 5.0])
    assert error.tolist()[:2] == [0, 0] and error[2] == 1
    value, error = elementwise(lambda x: te.round(x), [0.5, 0.7])
    assert error[0] == 1 and error[1] == 0


def test_near_a_tie_both_branches_are_right() -> None:
    pick = lambda x: tir.Select(x > 1.1, te.const(10.0, "float32"), te.const(20.0, "float32"))  # noqa: E731
    value, error = elementwise(pick, [1.1, 1.2, 0.5])
    assert error[0] == 10 and error[1] == error[2] == 0 and value.tolist()[1:] == [10, 20]
    largest = lambda x: te.max(x, te.const(1.1, "float32"))  # noqa: E731
    value, error = elementwise(largest, [1.1, 7.7, 0.5])
    assert 0 < error[0] < 1e-6 and error[2] == 0


def test_near_a_pole_nothing_is_known() -> None:
    with np.errstate(all="ignore"):
        one = te.const(1.0, "float32")
        _, error = elementwise(lambda x: one / (x - te.const(1.1, "float32")), [1.1, 4.4])
        assert np.isinf(error[0]) and error[1] < 1e-6
        _, error = elementwise(lambda x: te.sqrt(x - te.const(1.1, "float32")), [1.1, 4.4, 0.1])
        assert np.isinf(error[0]) and error[1] < 1e-6 and error[2] == 0
        value, error = elementwise(lambda x: te.log(x - te.const(1.1, "float32")), [1.1, 4.4, 0.1])
        assert np.isinf(error[0]) and error[1] < 1e-6 and np.isnan(value[2]) and error[2] == 0


def test_infinities_and_nan_of_the_inputs_are_exact() -> None:
    inf, nan = np.inf, np.nan
    value, error = elementwise(lambda x: te.exp(x) + te.tanh(x), [inf, -inf, nan])
    np.testing.assert_array_equal(value, [inf, -1, nan])
    assert error[0] == error[2] == 0 and error[1] < 1e-6
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    s = te.compute((3,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="S")
    data = np.ones((3, 4), "float32")
    data[0, 1], data[1, 2] = inf, nan
    value, error = evaluated(s, {a: data})
    np.testing.assert_array_equal(value, [inf, nan, 4])
    assert error.tolist() == [0, 0, 0]


def test_overflow_of_a_dtype() -> None:
    value, error = elementwise(lambda x: x * x, [100.0, 400.0], "float16")
    assert value[1] == np.inf and error[1] == 0 and error[0] < 40
    x, s = total(4, "float16")
    value, error = evaluated(s, {x: np.array([6e4, 6e4, -6e4, -6e4], "float16")})
    assert value[0] == 0 and np.isinf(error[0])  # some orders overflow on the way
    value, error = evaluated(s, {x: np.array([6e4, 6e4, 6e4, 6e4], "float16")})
    assert value[0] == np.inf and error[0] == 0


def test_a_product_that_overflows_inside_fma_is_not_judged_if_the_sum_may_be_finite() -> None:
    x = te.placeholder((3,), "float16", name="X")
    y = te.compute((3,), lambda i: tir.fma(x[i], x[i], -x[i] * te.const(100.0, "float16")), name="Y")
    value, error = evaluated(y, {x: np.array([300.0, 3.0, -300.0], "float16")})
    assert np.isinf(error[0]) and error[1] < 1 and value[2] == np.inf and error[2] == 0


def test_results_below_the_normal_numbers() -> None:
    value, error = elementwise(lambda x: x * x, [1e-22, 1e-30])
    assert 0.5 * 2.0**-149 <= error[0] < 2.0**-140 and error[1] >= value[1]


def test_argmax_near_a_tie() -> None:
    v = te.placeholder((2, 5), name="V")
    k = te.reduce_axis((0, 5), name="k")
    pick = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    place, most = te.compute((2,), lambda i: pick((k.var, te.exp(v[i, k])), axis=k), name="T")
    data = np.array([[0, 1, 3, 2, 1], [0, 3, 1, 2, np.nextafter(np.float32(3), np.float32(9))]], "float32")
    found = evaluate_with_errors([place, most], {v: data})
    where, off = parts(found.values[0])
    assert off is not None and where[0] == 2 and off[0] == 0
    assert abs(where[1] - 1) <= off[1] and abs(where[1] - 4) <= off[1] and off[1] == 3
    assert np.max(parts(found.values[1])[1]) < 1e-4  # of the value there is no doubt


def test_reads_at_a_place_that_depends_on_rounding() -> None:
    t = te.placeholder((6,), name="T")
    x = te.placeholder((2,), name="X")
    p = te.compute((2,), lambda i: (x[i] * te.const(3.0, "float32")).astype("int32"), name="P")
    y = te.compute((2,), lambda i: t[p[i]], name="Y")
    table = np.array([1, 2, 4, 8, 16, 32], "float32")
    value, error = evaluated(y, {t: table, x: np.array([0.5, 1 / 3], "float32")})
    assert value[0] == 2 and error[0] == 0
    assert value[1] - error[1] <= 1 and value[1] + error[1] >= 2


def test_integers_are_exact_and_wrapping_sums_are_told() -> None:
    a, b = te.placeholder((3, 9), "int8", name="A"), te.placeholder((9, 2), "int8", name="B")
    k = te.reduce_axis((0, 9), name="k")
    c = te.compute((3, 2), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    left, right = np.full((3, 9), 5, "int8"), np.full((9, 2), 3, "int8")
    left[0] = 1
    found = evaluate_with_errors([c], {a: left, b: right})
    np.testing.assert_array_equal(found.values[0], np.array([[27, 27], [-121, -121], [-121, -121]], "int8"))
    text = (
        "the sum `C` of int8 wraps around in 4 of 6 elements; to sum in int32 write `int32(A[i, k]) * int32(B[k, j])`"
    )
    assert found.notes == [text]
    wide = te.placeholder((2,), "int64", name="W")
    r = te.reduce_axis((0, 2), name="r")
    s = te.compute((1,), lambda _: te.sum(wide[r], axis=r), name="S")
    big = np.array([2**62, 2**62 + 1], "int64")
    found = evaluate_with_errors([s], {wide: big})
    assert found.values[0].tolist() == [2**62 + 2**62 + 1 - 2**64] and "write `float64(W[" in found.notes[0]


def test_integers_that_float64_does_not_hold_are_exact() -> None:
    a = te.placeholder((2, 3), "int64", name="A")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((2,), lambda i: te.sum(a[i, k] * a[i, k], axis=k), name="C")
    data = np.array([[2**31 + 1, 3, 5], [2**30 + 1, 1, 1]], "int64")
    value, error = evaluated(c, {a: data})
    assert value.tolist() == [(2**31 + 1) ** 2 + 34, (2**30 + 1) ** 2 + 2] and not error.any()


# ---------------------------------------------------------------------------- the plan


def test_reads_outside_and_unknown_functions_are_errors() -> None:
    a = te.placeholder((5,), name="A")
    with pytest.raises(BoundsError, match="`A`"):
        evaluate_with_errors([te.compute((6,), lambda i: a[i], name="Q")], {a: np.zeros(5, "float32")})
    padded = te.compute((7,), lambda i: te.if_then_else(te.all(i >= 1, i < 6), a[i - 1], 0.0), name="P")
    value, error = evaluated(padded, {a: np.ones(5, "float32")})
    assert value.tolist() == [0, 1, 1, 1, 1, 1, 0] and not error.any()
    with pytest.raises(TVMagicError, match="`A`"):
        evaluate_with_errors([padded], {})


def test_scans_follow_their_errors_from_step_to_step() -> None:
    x = te.placeholder((30, 3), name="X")
    state = te.placeholder((30, 3), name="S")
    first = te.compute((1, 3), lambda _, i: x[0, i], name="F")
    step = te.compute((30, 3), lambda t, i: state[t - 1, i] * te.const(0.9, "float32") + x[t, i], name="U")
    out = te.scan(first, step, state, inputs=[x])
    data = np.random.default_rng(0).uniform(-1, 1, (30, 3)).astype("float32")
    value, error = evaluated(out, {x: data})
    got = evaluate_all([out], {x: data})[0]
    assert (np.abs(got - value) <= error).all() and not error[0].any()
    assert (error[29] > error[1]).all() and error.max() < 2e-6


def test_statements_of_extern_operations() -> None:
    """A sum in place has the bound of a sum in any order."""

    def rows(ins: Any, outs: Any) -> Any:
        (a,), (b,) = ins, outs

        def row(i: Any) -> Any:
            add = loop("j", 50, lambda j: b.vstore([i], b.vload([i]) + a.vload([i, j])))
            return tir.stmt_seq(b.vstore([i], tir.const(0.0)), add)

        return loop("i", 4, row)

    a = te.placeholder((4, 50), name="A")
    out = te.extern((4,), [a], rows, dtype="float32")
    data = np.random.default_rng(0).uniform(-1, 1, (4, 50)).astype("float32")
    value, error = evaluated(out, {a: data})
    bound = 50 * 2.0**-24 * np.abs(data).sum(1)
    np.testing.assert_allclose(value, data.sum(1, dtype="float64"), rtol=1e-12)
    assert (error <= bound * 1.01).all() and (error >= bound * 0.9).all()
    coarse = np.rint(data * 4).astype("float32") / 4
    assert not evaluated(out, {a: coarse})[1].any()


def test_evaluations_keep_their_notes() -> None:
    x = te.placeholder((4,), "int32", name="X")
    found = evaluate_with_errors([x], {x: np.arange(4, dtype="int32")})
    assert isinstance(found, Evaluation) and found.notes == []
    assert isinstance(x.shape[0], IntImm)
