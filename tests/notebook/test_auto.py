"""`%auto` and `%machine`: the instant schedule as a version and as a cell, the machine as a table and a roofline."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from cells_in_shell import run

from tvmagic.notebook.machine import auto, machine
from tvmagic.notebook.pictures.roofline import Point, roofline
from tvmagic.operators import operator
from tvmagic.operators.peaks import Peaks, measured_peaks

MATMUL = """%%tensor matmul -q
A: float32[96, 64]
B: float32[64, 80]
C[i, j] += A[i, k] * B[k, j]
D[i, j] = max(C[i, j], 0)
"""


pytestmark = pytest.mark.usefixtures("own_cache")


def test_auto_makes_a_version_with_its_steps_and_reasons(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, MATMUL)
    run(shell, "%auto matmul --check")
    out = capsys.readouterr().out
    assert "registers for sums" in out and "equal to NumPy" in out
    op = shell.user_ns["matmul"]
    assert op.current.name == "auto"
    steps = [s.name for s in op.current.record if s.kind == "schedule"]
    assert any(name.startswith("sch.vectorize(") for name in steps)


def test_auto_as_a_cell_runs_as_it_is(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, MATMUL)
    run(shell, "%auto matmul --cell --name mine")
    text = shell.rl_next_input
    assert text.startswith("%%schedule matmul --name mine\n") and "# " in text and "sch.split(" in text
    assert "matmul" in shell.user_ns and not shell.user_ns["matmul"].versions
    run(shell, text.replace("--name mine", "--name mine -q --check"))
    assert "equal to NumPy" in capsys.readouterr().out
    assert shell.user_ns["matmul"].current.name == "mine"


def test_auto_for_another_processor() -> None:
    op = operator("f", "A: float32[1024, 1024]\nB: float32[1024, 1024]\nC[i, j] += A[i, k] * B[k, j]")
    old, new = auto(op, "llvm -mcpu=haswell").text(), auto(op, "llvm -mcpu=znver5").text()
    assert "of 8:" in old and "of 16 registers" in old and "of 16:" in new and "of 32 registers" in new


def test_a_wrong_line_of_auto(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, MATMUL)
    assert not shell.run_cell("%auto matmull").success
    assert "did you mean `matmul`?" in capsys.readouterr().err
    assert not shell.run_cell("%auto matmul --name a/b").success


def test_the_machine_is_a_table_and_a_roofline(shell: Any, own_cache: pathlib.Path) -> None:
    run(shell, MATMUL)
    shown = run(shell, "%machine matmul --target 'llvm -mcpu=haswell'")
    text = shown.text()
    assert "256 bits, 16 registers" in text and "100 GFLOP/s" in text and "matmul:" in text and "of its roof" in text
    assert "<svg" in shown.html() and "operations per byte" in shown.html()
    assert "tile of a product" in text
    kept = json.loads((own_cache / "machine.json").read_text())
    assert [1e11, 2e10] in kept.values()


def test_a_machine_whose_code_does_not_run_here_is_a_table_alone() -> None:
    text = machine("llvm -mtriple=aarch64-linux-gnu -mcpu=apple-m1").text()
    assert "128 bits, 32 registers" in text and "GFLOP/s" not in text


def test_peaks_are_measured_once(own_cache: pathlib.Path) -> None:
    assert measured_peaks("llvm") == Peaks(1e11, 2e10)
    path = own_cache / "machine.json"
    assert measured_peaks("llvm", again=True).flops == 1e11
    for damaged in ("[1, 2", '{"x": [1], "y": "z"}'):
        path.write_text(damaged)
        assert measured_peaks("llvm").flops == 1e11


def test_a_roofline_names_and_escapes_its_points() -> None:
    picture = roofline(Peaks(1e11, 1e10), [Point("<f>", 100.0, 5e10)], "Roofline")
    assert "<f>: 100 operations per byte from memory, 50 GFLOP/s, 50% of its roof" in picture.text()
    assert "&lt;f&gt;" in picture.svg and "<f>" not in picture.svg


def test_what_a_cache_holds_is_under_the_roof_of_that_cache() -> None:
    points = [Point("near", 0.5, 2e10, "L2"), Point("far", 0.5, 2e9)]
    picture = roofline(Peaks(1e11, 1e10), points, "Roofline", {"L1": 2e11, "L2": 8e10, "L3": 4e10})
    assert "near: 0.5 operations per byte from L2, 20 GFLOP/s, 50% of its roof" in picture.text()
    assert "far: 0.5 operations per byte from memory, 2 GFLOP/s, 40% of its roof" in picture.text()
    assert "80 GB/s from L2" in picture.text() and "L1" not in picture.text()
    assert ">L2<" in picture.svg and ">L3<" not in picture.svg


def test_slow_plain_loops_say_once_that_auto_exists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    op = operator("slow", "A: float32[4]\nB[i] = A[i] + 1")
    inputs = op.random_inputs()
    op(*inputs)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.modules["tvmagic.operators.version"], "SLOW_SECONDS", 0.0)
    op(*inputs)
    op(*inputs)
    err = capsys.readouterr().err
    assert err.count("%auto slow") == 1 and err.count("\n") == 1
