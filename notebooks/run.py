"""Run notebooks without a browser: execute, say what they computed, save each as a page.

    python notebooks/run.py notebooks/01_first_steps.ipynb --results
    python notebooks/run.py notebooks/*.ipynb --in-place

The pages in `build/pages` need no kernel; where scripts run the steppers in them are live.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "pages"


def execute(
    path: Path, timeout: int = 600, leave_out: str = "", tell: Callable[[str], None] | None = None
) -> Any:
    """The notebook with fresh outputs. `tell` gets a line about each cell before it runs.

    Cells with the tag `leave_out` are not run, and keep the outputs that they have.
    Raises CellExecutionError if a cell fails.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        store_widget_state=False,
        skip_cells_with_tag=leave_out,
        coalesce_streams=True,
        extra_arguments=["--log-level=40"],  # errors only: the kernel talks to nobody but this process
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=None if tell is None else lambda cell, cell_index: tell(progress(notebook, cell, cell_index)),
    )
    with tempfile.TemporaryDirectory() as folder:  # puzzles are shown as to somebody who has solved none
        client.execute(env={**os.environ, "TVMAGIC_PROGRESS": str(Path(folder) / "puzzles.json")})
    return notebook


def progress(notebook: Any, cell: Any, index: int) -> str:
    """Which of the code cells this is, and its first line."""
    before, of = (sum(c.cell_type == "code" for c in cells) for cells in (notebook.cells[:index], notebook.cells))
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    return f"  {before + 1:2} of {of}  {first if len(first) <= 80 else first[:77] + '...'}"


def tagged_text(notebook: Any, tag: str) -> str:
    """What the cells with a tag printed."""
    cells = [c for c in notebook.cells if tag in c.metadata.get("tags", [])]
    outputs = [o for cell in cells for o in cell.get("outputs", [])]
    return "".join(o.get("text", "") for o in outputs if o.output_type == "stream")


def save_page(notebook: Any, name: str, folder: Path = PAGES) -> Path:
    """The notebook as one HTML page that loads nothing from elsewhere."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(embed_images=True)
    body, _ = exporter.from_notebook_node(notebook)
    body = re.sub(r"<script[^>]*\bsrc=\"https?:[^>]*></script>", "", body)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / f"{name}.html"
    page.write_text(body, encoding="utf-8")
    return page


def without_volatile(notebook: Any) -> Any:
    """The notebook without what differs in every run: times of execution, and the states of widgets."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)
    return notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--results", action="store_true", help="print what the cells tagged `results` printed")
    parser.add_argument("--in-place", action="store_true", help="save the outputs in the notebooks")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    sys.path.insert(0, str(ROOT))
    from tvmagic.share import share_scripts

    for path in arguments.notebooks:
        path = path.resolve()
        try:
            print(f"Running {path.relative_to(ROOT)}", flush=True)
            notebook = execute(path, tell=lambda line: print(line, flush=True))
        except CellExecutionError as error:
            print(f"{path.name} failed:\n{error}", file=sys.stderr)
            return 1
        share_scripts(notebook)  # as `python -m tvmagic.share` does
        if arguments.in_place:
            nbformat.write(without_volatile(notebook), path)
        if arguments.results:
            print(tagged_text(notebook, "results").rstrip())
        page = save_page(notebook, path.stem)
        print(f"the executed page: {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
