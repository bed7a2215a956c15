"""Ways through operators that few cells take: peaks, verdicts, unfinished cells, rare expressions and mistakes."""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tvmagic import te, tir
from tvmagic.arith import Analyzer
from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.eval.lanes import OutOfRange
from tvmagic.eval.machine import Unsupported
from tvmagic.ir import (
    BufferStore,
    DataType,
    For,
    IntImm,
    IRModule,
    ProducerRealize,
    ProducerStore,
    Span,
    structural_equal,
)
from tvmagic.ir.query import nodes_of
from tvmagic.notation.source import Source
from tvmagic.operators import Operator, error_interpreter, measure, operator, peaks
from tvmagic.operators.access import trace_accesses, trace_all
from tvmagic.operators.access_bounds import _elements
from tvmagic.operators.analysis import read_before_written, written_buffers
from tvmagic.operators.comparison import _with_tolerance, compare
from tvmagic.operators.editing import edit, editable, program_text, step_number, unedited
from tvmagic.operators.error_interpreter import run_with_errors
from tvmagic.operators.examples import example_lines
from tvmagic.operators.javascript import javascript
from tvmagic.operators.javascript.expressions import ExpressionWriter
from tvmagic.operators.numpy_code import numpy_code
from tvmagic.operators.numpy_stages import running_values, scan_parts
from tvmagic.operators.operator import as_operator
from tvmagic.operators.peaks import Peaks, kept_peaks, measured_peaks
from tvmagic.operators.quiet import shared
from tvmagic.operators.races import _marks, hint_of, loops_of, place_of, races_of
from tvmagic.operators.running import run_python
from tvmagic.operators.scheduling import blame, program_of_schedule, schedule, schedule_from_cell
from tvmagic.operators.unfinished import _is_harmless, complete_statements, evaluated, schedule_names, tensor_names
from tvmagic.operators.unwritten import left_unwritten
from tvmagic.operators.verify import EQUAL, verify
from tvmagic.passes import Record, Step
from tvmagic.script import from_source
from tvmagic.target import resolved
from tvmagic.te.error_bound import parts
from tvmagic.te.error_functions import units_of
from tvmagic.tir.analysis.races import find_races

DENSE = "X: float32[8, 6]\nW: float32[4, 6]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = max(Y[i, j], 0)"


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


def function(text: str, parameters: str = 'X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")') -> Any:
    """A function of TensorIR with the given statements."""
    body = "\n".join(f"    {line}" for line in text.split("\n"))
    return from_source(f"@T.prim_func\ndef f({parameters}):\n{body}")


# ---------------------------------------------------------------------------- peaks


def test_peaks_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path / "a" / "b"))
    flops = iter((1e11, 2e11, 3e11))
    monkeypatch.setattr(peaks, "peak_flops", lambda target: next(flops))
    monkeypatch.setattr(peaks, "copy_bandwidth", lambda: 2e10)
    target = "llvm -mcpu=haswell"
    assert kept_peaks(target) is None
    assert measured_peaks(target) == Peaks(1e11, 2e10) == measured_peaks(target) == kept_peaks(target)
    assert measured_peaks(target, again=True) == Peaks(2e11, 2e10) == kept_peaks(target)
    assert kept_peaks("llvm -mcpu=skylake-avx512") is None  # of wider vectors
    path = tmp_path / "a" / "b" / "machine.json"
    kept = json.loads(path.read_text())
    key = next(key for key in kept if "bits" in key)
    assert key == f"{resolved('llvm').machine.name}, 256 bits, 16 registers" and [
        p.name for p in path.parent.iterdir()
    ] == [path.name]
    for wrong in ("{", "[1]", "3", json.dumps({key: 3}), json.dumps({key: [1.0]}), json.dumps({key: [1.0, 2.0, 3.0]})):
        path.write_text(wrong)
        assert kept_peaks(target) is None
    for values in ([0, 1.0], [1.0, 0], [-1.0, 1.0], ["1", 2.0], [None, 1.0]):
        path.write_text(json.dumps({key: values, "other": [1, 2]}))
        assert kept_peaks(target) is None and peaks._read(path) == {"other": [1.0, 2.0]}
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("no folder")
    assert measured_peaks(target) == Peaks(3e11, 2e10) and kept_peaks(target) is None


