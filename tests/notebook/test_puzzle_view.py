"""Puzzles in the notebook: the magic, what it shows, and the notebooks that are made of the puzzles."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tvmagic.operators import Operator
from tvmagic.puzzles import puzzle, puzzles

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = ["1_loops.ipynb", "2_stages.ipynb", "3_sums.ipynb", "4_reading.ipynb"]
COUNT = len(puzzles())


@pytest.fixture(autouse=True)
def progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVMAGIC_PROGRESS", str(tmp_path / "puzzles.json"))
    return tmp_path / "puzzles.json"


def shown(shell: Any, cell: str) -> Any:
    result = shell.run_cell(cell)
    assert result.success, result.error_in_exec
    return result.result


def test_the_way_through_a_puzzle(shell: Any, progress: Path) -> None:
    assert f"0 of {COUNT} puzzles solved" in shown(shell, "%puzzle").text()
    task = shown(shell, "%puzzle 1")
    assert "inner one runs 16 times" in task.text() and "exactly 16" in task.text()
    page = task.html()
    assert page.count("<details>") == 4 and "<script" not in page and "factor=16" in re.sub("<[^>]*>", "", page)
    assert "factor=16" not in task.text(), "a terminal cannot fold the solution"
    assert isinstance(shell.user_ns["puzzle1"], Operator)

    begun = shown(shell, f"%%puzzle 1\n{puzzle(1).start}")
    assert "waits for your answer" in begun.text() and "Hint" not in begun.text() and not progress.exists()
    wrong = shown(shell, "%%puzzle 1\ns[Y].split(s[Y].axis[0], nparts=16)")
    assert "not solved yet" in wrong.text() and "`factor` is how often the inner loop runs" in wrong.text()
    refused = shown(shell, "%%puzzle 1\ny = s[Y]\ny.split(16)").text()
    assert "ScheduleError" in refused and "in %%puzzle 1, line 3:" in refused
    solved = shown(shell, f"%%puzzle 1\n{puzzle(1).solution}")
    assert "solved" in solved.text() and "■□" in solved.text() and f"1 of {COUNT}" in solved.text()
    assert "for i_outer, i_inner in" in re.sub("<[^>]*>", "", solved.html()) and "tvmagic/" not in solved.html()
    assert [s.name for s in shown(shell, "%passes puzzle1 -p InferBound").view.steps] == ["te.InferBound"]

    assert "at answer 3" in shown(shell, "%puzzle").text()
    assert "✓" in shown(shell, "%puzzle 1").text()
    assert f"0 of {COUNT}" in shown(shell, "%puzzle --forget").text()


def test_hints_come_one_after_the_other(shell: Any) -> None:
    hints = list(puzzle(2).hints.values())
    got = [shown(shell, "%puzzle 2 --hint").text() for _ in range(4)]
    assert [next(i for i, h in enumerate(hints) if h in text) for text in got] == [0, 1, 2, 2]
    assert hints[1] in shown(shell, "%puzzle 2 --hint 2").text()
    assert puzzle(2).solution.strip() in shown(shell, "%puzzle 2 --solution").text(colour=False)


def test_the_start_is_written_as_a_cell(shell: Any) -> None:
    written: list[str] = []
    shell.set_next_input = lambda text, replace=False: written.append(text)
    shown(shell, "%puzzle 2 --cell")
    assert written == [f"%%puzzle 2\n{puzzle(2).start.strip()}\n"]


def test_what_does_not_exist_is_refused(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for cell, message in (
        ("%puzzle 99", "code: puzzle.unknown"),
        ("%puzzle nowhere.py", "cannot be read"),
        ("%%puzzle\ns", "which puzzle is it"),
        ("%puzzle 1 --hint 9", "puzzle 1 has no hint 9"),
        ("%puzzle 1 --hnt", "did you mean `--hint`"),
    ):
        assert not shell.run_cell(cell).success
        captured = capsys.readouterr()
        assert message in captured.out + captured.err and "Traceback" not in captured.out + captured.err


def test_an_answer_may_use_the_names_of_the_notebook(shell: Any) -> None:
    shown(shell, "width = 16")
    assert "solved" in shown(shell, "%%puzzle 1\ns[Y].split(s[Y].axis[0], factor=width)").title


def test_what_an_answer_contains_is_escaped(shell: Any) -> None:
    page = shown(shell, "%%puzzle 1\ns[Y].split('<script>alert(1)</script>')").html()
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_numbers_complete(shell: Any) -> None:
    from tvmagic.notebook.completion import candidates
    from tvmagic.notebook.magics import TensorMagics

    assert "24" in candidates("%%puzzle 2", TensorMagics(shell)) and "--hint" in candidates(
        "%puzzle 7 --h", TensorMagics(shell)
    )


# ---------------------------------------------------------------------------- the notebooks


def test_the_notebooks_of_puzzles_show_what_is_saved(shell: Any) -> None:
    """They run in this process, so that their texts are compared; `make soak` runs them in kernels."""
    for name in NAMES:
        for cell in nbformat.read(FOLDER / "puzzles" / name, as_version=4).cells:
            if cell.cell_type == "code":
                result = shown(shell, cell.source)
                saved = [o["data"]["text/plain"] for o in cell.outputs]
                assert ([result.text(colour=False)] if result is not None else []) == saved, "run `make notebooks`"


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_every_puzzle_is_in_a_notebook_as_its_file_has_it() -> None:
    made = module("make_puzzles").notebooks()
    assert sorted(made) == NAMES == sorted(p.name for p in (FOLDER / "puzzles").glob("*.ipynb"))
    for name, notebook in made.items():
        saved = nbformat.read(FOLDER / "puzzles" / name, as_version=4)
        sources = [[(c.cell_type, c.source) for c in n.cells] for n in (notebook, saved)]
        assert sources[0] == sources[1], "run `make notebooks`"
    cells = "\n".join(c.source for n in made.values() for c in n.cells)
    assert all(f"%%puzzle {p.number}\n" in cells for p in puzzles())
