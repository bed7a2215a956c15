"""Decisions about arrays, comparisons, sizes, knobs and places, each as a table with the values at both sides."""

from __future__ import annotations

import ast
import inspect
import itertools
import pathlib
import sys
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tvmagic import te, tir
from tvmagic.errors import TVMagicError
from tvmagic.ir import IRModule, Span
from tvmagic.ir.dtype import dtype_of
from tvmagic.notation.expressions import BY_OTHERS, DTYPES, FUNCTIONS, _check_giant
from tvmagic.notation.recurrence import _Table
from tvmagic.notation.source import Source, excerpt, find_source, known_sources
from tvmagic.notation.statements import _converted
from tvmagic.notation.suggestions import _constant, dtype_hint, meant_function
from tvmagic.notation.syntax import _is_tensor, declaration
from tvmagic.operators import Operator, operator
from tvmagic.operators import arrays as arrays_of
from tvmagic.operators.arrays import (
    as_array,
    check_inputs,
    chosen_sizes,
    evaluate_size,
    random_inputs,
    shapes_of,
    share_memory,
)
from tvmagic.operators.cell import _check_nesting, parse
from tvmagic.operators.code_steps import _add_llvm_steps
from tvmagic.operators.comparison import compare
from tvmagic.operators.index_wraps import wrapping_indices
from tvmagic.operators.javascript.expressions import check_type
from tvmagic.operators.knobs import Knobs
from tvmagic.operators.measure import work_of
from tvmagic.operators.numpy_code import windows
from tvmagic.operators.numpy_stages import chosen
from tvmagic.operators.quick_call import _sizes
from tvmagic.operators.quiet import _waits
from tvmagic.operators.scheduling import _value_text, schedule
from tvmagic.passes import Record, recording
from tvmagic.script import from_source
from tvmagic.te.error_bound import Approximate
from tvmagic.te.error_reference import Evaluation

N, M = te.size_var("n"), te.size_var("m")
X = te.placeholder((N, 4), "float32", name="X")
Y = te.placeholder((M, N), "int32", name="Y")


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


# ---------------------------------------------------------------------------- comparisons


def approximate(values: list[float], bounds: list[float]) -> Any:
    return Approximate(np.array(values, float), np.array(bounds, float))


@pytest.mark.parametrize(
    ("got", "expected", "bounds", "wrong", "unknown", "at"),
    [
        ([1.0, 2.0], [1.0, 2.0], [0.5, 0.5], 0, 0, 0),
        ([1.0, 2.5], [1.0, 2.0], [0.5, 0.5], 0, 0, 1),
        ([1.0, 2.51], [1.0, 2.0], [0.5, 0.5], 1, 0, 1),
        ([1.25, 2.25], [1.0, 2.0], [0.5, 0.25], 0, 0, 1),
        ([1.0, np.nan], [1.0, np.nan], [0.5, 0.5], 0, 0, 0),
        ([1.0, np.nan], [1.0, 2.0], [0.5, 0.5], 1, 0, 1),
        ([np.inf, 1.0], [np.inf, 1.0], [0.5, 0.5], 0, 0, 0),
        ([np.inf, 1.0], [-np.inf, 1.0], [0.5, 0.5], 1, 0, 0),
        ([7.0, 2.0], [1.0, 2.0], [np.inf, 0.5], 0, 1, 0),
        ([1.0, 3.0, 9.0], [1.0, 2.0, 2.0], [0.0, 0.0, 0.0], 2, 0, 2),
        ([1.0, 3.0, 2.5], [1.0, 2.0, 2.0], [1.0, 1.0, 0.0], 1, 0, 2),
    ],
)
def test_values_within_their_bounds(
    got: list[float], expected: list[float], bounds: list[float], wrong: int, unknown: int, at: int
) -> None:
    result = compare([np.array(got)], Evaluation([approximate(expected, bounds)], ["a note"]), ["Z"])
    assert (result.wrong, result.open, result.elements) == (wrong, unknown, len(got))
    assert result.notes == ("a note",)
    if result.absolute:
        assert (
            result.place == f"Z[{at}]"
            and np.array_equal(result.got, got[at], equal_nan=True)
            and result.expected == expected[at]
        )
        assert result.bound == bounds[at]


# ---------------------------------------------------------------------------- arrays


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((3, 4), "float32"), np.zeros((2, 3), "int32"), ""),
        (np.zeros((3, 4), "float64"), np.zeros((2, 3), "int32"), "is of dtype `float32`, the array is `float64`"),
        (np.zeros((3, 4), "float32"), np.zeros((2, 3, 1), "int32"), "has 2 dimensions, the array has 3"),
        (np.zeros((3, 5), "float32"), np.zeros((2, 3), "int32"), "dimension 1 of `X` of `f` is 4, the array has 5"),
        (
            np.zeros((3, 4), "float32"),
            np.zeros((2, 5), "int32"),
            "dimension 1 of `Y` of `f` is 3 (`n` is 3 by dimension 0 of `X`), the array has 5",
        ),
        (np.zeros((0, 4), "float32"), np.zeros((0, 0), "int32"), ""),
    ],
)
def test_which_arrays_an_operator_takes(x: np.ndarray, y: np.ndarray, message: str) -> None:
    if message:
        assert message in str(refused(lambda: check_inputs("f", [X, Y], [x, y])))
    else:
        assert check_inputs("f", [X, Y], [x, y]) == [x, y]


