"""The program after every step of a record, run by the interpreter and compared with NumPy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmagic.errors import TVMagicError
from tvmagic.eval.machine import TooLong, Unsupported, run_function, run_statement
from tvmagic.ir import IRModule, PrimFunc, Stmt
from tvmagic.ir.schedulable import Schedulable
from tvmagic.operators.comparison import compare, expected_values
from tvmagic.operators.inputs import make_inputs
from tvmagic.operators.trials import definition_kind
from tvmagic.operators.verdict import EQUAL_STATES, GLYPHS
from tvmagic.passes import Record
from tvmagic.te.error_reference import Evaluation

if TYPE_CHECKING:
    from tvmagic.operators.operator import Operator

NOT_RUN = "not run"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one step.

    `state` is that of a verdict (`operators/verdict.py`), or empty if the step's program was not run.
    """

    state: str
    text: str


def verify(record: Record, op: Operator, seed: int = 0, sizes: int = 8, seconds: float = 60.0) -> list[Verdict]:
    """Return a verdict for each step of a record, in order.

    The program after each step is interpreted on the operator's example inputs, or on random ones (symbolic sizes are
    `sizes`). All together take about `seconds`; a program that does not end is not judged. The text of the first wrong
    step says that it is the first.
    """
    inputs = make_inputs(op, seed, sizes)
    wanted = expected_values(op, inputs)
    known: dict[int, tuple[Any, Verdict]] = {}
    verdicts: list[Verdict] = []
    failed = False
    end = time.perf_counter() + seconds
    for step in record:
        if step.after is None or step.kind == "codegen":
            verdicts.append(Verdict("", ""))
            continue
        if id(step.after) not in known:
            left = max(end - time.perf_counter(), 0.0)
            known[id(step.after)] = (step.after, _verdict(step.after, op, inputs, wanted, left))
        verdict = known[id(step.after)][1]
        if verdict.state == "bad" and not failed:
            failed = True
            verdict = Verdict("bad", f"{verdict.text} \u00b7 the first step that differs")
        verdicts.append(verdict)
    return verdicts


def _verdict(program: Any, op: Operator, inputs: Sequence[np.ndarray], wanted: Evaluation, seconds: float) -> Verdict:
    if isinstance(program, Mapping) or isinstance(program, str):
        return Verdict("", "")
    outputs = op.fresh_outputs(inputs)
    for tensor, output, left in zip(op.outputs, outputs, op.left_unwritten):
        if not left and not op.is_input(tensor):
            output.fill(np.nan if output.dtype.kind == "f" else 0)
    try:
        _run(program, op, op.arguments(inputs, outputs), seconds)
    except (Unsupported, TooLong) as error:
        return Verdict("", f"{NOT_RUN}: {error.message}")
    except TVMagicError as error:
        return Verdict("bad", f"{GLYPHS['bad']} {error.message}")
    result = replace(compare(outputs, wanted, [t.name for t in op.outputs]), against=definition_kind(op))
    line = result.line
    short = replace(line, facts=(), cautions=()) if line.state in EQUAL_STATES else line
    return Verdict(line.state, short.text)


def _run(program: Any, op: Operator, arrays: Sequence[np.ndarray], seconds: float) -> None:
    """Run whatever a step holds on the operator's arguments, which it changes in place."""
    program = single_program(program)
    if isinstance(program, PrimFunc):
        run_function(threads_in_turn(program), arrays, seconds)
    elif isinstance(program, Stmt):
        run_statement(program, dict(zip(op.args, arrays)), seconds)
    else:
        raise Unsupported(f"a {type(program).__name__} cannot be run", code="check.not_runnable")


def single_program(value: Any) -> Any:
    """Return the function or statement of what a step holds. Other values are returned unchanged.

    Raises Unsupported for a module of several functions.
    """
    if isinstance(value, Schedulable):
        value = value.lower()
    if isinstance(value, IRModule):
        if len(value.functions) != 1:
            raise Unsupported("the module has several functions", code="check.several_functions")
        value = next(iter(value.functions.values()))
    return value


def threads_in_turn(func: PrimFunc) -> PrimFunc:
    """`func` with loops in the place of launched threads that wait for each other."""
    from tvmagic.codegen import host_target
    from tvmagic.codegen.gpu.threads import prepare_threads

    try:
        mod = prepare_threads(IRModule.from_expr(func), host_target())
    except TVMagicError as error:
        raise Unsupported(error.message, code=error.code) from error
    return next(iter(mod.functions.values()))
