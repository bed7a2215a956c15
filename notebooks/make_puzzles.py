"""Write the notebooks of puzzles, from the files of the puzzles alone; `run.py` fills in their outputs.

    python notebooks/make_puzzles.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tvmagic.puzzles import Puzzle, puzzles

FOLDER = Path(__file__).parent / "puzzles"

# The first puzzle of each notebook, the notebook's name, title and what it is about.
CHAPTERS = [
    (1, "1_loops", "Puzzles: loops", "Split, fuse, reorder, tile and vectorize: one loop nest, and the order in which it is run."),
    (7, "2_stages", "Puzzles: stages", "Where a tensor between two others is computed, and how much of it is kept."),
    (13, "3_sums", "Puzzles: sums", "Reductions, registers and intrinsics, up to a product of matrices with everything at once."),
    (19, "4_reading", "Puzzles: reading programs", "Predict, find the fault, undo it; then the same on CINN and Ascend."),
]

HOW = """
Each puzzle is two cells. The first shows the task, with hints and a solution that unfold; the second is for your answer. Change it
and run it: the answer is judged at once. It has to be legal, equal to NumPy, and within bounds on what the lowered program does.
No clock decides, so the verdict is the same on every machine. A wrong answer gets the hint that fits it.

Afterwards `%passes puzzle1` steps through your answer to puzzle 1, and `%puzzle` lists what you have solved; that is kept between
sessions.
"""


def cells_of(puzzle: Puzzle) -> list[Any]:
    """The cells of a puzzle: its heading, the task, the answer to begin with."""
    answer = f"%%puzzle {puzzle.address}\n{puzzle.start.strip()}"
    return [new_markdown_cell(f"## {puzzle.number}. {puzzle.title}"), new_code_cell(f"%puzzle {puzzle.address}"), new_code_cell(answer)]


def notebook(title: str, about: str, members: list[Puzzle]) -> Any:
    """A notebook without outputs."""
    head = [new_markdown_cell(f"# {title}\n\n{about}\n{HOW.rstrip()}"), new_code_cell("%load_ext tvmagic")]
    cells = [*head, *(cell for puzzle in members for cell in cells_of(puzzle)), new_code_cell("%puzzle")]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # the same whenever it is written
    metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}}
    return new_notebook(cells=cells, metadata={**metadata, "language_info": {"name": "python"}})


def notebooks() -> dict[str, Any]:
    """All notebooks by the names of their files."""
    ends = [first for first, *_ in CHAPTERS[1:]] + [10**9]
    return {
        f"{name}.ipynb": notebook(title, about, [p for p in puzzles() if first <= p.number < end])
        for (first, name, title, about), end in zip(CHAPTERS, ends)
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, made in notebooks().items():
        nbformat.write(made, FOLDER / name)
        print(f"notebooks/puzzles/{name}: {len(made.cells)} cells")