def test_sizes_from_names_and_shapes() -> None:
    assert chosen_sizes([X, Y], 5) == {N: 5, M: 5} and chosen_sizes([X, Y], {"n": 3}) == {N: 3, M: 16}
    sizes = {N: 3, M: 2}
    assert evaluate_size(N, sizes) == 3 and evaluate_size(N * 2 - M, sizes) == 4 and evaluate_size(X.shape[1], {}) == 4
    assert "does not follow" in str(refused(lambda: evaluate_size(N + 1, {M: 2})))
    shrunk = te.placeholder((4, N - 3, M), name="Z")
    assert shapes_of([shrunk, X], sizes) == [(4, 0, 2), (3, 4)]
    error = refused(lambda: shapes_of([shrunk], {N: 2, M: 1}))
    assert "dimension 1 of `Z`, `n - 3`, would be -1 for `n` = 2 and `m` = 1" in str(error)
    assert shapes_of([te.placeholder((), name="S")], {}) == [()]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_random_arrays_are_of_a_small_range(dtype: str) -> None:
    tensor = te.placeholder((40, 50), dtype, name="R")
    (first,), (again,), (other,) = (random_inputs([tensor], seed, 7) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype and first.shape == (40, 50) and not np.array_equal(first, other)
    if dtype == "bool":
        assert 0.4 < first.mean() < 0.6
    elif first.dtype.kind in "iu":
        least = -8 if first.dtype.kind == "i" else 0
        assert set(np.unique(first)) == set(range(least, 8))
        (limited,) = random_inputs([tensor], 1, 7, lambda tensor, sizes: 3)
        assert set(np.unique(limited)) == {0, 1, 2}
    else:
        assert first.min() < -0.9 and first.max() > 0.9 and np.abs(first).max() <= 1
        (coarse,) = random_inputs([tensor], 1, 7, coarse=True)
        steps = 2 if dtype == "float16" else 4
        assert set(np.unique(coarse)) == {v / steps for v in range(-steps, steps + 1)}


def test_what_counts_as_an_array() -> None:
    class Other:
        def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
            return np.arange(3)

    class Host:
        def numpy(self) -> np.ndarray:
            return np.arange(2)

    class Broken:
        def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
            raise ValueError("no")

    plain = np.zeros(3)
    assert as_array(plain, "X") is plain and as_array(Other(), "X").size == 3 and as_array(Host(), "X").size == 2
    masked = np.ma.masked_array([1, 2], [False, True])
    assert "masked elements" in str(refused(lambda: as_array(masked, "X")))
    assert as_array(np.ma.masked_array([1, 2]), "X").size == 2
    assert "does not give its array: ValueError: no" in str(refused(lambda: as_array(Broken(), "X")))
    for value in ([1, 2], 3, None):
        assert "not an array" in str(refused(lambda value=value: as_array(value, "X")))
    assert (
        share_memory([plain], [plain[1:]])
        and not share_memory([plain], [np.zeros(3)])
        and not share_memory([], [plain])
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1, "1 bytes"), (1023, "1.02e+03 bytes"), (1024, "1 KiB"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB"),
     (1 << 60, "1 EiB"), (1 << 71, "2.05e+03 EiB")],
)  # fmt: skip
def test_the_words_for_bytes(count: int, text: str) -> None:
    assert arrays_of._bytes(count) == text


def test_more_memory_than_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small, free = arrays_of._SMALL, 1 << 30
    assert small == 64 << 20
    monkeypatch.setattr(arrays_of, "_free_memory", lambda: free)
    arrays_of.require_memory(free, "an array")
    error = refused(lambda: arrays_of.require_memory(free + 1, "an array"))
    assert str(error).startswith("1 GiB of memory are needed for an array, 1 GiB are free")
    monkeypatch.setattr(arrays_of, "_free_memory", lambda: 0)
    arrays_of.require_memory(small - 1, "an array")  # little is there in any case
    error = refused(lambda: arrays_of.require_memory(small, "an array"))
    assert str(error).startswith("64 MiB of memory are needed for an array, 0 bytes are free")
    monkeypatch.setattr(arrays_of, "_free_memory", lambda: None)
    most = sys.maxsize // 4
    arrays_of.require_memory(most, "an array")
    assert "are free" not in str(refused(lambda: arrays_of.require_memory(most + 1, "an array")))


def test_inputs_take_the_memory_of_all_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(arrays_of, "require_memory", lambda count, what: asked.append(count))
    operator("f", "A: float64[3, 5]\nB: int8[7]\nC: float32\nY[i, j] = A[i, j] + C\nZ[k] = B[k]").random_inputs()
    assert asked == [3 * 5 * 8 + 7 + 4]


# ---------------------------------------------------------------------------- knobs, sources, caches


def test_knobs_by_their_names_and_lines() -> None:
    cell = "tile = knob(8, [4, 8, 16])\nother = knob(1)\nfor _ in range(2):\n    tile = s.knob(3) or knob(2, [1, 2])\nprint(knob(5, (6, 7)))\na, b = knob(1), knob(2)"
    knobs = Knobs(Source("cell", cell), {"tile": 16, "other": 5, "tile 2": 1})
    for _ in range(2):
        knobs.begin()
        exec(compile(cell.replace("s.knob(3) or ", ""), "cell", "exec"), {"knob": knobs.knob, "print": lambda _: None})
        assert {name: (k.default, k.choices) for name, k in knobs.found.items()} == {
            "tile": (8, (4, 8, 16)), "other": (1, (1,)), "tile 2": (2, (1, 2)), "tile 3": (2, (1, 2)),
            "knob at line 5": (5, (5, 6, 7)), "knob at line 6": (1, (1,)), "knob 2 at line 6": (2, (2,)),
        }  # fmt: skip
    assert knobs.chosen()["tile"] == 16 and knobs.chosen()["other"] == 1 and knobs.chosen()["tile 2"] == 1
    knobs.any_value = True
    assert knobs.chosen()["other"] == 5
    assert "at least one value" in str(refused(lambda: knobs.knob(1, [])))


