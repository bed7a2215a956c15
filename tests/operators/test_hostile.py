"""Programs that nobody writes by hand: very long, very deep, very large numbers, names that no text can have.

Each outcome is a result or a `TVMagicError`, soon.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import te, tir
from tvmagic.arith import Analyzer, IntervalSet
from tvmagic.errors import TVMagicError
from tvmagic.ir import load_json, save_json, structural_equal, structural_hash
from tvmagic.ir.deep_recursion import deep, written_size
from tvmagic.operators import operator
from tvmagic.operators.operator import Operator, Version
from tvmagic.operators.scheduling import CellError, schedule
from tvmagic.script import from_source

X = "X: float32[16]\n"
ONES = np.ones(16, "float32")
# Python 3.12 reads no sum of more than some 2,990 terms, whatever the recursion limit is.
DEPTH = 3000 if sys.version_info[:2] != (3, 12) else 2500


# ---------------------------------------------------------------------------- depth


def long_sum(count: int = DEPTH) -> tuple[Any, Any]:
    a = te.placeholder((16,), name="A")

    def body(i: Any) -> Any:
        total: Any = a[i]
        for j in range(count):
            total = total + a[i] * float(j)
        return total

    return a, te.compute((16,), body, name="B")


def test_a_sum_of_3000_terms_is_read_and_computed() -> None:
    op = operator("f", X + "Y[i] = " + " + ".join(f"X[i] * {j}.0" for j in range(DEPTH)))
    assert op.reference(ONES)[3] == pytest.approx(DEPTH * (DEPTH - 1) / 2, rel=1e-5)


def test_a_sum_of_3000_terms_survives_everything_that_walks_it() -> None:
    func = te.create_prim_func(long_sum())
    assert structural_equal(from_source(func.script()), func)
    assert structural_equal(load_json(save_json(func)), func)
    assert structural_equal(pickle.loads(pickle.dumps(func)), func)
    assert structural_hash(copy.deepcopy(func)) == structural_hash(func)
    a, b = long_sum()
    text = str(tvmagic.lower(te.create_schedule(b.op), [a, b]))
    assert text.count("T.float32") >= DEPTH - 2


def test_a_long_sum_runs_compiled() -> None:
    a, b = long_sum(1500)
    out = np.empty(16, "float32")
    tvmagic.build(te.create_schedule(b.op), [a, b])(ONES, out)
    assert out[5] == pytest.approx(1500 * 1499 / 2 + 1, rel=1e-5)


@pytest.mark.parametrize("body", ["-" * 5000 + "X[i]", "1.0 if " + "not " * 5000 + "X[i] > 0 else 0.0"])
def test_operators_that_nest_without_end_are_refused(body: str) -> None:
    with pytest.raises(TVMagicError, match="1000") as caught:
        operator("f", X + "Y[i] = " + body)
    assert caught.value.span is not None and caught.value.span.line == 3 and caught.value.hint


def test_operators_that_nest_as_deep_as_allowed_are_computed() -> None:
    assert operator("f", X + "Y[i] = " + "-" * 997 + "X[i]").reference(ONES)[3] == -1


def test_a_long_sum_on_the_left_side_is_told() -> None:
    with refuses("notation.left_side_not_indices"):
        operator("f", X + "Y[" + " + ".join(["i"] * 2500) + "] = X[i]")


def test_what_is_too_deep_for_any_stack_is_told() -> None:
    def forever() -> None:
        forever()

    with refuses("program.nested_too_deeply"):
        deep(forever)()


def test_a_cell_is_read_in_time_linear_in_its_terms(calls: Callable[[Callable[[], Any]], int]) -> None:
    def read(count: int) -> int:
        return calls(lambda: operator("f", X + "Y[i] = " + " + ".join(["X[i] * 2.0"] * count)))

    read(10)
    assert read(400) < 2.3 * read(200)


# ---------------------------------------------------------------------------- shared parts

SHARING: dict[str, Callable[[Any, int], Any]] = {
    "select": lambda e, j: tir.Select(e > j, e, e + 1),
    "if_then_else": lambda e, j: tir.if_then_else(e > j, e, e + 1),
    "min": lambda e, j: tir.min(e + j, e * 2),
    "max": lambda e, j: tir.max(e + 1, e // 2),
    "sum": lambda e, j: e + e // 2,
    "product": lambda e, j: e * e,
    "cast": lambda e, j: tir.Cast("int32", tir.Cast("int64", e) + tir.Cast("int64", e)),
    "remainder": lambda e, j: tir.floormod(e, 7 + j) + tir.floordiv(e, 7 + j),
    "and": lambda e, j: tir.Select(tir.And(e > j, tir.Or(e < 0, e > 5)), e, e + 1),
}


def shared(make: Callable[[Any, int], Any], x: Any) -> Any:
    for j in range(60):
        x = make(x, j)
    return x


@pytest.mark.parametrize("name", SHARING)
def test_parts_that_are_shared_are_looked_at_once(name: str) -> None:
    x = tir.Var("x", "int32")
    e, other = shared(SHARING[name], x), shared(SHARING[name], x)
    assert structural_equal(e, other) and structural_hash(e) == structural_hash(other)
    analyzer = Analyzer()
    for find in (analyzer.simplify, analyzer.canonical_simplify, analyzer.const_int_bound, analyzer.modular_set):
        find(e)
    analyzer.can_prove(e >= 0)
    analyzer.int_set(e, {x: IntervalSet(0, 10)})
    assert written_size(pickle.loads(pickle.dumps(e))) == written_size(e)


def test_what_cannot_be_written_out_is_refused() -> None:
    e = shared(SHARING["select"], tir.Var("x", "int32"))
    with refuses("program.too_large_written_out"):
        str(e)
    a = te.placeholder((16,), "int32", name="A")
    with pytest.raises(TVMagicError, match="`B`"):
        te.compute((16,), lambda i: shared(SHARING["sum"], a[i]), name="B")
    with refuses("program.too_large_written_out"):
        tir.PrimFunc([], tir.Evaluate(e))


def test_a_thousand_quotients_simplify_without_cubic_work(calls: Callable[[Callable[[], Any]], int]) -> None:
    x = tir.Var("x", "int32")

    def work(count: int) -> int:
        e: Any = x
        for j in range(count):
            e = e + (x + j) // (j + 2)
        return calls(lambda: Analyzer().simplify(e))

    work(10)
    assert work(240) < 5 * work(120)  # each sum is put in order: quadratic


# ---------------------------------------------------------------------------- numbers

GIANT = ["1 << 10**6", "1 << 10**9", "10**10**10", "9" * 500, "(10**100) ** (10**100)", "-(1 << 10**6)"]


@pytest.mark.parametrize("number", GIANT)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_giant_numbers_are_refused_at_once(number: str, dtype: str) -> None:
    for text in (f"Y[i] = X[i] + ({number})", f"Y[i] = X[i + ({number})]", f"W: float32[{number}]\nY[i] = W[i]"):
        with pytest.raises(TVMagicError):
            operator("f", f"X: {dtype}[4]\n{text}")


def test_giant_numbers_from_outside_and_in_the_api_are_refused() -> None:
    for text in (X + "Y[i] = X[i] + n", "X: float32[n]\nY[i] = X[i]", X + "Y = te.compute((16,), lambda i: X[i] + n)"):
        with pytest.raises(TVMagicError):
            operator("f", text, {"n": 1 << 10**6})
    for dtype in ("int8", "int32", "int64", "uint64", "float32", "float64"):
        with refuses("constant.does_not_fit"):
            tir.const(1 << 10**6, dtype)


def test_an_index_that_means_something_else_is_told() -> None:
    for text, what in (
        (X + "Y[float32] = X[float32]", "a data type"),
        ("X: float32[i]\nY[i] = X[i]", "a size"),
        (X + "k = 3\nY[k] = X[k]", "a number"),
    ):
        with refuses("notation.index_name_taken"):
            operator("f", text)


def test_texts_that_are_no_unicode_are_told() -> None:
    for text in (X + "Y[i] = X[i] # \udc80", X + "Y[i] = X[i] + '\udc80'", X + "\0"):
        with refuses("cell.not_unicode", "cell.syntax_error"):
            operator("f", text)


def test_a_form_feed_ends_no_line() -> None:
    with pytest.raises(TVMagicError) as caught:
        operator("f", X + "# a \x0c b \u2028 c\nY[i] = Q[i]")
    assert caught.value.span is not None and caught.value.span.line == 4


# ---------------------------------------------------------------------------- names

NAMES = ['a"b', "a'b", "a\\b", "", "é漢字", "for", "x" * 3000, "\x1b[31mred", "a\0b", "1a", "a.b", "{x}", '"""', "\udc80",
         "llvm.x", "tvm.exp", "__tvmagic_error"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_compiled_printed_and_read_back(name: str) -> None:
    a = te.placeholder((16,), name=name)
    b = te.compute((16,), lambda i: a[i] + 1.0, name=name)
    func = te.create_prim_func([a, b]).with_attr("global_symbol", name)
    text = func.script()
    assert "\x1b" not in text and structural_equal(from_source(text), func)
    out = np.empty(16, "float32")
    module = tvmagic.build(te.create_schedule(b.op), [a, b], name=name)
    module(ONES, out)
    assert (out == 2).all()
    tvmagic.codegen.assembly_lines(tvmagic.lower(te.create_schedule(b.op), [a, b], name=name))


