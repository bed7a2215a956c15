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
import tvmagic
from tvmagic import notebook
from tvmagic.target import Target
from tvmagic.auto import auto
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
for needs_code in (lambda: op(*op.random_inputs()), lambda: notebook.tune(op, seconds=1), lambda: notebook.asm(op)):
    try:
        needs_code()
    except BuildError as error:
        assert "has no LLVM" in str(error) and "notebook.page" in error.hint
    else:
        raise AssertionError("it ran without code")

# Processors are described without LLVM, and schedules made for them; OpenCL C needs none either.
assert tvmagic.target.default_target().tile().lanes >= 2
named = [("haswell", 256), ("skylake-avx512", 512), ("apple-m1", 128), ("z15", 128)]
assert [Target(f"llvm -mcpu={name}").machine.vector_bits for name, _ in named] == [bits for _, bits in named]
assert "T.vectorized(8)" in str(auto(op, "llvm -mcpu=haswell").mod)
assert "__kernel" in str(notebook.asm(op, target="opencl"))
print("done")
"""
TUTORIALS = """
from tests.support.origin_laws import table
from tests.support.tutorials_lowered import lowered

rows, failed = lowered(lambda op, version: table(op.passes(version)))
assert not failed, failed
assert len(rows) >= 58 and all(len(steps) > 5 for steps in rows.values()), sorted(rows)
lost = [f"{name}: {row.step} lost {row.lost[0]}" for name, steps in rows.items() for row in steps if row.lost]
assert not lost, lost
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
def test_schedules_of_the_tutorials_are_lowered_and_lose_nothing() -> None:
    run_blocked(TUTORIALS, 600)
