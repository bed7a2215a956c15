"""Lowering inside Pyodide, in Node. `npm install pyodide` brings it; TVMAGIC_PYODIDE names its folder (`node_modules/pyodide`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from tools import TOOLS, needs

ROOT = Path(__file__).parents[1]
PROGRAM = "tests/support/tutorials_lowered.py"
# Schedules are made for a processor, so for the same one on both sides.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TVMAGIC_TARGET": "llvm -mcpu=haswell -num-cores=2"}
WITHOUT_ARRAYS = "the stand-in for NumPy has no"


def output(*command: str) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=ROOT, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def inside(program: str) -> dict[str, Any]:
    """What a program prints inside Pyodide."""
    folder = os.environ.get("TVMAGIC_PYODIDE")
    if not folder:
        pytest.skip("TVMAGIC_PYODIDE does not name Pyodide's folder")
    run = str(ROOT / "tests/support/pyodide/run.mjs")
    return output(TOOLS["node"].need(), run, folder, str(ROOT), sysconfig.get_path("purelib"), program)


@pytest.mark.soak
@needs("node")
def test_what_is_nested_too_deeply_is_refused_before_the_stack_of_the_browser_ends() -> None:
    ended = inside("tests/support/pyodide/deep_sums.py")
    assert [ended[n] for n in ("8", "40")] == ["lowered"] * 2
    assert all("nested too deeply" in ended[n] for n in ("300", "1000", "3000")), ended


@pytest.mark.soak
@needs("node")
def test_the_tutorials_are_lowered_to_the_same_programs_as_outside() -> None:
    within, outside = inside(PROGRAM), output(sys.executable, PROGRAM)
    assert not outside["failed"] and all(WITHOUT_ARRAYS in message for message in within["failed"].values())
    missing = set(outside["lowered"]) - set(within["lowered"])
    assert len(within["lowered"]) >= 56 and len(missing) <= len(within["failed"])
    different = [name for name, steps in within["lowered"].items() if steps != outside["lowered"][name]]
    # tiled for the cores and caches that the system tells of
    assert all(name.endswith(" ascend") for name in different), different
    steps = sum(map(len, within["lowered"].values()))
    print(f"\n{len(within['lowered'])} programs of {len(outside['lowered'])}, {steps} steps; without NumPy: {missing}")
