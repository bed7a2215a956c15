"""Odd surroundings of a process: no home, closed streams, an ASCII locale, folders that are missing or read-only."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

SESSION = """
import os, sys
import numpy as np
import tvmagic
from tvmagic.codegen.target import Target
from tvmagic.operators import operator
from tvmagic.operators.peaks import kept_peaks
from tvmagic.puzzles.progress import Progress
from tvmagic.tune.measurement_lock import alone
from tvmagic.tune.database import Database

op = operator("add", "A: float32[n]\\nB[i] = A[i] + 1")
assert (op(np.zeros(4, "float32")) == 1).all()
kept_peaks(), Database().entries(), Progress().solved()
Progress().tried("split", True)
with alone():
    pass
assert "B" in str(op) and repr(op)
try:
    operator("wrong", "A: float32[n]\\nB[i] = C[i] \\u00e9")
except tvmagic.TVMagicError as error:
    str(error)
    try:
        print(error)
    except (OSError, UnicodeEncodeError, ValueError, AttributeError):
        pass
os.write(int(sys.argv[1]), b"done")
os._exit(0)
"""
CLOSE = "import os, sys; [os.close(n) for n in (0, 1, 2)]; sys.stdin = sys.stdout = sys.stderr = None\n"
CASES: dict[str, tuple[dict[str, str | None], str]] = {
    "no home": (
        {"HOME": None, "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None},
        "import pwd\npwd.getpwuid = lambda n: {}[n]\n",
    ),
    "home is a file": ({"HOME": "/dev/null", "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}, ""),
    "no temporary folder": ({"TMPDIR": "/nonexistent/folder"}, ""),
    "closed streams": ({}, CLOSE),
    "ASCII": (
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
        "",
    ),
    "cache is a file": ({"TVMAGIC_CACHE": "/dev/null", "TVMAGIC_PROGRESS": "/dev/null/x"}, ""),
}


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
@pytest.mark.parametrize("name", CASES)
def test_session_works(name: str, tmp_path: pathlib.Path) -> None:
    changes, before = CASES[name]
    given = {"HOME": str(tmp_path), "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None, **changes}
    environment = {**os.environ, **{key: value for key, value in given.items() if value is not None}}
    for key in (key for key, value in given.items() if value is None):
        environment.pop(key, None)
    reader, writer = os.pipe()
    command = [sys.executable, "-c", before + SESSION, str(writer)]
    done = subprocess.run(command, env=environment, pass_fds=[writer], capture_output=True, timeout=120, check=False)
    os.close(writer)
    with open(reader, "rb") as said:
        assert said.read() == b"done", done.stderr.decode(errors="replace")[-1500:]
