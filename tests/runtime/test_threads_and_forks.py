"""Calls from several threads, and children that are forked while another thread is inside tvmagic."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import tvmagic
from tvmagic import codegen
from tvmagic.script import from_source

STORE = "@T.prim_func\ndef main(A: T.Buffer((4,)), n: T.int32):\n    A[n] = T.float32(1)\n"
PARALLEL = """@T.prim_func
def main(A: T.Buffer((4,)), n: T.int32):
    for i in T.parallel(64):
        A[n] = T.float32(1)
"""


@pytest.mark.parametrize("source", [STORE, PARALLEL], ids=["serial", "parallel"])
def test_errors_from_threads_keep_their_values(source: str) -> None:
    f = codegen.compile_module(from_source(source), check_bounds=True)
    wrong: list[str] = []

    def work(index: int) -> None:
        for _ in range(400 if source is STORE else 80):  # a parallel call leaves a second record, which nobody reads
            try:
                f(np.zeros(4, "float32"), index)
                wrong.append("no error")
            except tvmagic.TVMagicError as error:
                if f"[{index}]" not in error.message:
                    wrong.append(error.message)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(index,)) for index in range(10, 16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_first_calls_from_threads_compute_the_same() -> None:
    for n in range(20):
        source = f"@T.prim_func\ndef main(A: T.Buffer((4,))):\n    for i in range(4):\n        A[i] = T.float32({n})\n"
        f = codegen.compile_module(from_source(source))
        results = [np.zeros(4, "float32") for _ in range(6)]
        begin = threading.Barrier(6)

        def work(a: np.ndarray, f: object = f, begin: threading.Barrier = begin) -> None:
            begin.wait()
            for _ in range(3):
                f(a)  # type: ignore[operator]

        threads = [threading.Thread(target=work, args=(a,)) for a in results]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all((a == n).all() for a in results)


FORK = """
import os, signal, sys, threading, time
import numpy as np
from tvmagic import codegen
from tvmagic.script import from_source

def function(n):
    return codegen.compile_module(from_source(
        f"@T.prim_func\\ndef main(A: T.Buffer((64,))):\\n    for i in T.parallel(64):\\n        A[i] = T.float32({n})\\n"))

known = function(0)
known(np.ones(64, "float32"))
stop = []
def build():
    n = 1000
    while not stop:
        n += 1
        function(n)(np.zeros(64, "float32"))
threads = [threading.Thread(target=build, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for n in range(1, CHILDREN + 1):
    time.sleep(0.003 * (n % 7))
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs dies
        a = np.zeros(64, "float32")
        function(n)(a)
        b = np.ones(64, "float32")
        known(b)
        os._exit(0 if (a == n).all() and (b == 0).all() else 3)
    status = os.waitpid(child, 0)[1]
    if status:
        print("child", n, "ended with", status)
        os._exit(1)
stop.append(1)
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("children", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_children_forked_during_builds_work(children: int) -> None:
    text = FORK.replace("CHILDREN", str(children))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr[-2000:]


IMPORT = """
import importlib.abc, os, signal, sys, threading, time
import tvmagic

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "tvmagic.codegen.emit.module":
            begun.set()
            time.sleep(1)

begun = threading.Event()
sys.meta_path.insert(0, Slow())
from tvmagic.script import from_source
f = from_source("@T.prim_func\\ndef main(A: T.Buffer((4,))):\\n    A[0] = T.float32(1)\\n")
threading.Thread(target=lambda: tvmagic.build(f), daemon=True).start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    tvmagic.build(f)
    os._exit(0)
os._exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_forked_during_an_import_can_import() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORT.replace("\\\\", "\\")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_no_cached_property_has_a_lock() -> None:
    """The one of Python 3.11 has one for all objects of a class, which a forked child may wait for forever."""
    root = pathlib.Path(tvmagic.__file__).parent
    wrong = [
        path
        for path in root.rglob("*.py")
        if re.search(r"functools(\.| import .*)cached_property", path.read_text(encoding="utf-8"))
        and path.name != "lazy.py"
    ]
    assert not wrong, "import it from tvmagic.lazy"