def test_text_output_shows_what_a_terminal_would_obey() -> None:
    name = "\x1b[31mred\u202e"
    a = te.placeholder((16,), name=name)
    b = te.compute((16,), lambda i: a[i] + 1.0, name=name)
    op = Operator(name, [a], [b])
    shown = [repr(a), str(a.op), repr(te.create_schedule(b.op)), repr(op), op.signature, op.call_text]
    with pytest.raises(TVMagicError) as caught:
        op.version(name)
    shown += [str(caught.value), caught.value.message]
    assert not any("\x1b" in text or "\u202e" in text for text in shown)
    assert "\\x1b[31mred\\u202e" in repr(a)


# ---------------------------------------------------------------------------- pickles and copies


def ran() -> Operator:
    """An operator that ran without a schedule and with one."""
    op = operator("f", X + "Y[()] += X[k]\nZ[i] = max(X[i], Y[()])")
    op(ONES)
    sch = op.schedule()
    sch.split(sch.get_loops(sch.get_block("Z"))[0], [None, 4])
    op.add_version(Version(op, sch, "split"))
    op(ONES)
    return op


@pytest.mark.parametrize("again", [lambda op: pickle.loads(pickle.dumps(op)), copy.deepcopy, copy.copy])
def test_an_operator_that_ran_can_be_pickled_and_copied(again: Callable[[Operator], Operator]) -> None:
    op = ran()
    other = again(op)
    assert other is not op and list(other.versions) == ["split"]
    np.testing.assert_array_equal(other(ONES), op(ONES))
    np.testing.assert_array_equal(other.reference(ONES), op(ONES))
    assert "X" in other.signature and other.check_bounds == op.check_bounds


