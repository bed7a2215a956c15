"""Notebooks and pages of version 0.1.0: saved outputs step without a kernel, next to new ones, and their cells run."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tvmagic.notebook.commands import passes
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.share import share_scripts

OLD = Path(__file__).parents[1] / "fixtures" / "0.1.0"
CALLS = "i, j = Y.op.axis\ns[H].compute_at(s[Y], i)\ns[Y].vectorize(j)"


@pytest.fixture
def old() -> Any:
    return nbformat.reads(lzma.decompress((OLD / "notebook.ipynb.xz").read_bytes()).decode(), as_version=4)


def opened(notebook: Any, page: Any, path: Path, count: int) -> Any:
    """The steppers of a notebook that is opened without a kernel, of which there are `count`."""
    from nbconvert import HTMLExporter

    path.write_text(HTMLExporter().from_notebook_node(notebook)[0], encoding="utf-8")
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    page.locator(".tm-stepper").nth(count - 1).wait_for()
    return page.locator(".tm-stepper")


def steps(stepper: Any) -> list[str]:
    """The labels of all steps, by the button that goes on."""
    selected, labels = stepper.locator('.tm-list [aria-selected="true"] .tm-label'), []
    for _ in range(stepper.locator(".tm-list .tm-label").count()):
        labels.append(selected.text_content().split(" [")[0])
        stepper.get_by_role("button", name="Next").click(force=True)
    return labels


def has_all(labels: list[str]) -> bool:
    """Whether the calls of the schedule and the passes after them are stepped through."""
    return labels[:2] == CALLS.split("\n")[1:] and "tir.VectorizeLoop" in labels


@pytest.mark.browser
@pytest.mark.parametrize("is_shared", [False, True])
def test_saved_outputs_step(old: Any, page: Any, tmp_path: Path, is_shared: bool) -> None:
    if is_shared:
        share_scripts(old)
    steppers = opened(old, page, tmp_path / "old.html", 1)
    assert steppers.count() == 1 and has_all(steps(steppers.first))


@pytest.mark.browser
@pytest.mark.parametrize("is_shared", [False, True])
def test_saved_outputs_step_next_to_new_ones(old: Any, shell: Any, page: Any, tmp_path: Path, is_shared: bool) -> None:
    data = (
        passes(schedule(operator("dense", old.cells[1].source.split("\n", 1)[1]), CALLS)).stepper()._repr_mimebundle_()
    )
    cell = nbformat.v4.new_code_cell("%passes dense", outputs=[nbformat.v4.new_output("display_data", data=data)])
    old.cells.append(cell)
    if is_shared:
        share_scripts(old)
    steppers = opened(old, page, tmp_path / "both.html", 2)
    assert steppers.count() == 2
    assert has_all(steps(steppers.nth(0))) and has_all(steps(steppers.nth(1)))


def test_old_cells_run(old: Any, shell: Any) -> None:
    for cell in old.cells[1:]:
        result = shell.run_cell(cell.source)
        assert result.success
    assert "rows" in shell.user_ns["dense"].versions


@pytest.mark.browser
def test_old_page_computes_and_steps(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(lzma.decompress((OLD / "page.html.xz").read_bytes()))
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelector('.tm-run:enabled')")
    page.get_by_role("button", name="Run").click()
    status = page.locator(".tm-playground > .tm-controls [role=status]")
    page.wait_for_function(
        "document.querySelector('.tm-playground > .tm-controls [role=status]').textContent.includes('equal to')"
    )
    assert status.inner_text() == "equal to the reference: 8 values, to the last bit"
    assert steps(page.locator(".tm-stepper"))[-1] == "codegen.assembly"