def test_places_in_a_cell() -> None:
    text = "%%tensor f\nX: float32[4]\ns = 'äö' + X\nY[i] = X[i]\x0c + 1\n"
    source = Source("places of a cell", text).remember()
    assert source.lines == ["%%tensor f", "X: float32[4]", "s = 'äö' + X", "Y[i] = X[i]\x0c + 1"]
    assert source.python.startswith("\nX:") and Source("c", "X = 1").python == "X = 1"
    (name,) = (n for n in ast.walk(source.parse()) if isinstance(n, ast.Name) and n.id == "X" and n.lineno == 3)
    span = source.span(name)
    assert (span.line, span.column, span.end_line, span.end_column) == (3, 12, 3, 13)
    assert excerpt(span) == "   3 | s = 'äö' + X\n     |            ^"
    assert find_source("places of a cell") is source and find_source("none") is None
    assert known_sources({"places of a cell", "none"}) == {"places of a cell": text}
    for line in (0, 5):
        assert excerpt(Span("places of a cell", line, 1, line, 2)) == ""
    assert excerpt(None) == "" and excerpt(Span("none", 1, 1, 1, 2)) == ""
    assert source.span(ast.Module([], [])) == Span("places of a cell", 1, 1, 1, 1)
    first = Source("c", "X = 1")
    assert first.span(first.parse().body[0]) == Span("c", 1, 1, 1, 6)


def test_what_a_cell_has_from_outside_is_not_its_own() -> None:
    """Neither functions nor axes, unless the cell gives them names."""
    text = '@T.prim_func\ndef f(X: T.Buffer((1,), "float32"), Y: T.Buffer((1,), "float32")):\n    Y[0] = X[0]'
    outside = {"g": from_source(text), "r": te.reduce_axis((0, 4), "r")}
    assert "defines no tensor" in str(refused(lambda: operator("f", "h = 1", outside)))
    assert operator("f", "h = g", outside).prim_func is not None
    assert list(operator("f", "X: float32[4]\nY[i] = X[i]\nk = r", outside).axes) == ["k"]


def test_a_cell_without_a_tensor_is_refused_at_its_first_line() -> None:
    error = refused(lambda: operator("f", "count = 3"))
    assert "the cell of `f` defines no tensor that is computed" in str(error)
    assert error.span is not None and error.span[1:] == (1, 1, 1, len("%%tensor f") + 1)


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        ("3", "int8", "int8(3)"), ("3", "float16", "float16(3)"), ("2.5", "int8", "2.5"), ("2.5", "float16", "float16(2.5)"),
        ("-(2 + 1)", "uint8", "uint8(-(2 + 1))"), ("2 * 1.5", "int64", "2 * 1.5"), ("2 * 1.5", "bfloat16", "bfloat16(2 * 1.5)"),
    ],
)  # fmt: skip
def test_numbers_of_a_declared_type(value: str, dtype: str, text: str) -> None:
    assert ast.unparse(_converted(ast.parse(value, mode="eval").body, dtype)) == text


@pytest.mark.parametrize(
    ("index", "fixed"), [("X[()]", False), ("X[0]", True), ("X[0, 1]", True), ("X[0, i]", False), ("X[i]", False)]
)
def test_places_that_are_numbers_alone(index: str, fixed: bool) -> None:
    node = ast.parse(index, mode="eval").body
    assert isinstance(node, ast.Subscript) and _constant(node.slice) == fixed


@pytest.mark.parametrize(
    ("target", "own", "is_tensor"),
    [
        ("Y[i]", (), True), ("T[i]", (), True), ("T[0]", ("T",), True), ("L[i]", (), True), ("L[i, j]", (), True), ("L[0]", (), False),
        ("L[i]", ("L",), False), ("Y[0]", ("Y",), False), ("Y.x[i]", (), False),
    ],
)  # fmt: skip
def test_which_elements_are_those_of_tensors(target: str, own: tuple[str, ...], is_tensor: bool) -> None:
    """`Y` is no name outside the cell, `T` a tensor there and `L` a list; `own` are the names that the cell has given a value."""
    node = ast.parse(target, mode="eval").body
    assert isinstance(node, ast.Subscript)
    assert _is_tensor(node, {"T": te.placeholder((4,), name="T"), "L": [1]}, own) == is_tensor


def test_sizes_of_outputs_are_those_of_arrays() -> None:
    assert _sizes((4, (1, 0), (0, 1)), [np.zeros((2, 3)), np.zeros(5)]) == [4, 5, 3]


def test_a_group_that_uses_more_than_it_may_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:   3 kB\n",
        "/sys/fs/cgroup/memory.max": "5000",
        "/sys/fs/cgroup/memory.current": "3000",
    }

    def read(path: pathlib.Path, **_: Any) -> str:
        if str(path) in said:
            return said[str(path)]
        raise OSError

    monkeypatch.setattr(arrays_of.Path, "read_text", read)
    assert arrays_of._free_memory() == 2000
    said["/sys/fs/cgroup/memory.max"] = "max"
    assert arrays_of._free_memory() == 3072
    said["/sys/fs/cgroup/memory.max"] = "2000"
    assert arrays_of._free_memory() == 0
    said.clear()
    assert arrays_of._free_memory() is None


