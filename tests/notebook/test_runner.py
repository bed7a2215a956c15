"""`notebooks/run.py`, which runs a notebook without a browser, says which cell it is at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from loaded_file import load

PATH = Path(__file__).parents[2] / "notebooks" / "run.py"


@pytest.fixture
def runner() -> Any:
    return load(PATH)


@pytest.mark.filterwarnings("ignore")
def test_it_tells_each_cell_before_it_runs(runner: Any, tmp_path: Path) -> None:
    v4 = nbformat.v4
    cells = [
        v4.new_markdown_cell("# Title"),
        v4.new_code_cell("\n%time x = 1\nx"),
        v4.new_code_cell("y" * 100 + " = 2"),
    ]
    path = tmp_path / "two.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), path)
    told: list[str] = []
    executed = runner.execute(path, tell=told.append)
    assert told == ["   1 of 2  %time x = 1", f"   2 of 2  {'y' * 77}..."]
    assert executed.cells[1].outputs
