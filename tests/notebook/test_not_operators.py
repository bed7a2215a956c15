"""Magics and plain functions on what is no operator: functions, modules, schedules of TensorIR and CINN, tilings of Ascend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refuses

import tvmagic
from tvmagic import ascend, cinn, notebook
from tvmagic.operators import Operator, Version, as_operator, operator

TEXT = "X: float32[20, 30]\nA[i] += X[i, j]\nY[i, j] = X[i, j] - A[i] / 30"


@pytest.fixture
def rows() -> Operator:
    return operator("rows", TEXT)


def things(op: Operator) -> dict[str, Any]:
    schedule = cinn.IRSchedule(op.schedule())
    schedule.split("Y", 0, [4, -1])
    tiling = ascend.auto_tiling(ascend.auto_schedule(ascend.hint_graph(op)), machine="atlas_a2")
    func = op.to_prim_func()
    return {
        "func": func,
        "module": tvmagic.IRModule({"main": func}),
        "sch_tir": op.schedule(),
        "sch_cinn": schedule,
        "tiling": tiling,
    }


@pytest.mark.parametrize("name", ["func", "module", "sch_tir", "sch_cinn", "tiling"])
def test_each_is_stepped_through_explained_and_measured(rows: Operator, shell: Any, name: str) -> None:
    thing = things(rows)[name]
    shell.user_ns[name] = thing
    shell.run_line_magic("config", "TensorMagics.bench_seconds = 0.001")
    for line in (
        "%passes {}",
        "%asm {} --loop",
        "%llvm {}",
        "%graph {}",
        "%graph {} --kind access",
        "%why {} --no-run",
    ):
        result = shell.run_cell(line.format(name))
        assert result.success, (line, result.error_in_exec)
    assert "interpreter" in repr(shell.run_cell(f"%bench {name}").result)
    (x,) = rows.random_inputs()
    np.testing.assert_allclose(as_operator(thing)(x), rows.reference(x), rtol=1e-5, atol=1e-5)
    assert "VectorizeLoop" in notebook.passes(thing).text()


def test_what_a_magic_makes_of_a_function_is_kept_until_the_function_changes(rows: Operator, shell: Any) -> None:
    shell.user_ns.update(sch=cinn.IRSchedule(rows.schedule()))
    assert shell.run_cell("%auto sch -q").success
    assert "the same program" in str(shell.run_cell("%compare sch:plain sch:auto").result)
    shell.user_ns["sch"].split("Y", 0, [4, -1])
    assert isinstance(shell.run_cell("%passes sch:auto").error_in_exec, BaseException)


def test_what_is_no_function_is_refused_by_its_kind(
    rows: Operator, shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns.update(xs=[1], graph=ascend.hint_graph(rows), rows=rows)
    for name, kind in (("xs", "a list"), ("graph", "an AscGraph")):
        assert not shell.run_cell(f"%passes {name}").success
        assert f"`{name}` is {kind}, not an operator; there are rows" in capsys.readouterr().err
    for wrong in (
        [1],
        None,
        rows.te_schedule(),
        tvmagic.IRModule({"a": rows.to_prim_func(), "b": rows.to_prim_func()}),
    ):
        with refuses("operator.not_an_operator"):
            as_operator(wrong)


def test_versions_of_other_systems_are_drawn_as_they_are(rows: Operator) -> None:
    """The accesses and blocks are those of the version's own function, not those of the operator."""
    function = Version(rows, ascend.compile_graph(ascend.hint_graph(rows)), "ascend")
    assert "sum_0_local" in notebook.graph(function, "access").text()
    assert notebook.graph(function).text() == notebook.graph(function, "access").text()
    with refuses("picture.no_blocks"):
        notebook.graph(function, "blocks")
    assert "A__reduce_init" in notebook.graph(Version(rows, cinn.IRSchedule(rows.schedule()), "cinn")).text()


def test_schedules_of_cinn_and_results_of_ascend_show_themselves(rows: Operator, shell: Any) -> None:
    found = things(rows)
    shell.user_ns.update(found, results=ascend.auto_schedule(ascend.hint_graph(rows)))
    plain = shell.display_formatter.formatters["text/plain"]
    assert "ScheduleBlock(Y)" in plain(found["sch_cinn"]) and "Split" in plain(found["sch_cinn"])
    assert "Split" in plain(found["sch_cinn"].get_trace_desc())
    results = shell.user_ns["results"]
    assert "ImplGraphs)" in plain(results) and "AscGraph" not in plain(results)
    assert "tile" in plain(results[0].groups[0].impls[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda op: cinn.IRSchedule(op), "cinn.schedule.not_a_program"),
        (lambda op: cinn.IRSchedule(3), "cinn.schedule.not_a_program"),
        (lambda op: ascend.auto_schedule(op), "ascend.graph"),
        (lambda op: ascend.evaluate(op, []), "ascend.graph"),
        (lambda op: ascend.pseudo_code("Graph: x"), "ascend.graph"),
        (lambda op: ascend.graph_text(None), "ascend.graph"),
        (lambda op: ascend.auto_tiling(ascend.hint_graph(op)), "ascend.scheduled"),
        (lambda op: ascend.auto_tiling([]), "ascend.scheduled"),
        (
            lambda op: ascend.auto_tiling(ascend.auto_schedule(ascend.hint_graph(op)), machine=48),
            "ascend.machine.not_a_machine",
        ),
        (lambda op: ascend.hint_graph("rows"), "ascend.not_tensor_expressions"),
        (lambda op: ascend.parse_graph(op), "ascend.dump"),
    ],
)
def test_other_things_are_refused_where_they_come_in(rows: Operator, call: Any, message: str) -> None:
    with refuses(message):
        call(rows)