@pytest.mark.parametrize(
    ("index", "hint"),
    [
        ("-i", "`7 - i` goes backwards"), ("-1 - i", "`7 - i` goes backwards"), ("1 - i", ""), ("2 - i", ""),
    ],
)  # fmt: skip
def test_indices_that_count_from_the_end(index: str, hint: str) -> None:
    def declare() -> Any:
        return operator("f", f"X: float32[8]\nY[i] = X[{index}]")

    assert hint in (refused(declare).hint or "") if hint else declare()


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("max(X[i, k])", "`max(X[i, k], over=k)`"), ("max(k, X[i, k])", "`max(X[i, k], over=k)`"), ("X[i, k] * 2", "write `+=` to sum over it, "),
        ("X[i, k] + max(i, 1)", "write `+=` to sum over it, "), ("argmax(X[i, k] + k, over=i)", "`argmax(X[i, k] + k, over=(i, k))`"),
    ],
)  # fmt: skip
def test_what_reduces_over_an_index_of_the_right_side(value: str, hint: str) -> None:
    error = refused(lambda: operator("f", f"X: float32[8, 4]\nY[i] = {value}"))
    assert hint in (error.hint or ""), error.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("float32", "tensor"),
        ("float", "tensor"),
        ("float32[4]", "tensor"),
        ("[4]", "tensor"),
        ("range(4)", "range"),
        ("number", None),
        ("4", None),
        ("size(4)", None),
    ],
)
def test_what_annotations_declare(text: str, kind: str | None) -> None:
    assert declaration(ast.parse(text, mode="eval").body) == kind


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def f():\n  Y[0] = 1", "f"),
        ("def f():\n  return 1\nY[0] = 1", None),
        ("def f():\n  return X[0]", None),
        ("def f():\n  pass\ndef g():\n  for i in X: Z[i] = 1", "g"),
    ],
)
def test_functions_that_are_meant_as_cells(text: str, name: str | None) -> None:
    function = meant_function(ast.parse(text).body)
    assert (function.name if function else None) == name


def test_values_that_are_multiplied_into_what_was_there() -> None:
    op = operator("f", "X: float32[2, 3]\nY[i] = X[i, 0] + 1\nY[i] *= X[i, k]\nY[i] += X[i, k]")
    x = np.arange(1, 7, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(op.reference(x), (x[:, 0] + 1) * x.prod(1) + x.sum(1))


@pytest.mark.parametrize(
    ("rows", "columns", "looked_at"),
    [
        (128, 128, True),
        (129, 128, False),
        (128, 129, False),
        ("n", 8, False),
        (8, "n", False),
        ("n", "m", False),
    ],
)
def test_whether_all_borders_of_a_table_are_looked_at(
    rows: Any, columns: Any, looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: set[bool] = set()
    real = _Table.step_read

    def step_read(table: Any, at: Any) -> Any:
        found.add(table.inside)
        return real(table, at)

    monkeypatch.setattr(_Table, "step_read", step_read)
    operator(
        "f",
        f"X: float32[{rows}, {columns}]\nL[i, j] = X[i, j] if i == 0 or j == 0 else L[i - 1, j] + L[i, j - 1] + X[i, j]",
    )
    assert found == {looked_at}


def test_an_access_in_an_earlier_statement_is_no_recurrence() -> None:
    op = operator("f", "Y: float32[8]\nX: float32[8]\nZ[i] = Y[i] + 1\nY[i] = X[i] * 2")
    assert not any("recurrence" in remark for remark in op.remarks)


@pytest.mark.parametrize("dtypes", [("int32", "int8"), ("float32", "int32"), ("float16", "float64")])
def test_the_widest_float_of_what_a_call_has_to_do(dtypes: tuple[str, str]) -> None:
    op = operator("f", f"X: {dtypes[0]}[6]\nW: {dtypes[1]}[6]\nY[i] = W[i] if X[i] > 1 else W[i]")
    work = work_of(op, op.random_inputs())
    assert work.bits == max([int(d[5:]) for d in dtypes if d.startswith("float")], default=0)
    assert work.bytes == sum(6 * np.dtype(d).itemsize for d in (*dtypes, dtypes[1]))


def test_what_is_lowered_with_checks() -> None:
    op = operator("f", "X: float32[4, 8]\nI: int32[4]\nY[i] = X[I[i], I[i]]")
    assert [str(op.plain._lowered(checked)).count("T.checked_index(") for checked in (False, True)] == [0, 2]


@pytest.mark.parametrize("last", [0, 1])
def test_the_place_of_the_best_is_either_of_the_two(last: int) -> None:
    """argmax of pairs that have the place first, or the value first; of equal values the first wins."""

    def combine(x: Any, y: Any) -> Any:
        place, value = last, 1 - last
        takes_x = tir.any(x[value] > y[value], tir.all(x[value] == y[value], x[place] < y[place]))
        return tuple(tir.Select(takes_x, a, b) for a, b in zip(x, y))

    a, k = te.placeholder((6, 5), name="A"), te.reduce_axis((0, 5), name="k")
    start = (te.const(-1, "int32"), te.min_value("float32"))
    best = te.comm_reducer(combine, lambda *dtypes: start if last == 0 else start[::-1])
    both = te.compute((6,), lambda i: best((k, a[i, k]) if last == 0 else (a[i, k], k), axis=k), name="B")
    found = chosen(both[0].op.body[0])
    assert found is not None and (found.place, found.value) == (last, 1 - last)
    assert (found.place_function, found.value_function) == ("np.argmax", "np.max")


@pytest.mark.parametrize(
    ("op", "a", "b", "too_large"),
    [
        (ast.LShift, 1, 4095, False), (ast.LShift, 1, 4096, True), (ast.LShift, 1 << 4095, -5, False), (ast.LShift, 1 << 4095, 0, False), (ast.Pow, 2, 2048, False),
        (ast.Pow, 2, 2049, True), (ast.Pow, 1 << 4095, 1, False), (ast.Pow, 1 << 4095, 0, False), (ast.Pow, 1 << 4096, 1, True), (ast.Pow, 1.5, 1 << 40, False),
        (ast.Mult, 1 << 2047, 1 << 2047, False), (ast.Mult, 1 << 2048, 1 << 2047, True), (ast.Mult, 2.0, 1 << 5000, False),
    ],
)  # fmt: skip
def test_whole_numbers_that_take_too_long(op: type[ast.operator], a: Any, b: Any, too_large: bool) -> None:
    if too_large:
        assert "too large for any data type" in str(refused(lambda: _check_giant(op(), a, b)))
    else:
        _check_giant(op(), a, b)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "int4",
        "uint128",
        "handle",
        "int32x4",
        "boolx4",
    ],
)
def test_types_that_javascript_has_numbers_for(dtype: str) -> None:
    kind = dtype_of(dtype)
    if dtype in ("int4", "uint128", "handle", "int32x4", "boolx4"):
        assert f"values of type `{kind}` have no form" in str(refused(lambda: check_type(kind, te.const(0, "int32"))))
    else:
        check_type(kind, te.const(0, "int32"))