def test_a_module_can_be_pickled_for_this_cpu_alone() -> None:
    from tvmagic.runtime.description import this_cpu

    module = ran().build()
    text, out = pickle.dumps(module), np.empty(16, "float32")
    pickle.loads(text)(ONES, out)
    assert (out == 16).all() and copy.deepcopy(module) is module
    cpu = str(this_cpu()).encode()
    assert cpu in text
    with refuses("module.other_machine"):
        pickle.loads(text.replace(cpu, b"x" * len(cpu)))


def test_an_analyzer_is_not_pickled() -> None:
    for copied in (pickle.dumps, copy.deepcopy):
        with refuses("analyzer.not_copyable", "analyzer.not_picklable"):
            copied(Analyzer())


def test_a_factor_near_the_largest_integer() -> None:
    """Extent and factor together do not fit their type; the rounded quotient does."""
    factor = 2**31 - 1
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1, name="B")
    s, sch = te.create_schedule(b.op), tir.Schedule(te.create_prim_func([a, b]))
    s[b].split(b.op.axis[0], factor)
    loops = sch.split(sch.get_loops("B")[0], [None, factor])
    assert [int(sch.get(loop).extent) for loop in loops] == [1, factor]
    out = np.zeros(16, "float32")
    tvmagic.build(s, [a, b])(ONES, out)
    assert (out == 2).all()


@pytest.mark.parametrize("name", ["δense", "_1", "x" * 300])
def test_any_name_of_an_operator_has_parallel_loops(name: str) -> None:
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    out = np.zeros(16, "float32")
    tvmagic.build(s, [a, b], name=name)(ONES, out)
    assert (out == 2).all()


# ---------------------------------------------------------------------------- factors


LARGE = ["1 << 10**6", "1 << 63", "1 << 40", "1 << 31"]
SPLITS = [
    "s[Y].split(Y.op.axis[0], {})", "s[Y].split(Y.op.axis[0], nparts={})", "s[Y].tile(*Y.op.axis, {0}, {0})",
    "s[Y].storage_align(Y.op.axis[0], {}, 0)", "sch.split(sch.get_loops(Y)[0], [None, {}])",
    "sch.split(sch.get_loops(Y)[0], [{}, None])", "sch.split(sch.get_loops(Y)[0], [{0}, {0}])",
    "sch.loop_partition(sch.get_loops(Y)[0], [{}, None])", "sch.sample_perfect_tile(sch.get_loops(Y)[0], {})",
]  # fmt: skip


@pytest.mark.parametrize("call", SPLITS)
@pytest.mark.parametrize("number", LARGE)
def test_factors_that_no_index_can_hold_are_refused(number: str, call: str) -> None:
    op = operator("f", "X: float32[16, 16]\nY[i, j] = X[i, j] + 1.0")
    with refuses(
        "constant.beyond_64_bits",
        "loop_partition.factors_too_large",
        "sample_perfect_tile.wrong_factor_count",
        "schedule.loop_too_long",
        "te.schedule.size_too_large",
    ) as caught:
        schedule(op, call.format(f"({number})"))
    assert not isinstance(caught.value, CellError)
    assert caught.value.span is not None and caught.value.span.line == 2


