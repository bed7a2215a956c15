"""The stepper in a real Chromium: JupyterLab 4, Notebook 7, a page saved and opened alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

DEFINE = """%load_ext tvmagic"""
TENSOR = """%%tensor dense
X: float32[128, 256]
W: float32[64, 256]
b: float32[64]
Y[i, j] += X[i, k] * W[j, k]
Z[i, j] = max(Y[i, j] + b[j], 0)"""
SCHEDULE = """%%schedule dense --check
y, z = s[Y], s[Z]
io, jo, ii, ji = z.tile(*z.axis, 32, 32)
y.compute_at(z, jo)
z.vectorize(ji)"""


def notebook(folder: Path, name: str, *cells: str) -> str:
    made = nbformat.v4.new_notebook()
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made.cells = [nbformat.v4.new_code_cell(c) for c in cells]
    nbformat.write(made, folder / name)
    return name


def run_all(page: Any, address: str) -> Any:
    """Open a notebook, run all its cells, and give the stepper that appears."""
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    page.wait_for_function("() => !document.querySelector('.jp-Dialog')", timeout=20_000)
    page.click(".jp-Notebook .jp-Cell .cm-content")
    page.keyboard.press("Escape")
    page.click("text=Run >> nth=0")
    page.click('[data-command="runmenu:run-all"]')
    stepper = page.locator(".tm-stepper").first
    stepper.wait_for(timeout=90_000)
    return stepper


def current(stepper: Any) -> str:
    return stepper.locator('.tm-list [aria-selected="true"] .tm-label').inner_text()


@pytest.fixture
def lab_stepper(lab: Any, page: Any) -> Any:
    notebook(lab.folder, "one.ipynb", DEFINE, TENSOR, SCHEDULE)
    return run_all(page, lab.url("lab/tree/one.ipynb"))


def test_steps_by_key_and_by_click_in_jupyterlab(lab_stepper: Any, page: Any, screenshot: Any) -> None:
    first = current(lab_stepper)
    assert first.startswith("z.tile(")
    screenshot(lab_stepper, "lab_first_step")
    lab_stepper.locator(".tm-view").focus()
    page.keyboard.press("ArrowRight")
    assert current(lab_stepper).startswith("y.compute_at(")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert current(lab_stepper).startswith("y.compute_at(")
    lab_stepper.get_by_role("button", name="Next").click()
    assert current(lab_stepper).startswith("z.vectorize(")
    lab_stepper.locator("li", has_text="InferBound").click()
    assert "InferBound" in current(lab_stepper)
    assert lab_stepper.locator(".tm-notes table").count() >= 1
    screenshot(lab_stepper, "lab_infer_bound")
    assert float(lab_stepper.get_attribute("data-render-ms")) < 50
