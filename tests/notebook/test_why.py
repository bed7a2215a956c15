"""`%why`: what it shows in a notebook and in a terminal, and what is wrong with a line."""

from __future__ import annotations

import importlib
import json
import pathlib
from typing import Any

import pytest

from tvmagic.explain import explain
from tvmagic.explain.explanation import Finding
from tvmagic.notebook.display import shown
from tvmagic.operators import operator, peaks

CELL = "%%tensor mm -q\nA: float32[64, 96]\nB: float32[96, 80]\nC[i, j] += A[i, k] * B[k, j]\n"


@pytest.fixture(autouse=True)
def quick(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVMAGIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(peaks, "peak_flops", lambda target=None: 1e11)
    monkeypatch.setattr(peaks, "copy_bandwidth", lambda: 2e10)


def run(shell: Any, cell: str) -> Any:
    result = shell.run_cell(cell)
    assert result.success, result.error_in_exec or result.error_before_exec
    return result.result


def test_why_shows_a_table_findings_and_pictures(shell: Any) -> None:
    run(shell, CELL)
    found = run(shell, "%why mm")
    text, page = found.text(False), found.html()
    assert "a call, measured" in text and "reduction-order" in text and "s[C].reorder(" in text
    assert "Roofline" in text and "Bytes moved by each level" in text
    assert page.count("<svg") == 2 and "<ol>" in page and "<pre>" in page
    data = json.loads(json.dumps(found.to_json()))
    assert data["findings"][0]["code"] == "reduction-order"
    # what is proposed, pasted, runs
    run(shell, f"%%schedule mm -q --check\n{data['findings'][0]['call']}")


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


@pytest.mark.parametrize(("line", "words"), [("%why nn", "no operator `nn`"), ("%why mm:V9", "no version `V9`"), ("%why", "missing NAME")])  # fmt: skip
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
    monkeypatch.setattr(why_module, "_measured", lambda version, size: 40e-6)
    found = run(shell, "%why e")
    assert told not in found.text(False)
    monkeypatch.setattr(why_module, "_measured", lambda version, size: 1.0)
    found = run(shell, "%why e")
    assert "at-roof" not in found.text(False) and told in found.text(False)
    limit = Finding("at-roof", "`B` is at the roof", 1, 1, "", 1.0)
    for seconds, findings in ((40e-6, [limit]), (1.0, [])):
        found.explanation.findings[:] = [limit]
        why_module._doubt(found.explanation, seconds, None)
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
        ("%why mm --target hexagon", "no code is made for `hexagon`, and its vectors and caches are not known"),
        ("%auto mm --target hexagon", "no code is made for `hexagon`"),
        ("%machine --target metal", "no code is made for `metal`"),
        ("%machine --target opencl", "is no CPU"),
        ("%why mm --target ascend", "`ascend` is an NPU, for which there is the source of a kernel"),
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
