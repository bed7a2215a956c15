"""`%why`: what it shows in a notebook and in a terminal, and what is wrong with a line."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from typing import Any

import pytest
from cells_in_shell import run

from tvmagic.explain import explain
from tvmagic.explain.explanation import Finding
from tvmagic.explain.finding_measurement import measure_calls
from tvmagic.notebook.display import shown
from tvmagic.operators import operator, peaks
from tvmagic.operators.measure import Timing

CELL = "%%tensor mm -q\nA: float32[64, 96]\nB: float32[96, 80]\nC[i, j] += A[i, k] * B[k, j]\n"


pytestmark = pytest.mark.usefixtures("own_cache")


def test_why_shows_a_table_findings_and_pictures(shell: Any) -> None:
    run(shell, CELL)
    found = run(shell, "%why mm")
    text, page = found.text(False), found.html()
    assert "a call, measured" in text and "reduction-order" in text and "s[C].reorder(" in text
    assert "Roofline" in text and "Bytes moved by each level" in text
    assert page.count("<svg") == 2 and "<ol>" in page and "<pre>" in page
    data = json.loads(json.dumps(found.to_json()))
    assert data["findings"][0]["code"] == "reduction-order" and data["findings"][0]["measured"] > 1.5
    assert "by the model, " in text and "times measured:" in text
    # what is proposed, pasted, runs
    run(shell, f"%%schedule mm -q --check\n{data['findings'][0]['call']}")


def test_a_call_that_is_measured_to_be_no_help_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    op = operator("left", "A: float32[64, 64]\nB[i] += A[i, k]")
    explanation = explain(op, "llvm -num-cores=1", llvm=False)
    count, first = len(op.versions), explanation.findings[0]
    monkeypatch.setattr("tvmagic.explain.finding_measurement._gain", lambda version, finding, inputs: 0.5)
    measure_calls(explanation, op.current)
    assert not any(f.call for f in explanation.findings) and len(op.versions) == count
    assert f"`{first.code}` is left out: with its call it was measured to be 0.5 times as fast" in explanation.notes[-1]


def test_why_of_a_version_and_without_a_run(shell: Any) -> None:
    run(shell, CELL)
    run(shell, "%%schedule mm -q -n V2\ns[C].parallel(C.op.axis[0])")
    found = run(shell, "%why mm:V2 --no-run")
    assert found.seconds is None and "cycles a call by the model" in found.text(False)
    assert found.explanation.version == "V2" and "Roofline" not in found.text(False)
    assert run(shell, "%why mm:plain --no-run").explanation.version == "plain"


def test_why_of_another_target_is_not_run(shell: Any) -> None:
    run(shell, CELL)
    found = run(shell, "%why mm --target aarch64")
    assert found.seconds is None and found.explanation.machine.vector_bits == 128


@pytest.mark.parametrize(
    ("line", "words"), [("%why nn", "no operator `nn`"), ("%why mm:V9", "no version `V9`"), ("%why", "missing NAME")]
)
def test_wrong_lines(shell: Any, line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, CELL)
    result = shell.run_cell(line)
    assert not result.success
    error = str(result.error_in_exec)
    assert words in error or "NAME" in words and "name" in error


def test_a_time_that_the_model_does_not_explain_is_told(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run(shell, "%%tensor e -q\nA: float32[64, 512]\nB[i, j] = exp(A[i, j])")
    run(shell, "%auto e -q")
    told = "what takes most of the time is not in it"
    why_module = importlib.import_module("tvmagic.notebook.why")  # not the function of that name
    monkeypatch.setattr(why_module, "_measured", lambda version, size, *rest: Timing(40e-6, 40e-6, 9))
    found = run(shell, "%why e")
    assert told not in found.text(False) and "shared" not in found.text(False)
    monkeypatch.setattr(why_module, "_measured", lambda version, size, *rest: Timing(1.0, 1.0, 9, waited=0.4))
    found = run(shell, "%why e")
    assert "at-roof" not in found.text(False) and told in found.text(False)
    assert "a thread waited for one during 40% of the time;" in found.text(False)
    limit = Finding("at-roof", "`B` is at the roof", 1, 1, "", 1.0)
    for seconds, findings in ((40e-6, [limit]), (1.0, [])):
        found.explanation.findings[:] = [limit]
        why_module.withdraw_limit(found.explanation, seconds, None)
        assert found.explanation.findings == findings


def test_an_explanation_shows_itself() -> None:
    op = operator("named", "A: float32[64, 64]\nB[i] += A[i, k]")
    view = shown(explain(op, llvm=False))
    assert view is not None and "Findings" in view.text(False) and "<table" in view.html()


def test_why_and_compare_of_a_version_that_is_a_program(shell: Any) -> None:
    """Such as one that Ascend's tiling made: there are no calls to propose, and all the rest is told."""
    run(shell, "%%tensor scaled -q\nX: float32[100, 30]\nA[i] += X[i, j]\nY[i, j] = X[i, j] - A[i] / 30")
    run(shell, "from tvmagic import ascend\nfrom tvmagic.operators import Version")
    run(shell, "scaled.add_version(Version(scaled, ascend.compile_graph(ascend.hint_graph(scaled)), 'ascend'))")
    found = run(shell, "%why scaled:ascend --no-run")
    assert found.explanation.loops and not any(f.call for f in found.explanation.findings)
    assert run(shell, "%compare scaled:plain scaled:ascend").first
    assert run(shell, "%passes scaled:ascend") is not None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%why mm --target hexagon", "`hexagon`"),
        ("%auto mm --target hexagon", "`hexagon`"),
        ("%machine --target metal", "`metal`"),
        ("%machine --target opencl", "code: "),
        ("%why mm --target ascend", "`ascend`"),
        ("%auto mm --target atlas_a2", "`%asm NAME --target atlas_a2`"),
        ("%auto mm:plain", "`mm` is one; %auto makes a version of it and takes none"),
        ("%tune mm:plain --trials 1", "`mm` is one; %tune makes a version of it"),
        ("%tune running --trials 1", "`running` has TE schedules alone: `%auto running`"),
    ],
)
def test_targets_and_versions_that_are_refused(
    shell: Any, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, CELL)
    run(shell, "%%tensor running -q\nX: float32[8, 9]\nY[i, k] = cumsum(X[i, k], over=k)")
    assert not shell.run_cell(line).success
    assert words in " ".join("".join(capsys.readouterr()).split())