def test_windows_are_for_reading() -> None:
    seen = windows(np.arange(12).reshape(3, 4), (1, 1), (2, 3), ((1, 0), (0, 1)))
    assert seen.tolist() == [[5, 6, 7], [9, 10, 11]] and not seen.flags.writeable


def test_a_declared_tensor_that_is_not_read_is_no_recurrence() -> None:
    op = operator("f", "Y: float32[8]\nX: float32[8]\nY[i] = X[i] * 2")
    assert op.remarks == [] and [t.name for t in op.inputs] == ["X"]


def test_large_tensors_are_built_for_other_machines() -> None:
    large = operator("large", "X: float32[65536, 65536]\nY[i, j] = X[i, j]")
    assert "large" in large.plain.build("llvm -mtriple=aarch64-linux-gnu").get_source("asm")


def test_reductions_of_nothing_in_blocks_are_those_of_the_plain_loops() -> None:
    op = operator("f", "X: float32[n]\nS[()] += X[k]")
    halves = '@T.prim_func\ndef f(X: T.Buffer((1,), "float32"), Y: T.Buffer((1,), "float32")):\n    Y[0] = X[0]'
    function = Operator.from_prim_func("g", from_source(halves))
    te_version, tir_version = schedule(op, "s[S].unroll(s[S].op.reduce_axis[0])"), schedule(op, "sch.get_loops('S')")
    empty, full = [np.zeros(0), np.zeros(3)], [np.zeros(1), np.zeros(3)]
    for version, apart in ((op.plain, False), (te_version, False), (tir_version, True), (function.plain, False)):
        assert version._reduces_nothing(empty) == apart and not version._reduces_nothing(full)


def test_quick_calls_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    op = operator("f", "X: float32[4]\nY[i] = X[i] + 1")
    for _ in range(2):
        op.plain(np.zeros(4, "float32"))
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------------------- the notation


def test_the_types_and_functions_of_the_notation() -> None:
    integers = {f"{kind}{bits}" for kind, bits in itertools.product(("int", "uint"), (8, 16, 32, 64))}
    assert DTYPES == integers | {"float16", "float32", "float64", "bfloat16", "bool"}
    two = "maximum minimum pow atan2 hypot copysign floordiv floormod truncdiv truncmod".split()
    three = "clip fma where select".split()
    counts = {name: (least, most) for name, (_, least, most) in FUNCTIONS.items()}
    assert {name: c for name, c in counts.items() if c != (1, 1)} == {
        **dict.fromkeys(two, (2, 2)), **dict.fromkeys(three, (3, 3)), "max": (2, 99), "min": (2, 99)
    }  # fmt: skip
    assert not BY_OTHERS.keys() & FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("power", "text"),
    [
        ("0", "pow"),
        ("1", "X[i]"),
        ("2", "X[i] * X[i]"),
        ("3", "X[i] * X[i] * X[i]"),
        ("4", "X[i] * X[i] * X[i] * X[i]"),
        ("5", "pow"),
        ("-1", "pow"),
    ],
)
def test_small_powers_are_products(power: str, text: str) -> None:
    body = str(operator("f", f"X: float32[4]\nY[i] = X[i] ** {power}").outputs[0].op.body[0])
    assert (
        text in body
        and ("pow" in body) == (text == "pow")
        and body.count("X[i]") == (int(power) if text != "pow" else body.count("X[i]"))
    )


