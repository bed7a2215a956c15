"""Mistakes in schedule cells: the call that is to blame, and the loops before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tvmagic.errors import DiagnosticError, TVMagicError
from tvmagic.ir import For, ProducerRealize, ProducerStore, structural_equal
from tvmagic.ir.query import nodes_of
from tvmagic.notation.source import Source
from tvmagic.operators import operator
from tvmagic.operators.editing import edit, program_text, step_number, unedited
from tvmagic.operators.scheduling import schedule

DENSE = "X: float32[8, 6]\nW: float32[4, 6]\nY[i, j] += X[i, k] * W[j, k]\nZ[i, j] = max(Y[i, j], 0)"


def refused(call: Any) -> TVMagicError:
    with pytest.raises(TVMagicError) as caught:
        call()
    return caught.value


def test_edit_is_checked_against_its_step() -> None:
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


@pytest.mark.parametrize(
    ("cell", "code", "place"),
    [
        ("s = te.create_schedule(Z.op)\ns[Z].parallel(s[Z].op.axis[0])", "cell.schedule_overwritten", (2, 1, 2)),
        ("for s in [3]: pass\ns", "cell.schedule_overwritten", (2, 5, 6)),
        ("a, = s[Y].op.axis", "cell.wrong_unpack_count", None),
        ("a, b, c = s[Y].op.axis", "cell.wrong_unpack_count", None),
        ("s[Y].op.axis[2]", "cell.entry_out_of_range", None),
        ("s[Y].op.axis[-3]", "cell.entry_out_of_range", None),
        ("s[Y].op.reduce_axis[1]", "cell.entry_out_of_range", None),
    ],
)
def test_schedule_cell_mistakes_are_refused(cell: str, code: str, place: Any) -> None:
    error = refused(lambda: schedule(operator("dense", DENSE), cell))
    assert code == error.code
    if place is not None:
        assert error.span is not None and (error.span.line, error.span.column, error.span.end_column) == place


@pytest.mark.parametrize(
    ("call", "name", "types"),
    [
        ("sch.transform_layout('Y', ('read', 0), lambda i, k: (k, i))", "X", ("float32[8, 6]", "float32[6, 8]")),
        (
            "sch.transform_layout('Z', ('write', 0), lambda i, j: (i, j // 2, j % 2))",
            "Z",
            ("float32[8, 4]", "float32[8, 2, 2]"),
        ),
        ("s[Z].transform_layout(lambda i, j: [j, i])", "Z", ("float32[8, 4]", "float32[4, 8]")),
    ],
)
def test_argument_layout_change_is_refused(call: str, name: str, types: tuple[str, str]) -> None:
    op = operator("f", "X: float32[8, 6]\nW: float32[6, 4]\nY[i, j] += X[i, k] * W[k, j]\nZ[i, j] = Y[i, j] + 1")
    error = refused(lambda: schedule(op, call))
    assert all(f"`{part}`" in error.message for part in (name, *types))
    assert error.span is not None and error.span.line == 2
    copied = "c = sch.cache_read('Y', 0, 'global')\nsch.transform_layout(c, ('write', 0), lambda i, k: (k, i))"
    for cell in (copied, "s[Y].transform_layout(lambda i, j: [j, i])"):
        x, w = op.random_inputs()
        np.testing.assert_allclose(schedule(op, cell)(x, w), x @ w + 1, rtol=1e-5, atol=1e-5)


def test_parallel_after_decompose_is_refused() -> None:
    op = operator("f", "X: float32[8, 6]\nY[i] += X[i, k]")
    calls = ["sch.parallel(sch.get_loops('Y{}')[0])", "sch.decompose_reduction('Y', sch.get_loops('Y')[1])"]
    error = refused(lambda: schedule(op, f"{calls[1]}\n{calls[0].format('_update')}"))
    assert error.hint is not None and error.hint.startswith("call it before `decompose_reduction`")
    x = op.random_inputs()[0]
    np.testing.assert_allclose(schedule(op, f"{calls[0].format('')}\n{calls[1]}")(x), x.sum(1), rtol=1e-5, atol=1e-6)


def test_recurrence_loops_belong_to_computing_stage() -> None:
    op = operator("f", "X: float32[9, 5]\nR[t, i] = X[t, i] if t < 1 else R[t - 1, i] + X[t, i]")
    error = refused(lambda: schedule(op, "t, i = s[R].axis"))
    assert error.code == "cell.wrong_unpack_count" and "R.idx" in error.message
    assert error.hint is not None and error.hint.endswith("`s[R_update].axis`")
    made = schedule(op, "t, i = s[R_update].axis\ns[R_update].unroll(i)")
    np.testing.assert_array_equal(made(np.ones((9, 5), "float32"))[:, 0], np.arange(1, 10))


@pytest.mark.parametrize(
    ("cell", "loop"),
    [
        ("s[Y].split(s[Z].op.axis[0], 4)", "i"),
        ("s[Z].reorder(s[Z].op.axis[1], s[Y].op.reduce_axis[0])", None),
        ("s[Y].vectorize(s[Y].op.axis[1])\ns[Y].vectorize(s[Z].op.axis[1])", "j"),
        ("s[Q].split(i, 4)", None),
        ("i = 3", None),
    ],
)
def test_failing_call_shows_loops_before_it(cell: str, loop: str | None) -> None:
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
        (
            "s[Z].fuse(*s[Z].op.axis)\ns[Z].split(q, 3)",
            "the loops of `Z` are `i.j.fused`; a call gives those that it makes",
        ),
        ("M = Y\ns[M].split(q, 3)", "the tensors are `X`, `W`, `Y`, `Z`, `M`"),
        ("s[Y].split(3 + len(q), 3)", "the tensors are `X`, `W`, `Y`, `Z`"),
        ("sch.split(q, [2, 4])", ""),
    ],
)
def test_undefined_loop_name_suggests_loops(cell: str, hint: str) -> None:
    error = refused(lambda: schedule(operator("dense", DENSE), cell))
    assert error.code == "cell.python_error" and hint in (error.hint or "")


def test_lowering_error_blames_last_call() -> None:
    text = "X: float32[8]\nY[i] = X[i] + 1\nZ[i] = Y[i] * 2\nV[i] = Z[i] + Y[i]"
    cell = "s[Z].unroll(s[Z].op.axis[0])\ns[Y].compute_at(s[Z], s[Z].op.axis[0])\ns[V].unroll(s[V].op.axis[0])"
    error = refused(lambda: schedule(operator("f", text), cell))
    assert (
        error.span is not None
        and (error.span.line, error.span.column) == (3, 1)
        and error.code == "te.compute_at.reader_outside_loop"
    )
    assert schedule(operator("f", text), f"{cell}\ns[Y].compute_root()").operator.check().ok
    wrong = refused(lambda: schedule(operator("f", text), f"{cell}\ns[V].unroll(3)"))
    assert wrong.span is not None and wrong.span.line == 5


@pytest.mark.parametrize(
    ("cell", "stage", "hint"),
    [
        ("X: float32[4, 4]\nY[i, j] = X[i, j] * 2", "Y", "are in `s[Y].op.reduce_axis`"),
        (
            "X: float32[9, 4]\nS[t, i] = X[t, i] if t == 0 else S[t - 1, i] + X[t, i]",
            "S",
            "`S` is a recurrence, and its axis its steps",
        ),
    ],
)
def test_unpacking_too_many_loops_is_refused(cell: str, stage: str, hint: str) -> None:
    with pytest.raises(TVMagicError) as caught:
        schedule(operator("f", cell), f"a, b, c = s[{stage}].op.axis")
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("cell", "again"),
    [
        ("i = s[Y].split(s[Y].axis[0], 4)[1]", "old_s[old_Y].unroll(old_i)"),
        ("AA = s.cache_read(X, 'local', [Y])", "old_s.cache_read(old_X, 'local', [old_Y])"),
        ("i = sch.get_loops('Y')[0]", "old_sch.unroll(old_i)"),
        ("i = ir_sch.get_loops('Y')[0]", "old_ir_sch.unroll(old_i)"),
    ],
)
def test_schedules_of_versions_reject_calls(cell: str, again: str) -> None:
    op = operator("f", "X: float32[8]\nY[i] = X[i] + 1")
    version = schedule(op, cell)
    before = op.lower(version).script()
    names = {f"old_{name}": value for name, value in version.scope.items()}
    assert str(refused(lambda: schedule(op, again, namespace=names)).code).endswith("schedule.sealed")
    assert op.lower(version).script() == before


def test_tensorir_versions_compute_empty_reductions_of_computed_extents() -> None:
    op = operator("f", "X: float32[n]\nY[i] = sum(X[i] * X[j + 1], over=j)")
    schedule(op, "sch.parallel(sch.get_loops('Y')[0])")
    for size in (1, 3, 1):
        np.testing.assert_array_equal(op(np.full(size, 2, "float32")), np.full(size, 4 * (size - 1), "float32"))
