"""Every case file says what the package does; `case_files.py` describes the format."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from case_files import LONGEST, PLACE, Case, Section, read, where

import tvmagic
from tvmagic import cinn, ir, script, te, tir
from tvmagic.arith import Analyzer
from tvmagic.errors import DefectError, TVMagicError
from tvmagic.eval.machine import run_function
from tvmagic.eval.values import Unsupported
from tvmagic.ir.numpy_types import numpy_dtype
from tvmagic.ir.query import nodes_of
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.passes import PassContext
from tvmagic.script import from_source
from tvmagic.te.reference import evaluate_all

FOLDERS = (PLACE, PLACE.parent / "compat" / "cases")  # the second one is missing in a copy of the core
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.txt"))]
SIZE = 7  # the value of each variable that the caller gives
LARGEST = 1 << 20  # elements that a program may allocate to be run


def case_id(path: pathlib.Path) -> str:
    folder = next(folder for folder in FOLDERS if path.is_relative_to(folder))
    return path.relative_to(folder).with_suffix("").as_posix()


@pytest.mark.parametrize("path", FILES, ids=case_id)
def test_case_holds(path: pathlib.Path) -> None:
    case = read(path)
    {"function": check_function, "tensors": check_tensors, "cell": check_cell}[case.program.name](case)


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=case_id)
def test_cases_are_short_and_described(folder: pathlib.Path) -> None:
    for path in folder.glob("*.txt"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST, path
        assert read(path).title and read(path).expected, path


# ---------------------------------------------------------------------------- programs


def read_function(text: str) -> ir.PrimFunc:
    """Parse a function, with or without its decorator."""
    return from_source(
        "# from tvm.script import tir as T\n" + ("" if text.startswith("@") else "@T.prim_func\n") + text
    )


def function_text(func: ir.PrimFunc) -> str:
    """Print a function without the decorator and the lines above it."""
    text = func.without_attr("global_symbol").script()
    return text[text.index("def ") :].strip()


def sizes(func: ir.PrimFunc) -> dict[ir.Var, ir.IntImm]:
    """Give every scalar parameter and every variable of a shape a value."""
    shapes = [dim for p in func.params if p in func.buffer_map for dim in func.buffer_map[p].shape]
    scalars = [p for p in func.params if p not in func.buffer_map]
    found = [*scalars, *(var for dim in shapes for var in nodes_of(dim, ir.Var))]
    return {var: ir.IntImm(var.dtype, SIZE) for var in found}


def array_of(buffer: ir.Buffer, values: dict[ir.Var, ir.IntImm], rng: np.random.Generator) -> np.ndarray:
    """Small integers, whose sums are exact in every order and every float type."""
    shape = [int(Analyzer().simplify(ir.substitute(dim, values))) for dim in buffer.shape]
    return rng.integers(0 if "u" in str(buffer.dtype) else -4, 5, shape).astype(numpy_dtype(buffer.dtype))


def results(func: ir.PrimFunc, seed: int = 1) -> list[Any] | None:
    """Return every argument after an interpreted call, or None if the interpreter cannot run the function."""
    if any(
        math.prod(e.value for e in a.extents if isinstance(e, ir.IntImm)) > LARGEST for a in nodes_of(func, ir.Allocate)
    ):
        return None
    rng, values = np.random.default_rng(seed), sizes(func)
    arrays = [
        array_of(func.buffer_map[p], values, rng) if p in func.buffer_map else np.asarray(SIZE, numpy_dtype(p.dtype))
        for p in func.params
    ]
    try:
        run_function(func, arrays)
    except Unsupported:
        return None
    return arrays


def assert_preserves_results(before: ir.PrimFunc, after: ir.PrimFunc) -> None:
    """Compare all arguments after a call, unless the caller sees other arguments."""
    if [before.buffer_map.get(p) for p in before.params] != [after.buffer_map.get(p) for p in after.params]:
        return
    try:
        want = results(before)
    except TVMagicError:  # an assertion or an access of the program itself fails for these arguments
        return
    have = results(after)
    if want is not None and have is not None:
        for x, y in zip(want, have, strict=True):
            np.testing.assert_allclose(y, x, 1e-5, 1e-5)


def assert_refused(detail: str, run: Callable[[], Any]) -> None:
    with pytest.raises(TVMagicError) as error:
        run()
    assert not isinstance(error.value, DefectError)
    assert where(error.value) == detail


# ---------------------------------------------------------------------------- kinds


def check_function(case: Case) -> None:
    func = read_function(case.program.text)
    if case.expected[0].name == "pass":
        check_pass(func, case)
        return

    if "cinn" in case.expected[0].name:
        check_cinn(func, case)
        return
    sch = tir.Schedule(func)
    for section in case.expected:
        if section.name == "becomes":
            assert function_text(sch.mod["main"]) == section.text
        elif section.name == "refused steps":
            *steps, last = section.lines
            sch = tir.Schedule(func)
            scope = names_for(sch)
            exec("\n".join(steps), scope)
            assert_refused(section.detail, lambda: exec(last, scope))
        elif section.name == "steps":
            sch = scheduled(func, section.text)
            assert_accepted(func, sch)
        else:
            for call in section.lines:
                if section.name == "refused":
                    assert_refused(section.detail, lambda: scheduled(func, call))
                else:
                    assert_accepted(func, scheduled(func, call))


def names_for(sch: tir.Schedule) -> dict[str, Any]:
    """Return the names that calls on a schedule use."""
    return {
        "sch": sch,
        "tir": tir,
        "T": script.tir,
        "IndexMap": tir.IndexMap,
        "block": sch.get_block,
        "loops": lambda name: sch.get_loops(sch.get_block(name)),
    }


def scheduled(func: ir.PrimFunc, calls: str) -> tir.Schedule:
    """Return a new schedule after the calls."""
    sch = tir.Schedule(func, debug_mask="all")
    exec(calls, names_for(sch))
    return sch


def assert_accepted(func: ir.PrimFunc, sch: tir.Schedule) -> None:
    """Check that a schedule preserves results, and that its trace and its text give the same program."""
    assert_preserves_results(func, sch.mod["main"])
    replayed = tir.Schedule(func)
    sch.trace.apply_to_schedule(replayed, remove_postproc=False)
    assert ir.structural_equal(replayed.mod, sch.mod)
    assert ir.structural_equal(from_source(sch.mod.script()), sch.mod)


def check_cinn(func: ir.PrimFunc, case: Case) -> None:
    after = cinn.IRSchedule(func)
    for section in case.expected:
        if section.name == "becomes":
            assert after.text(regions=False) == section.text
            continue
        sch = cinn.IRSchedule(func)
        if section.name == "refused cinn steps":
            *steps, last = section.lines
            scope = {"sch": sch}
            exec("\n".join(steps), scope)
            before = str(sch)
            assert_refused(section.detail, lambda: exec(last, scope))
            assert str(sch) == before
        else:
            exec(section.text, {"sch": sch})
            after = sch
        assert_preserves_results(func, tvmagic.lower(sch.func)["main"])


def check_pass(func: ir.PrimFunc, case: Case) -> None:
    """Run each group of passes on the program; what becomes of it ends a group."""
    mod = after = ir.IRModule.from_expr(func.with_attr("global_symbol", "main"))
    last: Section | None = None
    for section in case.expected:
        if section.name == "pass":
            if last is not None:
                after = run_pass(last, after)
            last = section
            continue
        assert last is not None
        if section.name == "refused":
            assert_refused(section.detail, lambda: run_pass(last, after))
        else:
            got = run_pass(last, after)["main"]
            assert function_text(got) == section.text
            assert_preserves_results(mod["main"], got)
        last, after = None, mod


def run_pass(section: Section, mod: ir.IRModule) -> ir.IRModule:
    """Run the pass that a section names, perhaps with arguments, with its options in a context."""
    call, _, config = section.detail.partition(" {")
    name, _, arguments = call.partition("(")
    make = getattr(tir.transform, name)
    with PassContext(config=json.loads("{" + config if config else "{}")):
        return make(**eval(f"dict({arguments or ')'}"))(mod)


def check_tensors(case: Case) -> None:
    def scope(call: str) -> dict[str, Any]:
        names: dict[str, Any] = {"te": te, "tir": tir}
        exec(case.program.text, names)
        exec(call, names)
        return names | {"lowered": tvmagic.lower(names["s"], names["args"])["main"]}

    for section in case.expected:
        for call in section.lines:
            if section.name == "refused":
                assert_refused(section.detail, lambda: scope(call))
            else:
                assert_computes_reference(**{k: v for k, v in scope(call).items() if k in ("args", "lowered")})


def assert_computes_reference(args: list[te.Tensor], lowered: ir.PrimFunc) -> None:
    outputs = [a for a in args if not isinstance(a.op, te.PlaceholderOp)]
    have = results(lowered)
    if have is None:
        return
    given = {a: x for a, x in zip(args, have) if a not in outputs}
    found = [x for a, x in zip(args, have) if a in outputs]
    for want, got in zip(evaluate_all(outputs, given), found, strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def check_cell(case: Case) -> None:
    for section in case.expected:
        if not section.lines:
            assert_refused(section.detail, lambda: operator("op", case.program.text))
        for call in section.lines:
            assert_refused(section.detail, lambda: schedule(operator("op", case.program.text), call))
