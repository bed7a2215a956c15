"""The tutorial on ComputeInline runs, and its saved outputs are what it prints."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from loaded_file import load

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbclient")
FOLDER = pathlib.Path(__file__).parents[2] / "notebooks"
NOTEBOOK = FOLDER / "07_cinn_compute_inline.ipynb"


def printed(notebook: Any) -> list[str]:
    """What each code cell printed."""
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    return ["".join(o.text for o in c.outputs if o.output_type == "stream") for c in cells]


def test_the_notebook_runs_and_prints_what_is_saved() -> None:
    done = load(FOLDER / "run.py").execute(NOTEBOOK, timeout=120)
    texts = printed(done)
    assert texts == printed(nbformat.read(NOTEBOOK, as_version=4))
    assert any("C[i0, i1, i2] = (2 * (1 + A[i1, i0, i2]))" in text for text in texts)
