"""`%prove` and `--prove`: what a reader sees of a proof."""

from __future__ import annotations

from typing import Any

import pytest
from cells_in_shell import run
from refusals import refuses

from tvmagic import notebook

TENSOR = "%%tensor mm -q\nA: float32[8, 12]\nC[i] += A[i, k] * 1.5"
SCHEDULE = "i, k = s[C].op.axis[0], s[C].op.reduce_axis[0]\nko, ki = s[C].split(k, 4)\ns[C].reorder(ko, i, ki)"


def test_proof_is_one_line_and_grouped_steps(shell: Any) -> None:
    run(shell, TENSOR)
    shown = run(shell, "%prove mm")
    assert shown.proof.proved and "steps proved for all inputs of these sizes" in shown.title
    assert len(shown.rows) == 1 and shown.rows[0][0] == "=" and "tm-ok" in shown.html()
    assert notebook.prove(shell.user_ns["mm"]).text() == shown.text()
    (row,) = run(shell, "%prove mm --terms C[3]").rows
    assert "A[3, 0] * 1.5" in row[2]
    with refuses("prove.unknown_element"):
        notebook.prove(shell.user_ns["mm"], element="D[3]")


def test_schedule_cell_marks_its_timeline(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, TENSOR)
    capsys.readouterr()
    run(shell, f"%%schedule mm --prove --name blocked\n{SCHEDULE}")
    text = capsys.readouterr().out
    assert "mm (blocked): " in text and "bit for bit" in text
    assert "= proved bit for bit" in text, "the steps of the timeline have marks"


def test_wrong_edit_is_refuted_with_both_terms(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, TENSOR)
    run(shell, "%program mm UnrollLoop")
    first, _, cell = shell.rl_next_input.partition("\n")
    shell.set_next_input("")
    capsys.readouterr()
    assert shell.run_cell(f"{first} --prove -q\n{cell.replace('1.5', '1.50000012')}").success
    text = capsys.readouterr().out
    assert "mm (edited): refuted: edit after tir.UnrollLoop, at C[0]" in text
    assert "by the definition: A[0, 0] * 1.5 " in text
