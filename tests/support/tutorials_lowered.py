"""All programs of the tutorials, lowered in a Python without LLVM: each operator with each of its schedules.

Run as a program (`python -m tests.support.tutorials_lowered`) or inside Pyodide. It prints a line of JSON:
`lowered` maps `02 matmul tiled` to the names and programs of its steps, `failed` maps `02:13` to the message of a
`%%tensor` or `%%schedule` cell that failed.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MISSING = ("llvmlite", "wasmtime", "sklearn", "matplotlib")  # none of them is there in Pyodide as it comes
MEASURING = ("%tune", "%bench", "%machine", "%asm", "%llvm", "%why")


class _Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named '{fullname}'", name=fullname)


def cells(path: Path) -> Iterator[tuple[str, str]]:
    """The cells of a tutorial that compute nothing, each with its place; schedules are neither checked nor measured."""
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith(MEASURING):
            continue
        if source.startswith("%%schedule"):
            head, _, body = source.partition("\n")
            name = re.search(r" -n \w+", head)
            source = " ".join(head.split()[:2]) + (name[0] if name else "") + " --quiet\n" + body
        yield f"{path.stem[:2]}:{number}", source


def steps_of(op: Any, version: Any) -> list[tuple[str, str]]:
    """The steps of a version, each with the program after it."""
    return [(step.name, str(step.after)) for step in op.passes(version)]


def lowered(look: Callable[[Any, Any], Any] = steps_of) -> tuple[dict[str, Any], dict[str, str]]:
    """What `look` gives for each version of each operator, such as its steps, and the cells that failed."""
    from IPython.core.interactiveshell import InteractiveShell

    from tvmagic.operators import Operator

    found: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        InteractiveShell.clear_instance()
        shell = InteractiveShell.instance(colors="nocolor")
        os.chdir(path.parent)
        for place, source in cells(path):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                done = shell.run_cell(source)
            if not done.success and source.startswith(("%%tensor", "%%schedule")):
                failed[place] = str(done.error_in_exec)
        for name, op in shell.user_ns.items():
            if isinstance(op, Operator) and not name.startswith("_"):
                for version in (op.version("plain"), *op.versions.values()):
                    found[f"{path.stem[:2]} {name} {version.name}"] = look(op, version)
    return found, failed


if __name__ == "__main__":
    sys.meta_path.insert(0, _Missing())
    programs, messages = lowered()
    print(json.dumps({"lowered": programs, "failed": messages}))
