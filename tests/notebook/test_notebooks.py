"""Every tutorial runs from top to bottom in a fresh kernel and gives the outputs that are saved; the first proves its claims."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from loaded_file import load
from sampling import some

FOLDER = Path(__file__).parents[2] / "notebooks"
TUTORIALS = sorted(FOLDER.glob("*.ipynb"))
# Those that the normal tests run: the first steps, TensorIR, Ascend, names of TVM, schedules by rules.
SAMPLE = ("01", "06", "08", "10", "12")
NOTEBOOKS = [*TUTORIALS, *sorted((FOLDER / "puzzles").glob("*.ipynb"))]


def runner() -> Any:
    return load(FOLDER / "run.py")


# sentences of `%bench` that depend on the times, on the machine and on what else it does, and the unit of its rates
OPEN = re.compile(
    r"\n?the processors were shared: [^\n]*? when nothing else runs|"
    r"\S+ against [^;\n]*; which of them is faster is open[^\n]*\n?|(?:GFLOP/s|GB/s): [^\n]*\n?|GFLOP/s|GB/s"
)
NUMBER = re.compile(r"\d[\d.,]*(?:e[-+]?\d+)?(?: ?(?:s|ms|us|ns)\b)?")
SCALAR = re.compile(r"np\.float\d+\(([^()]*)\)")  # which NumPy 1 shows without its type


def shown(notebook: Any) -> dict[str, list[str]]:
    """The lines that the cells print, by the cell's source, without what differs from run to run and from machine to machine.

    That is: numbers and their padding, which of two near times is less, machine code of this machine, and cells tagged
    `varies`.
    """
    result: dict[str, list[str]] = {}
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or "varies" in cell.metadata.get("tags", []):
            continue
        texts = [o.text if o.output_type == "stream" else words(o.get("data", {})) for o in cell.outputs]
        common = OPEN.sub("", re.split(r"\n *\d+\. codegen\.", "\n".join(texts))[0])
        common = NUMBER.sub("#", SCALAR.sub(r"\1", common))
        lines = re.sub(r"[ -]+", " ", common).splitlines()
        result[f"{number}: {cell.source}"] = [
            line for line in lines if line.strip()
        ]  # a sentence that is open leaves one
    return result


def words(data: Any) -> str:
    """An output's text, and what its static page says: programs before and after each step, up to the machine code."""
    page = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", data.get("text/html", ""))
    page = re.sub(r"<summary>(?=\d+\. )", "\n", page)
    return f"{data.get('text/plain', '')}\n{html.unescape(re.sub(r'<[^>]*>', ' ', page))}"


@pytest.mark.soak
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore")
def test_the_whole_notebook_runs(path: Path) -> None:
    pytest.importorskip("nbclient", reason="the tutorials need `nbclient`: pip install .[notebooks]")
    executed = runner().execute(path)
    assert shown(executed) == shown(nbformat.read(path, as_version=4)), "stale outputs: run `make notebooks`"


@pytest.mark.parametrize("path", some(TUTORIALS, [p for p in TUTORIALS if p.stem[:2] in SAMPLE]), ids=lambda p: p.stem)
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs(path: Path, tmp_path: Path) -> None:
    """All but the cells with the tag `slow`; the notebooks of puzzles run in `test_puzzle_view.py`, without a kernel."""
    for package in ("nbclient", "sklearn", "matplotlib"):
        pytest.importorskip(package, reason=f"the tutorials need `{package}`: pip install .[notebooks]")
    run = runner()
    executed = run.execute(path, leave_out="slow")
    assert shown(executed) == shown(nbformat.read(path, as_version=4)), "stale outputs: run `make notebooks`"
    page = run.save_page(executed, path.stem, tmp_path)
    assert page.stat().st_size > 10_000
    if path.stem == "01_first_steps":
        printed = run.tagged_text(executed, "results")
        assert "predicted classes equal to scikit-learn's: True" in printed
        difference = float(printed.split("difference of a probability to scikit-learn: ")[1].split()[0])
        assert difference < 1e-5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_saved_outputs_need_no_widgets_and_name_no_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    outputs = [o for c in notebook.cells if c.cell_type == "code" for o in c.outputs]
    assert outputs, "run `make notebooks` and save the outputs"
    for output in outputs:
        assert output.output_type != "error"
        assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {}), "gone when it is opened again"
    text = path.read_text(encoding="utf-8")
    assert "/home/" not in text and "/root/" not in text and "site-packages" not in text