def test_an_unknown_processor_is_called_so(shell: Any) -> None:
    run(shell, CELL)
    text = run(shell, "%why mm --target 'llvm -mtriple=mips64-linux-gnu'").text(False)
    assert "nothing is known of `mips64`: the numbers are for a common processor in its place" in text
    assert "not measured: it is explained for" in text
    assert "nothing is known" not in run(shell, "%why mm --target aarch64").text(False)


def test_no_point_is_above_its_roof() -> None:
    """What is faster than a memory came from a nearer one; threads have a roof each."""
    why_module = importlib.import_module("tvmagic.notebook.why")
    explanation = explain(operator("line", "A: float32[300000]\nB[i] = A[i] * 2"), llvm=False)
    row = replace(
        explanation.loops[0], bytes={"L1": 2_400_000, "L2": 2_400_000, "L3": 2_400_000, "memory": 0}, share=1.0
    )
    reach = {"L1": 4e11, "L2": 2e11, "L3": 1e11, "memory": 1e10}
    made = peaks.Peaks(1e11, 1e10)
    for seconds, level in ((2e-4, "L3"), (2e-5, "L2"), (8e-6, "L1")):
        point = why_module.roof_point(row, seconds, made, reach)
        assert point.level == level and point.share(made.flops, reach) <= 1
    twice = why_module.roof_point(replace(row, threads=2.0), 2e-5, made, reach)
    assert twice.level == "L3" and twice.flops == row.flops / 2e-5 / 2


def test_what_is_reached_is_measured_if_a_call_is() -> None:
    """A call that takes four times as long as by the model reaches a quarter of what it would."""
    why_module = importlib.import_module("tvmagic.notebook.why")
    explanation = explain(operator("line", "A: float32[3000000]\nB[i] = A[i] * 2"), llvm=False)
    explanation.findings[:] = [Finding("at-roof", "`B` is at the roof", 1, 1, "", 1.0)]
    expected = explanation.cycles / why_module.hertz_of(explanation.machine, peaks.measured_peaks())
    shares = []
    for times in (0.5, 1, 4):
        rows = why_module.explanation_view(explanation, times * expected).parts[0].rows
        shares.append(rows[0][3])
    assert shares[0] == shares[1] == f"{explanation.loops[0].roof_share:.0%}"
    assert int(shares[2][:-1]) == pytest.approx(int(shares[0][:-1]) / 4, abs=1)
    why_module.withdraw_limit(explanation, 4 * expected, None)
    assert not explanation.findings