def test_the_best_of_some_measurements_is_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of their own: measurements take 1, 0.5 and 2 seconds."""
    moments = itertools.accumulate(itertools.cycle((1.0, 0.0, 0.5, 0.0, 2.0, 0.0)), initial=0.0)
    monkeypatch.setattr(peaks, "time", SimpleNamespace(perf_counter=lambda: next(moments)))
    assert peaks.copy_bandwidth(1, 3) == 2 * (1 << 20) / 0.5
    moments = itertools.accumulate(itertools.cycle((1.0, 0.0, 0.5, 0.0, 2.0, 0.0)), initial=0.0)
    monkeypatch.setattr(peaks, "_ROUNDS", 7)
    machine = resolved("llvm").for_this_machine().machine
    lanes, count = machine.lanes("float32"), min(24, machine.vector_registers - 4)
    assert peaks.peak_flops(3) == 2 * lanes * count * 7 / 0.5
    text = peaks._fma_text(8, 5)
    assert text.count("@llvm.fmuladd.v8f32(") == 6 and text.count("phi <8 x float>") == 5 and text.count("fadd") == 4
    assert "%s1 = fadd <8 x float> %b0, %b1" in text and "store <8 x float> %s4" in text


# ---------------------------------------------------------------------------- verdicts


def test_the_first_wrong_step_is_told_from_later_ones() -> None:
    op = operator("dense", "X: float32[4]\nY[i] = X[i] + 1")
    record = op.passes(schedule(op, "s[Y].unroll(s[Y].op.axis[0])"), code=False)
    record.steps[:] = record.steps[-4:]
    right = verify(record, op)
    assert [(v.ok, v.text) for v in right] == [(True, EQUAL)] * 4
    last = record.steps[-1].after
    (func,) = last.functions.values()
    empty = IRModule({"dense": func.with_body(tir.Evaluate(0))})
    for step in record.steps[-2:]:
        step.after = empty
    wrong = verify(record, op)
    assert [v.ok for v in wrong[-2:]] == [False, False] and wrong[:-2] == right[:-2]
    assert wrong[-2].text == f"first to differ from NumPy: {wrong[-1].text}"
    record.steps[-1].kind = "codegen"
    record.steps[-2].after = None
    assert [(v.ok, v.text) for v in verify(record, op)[-2:]] == [(None, ""), (None, "")]
    record.steps[-2].after = record.steps[-1].after = 3
    record.steps[-1].kind = "pass"
    assert verify(record, op)[-1].text == "not run: a int cannot be run"
    record.steps[-1].after = "text"
    assert verify(record, op)[-1].text == ""
    record.steps[-1].after = IRModule({"a": func, "b": func})
    assert verify(record, op)[-1].text == "not run: the module has several functions"
    record.steps[-1].after = IRModule({"a": func.with_body(tir.Evaluate(tir.call_extern("int32", "unheard", 1)))})
    assert verify(record, op)[-1].ok is None


@pytest.mark.parametrize(("dtype", "ok"), [("int32", True), ("float32", False)])
def test_what_a_program_leaves_is_no_number_before_it_runs(dtype: str, ok: bool) -> None:
    """But 0 for integers. An error of the program is its verdict."""
    op = operator("f", f"X: {dtype}[4]\nY[i] = X[i] * 0")
    record = op.passes(code=False)
    del record.steps[:-1]
    (func,) = record.steps[0].after.functions.values()
    record.steps[0].after = IRModule({"f": func.with_body(tir.Evaluate(0))})
    assert verify(record, op)[0].ok == ok
    (store,) = nodes_of(func.body, BufferStore)
    record.steps[0].after = IRModule(
        {"f": func.with_body(BufferStore(store.buffer, IntImm("int32", 0).astype(dtype), [4]))}
    )
    outside = verify(record, op)[0]
    assert outside.ok is False and "first to differ from NumPy: " in outside.text and "outside" in outside.text


# ---------------------------------------------------------------------------- unfinished cells


def test_statements_that_are_finished() -> None:
    texts = {
        "a = 1\nb = (\nc = 2": ["a = 1", "c = 2"],
        "a = 1\nb = (": ["a = 1"],
        "for i in x:\n": [],
        "a = 1\nfor i in x:\n    \n\n": ["a = 1"],
        "a = 1\nfor i in x:\n\n": ["a = 1"],
        "if a:\n    b = 1\nc = ": ["if a:\n    b = 1"],
        "": [],
        "a = '\nb = 2": ["b = 2"],
        ")\n)\n)": [],
        "a = 1\x00": [],
    }
    for text, wanted in texts.items():
        assert [ast.unparse(s) for s in complete_statements(text)] == wanted, text


def test_which_statements_are_tried() -> None:
    op = operator("dense", DENSE)
    scope = schedule_names(op, "", {})
    calls = {"split", "unroll", "axis"}
    harmless = [
        "a, b = s[Y].split(s[Y].op.axis[0], 8)", "s[Y].unroll(a)", "x = 3", "x = [1, 2][0]", "f = lambda i: i + 1",
        "x = 2 * 3", "x = te.thread_axis('threadIdx.x')", "for i in range(3): s[Y].unroll(s[Y].op.axis[0])", "pass",
        "x = f'{1}'", "x = 65536", "x = a if b else c", "s[Y].op.axis", "x = min(1, 2)",
    ]  # fmt: skip
    harmful = [
        "x.y = 3", "x[0] = 3", "x = s._stages", "x = 65537", "x = -65537 + 1", "x = 2 ** 3", "x = 1 << 3", "x = 'a' * 3",
        "x = y * 3", "open('f')", "x = other.split(1)", "import os", "while True: pass", "del x", "x += 1", "s[Y].pop()",
        "te.placeholder((3,))", "np.thread_axis(1)", "(lambda: 1)()", "[i for i in x]", "x = len.__class__", "s[Y]()",
        "x = 3 * 'a'", "def f(): pass", "assert x", "s.stages.unroll.append(3)",
    ]  # fmt: skip
    for text in harmless:
        assert _is_harmless(ast.parse(text).body[0], calls, scope), text
    for text in harmful:
        assert not _is_harmless(ast.parse(text).body[0], calls, scope), text
    assert not _is_harmless(ast.parse("min(1, 2)").body[0], calls, {**scope, "min": max})


def test_values_of_unfinished_expressions() -> None:
    op = operator("dense", DENSE)
    names = schedule_names(op, "a, b = s[Y].split(s[Y].op.axis[0], 4)\nc = a.nothing\nd = b", {"e": 5, "_f": 6})
    assert names["a"].var.name == "i.outer" and names["d"] is names["b"] and "c" not in names and "e" not in names
    assert evaluated(" s[Z].op.axis[1] ", names).var.name == "j" and evaluated("s[Y].split(1)", names) is None
    assert evaluated("min(3, 2)", names) == 2 and evaluated("1 / 0", names) is None and evaluated("s[", names) is None
    assert {"sch", "s", "X", "Y", "Z"} <= names.keys() and "ir_sch" not in names
    assert "ir_sch" in schedule_names(op, "ir_sch", {}) and names["s"] is not schedule_names(op, "", {})["s"]
    assert type(schedule_names(op, "sch", {})["Y"]).__name__ == "BlockRV"
    copied = schedule_names(op, "e = e", {"e": 5})
    assert copied["e"] == 5


def test_names_of_an_unfinished_cell() -> None:
    text = "X: float32[n, 8]\n  Y[i, j] = X[i, k] + exp(Z[j]) # W[q]\nB[float32, f(p)] ="
    found = {name: line for name, line in tensor_names(text).items() if isinstance(line, str)}
    second = "Y[i, j] = X[i, k] + exp(Z[j]) # W[q]"
    assert found == {
        "X": "X: float32[n, 8]", "n": "X: float32[n, 8]", "Y": second, "Z": second, "i": second, "j": second, "k": second,
        "B": "B[float32, f(p)] =", "p": "B[float32, f(p)] =",
    }  # fmt: skip


# ---------------------------------------------------------------------------- editing


def test_an_edit_is_compared_with_the_step_that_it_changes() -> None:
    op = operator("dense", DENSE)
    version = schedule(op, "s[Z].unroll(s[Z].op.axis[1])")
    record = op.passes(version, code=False)
    number = step_number(record, "UnrollLoop")
    text = program_text(record, number)
    made = edit(version, number + 1, text.replace("T.max(", "T.min(", 1))
    before = unedited(made)
    assert before.operator is op and before.name == version.name
    again = op.passes(before, code=False)
    assert [step.name for step in again] == [step.name for step in record]
    assert structural_equal(again.steps[-1].after, record.steps[-1].after)
    arrays = op.random_inputs(0)
    assert np.array_equal(before(*arrays), version(*arrays)) and not np.array_equal(made(*arrays), version(*arrays))
    source = Source("edited cell", "%%edit dense\n" + text.replace("T.max(", "T.mox(", 1))
    error = refused(lambda: edit(version, number + 1, text.replace("T.max(", "T.mox(", 1), source=source))
    line = next(n for n, t in enumerate(text.split("\n"), 1) if "T.max(" in t)
    assert isinstance(error, DiagnosticError) and error.span is not None
    assert (error.span.source, error.span.line, error.span.end_line) == ("edited cell", line + 1, line + 1)


# ---------------------------------------------------------------------------- functions with errors


@pytest.mark.parametrize("tag", ["", "threadIdx.x"])
def test_choices_and_negations_in_functions_follow_rounding(tag: str) -> None:
    loop = f'for i in T.thread_binding(8, thread="{tag}"):' if tag else "for i in range(8):"
    body = f"""{loop}
    third: T.float32 = X[i] / T.float32(3)
    Y[i] = T.if_then_else(not third > T.float32(0.2), third * third, T.exp(X[i])) + T.Select(X[i] > T.float32(0), third, X[i])"""
    op = Operator.from_prim_func("f", function(body))
    x = np.linspace(-1, 2, 8).astype("float32")
    value, error = parts(run_with_errors(op, [x]).values[0])
    wide = x.astype("float64")
    expected = np.where(wide / 3 <= 0.2, (wide / 3) ** 2, np.exp(wide)) + np.where(wide > 0, wide / 3, wide)
    assert np.allclose(value, expected, rtol=1e-12) and error is not None
    assert (np.abs(op.plain(x) - expected) <= error).all() and (error < 1e-5).all()
    assert op.check().ok


@pytest.mark.parametrize(
    ("condition", "is_open"),
    [
        ("third > c and X[i] > T.float32(0)", True), ("third > c and X[i] < T.float32(0)", False), ("X[i] > T.float32(0) and third > c", True),
        ("X[i] < T.float32(0) and third > c", False), ("third > c or X[i] < T.float32(0)", True), ("third > c or X[i] > T.float32(0)", False),
        ("X[i] > T.float32(0) or third > c", False), ("X[i] < T.float32(0) or third > c", True),
    ],
)  # fmt: skip
def test_conditions_that_rounding_leaves_open(condition: str, is_open: bool) -> None:
    """The other operand is looked at where the first leaves open what holds; both sides of a choice are then possible."""
    third = float(np.float32(1) / np.float32(3))
    body = f"""for i in range(8):
    third: T.float32 = X[i] / T.float32(3)
    c: T.float32 = T.float32({third!r})
    Y[i] = T.if_then_else({condition}, T.float32(64), T.float32(-64))"""
    op = Operator.from_prim_func("f", function(body))
    x = np.array([1, 1, 2, 4, 1, 0.5, 0.25, 1], "float32")
    value, error = parts(run_with_errors(op, [x]).values[0])
    holds = {"third": x.astype("float64") / 3 > third, "more": x > 0, "less": x < 0}
    first, word, second = re.fullmatch(r"(.*) (and|or) (.*)", condition).groups()  # type: ignore[union-attr]
    a, b = (holds["third" if "third" in side else "more" if ">" in side else "less"] for side in (first, second))
    expected = np.where(a & b if word == "and" else a | b, 64, -64)
    wide = np.zeros(8) if error is None else np.broadcast_to(error, 8)
    assert (np.abs(value - expected) <= wide).all()
    assert ((wide >= 128) == ((x == 1) & is_open)).all() and (wide[x != 1] == 0).all()


@pytest.mark.parametrize(
    ("value", "x", "plain", "open_at"),
    [
        ("T.if_then_else(third > c and X[i + 1] > T.float32(2), 64, -64)", [0.5, 1, 4, 0.25, 1, 0.25, 4, 0.25], [-64, None, -64, -64, -64, -64, -64, -64], {1: 128}),
        ("T.if_then_else(third > c or X[i + 1] > T.float32(2), 64, -64)", [4, 1, 0.5, 4, 1, 4, 0.25, 4], [64, None, 64, 64, 64, 64, 64, 64], {1: 128}),
        ("T.if_then_else(third > c, X[i + 1], X[i - 1])", [4, 1, 2, 0.25, 4, 1, 8, 0.25], [1, None, 0.25, 2, 1, None, 0.25, 8], {1: 2, 5: 4}),
        ("T.if_then_else(X[1] > T.float32(2), X[i - 1 + i // 9], X[(i + 1) % 8])", [4, 1, 2, 3, 5, 6, 8, 7], [1, 2, 3, 5, 6, 8, 7, 4], {}),
    ],
)  # fmt: skip
def test_what_does_not_run_is_not_read(
    value: str, x: list[float], plain: list[float | None], open_at: dict[int, float]
) -> None:
    """Neither outside the array in the lanes that are off, nor elsewhere in those that rounding leaves open."""
    third = float(np.float32(1) / np.float32(3))
    words = re.sub(r"\b-?64\b", lambda m: f"T.float32({m[0]})", value)
    body = f"""for i in range(8):
    third: T.float32 = X[i] / T.float32(3)
    c: T.float32 = T.float32({third!r})
    Y[i] = {words.replace("-T.float32(64)", "T.float32(-64)")}"""
    found, error = parts(
        run_with_errors(Operator.from_prim_func("f", function(body)), [np.array(x, "float32")]).values[0]
    )
    wide = np.zeros(8) if error is None else np.broadcast_to(error, 8)
    for i, expected in enumerate(plain):
        assert wide[i] == open_at.get(i, 0) and expected in (None, found[i]), i


@pytest.mark.parametrize(
    "value",
    [
        "T.if_then_else(third > c, X[i + 1], X[i])", "T.if_then_else(third > c, X[i], X[i + 1])",
        "T.if_then_else(third > c and X[i + 1] > c, c, third)", "T.if_then_else(third > c or X[i + 1] > c, c, third)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("last", [0.25, 1, 4])
def test_what_may_run_is_read(value: str, last: float) -> None:
    """Outside the array it is an error, also in a lane of which rounding leaves open whether it does."""
    third = float(np.float32(1) / np.float32(3))
    body = f"""for i in range(8):
    third: T.float32 = X[i] / T.float32(3)
    c: T.float32 = T.float32({third!r})
    Y[i] = {value}"""
    op, x = Operator.from_prim_func("f", function(body)), np.array([*[0.5] * 7, last], "float32")
    takes_first = " and " in value or ("X[i + 1], X[i])" in value)
    if last == (0.25 if takes_first else 4):
        run_with_errors(op, [x])
        return
    with pytest.raises(OutOfRange):
        run_with_errors(op, [x])


def test_memory_that_is_interpreted_with_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """for i in range(8):
    B = T.decl_buffer((5, 2), "float32")
    B[0, 1] = X[i]
    Y[i] = B[0, 1]"""
    op, x = Operator.from_prim_func("f", function(body)), np.arange(8, dtype="float32")
    for most, fits in ((80, True), (79, False)):
        monkeypatch.setattr(error_interpreter, "MOST_CELLS", most)
        if fits:
            assert np.array_equal(parts(run_with_errors(op, [x]).values[0])[0], x)
            continue
        with pytest.raises(Unsupported, match="`B` needs too much memory to be interpreted with errors"):
            run_with_errors(op, [x])


def test_bits_of_floats_in_functions() -> None:
    body = 'for i in range(8):\n    Y[i] = T.reinterpret("float32", T.reinterpret("int32", X[i]) + 8388608)'
    op = Operator.from_prim_func("f", function(body))
    x = np.linspace(1, 2, 8).astype("float32")
    assert np.array_equal(parts(run_with_errors(op, [x]).values[0])[0], x * 2) and np.array_equal(op(x), x * 2)


# ---------------------------------------------------------------------------- races and schedules


def test_the_call_after_which_iterations_race_is_the_place() -> None:
    op = operator("dense", DENSE)
    cell = "b = sch.get_block('Y')\ni, j, k = sch.get_loops(b)\nsch.unroll(j)\nsch.parallel(k)\nsch.unroll(i)"
    error = refused(lambda: schedule(op, cell))
    assert error.span is not None and (error.span.line, error.span.source) == (5, "schedule dense")
    columns = operator("columns", "X: float32[64, 8]\nY[j] += X[i, j]")
    refused(lambda: schedule(columns, "s[Y].unroll(s[Y].op.axis[0])\ns[Y].parallel(s[Y].op.reduce_axis[0])"))
    assert columns.attempt is not None
    (race,) = races_of(columns.attempt)
    place = place_of(race, columns.attempt)
    assert place is not None and place.line == 3 and place_of(race, columns.plain) is None
    sch = op.schedule()
    loops = sch.get_loops(sch.get_block("Z"))
    sch.bind(loops[0], "threadIdx.x")
    sch.vectorize(loops[1])
    marks = _marks(sch)
    assert ("threadIdx.x", "i") in marks and ("vectorized", "j") in marks and ("serial", "k") in marks
    assert _marks(sch.mod) == marks == _marks(sch.mod["main"]) and _marks(3) == set()


@pytest.mark.parametrize(
    ("cell", "message", "place"),
    [
        ("s = te.create_schedule(Z.op)\ns[Z].parallel(s[Z].op.axis[0])", "the cell gives `s` another value", (2, 1, 2)),
        ("for s in [3]: pass\ns", "the cell gives `s` another value", (2, 5, 6)),
        ("a, = s[Y].op.axis", "`s[Y].op.axis` has 2 entries (i, j), 1 name is given for them", None),
        ("a, b, c = s[Y].op.axis", "`s[Y].op.axis` has 2 entries (i, j), 3 names are given for them", None),
        ("s[Y].op.axis[2]", "`s[Y].op.axis` has 2 entries (i, j), so there is no `[2]`", None),
        ("s[Y].op.axis[-3]", "`s[Y].op.axis` has 2 entries (i, j), so there is no `[-3]`", None),
        ("s[Y].op.reduce_axis[1]", "`s[Y].op.reduce_axis` has 1 entry (k), so there is no `[1]`", None),
    ],
)
def test_mistakes_of_schedule_cells(cell: str, message: str, place: Any) -> None:
    error = refused(lambda: schedule(operator("dense", DENSE), cell))
    assert message in error.message
    if place is not None:
        assert error.span is not None and (error.span.line, error.span.column, error.span.end_column) == place


@pytest.mark.parametrize(
    "out", [np.zeros((9, 4), "float32", order="F"), np.zeros((9, 4), ">f4"), np.zeros((9, 8), "float32")[:, ::2]]
)
def test_an_array_to_write_into_is_not_said_to_be_copied(out: np.ndarray) -> None:
    op = operator("f", "X: float32[9, 4]\nY[i, j] = X[i, j] + 1")
    error = refused(lambda: op(np.zeros((9, 4), "float32"), out=out))
    assert error.hint is not None and error.hint.endswith("pass numpy.empty((9, 4), 'float32')")


@pytest.mark.parametrize(
    ("call", "name", "types"),
    [
        ("sch.transform_layout('Y', ('read', 0), lambda i, k: (k, i))", "X", ("float32[8, 6]", "float32[6, 8]")),
        ("sch.transform_layout('Z', ('write', 0), lambda i, j: (i, j // 2, j % 2))", "Z", ("float32[8, 4]", "float32[8, 2, 2]")),
        ("s[Z].transform_layout(lambda i, j: [j, i])", "Z", ("float32[8, 4]", "float32[4, 8]")),
    ],
)  # fmt: skip
def test_the_arguments_of_an_operator_keep_their_shapes(call: str, name: str, types: tuple[str, str]) -> None:
    op = operator("f", "X: float32[8, 6]\nW: float32[6, 4]\nY[i, j] += X[i, k] * W[k, j]\nZ[i, j] = Y[i, j] + 1")
    error = refused(lambda: schedule(op, call))
    assert error.message == f"`{name}` is an argument of type `{types[0]}`, and would be `{types[1]}`"
    assert error.span is not None and error.span.line == 2
    copied = "c = sch.cache_read('Y', 0, 'global')\nsch.transform_layout(c, ('write', 0), lambda i, k: (k, i))"
    for cell in (copied, "s[Y].transform_layout(lambda i, j: [j, i])"):
        x, w = op.random_inputs()
        np.testing.assert_allclose(schedule(op, cell)(x, w), x @ w + 1, rtol=1e-5, atol=1e-5)


def test_loops_above_both_parts_of_a_reduction_are_parallel_before_it_is_taken_apart() -> None:
    op = operator("f", "X: float32[8, 6]\nY[i] += X[i, k]")
    calls = ["sch.parallel(sch.get_loops('Y{}')[0])", "sch.decompose_reduction('Y', sch.get_loops('Y')[1])"]
    error = refused(lambda: schedule(op, f"{calls[1]}\n{calls[0].format('_update')}"))
    assert error.hint is not None and error.hint.startswith("call it before `decompose_reduction`")
    x = op.random_inputs()[0]
    np.testing.assert_allclose(schedule(op, f"{calls[0].format('')}\n{calls[1]}")(x), x.sum(1), rtol=1e-5, atol=1e-6)


def test_the_loops_inside_a_step_of_a_recurrence_are_those_of_the_stage_that_computes_it() -> None:
    op = operator("f", "X: float32[9, 5]\nR[t, i] = X[t, i] if t < 1 else R[t - 1, i] + X[t, i]")
    error = refused(lambda: schedule(op, "t, i = s[R].axis"))
    assert "`s[R].axis` has 1 entry (R.idx), 2 names are given" in error.message
    assert error.hint is not None and error.hint.endswith("`s[R_update].axis`")
    made = schedule(op, "t, i = s[R_update].axis\ns[R_update].unroll(i)")
    np.testing.assert_array_equal(made(np.ones((9, 5), "float32"))[:, 0], np.arange(1, 10))


@pytest.mark.parametrize(
    ("cell", "loop"),
    [
        ("s[Y].split(s[Z].op.axis[0], 4)", "i"), ("s[Z].reorder(s[Z].op.axis[1], s[Y].op.reduce_axis[0])", None),
        ("s[Y].vectorize(s[Y].op.axis[1])\ns[Y].vectorize(s[Z].op.axis[1])", "j"), ("s[Q].split(i, 4)", None), ("i = 3", None),
    ],
)  # fmt: skip
def test_a_call_that_fails_shows_the_loops_before_it(cell: str, loop: str | None) -> None:
    """With the loop of that name underlined in the stage that the error names."""
    error = refused(lambda: schedule(operator("dense", DENSE), cell + "\ns[Y].split('no loop', 2)"))
    if loop is None:
        assert error.root is None and error.node is None
    else:
        found = error.node
        assert isinstance(found, For) and found.loop_var.name == loop and isinstance(error.root, ProducerRealize)
        assert {store.producer.op.name for store in nodes_of(found.body, ProducerStore)} == {"Y"}
        assert found in nodes_of(error.root, For)


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("s[Y].split(q, 3)", "the loops of `Y` are `s[Y].op.axis` and `s[Y].op.reduce_axis`"),
        ("a, b = s[Y].op.axis\ns[Y].split(q, 3)", "the loops of `Y` are `a`, `b`"),
        ("s[Z].fuse(*s[Z].op.axis)\ns[Z].split(q, 3)", "the loops of `Z` are `i.j.fused`; a call gives those that it makes"),
        ("M = Y\ns[M].split(q, 3)", "the tensors are `X`, `W`, `Y`, `Z`, `M`"),
        ("s[Y].split(3 + len(q), 3)", "the tensors are `X`, `W`, `Y`, `Z`"),
        ("sch.split(q, [2, 4])", ""),
    ],
)  # fmt: skip
def test_what_loops_there_are_for_a_name_that_is_not_defined(cell: str, hint: str) -> None:
    error = refused(lambda: schedule(operator("dense", DENSE), cell))
    assert "name 'q' is not defined" in error.message and hint in (error.hint or "")


def test_an_entry_that_is_there_is_taken() -> None:
    scope: dict[str, Any] = {"x": [1, 2]}
    text = "a, b = x\nc = x[-2]\nd = x[1]\n(e,) = x[:1]\nf, *g = x\nh = -x[+1]\n[i] = 'k'"
    source = Source("entries", text)
    for statement in source.parse().body:
        run_python(statement, source, scope)
    assert [scope[n] for n in "abcdefghi"] == [1, 2, 1, 2, 1, 1, [2], -2, "k"]


def test_the_call_since_which_there_are_no_loops_is_to_blame() -> None:
    text = "X: float32[8]\nY[i] = X[i] + 1\nZ[i] = Y[i] * 2\nV[i] = Z[i] + Y[i]"
    cell = "s[Z].unroll(s[Z].op.axis[0])\ns[Y].compute_at(s[Z], s[Z].op.axis[0])\ns[V].unroll(s[V].op.axis[0])"
    error = refused(lambda: schedule(operator("f", text), cell))
    assert error.span is not None and (error.span.line, error.span.column) == (3, 1) and "does not run" in error.message
    assert schedule(operator("f", text), f"{cell}\ns[Y].compute_root()").operator.check().ok
    wrong = refused(lambda: schedule(operator("f", text), f"{cell}\ns[V].unroll(3)"))
    assert wrong.span is not None and wrong.span.line == 5 and "unroll" in wrong.message


def test_an_error_of_lowering_is_that_of_the_call_to_blame() -> None:
    """Unless the loops are there after the last call, or a call failed itself; errors of passes do not count."""
    text = "X: float32[8]\nY[i] = X[i] + 1\nZ[i] = Y[i] * 2\nV[i] = Z[i] + Y[i]"
    calls = ["s[Z].unroll(s[Z].op.axis[0])", "s[Y].compute_at(s[Z], s[Z].op.axis[0])", "s[V].unroll(s[V].op.axis[0])"]
    for cell, line in (
        ("\n".join(calls), 2),
        ("\n".join([*calls, "s[Y].compute_root()"]), None),
        (calls[0], None),
        ("sch.unroll(sch.get_loops('Y')[0])", None),
    ):
        record, error = Record(), TVMagicError("no loops", span=Span("pass", 7, 1))
        schedule_from_cell(operator("f", text), Source("cell", cell), "v", {}, record)
        steps = list(record)
        assert [s.kind for s in steps] == ["schedule"] * len(steps) and len(steps) > cell.count("\n")
        record.steps.append(Step("tir.Simplify", "pass", None, 3, error=error))
        blame(record, error)
        assert [s.error for s in steps] == [error if n == line else None for n in range(1, len(steps) + 1)]
        assert error.span is not None and error.span.line == (line or 7)
    record, error = Record(), TVMagicError("no loops", span=Span("pass", 7, 1))
    schedule_from_cell(operator("f", text), Source("cell", "\n".join(calls)), "v", {}, record)
    record.steps[1].span = None
    blame(record, error)
    assert error.span is not None and error.span.line == 7
    record.steps[2].error = error
    blame(record, error)
    assert record.steps[1].error is None


def test_examples_of_calls() -> None:
    assert example_lines("te.split") != example_lines("tir.split") and example_lines("te.blockize") is None
    assert "s[" in str(example_lines("te.split")) and "sch." in str(example_lines("tir.split"))
    assert example_lines("tir.nothing") is None


# ---------------------------------------------------------------------------- operators


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("X: float32[n]\nY[i] = X[i]", 256),
        ("X: float32[n, n]\nY[i, j] += X[i, k] * X[k, j]", 128),
        ("X: float32[n, 64, n]\nY[i] += X[i, j, k]", 256),
        ("X: float32[n, 65, n]\nY[i] += X[i, j, k]", 128),
        ("X: float32[n, n, n, n]\nY[i] += X[i, j, k, l]", 32),
        ("X: float32[n, n, n, n, n, n, n, n]\nY[i] = X[i, i, i, i, i, i, i, i]", 8),
        ("X: float32[4000, 4000]\nY[i] = X[i, 0]", 256),
    ],
)
def test_the_usual_size_is_halved_until_there_are_few_iterations(text: str, size: int) -> None:
    assert operator("f", text).usual_size == size


def test_a_slow_call_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    op = operator("dense", DENSE)
    for version, seconds in ((op.plain, 0.1), (op.plain, 9.0), (op.plain, 9.0)):
        version._tell(seconds)
    assert capsys.readouterr().err.count("`%auto dense` schedules it") == 1
    schedule(op, "s[Z].unroll(s[Z].op.axis[0])")._tell(9.0)
    assert capsys.readouterr().err == ""


def test_what_is_taken_as_an_operator() -> None:
    op, func = operator("dense", DENSE), function("for i in range(8):\n    Y[i] = X[i]")
    assert as_operator(op) is op and as_operator(func).name == "f" and as_operator(func, "g").name == "g"
    assert as_operator(tir.Schedule(func)).name == "f" and as_operator(IRModule({"main": func})).name == "f"
    for value in (3, None, IRModule({"a": func, "b": func}), IRModule({})):
        assert "is not an operator, and not one function" in refused(lambda value=value: as_operator(value)).message


def test_only_the_first_instance_of_a_stage_is_traced() -> None:
    op = operator("dense", DENSE)
    version = schedule(op, "s[Y].compute_at(s[Z], s[Z].op.axis[0])")
    loops = loops_of(version)
    assert loops is not None
    whole = trace_all(loops.body, ["X", "W", "Z"], 10_000)
    assert len(whole.of("Z").events) >= 32 and whole.of("X").shape == [8, 6]
    program = program_of_schedule(version.schedule)  # 8 rows of 4 elements, each set and then added to 6 times
    assert len(trace_accesses(program, "X").events) == len(trace_accesses(program, "X", first_instance=True).events)
    rows = [len(trace_accesses(program, "Y", 10_000, first_instance=first).events) for first in (False, True)]
    assert rows == [8 * rows[1], rows[1]] and len(trace_accesses(program, "Y", 10_000).events) == rows[0]


# ---------------------------------------------------------------------------- rare expressions


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("X: float32[4]\nY[i] = fma(X[i], 2, 1)", ("* 2", "+ 1")),
        ("X: float32[4]\nY[i] = bool(X[i])", ("!= 0",)),
        ("X: float32[4]\nY[i] = X[i] + inf", ()),
        ("X: float32[4]\nY[i] = max(X[i], -inf)", ()),
        ("X: int8[4]\nY[i] = float32(bool(X[i]))", ()),
    ],
)
def test_rare_expressions_in_javascript(text: str, lines: tuple[str, ...]) -> None:
    for bounds in (False, True):
        code = javascript(operator("f", text), {}, bounds=bounds)
        assert all(line in code for line in lines), code


def test_infinities_in_numpy() -> None:
    for value, text in (("inf", "np.inf"), ("-inf", "-np.inf")):
        op = operator("f", f"X: float32[4]\nY[i] = maximum(X[i], float32({value}))")
        code = numpy_code(op.inputs, op.outputs, {})
        assert text in code.words
        x, out = np.array([1, -np.inf, np.inf, 3], "float32"), np.zeros(4, "float32")
        assert np.array_equal(code.run(x, out), op(x))


def test_values_that_an_expression_names_in_javascript() -> None:
    """An index that is named has the ends of its value, so that what is computed with it stays a small number."""
    body = "tir.Let(t, k * 2, tir.Cast('float32', tir.likely(t * 1000000 < 5)) * X[k])"
    text = f"X: float32[4]\nt = te.var('t')\nY = te.compute((4,), lambda k: {body}, name='Y')"
    lines = javascript(operator("f", text), {}).splitlines()
    assert sum("imul(i" in line for line in lines) == 1
    floats = text.replace("te.var('t')", "te.var('t', 'float32')").replace(body, "tir.Let(t, X[k] * 2.0, t * t)")
    assert sum(" * 2.0" in line for line in javascript(operator("f", floats), {}).splitlines()) == 1


def test_which_stores_reach_all_elements() -> None:
    """Threads count from 0, once however often they are launched; what may fail does not count."""
    cases = {
        "for i in range(8):\n    Y[i] = X[i]": False,
        "for i in range(7):\n    Y[i] = X[i]": True,
        'for i in T.thread_binding(8, thread="threadIdx.x"):\n    Y[i] = X[i]': False,
        'i = T.launch_thread("threadIdx.x", 8)\nY[i] = X[i]': False,
        'i = T.launch_thread("threadIdx.x", 7)\nY[i] = X[i]': True,
        'i = T.launch_thread("blockIdx.x", 2)\nj = T.launch_thread("threadIdx.x", 4)\nY[i * 4 + j] = X[i]': False,
        'i = T.launch_thread("blockIdx.x", 2)\nj = T.launch_thread("threadIdx.x", 4)\nY[i * 3 + j] = X[i]': True,
        "for i in range(8):\n    if X[i] > T.float32(0):\n        Y[i] = X[i]": True,
        "for i in range(8):\n    Y[X[0].astype('int32')] = X[i]": True,
        "for i in range(8):\n    Y[7 - i] = X[i]": False,
        "for i, z in T.grid(8, 1):\n    Y[i] = X[i]": False,
        "for i, z in T.grid(8, 0):\n    Y[i] = X[i]": True,
        "for i in range(8):\n    for j in range(i):\n        Y[i] = X[j]": True,
        "for i, j in T.grid(2, 8):\n    Y[j * i // 2] = X[j]": True,
    }
    for body, left in cases.items():
        func = function(body)
        x, y = func.buffer_map.values()
        assert left_unwritten(func, [x], [y]) == (left,), body
        assert left_unwritten(func, [x, y], [y]) == (False,) == left_unwritten(None, [x], [y])


def test_how_many_elements_a_buffer_spans() -> None:
    for shape, strides in (((3, 4), (4, 1)), ((3, 4), (10, 2)), ((5,), (3,)), ((1, 1), (7, 9)), ((2, 3, 4), (1, 2, 6))):
        places = itertools.product(*map(range, shape))
        last = max(sum(i * s for i, s in zip(place, strides)) for place in places)
        numbers = [[IntImm("int32", n) for n in values] for values in (shape, strides)]
        assert Analyzer().simplify(_elements(*numbers)).value == last + 1
        assert Analyzer().simplify(_elements(numbers[0], [])).value == math.prod(shape)


@pytest.mark.parametrize(
    ("dtype", "relative", "absolute"),
    [("float16", 2e-2, 2e-2), ("float32", 2e-4, 2e-5), ("float64", 1e-10, 1e-12)],
)
def test_usual_errors_of_what_has_no_bound(dtype: str, relative: float, absolute: float) -> None:
    values = np.array([0.0, -2.0, 8.0, np.inf, np.nan], dtype)
    value, error = parts(_with_tolerance(values))
    assert np.array_equal(value, values.astype("float64"), equal_nan=True)
    assert error is not None and np.allclose(
        error, [absolute, absolute + 2 * relative, absolute + 8 * relative, 0, 0], rtol=1e-12, atol=0
    )
    for plain in (np.array([1, 2]), np.array([True]), np.array([3], "uint8")):
        assert _with_tolerance(plain) is plain


@pytest.mark.parametrize(
    ("body", "written", "early"),
    [
        ("for i in range(8):\n    Y[i] = X[i]", "Y", ""),
        ("for i in range(8):\n    Y[i] = Y[i] + X[i]", "Y", "Y"),
        ("for i in range(8):\n    X[i] = T.float32(0)\n    Y[i] = X[i]", "X Y", ""),
        ("for i in range(8):\n    Y[i] = X[i]\n    X[i] = T.float32(0)", "X Y", "X"),
        ('T.evaluate(T.call_extern("int32", "f", Y.access_ptr("r")))', "", ""),
        ('T.evaluate(T.call_extern("int32", "f", Y.access_ptr("w")))', "Y", ""),
        ('T.evaluate(T.call_extern("int32", "f", Y.access_ptr("rw")))', "Y", "Y"),
        ('T.evaluate(T.call_extern("int32", "f", X.access_ptr("r"), Y.access_ptr("w")))', "Y", ""),
        ('T.evaluate(T.call_extern("int32", "f", X.data, Y.data))', "X Y", "X Y"),
        ('T.evaluate(T.call_extern("int32", "f", T.address_of(Y[0])))', "Y", "Y"),
        ('for i in range(8):\n    Y[i] = X[i]\nT.evaluate(T.call_extern("int32", "f", X.data, Y.data))', "Y", ""),
    ],
)
def test_what_a_function_writes_and_what_it_reads_before(body: str, written: str, early: str) -> None:
    func = function(body)
    found = written_buffers(func)
    assert " ".join(b.name for b in found) == written
    assert " ".join(b.name for b in read_before_written(func, found)) == early


def test_which_steps_can_be_edited() -> None:
    op = operator("dense", DENSE)
    for cell in ("s[Z].unroll(s[Z].op.axis[0])", "b = sch.get_block('Z')\nsch.unroll(sch.get_loops(b)[0])"):
        record = op.passes(schedule(op, cell), code=False)
        found = editable(record)
        passes = [n for n, s in enumerate(record) if s.kind == "pass" and not s.name.startswith("te.")]
        start = passes[0] - 1
        assert list(found) == [start, *passes] and found[start] == len(passes) and found[passes[-1]] == 0
        assert [found[n] for n in passes] == list(range(len(passes) - 1, -1, -1))
        record.steps[passes[-1]].error = TVMagicError("failed")
        assert list(editable(record)) == [start, *passes[:-1]]
        record.steps[start].after = None
        assert list(editable(record)) == passes[:-1] and editable(record)[passes[0]] == len(passes) - 2
        record.steps.clear()
        assert editable(record) == {}


def test_sizes_by_their_places() -> None:
    for axis, size in ((0, 4), (1, 6), (-1, 6), (-2, 4)):
        op = operator("f", f"X: float32[4, 6]\nY[i] = X[i, 0] * X.shape[{axis}]")
        assert np.array_equal(op(np.ones((4, 6), "float32")), np.full(4, size))
    for axis in (2, -3):
        refused(lambda axis=axis: operator("f", f"X: float32[4, 6]\nY[i] = X[i, 0] * X.shape[{axis}]"))


def test_a_check_runs_on_fine_and_on_coarse_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    op, made = operator("f", "X: float32[4]\nY[i] = X[i] + 1"), list[bool]()
    plain = type(op).random_inputs

    def inputs(self: Any, seed: int = 0, sizes: Any = 16, coarse: bool = False) -> Any:
        made.append(coarse)
        return plain(self, seed, sizes, coarse)

    monkeypatch.setattr(type(op), "random_inputs", inputs)
    assert op.check().ok and made == [False, True]


def test_a_check_elsewhere_names_the_ways_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator("f", "X: float32[4]\nY[i] = X[i] + 1")
    calls = [
        ("one", lambda x: ([x + 1], None)),
        ("two", lambda x: ([x + 2], "slowly")),
        ("three", lambda x: ([x + np.float32(1)], None)),
    ]
    for number, wrong in ((3, ("NOT equal when run by two",)), (1, ())):
        monkeypatch.setattr(measure, "calls_elsewhere", lambda *_, n=number: calls[:n])
        result = op.check(target="elsewhere")
        assert result.ok is not bool(wrong)
        ways = "; ".join(["one", "two (slowly)", "three"][:number])
        assert result.notes == (f"run by {ways}", *wrong)
    here = schedule(op, "", "here")
    monkeypatch.setattr(type(here), "__call__", lambda self, x: x + 2)
    assert not measure.check(here).ok and measure.check(here).notes == ()


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_large_integers_are_compared_as_they_are(dtype: str) -> None:
    """Beyond 53 bits neighbours are the same float64."""
    value = np.array([1 << 60, 5], dtype)
    assert compare([value], [value.copy()], ["Y"]).ok
    wrong = compare([value + np.array([1, 0], dtype)], [value], ["Y"])
    assert not wrong.ok and wrong.place == "Y[0]" and wrong.wrong == 1


def test_processors_are_shared_from_a_tenth_of_the_time_on() -> None:
    assert shared({"V": 0.0999}) == [] and "during 10% of the time" in shared({"V": 0.1})[0]


def test_as_many_outputs_as_there_are() -> None:
    x = np.zeros(4, "float32")
    one, two = operator("f", "X: float32[4]\nY[i] = X[i]"), operator("g", "X: float32[4]\nY[i] = X[i]\nZ[i] = X[i] * 2")
    with pytest.raises(TVMagicError, match="`f` has 1 output, `out` is 2 arrays"):
        one(x, out=(x.copy(), x.copy()))
    with pytest.raises(TVMagicError, match="`g` has 2 outputs, `out` is 1 array"):
        two(x, out=x.copy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("times", [1, 2, 4, 8, 16, 100])
def test_errors_of_roundings_in_javascript(dtype: str, times: int) -> None:
    """A rounding is off by half a unit in the last place, or by half the least number above 0.

    What is narrower than float32 is computed in float32 and rounded once more.
    """
    info, writer = ml_dtypes.finfo(dtype), ExpressionWriter(True)
    once_more = 2.0**-24 if info.bits < 32 else 0.0
    relative, absolute = times * (float(info.eps) / 2 + once_more), times * float(info.smallest_subnormal) / 2
    if dtype == "float64":
        absolute = 0.0  # half of the least number is 0
    numbers = [float(number) for number in writer.unit(DataType(dtype), times).split(", ")]
    assert numbers == ([relative, absolute] if absolute > 1e-44 else [relative])
    assert writer.rounding(DataType(dtype), "x", times) == f"err(x, {writer.unit(DataType(dtype), times)})"
    assert writer.rounding(DataType(dtype), "x") == writer.rounding(DataType(dtype), "x", 2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_errors_of_waves_in_javascript(name: str, dtype: str) -> None:
    """As many units as in float64, where the values of NumPy, too, are off."""
    units = units_of(name, DataType("float64"))
    text = javascript(operator("f", f"X: {dtype}[4]\nY[i] = {name}(X[i])"), {}, bounds=True)
    assert repr(ExpressionWriter.relative(DataType(dtype), units)) in text


HINTS = {  # what iterations of a loop over `i` do, and the hint for their race
    "Y[0] = Y[0] + X[i]": "summed up over `i`", "Y[0] = T.max(X[i], Y[0])": "summed up over `i`", "Y[0] = X[i]": "leave `i` serial",
    "Y[i] = Y[i + 1]": "leave `i` serial", "Y[i + 1] = Y[i] + X[0]": "leave `i` serial", "Y[i + 1] = X[i]\n    Y[0] = X[0] + Y[i]": "leave `i` serial",
}  # fmt: skip


@pytest.mark.parametrize("body", HINTS)
@pytest.mark.parametrize(
    ("kind", "word"), [("parallel(7)", "parallelize"), ("thread_binding(7, thread='blockIdx.x')", "bind")]
)
def test_hints_of_races(body: str, kind: str, word: str) -> None:
    """Two stores of sums to one element make partial results possible; a store and a load do not."""
    found = [race for race in find_races(function(f"for i in T.{kind}:\n    {body}")) if race.certain]
    assert found
    for race in found:
        assert HINTS[body] in hint_of(race) and word in hint_of(race)


RUNNING = {  # which scans of rows are running sums of `X`, or products, or extremes
    "X[0, i]; S[t - 1, i] + X[t, i]": "np.cumsum(X, axis=0, dtype=np.float32)",
    "X[0, i]; S[t - 1, i] * X[t, i]": "np.cumprod(X, axis=0, dtype=np.float32)",
    "X[0, i]; te.max(S[t - 1, i], X[t, i])": "np.maximum.accumulate(X, axis=0)",
    "X[0, i]; te.min(S[t - 1, i], X[t, i])": "np.minimum.accumulate(X, axis=0)",
    "X[0, i]; S[t - 1, i] - X[t, i]": None,
    "X[0, i]; S[t - 1, i] * 2 + X[t, i]": None,
    "X[0, i]; S[t - 1, i] + X[t, i] * 2": None,
    "X[0, i]; S[t - 1, i] + X[t - 1, i]": None,
    "X[0, i]; S[t - 1, i] + X[t, 3 - i]": None,
    "X[0, i]; S[t - 1, 3 - i] + X[t, i]": None,
    "X[0, i]; S[t - 1, i] + Z[t, i]": None,
    "X[1, i]; S[t - 1, i] + X[t, i]": None,
    "X[0, i] * 2; S[t - 1, i] + X[t, i]": None,
    "X[0, 3 - i]; S[t - 1, i] + X[t, i]": None,
    "Z[0, i]; S[t - 1, i] + X[t, i]": None,
}


@pytest.mark.parametrize("steps", RUNNING)
@pytest.mark.parametrize(("rows", "begins"), [(6, 1), (7, 1), (6, 2)])
def test_which_scans_are_running_sums(steps: str, rows: int, begins: int) -> None:
    """Those that begin with the first row and take every other row of the same array, in order, as it is."""
    begin, step = steps.split("; ")
    cell = (
        f"X = te.placeholder(({rows}, 4), name='X')\nZ = te.placeholder((7, 4), name='Z')\n"
        "S = te.placeholder((6, 4), name='S')\n"
        f"first = te.compute(({begins}, 4), lambda t, i: {begin.replace('[0', '[t')})\n"
        f"step = te.compute((6, 4), lambda t, i: {step})\nY = te.scan(first, step, S, inputs=[X])"
    )
    scope: dict[str, Any] = {"te": te}
    exec(cell, scope)
    found = running_values(scope["Y"].op, {scope["X"]: "X", scope["Z"]: "Z"})
    text = None if found is None else ast.unparse(found)
    assert text == (RUNNING[steps] if (rows, begins) == (6, 1) else None)
    assert (scope["first"].op in scan_parts(scope["Y"].op)) is (text is not None)


def test_a_scan_of_two_states_is_no_running_sum() -> None:
    x = te.placeholder((6, 4), name="X")
    states = [te.placeholder((6, 4), name=name) for name in "ST"]
    first = te.compute((1, 4), lambda t, i: (x[t, i], x[t, i]))
    step = te.compute((6, 4), lambda t, i: (states[0][t - 1, i] + x[t, i], states[1][t - 1, i] + x[t, i]))
    scan = te.scan(list(first), list(step), states, inputs=[x])
    assert running_values(scan[0].op, {x: "X"}) is None


def test_a_record_has_the_code_unless_it_is_left_out() -> None:
    op = operator("twice", "X: float32[8]\nY[i] = X[i] * 2")
    names = [[step.name for step in record] for record in (op.passes(), op.passes(code=True), op.passes(code=False))]
    assert names[0] == names[1] and names[0][: len(names[2])] == names[2]
    assert any("llvm" in name.lower() or "code" in name.lower() for name in names[0][len(names[2]) :])


@pytest.mark.parametrize(
    ("cell", "message", "line"),
    [
        ("import math\n\n@T.prim_func\ndef f(X: T.Buffer((8,), 'float32')):\n    for i in range(8):\n        T.evaluate(X[i])", "writes none of its buffers", 5),
        ("import math\n\n@T.prim_func\ndef f(X: T.Buffer((8,), 'float32')):\n    X[0] = 1\n    while True:\n        X[1] = 2", "never ends", 7),
        ("import tvmagic.ir as ir\n\nf = ir.PrimFunc([], ir.Evaluate(0))", "writes none of its buffers", 1),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_function_has_its_place(cell: str, message: str, line: int) -> None:
    """That of the error, else that of the function, else the beginning of the cell."""
    with pytest.raises(TVMagicError, match=message) as caught:
        operator("f", cell)
    span = caught.value.span
    assert span is not None and span.line == line and (line > 1 or span.column == 1)


@pytest.mark.parametrize(
    ("cell", "stage", "hint"),
    [
        ("X: float32[4, 4]\nY[i, j] = X[i, j] * 2", "Y", "are in `s[Y].op.reduce_axis`"),
        ("X: float32[9, 4]\nS[t, i] = X[t, i] if t == 0 else S[t - 1, i] + X[t, i]", "S", "`S` is a recurrence, and its axis its steps"),
    ],
)  # fmt: skip
def test_the_hint_for_too_many_names_of_loops_knows_recurrences(cell: str, stage: str, hint: str) -> None:
    with pytest.raises(TVMagicError, match="3 names are given for them") as caught:
        schedule(operator("f", cell), f"a, b, c = s[{stage}].op.axis")
    assert hint in (caught.value.hint or "")