@pytest.mark.parametrize(
    ("size", "message"),
    [("1", ""), ("0", "at least 1, not 0"), ("-1", "at least 1, not -1"), ("2 ** 63 - 1", ""), ("2 ** 63", "at most 2**63 - 1"), ("(2 ** 63 - 1) ** 1", ""), (f"{2**63} ** 0", "is not a size"),
     ("1 << 62", ""), ("1 << 63", "at most 2**63 - 1"), ("1 << 64", "is not a size"), ("2 ** -1", "is not a size"),
     (f"1 + 0 * {1 << 4095}", ""), (f"1 + 0 * {1 << 4096}", "too many digits"), ("7 // 0", "zero"), ("7 // 2", ""), ("n * 2 + 1", ""), ("2 ** n", "is not a size"), ("True", "is not a size")],
)  # fmt: skip
def test_sizes_of_a_cell(size: str, message: str) -> None:
    def declare() -> Any:
        return operator("f", f"N: float32[n]\nX: float32[{size}]\nY[i] = X[0] + N[i]")

    assert message in str(refused(declare)) if message else declare()


@pytest.mark.parametrize(
    ("number", "refused_from"),
    [("(1 << 4000) * (1 << {} - 1)", 96), ("1 * (1 << {} - 1)", 4096), ("(1 << {} - 1) * (1 << 99)", 3997), ("(1 << 4000) + (1 << {} - 1)", 96),
     ("3 << {}", 4095), ("1 << {}", 4096), ("8 ** {}", 1025), ("1 ** {}", 4097)],
)  # fmt: skip
def test_whole_numbers_of_more_than_4096_bits_are_refused(number: str, refused_from: int) -> None:
    """By the bits that a result of numbers so long may have, before it is computed."""

    def declare(n: int) -> Any:
        return operator("f", f"X: int32[4]\nY[i] = X[i] + (({number.format(n)}) & 0)")

    assert declare(refused_from - 1)
    assert "too large for any data type" in str(refused(lambda: declare(refused_from)))


@pytest.mark.parametrize(
    ("text", "message"),
    [("range(4)", ""), ("range(1, 4)", ""), ("range(4, 4)", "from 4 to 4 is empty"), ("range(0)", "from 0 to 0 is empty"),
     ("range(5, 4)", "from 5 to 4 is empty"), ("range()", "`range(extent)` or `range(begin, end)`"),
     ("range(0, 4, 1)", "`range(extent)` or `range(begin, end)`")],
)  # fmt: skip
def test_ranges_of_a_cell(text: str, message: str) -> None:
    def declare() -> Any:
        return operator("f", f"X: float32[4]\nY[()] = sum(X[k] for k in {text})")

    assert message in str(refused(declare)) if message else declare()


def test_results_of_calls() -> None:
    one, two = operator("f", "X: float32[4]\nY[i] = X[i]"), operator("g", "X: float32[4]\nY[i] = X[i]\nZ[i] = X[i] * 2")
    x = np.arange(4, dtype="float32")
    assert isinstance(one(x), np.ndarray) and isinstance(two(x), tuple) and len(two(x)) == 2
    given = np.empty(4, "float32")
    assert one(x, out=given) is given and given.tolist() == x.tolist()
    assert one(X=x).tolist() == x.tolist()
    version = schedule(one, "s[Y].unroll(Y.op.axis[0])")
    assert version(x).tolist() == x.tolist() and version.modules and one.usual_size == 256


# ---------------------------------------------------------------------------- functions that write a part

WRITTEN = [
    ("for i in range(8):\n    B[i] = A[i]", ""),
    ("for i in range(7):\n    B[i] = A[i]", "7"),
    ("for i in range(1, 8):\n    B[i] = A[i]", "0"),
    ("for i in range(4):\n    B[i * 2] = A[i]", "1 3 5 7"),
    ("for i, j in T.grid(4, 2):\n    B[i * 2 + j] = A[i]", ""),
    ("for i, j in T.grid(4, 2):\n    B[7 - i * 2 - j] = A[i]", "?"),
    ("for i in range(8):\n    if i < 5:\n        B[i] = A[i]", "5 6 7"),
    ("for i in range(8):\n    if i >= 0:\n        B[i] = A[i]", ""),
    ("for i in range(16):\n    if i < 8:\n        B[i] = A[i]", ""),
    ("for i in range(8):\n    if A[i] > 100.0:\n        B[i] = A[i]", "0 1 2 3 4 5 6 7"),
    ("for i in range(8):\n    if A[i] > 100.0:\n        B[i] = A[i]\n    else:\n        B[i] = 2.0", "?"),
    ("for i in range(8):\n    with T.block('B'):\n        v = T.axis.spatial(8, i)\n        B[v] = A[v]", ""),
    ("for i in range(8):\n    with T.block('B'):\n        v = T.axis.spatial(8, i)\n        T.where(i < 6)\n        B[v] = A[v]", "6 7"),
    ("for i in range(4):\n    with T.block('B'):\n        v = T.axis.spatial(8, i + 2)\n        B[v] = A[v]", "0 1 6 7"),
    ("for i, k in T.grid(8, 3):\n    with T.block('B'):\n        v, w = T.axis.remap('SR', [i, k])\n        with T.init():\n            B[v] = 0.0\n        B[v] = B[v] + A[v]", ""),
    ("for i in range(8):\n    for j in range(i, 8):\n        B[j] = A[j]", "?"),
    ("for i in range(8):\n    j = T.int32()\n    with T.LetStmt(7 - i, var=j):\n        B[j] = A[i]", ""),
    ("B[3] = A[3]", "0 1 2 4 5 6 7"),
    ("for i in range(8):\n    for k in range(0):\n        B[i] = A[i]", "0 1 2 3 4 5 6 7"),
    ("for i in T.thread_binding(8, thread='threadIdx.x'):\n    B[i] = A[i]", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "left"), WRITTEN, ids=[str(n) for n in range(len(WRITTEN))])
