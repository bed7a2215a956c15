"""Verification of every step against the reference."""

from __future__ import annotations

import pytest

from tvmagic import tir
from tvmagic.ir import BufferStore, IntImm, IRModule
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.operators.verify import verify


def test_verification_finds_wrong_steps() -> None:
    op = operator("dense", "X: float32[4]\nY[i] = X[i] + 1")
    record = op.passes(schedule(op, "s[Y].unroll(s[Y].op.axis[0])"), code=False)
    record.steps[:] = record.steps[-4:]
    assert "bad" not in [v.state for v in verify(record, op)]
    (func,) = record.steps[-1].after.functions.values()
    for step in record.steps[-2:]:
        step.after = IRModule({"dense": func.with_body(tir.Evaluate(0))})
    assert [v.state == "bad" for v in verify(record, op)] == [False, False, True, True]


def test_verification_has_no_verdict_of_what_cannot_run() -> None:
    op = operator("dense", "X: float32[4]\nY[i] = X[i] + 1")
    record = op.passes(code=False)
    del record.steps[:-1]
    (func,) = record.steps[0].after.functions.values()
    extern = func.with_body(tir.Evaluate(tir.call_extern("int32", "unheard", 1)))
    for program in (3, "text", IRModule({"a": func, "b": func}), IRModule({"a": extern})):
        record.steps[0].after = program
        assert verify(record, op)[0].state == ""


@pytest.mark.parametrize(("dtype", "ok"), [("int32", True), ("float32", False)])
def test_unwritten_floats_are_nan_before_run(dtype: str, ok: bool) -> None:
    """But 0 for integers. An error of the program is its verdict."""
    op = operator("f", f"X: {dtype}[4]\nY[i] = X[i] * 0")
    record = op.passes(code=False)
    del record.steps[:-1]
    (func,) = record.steps[0].after.functions.values()
    record.steps[0].after = IRModule({"f": func.with_body(tir.Evaluate(0))})
    assert (verify(record, op)[0].state != "bad") == ok
    (store,) = nodes_of(func.body, BufferStore)
    record.steps[0].after = IRModule(
        {"f": func.with_body(BufferStore(store.buffer, IntImm("int32", 0).astype(dtype), [4]))}
    )
    assert verify(record, op)[0].state == "bad"