@pytest.mark.parametrize("number", LARGE[:2])
@pytest.mark.parametrize("call", ["s[Y].pragma(Y.op.axis[0], 'x', {})", "sch.annotate(sch.get_loops(Y)[0], 'x', {})"])
def test_annotations_that_no_program_can_hold_are_refused(number: str, call: str) -> None:
    with pytest.raises(TVMagicError, match="64"):
        schedule(operator("f", X + "Y[i] = X[i] + 1.0"), call.format(number))


@pytest.mark.parametrize("factors", [[1 << 31, None], [3 << 29, None], [1 << 16, 1 << 16]])
def test_more_iterations_than_the_type_of_a_loop_has_are_refused(factors: list[int | None]) -> None:
    a = te.placeholder(((1 << 31) - 1,), "int8", name="A")
    sch = tir.Schedule(te.create_prim_func([a, te.compute(a.shape, lambda i: a[i] + a[i], name="B")]))
    with refuses("schedule.loop_too_long", names="`int32`"):
        sch.split(sch.get_loops("B")[0], factors)


SQUARE = "X: float32[300000, 300000]\nY[i, j] = X[i, j] * 2.0"


@pytest.mark.parametrize("call", ["s[Y].vectorize(s[Y].fuse(*Y.op.axis))", "s[Y].unroll(s[Y].fuse(*Y.op.axis))"])
def test_loops_fused_to_more_iterations_than_their_type_has_are_refused(call: str) -> None:
    with pytest.raises(TVMagicError, match="`int32`") as caught:
        schedule(operator("f", SQUARE), call).lower()
    assert caught.value.hint


def test_fused_loops_of_tensorir_have_no_more_iterations_than_their_type() -> None:
    with pytest.raises(TVMagicError, match="90000000000") as caught:
        schedule(operator("f", SQUARE), "sch.unroll(sch.fuse(*sch.get_loops(Y)))")
    assert caught.value.hint and caught.value.span is not None


@pytest.mark.parametrize("sizes", [(1 << 20, 1 << 20), (46341, 46341), (1 << 16, 1 << 15)])
def test_large_constant_shapes_are_lowered_with_int64_indices(sizes: tuple[int, int]) -> None:
    op = operator("f", f"X: float32[{sizes[0]}, {sizes[1]}]\nY[i, j] = X[i, j] * 2.0")
    text = str(schedule(op, "s[Y].parallel(Y.op.axis[0])").lower())
    assert f"T.int64({sizes[0] * sizes[1]})" in text


def test_a_loop_of_as_many_iterations_as_an_int32_has_values_is_counted_in_int64() -> None:
    op = operator("f", "X: float32[1 << 31]\nY[i] = X[i] * 2.0")
    assert "range(T.int64(2147483648))" in str(schedule(op, "").lower())


def test_loops_too_long_to_be_unrolled_or_vectorized_are_told_so() -> None:
    op = operator("f", "X: float32[1 << 40]\nY[i] = X[i] * 2.0")
    for call, done in ("unroll", "unrolled"), ("vectorize", "vectorized"):
        with refuses("tir.unroll_loop.not_unrollable", "tir.vectorize_loop.extent_too_large") as caught:
            schedule(op, f"s[Y].{call}(Y.op.axis[0])").lower()
        assert caught.value.hint


@pytest.mark.parametrize("call", ["s[Y].unroll(Y.op.axis[0])", "sch.unroll(sch.get_loops(Y)[0])"])
def test_what_would_be_unrolled_to_a_giant_program_is_refused(call: str) -> None:
    op = operator("f", "X: float32[300000]\nY[i] = X[i] * 2.0")
    with pytest.raises(TVMagicError, match="`i`") as caught:
        schedule(op, call).lower()
    assert caught.value.hint


def test_nested_loops_that_together_make_a_giant_program_are_refused() -> None:
    op = operator("f", "X: float32[64, 64, 64]\nY[i, j, k] = X[i, j, k] * 2.0")
    with pytest.raises(TVMagicError, match="`i`"):
        schedule(op, "for loop in Y.op.axis:\n    s[Y].unroll(loop)").lower()


def test_a_loop_that_is_too_long_to_be_unrolled_by_a_pragma_stays_a_loop() -> None:
    op = operator("f", "X: float32[300000]\nY[i] = X[i] * 2.0")
    text = str(schedule(op, "s[Y].pragma(Y.op.axis[0], 'auto_unroll_max_step', 1 << 20)").lower())
    assert "for i in range(300000)" in text


# ---------------------------------------------------------------------------- arrays


def test_masked_elements_are_not_computed_silently() -> None:
    op = operator("f", X + "Y[i] = X[i] + 1.0")
    with refuses("array.masked", names="`X`") as caught:
        op(np.ma.masked_array(ONES, np.arange(16) > 3))
    assert caught.value.hint
    assert op(np.ma.masked_array(ONES))[3] == 2