def test_what_a_function_leaves_without_a_value_is_zero(body: str, left: str) -> None:
    """`?`: all is written, but not by a store that is proved to reach all."""
    text = "@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    " + body.replace("\n", "\n    ")
    op = operator("f", text)
    assert op.left_unwritten == (bool(left),)
    (start,) = op.fresh_outputs([np.ones(8, "float32")])
    assert not left or not start.any()
    if "thread" not in body:
        found = op(np.full(8, 9, "float32"))
        unwritten = {int(n) for n in left.split()} if left != "?" else set()
        assert {n for n in range(8) if found[n] == 0} == unwritten


def test_how_deeply_expressions_nest() -> None:
    """The element is an expression in 999 others at most, its tensor and its index in one more."""

    def negated(count: int, operand: str = "X[i]") -> None:
        source = Source("deep", f"Y[i] = {'-' * count}{operand}")
        _check_nesting(source.parse(), source)

    negated(998)
    assert "nest more than 1000 deep" in str(refused(lambda: negated(999)))
    assert "nest more than 1000 deep" in str(refused(lambda: operator("f", f"X: float32[4]\nY[i] = {'-' * 999}X[i]")))
    negated(10, " + ".join(["X[i]"] * 3000))  # terms are side by side
    negated(998, "X[i] * X[i]")
    assert "nest more" in str(refused(lambda: negated(997, "(X[i] * (X[i] + X[i]))")))


# ---------------------------------------------------------------------------- operators and their versions


def test_versions_by_their_names() -> None:
    op = operator("f", "X: float32[4]\nY[i] = X[i]")
    assert op.version() is op.current is op.plain is op.version("plain")
    first = schedule(op, "s[Y].unroll(Y.op.axis[0])", "first")
    assert op.version("first") is first and op.version("plain") is op.plain and op.version() is op.current
    error = refused(lambda: op.version("second"))
    assert str(error).startswith("`f` has no version `second`") and error.hint == "there are `plain`, `first`"
    named = schedule(op, "s[Y].vectorize(Y.op.axis[0])", "plain")
    assert op.version("plain") is named is not op.plain


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ("A B", True),
        ("A self_", True),
        ("A for", False),
        ("A out", False),
        ("A A", False),
        ("A b.c", False),
        ("A None", False),
    ],
)
def test_inputs_are_parameters_if_they_have_names_for_it(names: str, named: bool) -> None:
    inputs = [te.placeholder((4,), "float32", name=name) for name in names.split()]
    total = te.compute((4,), lambda i: inputs[0][i] + inputs[1][i], name="S")
    op = Operator("f", inputs, [total])
    parameters = list(inspect.signature(op).parameters)
    assert parameters == [*names.split(), "out"] if named else parameters == ["arrays", "out", "named"]
    first, second = names.split()
    assert op.signature == f"f({first}: float32[4], {second}: float32[4]) -> S: float32[4]"
    assert op.call_text == f"f({first}, {second})" and repr(op) == f"<Operator {op.signature}>"


@pytest.mark.parametrize(
    ("size", "factor", "wraps"),
    [
        (2, (1 << 31) - 1, False),
        (3, 1 << 30, True),
        (3, -(1 << 30), False),
        (4, -(1 << 30), True),
        (2, -(1 << 30) * 2 + 1, False),
    ],
)
def test_index_arithmetic_at_the_ends_of_its_type(size: int, factor: int, wraps: bool) -> None:
    op = operator("f", f"A: int32[{size}]\nC[i] = A[i] + i * ({factor})")
    said = wrapping_indices(op, {})
    assert bool(said) == wraps and all("wraps around in int32" in text and "write it in int64" in text for text in said)


def test_index_arithmetic_of_sizes_that_are_not_known() -> None:
    """Nothing is said while a size may be anything; with its value it is as of any other number."""
    for index in ("j - n", "j + n", "n - j", "j * n", "j - n - 1", "(j - n) * 2", "-n - j"):
        op = operator("f", f"X: int32[n, 4]\nY[j] = X[0, j] + ({index})")
        (size,) = op.symbols
        assert wrapping_indices(op, {}) == () and wrapping_indices(op, {size: 1 << 20}) == ()
        last = (1 << 31) - 1
        assert bool(wrapping_indices(op, {size: last})) == (index in ("j + n", "j * n", "(j - n) * 2", "-n - j"))


def test_operations_of_te_have_the_place_of_their_statement() -> None:
    text = "A = te.placeholder((4,), name='A')\nB, C = te.compute((4,), lambda i: A[i], name='B'), 3\nD = te.compute((4,), lambda i: B[i] * C, name='D')"
    op = operator("f", text)
    assert [(t.op.name, t.op.span.line) for t in op.tensors.values()] == [("A", 2), ("B", 3), ("D", 4)]
    kept = op.tensors["A"].op.span
    assert (
        operator("g", "B = te.compute((4,), lambda i: A[i], name='B')", {"A": op.tensors["A"]}).inputs[0].op.span
        is kept
    )


