"""A saved notebook whose outputs share their script: live wherever the output that has it is, else readable, with a word why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from test_editors import POLICY, RENDER

from tvmagic.notebook.commands import passes
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule
from tvmagic.share import main, share_scripts

WHY = "The script of the live view is in an output that is not on this page"


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    """The HTML that three `%passes` cells save."""
    made = []
    for name in ("first", "second", "third"):
        op = operator(name, "A: float32[64]\nB[i] = A[i] * 2")
        version = schedule(op, "x, y = s[B].split(s[B].op.axis[0], factor=8)\ns[B].vectorize(y)")
        made.append(passes(version).html())
    return made


def notebook(outputs: list[str]) -> Any:
    made = nbformat.v4.new_notebook()
    for html in outputs:
        shown = nbformat.v4.new_output("display_data", {"text/html": html, "text/plain": "steps"})
        made.cells.append(nbformat.v4.new_code_cell("%passes", outputs=[shown]))
    return made


def pages(made: Any) -> list[str]:
    return ["".join(cell["outputs"][0]["data"]["text/html"]) for cell in made["cells"]]


@pytest.fixture
def shared(outputs: list[str]) -> list[str]:
    made = notebook(outputs)
    share_scripts(made)
    return pages(made)


def test_the_first_output_keeps_the_script(outputs: list[str], shared: list[str]) -> None:
    assert shared[0] == outputs[0]
    assert all(len(b) < len(a) - 15_000 for a, b in zip(outputs[1:], shared[1:]))
    made = notebook(shared)
    share_scripts(made)
    assert pages(made) == shared, "twice is as once"
    rerun = notebook([shared[0], outputs[1], shared[2]])  # the second cell ran again
    share_scripts(rerun)
    assert pages(rerun) == shared
    gone = notebook([outputs[1], outputs[2]])  # the first cell was deleted before
    share_scripts(gone)
    assert pages(gone) == [outputs[1], shared[2]]


def test_a_file_is_rewritten_and_stays_trusted(
    outputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from nbformat.sign import NotebookNotary

    (tmp_path / "data").mkdir()
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "saved.ipynb"
    nbformat.write(notebook(outputs), path)
    notary = NotebookNotary(data_dir=str(tmp_path / "data"))
    assert main([str(path)]) == 0
    assert not notary.check_signature(nbformat.read(path, as_version=4)), "nobody trusted it"
    nbformat.write(notebook(outputs), path)
    notary.sign(nbformat.read(path, as_version=4))
    assert main([str(path)]) == 0
    assert notary.check_signature(nbformat.read(path, as_version=4))
    notary.store.close()
    assert isinstance(json.loads(path.read_text())["cells"][1]["outputs"][0]["data"]["text/html"], list)
    written = path.read_text()
    nbformat.write(nbformat.read(path, as_version=4), path)
    assert path.read_text() == written, "as Jupyter writes it"
    assert "kB, now" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '{"cells": [3]}', '{"cells": [{"outputs": [{"data": {"text/html": 1}}]}]}']
)
def test_what_is_no_notebook_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "saved.ipynb"
    path.write_text(text)
    assert main([str(path)]) == 1 and main([str(tmp_path / "none.ipynb")]) == 1
    assert "`" + str(path) + "`" in capsys.readouterr().err
    assert path.read_text() == text


# ---------------------------------------------------------------------------- in a browser

PUT = """html => document.body.append(document.createRange().createContextualFragment(html))"""


@pytest.mark.browser
def test_a_page_of_nbconvert_is_live_throughout(page: Any, shared: list[str], tmp_path: Path) -> None:
    from nbconvert import HTMLExporter

    (tmp_path / "saved.html").write_text(HTMLExporter().from_notebook_node(notebook(shared))[0], encoding="utf-8")
    page.goto((tmp_path / "saved.html").as_uri(), wait_until="domcontentloaded")
    page.locator(".tm-stepper").nth(2).wait_for()
    last = page.locator(".tm-stepper").nth(2)
    last.get_by_role("button", name="Next").click()
    assert "step 2 of" in last.locator(".tm-count").first.inner_text()
    assert page.get_by_text(WHY).count() == 0


@pytest.mark.browser
def test_outputs_come_in_any_order(page: Any, shared: list[str], screenshot: Any) -> None:
    """As where cells out of sight are not in the page, until somebody scrolls to them."""
    page.clock.install()
    page.set_content('<!DOCTYPE html><title>t</title><body data-jp-theme-light="true">')
    page.evaluate(PUT, shared[2])
    page.evaluate(PUT, shared[1])
    page.clock.fast_forward(1000)
    assert page.get_by_text(WHY).count() == 0, "it may come"
    page.clock.fast_forward(3000)
    assert page.get_by_text(WHY).count() == 2
    steps = page.locator("details.tm-step")
    assert steps.count() > 20 and steps.first.is_visible(), "the steps are there as text"
    screenshot(page, "shared_without_script")
    page.evaluate(PUT, shared[0])
    page.locator(".tm-stepper").nth(2).wait_for()
    assert page.get_by_text(WHY).count() == 0 and steps.count() == 0


@pytest.mark.browser
def test_a_single_output_in_a_frame_of_its_own_is_readable(page: Any, shared: list[str], outputs: list[str]) -> None:
    """Or copied into another notebook; and live as soon as its cell, or another, runs there."""
    page.clock.install()
    page.set_content("<!DOCTYPE html><title>t</title><body>")
    page.evaluate(PUT, shared[1])
    page.clock.fast_forward(4000)
    assert page.get_by_role("status").inner_text().startswith("These are the steps as text.")
    page.evaluate(PUT, outputs[2])
    page.locator(".tm-stepper").nth(1).wait_for()
    assert page.get_by_text(WHY).count() == 0


@pytest.mark.browser
def test_it_is_live_in_the_frame_of_vs_code(page: Any, shared: list[str]) -> None:
    head = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    page.set_content(
        f'<!DOCTYPE html><html><head>{head}</head><body data-vscode-theme-kind="vscode-dark"><div id="output"></div>'
    )
    for html in reversed(shared):
        page.evaluate(RENDER, html)
    page.locator(".tm-stepper").nth(2).wait_for()
    assert page.locator("details.tm-step").count() == 0


@pytest.mark.browser
def test_without_scripts_all_is_text(browser: Any, shared: list[str]) -> None:
    """As a policy without `unsafe-inline` has it, or a notebook that is not trusted."""
    context = browser.new_context()
    page = context.new_page()
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'"
    body = f'<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="{policy}"><title>t</title>{"".join(shared)}'
    page.route("http://localhost/**", lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto("http://localhost/")
    assert page.locator(".tm-stepper").count() == 0
    for output in page.locator(".tm-live").all():
        assert output.locator("details.tm-step").count() > 8
        assert "T.float32(2.0)" in output.inner_text()
    context.close()
