"""Without LLVM, as in Pyodide: everything but machine code works. Each test runs in a process that cannot import llvmlite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKED = """
import sys
import importlib.abc

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "wasmtime"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Blocked())
"""
LOWERED = """
from tvmagic import notebook
from tvmagic.errors import BuildError
from tvmagic.operators import operator
from tvmagic.operators.scheduling import schedule

op = operator("dense", "X: float32[16, 32]\\nW: float32[8, 32]\\nY[i, j] += X[i, k] * W[j, k]\\nZ[i, j] = max(Y[i, j], 0)")
op.add_version(schedule(op, "y, z = s[Y], s[Z]\\nio, jo, ii, ji = z.tile(*z.axis, 8, 4)\\ny.compute_at(z, jo)\\nz.vectorize(ji)"))
shown = notebook.passes(op)
names = [step.name for step in shown.record]
assert names[:3] == ["z.tile(*z.axis, 8, 4)", "y.compute_at(z, jo)", "z.vectorize(ji)"] and "tir.VectorizeLoop" in names
assert not any(name.startswith("codegen") for name in names)
assert "tm-live" in shown.html() and notebook.graph(op).html() and notebook.bounds(op).html()
assert op.reference(*op.random_inputs()).shape == (16, 8)
try:
    op(*op.random_inputs())
except BuildError as error:
    assert "has no LLVM" in str(error) and "notebook.page" in error.hint
else:
    raise AssertionError("it ran without code")
print("done")
"""
TUTORIALS = """
import contextlib, io, os, pathlib
import nbformat
from IPython.core.interactiveshell import InteractiveShell
from tvmagic.operators import Operator

os.environ["MPLBACKEND"] = "agg"
count = 0
for path in sorted(pathlib.Path("notebooks").resolve().glob("*.ipynb")):
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(colors="nocolor")
    os.chdir(path.parent)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        for cell in nbformat.read(path, as_version=4).cells:
            source = cell.source
            if cell.cell_type != "code" or source.startswith(("%tune", "%bench", "%machine", "%auto", "%asm", "%llvm", "%why")):
                continue
            if source.startswith("%%schedule"):
                head, _, body = source.partition("\\n")
                source = " ".join(head.split()[:2]) + " -q\\n" + body  # without --check and --time
            shell.run_cell(source)
    for name, value in shell.user_ns.items():
        if isinstance(value, Operator) and not name.startswith("_"):
            for version in (value.version("plain"), *value.versions.values()):
                assert len(value.passes(version).steps) > 5 and str(version.lower()), name
                count += 1
assert count > 30, count
print("done")
"""


def run_blocked(script: str, seconds: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": os.devnull}
    environment.pop("TVMAGIC_TARGET", None)
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + script],
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout[-2000:] + done.stderr[-3000:]


def test_operators_are_scheduled_lowered_and_shown() -> None:
    run_blocked(LOWERED, 120)


@pytest.mark.soak
def test_all_operators_and_schedules_of_the_tutorials_are_lowered() -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    run_blocked(TUTORIALS, 600)
