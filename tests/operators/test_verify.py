"""Verification of every step against the reference."""

from __future__ import annotations

import pytest

from tvmagic import tir
from tvmagic.ir import BufferStore, IntImm, IRModule
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.operators.verify import EQUAL, verify


def test_verification_names_first_wrong_step() -> None:
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
def test_unwritten_floats_are_nan_before_run(dtype: str, ok: bool) -> None:
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