@pytest.mark.parametrize(
    ("power", "text"),
    [
        ("2 ** X[i]", "T.pow(T.float32(2.0), X[i])"),
        ("X[i] + 2 ** 10", "X[i] + T.float32(1024.0)"),
        ("2 ** -1 * X[i]", "T.float32(0.5) * X[i]"),
        ("X[i] ** X[0]", "T.pow(X[i], X[0])"),
        ("X[i] ** 2.0", "T.pow(X[i], T.float32(2.0))"),
        ("2.0 ** 0.5 + X[i]", "T.float32(1.4142135623730951) + X[i]"),
        ("i ** 3 + X[i]", 'T.Cast("float32", i * i * i) + X[i]'),
    ],
)
def test_powers_of_numbers_and_of_elements(power: str, text: str) -> None:
    assert str(operator("f", f"X: float32[4]\nY[i] = {power}").outputs[0].op.body[0]) == text


def test_passes_of_llvm_go_from_program_to_program() -> None:
    """Each begins with what the one before left, and is changed if it leaves another."""
    op = operator("f", "X: float32[64]\nY[i] = X[i] * 2 + 1")
    for which in ("all", "loops"):
        steps = [s for s in op.passes(llvm=which) if s.name.startswith("llvm.")]
        for one, following in zip(steps, steps[1:]):
            assert one.after is following.before and one.changed == (one.after is not one.before)
        assert steps
    record = Record()
    with recording(record=record):
        _add_llvm_steps(record, IRModule({}), SimpleNamespace(emitted=lambda: "text", passes=lambda: None), True)
    assert [s.name for s in record] == ["codegen.emit"]
    assert [n.text for n in record.steps[-1].notes] == [
        "LLVM's passes are not shown: the process that runs them one by one failed"
    ]


@pytest.mark.parametrize(
    ("first", "second", "inputs", "outputs"),
    [(1, 2, "A", "B"), (1, 3, "A B", "B"), (3, 3, "A B", "A B"), (2, 2, "", "A B"), (1, 1, "", "")],
)
def test_pointers_say_what_is_written(first: int, second: int, inputs: str, outputs: str) -> None:
    pointers = ", ".join(
        f"T.tvm_access_ptr(T.type_annotation('float32'), {name}.data, 0, 8, {mask})"
        for name, mask in (("A", first), ("B", second))
    )
    text = f"@T.prim_func\ndef f(A: T.Buffer((8,)), B: T.Buffer((8,))):\n    T.evaluate(T.call_extern('int32', 'g', {pointers}))"
    if not outputs:
        assert "writes none of its buffers" in str(refused(lambda: operator("f", text)))
        return
    op = operator("f", text)
    assert " ".join(t.name for t in op.outputs) == outputs
    assert " ".join(t.name for t in op.inputs) == inputs


# ---------------------------------------------------------------------------- what is seldom there


def test_how_long_a_thread_has_waited_is_in_nanoseconds() -> None:
    counts = pathlib.Path("/proc/thread-self/schedstat")
    if not counts.exists():
        pytest.skip("this system does not count how long threads wait")
    before = int(counts.read_text().split()[1])
    found = _waits()[str(threading.get_native_id())]
    assert before <= found <= int(counts.read_text().split()[1])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("int8 float32", "write it as `float32[...]`, with the sizes in brackets"),
        ("uint8 or int8", "write it as `int8[...]`, with the sizes in brackets"),
        ("complex64", "keep the real and the imaginary parts in two tensors of float32"),
        ("fp16", "did you mean `float16`?"),
        ("flaot32", "did you mean `float32`?"),
        ("nothing", "write a name such as float32, int8 or bool"),
    ],
)
def test_which_data_type_may_be_meant(text: str, hint: str) -> None:
    assert dtype_hint(text) == hint


@pytest.mark.parametrize(
    ("place", "span"),
    [
        ((3, 4, "text", 5, 6), (3, 4, 5, 6)),
        ((3, 4, "text", None, None), (3, 4, 3, 5)),
        ((None, None, None, None, None), (1, 1, 1, 2)),
    ],
)
def test_where_a_syntax_error_is(place: Any, span: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source("cell", "a\nb\nc\nd\ne")

    def fail(self: Source) -> None:
        raise SyntaxError("something", ("cell", *place))

    monkeypatch.setattr(Source, "parse", fail)
    assert refused(lambda: parse(source)).span == Span("cell", *span)


def test_a_null_byte_is_refused_in_its_line() -> None:
    error = refused(lambda: parse(Source("cell", "a\nb\0\nc\0")))
    assert error.span == Span("cell", 2, 1) and "null bytes" in error.message


def test_without_llvm_the_steps_of_code_are_those_of_opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator("f", "A: float32[4]\nB[i] = A[i] + 1")
    for has in (True, False):
        monkeypatch.setattr("tvmagic.codegen.has_llvm", lambda has=has: has)
        kinds = [[s.name for s in op.passes(target=target) if s.kind == "codegen"] for target in ("opencl", "llvm")]
        assert kinds == [["codegen.opencl"], ["codegen.llvm", "codegen.assembly"] if has else []]


def test_values_in_the_names_of_steps_have_a_few_letters() -> None:
    values = ("x" * 22, "x" * 23, [1, 2], te.placeholder((4,), name="A"))
    assert [_value_text(v) for v in values] == [repr("x" * 22), "'" + "x" * 22 + "\u2026", "[1, 2]", "A"]
